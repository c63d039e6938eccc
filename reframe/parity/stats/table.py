"""`parity detect`: a history in a file (columns series, night, kind, run, value, perhaps direction), judged."""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

import numpy as np

from parity.base import csvfile
from parity.base.errors import UsageError
from parity.stats.judgement import Judgement, judged
from parity.stats.noise import DEFAULT, RATE, Nights, Rules
from parity.stats.search import SLOW

STATED = (f'stated false-alarm rate: {1000 * RATE:g} per 1000 nights of a series '
          f'(from its night {DEFAULT.least + DEFAULT.last} on)')
_COLUMNS = ('series', 'night', 'kind', 'run', 'value')
_KINDS = ('run', 'rerun')
#: Nothing is measured in more, and the squares of more are no numbers.
_LARGEST = 1e100
#: direction: an empty one is the default, higher.
_SIGNS = {'higher': 1, 'lower': -1, '': 1}
_WHOLE = re.compile(r'^-?[0-9]{1,18}$')
_ISO = re.compile(r'^[0-9]{4}-[0-9]{2}-[0-9]{2}$')
_NUMBER = re.compile(r'^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$')


@dataclass(frozen=True)
class Table:
    """The nights of all series, by name; ``labels`` [nights] as they stand in the file, numbers as numbers."""

    names: Sequence[str]
    signs: Sequence[int]
    nights: Nights
    labels: Sequence[int | str]


@dataclass(frozen=True)
class Series:
    """The judgement on a series' last night, and every night that alarmed when it was the last."""

    judgement: Judgement
    alarms: tuple[int | str, ...]


def of_table(table: Table, rules: Rules = DEFAULT) -> dict[str, Series]:
    """Every series by name. Each is judged for itself: the stated rate is that of one series."""
    told, outcome = judged(table.nights, table.signs, list(map(str, table.labels)), rules)
    slow = np.flatnonzero(outcome.state == SLOW)
    edges = np.searchsorted(slow, table.nights.start)
    return {name: Series(each, tuple(table.labels[i] for i in slow[edges[k]:edges[k + 1]]))
            for k, (name, each) in enumerate(zip(table.names, told, strict=True))}


def read(raw: bytes, name: str) -> Table:
    """Return the table in the bytes of file ``name``. UsageError names the first wrong line, and its column.

    polars reads a million rows in a second and knows no lines: only a file that is wrong is read row by row."""
    return _quickly(raw.rstrip()) or _refused(raw, name)


