"""The best possible detector: a likelihood-ratio CUSUM that knows the noise and the size of the slowdown.

It sees all runs and reruns of every night. Its bar gives one false alarm in 1000 nights on noise of its own
(Page 1954, Biometrika 41). In normal noise, also with dependent nights, it does not know the level: it takes the
generalised least-squares mean of all nights, at most the last 80. In other noise it knows the level.
"""

from __future__ import annotations

import numpy as np

from dev.curve.families import GROUP, HISTORY, NORMAL, Family, Studied

#: The nights to look back at, the longest slowdown to look for, and the rate of false alarms.
_PAST, _LONGEST, _RATE = 80, 10, 0.001


def alarms(family: Family | Studied, null: np.ndarray, values: np.ndarray, size: float) -> np.ndarray | None:
    """Look for slowdowns of ``size`` [series, nights]; the bar is set on ``null``. None: no easy oracle."""
    if family.moves and not family.like and not family.plain:
        return None
    if isinstance(family, Studied):          # its nights are taken for normal, of a group's mean and spread
        nights = null.mean(axis=2).reshape(len(null) // GROUP, -1)
        level, sd = np.repeat([nights.mean(axis=1), np.fmax(1e-3, nights.std(axis=1))], GROUP, axis=1)[..., None]
        null, values = ((x.mean(axis=2) - level[:len(x)]) / sd[:len(x)] for x in (null, values))
        on_null, found = (-size / sd[:len(x)] * (x + size / sd[:len(x)] / 2) for x in (null, values))
    else:
        on_null, found = (_scores(family.like or family.plain or family, each, size) for each in (null, values))
    return cusum(found, bar(on_null))


def bar(scores: np.ndarray) -> float:
    """Return the bar that gives the stated rate on scores without a slowdown, after the history."""
    low, high = 0.0, 40.0
    for _ in range(18):
        middle = (low + high) / 2
        many = cusum(scores, middle)[:, HISTORY:].mean() > _RATE
        low, high = (middle, high) if many else (low, middle)
    return high


def cusum(scores: np.ndarray, bar: float) -> np.ndarray:
    """Alarm if the evidence of a slowdown since the last alarm is above the bar [series, nights].

    ``scores``: log likelihood ratios [series, nights], or by the slowdown's length [series, nights, lengths]."""
    total, since = np.zeros(len(scores)), np.full(len(scores), _LONGEST)
    found = np.zeros(scores.shape[:2], dtype=bool)
    for t in range(scores.shape[1]):
        since += 1
        if scores.ndim == 3:
            total = np.where(np.arange(1, _LONGEST + 1) < since[:, None], scores[:, t], -np.inf).max(axis=1)
        else:
            total = np.fmax(0, total + scores[:, t])
        found[:, t] = total > bar
        total[found[:, t]], since[found[:, t]] = 0, 0
    return found


def _scores(family: Family, values: np.ndarray, size: float) -> np.ndarray:
    runs, mean = values.shape[2], values.mean(axis=2)
    x, shift, mean = (values - 1) / family.cv, size / family.cv, (mean - 1) / family.cv
    if family.night:                         # the night's part plus the mean of normal runs, convolved on a grid
        share, error = family.share ** 0.5, ((1 - family.share) / runs) ** 0.5
        part, grid = np.linspace(-14, 8, 4401), np.linspace(mean.min() - 1, mean.max() + shift + 1, 1500)
        density = np.exp(-((grid[:, None] - share * part) / error) ** 2 / 2) @ np.exp(family.night[1](part))
        log = np.log(density + 1e-300)
        return np.interp(mean + shift, grid, log) - np.interp(mean, grid, log)
    if family.step:                          # rounded: the density within each step of the timer
        inside, grid = np.arange(-19.5, 20) / 40, np.linspace(x.min() - 1, x.max() + shift + 1, 2000)
        log = np.logaddexp.reduce([family.run[1](grid + family.step * u) for u in inside])
        return (np.interp(x + shift, grid, log) - np.interp(x, grid, log)).sum(axis=2)
    if family.run is not NORMAL:
        return np.nan_to_num(family.run[1](x + shift) - family.run[1](x)).sum(axis=2)     # a night may be missing
    lag = np.abs(np.subtract.outer(np.arange(_PAST), np.arange(_PAST)))
    return _normal(mean, shift, family.share * family.phi ** lag + np.eye(_PAST) * (1 - family.share) / runs)


def _normal(mean: np.ndarray, shift: float, covariance: np.ndarray) -> np.ndarray:
    """Score slowdowns that began 1 to `_LONGEST` nights ago, with the level projected out."""
    found = np.full((*mean.shape, _LONGEST), -np.inf)
    for t in range(1, mean.shape[1]):
        n, k = min(t + 1, _PAST), min(t, _LONGEST)
        if t < _PAST:
            inverse = np.linalg.inv(covariance[:n, :n])
            known = inverse.sum(axis=1)
            slower = np.where(np.arange(n)[:, None] >= n - np.arange(1, k + 1), -shift, 0.0)
            weights = (inverse - np.outer(known, known) / known.sum()) @ slower
        found[:, t, :k] = mean[:, t + 1 - n:t + 1] @ weights - (weights * slower).sum(axis=0) / 2
    return found
