"""The figures of a study, in print and as measured here, in one form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from statistics import fmean, geometric_mean
from typing import Literal

from parity.base import csvfile, files, units
from parity.base.csvfile import CsvTable
from parity.base.errors import UsageError, unknown
from parity.base.groups import grouped
from parity.judge.compare.model import Value
from parity.study.published import file_of, folder
from parity.study.published.model import Experiment, Study, filled

#: Stands among the axes of a figure where several metrics here stand for one in print: the metric's name.
FIGURE = 'figure'
_COLUMNS = ('experiment', 'metric', 'unit', 'better'), ('run', 'value', 'flag', 'where')
#: Units, for a message.
_UNITS = ('s', 'ms', 'B', 'MiB', 'MB/s', 'Mb/s', 'Gflop/s', '%')
#: The column `use`: how far a figure in print can be used -> the label that it has.
USES = {'': '', 'ratio_only': 'ratio_only', 'ratio_only derived': 'ratio_only: derived',
        'page_cache': 'cached: by the page cache', 'derived': 'derived'}


@dataclass
class StudyCell:
    """The runs of one metric at one point of an experiment; ``flagged`` ones are shown, and used for nothing."""

    experiment: str
    metric: str
    point: dict[str, str]
    unit: str
    better: Literal['higher', 'lower', '']
    values: list[Value] = field(default_factory=list)
    flagged: list[tuple[float, str]] = field(default_factory=list)
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
        values = [v.value for v in self.values]
        return float(f'{geometric_mean(values):.12g}') if len(values) > 1 and min(values) > 0 else fmean(values)

    @property
    def figure(self) -> float:
        """Return the mean, or the flagged figure where there is no other."""
        return self.mean if self.values else self.flagged[0][0] if self.flagged else 0.0

    @property
    def rounding(self) -> float:
        """Return half of the last digit of a figure that is printed once, over the figure.

        The last zeros of a whole number are no digits. A setting or a count, which has no direction, is exact."""
        digits = self.text.partition(' ')[0]
        if not digits or not self.better or not (figure := Decimal(digits)):
            return 0.0
        place = (figure if '.' in digits else figure.normalize()).as_tuple().exponent
        return abs(0.5 * 10.0 ** int(place) / float(figure))

    @property
    def name(self) -> str:
        return named(self.experiment, self.metric, self.point)


def named(experiment: str, metric: str, point: dict[str, str]) -> str:
    """Return `experiment.metric %axis=value ...`."""
    return f'{experiment}.{metric}' + ''.join(f' %{axis}={value}' for axis, value in point.items())


def to_make(study: Study, name: str) -> str:
    """Return how the figures in print are made, where they are not here; '' where they are."""
    return study.data if study.data and not os.path.lexists(folder(name) / 'published.csv') else ''


def published(study: Study, name: str) -> tuple[list[StudyCell], list[str]]:
    """Return the cells of published.csv, in its order, and notes. UsageError with file, line and what is valid."""
    if to_make(study, name):
        return [], []
    file = file_of(name, 'published.csv')
    cells: dict[tuple, tuple[StudyCell, dict[str, Value]]] = {}
    seen: set[tuple] = set()
    stated: dict[tuple, tuple[str, str]] = {}
    axes = [axis for axis in study.axes if axis != 'unit' and (axis != study.contrast or study.candidate)]
    header = [*_COLUMNS[0], *axes, *_COLUMNS[1]]
    for line, row in CsvTable(files.read(file), str(file), header, ('use',)).rows():
        where = f'{file}:{line}'
        if why := _wrong(study, row):
            raise UsageError(f'{where}: {why}')
        experiment = study.experiments[row['experiment']]
        point = {axis: row[axis] for axis in experiment.axes}
        cell, runs = cells.setdefault((row['experiment'], row['metric'], *point.items()), (StudyCell(
            row['experiment'], row['metric'], point, row['unit'], row['better'],
            step=experiment.step, label=USES[row.get('use', '')], line=where, where=row['where']), {}))
        unit, better = stated.setdefault((cell.experiment, cell.metric, point.get('unit')),
                                         (cell.unit, cell.better))
        if units.stem(unit) != units.stem(row['unit']) or better != row['better'] or \
                not (factor := units.factor(row['unit'], unit)):
            raise UsageError(f'{where}: {cell.name} is in {row["unit"]!r}, {row["better"]!r}; above it is in '
                             f'{unit!r}, {better!r}: all its rows must be alike')
        cell.unit, cell.text = unit, '' if runs or cell.flagged else f'{row["value"]} {row["unit"]}'.strip()
        if (run := (cell.name, row['run'])) in seen:
            raise UsageError(f'{where}: {cell.name} has a run {row["run"]} above: number each run once')
        seen.add(run)
        value, _ = csvfile.number(row['value'], f'{where}: value'), csvfile.number(row['run'], f'{where}: run')
        value = value if factor == 1 else float(f'{value * factor:.12g}')
        if row['flag']:
            cell.flagged.append((value, row['flag']))
        else:
            runs[row['run']] = Value(value, session=f'{cell.name} {row["run"]}')      # no run shares another's
    found, notes = _joined(study, cells.values())
    deviations = {cell.name: cell.figure for cell in found if cell.metric.endswith('_sd')}
    for cell in found:
        of = named(cell.experiment, f'{cell.metric.removesuffix("_mean")}_sd', cell.point)
        cell.deviation = deviations.get(of, 0.0) / (cell.figure or 1.0)
    return found, notes


def _wrong(study: Study, row: dict[str, str]) -> str:
    """Return what is wrong with a row's names, and what is valid; '' for nothing."""
    experiment = study.experiments.get(row['experiment'])
    for kind, name, valid in (('experiment', row['experiment'], study.experiments),
                              ('metric', row['metric'], experiment.metrics if experiment else ()),
                              ('direction', row['better'], ('higher', 'lower', '')),
                              ('unit', row['unit'], {'', *_UNITS, units.stem(row['unit']) and row['unit']}),
                              ('use', row.get('use', ''), USES)):
        if name not in valid:
            return unknown(kind, name, [known or 'nothing' for known in valid])
    for axis in (axis for axis in study.axes if axis in row and (axis != 'unit' or axis in experiment.axes)):
        valid = study.values(row['experiment'], axis) if axis in experiment.axes else ['']
        if row[axis] not in valid and not (axis not in experiment.axes and not row[axis]):
            return f'{axis} {row[axis]!r}: ' + (f'valid: {", ".join(valid)}' if valid != [''] else
                                                f'{row["experiment"]} has no such axis: leave it empty')
    return ''


