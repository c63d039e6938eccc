"""The command lines that IOR and mdtest print, read as their own option.c (4.0.0) reads them.

Flags may be joined (-wr), a value follows its option, after a blank or "=" or at once. A value at once is
a trap of theirs: the letters of "-t1m" count as flags, too, so that -m is set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import Wrong

_LONG_FLAGS = ('posix.odirect', 'posix.rangelocks', 'collective', 'dryRun', 'warningAsErrors', 'verify-read',
               'verify-write', 'print-all-procs', 'showRankStatistics')
_NAME = re.compile(r'[\w.-]{1,60}', re.ASCII)
_SIZE = re.compile(r'(\d{1,15})([kmgtp]?)', re.ASCII | re.IGNORECASE)
_SHIFT = {'': 0, 'k': 10, 'm': 20, 'g': 30, 't': 40, 'p': 50}


def read(words: Sequence[str], flags: str, valued: str) -> dict[str, str]:
    """Option -> value, '1' for a flag, from the words after the program's name.

    ``flags`` and ``valued`` are the letters of the options without and with a value; long options keep
    their name, the pairs k=v of every -O stand under their lower-case names. Raises Wrong for an
    option or a word that there cannot be: the command line was altered, or it is another version's.
    """
    found: dict[str, str] = {}
    rest = iter(words)
    may_be_value = False
    for word in rest:
        if word.startswith('--') and len(word) > 2:
            name, equal, value = word[2:].partition('=')
            found[_named(name)] = value or '1'
            may_be_value = not equal and name not in _LONG_FLAGS
            continue
        if word.startswith('-') and len(word) > 1:
            _short(word[1:], rest, flags, valued, found)
        elif not may_be_value:
            raise Wrong(f'the command line has {word[:60]!r} where an option should be')
        may_be_value = False
    return found


def size(token: str, what: str) -> int:
    """Bytes (or a count) of a figure such as 8, 4k, 2m, 1g: powers of two; raises Wrong for others."""
    match = _SIZE.fullmatch(token)
    if not match:
        raise Wrong(f'the command line has {token[:40]!r} as {what}: a size such as 4k, 2m or 1g was expected')
    return int(match[1]) << _SHIFT[match[2].lower()]


def _short(text: str, rest, flags: str, valued: str, found: dict[str, str]) -> None:
    letters, equal, value = text.partition('=')
    given = value if equal else None
    for letter in letters:
        if letter in valued:
            if given is None:
                given = letters[1:] if letter == letters[0] and letters[1:] else next(rest, '')
            _set(letter, given, found)
        elif letter in flags:
            found[letter] = given if equal else '1'
        elif letters[0] not in valued:
            raise Wrong(f'the command line has the unknown option -{letter[:1]!r}')


def _set(letter: str, value: str, found: dict[str, str]) -> None:
    found[letter] = value
    if letter == 'O':
        for pair in value.split(','):
            name, _, setting = pair.partition('=')
            found[_named(name.strip().lower().removeprefix('--'))] = setting.strip()


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Wrong(f'the command line has the unknown option {name[:60]!r}')
    return name
