"""A new study: a folder with the three files, of a table of figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parity.base import csvfile, files, units
from parity.base.errors import UsageError, unknown
from parity.study.published import NAME, folders, names
from parity.study.published.problems import COLUMNS

#: The table of a study that is made without one.
_EXAMPLE = b'machine,rate (MB/s)\nold,100.2\nnew,120.4\n'
#: The name of a column, and its unit: time (s), time [s].
_COLUMN = re.compile(r'(.*?)\s*(?:[(\[](.+)[)\]])?')
#: What a long table may have beside its axes.
_LONG = ('metric', 'unit', 'better', 'run')
_README = '# {}\n\nThe question, the machine, how it was measured, and what of it runs here.\n'


#: A column of repeats of the same point, in any table.
_REPEATS = ('run', 'repeat')
_BETTER = ('higher', 'lower')


def written(name: str, table: Path | None, better: Sequence[str] = ()) -> list[Path]:
    """Write the folder of a study, and return its files. ``better``: METRIC=higher or METRIC=lower.

    UsageError for a name that is no name or taken, and for a metric that the table lacks."""
    if not NAME.fullmatch(name):
        raise UsageError(f'{name!r}: the name of a study has letters, digits, _ and -')
    folder = folders()[-1] / name
    if name in names() or folder.exists():
        raise UsageError(f'{folder}: it is there already: name another study')
    raw, source = (files.read(table), str(table)) if table else (_EXAMPLE, 'the example')
    draft = _of_table(name, raw, source, _directions(better))
    contents = {'study.yaml': draft.stated(), 'README.md': _README.format(name), 'published.csv': draft.csv()}
    files.write_all({folder / file: text.encode() for file, text in contents.items()})
    return [folder / file for file in contents]


def _directions(better: Sequence[str]) -> dict[str, str]:
    """Return which values are better, by metric."""
    directions = {}
    for text in better:
        metric, _, direction = text.rpartition('=')
        if not metric or direction not in _BETTER:
            raise UsageError(f'--better {text}: must be METRIC=higher or METRIC=lower')
        directions[_word(metric)] = direction
    return directions


def _of_table(name: str, raw: bytes, source: str, directions: Mapping[str, str]) -> _Draft:
    """Return the draft of the rows of a table.

    Long: a column `value`, and perhaps `metric`, `unit` and `better`. Wide: a figure is a column with a unit in
    brackets, else the last one. A column `run` or `repeat` counts repeats. All others are axes; blanks in their
    values become _, so that a finding can name them."""
    table = csvfile.CsvTable(raw, source, (), others=True)
    rows = list(table.rows())
    _, first = rows[0]
    draft = _Draft(name, source, list(first), directions)
    for line, row in rows:
        draft.add(line, row)
    metrics = [metric for metric, *_ in draft.runs]
    for metric in directions:
        if metric not in metrics:
            raise UsageError('--better: ' + unknown('metric', metric, list(dict.fromkeys(metrics))))
    return draft


class _Draft:
    """The figures of a table, as they become a study."""

    def __init__(self, name: str, source: str, columns: Sequence[str], directions: Mapping[str, str]):
        self.name, self.source, self.directions = name, source, directions
        self.long = 'value' in columns
        if self.long:
            self.of_figures = ['value']
            no_axes = ['value', *_REPEATS, *_LONG]
        else:
            self.of_figures = _with_units(columns)
            no_axes = [*self.of_figures, *_REPEATS]
        self.axes = {column: _axis(column) for column in columns if column not in no_axes}
        self.values = {axis: [] for axis in self.axes.values()}
        self.figures = []
        self.runs = Counter()         # of a metric and a point

    def add(self, line: int, row: Mapping[str, str]) -> None:
        """Add the figures of a row."""
        point = {axis: '_'.join(row[column].split()) for column, axis in self.axes.items()}
        for axis, value in point.items():
            if value not in self.values[axis]:
                self.values[axis].append(value)
        for column in filter(row.get, self.of_figures):
            csvfile.number(row[column], f'{self.source}:{line}: {column}')
            self._add_figure(line, row, column, list(point.values()))

    def _add_figure(self, line: int, row: Mapping[str, str], column: str, point: Sequence[str]) -> None:
        metric, unit = _COLUMN.fullmatch(column).groups()
        better = ''
        if self.long:
            metric, unit, better = row.get('metric', metric), row.get('unit', unit), row.get('better', '')
        metric = _word(metric)
        if unit and not units.stem(unit):
            raise UsageError(f'{self.source}:{line}: {unit!r} is no unit, such as s, MB/s or Gflop/s')
        place = (metric, *point)
        self.runs[place] += 1
        self.figures.append([self.name, metric, unit or '', better or self.directions.get(metric, ''), *point,
                             self.runs[place], row[column], '', f'{Path(self.source).name}:{line}'])

    def csv(self) -> str:
        """Return published.csv."""
        head = ['experiment', 'metric', 'unit', 'better', *self.values, 'run', 'value', 'flag', 'where']
        return csvfile.written(head, self.figures)

    def stated(self) -> str:
        """Return study.yaml. The first axis of several values is the contrast; without one it has one side."""
        several = [axis for axis, values in self.values.items() if len(values) > 1]
        contrast = several[0] if several else 'side'
        values = {**self.values}
        values.setdefault(contrast, ['print'])
        axes = {}
        for axis, of_axis in values.items():
            axes[axis] = {'what': axis, 'here': 'nothing: no check is named', 'kind': 'print', 'values': of_axis}
        source = Path(self.source).name
        experiment: dict[str, Any] = {'what': 'what was done', 'where': source, 'subsystem': 'compute'}
        experiment['axes'] = dict.fromkeys(self.values, 'all')
        experiment['metrics'] = {metric: [] for metric, *_ in self.runs}
        study: dict[str, Any] = {'title': self.name, 'source': source, 'what': 'the question'}
        study |= {'contrast': contrast, 'axes': axes, 'experiments': {self.name: experiment}, 'findings': []}
        return yaml.safe_dump(study, sort_keys=False, allow_unicode=True)


def _with_units(columns: Sequence[str]) -> list[str]:
    """Return the columns with a unit in brackets; else the last one."""
    with_units = [column for column in columns if _COLUMN.fullmatch(column)[2]]
    return with_units or [column for column in columns if column not in _REPEATS][-1:]


def _axis(column: str) -> str:
    """Return a column's name as that of an axis, which no column of published.csv has."""
    word = _word(column)
    return f'{word}_' if column in {*COLUMNS, 'unit'} else word


def _word(column: str) -> str:
    """Return a column's name as that of an axis or a metric."""
    word = re.sub(r'\W+', '_', column).strip('_')
    return word if word[:1].isalpha() else f'x_{word}'
