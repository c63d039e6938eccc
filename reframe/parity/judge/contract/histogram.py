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
    least, most = min(*values, clause.bound), max(*values, clause.bound)
    room = (most - least) * .04 or abs(most) * .02 or 1.0
    axis = _Axis(least - room, most + room)
    bins = _filled(values, axis, clause.bound)
    tallest = max(bin.count for bin in bins)
    bars = []
    for bin in bins:
        height = _TALLEST * bin.count / tallest
        is_below = bin.end <= clause.bound
        bars.append(Bar(
            x=axis.place(bin.start),
            y=round(HEIGHT - BOTTOM - height, 1),
            width=round(axis.place(bin.end) - axis.place(bin.start) - 1, 1),
            height=round(height, 1),
            bad=is_below == (clause.better == 'higher')))
    ticks = [(axis.place(value), figure(value, clause.unit)) for value in (least, most)]
    return Histogram(bars, axis.place(clause.bound), ticks, tallest, _text(clause, values))


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
    below = int((bound - axis.low) / width) + 1
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
    least = figure(min(values), clause.unit)
    most = figure(max(values), clause.unit)
    bound = figure(clause.bound, clause.unit)
    if clause.better == 'higher':
        kept = sum(value >= clause.bound for value in values)
    else:
        kept = sum(value <= clause.bound for value in values)
    return f'{counted(len(values), "node")} from {least} to {most}; {kept} on the right side of {bound}'
