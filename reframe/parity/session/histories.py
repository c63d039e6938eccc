"""Read histories: CSV of three forms, perflogs and databases of ReFrame, a system's own nights."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import polars as pl

from parity.base import files
from parity.base.csvfile import Table
from parity.base.errors import NothingMeasured, UsageError
from parity.base.units import stem
from parity.plan import PASSED
from parity.records import database, history
from parity.session import imported
from parity.stats import detect
from parity.system import systems

#: Columns that a file with other names than those of `parity detect` may state.
NAMED = ('series', 'night', 'value', 'group', 'unit')
#: Columns that are taken for the night where none is stated.
_NIGHTS = ('night', 'date', 'day', 'time', 'timestamp')
#: A date, perhaps with a time and a zone; a whole number.
_DATE = r'^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ][0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})?)?$'
_WHOLE = '^-?[0-9]{1,9}$'
#: Units, without a prefix, of which less is better, and of which more is; words for the first.
_LESS, _MORE = ('s', 'J', 'W', 'B'), ('Hz', 'flops', 'FLOPS', 'ops', 'IOPS', 'HOPS', 'QOPS')
_WORDS = {'seconds': 's', 'second': 's', 'sec': 's', 'bytes': 'B', 'joules': 'J', 'watts': 'W'}


class Source(NamedTuple):
    """A history and the form in which it was found. ``unknown``: series whose direction nothing tells."""

    name: str
    form: str
    history: detect.History
    unknown: int


class Directions(NamedTuple):
    """Patterns of the names of series of which more is better, and of which less is."""

    higher: str = ''
    lower: str = ''

    def sign(self, series: str, unit: str, stated: str = '') -> int:
        """Return 1 where more is better, -1 where less is, 0 where nothing tells."""
        for pattern, sign in ((self.lower, -1), (self.higher, 1)):
            if pattern and re.search(pattern, series):
                return sign
        if stated:
            return 1 if stated == 'higher' else -1
        kind = stem(_WORDS.get(unit.lower(), unit))
        return -1 if kind in _LESS else 1 if kind in _MORE or kind.endswith('/s') else 0


def of_paths(paths: Iterable[Path], columns: Mapping[str, str], directions: Directions) -> Iterator[Source]:
    """Yield the history of each file; of a folder each CSV, else its perflogs. UsageError names file and line."""
    for path in paths:
        if not path.exists():
            raise UsageError(f'{path}: no such file or folder')
        if (path / 'benchmarks.json').is_file():
            yield _of_asv(path, directions)
        elif path.is_dir() and (found := sorted(path.glob('*.csv*'))):
            yield from (_of_csv(file, columns, directions) for file in found)
        elif path.is_dir() or imported.is_database(path) or path.suffix == '.log':
            yield _of_reframe(path, directions)
        else:
            yield _of_csv(path, columns, directions)


def of_system(name: str, since: str, directions: Directions) -> Source:
    """Return the stored nights of a system, from the date ``since`` on. NothingMeasured without any."""
    frame = history.load(systems.read(name).name)
    if since:
        frame = frame.filter(pl.col('night').cast(pl.String) >= since)
    if not frame.height:
        raise NothingMeasured(f'{name}: no night is stored{f" since {since}" if since else ""}')
    return _source(name, f'stored nights of {name}', _cells(frame), directions)


def _of_reframe(path: Path, directions: Directions) -> Source:
    """Read perflogs or a results.db of ReFrame as `parity import` does, into a folder that is thrown away."""
    with tempfile.TemporaryDirectory(prefix='parity-replay-') as folder, \
            mock.patch.dict(os.environ, {'PARITY_RESULTS': folder}):
        imported.run(path, False, anywhere=True)
        names = history.rows(database.uuids()).select(pl.col('system').unique()).collect()['system'].to_list()
        frame = pl.concat([_cells(history.load(name)) for name in names])
    if not frame.height:
        raise NothingMeasured(f'{path}: no figure is stored there')
    return _source(str(path), "ReFrame's results", frame, directions)


def _of_asv(path: Path, directions: Directions) -> Source:
    """Read the results folder of airspeed velocity (asv), version 2: a night is a commit, by its date."""
    about, rows = _json(path / 'benchmarks.json'), []
    for file in sorted(path.glob('*/*-*.json')):
        run = _json(file)
        try:
            night = datetime.datetime.fromtimestamp(run['date'] / 1000, datetime.timezone.utc)
            for name, result in run['results'].items():
                values = dict(zip(run['result_columns'], result, strict=False))
                for value, words in zip(values['result'] or (), itertools.product(*values['params']), strict=True):
                    series = f'{name}({", ".join(words)})@{run["params"]["machine"]}:{run["env_name"]}'
                    rows.append((series, f'{night:%Y-%m-%dT%H:%M:%S}', value, about[name]['unit'], name))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as err:
            why = f'{type(err).__name__}: {err}'
            raise UsageError(f'{file}: this is no result of asv, version 2 ({why})') from None
    frame = pl.DataFrame(rows, ['series', 'night', 'value', 'unit', 'group'], orient='row', strict=False)
    if not rows or not (frame := frame.filter(pl.col('value').is_finite())).height:
        raise NothingMeasured(f'{path}: no result of asv is in a folder below it')
    frame = frame.with_columns(stated=pl.lit(''), value=pl.col('value').cast(float))
    return _source(str(path), 'results of asv, a night a commit', frame, directions)


def _json(file: Path) -> dict[str, Any]:
    try:
        return json.loads(files.read(file))
    except ValueError as err:
        raise UsageError(f'{file}: this is no JSON: {err}') from None


def _cells(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the figures of stored sessions as rows for `_source`."""
    words = pl.col('case', 'metric', 'system', 'partition', 'environ', 'unit', 'better', 'check', 'night')
    text = frame.select(words.cast(pl.String), 'value')
    series = pl.format('{}.{}@{}:{}+{}', 'case', 'metric', 'system', 'partition', 'environ')
    return text.filter(pl.col('metric') != PASSED).select(
        series=series, group=pl.format('{}.{}@{}:{}', 'check', 'metric', 'system', 'partition'),
        night=pl.col('night').str.slice(0, 10), value='value', unit='unit', stated='better').filter(
        pl.col('value').is_finite())


