"""Outliers among figures, and a solver's messages.

Every function refuses what it cannot answer with ValueError, in one sentence; the caller adds where the figures
stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: Points of a side, iterations and ranks of LU: far more than any machine has.
LARGEST = 10 ** 9


class Moments(NamedTuple):
    """Mean, and coefficient of variation: a share, None of one value or where the mean is 0."""

    mean: float
    cv: float | None


class Outliers(NamedTuple):
    """The values kept, in their order; ``reason`` says why none was dropped."""

    kept: tuple[float, ...]
    dropped: int
    before: Moments
    after: Moments
    reason: str = ''


class Messages(NamedTuple):
    """Receives of a rank in one run, and bytes of a message: means over all ranks."""

    blocking: float
    blocking_bytes: float
    nonblocking: float
    nonblocking_bytes: float


def outliers(values: Sequence[float]) -> Outliers:
    """Drop the values above the 99th percentile; of fewer than 100 values, none.

    The percentile is linear between order statistics (Hyndman and Fan, Sample Quantiles, 1996, type 7).
    Raise ValueError for no values, and for values that are not finite."""
    x = finite(values, 'values')
    if not len(x):
        raise ValueError('there are no values')
    if len(x) < 100:
        kept = x
        reason = 'fewer than 100 values: none dropped'
    else:
        highest = np.percentile(x, 99)
        kept = x[x <= highest]
        reason = ''
    return Outliers(
        kept=tuple(kept.tolist()),
        dropped=len(x) - len(kept),
        before=moments(x),
        after=moments(kept),
        reason=reason)


def lu_messages(n: int, iterations: int, ranks: int, warm_up: int = 0) -> Messages:
    """Count the receives of LU, a solver of the NAS Parallel Benchmarks, on n^3 points; messages in bytes.

    Derived from version 3.4.3 (MPI). Ranks form a grid of X x Y, the squarest with X >= Y (proc_grid.f90): it has
    (X-1) Y + X (Y-1) edges. A rank's block has all n planes (subdomain.f90).
    Blocking (exchange_1.f90, ssor.f90): an iteration sweeps the n - 2 inner planes down and up. Each plane passes
    one message an edge, of 5 doubles an inner point of the side: together 40 (n-2) (X+Y-2) bytes.
    Non-blocking (exchange_3.f90): a right-hand side passes two messages an edge, of 10 doubles a point of the
    side: one way together 80 n^2 (X+Y-2) bytes. There is one of the exact solution (erhs.f90), one before the
    iterations, and one in each (ssor.f90). Left out is the surface integral after the timed part (pintgr.f90): 1
    short receive an edge and 2 (X+Y-2) more.
    Versions 2.x exchange the same, on powers of two. 3.4 also takes X <= 2 Y, and before the timed part it calls
    ssor.f90 for one iteration: ``warm_up=1`` counts it, as a profiler does. Raise ValueError for ranks without
    such a grid, for blocks narrower than 3 points, and for numbers below 1 or above LARGEST."""
    numbers = n, iterations, ranks
    stated = f'{n} points, {iterations} iterations, {ranks} ranks'
    if min(numbers) < 1 or warm_up < 0:
        raise ValueError(f'{stated}: each must be at least 1')
    if max(numbers) > LARGEST:
        raise ValueError(f'{stated}: each must be at most {LARGEST}')
    narrow = math.isqrt(ranks)
    while ranks % narrow:
        narrow -= 1
    wide = ranks // narrow
    if wide > 2 * narrow:
        raise ValueError(f'{ranks} ranks form no grid whose sides differ by a factor of 2 at most')
    if n // wide < 3:
        raise ValueError(f'{n} points over {wide} ranks: a block needs 3 points a side')
    edges = (wide - 1) * narrow + wide * (narrow - 1)
    some_edges = max(edges, 1)
    sides = wide + narrow - 2
    sweeps = 2 * (n - 2) * (iterations + warm_up)
    right_hand_sides = 1 + (1 + iterations)
    if warm_up:
        right_hand_sides += 1 + warm_up
    return Messages(
        blocking=sweeps * edges / ranks,
        blocking_bytes=40 * (n - 2) * sides / some_edges,
        nonblocking=2 * right_hand_sides * edges / ranks,
        nonblocking_bytes=80 * n * n * sides / some_edges)


def finite(values, name: str, dimensions: int = 1):
    """Return an array of finite numbers. ValueError for anything else."""
    try:
        x = np.asarray(values, float)
    except (TypeError, ValueError):     # text, or rows of unequal length
        x = np.array(math.nan)
    is_finite = np.isfinite(x).all()
    if x.ndim != dimensions or not is_finite:
        rows = ', as many in each' if dimensions > 1 else ''
        raise ValueError(f'{name} must be finite numbers{rows}')
    return x


def moments(x) -> Moments:
    """Return the mean and the coefficient of variation of an array."""
    mean = float(x.mean())
    if len(x) < 2 or not mean:
        return Moments(mean, None)
    deviation = float(x.std(ddof=1))
    return Moments(mean, deviation / abs(mean))
