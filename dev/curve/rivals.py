"""The usual detectors: a fixed bound on the first night's value, and three standard deviations below the mean."""

from __future__ import annotations

from functools import partial

import numpy as np

from dev.curve.families import RUNS


def fixed(bound: float, values: np.ndarray) -> np.ndarray:
    """Alarm if the median of a night's runs is so far below the first night's [series, nights]."""
    night = np.median(values[..., :RUNS], axis=2)
    return night < night[:, :1] * (1 - bound)


def three_sigma(values: np.ndarray) -> np.ndarray:
    """Alarm if the median of a night's runs is 3 standard deviations below the mean of all earlier nights."""
    night = np.median(values[..., :RUNS], axis=2)
    n = np.arange(night.shape[1])
    total, squares = (np.cumsum(x, axis=1) - x for x in (night, night ** 2))
    with np.errstate(invalid='ignore', divide='ignore'):
        mean = total / n
        spread = np.sqrt(np.fmax(0, squares - n * mean ** 2) / (n - 1))
        return np.where(n > 1, night < mean - 3 * spread, False)


RIVALS = {'fixed -5 %': partial(fixed, 0.05), 'fixed -10 %': partial(fixed, 0.10), 'mean - 3 sigma': three_sigma}
