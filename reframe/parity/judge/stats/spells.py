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
    in_deviations = x / scale[:, None]
    newest_first = np.clip(in_deviations, -rule.FARTHEST, None)[:, ::-1]
    columns = at[:, ::-1]
    all_nights = x.shape[1]
    nights = np.arange(1, all_nights + 1)
    total = np.fmin(np.nancumsum(newest_first, axis=1), 0)
    is_measured = np.isfinite(newest_first)
    likelihood = np.where(is_measured, total ** 2 / nights / 2, 0)
    best = likelihood.max(axis=1, initial=0)[:, None]
    may_begin = (likelihood > best - rule.BEGUN) & (best > rule.BEGUN)
    row = np.arange(len(x))
    fewest = may_begin.argmax(axis=1)
    has_begun = may_begin.any(axis=1)
    first_slow = np.where(has_begun, columns[row, fewest], -1)
    most = all_nights - may_begin[:, ::-1].argmax(axis=1)
    before = np.fmin(most, all_nights - 1)
    has_good = (most < all_nights) & is_measured[row, before]
    last_good = np.where(has_good, columns[row, before], -1)
    return last_good, first_slow


def spells(ended: Iterable[tuple[int, int, float]], x: np.ndarray, at: np.ndarray, t: int,
           depth: float) -> list[int]:
    """Return the first nights, as columns, of the spells before column ``t`` that are about as low as ``depth``.

    ``ended``: begin, end and depth of the slowdowns that were found; one of over GOOD_NIGHTS is no spell.
    ``x`` [nights]: the other nights less the base of their level, in the columns ``at``. NIGHTS_BACK low ones in
    a row are a spell, too, if good ones followed."""
    since = t - rule.LEVEL
    least = rule.SPELL_SIZE * depth
    of_slowdowns = []
    for begin, end, size in ended:
        is_short = end - begin <= rule.GOOD_NIGHTS
        if is_short and end >= since and size <= least:
            of_slowdowns.append(begin)
    others = []
    is_low = (at >= since) & (x <= least)
    edges = np.diff(is_low, prepend=False, append=False)
    low_runs = np.flatnonzero(edges).reshape(-1, 2)
    for first, after in low_runs.tolist():
        is_over = after < len(x)
        is_long = after - first >= rule.NIGHTS_BACK
        begin = int(at[first])
        is_new = all(abs(begin - other) > rule.NIGHTS_BACK for other in of_slowdowns)
        if is_over and is_long and is_new:
            others.append(begin)
    return sorted(of_slowdowns + others)
