"""Ratios of two partitions as dot and interval, around 1."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from parity import figures

WIDTH, HEIGHT = 260, 18
#: How the axis is stretched: near 1 a step is a share, far from it a multiple (asinh of 20 times the logarithm).
_STRETCH = 20.0
_MARKS = (0.01, 0.1, 0.5, 0.8, 0.95, 1.0, 1.05, 1.25, 2.0, 10.0, 100.0)


@dataclass(frozen=True)
class Ratio:
    """One metric of a pair: candidate / baseline with its interval, and what was expected of it."""

    name: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    expected: str = ''
    verdict: str = ''
    subsystem: str = ''
    better: str = ''
    reason: str = ''                 # why there is no ratio


@dataclass(frozen=True)
class Pair:
    """Two sides that are compared; ``notes`` are part of the answer."""

    title: str
    rows: list[Ratio]
    notes: list[str] = field(default_factory=list)


@dataclass
class Dot:
    """A ratio and its place on the axis; None: there is none to draw."""

    ratio: Ratio
    at: float | None
    low: float | None
    high: float | None
    text: str
    interval: str


@dataclass
class Chart:
    pair: Pair
    dots: list[Dot]
    one: float                       # where 1.0 is
    ticks: list[tuple[float, str]]


def chart(pair: Pair) -> Chart:
    """The axis reaches as far as the pair's ratios do, alike on both sides of 1."""
    known = [v for r in pair.rows for v in (r.ratio, r.low, r.high) if v is not None and 0 < v < math.inf]
    far = max([abs(_stretched(v)) for v in known] + [_stretched(1.25)])

    def place(value: float | None) -> float | None:
        if value is None or not 0 < value < math.inf:
            return None
        return round(WIDTH / 2 + (WIDTH / 2 - 8) * _stretched(value) / far, 1)

    dots = [Dot(r, place(r.ratio), place(r.low), place(r.high), figures.number(r.ratio, pad=True), _interval(r))
            for r in pair.rows]
    ticks = [(place(m), f'{m:g}') for m in _MARKS if abs(_stretched(m)) <= far]
    return Chart(pair, dots, WIDTH / 2, _apart(ticks))


def of_comparison(comparison) -> Pair:
    """A parity.compare.model.Comparison as a pair of the page."""
    rows = [Ratio(name=f'{r.benchmark}: {r.metric}', ratio=r.ratio, low=r.low, high=r.high, expected=r.expected,
                  verdict=r.verdict, subsystem=r.subsystem, better=r.better, reason=r.reason)
            for r in comparison.rows]
    return Pair(f'{comparison.candidate.name} / {comparison.baseline.name}', rows, list(comparison.notes))


def _stretched(ratio: float) -> float:
    return math.asinh(_STRETCH * math.log(ratio))


def _interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return ''
    return f'{figures.number(ratio.low, pad=True)} .. {figures.number(ratio.high, pad=True)}'


def _apart(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those whose labels do not touch, 1 and what is far from it first."""
    kept: list[tuple[float, str]] = []
    for at, label in sorted(ticks, key=lambda t: (t[1] != '1', -abs(t[0] - WIDTH / 2))):
        if all(abs(at - other) > 30 for other, _ in kept):
            kept.append((at, label))
    return sorted(kept)
