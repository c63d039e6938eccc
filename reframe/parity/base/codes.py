"""The benchmark codes parity is made for, and what can stand in for one that is not there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """A code; ``stand_in`` is a feature that measures the same thing with the metrics of these prefixes."""

    name: str
    feature: str
    stand_in: str = ''
    stand_in_metrics: tuple[str, ...] = ()


#: In the order in which the coverage is told.
CODES = (
    Code('HPL', 'hpl', 'hpcc', ('hpl',)),
    Code('STREAM', 'stream', 'hpcc', ('stream_star_',)),
    Code('NPB', 'npb'),
    Code('OSU', 'osu', 'pingpong', ('latency_', 'bandwidth_')),
    Code('IMB', 'imb'),
    Code('IOR', 'ior'),
    Code('mdtest', 'mdtest'),
    Code('hpcc', 'hpcc'),
    Code('iperf3', 'iperf3'),
    Code('fio', 'fio'),
    Code('sysbench', 'sysbench'),
    Code('mpiP', 'mpip'),
    Code('BabelStream', 'babelstream'),
)

#: Every name that `requires`, a waiver or a modules environment may use.
FEATURES = tuple(sorted({code.feature for code in CODES}
                        | {'filecopy', 'fileset', 'pingpong', 'cc', 'babelstream-gpu', 'osu-gpu'}))

#: What each provider can offer at best: what `requires: offered` demands of a system.
OFFERED_BY = {
    'distro': ('hpcc', 'filecopy', 'fileset', 'pingpong', 'iperf3', 'fio', 'cc'),
    'spack': ('npb', 'hpl', 'stream', 'osu', 'imb', 'ior', 'mdtest', 'iperf3', 'fio'),
}
