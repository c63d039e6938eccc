"""Laws behind published figures: fits with intervals, clusters, limits to scaling.

Every function refuses what it cannot answer with ValueError, in one sentence; the caller adds where the figures
stand. Results have the units of the arguments unless a docstring names others."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import ClusterError, kmeans2
from scipy.special import fdtri, stdtrit

from parity.base.figures import counted
from parity.judge.stats.laws import finite, moments
from parity.study.published.formula import Estimate

#: Starts of a clustering.
STARTS = 50
#: A doubling of nodes gains something from this share of the rate on.
GAIN = 0.10
#: Rounding that makes no difference of a slope or a gain.
_ROUNDING = 1e-9


class FittedLaw(NamedTuple):
    """y = a x^b. ``low`` and ``high`` are the 95 % interval of b (law 'power') or of a (law 'inverse', b = -1).

    ``r2`` is of the logarithms, None where all y are equal. ``holds`` (inverse): a free b may be -1."""

    law: str
    a: float
    b: float
    low: float
    high: float
    r2: float | None
    points: int
    reason: str = ''
    holds: bool | None = None


class Cluster(NamedTuple):
    """``rows`` are places in the argument; ``centroid`` has a value a column, in its unit."""

    size: int
    centroid: tuple[float, ...]
    rows: tuple[int, ...]


def power(x: Sequence[float], y: Sequence[float]) -> FittedLaw:
    """Fit y = a x^b by least squares of the logarithms, with the 95 % interval of b.

    ``a`` is y at x = 1. The interval is b +- t se(b) with n - 2 degrees of freedom (Draper and Smith, Applied
    Regression Analysis, 1998, section 1.4). It assumes independent noise in proportion to y. 3 or 4 different x
    are 'few points'. Raise ValueError for fewer, for lengths that differ, and for values not above 0."""
    u, v, few = _logarithms(x, y)
    du, dv = u - u.mean(), v - v.mean()
    b = float(du @ dv / (du @ du))
    rest, freedom = dv - b * du, len(u) - 2
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(rest @ rest / freedom / (du @ du))
    return FittedLaw('power', _exp(v.mean() - b * u.mean()), b, b - half, b + half, _r2(rest, dv), len(u), few)


def inverse(p: Sequence[float], t: Sequence[float]) -> FittedLaw:
    """Fit t = a0 / p (the time t on p processors) by least squares of the logarithms; a0 is in t's unit.

    a0 is the geometric mean of t p, its 95 % interval that of a mean of logarithms (t, n - 1 degrees of freedom).
    Where ``r2`` is below 0, a constant t is nearer than the law. Raise ValueError as ``power`` does."""
    u, v, few = _logarithms(p, t)
    mean, rest, free = float((u + v).mean()), u + v - (u + v).mean(), power(p, t)
    half = float(stdtrit(len(u) - 1, 0.975)) * math.sqrt(rest @ rest / (len(u) - 1) / len(u))
    low, high = _exp(mean - half), _exp(mean + half)
    return FittedLaw('inverse', _exp(mean), -1.0, low, high, _r2(rest, v - v.mean()), len(u), few,
               holds=free.low - _ROUNDING <= -1 <= free.high + _ROUNDING)


def geometric_mean(values: Sequence[float]) -> Estimate:
    """Return the geometric mean, with the 95 % t interval of the mean of the logarithms.

    Raise ValueError for no values, and for values not above 0."""
    v = np.log(_positive(values, 'values'))
    if not len(v):
        raise ValueError('there are no values')
    if len(v) == 1:
        return Estimate(_exp(v[0]))
    half = float(stdtrit(len(v) - 1, 0.975)) * float(v.std(ddof=1)) / math.sqrt(len(v))
    return Estimate(_exp(v.mean()), _exp(v.mean() - half), _exp(v.mean() + half), len(v) - 1)


def clusters(rows: Sequence[Sequence[float]], k: int) -> tuple[Cluster, ...]:
    """Divide ``rows`` (a row an observation, a column a quantity) into k clusters, the largest first.

    Columns are whitened: each is divided by its standard deviation, so units do not matter. k-means (Lloyd, 1982;
    starts of Arthur and Vassilvitskii, 2007) runs from 50 starts of one seed; the least sum of squared distances
    wins. Centroids are means of their rows: weighted by size they are the means of all rows. Raise
    ValueError for fewer different rows than k, and for rows that are uneven or not finite."""
    x = finite(rows, 'rows', dimensions=2)
    if not x.size:
        raise ValueError('there are no rows')
    spread = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 0)
    whitened = ((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)).round(12)
    different = len(np.unique(whitened, axis=0))
    if not 1 <= k <= different:
        raise ValueError(f'{k} clusters of {different} different rows: 1 to {different} are possible')
    rng, tried = np.random.default_rng(1), []
    for _ in range(STARTS):
        with contextlib.suppress(ClusterError):        # a cluster lost its last row
            centres, of = kmeans2(whitened, k, iter=100, minit='++', missing='raise', rng=rng)
            tried.append((float(((whitened - centres[of]) ** 2).sum()), of))
    if not tried:
        raise ValueError(f'no start of {STARTS} kept {k} clusters: ask for fewer')
    of = min(tried, key=lambda start: start[0])[1]
    found = [(tuple(np.flatnonzero(of == c).tolist()), x[of == c]) for c in range(k)]
    return tuple(Cluster(len(at), tuple(rows.mean(axis=0).tolist()), at)
                 for at, rows in sorted(found, key=lambda group: (-len(group[0]), group[0])))


def variation(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return how many times as variable ``above`` is as ``below``: the ratio of coefficients of variation.

    The 95 % interval takes their squares as chi-square over n - 1, so their ratio follows F (McKay, 1932; Vangel,
    The American Statistician 50, 1996): for values that are normal, and coefficients below 1/3. Raise ValueError
    for fewer than 3 values, and where a mean or the spread of ``below`` is 0."""
    x, y = finite(above, 'values'), finite(below, 'values')
    if (fewest := min(len(x), len(y))) < 3:
        raise ValueError(f'{counted(fewest, "run")}: no coefficient of variation, 3 are needed')
    of_x, of_y = moments(x).cv, moments(y).cv
    if of_x is None or not of_y:
        raise ValueError('a mean or a spread of 0 has no ratio')
    ratio, n, m = of_x / of_y, len(x) - 1, len(y) - 1
    low, high = (math.sqrt(float(fdtri(*freedom, 0.975))) for freedom in ((n, m), (m, n)))
    return Estimate(ratio, ratio / low, ratio * high)


