"""The state of each cell on the night that is judged: arrays with a row for each cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.nights import Nights, median_of


@dataclass
class Base:
    """The level that tonight is compared with [cells]."""

    value: np.ndarray
    nights: np.ndarray      # how many it is the median of
    gap: np.ndarray         # the newest nights of the level, which it leaves out


class Table:
    """The nights of the cells, and their levels.

    A column is a night of all cells. ``level`` holds the nights of levels, one after the other; a slowdown that
    is over leaves it. So a place in ``level`` is no column: ``at`` has the column of each place. A cell's level is
    its places ``begin`` to ``end``."""

    def __init__(self, nights: Nights, cell: np.ndarray, column: np.ndarray):
        """Make the table of nights of which each is in the row ``cell`` and the column ``column``."""
        cells = len(nights.start) - 1
        columns = int(column.max(initial=-1)) + 1
        shape = cells, columns
        night = cell, column
        too_old = slice(0, max(0, columns - rule.MOST))

        def table(value: float, kind: type = float) -> np.ndarray:
            """Make a table whose columns lie together in memory: a night of all cells is read at once."""
            return np.full(shape, value, kind, order='F')

        self.runs = table(np.nan)                       # what was measured, NaN: nothing
        self.runs[night] = nights.value
        self.runs[nights.counts] = np.nan
        self.runs[:, too_old] = np.nan
        self.again = table(np.nan)                      # the same with its reruns, NaN: none
        self.again[night] = nights.again
        self.x = self.runs.copy(order='F')              # with reruns, without the effect of the node
        self.state = table(rule.TOO_FEW, np.int8)       # of the night
        self.wanted = table(False, bool)                # a rerun of the night
        self.normal = table(False, bool)                # a night of a level, or of what came and went
        self.surprise = table(np.nan, np.float32)       # of the runs alone, in standard deviations
        self.lone = table(0, np.float32)                # how far a lone low night is below the level
        self.below = table(0, np.float32)               # how far a night is below its level, 0: not known
        self.usual = table(False, bool)         # like cells have lone nights so often that two are chance
        self.deepest = table(0, np.float32)     # how far a slowdown was below the level before until then
        places = cells, columns + 1
        self.level = np.zeros(places)
        self.at = np.zeros(places, np.int32)
        self.residual = np.full(places, np.nan)     # the night less the base of its time, NaN: none was known
        self.begin = np.zeros(cells, int)
        self.end = np.zeros(cells, int)
        self.age = np.zeros(cells, int)             # nights since it does this work
        self.low = np.zeros(cells, bool)            # the last night is low, and was not run again
        self.began = [''] * cells                   # the event that began the level
        self.since = np.full(cells, -1)             # its column, -1: none
        self.former = np.full(cells, np.nan)        # the level before this one, if this one is an improvement
        self.changed = np.full(cells, -1)           # column of the newest event that may begin a level, -1: none
        self.change = [''] * cells                  # that event
        self.pending = np.zeros(cells, bool)        # it may still begin one

    def base(self, cells: np.ndarray) -> Base:
        """Return the median of the last LEVEL nights of the level, without the newest ones."""
        begin = self.begin[cells]
        length = self.end[cells] - begin
        gap = np.fmin(rule.GAP, length // 3)
        length = length - gap
        end = begin + length
        longest = int(length.max(initial=1))
        width = int(np.clip(longest, 1, rule.LEVEL))
        nights = np.fmin(length, width)
        values = newest(self.level, cells, begin, end, width)
        values.sort(axis=1)         # numpy sorts short rows several times as fast as it partitions them
        return Base(median_of(values, nights), nights, gap)

    def append(self, cells: np.ndarray, t: int, value: np.ndarray, residual: np.ndarray) -> None:
        """Add tonight to the level."""
        end = self.end[cells]
        place = cells, end
        self.level[place] = value
        self.at[place] = t
        self.residual[place] = residual
        self.end[cells] = end + 1

    def start(self, c: int, place: int, word: str) -> None:
        """Begin a level with the night at a place. ``word``: the event that began it."""
        self.begin[c] = place
        self.former[c] = np.nan
        self.began[c] = word
        self.since[c] = self.at[c, place]
        end = self.end[c]
        self.residual[c, place:end] = np.nan

    def leave_out(self, c: int, begin: int, stay: int) -> np.ndarray:
        """Take the nights from place ``begin`` on out of the level, but for the newest ``stay``.

        Return the columns of those that left."""
        end = self.end[c]
        first_to_stay = end - stay
        new_end = begin + stay
        gone = self.at[c, begin:first_to_stay].copy()
        for table in (self.level, self.at):
            nights = table[c]
            staying = nights[first_to_stay:end].copy()
            nights[begin:new_end] = staying
        self.residual[c, begin:end] = np.nan
        self.end[c] = new_end
        return gone

    def nights_from(self, c: int, place: int) -> np.ndarray:
        """Return the nights of a cell's levels from a place on."""
        return self.level[c, place:self.end[c]]

    def newest_nights(self, c: int, many: int) -> np.ndarray:
        """Return the newest nights of a cell's levels, the newest last."""
        first = max(0, self.end[c] - many)
        return self.nights_from(c, first)

    def residuals_before(self, c: int, place: int) -> np.ndarray:
        """Return the known residuals of the newest MEMORY nights before a place."""
        first = max(0, place - rule.MEMORY)
        residuals = self.residual[c, first:place]
        is_known = np.isfinite(residuals)
        return residuals[is_known]


def newest(table: np.ndarray, cells: np.ndarray, begin: np.ndarray, end: np.ndarray, many: int) -> np.ndarray:
    """Return the newest ``many`` places of cells before ``end``, the newest last; NaN before ``begin``."""
    first = end - many
    if len(first) and 0 <= first.min() == first.max() >= begin.max():
        same_places = table[cells, first[0]:end[0]]         # of all: half the time
        return same_places.astype(float, copy=False)
    place = first[:, None] + np.arange(many)
    row = cells[:, None]
    values = table[row, np.fmax(place, 0)]
    return np.where(place >= begin[:, None], values, np.nan)
