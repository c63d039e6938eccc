"""A history in a file: columns series, night, kind, run, value, and where wanted direction."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from parity.base.errors import UsageError
from parity.stats.nights import Nights, grouped
from parity.stats.rows import COLUMNS, ISO, KINDS, LARGEST, NUMBER, SIGNS, WHOLE, bad_header, first_mistake

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Table:
    """The nights of all series, by name; ``labels`` [nights] as they stand in the file, numbers as numbers."""

    names: Sequence[str]
    signs: Sequence[int]
    nights: Nights
    labels: Sequence[int | str]


def read(raw: bytes, name: str) -> Table:
    """The table in the bytes of file ``name``; UsageError names line and column of what is wrong first."""
    try:
        return _table(_checked(_frame(raw.rstrip())))
    except _Unreadable:
        raise UsageError(first_mistake(raw, name)) from None


class _Unreadable(Exception):
    """Something is wrong; `rows.first_mistake` says what and on which line."""


def _frame(raw: bytes) -> pl.DataFrame:
    import polars as pl
    try:
        frame = pl.read_csv(io.BytesIO(raw), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        raise _Unreadable from None
    wanted = [c for c in (*COLUMNS, 'direction') if c in frame.columns]
    twice = any('_duplicated_' in column for column in frame.columns)     # how polars calls a second one
    if not frame.height or twice or bad_header(frame.columns):
        raise _Unreadable
    return frame.select(wanted).fill_null('')


def _checked(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with numbers as numbers, sorted by series and night, or _Unreadable."""
    import polars as pl
    night = frame['night'].str
    if night.contains(WHOLE.pattern).all():
        night = night.to_integer(strict=False)
    elif night.contains(ISO.pattern).all() and night.to_date('%Y-%m-%d', strict=False).null_count() == 0:
        night = frame['night']
    else:
        raise _Unreadable
    value = frame['value'].cast(pl.Float64, strict=False)
    default = pl.Series(['']).new_from_index(0, frame.height)
    better = frame['direction'] if 'direction' in frame.columns else default
    found = pl.DataFrame({
        'series': frame['series'], 'night': night, 'again': frame['kind'] == KINDS[1],
        'run': frame['run'].str.to_integer(strict=False), 'value': value,
        'sign': better.replace_strict(SIGNS, default=None, return_dtype=pl.Int8)})
    good = (found.null_count().sum_horizontal().item() == 0 and (value.abs() < LARGEST).all()
            and frame['kind'].is_in(KINDS).all() and frame['run'].str.contains(WHOLE.pattern).all()
            and frame['value'].str.contains(NUMBER.pattern).all() and (frame['series'] != '').all())
    if not good:
        raise _Unreadable
    found = found.sort('series', 'night', 'again', 'run')
    key = found.select('series', 'night', 'again', 'run')
    same = pl.all_horizontal(pl.all().eq(pl.all().shift(1))).fill_null(False)
    if key.select(same).to_series().any():
        raise _Unreadable
    return found


def _table(frame: pl.DataFrame) -> Table:
    import polars as pl
    new_series = frame['series'].ne_missing(frame['series'].shift(1))
    new_night = (new_series | frame['night'].ne_missing(frame['night'].shift(1))).to_numpy()
    night = np.cumsum(new_night) - 1
    total = int(night[-1]) + 1
    first = np.flatnonzero(new_night)
    start = np.append(night[new_series.to_numpy()], total)
    signs = frame['sign'].to_numpy()
    one_sign = np.repeat(signs[first][start[:-1]], np.diff(start))[night]
    again = frame['again'].to_numpy()
    runs = np.bincount(night[~again], minlength=total)
    if not runs.all() or (one_sign != signs).any():
        raise _Unreadable
    value = frame['value'].to_numpy() * one_sign
    run, rerun = (grouped(night[chosen], value[chosen], total) for chosen in (~again, again))
    nights = Nights(start, run, rerun, grouped(night, value, total), np.zeros(total, dtype=bool))
    labels = frame['night'].gather(pl.Series(first)).to_list()
    names = frame['series'].gather(pl.Series(first[start[:-1]])).to_list()
    return Table(names, one_sign[first[start[:-1]]].tolist(), nights, labels)
