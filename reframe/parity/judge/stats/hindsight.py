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
    off = np.abs(values - np.median(values))
    return 1.4826 * float(np.median(off))


def neighbours_sd(values: np.ndarray) -> float:
    """Return the same from the differences of neighbours, which a change of level hardly touches."""
    differences = np.abs(np.diff(values))
    return 1.4826 * float(np.median(differences)) / 2 ** 0.5


def boundaries(x: np.ndarray) -> list[int]:
    """Return where the logarithms ``x`` [nights] change their level, by binary segmentation."""
    sd = max(neighbours_sd(x), FLOOR)
    bar = 2 * sd * np.sqrt(2 * np.log(len(x)))
    middle = _running_median(x)
    farthest = 4 * sd
    clipped = np.clip(x, middle - farthest, middle + farthest)
    cuts = []
    parts = [(0, len(x))]
    while parts:
        begin, end = parts.pop()
        if end - begin < 2 * SIDE:
            continue
        sizes = _sizes(clipped[begin:end])
        if sizes.max() >= bar:
            largest = int(sizes.argmax())
            cut = begin + largest + 1
            cuts.append(cut)
            parts += [(begin, cut), (cut, end)]
    return sorted(cuts)


def _running_median(x: np.ndarray) -> np.ndarray:
    """Return the median of each night and its seven neighbours on both sides."""
    middles = []
    for night in range(len(x)):
        first = max(0, night - 7)
        middle = np.median(x[first:night + 8])
        middles.append(middle)
    return np.array(middles)


def _sizes(part: np.ndarray) -> np.ndarray:
    """Return how far apart the sides of each boundary of a part are (CUSUM); 0 within SIDE nights of its ends."""
    n = len(part)
    k = np.arange(1, n)
    sums = np.cumsum(part)[:-1]
    variance = k * (n - k) / n
    off = np.abs(sums - k * part.mean())
    size = off / np.sqrt(variance)
    size[:SIDE - 1] = 0
    size[n - SIDE:] = 0
    return size


def drops(x: np.ndarray, cuts: list[int]) -> list[tuple[int, float]]:
    """Return the lasting drops of the logarithms ``x`` [nights], higher is better: the night, and the change.

    ``cuts`` are the boundaries of ``x``."""
    lasting = []
    edges = [0, *cuts, len(x)]
    for before, cut, after in zip(edges, edges[1:], edges[2:], strict=False):
        begin = max(before, cut - FAR)
        end = min(after, cut + FAR)
        night = _moved(x, begin, cut, end)
        left, right = x[begin:night], x[night:end]
        change = float(np.median(right) - np.median(left))
        noise = max(robust_sd(left), robust_sd(right), FLOOR)
        is_large = np.expm1(change) <= -LEAST
        is_clear = -change > CLEAR * noise
        if is_large and is_clear:
            lasting.append((night, change))
    return lasting


def _moved(x: np.ndarray, begin: int, cut: int, end: int) -> int:
    """Return the night near a boundary at which the levels on its sides fit the nights best."""
    left = np.median(x[begin:cut])
    right = np.median(x[cut:end])
    off_left = np.abs(x - left)
    off_right = np.abs(x - right)

    def misfit(night: int) -> float:
        before = off_left[begin:night].sum()
        after = off_right[night:end].sum()
        return float(before + after)

    first = max(begin + _NEARBY, cut - _NEARBY)
    last = min(end - _NEARBY - 1, cut + _NEARBY)
    return min(range(first, last + 1), key=misfit)


def reaching(known: np.ndarray, deepest: np.ndarray, least: float) -> np.ndarray:
    """Return the nights on which a slowdown is known that reached ``least``, a share, and is not over.

    ``deepest`` [nights]: how far it was below the level before until then, log."""
    nights = np.zeros(len(known), dtype=bool)
    loss = -np.expm1(-deepest)
    reached = False
    for night in range(len(known)):
        reaches = reached or loss[night] >= least
        reached = bool(known[night]) and reaches
        nights[night] = reached
    return nights


def fresh(slow: np.ndarray) -> list[int]:
    """Return the nights on which an alarm begins after three nights without one."""
    nights = np.flatnonzero(slow)
    since_last = np.diff(nights, prepend=-9)
    is_first = since_last > 3
    return nights[is_first].tolist()
