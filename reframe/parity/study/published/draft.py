"""A new study: a folder with the three files, of a table of figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

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
    directions = _directions(better)
    contents = _of_table(name, files.read(table) if table else _EXAMPLE, str(table or 'the example'), directions)
    files.write_all({folder / file: text.encode() for file, text in contents.items()})
    return [folder / file for file in contents]


def _directions(better: Sequence[str]) -> dict[str, str]:
    """Return which values are better, by metric."""
    found = {}
    for text in better:
        metric, _, direction = text.rpartition('=')
        if not metric or direction not in _BETTER:
            raise UsageError(f'--better {text}: must be METRIC=higher or METRIC=lower')
        found[_word(metric)] = direction
    return found


def _of_table(name: str, raw: bytes, source: str, directions: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a study by the rows of a table.

    Long: a column `value`, and perhaps `metric`, `unit` and `better`. Wide: a figure is a column with a unit in
    brackets, else the last one. A column `run` or `repeat` counts repeats. All others are axes; blanks in their
    values become _, so that a finding can name them."""
    rows = list(csvfile.CsvTable(raw, source, (), others=True).rows())
    columns = list(rows[0][1])
    long = 'value' in columns
    wide = ['value'] if long else [c for c in columns if _COLUMN.fullmatch(c)[2]] or [
        c for c in columns if c not in _REPEATS][-1:]
    axes = {column: _word(column) + '_' * (column in {*COLUMNS, 'unit'}) for column in columns
            if column not in (*wide, *_REPEATS, *(_LONG if long else ()))}
    figures, runs = [], Counter()
    values: dict[str, dict[str, None]] = {axis: {} for axis in axes.values()}
    for line, row in rows:
        point = {axis: '_'.join(row[column].split()) for column, axis in axes.items()}
        for column in filter(row.get, wide):
            csvfile.number(row[column], f'{source}:{line}: {column}')
            metric, unit = _COLUMN.fullmatch(column).groups()
            metric, unit = (row.get('metric', metric), row.get('unit', unit)) if long else (metric, unit)
            if unit and not units.stem(unit):
                raise UsageError(f'{source}:{line}: {unit!r} is no unit, such as s, MB/s or Gflop/s')
            runs[key := (_word(metric), *point.values())] += 1
            direction = (row.get('better') if long else '') or directions.get(key[0], '')
            figures.append([name, key[0], unit or '', direction, *point.values(),
                            runs[key], row[column], '', f'{Path(source).name}:{line}'])
        for axis, value in point.items():
            values[axis][value] = None
    metrics = dict.fromkeys(metric for metric, *_ in runs)
    for metric in directions:
        if metric not in metrics:
            raise UsageError('--better: ' + unknown('metric', metric, list(metrics)))
    return {'study.yaml': _stated(name, Path(source).name, values, metrics),
            'README.md': _README.format(name), 'published.csv': csvfile.written(
                ['experiment', 'metric', 'unit', 'better', *values, 'run', 'value', 'flag', 'where'], figures)}


def _stated(name: str, source: str, values: Mapping[str, Iterable[str]], metrics: Iterable[str]) -> str:
    """Return study.yaml. The first axis of several values is the contrast; without one the study has one side."""
    contrast = next((axis for axis, of in values.items() if len(list(of)) > 1), 'side')
    axes = {**values, **({} if contrast in values else {'side': ['print']})}
    return yaml.safe_dump({
        'title': name, 'source': source, 'what': 'the question', 'contrast': contrast,
        'axes': {axis: {'what': axis, 'here': 'nothing: no check is named', 'kind': 'print', 'values': list(of)}
                 for axis, of in axes.items()},
        'experiments': {name: {
            'what': 'what was done', 'where': source, 'subsystem': 'compute', 'axes': dict.fromkeys(values, 'all'),
            'metrics': {metric: [] for metric in metrics}}},
        'findings': []}, sort_keys=False, allow_unicode=True)


def _word(column: str) -> str:
    """Return a column's name as that of an axis or a metric."""
    word = re.sub(r'\W+', '_', column).strip('_')
    return word if word[:1].isalpha() else f'x_{word}'
