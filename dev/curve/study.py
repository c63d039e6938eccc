"""Noise from the series of the study of 2012: a block bootstrap of its repeats."""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np

from dev.curve.families import RERUNS, RUNS
from parity.base import paths

#: The repeats in a row that stay together: two nights' runs and reruns.
_BLOCK = 2 * (RUNS + RERUNS)


def series(which: str) -> list[np.ndarray]:
    """Return the repeats of each series over their median, higher is better; ``which``: hpc or fs."""
    found: dict[tuple, list[float]] = defaultdict(list)
    with (paths.root() / 'studies' / 'jungels2012' / 'published.csv').open(newline='') as lines:
        for row in csv.DictReader(lines):
            value = float(row['value'])
            if row['metric'] == 'seconds' and which == 'fs' and not row['pass']:
                found[row['where'],].append(-value)
            elif row['metric'] != 'seconds' and which == 'hpc':
                found[row['experiment'], row['code'], row['side']].append(value)
    values = [np.array(v) for v in found.values()]
    return [v / abs(np.median(v)) + (2 if v[0] < 0 else 0) for v in values]


def steady(found: list[np.ndarray], cv: float) -> list[np.ndarray]:
    """Return the series whose coefficient of variation is at most ``cv``."""
    return [v for v in found if v.std() / v.mean() <= cv]


def draw(rng: np.random.Generator, found: list[np.ndarray], many: int, nights: int) -> np.ndarray:
    """Draw values [many, nights, RUNS + RERUNS] around 1: circular blocks of repeats, cut into nights."""
    each = nights * (RUNS + RERUNS)
    blocks = -(-each // _BLOCK)
    out = np.empty((many, nights, RUNS + RERUNS))
    for i in range(many):
        v = found[i % len(found)]
        begin = rng.integers(0, len(v), blocks)
        out[i] = v[((begin[:, None] + np.arange(_BLOCK)) % len(v)).ravel()[:each]].reshape(out.shape[1:])
    return out
