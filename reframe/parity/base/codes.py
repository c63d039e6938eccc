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

#: Features that a package's binaries make, where they are not called as the package.
_MADE_BY = {'ior': ('ior', 'mdtest'), 'osu-micro-benchmarks': ('osu',), 'intel-mpi-benchmarks': ('imb',)}
#: Of the GPU view: a check for CPUs must never find its code there.
_MADE_BY_GPU = {'babelstream': ('babelstream-gpu',), 'osu-micro-benchmarks': ('osu-gpu',)}


def made_by(package: str, gpu: bool = False) -> tuple[str, ...]:
    """The features that the package's binaries offer."""
    return _MADE_BY_GPU.get(package, ()) if gpu else _MADE_BY.get(package, (package,))


def package_of(feature: str, gpu: bool = False) -> str:
    """The package whose binaries offer the feature; the feature itself if unknown."""
    known = _MADE_BY_GPU if gpu else _MADE_BY
    return next((package for package, features in known.items() if feature in features), feature)
