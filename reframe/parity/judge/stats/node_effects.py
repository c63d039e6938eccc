"""The effects of nodes: how much faster or slower each is than the other nodes on which a group of cells ran."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.nights import medians

# The constants, and why: docs/operating-curve.md.
#: A node is slower than others from this effect and so many standard errors on; n nights shrink it by n / (n + 2).
_NODE, _SURE = 0.01, 3.0
#: Nights that a node needs.
_FEWEST = 3


class Nodes:
    """The nodes of the nights, and the effect of each on a group of cells.

    ``number`` [cells, columns]: of the node or nodes, -1: not known. ``several``: there are two or more."""

    def __init__(self, group: np.ndarray, shape: tuple[int, int]):
        self.group, self.several, self._groups = group, False, int(group.max(initial=-1)) + 1
        self.number = np.full(shape, -1, dtype=np.int32)
        self._effect = np.zeros((self._groups, 1))               # the last one: not known

    def take(self, cell: np.ndarray, column: np.ndarray, number: np.ndarray) -> None:
        """Take the number of the node of each night."""
        if (many := int(np.max(number)) + 1) > 1:
            self.several, self.number[cell, column] = True, number
            self._effect = np.zeros((self._groups, many + 1))

    def effects(self, cells: np.ndarray | int, column: np.ndarray | int) -> np.ndarray | float:
        """Return the effects of the nodes of these cells on a night, in logarithms."""
        return self._effect[self.group[cells], self.number[cells, column]]

    def on_one(self, cell: int, columns: np.ndarray) -> bool:
        """Return whether half of a cell's nights, or more, were on one node: a slowdown on several blames none."""
        return 2 * np.bincount(self.number[cell, columns] + 1).max(initial=0) >= len(columns)

    def learn(self, cells: np.ndarray, columns: slice, x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Learn the effects anew. Yield each group whose effects moved, and by how much [nodes].

        ``cells``: by group; ``x`` [cells, columns]: their nights without the effects of before, else NaN."""
        node, many = self.number[cells, columns], self._effect.shape[1]
        inside = np.isfinite(x) & (node >= 0)
        lowest, highest = (np.where(inside, node, none) for none in (many, -1))
        inside &= (lowest.min(axis=1, initial=many) < highest.max(axis=1, initial=-1))[:, None]
        row, at = np.nonzero(inside)
        if not len(row):
            return
        group, node = self.group[cells[row]], node[inside]
        raw = np.full(inside.shape, np.nan)
        raw[inside] = x[inside] + self._effect[group, node]
        scale = np.fmax(1.4826 * medians(np.abs(x - medians(x)[:, None])), rule.FLOOR)
        effect = learned(raw[inside] - medians(raw)[row], scale[row], group, node, at, self._effect.shape)
        for g in [g for g in np.unique(group) if (effect[g] != self._effect[g]).any()]:
            moved, self._effect[g] = effect[g] - self._effect[g], effect[g]
            yield g, moved


def learned(off: np.ndarray, scale: np.ndarray, group: np.ndarray, node: np.ndarray, night: np.ndarray,
            shape: tuple[int, int]) -> np.ndarray:
    """Return the effects [groups, nodes], in logarithms; 0 where a node is like the others.

    ``off``: values less the median of their cell, by group. ``scale``: the standard deviation of their cell, in
    which they are compared: a node that ran a noisy cell is not slower for that. ``group``, ``node``, ``night``:
    the number of each."""
    (groups, many), off = shape, off / scale
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
    middle = _middle(ordered[of], first, count)
    met = np.zeros((len(pairs), int(night.max()) + 1), dtype=bool)
    met[which, night] = True
    nights = met.sum(axis=1)
    here = np.repeat(np.arange(len(count)), count)
    before = of - start[of_pair][here] - (np.arange(len(of)) - first[here])     # values of others before each

    def other(place: np.ndarray) -> np.ndarray:
        """Return the value of the others at a place among them, by pair."""
        own = np.bincount(here, before <= place[here], len(count)).astype(int)
        return ordered[start[of_pair] + np.fmin(place + own, size[of_pair] - 1)]
    others = size[of_pair] - count
    apart = middle - (other((others - 1) // 2) + other(others // 2)) / 2
    in_logs = apart * count / np.bincount(which, 1 / scale)
    slow = (np.abs(apart) > _SURE / np.sqrt(nights)) & (np.abs(in_logs) > _NODE) & (nights >= _FEWEST)
    slow &= 2 * count <= size[of_pair]
    effect = np.zeros(shape)
    effect.flat[pairs[slow]] = (in_logs * nights / (nights + 2))[slow]
    return effect


def _middle(ordered: np.ndarray, first: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the median of each part of an array, which begins at ``first`` and is in order."""
    return (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
