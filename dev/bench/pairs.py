"""Paired runs: A B A B ..., so that a drift of the machine's speed changes both alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Ratio:
    """The median over the pairs of a / b, and its lower target."""

    what: str
    pairs: tuple[tuple[float, float], ...]
    unit: str
    at_least: float

    @property
    def value(self) -> float:
        return median(a / b for a, b in self.pairs)

    @property
    def good(self) -> bool:
        return self.value >= self.at_least

    def __str__(self) -> str:
        a, b = (median(side) for side in zip(*self.pairs, strict=True))
        word = 'ok' if self.good else 'BELOW'
        return (f'{self.what:60} {self.value:5.2f}   at least {self.at_least:.2f}   {word:5}   '
                f'{a:.4g} / {b:.4g} {self.unit}, {len(self.pairs)} pairs')


def among(what: str, ours: str, ways: dict[str, Callable[[], float]], unit: str, at_least: float,
          n: int) -> Ratio:
    """Compare our way with the way of the highest median: every way once, in turn, ``n`` times.

    The best of single runs would be the luckiest, not the best.
    """
    rounds = [{name: way() for name, way in ways.items()} for _ in range(n)]
    best = max(ways, key=lambda name: median(r[name] for r in rounds))
    return Ratio(f'{what}: {best}', tuple((r[ours], r[best]) for r in rounds), unit, at_least)


def run(what: str, a: Callable[[], float], b: Callable[[], float], unit: str, at_least: float, n: int) -> Ratio:
    """Measure ``n`` pairs of a() and b(), in turn."""
    return Ratio(what, tuple((a(), b()) for _ in range(n)), unit, at_least)
