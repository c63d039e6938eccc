"""programs/tcp.py: runs of iperf3 and round-trip times between two ends."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from . import Incomplete, Wrong, iperf3
from .printed import positive

_HEAD = re.compile(r'parity-tcp 1 \S+ seconds (\d{1,6}) runs (\S+)')
_RUN = re.compile(r'parity-tcp-run (\S+)')
_END = re.compile(r'parity-tcp-end (\S+) exit (-?\d{1,4})')
_LAST = re.compile(r'parity-tcp-last failed (\d{1,9})')
_TRIPS = re.compile(r'samples (\d{1,12}) min (\S+) median (\S+) p99 (\S+) max (\S+) us')


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
    """What tcp.py printed, which was asked for ``runs``.

    Raises Incomplete where its beginning, its end or a run is absent, or its checksum does not fit; what
    iperf3's parser raises; and Wrong where it ran something else.
    """
    lines = _sealed([line.rstrip('\r') for line in text.split('\n')])
    head, last = _HEAD.fullmatch(lines[0]), _LAST.fullmatch(lines[-1])
    if not head or not last:
        raise Incomplete(f'"{lines[0][:60]}" to "{lines[-1][:60]}" are not the first and the last line of a run')
    if head[2] != ','.join(runs):
        raise Wrong(f'ran {head[2].replace(",", ", ")}, asked for {", ".join(runs)}')
    found = Ends({}, {}, {})
    for name, own in _blocks(lines[1:-1]):
        if name in ('idle', 'loaded'):
            found.trips[name] = _trips(own)
        else:
            found.metrics[name], found.facts[name] = _transfer(name, own, int(head[1]))
    if [name for name in found.metrics if name in runs] != runs or int(last[1]):
        raise Incomplete(f'{last[1]} runs failed; asked for {", ".join(runs)}, found {", ".join(found.metrics)}')
    return found


def _sealed(lines: list[str]) -> list[str]:
    """The lines from the first to the last, which the checksum is of."""
    starts = [at for at, line in enumerate(lines) if line.startswith('parity-tcp 1 ')]
    seals = [at for at, line in enumerate(lines) if line.startswith('parity-tcp-crc32 ')]
    if len(starts) != 1 or len(seals) != 1 or seals[0] < starts[0] + 2:
        raise Incomplete(f'line {len(lines)}: {len(starts)} beginnings and {len(seals)} ends of "parity-tcp"')
    own = lines[starts[0]:seals[0]]
    if lines[seals[0]] != f'parity-tcp-crc32 {zlib.crc32(chr(10).join(own).encode("utf-8", "surrogatepass")):08x}':
        raise Incomplete(f'line {seals[0] + 1}: the checksum does not fit the lines above')
    return own


def _blocks(lines: list[str]):
    """(name of the run, what was printed of it)."""
    name, own = '', []
    for line in lines:
        if begin := _RUN.fullmatch(line):
            name, own = begin[1], []
        elif end := _END.fullmatch(line):
            if end[2] != '0':
                raise Incomplete(f'run {end[1]}: exit code {end[2]}: {" ".join(own)[-160:]}')
            yield name, '\n'.join(own)
        else:
            own.append(line)


def _transfer(name: str, own: str, seconds: int) -> tuple[dict[str, float], dict[str, float | str]]:
    metrics, facts = iperf3.parse(own), iperf3.facts(own)
    ran = f'{facts["protocol"]}:{facts["streams"]:g}'
    if ran != name.removeprefix('load-') or facts['seconds'] != seconds:
        raise Wrong(f'ran {ran} for {facts["seconds"]:g} s, asked for {name} for {seconds} s')
    return metrics, facts


def _trips(own: str) -> dict[str, float]:
    match = _TRIPS.fullmatch(own)
    if not match or not int(match[1]):
        raise Incomplete(f'no round trips: {own[:120]!r}')
    names = ('min', 'median', 'p99', 'max')
    return {'samples': float(match[1]),
            **{name: float(positive(token, f'{name} of the round trips'))
               for name, token in zip(names, match.groups()[1:], strict=True)}}
