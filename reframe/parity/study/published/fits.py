"""Laws behind published figures: fits and clusters.

Every function refuses what it cannot answer with ValueError, in one sentence; the caller adds where the figures
stand. Results have the units of the arguments unless a docstring names others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2

from parity.judge.stats.laws import finite

#: Starts of a clustering, and steps of each at most.
STARTS = 50
STEPS = 100


class FittedLaw(NamedTuple):
    """y = a x^b, b = -1 of the law 'inverse'. ``r2`` is of the logarithms, None where all y are equal."""

    law: str
    a: float
    b: float
    r2: float | None
    points: int
    reason: str = ''


class Cluster(NamedTuple):
    """``rows`` are places in the argument; ``centroid`` has a value a column, in its unit."""

    size: int
    centroid: tuple[float, ...]
    rows: tuple[int, ...]


def power(x: Sequence[float], y: Sequence[float]) -> FittedLaw:
    """Fit y = a x^b by least squares of the logarithms; ``a`` is y at x = 1. 3 or 4 different x are 'few points'.

    Raise ValueError for fewer, for lengths that differ, and for values not above 0."""
    u, v = _logarithms(x, y)
    du = u - u.mean()
    dv = v - v.mean()
    b = float(du @ dv / (du @ du))
    at_one = v.mean() - b * u.mean()
    a = _exp(at_one)
    r2 = _r2(dv - b * du, dv)
    return FittedLaw('power', a, b, r2, len(u), _few_points(u))


def inverse(p: Sequence[float], t: Sequence[float]) -> FittedLaw:
    """Fit t = a / p (the time t on p processors) by least squares of the logarithms; a is in t's unit.

    a is the geometric mean of t p. Where ``r2`` is below 0, a constant t is nearer than the law. Raise
    ValueError as ``power`` does."""
    u, v = _logarithms(p, t)
    products = u + v
    mean = float(products.mean())
    around_mean = v - v.mean()
    r2 = _r2(products - mean, around_mean)
    return FittedLaw('inverse', _exp(mean), -1.0, r2, len(u), _few_points(u))


def clusters(rows: Sequence[Sequence[float]], k: int) -> tuple[Cluster, ...]:
    """Divide ``rows`` (a row an observation, a column a quantity) into k clusters, the largest first.

    Columns are whitened: each is divided by its standard deviation, so units do not matter. k-means (Lloyd, 1982;
    starts of Arthur and Vassilvitskii, 2007) runs from 50 starts of one seed; the least sum of squared distances
    wins. Centroids are means of their rows: weighted by size they are the means of all rows. Raise
    ValueError for fewer different rows than k, and for rows that are uneven or not finite."""
    x = finite(rows, 'rows', dimensions=2)
    if not x.size:
        raise ValueError('there are no rows')
    whitened = _whitened(x)
    different = len(np.unique(whitened, axis=0))
    if not 1 <= k <= different:
        raise ValueError(f'{k} clusters of {different} different rows: 1 to {different} are possible')
    cluster_of = _nearest(whitened, k)
    groups = [np.flatnonzero(cluster_of == number) for number in range(k)]
    groups.sort(key=lambda group: (-len(group), group.tolist()))
    divided = []
    for group in groups:
        centroid = x[group].mean(axis=0)
        divided.append(Cluster(len(group), tuple(centroid.tolist()), tuple(group.tolist())))
    return tuple(divided)


def _whitened(x: np.ndarray) -> np.ndarray:
    """Return the columns divided by their standard deviations; one whose rows are equal is 0."""
    spread = x.std(axis=0)
    spread[np.ptp(x, axis=0) == 0] = 1
    spread[spread == 0] = 1
    deviations = x - x.mean(axis=0)
    return (deviations / spread).round(12)


def _nearest(whitened: np.ndarray, k: int) -> np.ndarray:
    """Return the cluster of each row, of the start whose sum of squared distances is least."""
    rng = np.random.default_rng(1)
    least, best = math.inf, None
    for _ in range(STARTS):
        with contextlib.suppress(ClusterError):        # a cluster lost its last row
            centres, cluster_of = _settled(whitened, k, rng)
            squares = float(((whitened - centres[cluster_of]) ** 2).sum())
            if squares < least:
                least, best = squares, cluster_of
    if best is None:
        raise ValueError(f'no start of {STARTS} kept {k} clusters: ask for fewer')
    return best


def _settled(whitened: np.ndarray, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of one start, and the cluster of each row, once no row changes its cluster.

    Raise ClusterError where a cluster lost its last row."""
    centres, cluster_of = kmeans2(whitened, k, iter=1, minit='++', missing='raise', rng=rng)
    for _ in range(STEPS - 1):
        before = cluster_of
        centres, cluster_of = kmeans2(whitened, centres, iter=1, minit='matrix', missing='raise')
        if np.array_equal(before, cluster_of):
            break
    return centres, cluster_of


def _positive(values: Sequence[float], name: str) -> np.ndarray:
    x = finite(values, name)
    if (x <= 0).any():
        raise ValueError(f'{name} must be above 0, and one is {x.min():g}')
    return x


def _logarithms(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    u = np.log(_positive(x, 'x'))
    v = np.log(_positive(y, 'y'))
    if len(u) != len(v):
        raise ValueError(f'{len(u)} x and {len(v)} y: each x needs its y')
    different = len(np.unique(u))
    if different < 3:
        raise ValueError(f'{different} different x: a law needs at least 3')
    return u, v


def _few_points(u: np.ndarray) -> str:
    return 'few points' if len(np.unique(u)) < 5 else ''


def _r2(rest, around_mean) -> float | None:
    total = float(around_mean @ around_mean)
    return 1 - float(rest @ rest) / total if total else None


def _exp(logarithm: float) -> float:
    if abs(logarithm) > 700:        # beyond e^709 there is no number
        raise ValueError('the values are too far apart for this law')
    return math.exp(logarithm)
