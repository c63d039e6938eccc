"""The test of a promise that holds for a share of the nodes.

A node keeps a promise if at least half of its runs do: the median of its runs lies on the right side of the bound.
Of a node exactly at the bound, each run is a throw of a coin. So the sign test (Arbuthnott, 1710) has exact
binomial limits for noise of any kind. No such test of the mean exists (Bahadur and Savage, 1956, Annals of
Mathematical Statistics 27): a few slow outliers move a mean as far as one likes.

The level of one node decides a clause: of each node the worst one, of the median the middle one. Its interval is
made of order statistics of the nodes' limits, which are order statistics of their runs.

A clause is called met by mistake if too many of ``bad`` nodes at the bound are called good. Their number is
binomial, and Clopper and Pearson's limit (1934) is the level of one node. For each node, one wrong word is enough,
and nothing is corrected: the intersection-union test of acceptance sampling (Berger, 1982, Technometrics 24). A
clause is called not met by mistake in the same way, with the sides exchanged.

The clauses of a contract share the level (Bonferroni). A node that is not decided is looked at again with twice
the runs, and a decided one needs no more. The first look may spend four fifths of the node's level, each later one
four fifths of the rest, and what earlier ones left over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from parity.judge.stats.interval import FLOOR

#: Wrong words for either party, over all clauses, nodes and looks of a contract.
LEVEL = 0.05
#: The share of what is left of a node's level that a look spends.
SPENT = 0.8
#: Looks at most: at the last one a node has 512 times the runs of the first.
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


@dataclass(frozen=True)
class Rule:
    """The looks at each node of a clause: so many ``runs`` in each.

    A node is good if at most ``good`` runs break the promise, bad if at most ``bad`` keep it. It can be named as
    bad, for all nodes at once, if at most ``named`` keep it. With -1, so few runs decide nothing."""

    demand: Demand
    runs: tuple[int, ...]
    good: tuple[int, ...]
    bad: tuple[int, ...]
    named: tuple[int, ...]


def demand(nodes: int, share: float) -> Demand:
    """Return how many nodes must keep a promise that this share must keep."""
    asked = share * nodes - 1e-9            # rounding apart
    good = max(1, math.ceil(asked))
    bad = nodes - good + 1
    spare = min(good, bad) // _SPARED
    return Demand(nodes, good, spare)


@lru_cache(1000)
def rule(nodes: int, share: float, runs: int, clauses: int) -> Rule:
    """Return the rule of a clause of so many ``clauses``. ``runs``: of the first look, or more where those decide
    nothing."""
    demanded = demand(nodes, share)
    level = LEVEL / clauses
    lower, upper = node_levels(demanded, level)
    at_once = 1 - (1 - level) ** (1 / nodes)
    first = max(runs, fewest(lower))
    counts = tuple(first * 2 ** look for look in range(LOOKS))
    return Rule(
        demand=demanded,
        runs=counts,
        good=_allowed(counts, lower),
        bad=_allowed(counts, upper),
        named=_allowed(counts, at_once))


def node_levels(demanded: Demand, level: float) -> tuple[float, float]:
    """Return how often one node at the bound may be called good, and bad, in all looks.

    Of ``bad`` nodes at the bound more than ``spare`` are called good with the probability ``level``, of ``good``
    ones bad."""
    needed = demanded.spare + 1
    other_bad = demanded.bad - demanded.spare
    other_good = demanded.good - demanded.spare
    lower = scipy.special.betaincinv(needed, other_bad, level)
    upper = scipy.special.betaincinv(needed, other_good, level)
    return float(lower), float(upper)


def fewest(level: float) -> int:
    """Return the runs of the first look at which a node can be decided: all lie on one side of the bound."""
    return math.ceil(-math.log2(SPENT * level))


def _allowed(counts: tuple[int, ...], level: float) -> tuple[int, ...]:
    """Return for each look how many runs may lie on the wrong side.

    At the bound, the node is decided in any look with the probability ``level`` at most."""
    allowed = []
    budget = 0.0
    for look, runs in enumerate(counts):
        budget += level * SPENT * (1 - SPENT) ** look
        most = _most(runs, budget)
        allowed.append(most)
        if most >= 0:
            budget -= scipy.special.bdtr(most, runs, 0.5)
    return tuple(allowed)


def _most(runs: int, probability: float) -> int:
    """Return the largest number of heads that so many throws do not exceed with this probability; -1 for none."""
    if 0.5 ** runs > probability:
        return -1
    most = math.floor(scipy.special.bdtrik(probability, runs, 0.5))
    # the inverse is a rounded number: the probability itself decides
    while scipy.special.bdtr(most + 1, runs, 0.5) <= probability:
        most += 1
    while scipy.special.bdtr(most, runs, 0.5) > probability:
        most -= 1
    return most


def limits(runs: np.ndarray, good: int, bad: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper limit of nodes, endless where so few runs decide nothing.

    ``runs`` [..., runs], where higher is better. No limit is nearer to the median than a benchmark repeats."""
    ordered = np.sort(runs, -1)
    middle = np.median(ordered, -1)
    floor = FLOOR * np.abs(middle)
    if good >= 0:
        lower_run = ordered[..., good]
        low = np.minimum(lower_run, middle - floor)
    else:
        low = np.full(middle.shape, -math.inf)
    if bad >= 0:
        upper_run = ordered[..., -1 - bad]
        high = np.maximum(upper_run, middle + floor)
    else:
        high = np.full(middle.shape, math.inf)
    return low, high


def interval(lows: np.ndarray, highs: np.ndarray, demanded: Demand) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of a promise from the limits of the nodes, [..., nodes], where higher is better."""
    ordered_lows = np.sort(lows, -1)
    ordered_highs = np.sort(highs, -1)
    others = demanded.nodes - demanded.good
    low = ordered_lows[..., others - demanded.spare]
    high = ordered_highs[..., others + demanded.spare]
    return low, high
