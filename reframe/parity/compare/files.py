"""Results in a file: a report of ReFrame (JSON), or a CSV of one row a run.

The columns of the CSV are benchmark, metric and value, and, where they are known, unit, direction (higher,
the default, or lower is better) and subsystem; rows of one benchmark and metric stand in the order of time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parity.base import csvfile
from parity.base.errors import UsageError
from parity.compare import sessions
from parity.compare.sides import Measured, Side, Value
from parity.records import history, kept, outset, record

_NEEDED = ('benchmark', 'metric', 'value')
_OPTIONAL = ('unit', 'direction', 'subsystem')
_DIRECTIONS = ('higher', 'lower')


def side(file: str) -> Side:
    """The side in a file. Raises UsageError with file, line and what would be valid."""
    path = Path(file)
    raw = csvfile.read(path)
    if path.suffix == '.csv':
        return Side(path.name, 'file', _cells(file, raw))
    try:
        return _report(path, json.loads(raw.decode('utf-8')))
    except json.JSONDecodeError as err:
        raise UsageError(f'{file}:{err.lineno}: not JSON: {err.msg}; a file with results is a report of ReFrame '
                         '(.json) or a .csv') from None
    except (ValueError, RecursionError) as err:      # ValueError: bytes that are no UTF-8
        raise UsageError(f'{file}: not a {path.suffix or "report"} in UTF-8: {err}') from None


def _report(path: Path, report: Any) -> Side:
    try:
        here = path.resolve().parent.parent / 'sessions'     # a report lies in reports/, beside it
        session = record.of_report(outset.joined(report, here if here.is_dir() else outset.folder()))
        side = sessions.side(path.name, 'file', history.of_session(session).lazy())
        side.notes += [f'{session.lost}: what never ran is not told'] if session.lost else []
        return side
    except (*kept.MALFORMED, kept.Unreadable):
        raise UsageError(f'{path}: not a report of ReFrame: no session_info, or no runs with testcases') from None


def _cells(file: str, raw: bytes) -> list[Measured]:
    cells: dict[tuple[str, str], Measured] = {}
    for line, fields in csvfile.rows(raw, file, _bad_header):
        row = {name.strip(): value.strip() for name, value in fields.items()}
        key, unit = (row['benchmark'], row['metric']), row.get('unit', '')
        direction = row.get('direction') or _DIRECTIONS[0]
        if not all(key):
            raise UsageError(f'{file}:{line}: benchmark and metric must not be empty')
        if direction not in _DIRECTIONS:
            raise UsageError(f'{file}:{line}: direction {direction[:80]!r}; valid: {", ".join(_DIRECTIONS)}')
        cell = cells.setdefault(key, Measured(row.get('subsystem', ''), key[0], *key, unit, direction))
        if (said := (unit, direction)) != (before := (cell.unit, cell.better)):
            raise UsageError(f'{file}:{line}: {key}: unit and direction {said}, before {before}')
        cell.values.append(Value(csvfile.number(row['value'], f'{file}:{line}: value')))
    if not cells:
        raise UsageError(f'{file}: holds no row below its header')
    return list(cells.values())


def _bad_header(header: Sequence[str]) -> str:
    columns = [c.strip() for c in header]
    valid = f'valid: {", ".join(_NEEDED)}, and perhaps {", ".join(_OPTIONAL)}'
    if wrong := [c for c in columns if c not in _NEEDED + _OPTIONAL]:
        return f'unknown column {wrong[0][:80]!r}; {valid}'
    if lacking := [c for c in _NEEDED if c not in columns]:
        return f'no column {", ".join(lacking)}; {valid}'
    return f'a column is there twice; {valid}' if len(set(columns)) < len(columns) else ''
