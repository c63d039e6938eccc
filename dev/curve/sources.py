"""Sources of noise: a family at one size, or the study's series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dev.curve import study
from dev.curve.families import Family
from dev.curve.oracle import Oracle

Alarms = Callable[[np.ndarray], np.ndarray]


class Source(Protocol):
    """A source of values: ``draw`` gives [series, nights, runs] around 1, ``seen`` rounds them as a timer does."""

    def draw(self, rng: np.random.Generator, series: int, nights: int) -> np.ndarray: ...
    def seen(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray: ...
    def oracle(self, size: float, null: np.ndarray) -> Alarms: ...


@dataclass(frozen=True)
class Made:
    """A family with the coefficient of variation ``cv``."""

    family: Family
    cv: float

    def draw(self, rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
        return self.family.draw(rng, series, nights, self.cv)

    def seen(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        return self.family.seen(rng, values, self.cv)

    def oracle(self, size: float, null: np.ndarray) -> Alarms:
        return Oracle(self.family, self.cv, size).calibrated(null).alarms


@dataclass(frozen=True)
class Studied:
    """Blocks of the study's repeats."""

    found: list[np.ndarray]

    def draw(self, rng: np.random.Generator, series: int, nights: int) -> np.ndarray:
        return study.draw(rng, self.found, series, nights)

    def seen(self, rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
        return values

    def oracle(self, size: float, null: np.ndarray) -> Alarms:
        return _OfMeans(null, len(self.found), size).calibrated(null).alarms


class _OfMeans(Oracle):
    """An oracle that knows mean and spread of each series' nights, and takes them for normal."""

    def __init__(self, null: np.ndarray, many: int, size: float):
        super().__init__(Family('', ''), 1.0, size)
        night = null.mean(axis=2)
        self.mean = np.array([night[k::many].mean() for k in range(many)])
        self.sd = np.array([max(1e-3, night[k::many].std()) for k in range(many)])

    def _scores(self, values: np.ndarray) -> np.ndarray:
        k = np.arange(len(values)) % len(self.mean)
        shift = (self.shift / self.sd[k])[:, None]
        z = (values.mean(axis=2) - self.mean[k, None]) / self.sd[k, None]
        return -shift * z - shift ** 2 / 2
