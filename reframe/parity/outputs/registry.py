"""The codes whose outputs parity reads; a parser is imported when it is asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import NamedTuple


class Code(NamedTuple):
    """``parse(text)`` has the metrics, ``facts(text)`` what was run; both raise Incomplete or Wrong."""

    parse: Callable[[str], dict[str, float]]
    facts: Callable[[str], dict[str, object]]


#: Name of a code -> what imports its parser.
CODES: dict[str, Callable[[], Code]] = {
    name: lambda name=name: _load(name)
    for name in ('npb', 'hpl', 'stream', 'hpcc', 'filecopy', 'fileset', 'ior', 'mdtest', 'mpip',
                 'osu', 'imb', 'pingpong', 'iperf3', 'fio', 'ops', 'blocks')}

#: Codes whose ``parse`` and ``facts`` take ``max_size``, the last message size (bytes) that was asked for.
SIZED = ('osu', 'imb', 'pingpong')

# Unit of the metrics of a code whose names match; the first match wins, none is a count or a ratio.
_UNITS = {
    'npb': (('mops_.*', 'Mop/s'), ('seconds', 's')),
    'hpl': (('gflops', 'Gflop/s'), ('seconds', 's')),
    'stream': (('.*', 'MB/s'),),
    'hpcc': (('hpl_residual', ''), ('hpl_time', 's'), ('(hpl|dgemm_.*|fft_.*)', 'Gflop/s'),
             ('randomaccess_.*', 'GUP/s'), ('beff_.*latency.*', 'us'), ('(ptrans|stream_.*|beff_.*)', 'GB/s')),
    'filecopy': (('seconds.*', 's'), ('rate', 'MB/s'), ('file_rate', 'files/s')),
    'fileset': (('seconds', 's'), ('rate', 'Mb/s'), ('file_rate', 'files/s'), ('ns_per_byte', 'ns/byte')),
    'ior': (('(write|read)_iops', 'op/s'), ('(write|read)_seconds', 's'), ('(write|read).*', 'MiB/s')),
    'mdtest': (('.*', 'op/s'),),
    'mpip': (('.*_seconds_.*', 's'), ('mpi_share', '%')),
    'osu': (('message_rate_.*', '1/s'), ('(bw|bibw|mbw_mr)_.*', 'MB/s'), ('.*', 'us')),
    'imb': (('.*_time_.*', 'us'), ('.*_bandwidth_.*', 'MB/s')),
    'pingpong': (('latency_.*', 'us'), ('bandwidth_.*', 'MB/s')),
    'ops': (('lowest_over_median', ''), ('.*', 'Gop/s')),
    'blocks': (('.*', 'GB/s'),),
    'fio': (('.*_rate', 'MiB/s'), ('.*_iops', 'op/s'), ('.*', 'us')),
    'iperf3': (('.*rate', 'MB/s'), ('rtt_.*|jitter', 'us'), ('window', 'B'), ('loss', '%')),
}


def unit(code: str, metric: str) -> str:
    """The unit of one metric that ``parse`` of this code returns; '' where it has none."""
    return next((unit for names, unit in _UNITS[code] if re.fullmatch(names, metric)), '')


def _load(name: str) -> Code:
    module = importlib.import_module(f'{__package__}.{name}')
    return Code(module.parse, module.facts)
