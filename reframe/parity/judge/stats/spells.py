"""The begin of a slowdown, and the spells of what comes and goes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parity.judge.stats import rule


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


def spells(ended: Iterable[tuple[int, int, float]], x: np.ndarray, at: np.ndarray, t: int,
           depth: float) -> list[int]:
    """Return the first nights, as columns, of the spells before column ``t`` that are about as low as ``depth``.

    ``ended``: begin, end and depth of the slowdowns that were found; one of over GOOD_NIGHTS is no spell.
    ``x`` [nights]: the other nights less the base of their level, in the columns ``at``. NIGHTS_BACK low ones in
    a row are a spell, too, if good ones followed."""
    since, least = t - rule.LEVEL, rule.SPELL_SIZE * depth
    found = [begin for begin, end, was in ended
             if end - begin <= rule.GOOD_NIGHTS and end >= since and was <= least]
    low = (at >= since) & (x <= least)
    first, after = np.flatnonzero(np.diff(low, prepend=False, append=False)).reshape(-1, 2).T
    long_and_over = (after - first >= rule.NIGHTS_BACK) & (after < len(low))
    others = [begin for begin in at[first[long_and_over]].tolist()
              if all(abs(begin - known) > rule.NIGHTS_BACK for known in found)]
    return sorted(found + others)
