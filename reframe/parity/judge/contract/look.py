"""A look at the nodes of a clause: the interval that their first runs give, and whether it decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parity.judge.contract.model import NodeFigure, Word
from parity.judge.stats import promise
from parity.judge.stats.interval import FLOOR
from parity.judge.stats.promise import Demand
from parity.site.contract import Clause

#: The logarithm of the largest float, rounded down.
_LARGEST = 709.0


@dataclass(frozen=True)
class Scale:
    """The scale on which runs are averaged: the logarithm, turned round where lower is better."""

    sign: int
    is_log: bool

    @classmethod
    def of_clause(cls, clause: Clause, values: Sequence[float]) -> Scale:
        sign = 1 if clause.better == 'higher' else -1
        return cls(sign, is_log=min([clause.bound, *values]) > 0)

    def place(self, value: float) -> float:
        return self.sign * (math.log(value) if self.is_log else value)

    def value(self, place: float) -> float:
        """Return the value at a place of the scale; an endless one beyond all numbers."""
        turned = self.sign * place
        if not self.is_log:
            return turned
        return math.exp(turned) if turned < _LARGEST else math.inf

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Return the values at two places, the smaller one first."""
        ends = self.value(low), self.value(high)
        return min(ends), max(ends)


@dataclass(frozen=True)
class Look:
    """A look by the first ``count`` runs of each node; its arrays are [nodes], places on the scale.

    A node that has fewer runs has endless limits: the interval knows nothing about it."""

    number: int
    count: int
    bound: float
    low: float
    high: float
    value: float
    lows: np.ndarray
    highs: np.ndarray
    surely_bad: np.ndarray
    complete: bool
    decides: int | None                 # the look that would decide, if the nodes stay as they are

    @property
    def word(self) -> Word:
        if self.low >= self.bound:
            return 'met'
        return 'not met' if self.high < self.bound else 'open'


def look_at(nodes: Sequence[NodeFigure], clause: Clause, scale: Scale, number: int, clauses: int) -> Look | None:
    """Return a look, the first being 0, at a clause of so many ``clauses``; None while no node has the runs."""
    count = promise.runs_of_look(number, clause.runs)
    if not any(len(node.values) >= count for node in nodes):
        return None
    sample = _Sample.of(nodes, count, scale)
    demanded = promise.demand(len(nodes), clause.share)
    level = promise.level_of_look(number, clauses)
    lower, upper = promise.node_levels(demanded, level)
    lows = sample.limits(-1, lower)
    highs = sample.limits(1, upper)
    low, high = promise.interval(lows, highs, demanded)
    bound = scale.place(clause.bound)
    # a node is named by a limit that holds for all nodes at once
    surely_bad = sample.limits(1, level / len(nodes)) < bound
    decides = None
    if sample.is_complete:
        decides = promise.deciding_look(number, bound, sample.means, sample.variances, clause.runs, demanded,
                                        clauses, sample.floor)
    return Look(
        number=number, count=count, bound=bound, low=float(low), high=float(high), value=sample.middle(demanded),
        lows=lows, highs=highs, surely_bad=surely_bad, complete=sample.is_complete, decides=decides)


@dataclass(frozen=True)
class _Sample:
    """The first ``count`` runs of each node; ``whole`` [nodes] says which nodes have them."""

    count: int
    whole: np.ndarray
    means: np.ndarray                   # of the whole ones, as all below
    variances: np.ndarray
    floor: np.ndarray | float

    @classmethod
    def of(cls, nodes: Sequence[NodeFigure], count: int, scale: Scale) -> _Sample:
        whole = np.array([len(node.values) >= count for node in nodes])
        places = []
        for node in nodes:
            if len(node.values) >= count:
                places.append([scale.place(value) for value in node.values[:count]])
        means = np.mean(places, 1)
        variances = np.var(places, 1, ddof=1)
        floor = FLOOR if scale.is_log else FLOOR * np.abs(means)
        return cls(count, whole, means, variances, floor)

    @property
    def is_complete(self) -> bool:
        return bool(self.whole.all())

    def limits(self, sign: int, level: float) -> np.ndarray:
        """Return the lower (-1) or upper (1) limit of each node; endless where it is not whole."""
        limits = np.full(len(self.whole), sign * math.inf)
        halves = promise.half(self.variances, self.count, level, self.floor)
        limits[self.whole] = self.means + sign * halves
        return limits

    def middle(self, demanded: Demand) -> float:
        """Return the level of the node that decides, of those that have one."""
        place = min(demanded.nodes - demanded.good, len(self.means) - 1)
        return float(np.sort(self.means)[place])
