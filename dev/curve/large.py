"""A large system of 50 nights: the time, the memory, and what is found. Each is judged in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dev.curve import rule
from dev.curve.families import GROUP, Family
from dev.curve.figures import Amount, Figure, Row

NIGHTS, LAST, SIZE = 50, 3, 0.05
#: For the rule's call and its tables. Seconds count only where nothing else runs: the load average tells.
SECONDS, MB, IDLE = 4.0, 1024.0, 1.5
#: % of quiet cells with independent noise that are blind, by CV.
BLIND = {0.01: 0.0, 0.02: 1.0}


def rows(small: bool, seed: int, amount: Amount) -> Iterator[Row]:
    """Measure two CVs, independent and half night-shared."""
    for share in (0.0, 0.5):
        for cv in (0.01, 0.02)[:1 if small else 2]:
            load = os.getloadavg()[0]
            with ProcessPoolExecutor(1, mp_context=get_context('spawn')) as one:
                figures = one.submit(_judged, cv, share, seed, amount.large, load < IDLE).result()
            name = f'{10 * amount.large} cells, CV {100 * cv:g} %' + ', half night-shared' * bool(share)
            yield Row(name, {'load': Figure(load), **figures})


def _judged(cv: float, share: float, seed: int, many: int, idle: bool) -> dict[str, Figure]:
    """Judge ``many`` groups. Half of the cells are 5 % slower on the last three nights."""
    rng, cells, libraries = np.random.default_rng([seed, int(1000 * cv), int(10 * share)]), many * GROUP, _peak()
    slowed = np.arange(cells) % GROUP < GROUP // 2
    values, _ = Family('', cv, share=share).draw(
        rng, cells, NIGHTS, SIZE * (slowed[:, None] & (np.arange(NIGHTS) >= NIGHTS - LAST)))
    started = time.perf_counter()
    told = rule.follow(values, 1 / (30 * cells))
    seconds = time.perf_counter() - started
    visible = told.visible[~slowed & told.quiet[:, -1]]
    found = rule.per_group(np.where(slowed, 100 * told.slow[:, -LAST:].any(axis=1), np.nan))
    blind = Figure(100 * float((visible > SIZE).mean()), most=np.inf if share else BLIND[cv])
    return {'seconds': Figure(seconds, most=SECONDS if idle else np.inf), 'MB': Figure(_peak(), most=MB),
            'libraries, MB': Figure(libraries), 'quiet': Figure(len(visible)), 'blind': blind,
            'visible': Figure(100 * float(np.median(visible))), '5 % in 3': Figure.of(found)}


def _peak() -> float:
    """Return the most MB that this process held (getrusage would count its parent's, too)."""
    return int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) / 1024
