"""Curves over message sizes, as OSU, IMB and mpi4py print them: rows of one width, sizes that double."""

from __future__ import annotations

import re

from . import Incomplete, Wrong
from .reader import Lines

_LEAST = 4096           # OSU and mpi4py print no end: a table that stops below this many bytes was cut


def table(out: Lines, heading: str, row: str, width: int, last: int | None = None) -> dict[int, re.Match[str]]:
    """Every ``row`` below the one line with the words ``heading``, by its message size (bytes), which is group 1.

    Each has ``width`` characters: a row that lost some of its digits has fewer. ``last``: the last size that was
    asked for. Raises Incomplete for a table or row that ends early, Wrong for a row or a size that does not fit.
    """
    words = ' *' + ' +'.join(map(re.escape, heading.split()))
    out.one(words, heading)
    found: dict[int, re.Match[str]] = {}
    before = None
    for at in range(out.found(words)[0][0], len(out.lines)):
        line = out.lines[at]
        if not re.match(r' *[-+.\d]| {3}', line):
            continue                                # a line of the job
        match = re.fullmatch(row, line, re.ASCII)
        if not match or len(line) != width:
            if not any(out.lines[at + 1:]):
                raise Incomplete(f'line {at + 1}: the output ends within a row: {line[:80]!r}')
            raise Wrong(f'line {at + 1}: {line[:80]!r} is no row of the table')
        size = int(match[1])
        if size != (2 * before or 1) if before is not None else size & (size - 1):
            raise Wrong(f'line {at + 1}: {size} B is not the size that follows: powers of two without a gap')
        found[size], before = match, size
    _ended(out, before, last)
    return found


def _ended(out: Lines, ends: int | None, last: int | None) -> None:
    if ends is None:
        raise Incomplete(f'line {out.end}: the output ends without a row in its table')
    if ends < (_LEAST if last is None else last):
        wanted = f', not at {last} B' if last else ' already'
        raise Incomplete(f'line {out.end}: the table ends at {ends} B{wanted}')
    if last is not None and ends > last:
        raise Wrong(f'the table goes on to {ends} B, beyond {last} B')
