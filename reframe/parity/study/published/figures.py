"""The figures of a study, in print and as measured here, in one form."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from statistics import fmean, geometric_mean
from typing import Literal, NamedTuple

from parity.base import csvfile, files, units
from parity.base.csvfile import CsvTable
from parity.base.errors import UsageError
from parity.base.figures import number
from parity.base.groups import grouped
from parity.judge.compare.model import Value
from parity.study.published import file_of, folder
from parity.study.published.model import Study, filled
from parity.study.published.statements import demand

#: Stands among the axes of a figure where several metrics here stand for one in print: the metric's name.
FIGURE = 'figure'
_COLUMNS = ('experiment', 'metric', 'unit', 'better'), ('run', 'value', 'flag', 'where')
#: Units, for a message.
_UNITS = ('s', 'ms', 'B', 'MiB', 'MB/s', 'Mb/s', 'Gflop/s', '%')
#: The column `use`: how far a figure in print can be used -> the label that it has.
USES = {'': '', 'ratio_only': 'ratio_only', 'ratio_only derived': 'ratio_only: derived',
        'page_cache': 'cached: by the page cache', 'derived': 'derived'}


class Flagged(NamedTuple):
    """A figure that is shown, and used for nothing."""

    value: float
    why: str


@dataclass
class StudyCell:
    """The runs of one metric at one point of an experiment; ``flagged`` ones are shown, and used for nothing."""

    experiment: str
    metric: str
    point: dict[str, str]
    unit: str
    better: Literal['higher', 'lower', '']
    values: list[Value] = field(default_factory=list)
    flagged: list[Flagged] = field(default_factory=list)
    status: str = ''                # without values: missing, skipped, failed, wrong or disturbed
    reason: str = ''                # why it has no values
    step: float | None = None       # what the timer resolves
    label: str = ''                 # 'cached: ...': it is not what it seems; in print as `use` says
    line: str = ''                  # in print: file and line
    where: str = ''                 # in print: page, figure or table of the first run
    text: str = ''                  # in print, of one figure: as it stands there, 166.20 s
    deviation: float = 0.0          # in print: the standard deviation of its runs over their mean
    turns: Mapping[str, str] = field(default_factory=dict)     # session -> its repeat, where runs are pairs

    @property
    def mean(self) -> float:
        """Return the geometric mean of the runs; of 0 and below, the arithmetic one."""
        values = [run.value for run in self.values]
        if len(values) == 1 or min(values) <= 0:
            return fmean(values)
        mean = geometric_mean(values)
        return float(f'{mean:.12g}')

    @property
    def figure(self) -> float:
        """Return the mean, or the flagged figure where there is no other."""
        if self.values:
            return self.mean
        return self.flagged[0].value if self.flagged else 0.0

    @property
    def rounding(self) -> float:
        """Return half of the last digit of a figure that is printed once, over the figure.

        The last zeros of a whole number are no digits. A setting or a count, which has no direction, is exact."""
        digits = self.text.partition(' ')[0]
        figure = Decimal(digits or 0)
        if not self.better or not figure:
            return 0.0
        last = figure if '.' in digits else figure.normalize()
        place = int(last.as_tuple().exponent)
        return abs(0.5 * 10.0 ** place / float(figure))

    @property
    def name(self) -> str:
        return metric_name(self.experiment, self.metric, self.point)

    @property
    def disturbed(self) -> bool:
        return self.label.startswith('disturbed')

    @property
    def drawable(self) -> bool:
        """Return whether a plot has it: of settings, deviations and disturbed runs there is none."""
        return bool(self.values and self.better) and not (self.disturbed or self.metric.endswith('_sd'))

    @property
    def cached(self) -> bool:
        return self.label.startswith('cached')

    def without(self, *axes: str) -> dict[str, str]:
        """Return its point without these axes."""
        return {axis: value for axis, value in self.point.items() if axis not in axes}

    def shown(self, value: float) -> str:
        """Return one of its figures as it stands in print, or with its unit."""
        return self.text or f'{number(value)} {self.unit}'.strip()


Cells = Sequence[StudyCell]


def spelled(name: str, point: Mapping[str, str]) -> str:
    """Return `name %axis=value ...`."""
    return name + ''.join(f' %{axis}={value}' for axis, value in point.items())


def metric_name(experiment: str, metric: str, point: Mapping[str, str]) -> str:
    """Return `experiment.metric %axis=value ...`."""
    return spelled(f'{experiment}.{metric}', point)


def count(cells: Cells, axis: str) -> int:
    """Return how many values of an axis these cells have."""
    return len({cell.point.get(axis) for cell in cells})


class RowName(NamedTuple):
    """The name of a row of a study's tables."""

    case: str
    metric: str


