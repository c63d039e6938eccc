"""Intel MPI Benchmarks (IMB-MPI1), 2018 and later: one of PingPong, Sendrecv and Exchange, with all processes. IMB
announces its sizes and says that it has ended. The bandwidth is bytes that a rank sends and receives over the
longest time, both printed."""

from __future__ import annotations

import re

from . import Incomplete, Read, Wrong
from .reader import Lines, agree, number, ordered, table

# Messages that a rank sends and receives in the time printed, as IMB counts them in its bandwidth.
MESSAGES = {'PingPong': 1, 'Sendrecv': 2, 'Exchange': 4}
_ONE = ('#bytes #repetitions t[usec] Mbytes/sec', r' *(\d+) +[1-9]\d* +(\d+\.\d\d) +(\d+\.\d\d)', 52)
_ALL = ('#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec',
        r' *(\d+) +[1-9]\d* +(\d+\.\d\d) +(\d+\.\d\d) +(\d+\.\d\d) +(\d+\.\d\d)', 78)


def read(text: str, max_size: int | None = None) -> Read:
    """<benchmark>_time_<size> in us and <benchmark>_bandwidth_<size> in MB/s (10^6 bytes), sizes in bytes. Of
    Sendrecv and Exchange t_max, of which IMB makes the bandwidth. ``max_size``: the last size that was asked for.
    Facts: version, benchmark, processes, first_size and last_size (bytes)."""
    out = Lines(text, fold=False)
    out.one('# All processes entering MPI_Finalize')
    out.refuse('# !! Benchmark |Invalid benchmark name')
    out.refuse(r' *\d+ +(out-of-mem|int-overflow|time-out)\.?;', Incomplete)
    version = out.one(r'# +Intel ?\(R\) MPI Benchmarks (20\d\d.*), MPI-1 part')[1]
    name = out.one(r'# Benchmarking (.+)')[1]
    if name not in MESSAGES:
        raise Wrong(f'{name[:40]!r} is not read; valid are {", ".join(MESSAGES)}')
    processes = out.count(r'# #processes = (\S+)')
    first = out.count(r'# Minimum message length in bytes: +(\S+)', zero=True)
    last = out.count(r'# Maximum message length in bytes: +(\S+)')
    rows = table(out, *(_ONE if name == 'PingPong' else _ALL), last if max_size is None else max_size)
    if (min(rows), max(rows)) != (first, last):
        raise Incomplete(f'line {out.end}: {min(rows)} to {max(rows)} B, announced were {first} to {last} B')
    figures = {size: _figures(row, size, MESSAGES[name]) for size, row in rows.items()}
    values = {f'{name.lower()}_{what}_{size}': figure[at]
              for at, what in enumerate(('time', 'bandwidth')) for size, figure in figures.items()}
    return values, {'version': version, 'benchmark': name, 'processes': processes,
                    'first_size': first, 'last_size': last}


def _figures(row: re.Match[str], size: int, messages: int) -> tuple[float, float]:
    """The longest time and the bandwidth, which IMB makes of it."""
    *times, token = row.groups()[1:]
    least, most, average = [number(time, f'time of {size} B') for time in times] * (1 if len(times) == 3 else 3)
    ordered(f'times of {size} B', least, average, most)
    rate = number(token, f'MB/s of {size} B', zero=True)
    agree(rate, most, messages * size, f'MB/s of {size} B')
    return float(most), float(rate)
