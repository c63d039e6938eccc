"""The value of each night, the noise of a history, and the constants of the rules (docs/regression.md).

The constants were chosen so that no family of noise that was tried gives more than one false alarm per 1000
test-nights. ci/operating-curve measures that on other families and seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

#: The stated rate: false alarms per test-night of one cell.
RATE = 0.001
#: False alarms that a whole night may give on average: with more cells than this allows, the rules tighten.
WHOLE_NIGHT = 0.25


@dataclass(frozen=True)
class Rules:
    """Lengths are in nights, effects and spreads relative to the median of the history."""

    window: int = 120         # the recent window: four months
    least: int = 37           # nights before the last three: with fewer, the error rate is not held
    last: int = 3             # the slow rule's nights
    effect: float = 0.01      # the least drop of interest
    floor: float = 0.005      # no spread is believed to be smaller (57 of 186 studied series have MAD 0)
    suspicious: float = 0.12  # a rerun is wanted where tonight is in this lowest share of the window
    apart: float = 3.5        # a night so many spreads below the median is a slow one, not noise
    shared: float = 1.3       # nights scatter so many times more than their runs do: the night shares noise
    # the bar: standard errors that a drop must be clear of, by lag-1 dependence between nights; a history of
    # fewer nights than `settled` tells the dependence less well, so it is taken to be larger
    lags: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    bars: tuple[float, ...] = (3.1, 3.45, 3.95, 4.5, 5.1, 5.2)
    settled: int = 90
    unsettled: float = 1.2
    runs_lag: float = 0.15    # where runs scatter as much as nights, dependence up to here is chance
    runs: float = 1.1         # and the bar so many times higher: there is power to spare
    skew: float = 2.0         # how much a longer lower tail (L-skewness) raises the bar
    two: float = 1.45         # the bar of two nights, and of one, relative to that of three
    one: float = 2.0
    exact: float = 0.006      # exact p of the last three nights
    exact_slow: float = 0.003  # the same where the history holds slow nights
    exact_two: float = 0.002
    seen: float = 0.0004      # slow nights in the history: chance that they come three in a row
    at_once: float = 0.10     # one night alone is believed from such a drop on,
    long: int = 115           # or after so many nights without a single slow one
    least_one: float = 0.03   # and never for less than this
    worst: float = 2.5        # and only so many times below the worst night seen
    worst_two: float = 1.3
    drift: int = 10           # the last nights that are held against the accepted value
    drift_effect: float = 0.03
    drift_share: float = 0.55  # of the bar, in spreads
    tighter: float = 1.0      # what all bars are multiplied by; `for_cells` sets it

    def for_cells(self, cells: int) -> Rules:
        """Return the rules for so many cells in one night, which give at most WHOLE_NIGHT false alarms together.

        The bars grow like the quantile of a normal tail; the exact p shrink in proportion."""
        rate = min(RATE, WHOLE_NIGHT / max(1, cells))
        normal, share = NormalDist(), rate / RATE
        return replace(self, tighter=normal.inv_cdf(1 - rate) / normal.inv_cdf(1 - RATE),
                       exact=self.exact * share, exact_slow=self.exact_slow * share,
                       exact_two=self.exact_two * share, seen=self.seen * share)


DEFAULT = Rules()


#: Mean range of n normal values in standard deviations (Tippett 1925); beyond eight, that of eight is near enough.
_RANGE = np.array([np.nan, np.nan, 1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847])
#: The usual scatter of runs within a night is looked up anew every so many nights, first after _FIRST.
_EVERY, _FIRST = 8, 5


@dataclass(frozen=True)
class Group:
    """A summary of the runs (or reruns, or both) of each night; NaN where there are none [nights]."""

    count: np.ndarray
    mean: np.ndarray
    median: np.ndarray
    reach: np.ndarray       # largest minus smallest

    def near(self, reach: np.ndarray) -> np.ndarray:
        """Return the mean, but no further than ``reach`` from the median."""
        return self.median + np.clip(self.mean - self.median, -reach, reach)


def grouped(night: np.ndarray, value: np.ndarray, nights: int) -> Group:
    """Summarise values by night: ``night`` and ``value`` have one entry a value, in any order, all finite."""
    ordered = value[np.lexsort((value, night))]
    count = np.bincount(night, minlength=nights)
    some = count > 0
    many, first = count[some], (np.cumsum(count) - count)[some]
    mean, median, reach = (np.full(nights, np.nan) for _ in range(3))
    mean[some] = np.bincount(night, value, nights)[some] / many
    median[some] = (ordered[first + (many - 1) // 2] + ordered[first + many // 2]) / 2
    reach[some] = ordered[first + many - 1] - ordered[first]
    return Group(count, mean, median, reach)


@dataclass(frozen=True)
class Nights:
    """Nights of many series, one series after the other, oldest first, oriented so that higher is better. Series k
    has the nights ``start[k]`` to ``start[k + 1]``."""

    start: np.ndarray
    runs: Group
    reruns: Group
    both: Group
    elsewhere: np.ndarray   # bool: the reruns were on another node, too

    @classmethod
    def of(cls, start: np.ndarray, night: np.ndarray, value: np.ndarray, again: np.ndarray,
           elsewhere: np.ndarray | None = None) -> Nights:
        """Group values, oriented, by ``night``; ``again`` says which are a rerun's."""
        total = int(start[-1])
        runs, reruns = (grouped(night[chosen], value[chosen], total) for chosen in (~again, again))
        return cls(start, runs, reruns, grouped(night, value, total) if again.any() else runs,
                   np.zeros(total, dtype=bool) if elsewhere is None else elsewhere)