def in_units_of_print(printed: Iterable[StudyCell], here: Iterable[StudyCell]) -> None:
    """Bring what was measured to the units of print, where both are of one kind."""
    wanted = {(c.experiment, c.metric, c.point.get('unit')): c.unit for c in printed}
    for cell in here:
        unit = wanted.get((cell.experiment, cell.metric, cell.point.get('unit')), cell.unit)
        if cell.values and unit != cell.unit and (factor := units.factor(cell.unit, unit)):
            shown = min(0, *(Decimal(repr(v.value)).normalize().as_tuple().exponent for v in cell.values))
            cell.step, cell.unit = (cell.step or 10.0 ** shown) * factor, unit
            cell.values = [replace(v, value=float(f'{v.value * factor:.12g}')) for v in cell.values]


def _joined(study: Study,
            cells: Iterable[tuple[StudyCell, dict[str, Value]]]) -> tuple[list[StudyCell], list[str]]:
    """Make one cell of series that ran together: a run is their mean, over those that all sides have."""
    joint = [name for name, axis in study.axes.items() if axis.simultaneous]

    def axes(cell: StudyCell, *without: str) -> tuple:
        return cell.experiment, cell.metric, *((a, value) for a, value in cell.point.items() if a not in without)

    def part(cell: StudyCell) -> tuple:
        return tuple((axis, cell.point[axis]) for axis in joint if axis in cell.point)

    found, notes, out = grouped(cells, lambda each: axes(each[0], *joint)), [], []
    sides = grouped(found.values(), lambda of: axes(of[0][0], study.contrast, *joint))
    for (experiment, metric, *point), of in found.items():
        both = set.intersection(*({part(cell) for cell, _ in side}
                                  for side in sides[axes(of[0][0], study.contrast, *joint)]))
        if alone := [part(cell) for cell, _ in of if part(cell) not in both]:
            row, _ = labelled(study.experiments[experiment], experiment, metric, dict(point), study)
            lacking = ', '.join(f'{axis} {value}' for values in alone for axis, value in values)
            notes.append(f'{row} {metric}: {lacking} is on {dict(point)[study.contrast]} only, and left out')
        kept = [each for each in of if part(each[0]) in both]
        runs = [run for run in kept[0][1] if all(run in values for _, values in kept)] if kept else []
        out.append(replace(
            (kept or of)[0][0], point=dict(point), text=of[0][0].text if len(of) == 1 else '',
            flagged=[flag for cell, _ in kept for flag in cell.flagged],
            values=[replace(kept[0][1][run], value=fmean(of[run].value for _, of in kept)) for run in runs]))
    return out, notes


def labelled(experiment: Experiment, name: str, metric: str, point: dict[str, str],
             study: Study) -> tuple[str, str]:
    """Return the name and the metric that a row of the table has; behind it which of several figures it is."""
    figure = f' ({point[FIGURE]})' if FIGURE in point else ''
    if experiment.row:
        case, _, shown = filled(experiment.row, point).partition(': ')
        return case, shown + figure
    rest = {axis: value for axis, value in point.items() if axis not in (study.contrast, FIGURE)}
    return named(name, '', rest).replace('.', '', 1), metric + figure