def labelled(study: Study, cell: StudyCell) -> RowName:
    """Return the name of a cell's row; behind the metric which of several figures it is."""
    figure = f' ({cell.point[FIGURE]})' if FIGURE in cell.point else ''
    row = study.experiments[cell.experiment].row
    if row:
        case, _, metric = filled(row, cell.point).partition(': ')
        return RowName(case, metric + figure)
    rest = cell.without(study.contrast, FIGURE)
    return RowName(spelled(cell.experiment, rest), cell.metric + figure)


# ---- figures in print

def to_make(study: Study, name: str) -> str:
    """Say how the figures in print are made, where they are not here; '' where they are."""
    if not study.data or os.path.lexists(folder(name) / 'published.csv'):
        return ''
    return f'no figures in print: {study.data}'


def published(study: Study, name: str) -> tuple[list[StudyCell], list[str]]:
    """Return the cells of published.csv, in its order, and notes. UsageError with file, line and what is valid."""
    if to_make(study, name):
        return [], []
    file = file_of(name, 'published.csv')
    axes = [axis for axis in study.axes if axis != 'unit' and (axis != study.contrast or study.candidate)]
    table = CsvTable(files.read(file), str(file), [*_COLUMNS[0], *axes, *_COLUMNS[1]], ('use',))
    printed = _Printed(study)
    for line, row in table.rows():
        try:
            printed.add(row, f'{file}:{line}')
        except (UsageError, ValueError) as err:
            raise UsageError(f'{file}:{line}: {err}') from None
    cells, notes = _joined(study, list(printed.cells.values()))
    deviations = {cell.name: cell.figure for cell in cells if cell.metric.endswith('_sd')}
    for cell in cells:
        of_cell = metric_name(cell.experiment, f'{cell.metric.removesuffix("_mean")}_sd', cell.point)
        cell.deviation = deviations.get(of_cell, 0.0) / (cell.figure or 1.0)
    return cells, notes


class _Printed:
    """The cells of published.csv, as its rows are read."""

    def __init__(self, study: Study):
        self.study = study
        self.cells: dict[str, StudyCell] = {}
        self.first: dict[tuple, StudyCell] = {}         # of an experiment, metric and unit
        self.runs: set[str] = set()

    def add(self, row: dict[str, str], where: str) -> None:
        """Add a row. ValueError says what is wrong with it."""
        _demand_names(self.study, row)
        experiment = self.study.experiments[row['experiment']]
        point = {axis: row[axis] for axis in experiment.axes}
        made = StudyCell(row['experiment'], row['metric'], point, row['unit'], row['better'], step=experiment.step,
                         label=USES[row.get('use', '')], line=where, where=row['where'])
        cell = self.cells.setdefault(made.name, made)
        first = self.first.setdefault(_of_unit(cell), cell)
        factor = units.factor(row['unit'], first.unit)
        alike = units.stem(first.unit) == units.stem(row['unit']) and first.better == row['better']
        if not alike or not factor:
            raise ValueError(f'{cell.name} is in {row["unit"]!r}, {row["better"]!r}; above it is in '
                             f'{first.unit!r}, {first.better!r}: all its rows must be alike')
        cell.text = '' if cell.values or cell.flagged else f'{row["value"]} {row["unit"]}'.strip()
        cell.unit = first.unit
        self._add_run(cell, row, factor)

    def _add_run(self, cell: StudyCell, row: dict[str, str], factor: float) -> None:
        session = f'{cell.name} {row["run"]}'       # no run shares another's; `_number` reads it
        if session in self.runs:
            raise ValueError(f'{cell.name} has a run {row["run"]} above: number each run once')
        self.runs.add(session)
        csvfile.number(row['run'], 'run')
        value = csvfile.number(row['value'], 'value')
        value = in_unit(value, factor)
        if row['flag']:
            cell.flagged.append(Flagged(value, row['flag']))
        else:
            cell.values.append(Value(value, session=session))


