"""Limits of a promise that holds for a share of the nodes.

Each node has a level: the mean of its runs, with Student's limits (1908). A promise holds if ``good`` nodes keep
it. So the level of one node decides: of each node the worst one, of the median the middle one. Its interval is
made of order statistics of the nodes' limits.

A clause is called met by mistake if too many of ``bad`` nodes at the bound have a lower limit above it. Their
number is binomial, and Clopper and Pearson's limit (1934) is the level of one node's limits. For each node, one
wrong limit is enough, and nothing is corrected: the intersection-union test of acceptance sampling (Berger, 1982,
Technometrics 24). A clause is called not met by mistake in the same way, with the sides exchanged.

The clauses of a contract share the level (Bonferroni). An open clause is looked at again with twice the runs. The
first look spends four fifths of the clause's level, each later one four fifths of the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from parity.judge.stats.interval import FLOOR, half_width

#: Wrong words for either party, over all clauses, nodes and looks of a contract.
LEVEL = 0.05
#: The share of what is left of a clause's level that a look spends.
SPENT = 0.8
#: Looks at most: after the last one a clause has 512 times the runs of the first.
LOOKS = 10
#: So many nodes need one more than the promise asks for: the limits of all are narrower then.
_SPARED = 20


@dataclass(frozen=True)
class Demand:
    """The share of the nodes that a promise asks for. ``spare``: nodes more that decide it."""

    nodes: int
    good: int
    spare: int

    @property
    def bad(self) -> int:
        """Return the nodes that break the promise together."""
        return self.nodes - self.good + 1


def demand(nodes: int, share: float) -> Demand:
    """Return how many nodes must keep a promise that this share must keep."""
    good = max(1, math.ceil(share * nodes - 1e-9))
    spare = min(good, nodes - good + 1) // _SPARED
    return Demand(nodes, good, spare)


def level_of_look(look: int, clauses: int) -> float:
    """Return the level that a clause of so many may spend in a look, the first being 0."""
    return LEVEL / clauses * SPENT * (1 - SPENT) ** look


def runs_of_look(look: int, runs: int) -> int:
    return runs * 2 ** look


def node_levels(demanded: Demand, level: float) -> tuple[float, float]:
    """Return the levels of one node's lower and upper limit.

    Of ``bad`` nodes at the bound more than ``spare`` have a wrong lower limit with the probability ``level``, of
    ``good`` ones a wrong upper limit."""
    needed = demanded.spare + 1
    lower = scipy.special.betaincinv(needed, demanded.bad - demanded.spare, level)
    upper = scipy.special.betaincinv(needed, demanded.good - demanded.spare, level)
    return float(lower), float(upper)


def half(variances: np.ndarray, runs: int, level: float, floor: np.ndarray | float = FLOOR) -> np.ndarray:
    """Return how far Student's limit of a level is from the mean of so many runs. ``variances`` [..., nodes]: of
    one run.

    A few runs of a node may lie together by chance. So its limit is no nearer than one by the median node's
    variance, which has the degrees of freedom of all nodes."""
    confidence = 1 - 2 * level
    of_node = half_width([(variances, 1 / runs, runs - 1)], confidence)
    usual = np.median(variances, -1, keepdims=True)
    of_usual = half_width([(usual, 1 / runs, variances.shape[-1] * (runs - 1))], confidence)
    return np.maximum(np.maximum(of_node, of_usual), floor)


def interval(lows: np.ndarray, highs: np.ndarray, demanded: Demand) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of a promise from the limits of the nodes, [..., nodes], where higher is better."""
    lower_place = demanded.nodes - demanded.good - demanded.spare
    upper_place = demanded.nodes - demanded.good + demanded.spare
    return np.sort(lows, -1)[..., lower_place], np.sort(highs, -1)[..., upper_place]


def interval_at(look: int, means: np.ndarray, variances: np.ndarray, runs: int, demanded: Demand, clauses: int,
                floor: np.ndarray | float = FLOOR) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of a promise in a look. ``means`` and ``variances`` [..., nodes]; ``runs``: of the first
    look."""
    count = runs_of_look(look, runs)
    lower, upper = node_levels(demanded, level_of_look(look, clauses))
    lows = means - half(variances, count, lower, floor)
    highs = means + half(variances, count, upper, floor)
    return interval(lows, highs, demanded)


def deciding_look(after: int, bound: float, means: np.ndarray, variances: np.ndarray, runs: int,
                  demanded: Demand, clauses: int, floor: np.ndarray | float = FLOOR) -> int | None:
    """Return the first look ``after`` this one that decides, if means and variances stay; None if none does."""
    for look in range(after + 1, LOOKS):
        low, high = interval_at(look, means, variances, runs, demanded, clauses, floor)
        if low >= bound or high < bound:
            return look
    return None
