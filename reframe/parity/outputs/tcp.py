"""programs/tcp.py: runs of iperf3 and round-trip times between two ends."""

from __future__ import annotations

from dataclasses import dataclass

from . import Incomplete, Wrong, iperf3
from .reader import Lines, blocks, number, sealed

_HEAD, _SEAL = r'parity-tcp 1 \S+ seconds (\d+) runs (\S+)', 'parity-tcp-crc32 ([0-9a-f]{8})'
_RUN, _END = r'parity-tcp-run (\S+)', r'parity-tcp-end (\S+) exit (?P<exit>-?\d+)'
_TRIPS = r'samples (\d+) min (\S+) median (\S+) p99 (\S+) max (\S+) us'


@dataclass(frozen=True)
class Ends:
    """What was measured between two ends: iperf3's figures by run (tcp:4, udp:1), round trips in us."""

    metrics: dict[str, dict[str, float]]
    facts: dict[str, dict[str, float | str]]
    trips: dict[str, dict[str, float]]      # idle and loaded: samples, min, median, p99, max

    @property
    def threading(self) -> str:
        """Of iperf3: all runs are of one version."""
        return next(iter(self.facts.values()))['threading']


def read(text: str, runs: list[str]) -> Ends:
    """What tcp.py printed, which was asked for ``runs``; raises as iperf3's parser does, too."""
    _, head, out = sealed(text, _HEAD, _SEAL)
    if head[2] != ','.join(runs):
        raise Wrong(f'ran {head[2].replace(",", ", ")}, asked for {", ".join(runs)}')
    found = Ends({}, {}, {})
    for begin, own in blocks(out, _RUN, _END):
        if begin[1] in ('idle', 'loaded'):
            words = Lines(own).one(_TRIPS, 'samples of round trips').groups()
            found.trips[begin[1]] = {name: float(number(word, f'{name} of the round trips')) for name, word in zip(
                ('samples', 'min', 'median', 'p99', 'max'), words, strict=True)}
            continue
        metrics, facts = iperf3.read(own)
        ran = f'{facts["protocol"]}:{facts["streams"]}'
        if ran != begin[1].removeprefix('load-') or facts['seconds'] != int(head[1]):
            raise Wrong(f'ran {ran} for {facts["seconds"]:g} s, asked for {begin[1]} for {head[1]} s')
        found.metrics[begin[1]], found.facts[begin[1]] = metrics, facts
    failed = out.count(r'parity-tcp-last failed (\d+)', zero=True)
    if [name for name in found.metrics if name in runs] != runs or failed:
        raise Incomplete(f'{failed} runs failed; asked for {", ".join(runs)}, found {", ".join(found.metrics)}')
    return found
