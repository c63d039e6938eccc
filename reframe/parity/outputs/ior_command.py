"""Read the command lines that IOR and mdtest print."""

from __future__ import annotations

import getopt
import re
from collections.abc import Sequence

from . import Wrong

_SIZE = re.compile(r'(\d{1,15})([kmgtp]?)', re.ASCII | re.IGNORECASE)


def read(words: Sequence[str], letters: str, long: Sequence[str]) -> dict[str, str]:
    """Option -> value, '' for a flag, of the words after the program; ``letters`` as getopt has them.

    Raises Wrong for any other option: with it, figures may mean something else.
    """
    try:
        found, others = getopt.getopt(words, letters, long)
    except getopt.GetoptError as err:
        valid = [*(f'-{letter}' for letter in letters.replace(':', '')), *(f'--{name}' for name in long)]
        raise Wrong(f'the command line: {err}; parity reads runs with {", ".join(valid)}') from None
    if others:
        raise Wrong(f'the command line has {others[0][:60]!r} where an option should be')
    return {name.lstrip('-'): value for name, value in found}


def size(token: str, what: str) -> int:
    """Bytes (or a count) of a figure such as 8, 4k, 2m, 1g: powers of two."""
    match = _SIZE.fullmatch(token)
    if not match:
        raise Wrong(f'the command line has {token[:40]!r} as {what}: a size such as 4k, 2m or 1g was expected')
    return int(match[1]) << 10 * ' kmgtp'.index(match[2].lower() or ' ')
