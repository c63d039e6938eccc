"""The effects of nodes: how much faster or slower each is than the other nodes on which a group of cells ran."""

from __future__ import annotations

import numpy as np

# The constants, and why: docs/regression.md.
#: A node is slower than others from this effect and so many standard errors on; n nights shrink it by n / (n + 2).
_NODE, _SURE = 0.01, 3.0
#: Nights that a node needs.
_FEWEST = 3


def learned(off: np.ndarray, group: np.ndarray, node: np.ndarray, night: np.ndarray,
            shape: tuple[int, int]) -> np.ndarray:
    """Return the effects [groups, nodes], in logarithms; 0 where a node is like the others.

    ``off``: values less the median of their cell, by group. ``group``, ``node``, ``night``: the number of each."""
    groups, many = shape
    size = np.bincount(group, minlength=groups)
    start = np.cumsum(size) - size
    # a pair is a node of a group; pairs, and the values of groups, are one after the other
    every = np.bincount(group * many + node, minlength=groups * many)
    pairs = np.flatnonzero(every)
    which = (np.cumsum(every > 0) - 1).astype(np.min_scalar_type(len(pairs)))[group * many + node]
    count, of_pair = every[pairs], pairs // many
    parts = [slice(start[g], start[g] + size[g]) for g in np.flatnonzero(size)]
    order = np.concatenate([part.start + np.argsort(off[part]) for part in parts])
    ordered, of, first = off[order], np.argsort(which[order], kind='stable'), np.cumsum(count) - count
    middle, mad = _middle(ordered[of], first, count), np.zeros(groups)
    apart = np.abs(off - middle[which])
    mad[size > 0] = [1.4826 * np.median(apart[part]) for part in parts]
    met = np.zeros((len(pairs), int(night.max()) + 1), dtype=bool)
    met[which, night] = True
    nights = met.sum(axis=1)
    least = np.fmax(_NODE, _SURE * mad[of_pair] / np.sqrt(nights))
    here = np.repeat(np.arange(len(count)), count)
    before = of - start[of_pair][here] - (np.arange(len(of)) - first[here])     # values of others before each

    def other(place: np.ndarray) -> np.ndarray:
        """Return the value of the others at a place among them, by pair."""
        own = np.bincount(here, before <= place[here], len(count)).astype(int)
        return ordered[start[of_pair] + np.fmin(place + own, size[of_pair] - 1)]
    others = size[of_pair] - count
    apart = middle - (other((others - 1) // 2) + other(others // 2)) / 2
    slow = (np.abs(apart) > least) & (nights >= _FEWEST) & (2 * count <= size[of_pair])
    effect = np.zeros(shape)
    effect.flat[pairs[slow]] = (apart * nights / (nights + 2))[slow]
    return effect


def _middle(ordered: np.ndarray, first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the median of each part of an array, which begins at ``first`` and is in order."""
    return (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