@dataclass(frozen=True)
class Values:
    """The value of each night, and how sure it is."""

    value: np.ndarray
    within: np.ndarray      # its standard deviation as the scatter of the night's runs explains it
    suspicious: np.ndarray  # bool: a rerun is wanted, and where it exists it is in the value


def of_nights(nights: Nights, rules: Rules) -> Values:
    """Return the value of each night, from what was known on it.

    The mean of the runs, but no further from their median than runs usually scatter (at least
    ``rules.effect``): the mean is the more precise one, and one wild run makes no night. Where the runs are
    suspiciously low the reruns join them; where they contradict the runs the reruns stand alone."""
    runs, reruns = nights.runs, nights.reruns
    run_sd = runs.reach / _RANGE[np.minimum(runs.count, len(_RANGE) - 1)]
    usual = np.fmax(_usual(nights.start, run_sd, rules), rules.effect * np.abs(runs.median))
    value, again = runs.near(usual), reruns.near(usual)
    suspicious = np.zeros(len(value), dtype=bool)   # by rank: no noise is assumed; ties count half
    for rows, window in windows(nights.start, value, rules, 8):
        tonight = value[rows, None]
        rank = (window < tonight).sum(axis=1) + (window == tonight).sum(axis=1) / 2
        suspicious[rows] = rank <= rules.suspicious * window.shape[1]
    known = suspicious & (reruns.count > 0)
    error = usual * np.sqrt(1 / runs.count + 1 / np.fmax(1, reruns.count))
    pooled = np.where(known, nights.both.near(usual), value)
    return Values(np.where(known & (again - value > 3 * error), again, pooled), run_sd / np.sqrt(runs.count),
                  suspicious)


def _usual(start: np.ndarray, run_sd: np.ndarray, rules: Rules) -> np.ndarray:
    """Return the median of the runs' standard deviation over the window before each night, or NaN."""
    usual, age = np.full(len(run_sd), np.nan), place(start)
    fresh = (age % _EVERY == 0) | (age == _FIRST)
    for rows, window in windows(start, run_sd, rules, _FIRST, chosen=fresh):
        usual[rows] = known_median(window)
    last = np.maximum.accumulate(np.where(fresh, np.arange(len(usual)), 0))
    return np.where(age >= _FIRST, usual[last], np.nan)


def place(start: np.ndarray) -> np.ndarray:
    """Count the nights of its series before each night [nights]."""
    return np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))