def _demand_names(study: Study, row: Mapping[str, str]) -> None:
    """Raise ValueError for a name in a row that means nothing, with what is valid."""
    demand('experiment', row['experiment'], study.experiments)
    experiment = study.experiments[row['experiment']]
    demand('metric', row['metric'], experiment.metrics)
    demand('direction', row['better'], ('higher', 'lower', ''))
    if row['unit'] and not units.stem(row['unit']):
        demand('unit', row['unit'], ('', *sorted(_UNITS)))
    demand('use', row.get('use', ''), USES)
    for axis in study.axes:
        value = row.get(axis, '')
        if axis in experiment.axes:
            valid = study.values(row['experiment'], axis)
            if value not in valid:
                raise ValueError(f'{axis} {value!r}: valid: {", ".join(valid)}')
        elif value and axis != 'unit':
            raise ValueError(f'{axis} {value!r}: {row["experiment"]} has no such axis: leave it empty')


# ---- series that ran at the same time

def _joined(study: Study, cells: list[StudyCell]) -> tuple[list[StudyCell], list[str]]:
    """Make one cell of series that ran together: a run is their mean, over those that all sides have."""
    joint = [name for name, axis in study.axes.items() if axis.simultaneous]
    if not joint:
        return cells, []

    def place(cell: StudyCell, *without: str) -> tuple:
        return cell.experiment, cell.metric, *cell.without(*without, *joint).items()

    def part(cell: StudyCell) -> tuple:
        return tuple((axis, cell.point[axis]) for axis in joint if axis in cell.point)

    rows = grouped(cells, place)
    sides = grouped(rows.values(), lambda row: place(row[0], study.contrast))
    joined, notes = [], []
    for row in rows.values():
        shared = set.intersection(*(set(map(part, side)) for side in sides[place(row[0], study.contrast)]))
        kept = [cell for cell in row if part(cell) in shared]
        flagged = list(itertools.chain.from_iterable(cell.flagged for cell in kept))
        made = replace((kept or row)[0], point=row[0].without(*joint), flagged=flagged, values=_means(kept))
        made.text = '' if row[1:] else row[0].text
        joined.append(made)
        alone = [part(cell) for cell in row if part(cell) not in shared]
        if alone:
            lacking = ', '.join(f'{axis} {value}' for axis, value in itertools.chain.from_iterable(alone))
            notes.append(f'{" ".join(labelled(study, made))}: {lacking} is on {made.point[study.contrast]} only, '
                         'and left out')
    return joined, notes


def _means(cells: Cells) -> list[Value]:
    """Return the mean of each run that all cells have."""
    runs = list(itertools.chain.from_iterable(cell.values for cell in cells))
    means = []
    for alike in grouped(runs, _number).values():
        if len(alike) == len(cells):
            mean = fmean(run.value for run in alike)
            means.append(replace(alike[0], value=mean))
    return means


def _number(run: Value) -> str:
    """Return the number of a run in published.csv."""
    return run.session.rpartition(' ')[2]


# ---- figures that were measured

def in_units_of_print(printed: Cells, here: Cells) -> None:
    """Bring what was measured to the units of print, where both are of one kind."""
    units_of_print = {_of_unit(cell): cell.unit for cell in printed}
    for cell in here:
        unit = units_of_print.get(_of_unit(cell), cell.unit)
        factor = units.factor(cell.unit, unit)
        if unit == cell.unit or not factor or not cell.values:
            continue
        step = cell.step or _last_digit(cell)
        cell.step = step * factor
        cell.unit = unit
        cell.values = [replace(run, value=in_unit(run.value, factor)) for run in cell.values]


def _of_unit(cell: StudyCell) -> tuple:
    """Return what figures share a unit by."""
    return cell.experiment, cell.metric, cell.point.get('unit')


def _last_digit(cell: StudyCell) -> float:
    """Return the place of the last digit of its figures, at most 1."""
    places = [Decimal(repr(run.value)).normalize().as_tuple().exponent for run in cell.values]
    return 10.0 ** min(0, *places)


def in_unit(value: float, factor: float) -> float:
    """Return a figure in another unit."""
    return value if factor == 1 else float(f'{value * factor:.12g}')
