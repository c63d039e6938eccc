"""A CSV that people write: rows with their lines, and what is wrong by file and line."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from parity.base.errors import UsageError


def read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except (OSError, ValueError) as err:            # ValueError: a null byte in the name
        raise UsageError(f'{file}: {getattr(err, "strerror", None) or err}') from None


def rows(raw: bytes, name: str, wrong: Callable[[Sequence[str]], str],
         blank: bool = True) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, row by column) below the header of the file ``name``. UsageError gives file and line.

    ``wrong`` says what is wrong with a header, '' if nothing. ``blank`` lines are skipped, or else refused."""
    lines = csv.reader(io.StringIO(_text(raw, name).rstrip(), newline=''), strict=True)
    try:
        header = next(lines, [])
        if what := wrong(header):
            raise UsageError(f'{name}:1: {what}{"" if header else "; the file is empty"}')
        for row in lines:
            if len(row) == len(header):
                yield lines.line_num, dict(zip(header, row, strict=True))
            elif row or not blank:
                raise UsageError(f'{name}:{lines.line_num}: {len(row)} fields; must have {len(header)} columns')
    except csv.Error as err:
        raise UsageError(f'{name}:{lines.line_num}: no CSV: {err}') from None


def number(text: str, where: str) -> float:
    """Return the finite number in ``text``; ``where`` is file, line and column."""
    with contextlib.suppress(ValueError):
        if '_' not in text and math.isfinite(value := float(text)):
            return value
    raise UsageError(f'{where} {text[:80]!r} is no finite number')


def _text(raw: bytes, name: str) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f'{name}:1: this is UTF-16; must be UTF-8 text')
    try:
        return raw.decode('utf-8-sig')
    except UnicodeDecodeError as err:
        line = raw[:err.start].count(b'\n') + 1
        raise UsageError(f'{name}:{line}: byte {raw[err.start]:#04x} is no UTF-8; must be UTF-8 text') from None
