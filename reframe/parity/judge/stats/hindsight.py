"""The lasting drops of a series in hindsight, by a method that shares nothing with the rule of levels.

Binary segmentation of the logarithms (CUSUM; Scott and Knott 1974, Vostrikova 1981), each value clipped to a
running median. A boundary counts where the medians of SIDE to FAR nights on each side are LEAST and CLEAR robust
standard deviations apart."""

from __future__ import annotations

import numpy as np

#: Nights on each side of a boundary, at least and at most.
SIDE, FAR = 10, 40
#: A boundary is so many nights off at most.
_NEARBY = 5
#: The least drop, by how many robust standard deviations it must be clear, and the least scatter of a night.
LEAST, CLEAR, FLOOR = 0.05, 4.0, 0.003


def robust_sd(values: np.ndarray) -> float:
    """Return the median absolute deviation of normal values' standard deviation."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def neighbours_sd(values: np.ndarray) -> float:
    """Return the same from the differences of neighbours, which a change of level hardly touches."""
    return 1.4826 * float(np.median(np.abs(np.diff(values)))) / 2 ** 0.5


def boundaries(x: np.ndarray) -> list[int]:
    """Return where the logarithms ``x`` [nights] change their level, by binary segmentation."""
    sd = max(neighbours_sd(x), FLOOR)
    bar = 2 * sd * np.sqrt(2 * np.log(len(x)))
    middle = np.array([np.median(x[max(0, i - 7):i + 8]) for i in range(len(x))])
    clipped = np.clip(x, middle - 4 * sd, middle + 4 * sd)
    cuts, parts = [], [(0, len(x))]
    while parts:
        begin, end = parts.pop()
        if end - begin < 2 * SIDE:
            continue
        size = _sizes(clipped[begin:end])
        if size.max() >= bar:
            cut = begin + int(size.argmax()) + 1
            cuts.append(cut)
            parts += [(begin, cut), (cut, end)]
    return sorted(cuts)


def _sizes(part: np.ndarray) -> np.ndarray:
    """Return how far apart the sides of each boundary of a part are (CUSUM); 0 within SIDE nights of its ends."""
    n = len(part)
    k = np.arange(1, n)
    sums = np.cumsum(part)[:-1]
    size = np.abs(sums - k * part.mean()) / np.sqrt(k * (n - k) / n)
    size[:SIDE - 1] = 0
    size[n - SIDE:] = 0
    return size


def drops(x: np.ndarray, cuts: list[int]) -> list[tuple[int, float]]:
    """Return the lasting drops of the logarithms ``x`` [nights], higher is better: the night, and the change.

    ``cuts`` are the boundaries of ``x``."""
    lasting = []
    edges = [0, *cuts, len(x)]
    for before, cut, after in zip(edges, edges[1:], edges[2:], strict=False):
        begin, end = max(before, cut - FAR), min(after, cut + FAR)
        at = _moved(x, begin, cut, end)
        left, right = x[begin:at], x[at:end]
        change = float(np.median(right) - np.median(left))
        noise = max(robust_sd(left), robust_sd(right), FLOOR)
        if np.expm1(change) <= -LEAST and -change > CLEAR * noise:
            lasting.append((at, change))
    return lasting


def _moved(x: np.ndarray, begin: int, cut: int, end: int) -> int:
    """Return the night near a boundary at which the levels on its sides fit the nights best."""
    left, right = np.median(x[begin:cut]), np.median(x[cut:end])

    def misfit(at: int) -> float:
        before = np.abs(x[begin:at] - left).sum()
        after = np.abs(x[at:end] - right).sum()
        return float(before + after)

    first = max(begin + _NEARBY, cut - _NEARBY)
    last = min(end - _NEARBY - 1, cut + _NEARBY)
    return min(range(first, last + 1), key=misfit)


def reaching(known: np.ndarray, deepest: np.ndarray, least: float) -> np.ndarray:
    """Return the nights on which a slowdown is known that reached ``least``, a share, and is not over.

    ``deepest`` [nights]: how far it was below the level before until then, log."""
    told = np.zeros(len(known), dtype=bool)
    reached = False
    for night in range(len(known)):
        reached = bool(known[night]) and (reached or -np.expm1(-deepest[night]) >= least)
        told[night] = reached
    return told


def fresh(slow: np.ndarray) -> list[int]:
    """Return the nights on which an alarm begins after three nights without one."""
    at = np.flatnonzero(slow)
    return at[np.diff(at, prepend=-9) > 3].tolist()
