"""A histogram of the nodes of a clause, with the promise drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from parity.base.figures import counted, figure
from parity.judge.contract.model import ClauseVerdict
from parity.site.contract import Clause

WIDTH, HEIGHT = 440, 130
#: Room on the left, at the right, above and below.
LEFT, RIGHT, TOP, BOTTOM = 34, 10, 16, 22
_BINS = 24
_TALLEST = HEIGHT - TOP - BOTTOM


class Bar(NamedTuple):
    """A bar of nodes; ``bad``: they are on the wrong side of the promise."""

    x: float
    y: float
    width: float
    height: float
    bad: bool


class Histogram(NamedTuple):
    """``bound``: where the promise stands. ``ticks``: places along the axis, with their labels."""

    bars: list[Bar]
    bound: float
    ticks: list[tuple[float, str]]
    most: int
    text: str


def draw(verdict: ClauseVerdict) -> Histogram | None:
    """Return the histogram of the nodes that have a figure; None where fewer than two have one."""
    clause = verdict.clause
    values = [node.value for node in verdict.nodes if node.value is not None]
    if len(values) < 2:
        return None
    least = min(*values, clause.bound)
    most = max(*values, clause.bound)
    margin = (most - least) * .04 or abs(most) * .02 or 1.0
    axis = _Axis(least - margin, most + margin)
    bins = _filled(values, axis, clause.bound)
    tallest = max(bin.count for bin in bins)
    bars = [_bar(bin, axis, tallest, clause) for bin in bins]
    bound = axis.place(clause.bound)
    ticks = []
    for value in (least, most):
        label = figure(value, clause.unit)
        ticks.append((axis.place(value), label))
    return Histogram(bars, bound, ticks, tallest, _text(clause, values))


def _bar(bin: _Bin, axis: _Axis, tallest: int, clause: Clause) -> Bar:
    start = axis.place(bin.start)
    end = axis.place(bin.end)
    height = _TALLEST * bin.count / tallest
    top = HEIGHT - BOTTOM - height
    is_below = bin.end <= clause.bound
    is_bad = is_below == (clause.better == 'higher')
    return Bar(x=start, y=round(top, 1), width=round(end - start - 1, 1), height=round(height, 1), bad=is_bad)


class _Axis(NamedTuple):
    low: float
    high: float

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)


class _Bin(NamedTuple):
    start: float
    end: float
    count: int


def _filled(values: Sequence[float], axis: _Axis, bound: float) -> list[_Bin]:
    """Return the bins that hold nodes. One edge is the promise: no bin has nodes of both sides."""
    width = (axis.high - axis.low) / _BINS
    bins_below = (bound - axis.low) / width
    below = int(bins_below) + 1
    edges = [bound + width * (place - below) for place in range(_BINS + 3)]
    edges[below] = bound
    bins = []
    for start, end in pairwise(edges):
        count = sum(start <= value < end for value in values)
        if count:
            bins.append(_Bin(start, end, count))
    return bins


def _text(clause: Clause, values: Sequence[float]) -> str:
    """Say in words what the picture shows."""
    if clause.better == 'higher':
        kept = sum(value >= clause.bound for value in values)
    else:
        kept = sum(value <= clause.bound for value in values)
    nodes = counted(len(values), 'node')
    least = figure(min(values), clause.unit)
    most = figure(max(values), clause.unit)
    bound = figure(clause.bound, clause.unit)
    return f'{nodes} from {least} to {most}; {kept} on the right side of {bound}'
