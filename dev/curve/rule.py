"""The rule that the curve measures: the call of parity.judge.stats.levels, and what its alarms amount to."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from dev.curve.families import GROUP, HISTORY, RUNS
from parity.judge.stats import levels, rule
from parity.judge.stats.nights import Nights

#: New false alarms a cell-night: the oracle's, and a system's of a hundred cells.
RATE, DEFAULT = 1 / 1000, rule.RATE
#: Nights [series, nights]: slow, of a known slowdown, neither, run again; the visible share [series].
Judged = namedtuple('Judged', 'slow known quiet wanted visible')


def follow(values: np.ndarray, rate: float = RATE, sign: int = 1, events: np.ndarray | None = None,
           nodes: np.ndarray | None = None, accept_after: int = 0) -> Judged:
    """Judge values [series, nights, runs and reruns]; NaN: the night is missing. Reruns are known for every night.

    ``events`` are words, ``nodes`` numbers [series, nights]; ``sign``: -1 where lower is better."""
    there = np.isfinite(values[..., 0])
    n, runs = int(there.sum()), values.shape[2]
    start, night = np.append(0, there.sum(axis=1).cumsum()), np.repeat(np.arange(n), runs)
    table = Nights.of(start, night, values[there].ravel(), np.tile(np.arange(runs) >= RUNS, n),
                      np.full(len(values), sign), np.nonzero(there)[1])
    told = levels.follow(table, np.arange(len(values)) // GROUP, rate,
                         *(each if each is None else each[there] for each in (events, nodes)), accept_after)
    found = np.zeros((4, *there.shape), dtype=bool)
    found[:, there] = (*(np.isin(told.state, each) for each in (rule.LOW_NIGHTS, rule.KNOWN)),
                       told.state == rule.QUIET, told.reruns)
    return Judged(*found, -np.expm1(-np.abs(told.cells.visible)))


def per_group(marked: np.ndarray) -> np.ndarray:
    """Return the mean of [series, ...] in each group; NaN is left out."""
    parts = marked.reshape(len(marked) // GROUP, -1)
    known = np.isfinite(parts).sum(axis=1)
    return np.nansum(parts, axis=1) / np.where(known, known, np.nan)


def fresh(known: np.ndarray, first: int = HISTORY, last: int | None = None) -> np.ndarray:
    """Return alarms that begin after three nights without one, per 1000 nights from ``first`` on [groups]."""
    before = np.any([np.roll(known, k, axis=1) for k in (1, 2, 3)], axis=0)
    return per_group(1000 * (known & ~before)[:, first:last])


def caught(slow: np.ndarray | None, there: np.ndarray, which: np.ndarray, begin: np.ndarray,
          within: int) -> np.ndarray:
    """Return the % of the cells ``which`` that alarm within so many nights from ``begin`` [series] on, by group.

    Nights count that are ``there`` [series, nights]. An alarm the night before leaves a cell out."""
    if slow is None:
        return np.full(len(which) // GROUP, np.nan)
    rows = np.arange(len(slow))
    later = there & (np.arange(there.shape[1]) >= begin[:, None])
    hit = (slow & later & (later.cumsum(axis=1) <= within)).any(axis=1)
    return per_group(np.where(which & ~slow[rows, begin - 1], 100 * hit, np.nan))