def windows(start: np.ndarray, values: np.ndarray, rules: Rules, least: int, lag: int = 0,
            chosen: np.ndarray | bool = True) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield ``chosen`` nights, and the n values of their series that end ``lag`` before each [rows, n].

    n is from ``least`` to ``rules.window``, as many as there are. Nights with equal n come together, in pieces
    that fit the caches."""
    length = np.where(chosen, np.minimum(place(start) - lag, rules.window), -1)
    order = np.argsort(length, kind='stable')
    edges = np.searchsorted(length[order], np.arange(least, rules.window + 2))
    for n, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True), least):
        for i in range(begin, end, 8192):
            rows = order[i:min(end, i + 8192)]
            yield rows, np.lib.stride_tricks.sliding_window_view(values, n)[rows - lag - n]


@dataclass(frozen=True)
class Noise:
    """One entry a history [B]; relative means divided by the absolute value of the median."""

    nights: int
    median: np.ndarray      # oriented: higher is better
    relative: np.ndarray    # [B, n] the history as deviations from the median, relative; NaN where that is 0
    spread: np.ndarray      # relative, of one night's value
    core: np.ndarray        # relative, of the nights that are not slow
    skew: np.ndarray        # L-skewness, below 0 where the lower tail is the longer one
    lag: np.ndarray         # dependence on the night before
    shared: np.ndarray      # how many times more nights scatter than their runs explain; inf: not known
    slow: np.ndarray        # number of slow nights
    worst: np.ndarray       # relative, of the worst night
    resolution: np.ndarray  # relative step of a timer or printed digits; 0 where none shows


def of_history(values: np.ndarray, within: np.ndarray, rules: Rules) -> Noise:
    """Return the noise of ``values`` [B, n], oriented so that higher is better, oldest first.

    ``within`` [B, n]: the part of a night's standard deviation that the scatter of its runs explains. It has the
    unit of the values, and is NaN if a night has one run only."""
    ordered, n = np.sort(values, axis=1), values.shape[1]
    middle = np.median(ordered, axis=1)
    by = np.where(middle == 0, np.nan, np.abs(middle))[:, None]
    deviations, relative = ((each - middle[:, None]) / by for each in (ordered, values))
    resolution = _resolution(ordered) / by[:, 0]
    floor = np.fmax(rules.floor, resolution / 2)
    # MAD and IQR, scaled to the standard deviation of normal noise
    quartiles = deviations[:, 3 * n // 4] - deviations[:, n // 4]
    core = np.fmax(np.fmax(1.4826 * np.median(np.abs(deviations), axis=1), 0.7413 * quartiles), floor)
    reach = rules.apart * core[:, None]
    mean, l_scale, skew = _l_moments(np.clip(deviations, -reach, reach))
    spread = np.fmax(np.sqrt(np.pi) * l_scale, floor)
    explained = known_median(within) / by[:, 0]
    shared = np.where(explained > 0, spread / np.where(explained > 0, explained, 1), np.inf)
    return Noise(
        nights=n, median=middle, relative=relative, spread=spread, core=core, skew=skew,
        lag=_lag(relative, mean, spread), shared=shared, slow=(relative < -reach).sum(axis=1),
        worst=deviations[:, 0], resolution=resolution)


def _l_moments(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, L-scale and L-skewness of sorted rows (Hosking 1990, J. R. Statist. Soc. B 52, unbiased).

    sqrt(pi) x L-scale is the standard deviation of normal noise, nearly as precise and less upset by tails."""
    n = ordered.shape[1]
    i = np.arange(n)
    b0 = ordered.mean(axis=1)
    b1 = (ordered * (i / (n - 1))).mean(axis=1)      # no matrix product: its last digit depends on the other rows
    b2 = (ordered * (i * (i - 1) / ((n - 1) * (n - 2)))).mean(axis=1)
    scale = 2 * b1 - b0
    return b0, scale, np.where(scale > 1e-12, (6 * b2 - 6 * b1 + b0) / np.where(scale > 1e-12, scale, 1), 0.0)


def _lag(relative: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Return the lag-1 autocorrelation of the winsorised history without its bias (Marriott and Pope 1954)."""
    reach = 2.5 * spread[:, None]
    e = np.clip(relative - mean[:, None], -reach, reach)
    e = e - e.mean(axis=1, keepdims=True)
    found = (e[:, 1:] * e[:, :-1]).sum(axis=1) / np.fmax((e * e).sum(axis=1), 1e-15)
    return found + (1 + 4 * found) / relative.shape[1]


def known_median(rows: np.ndarray) -> np.ndarray:
    """Return the median of what is known in each row, or NaN (numpy's nanmedian is slow on short rows)."""
    ordered = np.sort(rows, axis=1)
    n = np.isfinite(ordered).sum(axis=1)
    each = np.arange(len(rows))
    low, high = ordered[each, np.fmax(0, n - 1) // 2], ordered[each, np.fmin(n // 2, rows.shape[1] - 1)]
    return np.where(n > 0, (low + high) / 2, np.nan)


def _resolution(ordered: np.ndarray) -> np.ndarray:
    """Return the smallest step between values if at least a third repeat another one, else 0."""
    steps = np.diff(ordered, axis=1)
    same = steps <= 1e-12 * np.abs(ordered[:, 1:])
    smallest = np.where(same, np.inf, steps).min(axis=1)
    return np.where((same.sum(axis=1) >= ordered.shape[1] / 3) & np.isfinite(smallest), smallest, 0.0)
