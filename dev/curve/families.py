"""Families of noise. The rules were chosen on other families and seeds.

Those were: normal, t3, t4, Laplace and contaminated normal runs; exponential (both ways), gamma 2, lognormal 0.8
runs; slow runs and slow nights of 5 to 30 %; half or more of the variance shared by the night, as normal, t3 and
exponential; autoregressive nights of 0.3 to 0.7; steps of one and three standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dev.curve.noises import NORMAL, Noise, modes, of

RUNS, RERUNS = 3, 3
_SETTLE = 60


@dataclass(frozen=True)
class Family:
    """Noise in which the night has ``share`` of the variance and its runs the rest; reruns share the night."""

    name: str
    kind: str
    run: Noise = NORMAL
    night: Noise | None = None
    share: float = 0.0
    lags: tuple[float, ...] = ()     # autocorrelation of the night's part at lag 1, 2, ...; normal
    step: float = 0.0                # timer resolution in standard deviations

    def draw(self, rng: np.random.Generator, series: int, nights: int, cv: float) -> np.ndarray:
        """Draw values [series, nights, RUNS + RERUNS] around 1."""
        x = np.sqrt(1 - self.share) * self.run.draw(rng, (series, nights, RUNS + RERUNS))
        if self.lags:
            x = x + np.sqrt(self.share) * self._dependent(rng, series, nights)[..., None]
        elif self.night:
            x = x + np.sqrt(self.share) * self.night.draw(rng, (series, nights, 1))
        return 1 + cv * x

    def seen(self, rng: np.random.Generator, values: np.ndarray, cv: float) -> np.ndarray:
        """Round the values as a timer does; ``rng`` places its steps in each series."""
        if not self.step:
            return values
        step = self.step * cv
        offset = step * rng.random((len(values), 1, 1))
        return np.round((values - offset) / step) * step + offset

    def correlation(self, nights: int) -> np.ndarray:
        """Return the correlation of the night's part between so many nights in a row [nights, nights]."""
        lag = np.abs(np.subtract.outer(np.arange(nights), np.arange(nights)))
        known = np.append((1.0, *self.lags), np.zeros(nights))
        return known[np.fmin(lag, len(self.lags) + 1)]

    def _dependent(self, rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
        factor = np.linalg.cholesky(self.correlation(_SETTLE))      # stationary: each row is one past
        weights = factor[-1, ::-1][:len(self.lags) + 1]
        e = rng.standard_normal((series, nights + len(weights) - 1))
        views = np.lib.stride_tricks.sliding_window_view(e, len(weights), axis=1)
        return views @ weights[::-1]


def ar(phi: float) -> tuple[float, ...]:
    """Return the autocorrelation of an autoregression of order 1, until it vanishes."""
    return tuple(phi ** k for k in range(1, 30) if phi ** k > 1e-3)


def families() -> list[Family]:
    """Return all families; the target names their kinds."""
    weibull, lognormal = of(stats.weibull_min(1.3), True), of(stats.lognorm(0.5), True)
    return [
        Family('normal', 'normal'),
        Family('logistic', 'heavy-tailed', of(stats.logistic())),
        Family('t2.5', 'heavy-tailed', of(stats.t(2.5))),
        Family('weibull1.3', 'one-sided', weibull),
        Family('lognormal.5', 'one-sided', lognormal),
        Family('gamma1.2', 'one-sided', of(stats.gamma(1.2), True)),
        Family('slow-run.12', 'bimodal', modes(0.88, 0.12, share=0.75)),
        Family('slow-run.25', 'bimodal', modes(0.75, 0.25, share=0.75)),
        Family('three-modes', 'bimodal', modes(0.7, 0.2, 0.1, share=0.75)),
        Family('slow-night.07', 'bimodal', night=modes(0.93, 0.07, share=0.9), share=0.8),
        Family('slow-night.15', 'bimodal', night=modes(0.85, 0.15, share=0.9), share=0.8),
        Family('shared.5', 'night-shared', night=NORMAL, share=0.5),
        Family('shared.4-logistic', 'night-shared', night=of(stats.logistic()), share=0.4),
        Family('shared.4-weibull', 'night-shared', night=weibull, share=0.4),
        Family('ar.3', 'autocorrelated', lags=ar(0.3), share=0.9),
        Family('ar.5', 'autocorrelated', lags=ar(0.5), share=0.9),
        Family('ar.7', 'autocorrelated', lags=ar(0.7), share=0.9),
        Family('ar.5-half', 'autocorrelated', lags=ar(0.5), share=0.5),
        Family('moving-mean.3', 'autocorrelated', lags=(2 / 3, 1 / 3), share=0.8),
        Family('timer.7', 'quantised', step=0.7),
        Family('timer2', 'quantised', of(stats.logistic()), step=2.0),
    ]
