"""The rows of a study's tables as series: benchmark, metric and side to runs in their order."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from parity.base.errors import UsageError
from parity.study.schema import COLUMN, Study, Table


@dataclass
class Series:
    """The runs of one benchmark and metric on one side; ``parts`` ran together (clients)."""

    table: Table
    benchmark: str
    metric: str
    side: str
    unit: str
    compared: bool
    parts: dict[str, dict[int, float]] = field(default_factory=dict)     # part -> run -> value

    def runs(self, parts: list[str]) -> list[float]:
        """The mean over ``parts`` of every run that all of them have, in the order of the runs."""
        common = set.intersection(*(set(self.parts[p]) for p in parts)) if parts else set()
        return [fmean(self.parts[p][run] for p in parts) for run in sorted(common)]


Key = tuple[str, str, str]      # benchmark, metric, side


def read(study: Study, folder: Path) -> dict[Key, Series]:
    """Every series of the study. Raises UsageError with file and line for what is no such table."""
    found: dict[Key, Series] = {}
    for table in study.tables:
        for line, row in _rows(folder / table.file, table):
            _add(found, study, table, f'{folder / table.file}:{line}', row)
    return found


def _rows(file: Path, table: Table) -> Iterator[tuple[int, dict[str, str]]]:
    needed = {table.side, table.value, table.order, *table.only, *filter(None, [table.at_once]),
              *(c for text in (table.benchmark, table.metric, table.unit) for c in COLUMN.findall(text))}
    try:
        with file.open(newline='', encoding='utf-8') as text:
            reader = csv.DictReader(text, strict=True)
            if lacking := sorted(needed - set(reader.fieldnames or ())):
                raise UsageError(f'{file}:1: no column {", ".join(lacking)}; '
                                 f'there are: {", ".join(reader.fieldnames or ())}')
            for row in reader:
                if None in row or None in row.values():
                    raise UsageError(f'{file}:{reader.line_num}: must have {len(reader.fieldnames)} columns')
                yield reader.line_num, row
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}') from None
    except (csv.Error, UnicodeDecodeError) as err:
        raise UsageError(f'{file}: not a CSV in UTF-8: {err}') from None


def _add(found: dict[Key, Series], study: Study, table: Table, where: str, row: dict[str, str]) -> None:
    benchmark, metric, unit = (COLUMN.sub(lambda m: row[m[1]], text)
                               for text in (table.benchmark, table.metric, table.unit))
    side, part = row[table.side], row[table.at_once] if table.at_once else ''
    if side not in (study.baseline, study.candidate):
        raise UsageError(f'{where}: {table.side} {side!r}; valid: {study.baseline}, {study.candidate}')
    compared = all(row[column] == value for column, value in table.only.items())
    series = found.setdefault((benchmark, metric, side), Series(table, benchmark, metric, side, unit, compared))
    run = int(_number(row[table.order], f'{where}: {table.order}'))
    runs = series.parts.setdefault(part, {})
    if run in runs:
        raise UsageError(f'{where}: {benchmark} {metric} on {side} has a run {run} before')
    runs[run] = _number(row[table.value], f'{where}: {table.value}')


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f'{where}: {text[:80]!r} is no finite number')
    return value
