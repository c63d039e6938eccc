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
        self.group = group
        self.several = False
        self._groups = int(group.max(initial=-1)) + 1
        self.number = np.full(shape, -1, dtype=np.int32)
        self._effect = np.zeros((self._groups, 1))               # the last one: not known

    def take(self, cell: np.ndarray, column: np.ndarray, number: np.ndarray) -> None:
        """Take the number of the node of each night."""
        many = int(np.max(number)) + 1
        if many > 1:
            self.several = True
            self.number[cell, column] = number
            self._effect = np.zeros((self._groups, many + 1))

    def effects(self, cells: np.ndarray | int, column: np.ndarray | int) -> np.ndarray | float:
        """Return the effects of the nodes of these cells on a night, in logarithms."""
        return self._effect[self.group[cells], self.number[cells, column]]

    def on_one(self, cell: int, columns: np.ndarray) -> bool:
        """Return whether half of a cell's nights, or more, were on one node: a slowdown on several blames none."""
        nights_of_nodes = np.bincount(self.number[cell, columns] + 1)
        return 2 * nights_of_nodes.max(initial=0) >= len(columns)

    def learn(self, cells: np.ndarray, columns: slice, x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Learn the effects anew. Yield each group whose effects moved, and by how much [nodes].

        ``cells``: by group; ``x`` [cells, columns]: their nights without the effects of before, else NaN."""
        node = self.number[cells, columns]
        inside = np.isfinite(x) & (node >= 0)
        inside &= _ran_on_several(node, inside)[:, None]
        row, night = np.nonzero(inside)
        if not len(row):
            return
        group, node = self.group[cells[row]], node[inside]
        raw = np.full(inside.shape, np.nan)
        raw[inside] = x[inside] + self._effect[group, node]
        deviation = np.abs(x - medians(x)[:, None])
        scale = np.fmax(1.4826 * medians(deviation), rule.FLOOR)
        off = raw[inside] - medians(raw)[row]
        effect = learned(off, scale[row], group, node, night, self._effect.shape)
        for g in np.unique(group):
            moved = effect[g] - self._effect[g]
            if moved.any():
                self._effect[g] = effect[g]
                yield g, moved


def _ran_on_several(node: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return whether each cell ran on two nodes or more. ``node`` and ``inside`` [cells, nights]."""
    none = node.max(initial=0) + 1
    lowest = np.where(inside, node, none).min(axis=1, initial=none)
    highest = np.where(inside, node, -1).max(axis=1, initial=-1)
    return lowest < highest


def learned(off: np.ndarray, scale: np.ndarray, group: np.ndarray, node: np.ndarray, night: np.ndarray,
            shape: tuple[int, int]) -> np.ndarray:
    """Return the effects [groups, nodes], in logarithms; 0 where a node is like the others.

    ``off``: values less the median of their cell, by group. ``scale``: the standard deviation of their cell, in
    which they are compared: a node that ran a noisy cell is not slower for that. ``group``, ``node``, ``night``:
    the number of each."""
    groups, many = shape
    # a pair is a node of a group
    key = group * many + node
    values_of_key = np.bincount(key, minlength=groups * many)
    keys = np.flatnonzero(values_of_key)
    number_of_key = np.cumsum(values_of_key > 0) - 1
    pair = number_of_key.astype(np.min_scalar_type(len(keys)))[key]
    count = values_of_key[keys]
    size = np.bincount(group, minlength=groups)
    own, others = _middles(off / scale, pair, count, size, keys // many)
    met = np.zeros((len(keys), int(night.max()) + 1), dtype=bool)
    met[pair, night] = True
    nights = met.sum(axis=1)
    apart = own - others
    in_logs = apart * count / np.bincount(pair, 1 / scale)
    is_clear = np.abs(apart) > _SURE / np.sqrt(nights)
    is_large = np.abs(in_logs) > _NODE
    is_minority = 2 * count <= size[keys // many]
    slow = is_clear & is_large & is_minority & (nights >= _FEWEST)
    effect = np.zeros(shape)
    effect.flat[keys[slow]] = (in_logs * nights / (nights + 2))[slow]
    return effect


def _middles(off: np.ndarray, pair: np.ndarray, count: np.ndarray, size: np.ndarray, of_pair: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
    """Return for each pair the median of its values, and that of the other values of its group.

    ``off``, by group: values, each with the number of its ``pair``. ``count``: values of a pair. ``size``: values
    of a group. ``of_pair``: the group of a pair."""
    start = np.cumsum(size) - size
    orders = []
    for g in np.flatnonzero(size):
        of_group = off[start[g]:start[g] + size[g]]
        orders.append(start[g] + np.argsort(of_group))
    order = np.concatenate(orders)
    ordered = off[order]                                        # by group, and by value in it
    place = np.argsort(pair[order], kind='stable')              # by pair: places in ``ordered``
    first = np.cumsum(count) - count
    pair_of_place = np.repeat(np.arange(len(count)), count)
    in_group = place - start[of_pair][pair_of_place]
    in_pair = np.arange(len(place)) - first[pair_of_place]
    others_before = in_group - in_pair
    others = size[of_pair] - count

    def other(rank: np.ndarray) -> np.ndarray:
        """Return the value of the others that has this rank among them, by pair."""
        own_before = np.bincount(pair_of_place, others_before <= rank[pair_of_place], len(count)).astype(int)
        in_group = np.fmin(rank + own_before, size[of_pair] - 1)
        return ordered[start[of_pair] + in_group]
    of_pairs = ordered[place]
    own_middle = (of_pairs[first + (count - 1) // 2] + of_pairs[first + count // 2]) / 2
    return own_middle, (other((others - 1) // 2) + other(others // 2)) / 2
