"""mpi4py's own ping-pong (`python -m mpi4py.bench pingpong`): one pair of ranks, sizes that double. The output has
no end: without ``max_size`` nothing but a table that stops below 4 KiB tells that it was cut. A bandwidth is the
size over the mean time, both printed, so each row is checked by itself."""

from __future__ import annotations

import re

from . import Read, Wrong
from .reader import Lines, agree, number, table

_HEADING = '# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples'
_ROW = r' *(\d+) +(\d+\.\d\d) \| (\d\.\d{7}e[-+]\d\d) ± \d\.\d{4}e[-+]\d\d +[1-9]\d*'
_WIDTH = 66


def read(text: str, max_size: int | None = None) -> Read:
    """latency_<size> in us, the mean of half a round trip, and bandwidth_<size> in MB/s (10^6 bytes).
    Facts: first_size and last_size (bytes). ``max_size``: the last size that was asked for."""
    out = Lines(re.sub('\ufffd+', '±', text), fold=False)         # the job may have no UTF-8
    out.one('# MPI PingPong Test')
    if '# Size [B]  Bandwidth [MB/s]' in out.lines[:-1]:
        raise Wrong('a table of --no-stats is not read: its figures cannot be checked')
    rows = table(out, _HEADING, _ROW, _WIDTH, max_size)
    latency, bandwidth = {}, {}
    for size, row in rows.items():
        rate = number(row[2], f'MB/s of {size} B', zero=True)
        seconds = number(row[3], f'time of {size} B')
        agree(rate, seconds, size / 1e6, f'MB/s of {size} B')
        latency[f'latency_{size}'], bandwidth[f'bandwidth_{size}'] = 1e6 * float(seconds), float(rate)
    return latency | bandwidth, {'first_size': min(rows), 'last_size': max(rows)}
