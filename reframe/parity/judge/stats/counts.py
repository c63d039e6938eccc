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
        totals_of_cells = [nights.total[place] for place in like]
        ratio = _ratio(totals_of_cells)
        for place, totals in zip(like, totals_of_cells, strict=True):
            state[place] = _of_cell(totals, ratio, rate)


def _ratio(totals_of_cells: list[np.ndarray]) -> float:
    """Return the variance of like cells' first nights over their mean: 1 of a Poisson process, and at least."""
    variance = mean = 0.0
    for totals in totals_of_cells:
        first_nights = totals[:rule.COUNTED]
        if len(first_nights) > 1:
            variance += first_nights.var(ddof=1)
            mean += first_nights.mean()
    some = max(mean, 1e-9)
    return max(1.0, variance / some)


def _of_cell(totals: np.ndarray, ratio: float, rate: float) -> np.ndarray:
    """Return the state of each night of counts, the sums of a night's runs; lower is better.

    Of s + H events, s fall into the last k nights and H into the n nights before. By chance s is binomial with
    k / (k + n). Both are divided by ``ratio``, the variance of like cells' nights over their mean. A night counts
    for no more than chance alone gives once in 1 / rate nights."""
    state = np.full(len(totals), rule.TOO_FEW)
    level = list(totals[:rule.COUNTED])
    slow = None                     # the mean of a slowdown that lasts
    good_nights = 0                 # in a row, since it began
    for t in range(rule.COUNTED, len(totals)):
        tonight = totals[t]
        state[t] = rule.QUIET
        mean = (sum(level) + .5) / len(level)
        if slow is not None:
            is_good = tonight <= (mean + slow) / 2
            good_nights = good_nights + 1 if is_good else 0
            if good_nights < rule.AFTER:
                state[t] = rule.SLOW
            else:
                slow = None
            continue
        by_chance = ratio * scipy.special.pdtrik(1 - rate, mean / ratio)
        most = max(1.0, by_chance)
        level.append(min(tonight, most))
        chances = _chances(np.array(level), ratio)
        is_rare = chances < rate / 3
        if is_rare.any():
            nights = int(is_rare.argmax()) + 1
            newest = totals[t - nights + 1:t + 1]
            slow = float(newest.mean())
            good_nights = 0
            state[t] = rule.SLOW
            del level[-nights:]
    return state


def _chances(level: np.ndarray, ratio: float) -> np.ndarray:
    """Return the chances that the last 1, 2 ... STEPS nights have as many events as they have; see `_of_cell`.

    ``level``: the events of each night."""
    nights = np.arange(1, rule.STEPS + 1)
    newest_first = level[:-rule.STEPS - 1:-1]
    newest_events = np.cumsum(newest_first)
    events_before = level.sum() - newest_events
    share_of_nights = nights / len(level)
    above_zero = np.fmax(newest_events, 1e-9)       # as betainc demands
    chances = scipy.special.betainc(above_zero / ratio, events_before / ratio + 1, share_of_nights)
    has_events = newest_events > 0
    chances[~has_events] = 1
    return chances


def at_least(count: int, mean: float) -> float:
    """Return how probable ``count`` events or more are, where so many are expected (Poisson's distribution)."""
    return float(scipy.special.gammainc(count, mean)) if count else 1.0
