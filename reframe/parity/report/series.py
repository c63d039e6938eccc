"""The last nights of each cell, packed small enough for a page of thousands of cells.

A value is two characters: its place between the least and the most of the cell's nights, in 4095 steps, so
at most 1/8190 of that range from the true one. The page's script reads them when they come into view."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from parity.base import figures
from parity.records.history import CELL

#: A page shows so many.
NIGHTS = 90
_DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
_STEPS = len(_DIGITS) ** 2 - 1
_PAIRS = np.array([a + b for a in _DIGITS for b in _DIGITS])
#: Stands where a night has no value.
_NONE = '..'


@dataclass(frozen=True)
class Nights:
    """``labels``: (start, session) of each night, oldest first; ``cells``: by CELL, what `packed` made."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    cells: dict[tuple, list[Any]] = field(default_factory=dict)


def recent(frame: pl.DataFrame, session: str, start: float) -> pl.DataFrame:
    """Of history.load's rows those of the last NIGHTS sessions up to ``session``, begun at ``start``.
    Confirmations are not among them."""
    own = frame.filter((pl.col('rerun_of') == '')
                       & ((pl.col('start') < start) | (pl.col('session') == session)))
    last = own.unique('session').sort('start').tail(NIGHTS)['session']
    return own.filter(pl.col('session').is_in(last.implode()))


def of_recent(frame: pl.DataFrame) -> Nights:
    """The nights of what `recent` found; a night's value is the median of its runs, as it is judged."""
    if frame.is_empty():
        return Nights()
    nights = (frame.select('session', 'start', 'night').unique('session').sort('start')
              .with_row_index('at').with_columns(pl.col('at').cast(pl.Int64)))
    values = (frame.join(nights.select('session', 'at'), on='session')
              .group_by(*CELL, 'at').agg(pl.col('value').median(), pl.col('unit', 'low', 'high').first())
              .sort('at').group_by(*CELL).agg('at', 'value', 'low', 'high', pl.col('unit').last()))
    cells = {tuple(row[:len(CELL)]): packed(*row[len(CELL):]) for row in values.iter_rows()}
    return Nights([(row['night'], row['session'][:8]) for row in nights.iter_rows(named=True)], cells)


def packed(at: list[int], value: list[float], low: list[float | None], high: list[float | None],
           unit: str) -> list[Any]:
    """[first night, least, most, values, bands, unit], all in that unit: the one that reads best tonight.
    ``bands`` are [night, low, high]: the accepted band from that night on, null where it is open."""
    factor, shown = figures.moved(value[-1], unit)
    known = np.asarray(value) * factor
    least, most = float(known.min()), float(known.max())
    steps = np.rint((known - least) * (_STEPS / ((most - least) or 1.0))).astype(int)
    marks = np.full(at[-1] - at[0] + 1, _NONE)
    marks[np.asarray(at) - at[0]] = _PAIRS[steps]
    return [at[0], _short(least), _short(most), ''.join(marks), _bands(at, low, high, factor), shown]


def _bands(at: list[int], low: list, high: list, factor: float) -> list[list]:
    found: list[list] = []
    last: tuple = (None, None)
    for night, *bounds in zip(at, low, high, strict=True):
        if tuple(bounds) != last:
            last = tuple(bounds)
            found.append([night, *(None if b is None else _short(b * factor) for b in bounds)])
    return found


def _short(value: float) -> float:
    return float(f'{value:.6g}')


def as_json(nights: Nights, keys: list[tuple], reasons: dict[int, str]) -> str:
    """What the page's script reads: nights, a series (or 0) for each of ``keys``, and what rows do not tell. '<'
    is written as its number: nothing in it can end the element that it stands in."""
    cells = [nights.cells.get(key, 0) for key in keys]
    told = {'nights': nights.labels, 'cells': cells, 'reasons': reasons}
    return json.dumps(told, separators=(',', ':')).replace('<', '\\u003c')
