"""The moves of levels: how much a level must move to be news."""

from __future__ import annotations

import numpy as np

from parity.stats import rule


class Moves:
    """Moves of the levels of the cells of a group, in order: column, cell, size (log). ``others``: cells beside
    each."""

    def __init__(self, others: float):
        self._rows, self._count, self._others = np.empty((16, 3)), 0, others

    def add(self, *row: float) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._rows[self._count] = row
        self._count += 1

    def forget(self) -> None:
        self._count = 0

    def least(self, cell: int, column: int) -> float:
        """Return the smallest slowdown that is news: more where the level moves often, but no more than NEWS."""
        rows = self._rows[:self._count]
        rows = rows[np.searchsorted(rows[:, 0], column - rule.MOVES):]
        mine = rows[:, 1] == cell
        own = int(mine.sum())
        if own + (len(rows) - own) / self._others < rule.MOVED:
            return rule.EFFECT
        sizes = rows[mine, 2] if own > 1 else rows[:, 2]
        return min(max(rule.TIMES * float(np.median(sizes)), rule.EFFECT), rule.NEWS)
