"""The rule for counts, such as hangs: an exact test, as most of their nights are 0."""

from __future__ import annotations

import numpy as np
import scipy

from parity.judge.stats import rule
from parity.judge.stats.nights import Nights


def judge(nights: Nights, groups: np.ndarray, rate: float, state: np.ndarray) -> None:
    """Write the state of each night of the series that are counts. ``groups`` [series]: like cells have one
    number."""
    series = np.flatnonzero(nights.counts)
    for g in np.unique(groups[series]):
        like = [slice(nights.start[k], nights.start[k + 1]) for k in series[groups[series] == g]]
        heads = [head for here in like if len(head := nights.total[here][:rule.COUNTED]) > 1]
        over = sum(head.var(ddof=1) for head in heads) / max(sum(head.mean() for head in heads), 1e-9)
        for here in like:
            state[here] = _of_cell(nights.total[here], max(1.0, over), rate)


def _of_cell(totals: np.ndarray, ratio: float, rate: float) -> np.ndarray:
    """Return the state of each night of counts, the sums of a night's runs; lower is better.

    Of s + H events, s fall into the last k nights and H into the n nights before. By chance s is binomial with
    k / (k + n). Both are divided by ``ratio``, the variance of like cells' nights over their mean. A night counts
    for no more than chance alone gives once in 1 / rate nights."""
    state = np.full(len(totals), rule.TOO_FEW)
    level, slow, back = list(totals[:rule.COUNTED]), None, 0
    for t in range(rule.COUNTED, len(totals)):
        mean = (sum(level) + .5) / len(level)
        if slow is not None:
            back = back + 1 if totals[t] <= (mean + slow) / 2 else 0
            state[t] = rule.SLOW if back < rule.AFTER else rule.QUIET
            slow = slow if back < rule.AFTER else None
            continue
        level.append(min(totals[t], max(1.0, ratio * scipy.special.pdtrik(1 - rate, mean / ratio))))
        state[t], n = rule.QUIET, len(level)
        k = np.arange(1, rule.STEPS + 1)
        s = np.cumsum(level[:-rule.STEPS - 1:-1])
        rest = sum(level) - s
        p = np.where(s > 0, scipy.special.betainc(np.fmax(s, 1e-9) / ratio, rest / ratio + 1, k / n), 1)
        if (found := np.flatnonzero(p < rate / 3)).size:
            k = int(found[0]) + 1
            state[t], slow, back = rule.SLOW, float(totals[t - k + 1:t + 1].mean()), 0
            del level[-k:]
    return state


def at_least(count: int, mean: float) -> float:
    """Return how probable ``count`` events or more are, where so many are expected (Poisson's distribution)."""
    return float(scipy.special.gammainc(count, mean)) if count else 1.0
