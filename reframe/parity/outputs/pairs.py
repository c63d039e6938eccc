"""programs/pairs.py: a program of two ranks, such as an OSU benchmark, between every two nodes of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from . import Incomplete, Wrong, osu

_HEAD = re.compile(r'parity-pairs 1 nodes (\d{1,6}) in-flight (\d{1,6})')
_PAIR = re.compile(r'parity-pair (\S+) (\S+)')
_END = re.compile(r'parity-pair-end (\S+) (\S+) exit (-?\d{1,4}) seconds (\d+\.\d{3})')
_LAST = re.compile(r'parity-pairs-end failed (\d{1,9})')


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
    """The pairs at messages of ``size`` bytes, the last of every table; raises as ``curves`` does."""
    found = curves(text, size)
    benchmark = next(facts['benchmark'] for _, facts in found.values())
    figures = {pair: curve[f'{benchmark}_{size}'] for pair, (curve, _) in found.items()}
    return Sweep(figures, benchmark == 'latency')


def curves(text: str, largest: int) -> dict[tuple[str, str], tuple[dict, dict]]:
    """(metrics, facts) of OSU for each pair of nodes.

    Raises as ``outputs`` does, and Wrong where one ran another benchmark than the others.
    """
    found = {pair: (osu.parse(own, largest), osu.facts(own, largest)) for pair, own in outputs(text).items()}
    if len({facts['benchmark'] for _, facts in found.values()}) != 1:
        raise Wrong('the pairs ran different benchmarks')
    return found


def outputs(text: str) -> dict[tuple[str, str], str]:
    """What the program printed for each pair of nodes.

    Raises Incomplete where a pair or the end is absent, or a pair failed; Wrong where one came twice.
    """
    lines = [line.rstrip('\r') for line in text.split('\n')]
    nodes, failed = _head(lines)
    found: dict[tuple[str, str], str] = {}
    for pair, own in _blocks(lines):
        if pair in found or pair[::-1] in found:
            raise Wrong(f'pair {" ".join(pair)}: twice')
        found[pair] = own
    if failed:
        raise Incomplete(f'line {len(lines)}: {failed} pairs failed')
    names = {name for pair in found for name in pair}
    if len(names) != nodes or len(found) != len(list(combinations(names, 2))):
        raise Incomplete(f'line {len(lines)}: {len(found)} pairs of {len(names)} nodes, there are {nodes} nodes')
    return found


def _head(lines: list[str]) -> tuple[int, int]:
    """How many nodes there were, and how many pairs failed."""
    heads = [match for match in map(_HEAD.fullmatch, lines) if match]
    ends = [match for match in map(_LAST.fullmatch, lines) if match]
    if not heads or not ends:
        raise Incomplete(f'line {len(lines)}: no "parity-pairs{"" if not heads else "-end"}"')
    if len(heads) > 1 or len(ends) > 1:
        raise Wrong(f'{max(len(heads), len(ends))} runs in one output')
    return int(heads[0][1]), int(ends[0][1])


def _blocks(lines: list[str]):
    """(pair, what the program printed) for each; a block that another interrupts is refused."""
    pair, own = None, []
    for at, line in enumerate(lines, 1):
        if begin := _PAIR.fullmatch(line):
            if pair:
                raise Incomplete(f'line {at}: pair {" ".join(pair)} has no end')
            pair, own = begin.groups(), []
        elif end := _END.fullmatch(line):
            if end.groups()[:2] != pair:
                raise Wrong(f'line {at}: the end of a pair that has not begun')
            if end[3] != '0':
                raise Incomplete(f'line {at}: pair {" ".join(pair)}: exit code {end[3]}: {_last(own)}')
            yield pair, '\n'.join(own)
            pair = None
        elif pair:
            own.append(line)
    if pair:
        raise Incomplete(f'line {len(lines)}: pair {" ".join(pair)} has no end')


def _last(own: list[str]) -> str:
    return next((line.strip()[:120] for line in reversed(own) if line.strip()), 'it printed nothing')

