"""Which figures of a cell are slow: outside its band, or clear of what its good nights spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

#: Fewer good figures than these tell no spread.
ENOUGH = 6
#: A drop is clear of the noise beyond so many standard deviations, and beyond this share of the median
#: (on the series of the study of 2012 this found 84 % of 5 % slowdowns in a night, once confirmed by a rerun).
_SIGMAS, _SHARE = 4.0, 0.03
#: No series is quieter than this share of its median: timers, and files of one second, show no spread at all.
_FLOOR = 0.005


@dataclass(frozen=True)
class Level:
    """The edges beyond which a figure is slow; None: not known."""

    low: float | None
    high: float | None
    better: str

    def slow(self, value: float) -> bool | None:
        """Whether ``value`` is beyond the edge on the bad side; None where there is no such edge."""
        edge = self.low if self.better == 'higher' else self.high
        if edge is None:
            return None
        return value < edge if self.better == 'higher' else value > edge


def level(rows: Iterable[Mapping[str, Any]], good: float) -> Level | None:
    """The level of one cell; ``rows``: its figures, oldest first, with start, value, better, low and high.

    The newest accepted band decides; without one, median and spread of the nights up to ``good`` (Unix
    time). None where neither is known. Spread is max(1.4826 MAD, 0.7413 IQR, 0.5 %), as robust estimates
    of a normal's standard deviation (Rousseeuw and Croux, 1993).
    """
    rows = list(rows)
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return Level(bands[-1]['low'], bands[-1]['high'], bands[-1]['better'])
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first), _FLOOR * abs(middle))
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    return Level(middle - room, middle + room, rows[0]['better'])
