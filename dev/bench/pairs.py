"""Paired runs: A B, B A, A B ..., so that a drift of the machine's speed changes both alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from parity.judge.stats import interval

T = TypeVar('T')


@dataclass(frozen=True)
class Ratio:
    """The mean over the pairs of a / b with its 95 % interval, and its lower target."""

    what: str
    pairs: tuple[tuple[float, float], ...]
    unit: str
    at_least: float

    @property
    def value(self) -> float:
        value = self._interval().ratio
        assert value is not None, f'{self.what}: no ratio of {self.pairs}'
        return value

    @property
    def good(self) -> bool:
        return self.value >= self.at_least

    @property
    def word(self) -> str:
        """Return `ok`, `BELOW`, or `unclear` of a lower ratio whose interval reaches the target."""
        if self.good:
            return 'ok'
        high = self._interval().high
        return 'unclear' if high is not None and high >= self.at_least else 'BELOW'

    def __str__(self) -> str:
        of_a = median(a for a, _ in self.pairs)
        of_b = median(b for _, b in self.pairs)
        target = f'at least {self.at_least:.2f}   {self.word:7}'
        count = '1 pair' if len(self.pairs) == 1 else f'{len(self.pairs)} pairs'
        return (f'{self.what:60} {self.value:5.3f}{self._range():17}   {target}   '
                f'{of_a:.4g} / {of_b:.4g} {self.unit}, {count}')

    def _range(self) -> str:
        ratio = self._interval()
        return '' if ratio.low is None else f' ({ratio.low:.3f} to {ratio.high:.3f})'

    def _interval(self) -> interval.Ratio:
        """Return the ratio as `parity compare` computes it, where each pair is a session."""
        ours = interval.sample((str(number), a) for number, (a, _) in enumerate(self.pairs))
        theirs = interval.sample((str(number), b) for number, (_, b) in enumerate(self.pairs))
        return interval.ratio(baseline=theirs, candidate=ours)


def among(what: str, ours: str, ways: dict[str, Callable[[], float]], unit: str, at_least: float,
          n: int) -> Ratio:
    """Compare our way with the way of the highest median: every way once, in turn, ``n`` times.

    The best of single runs would be the luckiest, not the best.
    """
    rounds = [{name: way() for name, way in ways.items()} for _ in range(n)]
    best = max(ways, key=lambda name: median(r[name] for r in rounds))
    return Ratio(f'{what}: {best}', tuple((r[ours], r[best]) for r in rounds), unit, at_least)


def run(what: str, a: Callable[[], float], b: Callable[[], float], unit: str, at_least: float, n: int) -> Ratio:
    """Measure ``n`` pairs of a() and b()."""
    return Ratio(what, tuple(in_turn(a, b, n)), unit, at_least)


def in_turn(a: Callable[[], T], b: Callable[[], T], n: int) -> list[tuple[T, T]]:
    """Return ``n`` pairs of a() and b(). In every second pair b() runs first."""
    measured = []
    for number in range(n):
        if number % 2:
            of_b = b()
            of_a = a()
        else:
            of_a = a()
            of_b = b()
        measured.append((of_a, of_b))
    return measured
