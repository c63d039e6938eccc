"""Read a history from a CSV with a row a figure or a column a series."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from parity.base.csvfile import CsvTable
from parity.base.errors import UsageError
from parity.base.figures import LARGEST, SMALLEST
from parity.judge.stats import detect
from parity.judge.store.reading import COLUMNS

#: Columns that a file with other names than those of `parity detect` may state.
NAMED = ('series', 'night', 'value', 'group', 'unit')
#: Columns that are taken for the night where none is stated.
NIGHTS = ('night', 'date', 'day', 'time', 'timestamp')
#: A date, perhaps with a time and a zone; a whole number; a Unix time, in seconds or milliseconds.
_DATE = r'^([0-9]{4}(-|\.|/)[0-9]{2}(?:-|\.|/)[0-9]{2})(?:[T ][0-9:.]+ ?(Z|[+-][0-9]{2}:?[0-9]{2})?)?$'
_WHOLE, _UNIX = '^-?[0-9]{1,9}$', '^[0-9]{10}([0-9]{3})?$'


NO_NUMBERS = 'no column has numbers; valid is a column of values beside the night'


class Rows(NamedTuple):
    """Rows with series, group, night, value, unit and stated, the direction or ''; and the form that they had."""

    form: str
    frame: pl.DataFrame


def header(raw: bytes, path: Path) -> list[str]:
    """Return the names of the columns of a CSV; R, Excel and pandas quote some. UsageError for too many."""
    text = io.TextIOWrapper(io.BytesIO(raw), encoding='utf-8-sig', errors='replace', newline='')
    try:
        first = next(csv.reader(text), [''])
    except csv.Error as err:
        raise UsageError(f'{path}:1: the header cannot be read as CSV: {err}') from None
    names = [name.strip() for name in first]
    if len(names) > COLUMNS:
        raise UsageError(f'{path}:1: {len(names)} columns; must have at most {COLUMNS}')
    return names


def read(raw: bytes, path: Path, columns: Mapping[str, str]) -> Rows:
    """Return the rows of a CSV, in the form that its header shows. ``columns``: the names of some of NAMED."""
    names = header(raw, path)
    for key, name in columns.items():
        if name not in names:
            raise UsageError(f'{path}:1: no column for {key}={name}; the columns are {", ".join(names)}')
    column_of = {}
    for key in NAMED:
        default = key if key in names else ''
        column_of[key] = columns.get(key) or default
    night = columns.get('night') or next(name for name in names if name.lower() in NIGHTS)
    column_of['night'] = night
    if column_of['value']:
        return Rows('CSV, a row a figure', _row_a_figure(raw, path, column_of))
    return Rows('CSV, a column a series', _column_a_series(raw, path, names, night))


def _row_a_figure(raw: bytes, path: Path, column_of: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of a CSV that names series and values. ``column_of``: by NAMED, '' where there is none."""
    text = _text(raw, path, filter(None, column_of.values()))
    absent = dict.fromkeys(NAMED, '') | {'series': path.stem}
    columns = {}
    for key, name in column_of.items():
        columns[key] = pl.col(name) if name else pl.lit(absent[key])
    rows = text.select('line', **columns)
    return _valid(rows, path, wide=False)


def _column_a_series(raw: bytes, path: Path, names: Iterable[str], night: str) -> pl.DataFrame:
    """Return the figures of the columns of numbers, one row each. ``night``: the column of the nights."""
    # a column without a name has the numbers of the rows, as R and pandas write them
    text = _text(raw, path, [night, *filter(None, names)])
    series = [name for name in text.columns if name not in (night, 'line')]
    if not series:
        raise UsageError(f'{path}: {NO_NUMBERS}')
    figures = text.unpivot(series, index=['line', night], variable_name='series')
    nothing = pl.lit('')
    rows = figures.rename({night: 'night'}).with_columns(group=nothing, unit=nothing)
    return _valid(_numbers(rows), path, wide=True)


