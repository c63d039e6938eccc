"""The rule for counts, such as hangs: an exact test, as most of their nights are 0."""

from __future__ import annotations

import numpy as np
import scipy

from parity.judge.stats import rule
from parity.judge.stats.nights import Nights


def judge(nights: Nights, groups: np.ndarray, rate: float, state: np.ndarray) -> None:
    """Write the state of each night of the series that are counts. ``groups`` [series]: like cells have one
    number."""
    places: dict[int, list[slice]] = {}
    for k in np.flatnonzero(nights.counts):
        of_series = slice(nights.start[k], nights.start[k + 1])
        places.setdefault(groups[k], []).append(of_series)
    for like in places.values():
        ratio = _ratio([nights.total[place][:rule.COUNTED] for place in like])
        for place in like:
            state[place] = _of_cell(nights.total[place], ratio, rate)


def _ratio(first_nights: list[np.ndarray]) -> float:
    """Return the variance of like cells' nights over their mean: 1 of a Poisson process, and at least."""
    variance = mean = 0.0
    for totals in first_nights:
        if len(totals) > 1:
            variance += totals.var(ddof=1)
            mean += totals.mean()
    return max(1.0, variance / max(mean, 1e-9))


def _of_cell(totals: np.ndarray, ratio: float, rate: float) -> np.ndarray:
    """Return the state of each night of counts, the sums of a night's runs; lower is better.

    Of s + H events, s fall into the last k nights and H into the n nights before. By chance s is binomial with
    k / (k + n). Both are divided by ``ratio``, the variance of like cells' nights over their mean. A night counts
    for no more than chance alone gives once in 1 / rate nights."""
    state = np.full(len(totals), rule.TOO_FEW)
    level = list(totals[:rule.COUNTED])
    slow, back = None, 0            # the mean of a slowdown that lasts, and good nights in a row
    for t in range(rule.COUNTED, len(totals)):
        mean = (sum(level) + .5) / len(level)
        if slow is not None:
            back = back + 1 if totals[t] <= (mean + slow) / 2 else 0
            if back < rule.AFTER:
                state[t] = rule.SLOW
            else:
                state[t], slow = rule.QUIET, None
            continue
        most = max(1.0, ratio * scipy.special.pdtrik(1 - rate, mean / ratio))
        level.append(min(totals[t], most))
        state[t] = rule.QUIET
        low = np.flatnonzero(_chances(np.array(level), ratio) < rate / 3)
        if low.size:
            nights = int(low[0]) + 1
            state[t] = rule.SLOW
            slow, back = float(totals[t - nights + 1:t + 1].mean()), 0
            del level[-nights:]
    return state


def _chances(level: np.ndarray, ratio: float) -> np.ndarray:
    """Return the chance that the last 1, 2 ... STEPS nights have as many events as they have; see `_of_cell`."""
    nights = np.arange(1, rule.STEPS + 1)
    newest_first = level[:-rule.STEPS - 1:-1]
    events = np.cumsum(newest_first)
    before = level.sum() - events
    share = nights / len(level)
    some = np.fmax(events, 1e-9)
    chance = scipy.special.betainc(some / ratio, before / ratio + 1, share)
    return np.where(events > 0, chance, 1)


def at_least(count: int, mean: float) -> float:
    """Return how probable ``count`` events or more are, where so many are expected (Poisson's distribution)."""
    return float(scipy.special.gammainc(count, mean)) if count else 1.0
