"""Published experiments: the rows that a document prints, compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    only: dict[str, str] = {}           # the rows that are compared

    def lacks(self, header: Sequence[str]) -> str:
        """Name the needed columns that ``header`` lacks; '' where it has all."""
        needed = {self.side, self.value, self.order, self.at_once, *self.only,
                  *COLUMN.findall(f'{self.benchmark} {self.metric} {self.unit}')}
        absent = ', '.join(sorted(needed - {'', *header}))
        return f'no column {absent}; there are: {", ".join(header)}' if absent else ''


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
    confounders: list[Confounder] = []
    notes: list[str] = []


def read(name: str) -> Study:
    """Read a study's file. UsageError names the valid studies, or file, line and key."""
    folder = paths.root() / 'studies'
    names = sorted(file.parent.name for file in folder.glob('*/study.yaml'))
    if name not in names:
        raise UsageError(unknown('study', name, names or ['none']))
    return yamlfile.read(folder / name / 'study.yaml', Study)


#: The runs of a benchmark, metric and unit: side -> part (a client of several that ran together) -> run -> value.
Series = dict[tuple[str, str, str], dict[str, dict[str, dict[int, float]]]]


def of_study(name: str) -> Comparison:
    """Compare candidate / baseline, benchmark by benchmark. UsageError where a file of the study is wrong."""
    study = read(name)
    cells: dict[str, list[Measured]] = {study.baseline: [], study.candidate: []}
    notes = []
    for table in study.tables:
        for (benchmark, metric, unit), sides in _series(study, table, paths.root() / 'studies' / name).items():
            both = set.intersection(*map(set, sides.values()))
            for side, parts in sides.items():
                if alone := [part for part in parts if part not in both]:
                    notes.append(f'{benchmark} {metric}: {table.at_once} {", ".join(alone)} is on {side} only, '
                                 'and left out')
                runs = sorted(set.intersection(*(set(parts[part]) for part in both))) if both else []
                cells[side].append(Measured(
                    table.subsystem, benchmark.partition(' %')[0], benchmark, metric, unit, table.direction,
                    step=table.step, values=[Value(fmean(parts[part][run] for part in both)) for run in runs]))
    found = join.compare(*(Side(side, 'published', cells[side]) for side in (study.baseline, study.candidate)))
    return found.model_copy(update={'notes': [*_head(study), *notes, *study.notes]})


def _series(study: Study, table: Table, folder: Path) -> Series:
    """Read the runs of a table. UsageError with file and line."""
    found: Series = {}
    file = folder / table.file
    for line, row in files.rows(files.read(file), str(file), table.lacks):
        where, side = f'{file}:{line}', row[table.side]
        if side not in (study.baseline, study.candidate):
            raise UsageError(f'{where}: {table.side} {side!r}; valid: {study.baseline}, {study.candidate}')
        if any(row[column] != value for column, value in table.only.items()):
            continue
        key = tuple(COLUMN.sub(lambda m, row=row: row[m[1]], text)
                    for text in (table.benchmark, table.metric, table.unit))
        run = int(files.number(row[table.order], f'{where}: {table.order}'))
        runs = found.setdefault(key, {}).setdefault(side, {}).setdefault(row.get(table.at_once, ''), {})
        if run in runs:
            raise UsageError(f'{where}: {key[0]} {key[1]} on {side} has a run {run} before')
        runs[run] = files.number(row[table.value], f'{where}: {table.value}')
    return found


def _head(study: Study) -> Iterator[str]:
    yield f'published: {study.source}: {study.title}'
    if study.confounders:
        differ = '; '.join(f'{c.what}: {c.why}' for c in study.confounders)
        yield (f'each ratio is of these two clusters as a whole, and no measure of a single one of their '
               f'differences; what differs beside {study.candidate} and {study.baseline}: {differ}')
