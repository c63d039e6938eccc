"""The moves of levels: how much a level must move to be news, and spells that come and go."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.noise import by_chance


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


def begun(x: np.ndarray, at: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each series the newest night that was surely good before its slowdown, and the first that was
    surely slow, as columns; -1: not known.

    ``x`` [series, nights]: the nights less the level before, the newest last, NaN: none; in the columns ``at``.
    ``scale`` [series]. The log of the profile likelihood of n slow nights of mean m is n (m / scale)^2 / 2."""
    x = np.clip(x / scale[:, None], -rule.FARTHEST, None)[:, ::-1]
    many = np.arange(1, x.shape[1] + 1)
    likelihood = np.where(np.isfinite(x), np.fmin(np.nancumsum(x, axis=1), 0) ** 2 / many / 2, 0)
    best = likelihood.max(axis=1, initial=0)[:, None]
    may = (likelihood > best - rule.BEGUN) & (best > rule.BEGUN)
    row, newest_first = np.arange(len(x)), at[:, ::-1]
    first_slow = np.where(may.any(axis=1), newest_first[row, may.argmax(axis=1)], -1)
    most = len(many) - may[:, ::-1].argmax(axis=1)
    before = np.fmin(most, len(many) - 1)
    known = (most < len(many)) & np.isfinite(x[row, before])
    return np.where(known, newest_first[row, before], -1), first_slow


def spells(ended: Iterable[tuple[int, int, float]], x: np.ndarray, at: np.ndarray, t: int, depth: float
           ) -> tuple[list[int], bool]:
    """Return the first nights, as columns, of the spells before column ``t`` that are about as low as ``depth``.
    Return whether nights half as low are too many for chance, by the nights before; only if a spell was found.

    ``ended``: begin, end and depth of the slowdowns that were found; one of over GOOD_NIGHTS is no spell.
    ``x`` [nights]: the other nights less the base of their level, in the columns ``at``. NIGHTS_BACK low ones in
    a row are a spell, too, if good ones followed."""
    since, least = t - rule.SPELLS_WITHIN, rule.SPELL_SIZE * depth
    found = [(begin, end) for begin, end, was in ended
             if end - begin <= rule.GOOD_NIGHTS and end >= since and was <= least]
    new, half = at >= since, x <= depth / 2
    slow = np.concatenate([at[:0], *(np.arange(*spell) for spell in found)])
    newest_first = np.argsort(-np.append(at[new], slow), kind='stable')
    low = np.append(half[new], np.ones(len(slow), dtype=bool))[newest_first]
    share = ((half & ~new).sum() + 1) / ((np.isfinite(x) & ~new).sum() + 1)
    often = bool(found) and by_chance(low, share) < rule.OFTEN
    low = new & (half if often else x <= least)
    begin, end = np.flatnonzero(np.diff(low, prepend=False, append=False)).reshape(-1, 2).T
    missed = at[begin[(end - begin >= rule.NIGHTS_BACK) & (end < len(low))]].tolist()
    known = [begin for begin, _ in found]
    return sorted(known + [i for i in missed if all(abs(i - k) > rule.NIGHTS_BACK for k in known)]), often
