"""CSV: one reader for `parity detect`, `parity compare` and the published figures of studies, and one writer."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from parity.base.errors import UsageError
from parity.base.text import in_csv

if TYPE_CHECKING:
    import polars as pl


def written(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV, below a header; no text in it is a formula to a spreadsheet."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator='\n')
    lines.writerows([columns, *([in_csv(value) for value in row] for row in rows)])
    return out.getvalue()


@dataclass(frozen=True)
class CsvTable:
    """The bytes of the CSV file ``name``. Blanks around names and values do not count.

    It has the columns ``needed``, perhaps some of ``optional``, and, where ``others`` is set, any that do not look
    like these. ``blank`` lines are skipped, or else refused. UsageError gives file and line."""

    raw: bytes
    name: str
    needed: Sequence[str]
    optional: Sequence[str] = ()
    others: bool = False
    blank: bool = True

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield (line, row by column) below the header."""
        lines = csv.reader(io.StringIO(self._text().rstrip(), newline=''), strict=True)
        any_row = False
        try:
            header = [column.strip() for column in next(lines, [])]
            self._demand_columns(header)
            for row in lines:
                any_row = True
                if len(row) == len(header):
                    yield lines.line_num, dict(zip(header, map(str.strip, row), strict=True))
                elif row or not self.blank:
                    raise UsageError(f'{self.name}:{lines.line_num}: {len(row)} fields; must have {len(header)} '
                                     'columns')
        except csv.Error as err:
            raise UsageError(f'{self.name}:{lines.line_num}: cannot be read as CSV: {err}; quote it') from None
        if not any_row:
            raise UsageError(f'{self.name}:1: no rows below the header: nothing was measured; add a row a figure')

    def frame(self) -> pl.DataFrame:
        """Return the columns as text, '' where there is nothing. polars reads a million rows in a second."""
        import polars as pl
        next(self.rows())
        try:
            read = pl.read_csv(io.BytesIO(self.raw.rstrip()), infer_schema=False).rename(str.strip)
        except pl.exceptions.PolarsError:
            deque(self.rows(), 0)       # it knows the line
            raise UsageError(f'{self.name}: no CSV; must have {", ".join(self.needed)}') from None
        columns = []
        for name in (*self.needed, *self.optional):
            columns.append(pl.col(name) if name in read.columns else pl.lit('').alias(name))
        return read.select(columns).select(pl.all().fill_null('').str.strip_chars())

    def refuse(self, frame: pl.DataFrame, wrong: dict[str, pl.Expr | pl.Series]) -> None:
        """Raise UsageError at the first row of ``frame`` for which a mask holds, with the message of the mask."""
        import polars as pl
        first_row, message = frame.height, ''
        for mask_message, mask in wrong.items():
            row = frame.select(pl.arg_where(mask).first()).item()
            if row is not None and row < first_row:
                first_row, message = row, mask_message
        if message:
            line, _ = next(islice(self.rows(), first_row, None))
            raise UsageError(f'{self.name}:{line}: {message.format(**frame.row(first_row, named=True))}')

    def _demand_columns(self, header: Sequence[str]) -> None:
        """Raise UsageError for wrong columns."""
        wrong = self._wrong(header)
        if wrong:
            empty = '' if header else '; the file is empty'
            raise UsageError(f'{self.name}:1: {wrong}{empty}')

    def _wrong(self, header: Sequence[str]) -> str:
        """Return what is wrong with the columns, '' if nothing."""
        valid = (*self.needed, *self.optional)
        needed = f'needed are {", ".join(self.needed)}'
        if self.optional:
            needed += f', and perhaps {", ".join(self.optional)}'
        for column in header:
            if header.count(column) > 1:
                return f'column {column[:80]} is named twice; name each once'
        for column in header:
            if column in valid:
                continue
            near = get_close_matches(column.lower(), valid, n=1, cutoff=0.75)
            if near:
                return f'column {column[:80]!r}; did you mean {near[0]}?'
            if not self.others:
                return f'unknown column {column[:80]!r}; {needed}'
        missing = [column for column in self.needed if column not in header]
        return f'no column {", ".join(missing)}; {needed}' if missing else ''

    def _text(self) -> str:
        if self.raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(f'{self.name}:1: this is UTF-16; must be UTF-8 text')
        try:
            return self.raw.decode('utf-8-sig')
        except UnicodeDecodeError as err:
            line = self.raw[:err.start].count(b'\n') + 1
            raise UsageError(f'{self.name}:{line}: byte {self.raw[err.start]:#04x} is no UTF-8; must be UTF-8 '
                             'text') from None


def number(text: str, where: str) -> float:
    """Return the finite number in ``text``; ``where`` is file, line and column."""
    with contextlib.suppress(ValueError):
        if '_' not in text and math.isfinite(value := float(text)):
            return value
    raise UsageError(f'{where} {text[:80]!r} must be a finite number')
