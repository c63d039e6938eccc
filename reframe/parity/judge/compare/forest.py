"""A forest plot: ratios with their intervals and the bounds that are expected, on one axis.

The axis is the candidate's speed: a ratio of times is turned over, so that left is slower in every row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from parity.judge.compare.model import Row
from parity.judge.compare.pairs import PairState

#: The left ends of an axis; its right end is as far from 1.
_ENDS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-6, 1e-9)
#: The share of the rows that an axis holds whole.
_MOST = 0.8
#: How much longer an axis may be to hold the other rows, and the bounds, too: in characters, and on a page.
TERMINAL, PAGE = 5, 12


@dataclass(frozen=True)
class Bar:
    """A row of the plot. ``at_least`` and ``at_most`` are the bounds that are expected of the speed."""

    speed: float
    low: float | None = None
    high: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def far(self) -> float:
        """Return how far the figure and its interval are from 1, as a logarithm."""
        return max(_far(self.speed, self.low, self.high))

    @property
    def bounds(self) -> list[float]:
        return [bound for bound in (self.at_least, self.at_most) if bound is not None]


def _far(*values: float | None) -> list[float]:
    return [abs(math.log(value)) for value in values if value is not None]


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis from ``end`` (0: left) over 1 in the middle to 1 / ``end`` (1: right)."""

    end: float

    def place(self, speed: float) -> float:
        """Return the place of a speed, also beyond the ends."""
        return 0.5 - math.log(speed) / math.log(self.end) / 2

    @property
    def labels(self) -> tuple[str, str, str]:
        return f'{self.end:.3g}', '1', f'{1 / self.end:.3g}'


def bar(figure: Row | PairState, expected: PairState | None = None) -> Bar | None:
    """Return the bar of a ratio, with the bounds that are ``expected``; None where there is no ratio."""
    ratio, low, high = figure.ratio, figure.low, figure.high
    if not ratio or ratio < 0 or not math.isfinite(ratio):
        return None
    if not low or not high or not math.isfinite(high):
        low = high = None
    at_least, at_most = None, None
    if expected:
        at_least, at_most = expected.at_least, expected.at_most
    if figure.better != 'lower':
        return Bar(ratio, low, high, at_least, at_most)
    inverse_low, inverse_high = _inverse(high), _inverse(low)
    return Bar(1 / ratio, inverse_low, inverse_high, _inverse(at_most), _inverse(at_least))


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value


def scale(bars: Sequence[Bar], longer: float) -> Scale:
    """Return the axis of some bars. A few that are far off go beyond it, and do not flatten the others.

    ``longer``: TERMINAL or PAGE."""
    distances = sorted(one.far for one in bars) or [0.0]
    held_whole = math.ceil(_MOST * len(distances))
    longest = longer * distances[held_whole - 1]
    for one in bars:
        distances += _far(*one.bounds)
    held = max(distance for distance in distances if distance <= longest)
    for end in _ENDS:
        if -math.log(end) >= held:
            return Scale(end)
    return Scale(_ENDS[-1])
