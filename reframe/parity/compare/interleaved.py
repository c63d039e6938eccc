"""Runs of two sides that took turns are compared in pairs: what the machine does slowly cancels out."""

from __future__ import annotations

from parity.compare.sides import Value
from parity.stats.interval import FEWEST

#: So much of all runs may stand beside none of the other side (a run that failed), not more.
_ALONE = 0.2


def pairs(baseline: list[Value], candidate: list[Value]) -> list[tuple[Value, Value]]:
    """Runs of both sides that are neighbours in time, each in one pair; [] where they did not take turns."""
    both = [(v, 0) for v in baseline] + [(v, 1) for v in candidate]
    if any(v.when is None for v, _ in both):
        return []
    both.sort(key=lambda run: run[0].when)
    found, i = [], 0
    while i + 1 < len(both):
        (one, side), (other, other_side) = both[i], both[i + 1]
        if side != other_side:
            found.append((one, other) if side == 0 else (other, one))
            i += 1
        i += 1
    alone = len(both) - 2 * len(found)
    return found if len(found) >= FEWEST and alone <= _ALONE * len(both) else []
