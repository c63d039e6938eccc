"""Results in a file: a report of ReFrame (JSON), or a CSV of one row a run.

The columns of the CSV are benchmark, metric and value, and, where they are known, unit, direction (higher,
the default, or lower is better) and subsystem; rows of one benchmark and metric stand in the order of time.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parity.base.errors import UsageError
from parity.compare import kept, sessions
from parity.compare.sides import Measured, Side, Value

_NEEDED = ('benchmark', 'metric', 'value')
_OPTIONAL = ('unit', 'direction', 'subsystem')
_DIRECTIONS = ('higher', 'lower')


def side(file: str) -> Side:
    """What the file holds. Raises UsageError with file, line and what would be valid."""
    path = Path(file)
    try:
        if path.suffix == '.csv':
            with path.open(newline='', encoding='utf-8-sig') as text:
                return Side(path.name, 'file', _cells(file, text))
        return _report(path, json.loads(path.read_text(encoding='utf-8')))
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}') from None
    except json.JSONDecodeError as err:
        raise UsageError(f'{file}:{err.lineno}: not JSON: {err.msg}; a file with results is a report of ReFrame '
                         '(.json) or a .csv') from None
    except (csv.Error, ValueError, RecursionError) as err:      # ValueError: bytes that are no UTF-8
        raise UsageError(f'{file}: not a {path.suffix or "report"} in UTF-8: {err}') from None


def _report(path: Path, report: Any) -> Side:
    try:
        return sessions.merged(path.name, 'file', [kept.of_report(report)])
    except (KeyError, TypeError, AttributeError, ValueError, IndexError):
        raise UsageError(f'{path}: not a report of ReFrame: no session_info, or no runs with testcases') from None


def _cells(file: str, text) -> list[Measured]:
    cells: dict[tuple[str, str], Measured] = {}
    for line, row in _rows(file, text):
        key = row['benchmark'], row['metric']
        cell = cells.setdefault(key, Measured(row.get('subsystem', ''), key[0], *key, row.get('unit', ''),
                                              row.get('direction') or _DIRECTIONS[0]))
        said = row.get('unit', ''), row.get('direction') or _DIRECTIONS[0]
        if said != (cell.unit, cell.better):
            raise UsageError(f'{file}:{line}: {key}: unit and direction {said}, before '
                             f'{(cell.unit, cell.better)}')
        cell.values.append(Value(_number(f'{file}:{line}: value', row['value'])))
    if not cells:
        raise UsageError(f'{file}: holds no row below its header')
    return list(cells.values())


def _rows(file: str, text) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(text, strict=True)
    columns = [c.strip() for c in reader.fieldnames or ()]
    valid = f'valid: {", ".join(_NEEDED)}, and perhaps {", ".join(_OPTIONAL)}'
    if wrong := [c for c in columns if c not in _NEEDED + _OPTIONAL]:
        raise UsageError(f'{file}:1: unknown column {wrong[0][:80]!r}; {valid}')
    if lacking := [c for c in _NEEDED if c not in columns]:
        raise UsageError(f'{file}:1: no column {", ".join(lacking)}; {valid}')
    if len(set(columns)) < len(columns):
        raise UsageError(f'{file}:1: a column is there twice; {valid}')
    reader.fieldnames = columns
    for row in reader:
        if None in row or None in row.values():
            raise UsageError(f'{file}:{reader.line_num}: must have {len(columns)} columns, as its header')
        row = {name: value.strip() for name, value in row.items()}
        if not row['benchmark'] or not row['metric']:
            raise UsageError(f'{file}:{reader.line_num}: benchmark and metric must not be empty')
        if row.get('direction') and row['direction'] not in _DIRECTIONS:
            raise UsageError(f'{file}:{reader.line_num}: direction {row["direction"][:80]!r}; '
                             f'valid: {", ".join(_DIRECTIONS)}')
        yield reader.line_num, row


def _number(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or '_' in text:
        raise UsageError(f'{where} {text[:80]!r} is no finite number')
    return value
