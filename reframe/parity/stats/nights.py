"""One value a night from its runs, and from its reruns where the runs raise suspicion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parity.stats.noise import Rules, known_median

#: Mean range of n normal values in standard deviations (Tippett 1925); beyond eight, that of eight is near enough.
_RANGE = np.array([np.nan, np.nan, 1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847])
#: The usual scatter of runs within a night is looked up anew every so many nights.
_EVERY = 8
#: Nights before the first look.
_FIRST = 5


@dataclass(frozen=True)
class Group:
    """What the runs (or reruns, or both) of each night are summed up as; NaN where there are none [nights]."""

    count: np.ndarray
    mean: np.ndarray
    median: np.ndarray
    reach: np.ndarray       # largest minus smallest


def grouped(night: np.ndarray, value: np.ndarray, nights: int) -> Group:
    """Sum up values by night: ``night`` and ``value`` are one entry a value, in any order, all finite."""
    ordered = value[np.lexsort((value, night))]
    count = np.bincount(night, minlength=nights)
    first = np.cumsum(count) - count
    some = count > 0
    mean, median, reach = (np.full(nights, np.nan) for _ in range(3))
    mean[some] = np.bincount(night, value, nights)[some] / count[some]
    low, high = first[some] + (count[some] - 1) // 2, first[some] + count[some] // 2
    median[some] = (ordered[low] + ordered[high]) / 2
    reach[some] = ordered[first[some] + count[some] - 1] - ordered[first[some]]
    return Group(count, mean, median, reach)


@dataclass(frozen=True)
class Nights:
    """Nights of many series, one series after the other, oldest first, oriented so that higher is better. Series k
    has the nights ``start[k]`` to ``start[k + 1]``."""

    start: np.ndarray
    runs: Group
    reruns: Group
    both: Group
    elsewhere: np.ndarray   # bool: the reruns were on another node, too

    @classmethod
    def of(cls, start: np.ndarray, night: np.ndarray, value: np.ndarray, again: np.ndarray,
           elsewhere: np.ndarray | None = None) -> Nights:
        """From one entry a value: its night, itself, oriented, and whether it is a rerun's."""
        total = int(start[-1])
        runs, reruns = (grouped(night[chosen], value[chosen], total) for chosen in (~again, again))
        return cls(start, runs, reruns, grouped(night, value, total) if again.any() else runs,
                   np.zeros(total, dtype=bool) if elsewhere is None else elsewhere)


@dataclass(frozen=True)
class Values:
    """The value of each night, and what it is worth."""

    value: np.ndarray
    within: np.ndarray      # its standard deviation as the scatter of the night's runs explains it
    suspicious: np.ndarray  # bool: a rerun is wanted, and where it exists it is in the value


def of_nights(nights: Nights, rules: Rules) -> Values:
    """The value of each night, from what was known on it.

    The mean of the runs, but no further from their median than runs usually scatter (at least
    ``rules.effect``): the mean is the more precise one, and one wild run makes no night. Where the runs are
    suspiciously low the reruns join them; where they contradict the runs the reruns stand alone."""
    count = np.minimum(nights.runs.count, len(_RANGE) - 1)
    run_sd = nights.runs.reach / _RANGE[count]
    usual = _usual(nights.start, run_sd, rules)
    usual = np.fmax(usual, rules.effect * np.abs(nights.runs.median))
    value = _near(nights.runs, usual)
    again = _near(nights.reruns, usual)
    suspicious = _suspicious(nights.start, value, rules)
    known = suspicious & (nights.reruns.count > 0)
    error = usual * np.sqrt(1 / nights.runs.count + 1 / np.fmax(1, nights.reruns.count))
    contradicted = known & (again - value > 3 * error)
    pooled = np.where(known, _near(nights.both, usual), value)
    within = run_sd / np.sqrt(nights.runs.count)
    return Values(np.where(contradicted, again, pooled), within, suspicious)


def _near(group: Group, reach: np.ndarray) -> np.ndarray:
    return group.median + np.clip(group.mean - group.median, -reach, reach)


def place(start: np.ndarray) -> np.ndarray:
    """How many nights of its series come before each night [nights]."""
    return np.arange(start[-1]) - np.repeat(start[:-1], np.diff(start))


def rows_by_length(start: np.ndarray, window: int, least: int, lag: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """(n, the nights with n of their series before them and ``lag`` more), n from ``least`` to ``window``."""
    length = np.minimum(place(start) - lag, window)
    order = np.argsort(length, kind='stable')
    edges = np.searchsorted(length[order], np.arange(least, window + 2))
    for n, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True), least):
        if b > a:
            yield n, order[a:b]


def before(values: np.ndarray, rows: np.ndarray, n: int, lag: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows, the ``n`` values that end ``lag`` before each of them [rows, n]), in pieces that fit the caches."""
    if not len(rows):
        return
    views = np.lib.stride_tricks.sliding_window_view(values, n)
    for i in range(0, len(rows), 8192):
        piece = rows[i:i + 8192]
        yield piece, views[piece - lag - n]


def _suspicious(start: np.ndarray, value: np.ndarray, rules: Rules) -> np.ndarray:
    """Is a night in the lowest share of the window before it? By rank: no noise is assumed; ties count half."""
    found = np.zeros(len(value), dtype=bool)
    for n, rows in rows_by_length(start, rules.window, 8):
        for piece, window in before(value, rows, n):
            tonight = value[piece, None]
            rank = (window < tonight).sum(axis=1) + (window == tonight).sum(axis=1) / 2
            found[piece] = rank <= rules.suspicious * n
    return found


def _usual(start: np.ndarray, run_sd: np.ndarray, rules: Rules) -> np.ndarray:
    """The median of the runs' standard deviation over the window before each night; NaN where none is known."""
    usual = np.full(len(run_sd), np.nan)
    age = place(start)
    fresh = (age % _EVERY == 0) | (age == _FIRST)
    for n, rows in rows_by_length(start, rules.window, _FIRST):
        for piece, window in before(run_sd, rows[fresh[rows]], n):
            usual[piece] = known_median(window)
    last = np.maximum.accumulate(np.where(fresh, np.arange(len(usual)), 0))
    return np.where(age >= _FIRST, usual[last], np.nan)
