"""What is wrong with a history's file, by line and column: read row by row, once it is known to be wrong."""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import math
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

KINDS = ('run', 'rerun')
#: Nothing is measured in more, and the squares of more are no numbers.
LARGEST = 1e100
#: direction: an empty one is the default, higher.
SIGNS = {'higher': 1, 'lower': -1, '': 1}
WHOLE = re.compile(r'^-?[0-9]{1,18}$')
ISO = re.compile(r'^[0-9]{4}-[0-9]{2}-[0-9]{2}$')
NUMBER = re.compile(r'^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$')
COLUMNS = ('series', 'night', 'kind', 'run', 'value')


def first_mistake(raw: bytes, name: str) -> str:
    """One sentence with file, line, column, what is wrong and what would be valid."""
    for line, what in _mistakes(raw):
        return f'{name}:{line}: {what}'
    return f'{name}: this cannot be read as a table of {", ".join(COLUMNS)}'


def _mistakes(raw: bytes) -> Iterator[tuple[int, str]]:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield 1, 'this is UTF-16; must be UTF-8 text'
        return
    try:
        text = raw.decode('utf-8-sig')
    except UnicodeDecodeError as err:
        yield raw[:err.start].count(b'\n') + 1, f'byte {raw[err.start]:#04x} is no UTF-8; must be UTF-8 text'
        return
    lines = csv.reader(io.StringIO(text.rstrip(), newline=''), strict=True)
    try:
        yield from _of_table(lines)
    except csv.Error as err:
        yield lines.line_num, f'no CSV: {err}'


def _of_table(lines) -> Iterator[tuple[int, str]]:
    header = next(lines, [])
    if not header:
        yield 1, f'the file is empty; must begin with a line of columns: {",".join(COLUMNS)}'
        return
    if what := bad_header(header):
        yield 1, what
        return
    seen = _Seen()
    rows = 0
    for row in lines:
        rows += 1
        if len(row) != len(header):
            yield lines.line_num, f'{len(row)} fields, but the header has {len(header)}'
            return
        fields = dict(zip(header, row, strict=True))
        yield from ((lines.line_num, what) for what in seen.row(fields, lines.line_num))
    if not rows:
        yield 1, 'no rows below the header: nothing was measured'
    yield from seen.nights_without_runs()


def bad_header(header: Sequence[str]) -> str:
    """What is wrong with the columns, '' if nothing; others are left alone unless they look like one of ours."""
    missing = [column for column in COLUMNS if column not in header]
    if missing:
        return f'no column {", ".join(missing)}; needed are {", ".join(COLUMNS)}, and direction if wanted'
    twice = [column for column in header if header.count(column) > 1]
    if twice:
        return f'column {twice[0]} stands there twice'
    for column in header:
        near = get_close_matches(column.strip().lower(), (*COLUMNS, 'direction'), n=1, cutoff=0.75)
        if near and column != near[0]:
            return f'column {column!r}; did you mean {near[0]}?'
    return ''


class _Seen:
    """What the rows before have said: of what sort nights are, which runs there are, each series' direction."""

    def __init__(self) -> None:
        self.sort = ''
        self.runs: dict[tuple, int] = {}
        self.direction: dict[str, tuple[str, int]] = {}
        self.nights: dict[tuple[str, str], tuple[int, bool]] = {}

    def row(self, row: dict[str, str], line: int) -> Iterator[str]:
        """What is wrong with one row."""
        series, night, kind = row['series'], row['night'], row['kind']
        if not series:
            yield 'series is empty; must be a name'
        yield from self._night(night)
        if kind not in KINDS:
            yield f'kind {kind!r}; valid: {", ".join(KINDS)}'
        if not WHOLE.match(row['run']):
            yield f'run {row["run"]!r} is no whole number'
        yield from _value(row['value'])
        key = (series, _number(night), kind, _number(row['run']))
        if key in self.runs:
            yield f'{kind} {row["run"]} of series {series!r}, night {night}, was on line {self.runs[key]} already'
        self.runs[key] = line
        at, ran = self.nights.get((series, night), (line, False))
        self.nights[series, night] = (at, ran or kind == 'run')
        yield from self._direction(series, row.get('direction', ''), line)

    def nights_without_runs(self) -> Iterator[tuple[int, str]]:
        for (series, night), (line, ran) in self.nights.items():
            if not ran:
                yield line, f'series {series!r}, night {night} has reruns but no run'

    def _night(self, night: str) -> Iterator[str]:
        sort = 'whole number' if WHOLE.match(night) else 'date' if _date(night) else ''
        if not sort:
            yield f'night {night!r} is neither a whole number nor a date such as 2026-11-20'
        elif self.sort and sort != self.sort:
            yield f'night {night!r} is a {sort}, but those before are {self.sort}s: their order is not known'
        self.sort = self.sort or sort

    def _direction(self, series: str, given: str, line: int) -> Iterator[str]:
        if given not in SIGNS:
            yield f'direction {given!r}; valid: higher, lower, or empty for higher'
        before, at = self.direction.setdefault(series, (given or 'higher', line))
        if given in SIGNS and (given or 'higher') != before:
            yield f'series {series!r} is {given or "higher"} here and {before} on line {at}; must be one direction'


def _value(text: str) -> Iterator[str]:
    if re.fullmatch(r'[+-]?(nan|inf|infinity)', text, re.I) or NUMBER.match(text) and math.isinf(float(text)):
        yield f'value {text} is not finite; a run without a figure is left out of the file'
    elif NUMBER.match(text) and abs(float(text)) >= LARGEST:
        yield f'value {text} is too large to be a figure; must be below {LARGEST:g}'
    elif not NUMBER.match(text):
        yield f'value {text!r} is no number, such as 71.2 or 7.12e4'


def _number(text: str) -> int | str:
    return int(text) if WHOLE.match(text) else text


def _date(text: str) -> bool:
    try:
        return bool(ISO.match(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False