def _quickly(raw: bytes) -> Table | None:
    """Return the table, or None where anything is wrong."""
    import polars as pl
    try:
        frame = pl.read_csv(io.BytesIO(raw), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    twice = any('_duplicated_' in column for column in frame.columns)     # polars' name for a second one
    if not frame.height or twice or _bad_header(frame.columns):
        return None
    if 'direction' not in frame.columns:
        frame = frame.with_columns(direction=pl.lit(''))
    frame = frame.select(*_COLUMNS, 'direction').fill_null('')
    night, value = frame['night'], frame['value'].cast(pl.Float64, strict=False)
    if night.str.contains(_WHOLE.pattern).all():
        night = night.str.to_integer(strict=False)
    elif not night.str.contains(_ISO.pattern).all() or night.str.to_date('%Y-%m-%d', strict=False).null_count():
        return None
    found = pl.DataFrame({
        'series': frame['series'], 'night': night, 'again': frame['kind'] == _KINDS[1],
        'run': frame['run'].str.to_integer(strict=False), 'value': value,
        'sign': frame['direction'].replace_strict(_SIGNS, default=None, return_dtype=pl.Int8)})
    good = (found.null_count().sum_horizontal().item() == 0 and (value.abs() < _LARGEST).all()
            and frame['kind'].is_in(_KINDS).all() and frame['run'].str.contains(_WHOLE.pattern).all()
            and frame['value'].str.contains(_NUMBER.pattern).all() and (frame['series'] != '').all())
    if not good:
        return None
    found = found.sort('series', 'night', 'again', 'run')
    run = found.select(pl.struct('series', 'night', 'again', 'run').rle_id()).to_series()
    series, at = (found.select(each.rle_id().cast(int)).to_series().to_numpy()
                  for each in (pl.col('series'), pl.struct('series', 'night')))
    first = np.flatnonzero(np.diff(at, prepend=-1))
    start = np.append(np.flatnonzero(np.diff(series[first], prepend=-1)), len(first))
    again, sign = found['again'].to_numpy(), found['sign'].to_numpy()
    signs = sign[first[start[:-1]]]
    if run.n_unique() < len(run) or (signs[series] != sign).any() or \
            not np.bincount(at[~again], minlength=len(first)).all():
        return None
    return Table(found['series'].gather(first[start[:-1]]).to_list(), signs.tolist(),
                 Nights.of(start, at, found['value'].to_numpy() * sign, again),
                 found['night'].gather(first).to_list())


def _bad_header(header: Sequence[str]) -> str:
    """Say what is wrong with the columns, '' if nothing. Others are let be unless they look like one of ours."""
    if missing := [column for column in _COLUMNS if column not in header]:
        return f'no column {", ".join(missing)}; needed are {", ".join(_COLUMNS)}, and direction if wanted'
    if twice := [column for column in header if header.count(column) > 1]:
        return f'column {twice[0]} stands there twice'
    for column in header:
        near = get_close_matches(column.strip().lower(), (*_COLUMNS, 'direction'), n=1, cutoff=0.75)
        if near and column != near[0]:
            return f'column {column!r}; did you mean {near[0]}?'
    return ''


def _refused(raw: bytes, name: str) -> NoReturn:
    """Raise UsageError for the first row that is wrong."""
    line, sorts = 0, ''
    runs: dict[tuple, int] = {}
    directions: dict[str, tuple[str, int]] = {}
    first: dict[tuple, int] = {}
    for line, row in csvfile.rows(raw, name, _bad_header, blank=False):
        series, night, kind, run = (row[column] for column in _COLUMNS[:4])
        key = series, *(int(text) if _WHOLE.match(text) else text for text in (night, run)), kind
        sort, better = 'whole number' if _WHOLE.match(night) else 'date', row.get('direction') or 'higher'
        sorts = sorts or sort
        before, at = directions.setdefault(series, (better, line))
        if what := _field_wrong(row):
            pass
        elif sort != sorts:
            what = f'night {night!r} is a {sort}, but those before are {sorts}s: their order is not known'
        elif key in runs:
            what = f'{kind} {run} of series {series!r}, night {night}, was on line {runs[key]} already'
        elif better != before:
            what = f'series {series!r} is {better} here and {before} on line {at}; must be one direction'
        if what:
            raise UsageError(f'{name}:{line}: {what}')
        runs[key] = line
        first.setdefault(key[:2], line)
    if not line:
        raise UsageError(f'{name}:1: no rows below the header: nothing was measured')
    ran = {key[:2] for key in runs if key[3] == 'run'}
    for (series, night), line in first.items():
        if (series, night) not in ran:
            raise UsageError(f'{name}:{line}: series {series!r}, night {night} has reruns but no run')
    raise UsageError(f'{name}: this cannot be read as a table of {", ".join(_COLUMNS)}')


def _field_wrong(row: dict[str, str]) -> str:
    """Say what is wrong with a field of the row, '' if nothing."""
    night, kind, value, direction = row['night'], row['kind'], row['value'], row.get('direction', '')
    if not row['series']:
        return 'series is empty; must be a name'
    if not _WHOLE.match(night) and not _date(night):
        return f'night {night!r} is neither a whole number nor a date such as 2026-11-20'
    if kind not in _KINDS:
        return f'kind {kind!r}; valid: {", ".join(_KINDS)}'
    if not _WHOLE.match(row['run']):
        return f'run {row["run"]!r} is no whole number'
    if re.fullmatch(r'[+-]?(nan|inf|infinity)', value, re.I) or _NUMBER.match(value) and math.isinf(float(value)):
        return f'value {value} is not finite; a run without a figure is left out of the file'
    if not _NUMBER.match(value):
        return f'value {value!r} is no number, such as 71.2 or 7.12e4'
    if abs(float(value)) >= _LARGEST:
        return f'value {value} is too large to be a figure; must be below {_LARGEST:g}'
    return '' if direction in _SIGNS else f'direction {direction!r}; valid: higher, lower, or empty for higher'


def _date(text: str) -> bool:
    try:
        return bool(_ISO.match(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False
