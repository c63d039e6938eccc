"""The bars of a forest plot in characters: a terminal shows them, and `parity.base.console.plain` writes them in
ASCII."""

from __future__ import annotations

from parity.judge.compare.forest import Bar, Scale

#: The figure with an interval and without one, the interval, 1, an expected bound, what lies beyond the axis.
FIGURE, ALONE, INTERVAL, ONE, BOUND, LEFT, RIGHT = '●○─│╎◂▸'


def head(scale: Scale, width: int) -> str:
    """Return the labels of the axis over bars that are so wide."""
    left, middle, right = scale.labels
    label = left.ljust(width // 2) + middle
    return label + right.rjust(width - len(label))


def drawn(bar: Bar, scale: Scale, width: int) -> str:
    """Return a bar in ``width`` characters, an odd number: 1 is in the middle."""
    signs = [' '] * width
    signs[width // 2] = ONE
    if bar.low is not None and bar.high is not None:
        first, last = _column(bar.low, scale, width), _column(bar.high, scale, width)
        for column in range(max(first, 0), min(last, width - 1) + 1):
            signs[column] = INTERVAL
    for bound in bar.bounds:
        if 0 <= _column(bound, scale, width) < width:
            signs[_column(bound, scale, width)] = BOUND
    column = _column(bar.speed, scale, width)
    if 0 <= column < width:
        signs[column] = ALONE if bar.low is None else FIGURE
    furthest = [value for value in (bar.speed, bar.low, bar.high) if value is not None]
    if _column(min(furthest), scale, width) < 0:
        signs[0] = LEFT
    if _column(max(furthest), scale, width) >= width:
        signs[-1] = RIGHT
    return ''.join(signs).rstrip()


def _column(speed: float, scale: Scale, width: int) -> int:
    return round(scale.place(speed) * (width - 1))
