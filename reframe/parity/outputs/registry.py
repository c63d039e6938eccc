"""The codes whose outputs parity reads; a parser is imported when it is asked for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from . import Read

#: Code -> the units of its metrics by their names: the first match wins, none is a count or a ratio.
CODES = {
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
    'iperf3': (('.*rate', 'MB/s'), ('rtt_.*|jitter', 'us'), ('window', 'B'), ('loss', '%')),
    'fio': (('.*_rate', 'MiB/s'), ('.*_iops', 'op/s'), ('.*', 'us')),
    'ops': (('lowest_over_median', ''), ('.*', 'Gop/s')),
    'blocks': (('.*', 'GB/s'),),
}

#: Codes whose ``read`` takes ``max_size``, the last message size (bytes) that was asked for.
SIZED = ('osu', 'imb', 'pingpong')


def reader(code: str) -> Callable[..., Read]:
    """``read`` of this code, which raises Incomplete or Wrong."""
    return importlib.import_module(f'{__package__}.{code}').read


def unit(code: str, metric: str) -> str:
    """The unit of a metric of this code; '' where it has none."""
    return next((unit for names, unit in CODES[code] if re.fullmatch(names, metric)), '')
