"""The bars of a forest plot in characters: a terminal shows them, and `parity.base.console.plain` writes them in
ASCII."""

from __future__ import annotations

from parity.judge.compare.forest import Bar, Scale

#: The figure with an interval and without one, the interval, 1, an expected bound, what lies beyond the axis.
FIGURE, ALONE, INTERVAL, ONE, BOUND, LEFT, RIGHT = '●○─│╎◂▸'


def head(scale: Scale, width: int) -> str:
    """Return the labels of the axis over bars that are so wide."""
    left, middle, right = scale.labels
    half = width // 2
    label = left.ljust(half) + middle
    rest = width - len(label)
    return label + right.rjust(rest)


def drawn(bar: Bar, scale: Scale, width: int) -> str:
    """Return a bar in ``width`` characters, an odd number: 1 is in the middle."""
    signs = [' '] * width
    signs[width // 2] = ONE
    if bar.low is not None and bar.high is not None:
        first = max(_column(bar.low, scale, width), 0)
        last = min(_column(bar.high, scale, width), width - 1)
        for column in range(first, last + 1):
            signs[column] = INTERVAL
    for bound in bar.bounds:
        column = _column(bound, scale, width)
        if 0 <= column < width:
            signs[column] = BOUND
    column = _column(bar.speed, scale, width)
    if 0 <= column < width:
        signs[column] = ALONE if bar.low is None else FIGURE
    drawn_values = [value for value in (bar.speed, bar.low, bar.high) if value is not None]
    lowest, highest = min(drawn_values), max(drawn_values)
    if _column(lowest, scale, width) < 0:
        signs[0] = LEFT
    if _column(highest, scale, width) >= width:
        signs[-1] = RIGHT
    return ''.join(signs).rstrip()


def _column(speed: float, scale: Scale, width: int) -> int:
    return round(scale.place(speed) * (width - 1))
