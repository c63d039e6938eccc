"""Ratios of two partitions as dot and interval, around 1."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from parity.base import figures
from parity.compare.model import Comparison, Outcome

WIDTH, HEIGHT = 260, 18
#: How the axis is stretched: near 1 a step is a share, far from it a multiple (asinh of 20 times the logarithm).
_STRETCH = 20.0
_MARKS = (0.01, 0.1, 0.5, 0.8, 0.95, 1.0, 1.05, 1.25, 2.0, 10.0, 100.0)


@dataclass(frozen=True)
class Ratio:
    """One metric of a pair: candidate / baseline with its interval, and what was expected of it. ``word`` is how
    that stands (ok, regressed, insufficient); where nothing was, what the comparison says."""

    name: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    expected: str = ''
    word: str = ''
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


def of_comparison(compared: Comparison) -> Pair:
    """All metrics of a pair, those first of which something is expected; why others have no ratio is a note."""
    known = [r for r in compared.rows if r.ratio is not None or r.expected]
    rows = [Ratio(f'{r.benchmark}: {r.metric}', r.ratio, r.low, r.high, r.expected, r.state or r.verdict, r.better,
                  r.reason) for r in sorted(known, key=lambda r: not r.expected)]
    without = Counter(r.reason for r in compared.rows if r.ratio is None and not r.expected)
    notes = [f'{count} {"metric" if count == 1 else "metrics"}: {why}' for why, count in without.most_common()]
    return Pair(_title(compared.candidate.name, compared.baseline.name), rows, [*_means(compared), *notes])


def _means(compared: Comparison) -> list[str]:
    means = ' · '.join(f'{m.subsystem or "all"} {figures.number(m.speed, pad=True)}' for m in compared.means)
    return [f'geometric means, as speed of {compared.candidate.name}: {means}'] if means else []


def of_outcomes(outcomes: Iterable[Outcome]) -> list[Pair]:
    """What a verdict says of the declared pairs, where nothing else is known of them."""
    pairs: dict[str, list[Ratio]] = {}
    for o in outcomes:
        pairs.setdefault(_title(o.candidate, o.baseline), []).append(
            Ratio(f'{o.benchmark}: {o.metric}', o.ratio, o.low, o.high, o.expected, o.state, reason=o.why))
    return [Pair(title, rows) for title, rows in pairs.items()]


def _title(candidate: str, baseline: str) -> str:
    return f'{candidate} / {baseline}'


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
