"""iperf3's client with -J, 3.9 and later: one transfer over TCP or UDP, one stream or several, one way.

From 3.16 on every stream has a thread of its own, before all streams share one: figures of the two are
not those of one program, and the facts say which it was. iperf3 may end with exit code 0 although it
could not connect: its JSON then holds an `error`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import Incomplete, Wrong, document, iperf3_checks
from .document import Object

#: The release from which on a stream has a thread of its own.
_THREADED = (3, 16)
THREADING = ('single-threaded', 'multi-threaded')
_VERSION = re.compile(r'iperf (3\.\d{1,3}(?:\.\d{1,3})?)\+?', re.ASCII)


@dataclass(frozen=True)
class Run:
    """A document of a transfer that ended as it should; ``streams`` of them, asked for and there."""

    version: str
    start: Object
    test: Object
    intervals: list[Object]
    end: Object
    streams: int

    @property
    def release(self) -> tuple[int, ...]:
        """For instance (3, 12)."""
        return _release(self.version)

    @property
    def is_udp(self) -> bool:
        return self.test.text('protocol') == 'UDP'


def parse(text: str) -> dict[str, float]:
    """rate: what the receiver took, and sent_rate, in MB/s (10^6 bytes) over all streams.

    TCP: retransmits; window (largest congestion window of a stream, bytes); rtt_min, rtt_mean, rtt_max
    (us) as the sender's kernel had them, once a second. UDP: loss (% of the packets sent), jitter (us).
    Raises Incomplete with the line or key where something is missing or the transfer ended early, Wrong
    for what is not read, or where figures contradict each other.
    """
    run = _read(text)
    return iperf3_checks.udp(run) if run.is_udp else iperf3_checks.tcp(run)


def facts(text: str) -> dict[str, float | str]:
    """version, threading, protocol, streams, seconds (asked for), block (bytes of a write), congestion (TCP).

    local and remote: addresses of the first stream; cpu_local and cpu_remote in %. Raises as ``parse`` does.
    """
    parse(text)
    run = _read(text)
    cpu, first = run.end.object('cpu_utilization_percent'), run.start.objects('connected')[0]
    found = {'version': run.version, 'threading': threading(run.version),
             'protocol': run.test.text('protocol').lower(), 'streams': run.streams,
             'seconds': run.test.figure('duration'), 'block': run.test.count('blksize')}
    if not run.is_udp:
        found['congestion'] = run.end.text('sender_tcp_congestion')
    return {**found, 'local': first.text('local_host'), 'remote': first.text('remote_host'),
            'cpu_local': cpu.figure('host_total'), 'cpu_remote': cpu.figure('remote_total')}


def threading(version: str) -> str:
    """Whether streams share one thread in this version, for instance 3.12, or have one each."""
    return THREADING[_release(version) >= _THREADED]


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split('.')[:2]))


def _read(text: str) -> Run:
    whole = document.only(text, repeats=True)           # before 3.16, of sockets for every stream
    if 'error' in whole:
        raise Incomplete(f'iperf3: {whole.text("error")[:160]}')
    start, end = whole.object('start'), whole.object('end')
    version = _VERSION.fullmatch(start.text('version'))
    if not version:
        raise Wrong(f'{start.text("version")[:40]!r} is not read; valid is iperf 3.9 and later')
    test = start.object('test_start')
    _only_there(test)
    intervals = whole.objects('intervals')
    streams = test.count('num_streams')
    parts = (start.objects('connected'), end.objects('streams'), *(each.objects('streams') for each in intervals))
    if streams < 1 or not intervals or any(len(part) != streams for part in parts):
        raise Wrong(f'asked for {streams} streams; {len(parts[0])} connected, {len(parts[1])} ended, '
                    f'{len(intervals)} intervals tell of {sorted({len(part) for part in parts[2:]})}')
    return Run(version[1], start, test, intervals, end, streams)


def _only_there(test: Object) -> None:
    for name in ('reverse', 'bidir', 'omit'):           # with --omit, the sums of the two sides begin apart
        if name in test and test.count(name):
            raise Wrong(f'--{name} is not read; valid is a transfer from the client to the server, all of it')
    if test.text('protocol') not in ('TCP', 'UDP'):
        raise Wrong(f'protocol {test.text("protocol")[:20]!r} is not read; valid are TCP and UDP')