def _of_csv(path: Path, columns: Mapping[str, str], directions: Directions) -> Source:
    raw = files.unpacked(path)
    header = [name.strip() for name in raw.partition(b'\n')[0].decode('utf-8', errors='replace').split(',')]
    if not columns and set(detect.COLUMNS) <= set(header):
        return Source(str(path), 'CSV of parity detect', detect.read(raw, str(path)), 0)
    if strange := [f'{key}={name}' for key, name in columns.items() if name not in header]:
        raise UsageError(f'{path}:1: no column for {strange[0]}; the columns are {", ".join(header)}')
    night = columns.get('night') or next((n for n in header if n.lower() in _NIGHTS), '')
    if not night:
        raise UsageError(f'{path}:1: the form of this file is not known. Looked for: '
                         f'{",".join(detect.COLUMNS)} (parity detect); a column {", ".join(_NIGHTS)} '
                         'or --columns night=NAME; SQLite of ReFrame')
    long = {key: columns.get(key) or (key if key in header else '') for key in NAMED} | {'night': night}
    if long['value']:
        table = Table(raw, str(path), [name for name in long.values() if name], others=True)
        text = table.frame()
        rows = text.select(**{key: pl.col(name) if name else pl.lit('' if key != 'series' else path.stem)
                              for key, name in long.items()}).with_row_index('line', 2)
        form = 'CSV, a row a figure'
    else:
        text = Table(raw, str(path), header).frame().with_row_index('line', 2)
        rows = text.unpivot([n for n in header if n != night], index=['line', night], variable_name='series') \
            .rename({night: 'night'}).with_columns(group=pl.lit(''), unit=pl.lit(''))
        form = 'CSV, a column a series'
    return _source(str(path), form, _valid(rows, path, wide=not long['value']), directions)


def _valid(rows: pl.DataFrame, path: Path, wide: bool) -> pl.DataFrame:
    """Return rows of text with nights and values that are valid. UsageError names the first line that is not."""
    if wide:        # a column of words is no series
        numbers = rows.group_by('series').agg(ok=(pl.col('value') == '').all() | ~pl.col('value').filter(
            pl.col('value') != '').str.contains(detect.NUMBER).any())
        rows = rows.join(numbers.filter('ok'), on='series', how='anti')
    rows = rows.filter(pl.col('value') != '').sort('line', maintain_order=True)
    if not rows.height:
        raise UsageError(f'{path}: no column has numbers; valid is a column of values beside the night')
    zone = pl.col('night').str.extract(_DATE, 2)
    timed = pl.col('night').str.contains(r'[T ]')
    value = pl.col('value').cast(pl.Float64, strict=False)
    whole = pl.col('night').str.contains(_WHOLE)
    wrong = {
        'night {night!r} is neither a whole number nor a date such as 2026-11-20 or 2026-11-20T02:00:00Z':
            ~whole & pl.col('night').str.extract(_DATE).str.to_date('%Y-%m-%d', strict=False).is_null(),
        'night {night!r}: nights are whole numbers or dates; the order of both together is not known':
            whole != whole.first(),
        'night {night!r}: times with and without a zone; must be one form':
            timed & (zone.is_null() != zone.filter(timed).first().is_null()),
        'value {value!r} is no number, such as 71.2 or 7.12e4': ~pl.col('value').str.contains(detect.NUMBER),
        f'value {{value}} is too large to be a figure; must be below {detect.LARGEST:g}':
            value.is_infinite() | (value.abs() >= detect.LARGEST),
        'value {value} is not above 0; a run without a figure is left out of the file': value <= 0}
    found = [(rows['line'][at], at, what) for what, mask in wrong.items()
             if (at := rows.select(pl.arg_where(mask).first()).item()) is not None]
    if found:
        line, at, what = min(found)
        raise UsageError(f'{path}:{line}: {what.format(**rows.row(at, named=True))}')
    dates = not rows.select(whole.all()).item()
    return rows.select(
        'series', 'group', 'unit', value=value, stated=pl.lit(''),
        night=pl.col('night').str.slice(0, 10) if dates else pl.col('night').str.to_integer())


def _source(name: str, form: str, rows: pl.DataFrame, directions: Directions) -> Source:
    """Return the history of rows with series, group, night, value, unit and stated, the direction or ''.

    A series of unknown direction is judged both ways, under two names."""
    units = rows.group_by('series').agg(pl.col('unit', 'stated').first())
    signs = {series: directions.sign(series, unit or '', stated or '')
             for series, unit, stated in units.iter_rows()}
    rows = rows.select(
        'series', 'group', 'night', 'value', event=pl.lit(''), node=pl.lit(''), again=False,
        run=pl.int_range(pl.len()).over('series', 'night'),
        sign=pl.col('series').replace_strict(signs, return_dtype=pl.Int8))
    unknown = rows.filter(pl.col('sign') == 0)
    both = [unknown.with_columns(series=pl.format('{} (if {} is better)', 'series', pl.lit(word)),
                                 sign=pl.lit(sign, pl.Int8)) for word, sign in (('more', 1), ('less', -1))]
    rows = pl.concat([rows.filter(pl.col('sign') != 0), *both])
    return Source(name, form, detect.of_rows(rows), unknown['series'].n_unique())

