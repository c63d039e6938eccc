"""A few characters that show numbers: a value beside its band, and nights beside each other."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = '▁▂▃▄▅▆▇█'
_WIDTH = 40
#: Nights that differ by less than this share of their height are drawn level: noise is no landscape.
_LEVEL = 0.05


def bar(value: float, low: float | None, high: float | None, reference: float | None) -> str:
    """The band as ├──┼──┤ (open where a bound is missing), the value as ●, to one scale."""
    known = [x for x in (low, reference, high) if x is not None]
    if not known:
        return ''
    first, last = min(*known, value), max(*known, value)
    if first == last:
        return ''

    def place(x: float) -> int:
        return round((x - first) / (last - first) * (_WIDTH - 1))

    begin, end = place(first if low is None else low), place(last if high is None else high)
    line = [('─' if begin <= i <= end else ' ') for i in range(_WIDTH)]
    for x, mark in ((low, '├'), (high, '┤'), (reference, '┼'), (value, '●')):
        if x is not None:
            line[place(x)] = mark
    return ''.join(line).rstrip()


def sparkline(values: Sequence[float], *also: float | None) -> str:
    """One block a value, oldest first; ``also``: bounds that the scale takes in, too."""
    if not values:
        return ''
    known = [*values, *(x for x in also if x is not None)]
    first, last = min(known), max(known)
    room = _LEVEL * max(abs(first), abs(last))
    if last - first < room:
        first, last = first - room / 2, last + room / 2
    if first == last:
        return BLOCKS[3] * len(values)
    return ''.join(BLOCKS[round((v - first) / (last - first) * (len(BLOCKS) - 1))] for v in values)
