"""programs/pairs.py: a program of two ranks, such as an OSU benchmark, between every two nodes of a job."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import median

from . import Incomplete, Wrong, osu
from .reader import Lines, blocks

_PAIR = r'parity-pair (\S+) (\S+)'
_END = r'parity-pair-end (\S+) (\S+) exit (?P<exit>-?\d+) seconds \d+\.\d{3}'


@dataclass(frozen=True)
class Sweep:
    """The figure of each pair of nodes at one message size: a time (us), or a bandwidth (MB/s)."""

    figures: dict[tuple[str, str], float]
    is_time: bool

    def slowest(self) -> tuple[float, tuple[str, str]]:
        """The longest latency or the lowest bandwidth, and its pair of nodes."""
        return (max if self.is_time else min)((figure, pair) for pair, figure in self.figures.items())

    def metrics(self) -> dict[str, float]:
        """median, worst and worst_over_median: 1 is even, and more is worse for times and bandwidths."""
        middle, (worst, _) = median(self.figures.values()), self.slowest()
        return {'median': middle, 'worst': worst,
                'worst_over_median': worst / middle if self.is_time else middle / worst}


def read(text: str, size: int) -> Sweep:
    """OSU between all pairs at messages of ``size`` bytes, the last of every table."""
    own = {pair: osu.read(each, size) for pair, each in outputs(text).items()}
    benchmarks = {facts['benchmark'] for _, facts in own.values()}
    if len(benchmarks) != 1:
        raise Wrong('the pairs ran different benchmarks')
    benchmark, = benchmarks
    return Sweep({pair: figures[f'{benchmark}_{size}'] for pair, (figures, _) in own.items()},
                 benchmark == 'latency')


def outputs(text: str) -> dict[tuple[str, str], str]:
    """What the program printed for each pair of nodes. Raises Incomplete where a pair or the end is absent, or a
    pair failed; Wrong where one came twice."""
    out = Lines([line.rstrip('\r') for line in text.split('\n')])     # a checksum may be of any blank
    nodes = out.count(r'parity-pairs 1 nodes (\d+) in-flight \d+')
    failed = out.count(r'parity-pairs-end failed (\d+)', zero=True)
    found: dict[tuple[str, str], str] = {}
    for begin, own in blocks(out, _PAIR, _END):
        first, second = begin.groups()
        if (first, second) in found or (second, first) in found:
            raise Wrong(f'pair {first} {second}: twice')
        found[first, second] = own
    if failed:
        raise Incomplete(f'line {out.end}: {failed} pairs failed')
    names = {name for pair in found for name in pair}
    if len(names) != nodes or len(found) != len(list(combinations(names, 2))):
        raise Incomplete(f'line {out.end}: {len(found)} pairs of {len(names)} nodes, there are {nodes} nodes')
    return found
