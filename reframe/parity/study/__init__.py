"""Published experiments: what a document prints, checked against itself, and compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from parity.base import csvfile, paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.compare import join
from parity.compare.model import Comparison, Measured, Side, Value

#: The name of a column, or text with names of columns in braces.
COLUMN = re.compile(r'\{([A-Za-z_]\w*)\}')
File = Annotated[str, StringConstraints(pattern=r'^[A-Za-z0-9_-]+\.csv$')]
Digits = Annotated[str, StringConstraints(pattern=r'^\d+(\.\d+)?$')]


class Table(Strict):
    """A CSV with a row for each run. ``benchmark``, ``metric`` and ``unit`` may hold {columns}."""

    file: File
    subsystem: str
    benchmark: str
    metric: str
    unit: str
    side: str                           # the column that names the side
    value: str                          # the column of the figure
    order: str                          # the column that counts the runs of a series
    at_once: str = ''                   # the column of series that ran together: a run is their mean
    direction: Literal['higher', 'lower']
    step: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None      # what the timer resolves
    only: dict[str, str] = {}           # rows that are compared; the others are there for `printed`


class Printed(Strict):
    """An average of the document, to the digits that it prints, and what is known of how it came about."""

    benchmark: str
    metric: str
    side: str
    mean: Digits
    why: str


class Confounder(Strict):
    """What differs between the sides beside what the study set out to compare."""

    what: str
    why: str


class Study(Strict):
    title: str
    source: str
    what: str
    baseline: str
    candidate: str
    tables: list[Table] = Field(min_length=1)
    printed: list[Printed] = []
    confounders: list[Confounder] = []
    notes: list[str] = []


def folder() -> Path:
    return paths.root() / 'studies'


def names() -> list[str]:
    """Every study that there is."""
    return sorted(file.parent.name for file in folder().glob('*/study.yaml'))


def read(name: str) -> Study:
    """The study as its file states it. UsageError names what is valid, or file, line and key."""
    if name not in names():
        raise UsageError(unknown('study', name, names() or ['none']))
    return yamlfile.read(folder() / name / 'study.yaml', Study)


Key = tuple[str, str, str]      # benchmark, metric, side


@dataclass
class Series:
    """The runs of one benchmark and metric on one side; ``parts`` ran together (clients)."""

    table: Table
    unit: str
    compared: bool
    parts: dict[str, dict[int, float]] = field(default_factory=dict)     # part -> run -> value

    def runs(self, parts: list[str]) -> list[float]:
        """The mean over ``parts`` of every run that all of them have, in the order of the runs."""
        common = set.intersection(*(set(self.parts[p]) for p in parts)) if parts else set()
        return [fmean(self.parts[p][run] for p in parts) for run in sorted(common)]


def of_study(name: str) -> Comparison:
    """candidate / baseline of a study, benchmark by benchmark. UsageError where its files are wrong."""
    study = read(name)
    series = read_series(study, folder() / name)
    cells, notes = _cells(study, series)
    one, other = (Side(side, 'published', cells[side]) for side in (study.baseline, study.candidate))
    found = join.compare(one, other)
    return found.model_copy(update={'notes': [*_head(study), *notes, *_mismatches(study, series), *study.notes]})


def read_series(study: Study, folder: Path) -> dict[Key, Series]:
    """Every series of the study's tables. Raises UsageError with file and line for what is no such table."""
    found: dict[Key, Series] = {}
    for table in study.tables:
        needed = {table.side, table.value, table.order, *table.only, *filter(None, [table.at_once]),
                  *(c for text in (table.benchmark, table.metric, table.unit) for c in COLUMN.findall(text))}
        file = folder / table.file
        for line, row in csvfile.rows(csvfile.read(file), str(file), partial(_lacking, needed)):
            _add(found, study, table, f'{file}:{line}', row)
    return found


def _lacking(needed: set[str], header: Sequence[str]) -> str:
    lacking = ', '.join(sorted(needed - set(header)))
    return f'no column {lacking}; there are: {", ".join(header)}' if lacking else ''


def _add(found: dict[Key, Series], study: Study, table: Table, where: str, row: dict[str, str]) -> None:
    benchmark, metric, unit = (COLUMN.sub(lambda m: row[m[1]], text)
                               for text in (table.benchmark, table.metric, table.unit))
    side, part = row[table.side], row[table.at_once] if table.at_once else ''
    if side not in (study.baseline, study.candidate):
        raise UsageError(f'{where}: {table.side} {side!r}; valid: {study.baseline}, {study.candidate}')
    compared = all(row[column] == value for column, value in table.only.items())
    series = found.setdefault((benchmark, metric, side), Series(table, unit, compared))
    run = int(csvfile.number(row[table.order], f'{where}: {table.order}'))
    runs = series.parts.setdefault(part, {})
    if run in runs:
        raise UsageError(f'{where}: {benchmark} {metric} on {side} has a run {run} before')
    runs[run] = csvfile.number(row[table.value], f'{where}: {table.value}')


def _cells(study: Study, series: dict[Key, Series]) -> tuple[dict[str, list[Measured]], list[str]]:
    """Both sides' cells: of series that ran together only those that both sides have."""
    cells: dict[str, list[Measured]] = {study.baseline: [], study.candidate: []}
    notes = []
    for (benchmark, metric, side), found in series.items():
        other = series.get((benchmark, metric, study.candidate if side == study.baseline else study.baseline))
        parts = [p for p in found.parts if other is None or p in other.parts]
        if not found.compared:
            continue
        if len(parts) < len(found.parts):
            alone = ', '.join(p for p in found.parts if p not in parts)
            notes.append(f'{benchmark} {metric}: {found.table.at_once} {alone} is on {side} only, and left out')
        cells[side].append(Measured(
            found.table.subsystem, benchmark.partition(' %')[0], benchmark, metric, found.unit,
            found.table.direction, step=found.table.step, values=[Value(v) for v in found.runs(parts)]))
    return cells, notes


def _head(study: Study) -> Iterator[str]:
    yield f'published: {study.source}: {study.title}'
    if study.confounders:
        differ = '; '.join(f'{c.what}: {c.why}' for c in study.confounders)
        yield (f'each ratio is of these two clusters as a whole, and no measure of a single one of their '
               f'differences; what differs beside {study.candidate} and {study.baseline}: {differ}')


def _mismatches(study: Study, series: dict[Key, Series]) -> Iterator[str]:
    for printed in study.printed:
        found = series.get((printed.benchmark, printed.metric, printed.side))
        runs = found.runs(list(found.parts)) if found else []
        if runs and not agrees(printed, fmean(runs)):
            yield (f'{printed.benchmark} {printed.side} {printed.metric}: the printed average {printed.mean} is '
                   f'not that of the {len(runs)} printed rows, {fmean(runs):.{_digits(printed)}f}: {printed.why}')


def agrees(printed: Printed, mean: float) -> bool:
    """Whether the mean is, in the digits that are printed, the printed one."""
    return abs(Decimal(mean) - Decimal(printed.mean)) <= Decimal(10) ** -_digits(printed) / 2


def _digits(printed: Printed) -> int:
    return len(printed.mean.partition('.')[2])
