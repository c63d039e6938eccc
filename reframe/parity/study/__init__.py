"""Published experiments: the rows that a document prints, compared, and its averages, checked against its rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from parity.base import files, paths, yamlfile
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

    def lacks(self, header: Sequence[str]) -> str:
        """Name the needed columns that ``header`` lacks; '' where it has all."""
        needed = {self.side, self.value, self.order, self.at_once, *self.only,
                  *COLUMN.findall(f'{self.benchmark} {self.metric} {self.unit}')}
        absent = ', '.join(sorted(needed - {'', *header}))
        return f'no column {absent}; there are: {", ".join(header)}' if absent else ''


class Printed(Strict):
    """An average that the document prints, with all its digits, and the known reason for it."""

    benchmark: str
    metric: str
    side: str
    mean: Digits
    why: str


class Confounder(Strict):
    """A difference between the sides that the study did not set out to compare."""

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


def read(name: str) -> Study:
    """Read a study's file. UsageError names the valid studies, or file, line and key."""
    folder = paths.root() / 'studies'
    names = sorted(file.parent.name for file in folder.glob('*/study.yaml'))
    if name not in names:
        raise UsageError(unknown('study', name, names or ['none']))
    return yamlfile.read(folder / name / 'study.yaml', Study)


Key = tuple[str, str, str]      # benchmark, metric, side


@dataclass
class Series:
    """The runs of one benchmark and metric on one side; ``parts`` ran together (clients)."""

    table: Table
    unit: str
    compared: bool
    parts: dict[str, dict[int, float]] = field(default_factory=dict)     # part -> run -> value

    def runs(self, parts: Collection[str]) -> list[float]:
        """Return the mean over ``parts`` of each run that all parts have, in the order of the runs."""
        common = set.intersection(*(set(self.parts[p]) for p in parts)) if parts else set()
        return [fmean(self.parts[p][run] for p in parts) for run in sorted(common)]


def of_study(name: str) -> Comparison:
    """Compare candidate / baseline, benchmark by benchmark. UsageError where a file of the study is wrong."""
    study = read(name)
    series = _series(study, paths.root() / 'studies' / name)
    cells, notes = _cells(study, series)
    found = join.compare(*(Side(side, 'published', cells[side]) for side in (study.baseline, study.candidate)))
    return found.model_copy(update={'notes': [*_head(study), *notes, *_mismatches(study, series), *study.notes]})


def _series(study: Study, folder: Path) -> dict[Key, Series]:
    """Read every series of the study's tables. UsageError with file and line."""
    found: dict[Key, Series] = {}
    for table in study.tables:
        file = folder / table.file
        for line, row in files.rows(files.read(file), str(file), table.lacks):
            _add(found, study, table, f'{file}:{line}', row)
    return found


def _add(found: dict[Key, Series], study: Study, table: Table, where: str, row: dict[str, str]) -> None:
    benchmark, metric, unit = (COLUMN.sub(lambda m: row[m[1]], text)
                               for text in (table.benchmark, table.metric, table.unit))
    side, part = row[table.side], row[table.at_once] if table.at_once else ''
    if side not in (study.baseline, study.candidate):
        raise UsageError(f'{where}: {table.side} {side!r}; valid: {study.baseline}, {study.candidate}')
    compared = all(row[column] == value for column, value in table.only.items())
    series = found.setdefault((benchmark, metric, side), Series(table, unit, compared))
    run = int(files.number(row[table.order], f'{where}: {table.order}'))
    runs = series.parts.setdefault(part, {})
    if run in runs:
        raise UsageError(f'{where}: {benchmark} {metric} on {side} has a run {run} before')
    runs[run] = files.number(row[table.value], f'{where}: {table.value}')


def _cells(study: Study, series: dict[Key, Series]) -> tuple[dict[str, list[Measured]], list[str]]:
    """Return both sides' cells. Of series that ran together they hold only those that both sides have."""
    cells: dict[str, list[Measured]] = {study.baseline: [], study.candidate: []}
    notes = []
    for (benchmark, metric, side), found in series.items():
        if not found.compared:
            continue
        other = series.get((benchmark, metric, study.candidate if side == study.baseline else study.baseline))
        parts = [p for p in found.parts if other is None or p in other.parts]
        if alone := [p for p in found.parts if p not in parts]:
            notes.append(f'{benchmark} {metric}: {found.table.at_once} {", ".join(alone)} is on {side} only, '
                         'and left out')
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
    """Tell the averages that their rows do not give, to the digits that are printed."""
    for printed in study.printed:
        found = series.get((printed.benchmark, printed.metric, printed.side))
        runs = found.runs(found.parts) if found else []
        digits = len(printed.mean.partition('.')[2])
        if runs and abs(Decimal(fmean(runs)) - Decimal(printed.mean)) > Decimal(10) ** -digits / 2:
            yield (f'{printed.benchmark} {printed.side} {printed.metric}: the printed average {printed.mean} is '
                   f'not that of the {len(runs)} printed rows, {fmean(runs):.{digits}f}: {printed.why}')
