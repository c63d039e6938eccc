"""Find what a study quotes in the text of its document."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from parity.study.published.model import Study

#: TeX that stands for nothing, or for a sign that is left out.
_TEX = re.compile(r'\\(?:text|cdot|times|mu)\b|<[^>]*>')
#: What a line break, a hyphen, an emphasis or a quotation mark may change; a point between digits stays.
_MARKS = re.compile(r'[^\w%.]|_|\.(?!\d)|(?<!\d)\.')


def of_study(study: Study) -> Iterator[tuple[tuple, str]]:
    """Yield each quote with its keys in study.yaml: of findings, and between double quotation marks elsewhere."""
    def within(part: Any, *keys: Any) -> Iterator[tuple[tuple, str]]:
        if isinstance(part, str):
            texts = [part] if keys[-1] == 'quote' else re.findall('"([^"]+)"', part)
            yield from ((keys, text) for text in texts)
        elif isinstance(part, dict | list):
            for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
                yield from within(inner, *keys, key)
    yield from within(study.model_dump(exclude_defaults=True))


def absent(study: Study, document: str) -> list[tuple[tuple, str]]:
    """Return the quotes that the document does not have. ` ... ` in a quote leaves words out."""
    text = _plain(document)

    def has(quote: str) -> bool:
        at = 0
        for part in map(_plain, quote.split(' ... ')):
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True

    return [(keys, quote) for keys, quote in of_study(study) if not has(quote)]


def _plain(text: str) -> str:
    text = unicodedata.normalize('NFKC', _TEX.sub(lambda tex: 'μ' if tex[0] == r'\mu' else '', text))
    return _MARKS.sub('', text)
