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
    newest_first = np.clip(x / scale[:, None], -rule.FARTHEST, None)[:, ::-1]
    columns = at[:, ::-1]
    many = np.arange(1, x.shape[1] + 1)
    total = np.fmin(np.nancumsum(newest_first, axis=1), 0)
    likelihood = np.where(np.isfinite(newest_first), total ** 2 / many / 2, 0)
    best = likelihood.max(axis=1, initial=0)[:, None]
    may_begin = (likelihood > best - rule.BEGUN) & (best > rule.BEGUN)
    row = np.arange(len(x))
    fewest = may_begin.argmax(axis=1)
    first_slow = np.where(may_begin.any(axis=1), columns[row, fewest], -1)
    most = len(many) - may_begin[:, ::-1].argmax(axis=1)
    before = np.fmin(most, len(many) - 1)
    is_measured = (most < len(many)) & np.isfinite(newest_first[row, before])
    return np.where(is_measured, columns[row, before], -1), first_slow


def spells(ended: Iterable[tuple[int, int, float]], x: np.ndarray, at: np.ndarray, t: int,
           depth: float) -> list[int]:
    """Return the first nights, as columns, of the spells before column ``t`` that are about as low as ``depth``.

    ``ended``: begin, end and depth of the slowdowns that were found; one of over GOOD_NIGHTS is no spell.
    ``x`` [nights]: the other nights less the base of their level, in the columns ``at``. NIGHTS_BACK low ones in
    a row are a spell, too, if good ones followed."""
    since, least = t - rule.LEVEL, rule.SPELL_SIZE * depth
    begins = []
    for begin, end, size in ended:
        is_short = end - begin <= rule.GOOD_NIGHTS
        if is_short and end >= since and size <= least:
            begins.append(begin)
    others = []
    low = (at >= since) & (x <= least)
    edges = np.flatnonzero(np.diff(low, prepend=False, append=False))
    for first, after in edges.reshape(-1, 2).tolist():
        is_long_and_over = after - first >= rule.NIGHTS_BACK and after < len(low)
        begin = int(at[first])
        is_new = all(abs(begin - other) > rule.NIGHTS_BACK for other in begins)
        if is_long_and_over and is_new:
            others.append(begin)
    return sorted(begins + others)
