"""Find what a study quotes in the text of its document."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from parity.study.model import Study

#: TeX that stands for nothing, or for a sign that is left out.
_TEX = re.compile(r'\\(?:text|cdot|times|mu)\b|<[^>]*>')
#: What a line break, a hyphen, an emphasis or a quotation mark may change; a point between digits stays.
_MARKS = re.compile(r'[^\w%.]|_|\.(?!\d)|(?<!\d)\.')


class Quote(NamedTuple):
    """A quote of study.yaml: its keys there, and the name of its finding or part."""

    keys: tuple
    name: str
    text: str


def of_study(study: Study) -> Iterator[Quote]:
    """Yield the quotes of findings, and what stands between double quotation marks in other sentences."""
    for i, finding in enumerate(study.findings):
        if finding.quote:
            yield Quote(('findings', i, 'quote'), finding.id, finding.quote)
    sentences = [(('findings', i, key), finding.id, getattr(finding, key))
                 for i, finding in enumerate(study.findings) for key in ('claim', 'bound', 'not_testable')]
    sentences += [(('repairs', i), 'repairs', text) for i, text in enumerate(study.repairs)]
    sentences += [((part, i), part, entry.why) for part in ('confounders', 'dropped')
                  for i, entry in enumerate(getattr(study, part))]
    for keys, name, text in sentences:
        yield from (Quote(keys, name, quoted) for quoted in re.findall('"([^"]+)"', text))


def absent(study: Study, document: str) -> list[Quote]:
    """Return the quotes that the document does not have. ` ... ` in a quote leaves words out."""
    text = _plain(document)

    def has(quote: str) -> bool:
        at = 0
        for part in map(_plain, quote.split(' ... ')):
            if (at := text.find(part, at)) < 0:
                return False
            at += len(part)
        return True

    return [quote for quote in of_study(study) if not has(quote.text)]


def _plain(text: str) -> str:
    text = unicodedata.normalize('NFKC', _TEX.sub(lambda tex: 'μ' if tex[0] == r'\mu' else '', text))
    return _MARKS.sub('', text)
