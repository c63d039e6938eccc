"""The best possible detector: a likelihood-ratio CUSUM that knows the noise and the slowdown.

It sees all runs and reruns of every night. Its bar gives one false alarm in 1000 nights on noise of its own.
Page 1954, Biometrika 41.
"""

from __future__ import annotations

import numpy as np

from dev.curve.families import Family

#: For dependent nights: the nights to look back at, and the longest slowdown to look for.
_PAST, _LONGEST = 25, 10
RATE = 0.001


class Oracle:
    """The detector that knows ``family`` at ``cv`` and looks for a slowdown of ``size``."""

    def __init__(self, family: Family, cv: float, size: float):
        self.family, self.cv, self.shift, self.bar = family, cv, size / cv, np.inf

    def calibrated(self, null: np.ndarray) -> Oracle:
        """Set the bar on values [series, nights, runs] without a slowdown, after the first `_PAST` nights."""
        scores = self._scores(null)
        low, high = 0.0, 40.0
        for _ in range(18):
            self.bar = (low + high) / 2
            many = self._alarms(scores)[:, _PAST:].mean() > RATE
            low, high = (self.bar, high) if many else (low, self.bar)
        self.bar = high
        return self

    def alarms(self, values: np.ndarray) -> np.ndarray:
        return self._alarms(self._scores(values))

    def _alarms(self, scores: np.ndarray) -> np.ndarray:
        """Alarm if the evidence of a slowdown since the last alarm is above the bar."""
        if scores.ndim == 3:
            return self._of_lengths(scores)
        total, found = np.zeros(len(scores)), np.zeros(scores.shape, dtype=bool)
        for t in range(scores.shape[1]):
            total = np.fmax(0, total + scores[:, t])
            found[:, t] = total > self.bar
            total[found[:, t]] = 0
        return found

    def _of_lengths(self, scores: np.ndarray) -> np.ndarray:
        since, found = np.full(len(scores), _LONGEST), np.zeros(scores.shape[:2], dtype=bool)
        for t in range(scores.shape[1]):
            since += 1
            allowed = np.arange(1, _LONGEST + 1) < since[:, None]
            found[:, t] = (np.where(allowed, scores[:, t], -np.inf) > self.bar).any(axis=1)
            since[found[:, t]] = 0
        return found

    def _scores(self, values: np.ndarray) -> np.ndarray:
        """Return log likelihood ratios [series, nights], or by length [series, nights, lengths]."""
        x = (values - 1) / self.cv
        if self.family.lags:
            return self._dependent(x.mean(axis=2), values.shape[2])
        if self.family.step:
            return self._stepped(x)
        if self.family.night:
            return self._shared(x.mean(axis=2), values.shape[2])
        return (self.family.run.logpdf(x + self.shift) - self.family.run.logpdf(x)).sum(axis=2)

    def _stepped(self, x: np.ndarray) -> np.ndarray:
        """Score rounded values: sum up the density within each step of the timer."""
        inside = self.family.step * ((np.arange(40) + 0.5) / 40 - 0.5)
        grid = np.linspace(x.min() - 1, x.max() + self.shift + 1, 2000)
        log = np.logaddexp.reduce([self.family.run.logpdf(grid + u) for u in inside])
        return (np.interp(x + self.shift, grid, log) - np.interp(x, grid, log)).sum(axis=2)

    def _shared(self, mean: np.ndarray, runs: int) -> np.ndarray:
        """Score the night's mean: the night's part plus the mean of normal runs, convolved on a grid."""
        share = np.sqrt(self.family.share)
        error = np.sqrt((1 - self.family.share) / runs)
        part = np.linspace(-14, 8, 4401)
        weight = np.exp(self.family.night.logpdf(part))
        grid = np.linspace(mean.min() - 1, mean.max() + self.shift + 1, 1500)
        density = np.exp(-0.5 * ((grid[:, None] - share * part) / error) ** 2) @ weight
        log = np.log(density + 1e-300)
        return np.interp(mean + self.shift, grid, log) - np.interp(mean, grid, log)

    def _dependent(self, mean: np.ndarray, runs: int) -> np.ndarray:
        """Score a slowdown that began 1 to `_LONGEST` nights ago, given the nights before, in normal noise."""
        share = self.family.share
        inverse = np.linalg.inv(share * self.family.correlation(_PAST) + np.eye(_PAST) * (1 - share) / runs)
        views = np.lib.stride_tricks.sliding_window_view(mean, _PAST, axis=1)
        scores = np.full((*mean.shape, _LONGEST), -np.inf)
        for k in range(1, _LONGEST + 1):
            slow = np.where(np.arange(_PAST) >= _PAST - k, -self.shift, 0.0)
            weights = inverse @ slow
            scores[:, _PAST - 1:, k - 1] = views @ weights - weights @ slow / 2
        return scores
