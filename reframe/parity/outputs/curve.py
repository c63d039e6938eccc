"""Curves over message sizes, as OSU and IMB print them: columns of fixed width, sizes that double.

Neither program says how many rows there will be, so a row must be whole to its last column, and the
sizes must follow each other without a gap up to the size that is known to be the last.
"""

from __future__ import annotations

import re

from . import Incomplete, Wrong

# What may be a row, damaged or not: all that begins with a figure or a column, or ends in one.
_ROW = re.compile(r'\s*[-+.\d].*|\s{3,}\S.*|.*\s{3,}(?:\d+\.\d\d|Pass|Fail)')
_CUT = re.compile(r'[\d. ]*(?:P|Pa|Pas|F|Fa|Fai)?', re.ASCII)


def split(text: str) -> list[str]:
    """The lines without blanks at their ends; those of CRLF texts, too."""
    return [line.rstrip(' ') for line in text.replace('\r\n', '\n').split('\n')]


def rows(lines: list[str], start: int, stop: int, widths: tuple[int, ...]) -> list[tuple[int, list[str]]]:
    """(number of the line, its words) for every row in ``lines[start:stop]``; lines of others are left out.

    ``widths``: of the columns, negative where the words stand at the left. Raises Wrong for a row that
    does not fill them, Incomplete where it is the cut end of the text.
    """
    return [(at + 1, _whole_row(lines, at, widths)) for at in range(start, stop) if _ROW.fullmatch(lines[at])]


def follows(size: int, before: int | None) -> bool:
    """Whether ``size`` (bytes) may stand below ``before``, or be the first: a power of two, or zero."""
    if before is None:
        return size & (size - 1) == 0
    return size == (before * 2 or 1)


def ended(lines: list[str], last: int, max_size: int) -> None:
    """Raise Incomplete or Wrong unless the table whose last size is ``last`` goes to ``max_size`` (bytes)."""
    if last < max_size:
        raise Incomplete(f'line {len(lines)}: the table ends at {last} B, not at {max_size} B')
    if last > max_size:
        raise Wrong(f'the table goes on to {last} B, beyond {max_size} B')


def _whole_row(lines: list[str], at: int, widths: tuple[int, ...]) -> list[str]:
    words = lines[at].split()
    if len(words) == len(widths) and ''.join(map(_column, words, widths)) == lines[at]:
        return words
    if _CUT.fullmatch(lines[at]) and not any(lines[at + 1:]):
        raise Incomplete(f'line {at + 1}: the output ends within a row: {lines[at][:80]!r}')
    raise Wrong(f'line {at + 1}: {lines[at][:80]!r} is no row of {len(widths)} columns')


def _column(word: str, width: int) -> str:
    return word.rjust(width) if width > 0 else word.ljust(-width)