def _text(raw: bytes, path: Path, columns: Iterable[str]) -> pl.DataFrame:
    """Return these columns of a CSV as text, with the number of each line."""
    table = CsvTable(raw, str(path), list(dict.fromkeys(columns)), others=True)
    return table.frame().with_row_index('line', 2)


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of numbers: a column of words, or of digests, is no series."""
    value = pl.col('value')
    is_number = value.filter(value != '').str.contains(detect.NUMBER)
    share = is_number.mean().fill_null(0).over('series')
    return rows.filter(share >= 0.5)


def _valid(rows: pl.DataFrame, path: Path, wide: bool) -> pl.DataFrame:
    """Return rows of text with values as numbers, and nights as whole numbers or dates: all of one kind.
    UsageError names the first line that is not valid. ``wide``: the file had a column for each series."""
    has_value = pl.col('value') != ''
    rows = rows.filter(has_value).sort('line', maintain_order=True)
    if not rows.height:
        raise UsageError(f'{path}: {NO_NUMBERS}')
    rows = rows.with_columns(night=_unix_as_date())
    night = pl.col('night')
    date = night.str.extract(_DATE).str.replace_all(r'[./]', '-')
    wrong = _wrong_nights(date, wide) | _wrong_values()
    _demand_valid(rows, path, wrong)
    are_all_whole = night.str.contains(_WHOLE).all()
    if rows.select(are_all_whole).item():
        valid_night = night.str.to_integer()
    else:
        valid_night = date
    value = pl.col('value').cast(pl.Float64, strict=False)
    return rows.select('series', 'group', 'unit', value=value, stated=pl.lit(''), night=valid_night)


def _unix_as_date() -> pl.Expr:
    """Return the nights, Unix times as dates."""
    night = pl.col('night')
    stamp = night.str.to_integer(strict=False)
    is_in_seconds = stamp < 10 ** 11
    milliseconds = pl.when(is_in_seconds).then(stamp * 1000).otherwise(stamp)
    time = pl.from_epoch(milliseconds, 'ms')
    date = time.dt.strftime('%Y-%m-%dT%H:%M:%SZ')
    is_unix = night.str.contains(_UNIX)
    return pl.when(is_unix).then(date).otherwise('night')


def _wrong_nights(date: pl.Expr, wide: bool) -> dict[str, pl.Expr]:
    """Return what may be wrong of a night, with the rows where it is."""
    night = pl.col('night')
    is_whole = night.str.contains(_WHOLE)
    no_date = date.str.to_date('%Y-%m-%d', strict=False).is_null()
    is_neither = ~is_whole & no_date
    is_of_other_kind = is_whole != is_whole.first()
    mark = night.str.extract(_DATE, 2)
    has_time = night.str.contains(r'[T ]')
    zone = night.str.extract(_DATE, 3)
    first_has_no_zone = zone.filter(has_time).first().is_null()
    has_other_zone = has_time & (zone.is_null() != first_has_no_zone)
    is_again = ~pl.struct('series', 'night').is_first_distinct()
    return {
        'night {night!r} is neither a whole number nor a date such as 2026-11-20 or 2026-11-20T02:00:00Z':
            is_neither,
        'night {night!r}: nights are whole numbers or dates; the order of both together is not known':
            is_of_other_kind,
        'night {night!r}: dates in two forms; must be one, such as 2026-11-20': mark != mark.first(),
        'night {night!r}: times with and without a zone; must be one form': has_other_zone,
        'night {night!r} stands on an earlier line, too; valid is a row a night, or times beside the dates':
            pl.lit(wide) & is_again}


def _wrong_values() -> dict[str, pl.Expr]:
    """Return what may be wrong of a value, with the rows where it is."""
    text = pl.col('value')
    value = text.cast(pl.Float64, strict=False)
    is_number = text.str.contains(detect.NUMBER)
    is_large = value.is_infinite() | (value.abs() >= LARGEST)
    is_small = (value > 0) & (value < SMALLEST)
    return {
        'value {value!r} is no number, such as 71.2 or 7.12e4': ~is_number,
        f'value {{value}} is too large to be a figure; must be below {LARGEST:g}': is_large,
        f'value {{value}} is too small to be a figure; must be above {SMALLEST:g}': is_small,
        'value {value} is not above 0; a run without a figure is left out of the file': value <= 0}


def _demand_valid(rows: pl.DataFrame, path: Path, wrong: dict[str, pl.Expr]) -> None:
    """Raise UsageError for the first row that is wrong."""
    faults = []
    for message, mask in wrong.items():
        first = pl.arg_where(mask).first()
        row = rows.select(first).item()
        if row is not None:
            faults.append((rows['line'][row], row, message))
    if faults:
        line, row, message = min(faults)
        cells = rows.row(row, named=True)
        raise UsageError(f'{path}:{line}: {message.format(**cells)}')
