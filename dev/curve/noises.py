"""Noise of mean 0 and standard deviation 1, with its log density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

#: The log density of an impossible value.
_NEVER = -700.0


@dataclass(frozen=True)
class Noise:
    """``draw(rng, shape)`` and ``logpdf(x)``, both standardised."""

    draw: Callable[[np.random.Generator, tuple], np.ndarray]
    logpdf: Callable[[np.ndarray], np.ndarray]


def of(distribution, lower_tail: bool = False) -> Noise:
    """Standardise a distribution of scipy; ``lower_tail`` turns it over, so that its long tail is below."""
    mean, sd = float(distribution.mean()), float(distribution.std())
    side = -1 if lower_tail else 1

    def draw(rng: np.random.Generator, shape: tuple) -> np.ndarray:
        return side * (distribution.rvs(size=shape, random_state=rng) - mean) / sd

    def logpdf(x: np.ndarray) -> np.ndarray:
        return np.fmax(distribution.logpdf(side * x * sd + mean) + np.log(sd), _NEVER)
    return Noise(draw, logpdf)


def modes(*weights: float, share: float) -> Noise:
    """Make equally spaced modes, the good one first; they have ``share`` of the variance, the rest is normal."""
    w = np.array(weights)
    steps = -np.arange(len(w), dtype=float)
    mean = float(w @ steps)
    gap = np.sqrt(share / float(w @ (steps - mean) ** 2))
    centres, sd = gap * (steps - mean), np.sqrt(1 - share)

    def draw(rng: np.random.Generator, shape: tuple) -> np.ndarray:
        return rng.choice(centres, size=shape, p=w) + sd * rng.standard_normal(shape)

    def logpdf(x: np.ndarray) -> np.ndarray:
        parts = [np.log(wi) + stats.norm.logpdf(x, c, sd) for wi, c in zip(w, centres, strict=True)]
        return np.logaddexp.reduce(parts)
    return Noise(draw, logpdf)


NORMAL = Noise(lambda rng, shape: rng.standard_normal(shape), stats.norm.logpdf)
