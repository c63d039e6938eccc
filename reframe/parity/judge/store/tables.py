"""Read a history from a CSV with a row a figure or a column a series."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
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
NIGHTS = ('night', 'date', 'day', 'time', 'timestamp', 'commit_time')
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
        names = [name.strip() for name in next(csv.reader(text), [''])]
    except csv.Error as err:
        raise UsageError(f'{path}:1: the header cannot be read as CSV: {err}') from None
    if len(names) > COLUMNS:
        raise UsageError(f'{path}:1: {len(names)} columns; must have at most {COLUMNS}')
    return names


def read(raw: bytes, path: Path, columns: Mapping[str, str], series: Sequence[str] = (), skipped: int = 0) -> Rows:
    """Return the rows of a CSV, in the form that its header shows. ``columns``: the names of some of NAMED.

    ``series``: columns that are series, where they are known. ``skipped``: lines above the header."""
    names = header(raw, path)
    if strange := [f'{key}={name}' for key, name in columns.items() if name not in names]:
        raise UsageError(f'{path}:{1 + skipped}: no column for {strange[0]}; the columns are {", ".join(names)}')
    night = columns.get('night') or next(name for name in names if name.lower() in NIGHTS)
    long = {key: columns.get(key) or (key if key in names else '') for key in NAMED} | {'night': night}
    wide = not long['value']
    # a column without a name has the numbers of the rows, as R and pandas write them
    wanted = [night, *(series or filter(None, names))] if wide else [name for name in long.values() if name]
    table = CsvTable(raw, str(path), list(dict.fromkeys(wanted)), others=True)
    text = table.frame().with_row_index('line', 2 + skipped)
    if wide:
        if len(text.columns) < 3:       # the line and the night
            raise UsageError(f'{path}: {NO_NUMBERS}')
        rows = text.unpivot([n for n in text.columns if n not in (night, 'line')], index=['line', night],
                            variable_name='series').rename({night: 'night'})
        rows = rows.with_columns(group=pl.lit(''), unit=pl.lit(''))
        if not series:
            rows = _numbers(rows)
    else:
        rows = text.select('line', **{key: pl.col(name) if name else pl.lit('' if key != 'series' else path.stem)
                                      for key, name in long.items()})
    form = 'CSV, a column a series' if wide else 'CSV, a row a figure'
    return Rows(form, _valid(rows, path, wide))


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of numbers: a column of words, or of digests, is no series."""
    number = pl.col('value').filter(pl.col('value') != '').str.contains(detect.NUMBER)
    return rows.filter(number.mean().fill_null(0).over('series') >= 0.5)


def _valid(rows: pl.DataFrame, path: Path, wide: bool) -> pl.DataFrame:
    """Return rows of text with nights and values that are valid. UsageError names the first line that is not."""
    rows = rows.filter(pl.col('value') != '').sort('line', maintain_order=True)
    if not rows.height:
        raise UsageError(f'{path}: {NO_NUMBERS}')
    unix, stamp = pl.col('night').str.contains(_UNIX), pl.col('night').str.to_integer(strict=False)
    rows = rows.with_columns(night=pl.when(unix).then(pl.from_epoch(
        pl.when(stamp < 10 ** 11).then(stamp * 1000).otherwise(stamp), 'ms').dt.strftime('%Y-%m-%dT%H:%M:%SZ'))
        .otherwise('night'))
    zone, mark = (pl.col('night').str.extract(_DATE, place) for place in (3, 2))
    timed = pl.col('night').str.contains(r'[T ]')
    value = pl.col('value').cast(pl.Float64, strict=False)
    whole = pl.col('night').str.contains(_WHOLE)
    date = pl.col('night').str.extract(_DATE).str.replace_all(r'[./]', '-')
    wrong = {
        'night {night!r} is neither a whole number nor a date such as 2026-11-20 or 2026-11-20T02:00:00Z':
            ~whole & date.str.to_date('%Y-%m-%d', strict=False).is_null(),
        'night {night!r}: nights are whole numbers or dates; the order of both together is not known':
            whole != whole.first(),
        'night {night!r}: dates in two forms; must be one, such as 2026-11-20': mark != mark.first(),
        'night {night!r}: times with and without a zone; must be one form':
            timed & (zone.is_null() != zone.filter(timed).first().is_null()),
        'value {value!r} is no number, such as 71.2 or 7.12e4': ~pl.col('value').str.contains(detect.NUMBER),
        f'value {{value}} is too large to be a figure; must be below {LARGEST:g}':
            value.is_infinite() | (value.abs() >= LARGEST),
        f'value {{value}} is too small to be a figure; must be above {SMALLEST:g}':
            (value > 0) & (value < SMALLEST),
        'value {value} is not above 0; a run without a figure is left out of the file': value <= 0,
        'night {night!r} stands on an earlier line, too; valid is a row a night, or times beside the dates':
            pl.lit(wide) & ~pl.struct('series', 'night').is_first_distinct()}
    found = [(rows['line'][at], at, what) for what, mask in wrong.items()
             if (at := rows.select(pl.arg_where(mask).first()).item()) is not None]
    if found:
        line, at, what = min(found)
        raise UsageError(f'{path}:{line}: {what.format(**rows.row(at, named=True))}')
    numbers = rows.select(whole.all()).item()
    return rows.select('series', 'group', 'unit', value=value, stated=pl.lit(''),
                       night=pl.col('night').str.to_integer() if numbers else date)
