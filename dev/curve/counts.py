"""Counts, such as errors and retransmits: false alarms, and a fourfold rate found within 7 nights."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import stats

from dev.curve import rule
from dev.curve.families import GROUP, HISTORY, RUNS
from dev.curve.figures import Amount, Figure, Row
from dev.curve.oracle import bar, cusum

#: New alarms per 1000 cell-nights; % of fourfold rates to find at .3 a run, Poisson.
NEW, FOUND = 1.0, 80.0
TIMES, WITHIN = 4, 7
#: Events a run, and the variance of a night's sum over its mean (negative binomial; 1: Poisson).
COUNTS = [(mean, over) for over in (1.0, 3.0) for mean in (0.05, 0.3, 2.0, 20.0)]


def rows(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure the counts. The oracle knows rate and distribution."""
    series, begin = np.arange(amount.stepped * GROUP), np.full(amount.stepped * GROUP, 2 * HISTORY)
    which = series % GROUP < GROUP // 2
    times = np.where(which[:, None] & (np.arange(2 * HISTORY + WITHIN) >= 2 * HISTORY), TIMES, 1.0)
    usual = np.ones((amount.groups * GROUP, HISTORY + amount.nights))
    for mean, over in COUNTS[:2] if small else COUNTS:
        rng = np.random.default_rng([seed, int(100 * mean), int(over)])
        drawn = [_draw(rng, mean, over, t) for t in (usual, times)]
        null, slow = (rule.follow(each, sign=-1).slow for each in drawn)
        on_null, evidence = (_evidence(mean, over, each.sum(axis=2)) for each in drawn)
        ours, best = (rule.found(each, which, begin, WITHIN) for each in (slow, cusum(evidence, bar(on_null))))
        yield Row(f'mean {mean:g} a run, variance {over:g} x mean', {
            'new': Figure.of(rule.fresh(null), most=NEW),
            f'x{TIMES} in {WITHIN}': Figure.of(ours, FOUND if (mean, over) == (0.3, 1) else -np.inf),
            'oracle': Figure.of(best)})


def _draw(rng: np.random.Generator, mean: float, over: float, times: np.ndarray) -> np.ndarray:
    """Draw counts [series, nights, RUNS] whose rate is ``times`` [series, nights] the mean's."""
    shape = RUNS * mean / (over - 1) if over > 1 else np.inf
    rate = mean * times * (rng.gamma(shape, 1 / shape, times.shape) if over > 1 else 1)
    return rng.poisson(np.repeat(rate[..., None], RUNS, axis=2)).astype(float)


def _evidence(mean: float, over: float, sums: np.ndarray) -> np.ndarray:
    """Return the log likelihood ratio of the fourfold rate for the sums of nights [series, nights]."""
    night = RUNS * mean
    if over == 1:
        return sums * np.log(TIMES) - (TIMES - 1) * night
    n = night / (over - 1)
    return np.subtract(*(stats.nbinom.logpmf(sums, n, n / (n + m)) for m in (TIMES * night, night)))
