"""The looks at the nodes of a clause: the limits that their runs give, and whether they decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity.judge.contract.model import NodeFigure, Word
from parity.judge.stats import promise
from parity.judge.stats.interval import FLOOR
from parity.judge.stats.promise import Rule
from parity.site.contract import Clause


def sign(clause: Clause) -> int:
    """Return what turns figures round where lower is better: places, of which a higher one is better."""
    return 1 if clause.better == 'higher' else -1


@dataclass(frozen=True)
class NodeLook:
    """A node at the look that decides it, else at its last one. ``value``, ``low`` and ``high`` are places.

    ``runs`` is 0 and its limits are endless before its first look. ``kept``: the share of the runs that keep the
    promise. ``target``: the runs that its next look needs; 0 where none is to come."""

    runs: int = 0
    value: float | None = None
    low: float = -math.inf
    high: float = math.inf
    kept: float = 0.0
    is_good: bool = False
    is_bad: bool = False
    is_named: bool = False
    target: int = 0

    @property
    def is_open(self) -> bool:
        return not (self.is_good or self.is_bad)


def at_node(values: Sequence[float], clause: Clause, rule: Rule) -> NodeLook:
    """Return the look at a node that decides it: later runs change no word. Else return its last one."""
    last = NodeLook(target=rule.runs[0])
    for number, count in enumerate(rule.runs):
        if len(values) < count:
            break
        last = _look(np.array(values[:count]), clause, rule, number)
        if not last.is_open:
            break
    return last


def _look(values: np.ndarray, clause: Clause, rule: Rule, number: int) -> NodeLook:
    """Return the look at a node by its ``values``, which are the runs of the look of this number."""
    places = sign(clause) * values
    bound = sign(clause) * clause.bound
    low, high = promise.limits(places, rule.good[number], rule.bad[number])
    _, high_at_once = promise.limits(places, -1, rule.named[number])
    middle = np.median(places)
    kept = (places >= bound).mean()
    look = NodeLook(
        runs=len(places),
        value=float(middle),
        low=float(low),
        high=float(high),
        kept=float(kept),
        is_good=bool(low >= bound),
        is_bad=bool(high < bound),
        is_named=bool(high_at_once < bound))
    following = rule.runs[number + 1:]
    if look.is_open and following:
        look = replace(look, target=following[0])
    return look


@dataclass(frozen=True)
class Look:
    """A clause by the looks at its nodes. ``value``, ``low`` and ``high`` are places, of the node that decides."""

    nodes: tuple[NodeLook, ...]
    bound: float
    value: float
    low: float
    high: float

    @property
    def word(self) -> Word:
        if self.low >= self.bound:
            return 'met'
        return 'not met' if self.high < self.bound else 'open'

    @property
    def is_complete(self) -> bool:
        """Return whether each node had its first look."""
        return all(node.runs for node in self.nodes)


def of_clause(nodes: Sequence[NodeFigure], clause: Clause, rule: Rule) -> Look | None:
    """Return a clause by the looks at its nodes; None while no node had its first one."""
    looks = [at_node(node.values, clause, rule) for node in nodes]
    values = sorted(look.value for look in looks if look.value is not None)
    if not values:
        return None
    demand = rule.demand
    lows = np.array([look.low for look in looks])
    highs = np.array([look.high for look in looks])
    low, high = promise.interval(lows, highs, demand)
    deciding = min(demand.nodes - demand.good, len(values) - 1)
    bound = sign(clause) * clause.bound
    return Look(tuple(looks), bound, values[deciding], float(low), float(high))


def further(look: Look, rule: Rule) -> int | None:
    """Return how many more runs of each open node decide an open clause; None where no look does.

    The share of a node's runs that keep the promise is taken to stay. A node at the bound stays open."""
    waiting = [node for node in look.nodes if node.is_open]
    fewest = min(node.runs for node in waiting)
    decidable = [node for node in waiting if abs(node.value - look.bound) > FLOOR * abs(node.value)]
    good_now = sum(node.is_good for node in look.nodes)
    bad_now = sum(node.is_bad for node in look.nodes)
    needed_good = rule.demand.good + rule.demand.spare
    needed_bad = rule.demand.bad + rule.demand.spare
    for number, count in enumerate(rule.runs):
        if count <= fewest:
            continue
        good, bad = good_now, bad_now
        for node in decidable:
            kept = round(node.kept * count)
            broken = count - kept
            good += broken <= rule.good[number]
            bad += kept <= rule.bad[number]
        if good >= needed_good or bad >= needed_bad:
            return count - fewest
    return None
