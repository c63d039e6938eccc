"""The ratio of two medians, with its interval: one method for every metric, chosen beforehand.

On logarithms. The interval of one side's median comes from its order statistics (Hettmansperger and
Sheather, 1986: two neighbours interpolated), which assumes nothing of the noise's form; 3 to 5 runs, too few
for that at 95 %, take Student's t, and 1 or 2 have none. MOVER (Zou and Donner, 2008) joins two sides: each
limit's distance is the root of the summed squares of both medians' distances. Runs interleaved in time are
pairs: the median of their quotients, as one side's. Runs that depend on one another (lag-1 autocorrelation)
and a timer with few digits, half a step off, make it wider. Coverage: docs/compare.md, `python -m dev.coverage`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from statistics import fmean, median, quantiles, stdev

CONFIDENCE = 0.95
#: Fewer runs say nothing of the noise.
FEWEST = 3
#: Quantiles of Student's t at 97.5 % by the number of runs (scipy takes longer to import than a comparison).
_T = {3: 4.302653, 4: 3.182446, 5: 2.776445}
#: From so many runs on, one-sided 5 % of independent series show the autocorrelation that widens.
_FEWEST_FOR_LAG = 10
#: A factor of e^300 between runs is no noise, and no number that can be calculated with.
_FARTHEST = 300.0
_Z95 = 1.644854


@dataclass(frozen=True)
class Ratio:
    """candidate / baseline. ``low`` and ``high`` are None where there is no interval: ``why`` says it."""

    ratio: float | None
    low: float | None = None
    high: float | None = None
    why: str = ''
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sample:
    """The runs of one side in the order of time. ``step``: the timer's; None: as many decimals as they show."""

    values: tuple[float, ...]
    step: float | None = None

    @cached_property
    def median(self) -> float:
        return median(self.values)

    @cached_property
    def half_step(self) -> float:
        """Half a step as a share of the median."""
        exponents = [Decimal(repr(float(v))).normalize().as_tuple().exponent for v in self.values]
        step = 10.0 ** min(0, *exponents) if self.step is None else self.step       # 0.01 of 1.8 and 1.78
        return step / 2 / abs(self.median)


def ratio(baseline: Sample, candidate: Sample, pairs: bool = False) -> Ratio:
    """Return the quotient of both medians; of ``pairs`` (run i of each side) the median of the quotients."""
    if min(*baseline.values, *candidate.values, math.inf) <= 0:
        return Ratio(None, why='values at or below 0: no ratio')
    series = [candidate.values, baseline.values]
    if pairs:
        series = [[c / b for b, c in zip(baseline.values, candidate.values, strict=True)]]
    at = candidate.median / baseline.median
    if not all(0 < value < math.inf for value in (at, *series[0])):
        return Ratio(None, why='the values are too far apart: no ratio')
    if pairs:
        at = math.exp(median(map(math.log, series[0])))
    if (n := min(map(len, series))) < FEWEST:
        what = 'pair' if pairs else 'run'
        return Ratio(at, why=f'{n} {what}{"s" if n > 1 else ""}: no interval, {FEWEST} are needed')
    if (coarsest := max(baseline.half_step, candidate.half_step)) >= 0.5:
        return Ratio(at, why=f'a step of the timer is {200 * coarsest:.0f} % of the median: no interval')
    (below, above, lag), *others = map(_of_median, series)
    for other_below, other_above, other_lag in others:
        below, above, lag = math.hypot(below, other_above), math.hypot(above, other_below), max(lag, other_lag)
    low = at * math.exp(-below) * (1 - candidate.half_step) / (1 + baseline.half_step)
    high = at * math.exp(min(above, _FARTHEST)) * (1 + candidate.half_step) / (1 - baseline.half_step)
    if not 0 < low <= high < math.inf or above > _FARTHEST:
        return Ratio(at, why='the runs are too far apart: no interval')
    notes = (f'runs depend on one another (lag-1 {lag:.2f}): wider by {_factor(lag):.2f}',) if lag else ()
    return Ratio(at, low, high, notes=notes)


def limits(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the interval of the median; None of fewer than FEWEST values, and of values at or below 0."""
    if len(values) < FEWEST or min(values) <= 0:
        return None
    (below, above, _), at = _of_median(values), median(values)
    return (at * math.exp(-below), at * math.exp(above)) if max(below, above) < _FARTHEST else None


def spread(values: Sequence[float]) -> float | None:
    """Return the robust standard deviation 0.7413 x IQR as a share of the median; None of one value, or at 0."""
    middle = median(values)
    if len(values) < 2 or not middle:
        return None
    first, _, third = quantiles(values, n=4, method='inclusive')
    return 0.7413 * (third - first) / abs(middle)


def _of_median(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the distances of the limits below and above the logarithm of the median, and the lag-1
    autocorrelation where it widens them, else 0."""
    logs = [math.log(v) for v in values]
    n, middle, lag = len(logs), median(logs), _lag(logs)
    if n in _T:
        half = _T[n] * stdev(logs) / math.sqrt(n)
        low, high = fmean(logs) - half, fmean(logs) + half
    else:
        ordered = sorted(logs)
        k, weight = _position(n)
        low = (1 - weight) * ordered[k - 1] + weight * ordered[k]
        high = (1 - weight) * ordered[n - k] + weight * ordered[n - k - 1]
    return (middle - low) * _factor(lag), (high - middle) * _factor(lag), lag


@lru_cache
def _position(n: int) -> tuple[int, float]:
    """Return (k, weight) of the limits: order statistic k, and how far towards k + 1."""
    k = 1
    while _confidence(n, k + 1) >= CONFIDENCE:
        k += 1
    inner, outer = _confidence(n, k + 1), _confidence(n, k)
    share = (outer - CONFIDENCE) / (outer - inner)
    return k, (n - k) * share / (k + (n - 2 * k) * share)


def _confidence(n: int, k: int) -> float:
    """Return the probability that the median is between order statistics k and n + 1 - k."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2 ** n


def _lag(logs: list[float]) -> float:
    """Return the lag-1 autocorrelation, 0 where the runs are few or it may be chance."""
    n, mean = len(logs), fmean(logs)
    total = sum((x - mean) ** 2 for x in logs)
    if n < _FEWEST_FOR_LAG or not total:
        return 0.0
    lag = sum((a - mean) * (b - mean) for a, b in zip(logs, logs[1:], strict=False)) / total
    return min(lag, 0.9) if lag > _Z95 / math.sqrt(n) else 0.0


def _factor(lag: float) -> float:
    """Return how much wider the interval of a mean is in a series of this lag-1 autocorrelation (AR 1)."""
    return math.sqrt((1 + lag) / (1 - lag))
