"""What the noise of a history is, and the constants of the rules, each with its reason (docs/regression.md).

They were chosen so that no family of noise that was tried gives more than one false alarm per 1000
test-nights; ci/operating-curve measures that on other families and seeds."""

from __future__ import annotations

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
        """The rules for so many cells judged in one night: WHOLE_NIGHT false alarms together, at most. Bars grow
        like the quantile of a normal tail, exact p shrink in proportion."""
        rate = min(RATE, WHOLE_NIGHT / max(1, cells))
        normal, share = NormalDist(), rate / RATE
        return replace(self, tighter=normal.inv_cdf(1 - rate) / normal.inv_cdf(1 - RATE),
                       exact=self.exact * share, exact_slow=self.exact_slow * share,
                       exact_two=self.exact_two * share, seen=self.seen * share)


DEFAULT = Rules()


@dataclass(frozen=True)
class Noise:
    """One entry a history [B]; relative means divided by the absolute value of the median."""

    nights: int
    median: np.ndarray      # oriented: higher is better
    scale: np.ndarray       # |median|; 0 makes everything relative to it meaningless
    relative: np.ndarray    # [B, n] the history as deviations from the median, relative
    spread: np.ndarray      # relative, of one night's value
    core: np.ndarray        # relative, of the nights that are not slow
    skew: np.ndarray        # L-skewness, below 0 where the lower tail is the longer one
    lag: np.ndarray         # dependence on the night before
    shared: np.ndarray      # how many times more nights scatter than their runs explain; inf: not known
    slow: np.ndarray        # number of slow nights
    worst: np.ndarray       # relative, of the worst night
    resolution: np.ndarray  # relative step of a timer or printed digits; 0 where none shows


def of_history(values: np.ndarray, within: np.ndarray, rules: Rules) -> Noise:
    """The noise of ``values`` [B, n], oriented so that higher is better, oldest first.

    ``within`` [B, n]: standard deviation of a night's value that the scatter of its runs explains,
    in the unit of the values, NaN where a night has one run only."""
    ordered = np.sort(values, axis=1)
    n = values.shape[1]
    middle = np.median(ordered, axis=1)
    scale = np.abs(middle)
    by = np.where(scale > 0, scale, np.nan)[:, None]
    deviations = (ordered - middle[:, None]) / by
    resolution = _resolution(ordered) / by[:, 0]
    floor = np.fmax(rules.floor, resolution / 2)
    core = np.fmax(_robust(deviations), floor)
    reach = rules.apart * core[:, None]
    mean, l_scale, skew = _l_moments(np.clip(deviations, -reach, reach))
    spread = np.fmax(np.sqrt(np.pi) * l_scale, floor)
    relative = (values - middle[:, None]) / by
    return Noise(
        nights=n, median=middle, scale=scale, relative=relative, spread=spread, core=core, skew=skew,
        lag=_lag(relative, mean, spread), shared=_shared(spread, within, by[:, 0]),
        slow=(relative < -reach).sum(axis=1), worst=deviations[:, 0], resolution=resolution)


def _robust(deviations: np.ndarray) -> np.ndarray:
    """The larger of 1.4826 MAD and 0.7413 IQR, which are the standard deviation of normal noise; sorted input."""
    n = deviations.shape[1]
    quartiles = deviations[:, 3 * n // 4] - deviations[:, n // 4]
    return np.fmax(1.4826 * np.median(np.abs(deviations), axis=1), 0.7413 * quartiles)


def _l_moments(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, L-scale and L-skewness of sorted rows (Hosking 1990, J. R. Statist. Soc. B 52, unbiased). sqrt(pi) x
    L-scale is the standard deviation of normal noise, nearly as precise and less upset by tails."""
    n = ordered.shape[1]
    i = np.arange(n)
    b0 = ordered.mean(axis=1)
    b1 = (ordered * (i / (n - 1))).mean(axis=1)      # no matrix product: its last digit depends on the other rows
    b2 = (ordered * (i * (i - 1) / ((n - 1) * (n - 2)))).mean(axis=1)
    scale = 2 * b1 - b0
    return b0, scale, np.where(scale > 1e-12, (6 * b2 - 6 * b1 + b0) / np.where(scale > 1e-12, scale, 1), 0.0)


def _lag(relative: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Lag-1 autocorrelation of the winsorised history, its bias removed (Marriott and Pope 1954)."""
    n = relative.shape[1]
    reach = 2.5 * spread[:, None]
    e = np.clip(relative - mean[:, None], -reach, reach)
    e = e - e.mean(axis=1, keepdims=True)
    found = (e[:, 1:] * e[:, :-1]).sum(axis=1) / np.fmax((e * e).sum(axis=1), 1e-15)
    return found + (1 + 4 * found) / n


def _shared(spread: np.ndarray, within: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Spread of nights over what the scatter of their runs explains; 1 where nights share nothing."""
    explained = known_median(within) / by
    return np.where(explained > 0, spread / np.where(explained > 0, explained, 1), np.inf)


def known_median(rows: np.ndarray) -> np.ndarray:
    """The median of what is known in each row; NaN where nothing is (numpy's nanmedian is slow on short rows)."""
    ordered = np.sort(rows, axis=1)
    n = np.isfinite(ordered).sum(axis=1)
    each = np.arange(len(rows))
    low, high = ordered[each, np.fmax(0, n - 1) // 2], ordered[each, np.fmin(n // 2, rows.shape[1] - 1)]
    return np.where(n > 0, (low + high) / 2, np.nan)


def _resolution(ordered: np.ndarray) -> np.ndarray:
    """The smallest step between values where at least a third of them repeat another one, else 0."""
    steps = np.diff(ordered, axis=1)
    same = steps <= 1e-12 * np.abs(ordered[:, 1:])
    smallest = np.where(same, np.inf, steps).min(axis=1)
    return np.where((same.sum(axis=1) >= ordered.shape[1] / 3) & np.isfinite(smallest), smallest, 0.0)
