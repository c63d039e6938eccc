"""Tables by message size, as MPI benchmarks print them: under each heading the figures end where its words end.

    rows = COLUMNS.rows(out, last=1 << 20)      # the figures of each message size, by the name of their column"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from parity.measure.check.reader import Incomplete, Lines, Unread, Wrong

#: The expression of a figure with two decimals, and of a count.
FIGURE, COUNT = r'\d+\.\d\d', r'[1-9]\d*'
_LEAST = 4096           # bytes: a table without an end that stops below was cut
_QUOTED = 80            # characters of a line in a message

Row = dict[str, str]


class Column(NamedTuple):
    """A column of a table: its name, and where its figures end."""

    name: str
    end: int


@dataclass(frozen=True)
class Columns:
    """A table by message size: ``first`` heads the sizes, ``others`` the columns that are read, each with the
    expression of its figures."""

    first: str
    others: dict[str, str]

    def rows(self, out: Lines, last: int | None = None) -> dict[int, Row]:
        """Return the figures of each message size (bytes), by the name of their column.

        ``last`` is the last size that was asked for. Raise Incomplete for a table that ends early, and Wrong for a
        row or a size that does not fit. Raise Unread for a column that is not read."""
        at, columns = self._heading(out)
        rows: dict[int, Row] = {}
        before = None
        for number, line in enumerate(out.lines[at + 1:], out.first + at + 1):
            if not _is_figures(line):
                continue                                # a line of the job
            row = self._row(out, number, line, columns)
            size = int(row[self.first])
            _demand_next(number, before, size)
            rows[size] = row
            before = size
        _demand_last(out, rows, last)
        return rows

    def _heading(self, out: Lines) -> tuple[int, list[Column]]:
        """Return the place of the heading, and its columns but for the first."""
        headings = [at for at, line in enumerate(out.lines) if self._is_heading(line)]
        if not headings:
            self._refuse_without_heading(out)
        if len(headings) > 1:
            one, other = (out.first + at for at in headings[:2])
            raise Wrong(f'{len(headings)} headings "{self.first} ...", in lines {one} and {other}')
        at = headings[0]
        columns = self._columns(out.lines[at])
        if columns:
            return at, columns
        heading = out.lines[at].strip()[:_QUOTED]
        if not any(map(_is_figures, out.lines[at + 1:])):
            raise Incomplete(f'line {out.first + at}: the output ends within its heading: {heading!r}')
        raise Unread(f'line {out.first + at}: a table with the heading {heading!r}; '
                     f'read are the columns {", ".join(self.others)}')

    def _refuse_without_heading(self, out: Lines) -> NoReturn:
        """Raise Incomplete where the output ends above its table, Unread where it has figures of another kind."""
        heading = f'"{self.first} ...", the heading of its table'
        for at, line in enumerate(out.lines, out.first):
            if _is_figures(line):
                raise Unread(f'line {at}: {line.strip()[:_QUOTED]!r} stands without {heading}')
        raise Incomplete(f'line {out.end}: the output ends without {heading}')

    def _is_heading(self, line: str) -> bool:
        return re.match(rf' *{re.escape(self.first)}( |$)', line) is not None

    def _columns(self, heading: str) -> list[Column]:
        """Return the columns of a heading but for the first; none where one is not read."""
        names = '|'.join(map(re.escape, sorted(self.others, key=len, reverse=True)))
        begin = heading.index(self.first) + len(self.first)
        columns = []
        for word in re.finditer(rf' +({names})(?= |$)|\S', heading[begin:]):
            if not word[1]:
                return []
            columns.append(Column(word[1], begin + word.end()))
        return columns

    def _row(self, out: Lines, number: int, line: str, columns: list[Column]) -> Row:
        """Return the figures of a line, each under its heading."""
        words = list(re.finditer(r'\S+', line))
        ends = [word.end() for word in words[1:]]
        fits = ends == [column.end for column in columns] and re.fullmatch(r'\d{1,15}', words[0][0], re.ASCII)
        row = {self.first: words[0][0]} if fits else {}
        for column, word in zip(columns, words[1:], strict=False):
            if not re.fullmatch(self.others[column.name], word[0], re.ASCII):
                fits = None
            row[column.name] = word[0]
        if fits:
            return row
        if not any(out.lines[number - out.first + 1:]):
            raise Incomplete(f'line {number}: the output ends within a row: {line[:_QUOTED]!r}')
        raise Wrong(f'line {number}: {line[:_QUOTED]!r} is no row of the table')


def _is_figures(line: str) -> bool:
    """Return whether a line below a heading may be a row, whole or damaged."""
    return re.match(r' *[-+.\d]| {3}', line) is not None


def _demand_next(number: int, before: int | None, size: int) -> None:
    """Raise Wrong for a message size that is not the next one: powers of two without a gap."""
    fits = size & (size - 1) == 0
    if before is not None:
        fits = size == (2 * before or 1)
    if not fits:
        raise Wrong(f'line {number}: {size} B is not the size that follows: powers of two without a gap')


def _demand_last(out: Lines, sizes: Collection[int], last: int | None) -> None:
    """Raise Incomplete for a table that ends before ``last``, Wrong for one that goes on."""
    if not sizes:
        raise Incomplete(f'line {out.end}: the output ends without a row in its table')
    ends = max(sizes)
    if last is None and ends < _LEAST:
        raise Incomplete(f'line {out.end}: the table ends at {ends} B already')
    if last is not None and ends < last:
        raise Incomplete(f'line {out.end}: the table ends at {ends} B, not at {last} B')
    if last is not None and ends > last:
        raise Wrong(f'the table goes on to {ends} B, beyond {last} B')


def demand_first(out: Lines, sizes: Collection[int], first: int) -> None:
    """Raise Incomplete for a table that begins after ``first``, Wrong for one that begins before it. 0 B may stand
    before any."""
    begins = min(sizes)
    if begins > first:
        raise Incomplete(f'line {out.end}: the table begins at {begins} B, not at {first} B')
    if 0 < begins < first:
        raise Wrong(f'the table begins at {begins} B, before {first} B')


def table(out: Lines, heading: str, row: str, width: int, last: int | None = None, first: int = 1
          ) -> dict[int, re.Match[str]]:
    """Return each ``row`` below the line with the words ``heading``, by its message size (bytes), group 1.

    Each has ``width`` characters, and its figures, the other groups, end where those of the first row do.
    It is for a heading whose words do not end where the figures do; Columns is for all others."""
    words = ' *' + ' +'.join(map(re.escape, heading.split()))
    out.one(words, heading)
    begin = out.matches(words)[0][0]
    rows: dict[int, re.Match[str]] = {}
    before, columns = None, None
    for number, line in enumerate(out.lines[begin + 1 - out.first:], begin + 1):
        if not _is_figures(line):
            continue                                # a line of the job
        match = re.fullmatch(row, line, re.ASCII)
        ends = [end for _, end in match.regs[2:]] if match else []
        columns = columns or ends
        if not match or len(line) != width or ends != columns:
            if not any(out.lines[number - out.first + 1:]):
                raise Incomplete(f'line {number}: the output ends within a row: {line[:_QUOTED]!r}')
            raise Wrong(f'line {number}: {line[:_QUOTED]!r} is no row of the table')
        size = int(match[1])
        _demand_next(number, before, size)
        rows[size] = match
        before = size
    _demand_last(out, rows, last)
    demand_first(out, rows, first)
    return rows
