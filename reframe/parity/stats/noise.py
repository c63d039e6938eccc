"""What the noise of a history is: spread, lower tail, dependence, shared nights, slow nights, resolution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats.rules import Rules


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
    in the unit of the values, NaN where a night has one run only.
    """
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
    """Mean, L-scale and L-skewness of sorted rows (Hosking 1990, J. R. Statist. Soc. B 52, unbiased).

    sqrt(pi) x L-scale is the standard deviation of normal noise, nearly as precise and less upset by tails.
    """
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