def knee(n: Sequence[float], rates: Sequence[float]) -> float | None:
    """Return the nodes from where no doubling gains 10 % of the rate; None where the last doubling does.

    ``rates`` are better when higher: of times, give 1 / t. The doubling of n is the first point at 2 n or more.
    Farther ones count per doubling: (rate / rate)^(1 / log2(n / n)). Raise ValueError where no point doubles
    another, for a repeated n, and for values not above 0."""
    x, y = _positive(n, 'nodes'), _positive(rates, 'rates')
    if len(x) != len(y) or len(set(x)) < len(x):
        raise ValueError('each number of nodes needs one rate')
    x, y, found = np.sort(x), y[np.argsort(x)], None
    if not len(x) or x[-1] < 2 * x[0]:
        raise ValueError('no number of nodes is twice another')
    for here in reversed(np.flatnonzero(2 * x <= x[-1])):
        there = np.searchsorted(x, 2 * x[here])
        if math.log(y[there] / y[here]) / math.log2(x[there] / x[here]) >= math.log1p(GAIN) - _ROUNDING:
            break
        found = float(x[here])
    return found


def _positive(values, name: str):
    x = finite(values, name)
    if (x <= 0).any():
        raise ValueError(f'{name} must be above 0, and one is {x.min():g}')
    return x


def _logarithms(x: Sequence[float], y: Sequence[float]):
    """Return the logarithms of x and y, and what few points are called."""
    u, v = np.log(_positive(x, 'x')), np.log(_positive(y, 'y'))
    if len(u) != len(v):
        raise ValueError(f'{len(u)} x and {len(v)} y: each x needs its y')
    if (different := len(np.unique(u))) < 3:
        raise ValueError(f'{different} different x: a law needs at least 3')
    return u, v, 'few points' if different < 5 else ''


def _r2(rest, around_mean) -> float | None:
    total = float(around_mean @ around_mean)
    return 1 - float(rest @ rest) / total if total else None


def _exp(logarithm: float) -> float:
    if abs(logarithm) > 700:        # beyond e^709 there is no number
        raise ValueError('the values are too far apart for this law')
    return math.exp(logarithm)
