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

    ``number`` [cells, columns]: of the node or nodes, -1: not known. ``several``: there are two or more. ``moves``
    [cells]: the cell ran on two or more."""

    def __init__(self, group: np.ndarray, shape: tuple[int, int]):
        self.group = group
        self.several = False
        self.moves = np.zeros(len(group), dtype=bool)
        self._groups = int(group.max(initial=-1)) + 1
        self.number = np.full(shape, -1, dtype=np.int32)
        self._effect = np.zeros((self._groups, 1))               # the last one: not known

    def take(self, cell: np.ndarray, column: np.ndarray, number: np.ndarray) -> None:
        """Take the number of the node of each night."""
        many = int(np.max(number)) + 1
        if many > 1:
            self.several = True
            self.number[cell, column] = number
            self.moves = _ran_on_several(self.number, self.number >= 0)
            self._effect = np.zeros((self._groups, many + 1))

    def effects(self, cells: np.ndarray | int, column: np.ndarray | int) -> np.ndarray | float:
        """Return the effects of the nodes of these cells on a night, in logarithms."""
        return self._effect[self.group[cells], self.number[cells, column]]

    def on_one(self, cell: int, columns: np.ndarray) -> bool:
        """Return whether half of a cell's nights, or more, were on one node: a slowdown on several blames none."""
        nodes = self.number[cell, columns]
        nights_of_nodes = np.bincount(nodes + 1)
        most = nights_of_nodes.max(initial=0)
        return 2 * most >= len(columns)

    def learn(self, cells: np.ndarray, columns: slice, x: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Learn the effects anew. Yield each group whose effects moved, and by how much [nodes].

        ``cells``: by group; ``x`` [cells, columns]: their nights without the effects of before, else NaN."""
        node = self.number[cells, columns]
        inside = np.isfinite(x) & (node >= 0)
        ran_on_several = _ran_on_several(node, inside)
        inside &= ran_on_several[:, None]
        row, night = np.nonzero(inside)
        if not len(row):
            return
        group = self.group[cells[row]]
        node = node[inside]
        raw = np.full(inside.shape, np.nan)
        raw[inside] = x[inside] + self._effect[group, node]
        off = raw[inside] - medians(raw)[row]
        middle = medians(x)
        deviation = np.abs(x - middle[:, None])
        scale = np.fmax(1.4826 * medians(deviation), rule.FLOOR)
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
    is_pair = values_of_key > 0
    keys = np.flatnonzero(is_pair)
    number_of_key = np.cumsum(is_pair) - 1
    smallest_type = np.min_scalar_type(len(keys))
    pair = number_of_key.astype(smallest_type)[key]
    count = values_of_key[keys]
    size = np.bincount(group, minlength=groups)
    of_pair = keys // many
    own, others = _middles(off / scale, pair, count, size, of_pair)
    apart = own - others
    nights = _nights(pair, night, len(keys))
    in_logs = apart * count / np.bincount(pair, 1 / scale)
    is_clear = np.abs(apart) > _SURE / np.sqrt(nights)
    is_large = np.abs(in_logs) > _NODE
    is_minority = 2 * count <= size[of_pair]
    has_nights = nights >= _FEWEST
    differs = is_clear & is_large & is_minority & has_nights
    shrunk = in_logs * nights / (nights + 2)
    effect = np.zeros(shape)
    effect.flat[keys[differs]] = shrunk[differs]
    return effect


def _nights(pair: np.ndarray, night: np.ndarray, pairs: int) -> np.ndarray:
    """Return on how many nights each pair ran. ``pair``, ``night``: of each value."""
    last = int(night.max())
    ran = np.zeros((pairs, last + 1), dtype=bool)
    ran[pair, night] = True
    return ran.sum(axis=1)


def _middles(off: np.ndarray, pair: np.ndarray, count: np.ndarray, size: np.ndarray, of_pair: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
    """Return for each pair the median of its values, and that of the other values of its group.

    ``off``, by group: values, each with the number of its ``pair``. ``count``: values of a pair. ``size``: values
    of a group. ``of_pair``: the group of a pair."""
    start = np.cumsum(size) - size
    order = _by_value(off, start, size)
    ordered = off[order]                                        # by group, and by value in it
    place = np.argsort(pair[order], kind='stable')              # by pair: places in ``ordered``
    of_pairs = ordered[place]
    first = np.cumsum(count) - count
    own_lower = of_pairs[first + (count - 1) // 2]
    own_upper = of_pairs[first + count // 2]
    start_of_pair, size_of_pair = start[of_pair], size[of_pair]
    pair_of_place = np.repeat(np.arange(len(count)), count)
    in_group = place - start_of_pair[pair_of_place]
    in_pair = np.arange(len(place)) - first[pair_of_place]
    others_before = in_group - in_pair

    def other(rank: np.ndarray) -> np.ndarray:
        """Return the value of the others that has this rank among them, by pair."""
        is_before = others_before <= rank[pair_of_place]
        own_before = np.bincount(pair_of_place, is_before, len(count)).astype(int)
        in_group = np.fmin(rank + own_before, size_of_pair - 1)
        return ordered[start_of_pair + in_group]

    others = size_of_pair - count
    lower, upper = other((others - 1) // 2), other(others // 2)
    return (own_lower + own_upper) / 2, (lower + upper) / 2


def _by_value(off: np.ndarray, start: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the order of values, by group and by value in it. ``start``: the first of each group."""
    orders = []
    for g in np.flatnonzero(size):
        end = start[g] + size[g]
        of_group = off[start[g]:end]
        orders.append(start[g] + np.argsort(of_group))
    return np.concatenate(orders)
