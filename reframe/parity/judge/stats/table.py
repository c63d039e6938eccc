"""The state of each cell on the night that is judged: one dataclass of arrays, a row a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.nights import Nights, median_of


@dataclass
class Table:
    """The nights of the cells, and their levels.

    A column is a night of all cells. ``level`` holds the nights of levels, one after the other; a slowdown that
    is over leaves it. So a place in ``level`` is no column: ``at`` has the column of each place. A cell's level is
    its places ``begin`` to ``end``."""

    # by column
    runs: np.ndarray         # what was measured, NaN: nothing
    again: np.ndarray        # the same with its reruns, NaN: none
    x: np.ndarray            # what is judged: with reruns, without the effect of the node
    state: np.ndarray        # of the night
    wanted: np.ndarray       # a rerun of the night
    normal: np.ndarray       # bool: a night of a level, or of what came and went
    surprise: np.ndarray     # of the runs alone, in standard deviations
    lone: np.ndarray         # how far a lone low night is below the level, 0: it is none
    usual: np.ndarray        # bool: like cells have lone nights so often that two are chance
    deepest: np.ndarray      # how far a slowdown was below the level before until that night, 0: none lasts
    # by place
    level: np.ndarray
    at: np.ndarray
    residual: np.ndarray     # the night less the base of its time, NaN: no base was known
    # of a cell
    begin: np.ndarray
    end: np.ndarray
    age: np.ndarray          # nights since it does this work
    low: np.ndarray          # bool: the last night is low, and was not run again
    began: list[str]         # the event that began the level
    since: np.ndarray        # its column, -1: none
    former: np.ndarray       # the level before this one, if this one is an improvement; else NaN
    changed: np.ndarray      # the column of the newest event that may begin a level, -1: none
    change: list[str]        # that event
    pending: np.ndarray      # bool: it may still begin one

    @classmethod
    def of(cls, nights: Nights, cell: np.ndarray, column: np.ndarray) -> Self:
        """Return the table of nights of which each is in the row ``cell`` and the column ``column``."""
        cells, columns = len(nights.start) - 1, int(column.max(initial=-1)) + 1

        def by_column(value: float, kind: type = float) -> np.ndarray:
            return np.full((cells, columns), value, dtype=kind)

        def by_place(value: float, kind: type = float) -> np.ndarray:
            return np.full((cells, columns + 1), value, dtype=kind)

        def of_cell(value: float, kind: type = float) -> np.ndarray:
            return np.full(cells, value, dtype=kind)

        runs, again = by_column(np.nan), by_column(np.nan)
        runs[cell, column], again[cell, column] = nights.value, nights.again
        runs[nights.counts] = np.nan
        runs[:, :max(0, columns - rule.MOST)] = np.nan
        return cls(
            runs=runs, again=again, x=runs.copy(), state=by_column(rule.TOO_FEW, np.int8),
            wanted=by_column(False, bool), normal=by_column(False, bool), surprise=by_column(np.nan, np.float32),
            lone=by_column(0, np.float32), usual=by_column(False, bool), deepest=by_column(0, np.float32),
            level=by_place(0), at=by_place(0, np.int32), residual=by_place(np.nan),
            begin=of_cell(0, int), end=of_cell(0, int), age=of_cell(0, int), low=of_cell(False, bool),
            began=[''] * cells, since=of_cell(-1, int), former=of_cell(np.nan),
            changed=of_cell(-1, int), change=[''] * cells, pending=of_cell(False, bool))

    def base(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the median of the last LEVEL nights of the level, how many these are, and the nights left out."""
        begin, nights = self.begin[cells], self.end[cells] - self.begin[cells]
        gap = np.fmin(rule.GAP, nights // 3)
        width = int(np.clip((nights - gap).max(initial=1), 1, rule.LEVEL))
        many = np.fmin(nights - gap, width)
        values = newest(self.level, cells, begin, self.end[cells] - gap, width)
        if len(many) and many.min() == width:
            values.partition([(width - 1) // 2, width // 2], axis=1)
        else:
            values.sort(axis=1)
        return median_of(values, many), many, gap

    def append(self, cells: np.ndarray, t: int, value: np.ndarray, residual: np.ndarray) -> None:
        """Add tonight to the level."""
        place = self.end[cells]
        self.level[cells, place], self.at[cells, place], self.residual[cells, place] = value, t, residual
        self.end[cells] = place + 1

    def start(self, c: int, place: int, word: str) -> None:
        """Begin a level with the night at a place. ``word``: the event that began it."""
        self.begin[c], self.former[c] = place, np.nan
        self.began[c], self.since[c] = word, self.at[c, place]
        self.residual[c, place:self.end[c]] = np.nan

    def leave_out(self, c: int, begin: int, stay: int) -> np.ndarray:
        """Take the nights from place ``begin`` on out of the level, but for the newest ``stay``.

        Return the columns of those that left."""
        end = self.end[c]
        gone = self.at[c, begin:end - stay].copy()
        for table in (self.level, self.at):
            table[c, begin:begin + stay] = table[c, end - stay:end].copy()
        self.residual[c, begin:end] = np.nan
        self.end[c] = begin + stay
        return gone

    def residuals_before(self, c: int, place: int) -> np.ndarray:
        """Return the known residuals of the newest MEMORY nights before a place."""
        residuals = self.residual[c, max(0, place - rule.MEMORY):place]
        return residuals[np.isfinite(residuals)]


def newest(table: np.ndarray, cells: np.ndarray, begin: np.ndarray, end: np.ndarray, many: int) -> np.ndarray:
    """Return the newest ``many`` places of cells before ``end``, the newest last; NaN before ``begin``."""
    place = end[:, None] - many + np.arange(many)
    return np.where(place >= begin[:, None], table[cells[:, None], np.fmax(place, 0)], np.nan)
