"""Intel MPI Benchmarks 4.1 to 2021, IMB-MPI1: one benchmark's table of times and rates.

A rate is the bytes over the longest time: both confirm each other. The older IMB counts in 2^20 bytes, the newer
in 10^6. Of Uniband and Biband it prints messages a second in the place of the time."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from parity.check import (
    COUNT,
    FIGURE,
    Columns,
    Incomplete,
    Output,
    Program,
    Read,
    Unread,
    Wrong,
    agree,
    half,
    number,
    ordered,
)
from parity.measure.check.columns import Row, demand_first

PROGRAM = Program('IMB', title=r'# Intel\s?\(R\) MPI Benchmarks (?P<version>\d[\w. ]*?), MPI-1 part',
                  tried=('4.1', '2021'),
                  alone=r'(?:# !! Benchmark \S+ invalid for 1 process.*|# #processes = 1)')

TIME, SHORTEST, LONGEST, MEAN = 't[usec]', 't_min[usec]', 't_max[usec]', 't_avg[usec]'
RATE, MESSAGE_RATE, REPETITIONS = 'Mbytes/sec', 'Msg/sec', '#repetitions'


@dataclass(frozen=True)
class Benchmark:
    """A benchmark that is read: its table, and the messages that a rank sends and receives in the time printed, as
    IMB counts them in its rate."""

    table: Columns
    messages: int


_OF_TWO = Columns('#bytes', {REPETITIONS: COUNT, TIME: FIGURE, RATE: FIGURE})
_OF_ALL = Columns('#bytes', {REPETITIONS: COUNT, SHORTEST: FIGURE, LONGEST: FIGURE, MEAN: FIGURE, RATE: FIGURE})
_OF_MESSAGES = Columns('#bytes', {REPETITIONS: COUNT, RATE: FIGURE, MESSAGE_RATE: r'\d+'})
BENCHMARKS = {
    'PingPong': Benchmark(_OF_TWO, 1), 'PingPing': Benchmark(_OF_TWO, 1),
    'Sendrecv': Benchmark(_OF_ALL, 2), 'Exchange': Benchmark(_OF_ALL, 4),
    'Uniband': Benchmark(_OF_MESSAGES, 1), 'Biband': Benchmark(_OF_MESSAGES, 1)}
#: Tables with times alone.
UNCONFIRMED = (
    'Allgather', 'Allgatherv', 'Allreduce', 'Alltoall', 'Alltoallv', 'Barrier', 'Bcast', 'Gather', 'Gatherv',
    'Reduce', 'Reduce_local', 'Reduce_scatter', 'Reduce_scatter_block', 'Scatter', 'Scatterv')
MEGABYTE, MEBIBYTE = 1e6, float(1 << 20)
MICROSECONDS = 1e6      # of a second


def read(text: str, max_size: int | None = None) -> Read:
    """<benchmark>_time_<size> in us and <benchmark>_bandwidth_<size> in MB/s (10^6 bytes), sizes in bytes. Of
    Sendrecv and Exchange t_max, of which IMB makes the bandwidth. Of Uniband and Biband <benchmark>_rate_<size> in
    messages/s in the place of the time. ``max_size``: the last size that was asked for.
    Facts: version, benchmark, processes, first_size and last_size (bytes)."""
    out = PROGRAM.output(text, fold=False)
    out.ends_with('# All processes entering MPI_Finalize')
    out.refuse('# !! Benchmark |Invalid benchmark name')
    out.refuse(r'^ *\d+ +(out-of-mem|int-overflow|time-out)\.?;', Incomplete)
    name = _benchmark(out)
    benchmark = BENCHMARKS[name]
    first = out.count(r'# Minimum message length in bytes: +(\S+)', zero=True)
    last = out.count(r'# Maximum message length in bytes: +(\S+)')
    rows = benchmark.table.rows(out, last if max_size is None else max_size)
    demand_first(out, rows, first)
    if (min(rows), max(rows)) != (first, last):
        raise Incomplete(f'line {out.end}: {min(rows)} to {max(rows)} B, announced were {first} to {last} B')
    facts: dict[str, int | str] = {'version': out.version, 'benchmark': name}
    facts['processes'] = out.count(r'# #processes = (\S+)')
    facts['first_size'] = first
    facts['last_size'] = last
    values = _figures(name.lower(), rows, benchmark.messages)
    return values, facts | PROGRAM.untried(out.version)


def _benchmark(out: Output) -> str:
    """Return the name of the one benchmark that ran."""
    names = [match[1] for match in out.every(r'# Benchmarking (.+)')]
    if len(names) > 1:
        raise Unread(f'{len(names)} benchmarks in one output ({", ".join(names[:4])}): run them one by one')
    name = out.one(r'# Benchmarking (.+)')[1]
    if name in UNCONFIRMED:
        raise Unread(f'{name} is not read: its table has times alone, which nothing confirms')
    if name not in BENCHMARKS:
        raise Unread(f'{name[:40]!r} is not read; valid are {", ".join(BENCHMARKS)}')
    out.one(f'# {name}')            # of the list of benchmarks to run
    return name


def _figures(name: str, rows: dict[int, Row], messages: int) -> dict[str, float]:
    """Return time and bandwidth of each size, or message rate and bandwidth."""
    unit = _unit(rows, messages)
    firsts: dict[str, float] = {}
    bandwidths: dict[str, float] = {}
    for size, row in rows.items():
        what = f'MB/s of {size} B'
        bandwidth = number(row[RATE], what, zero=True)
        if MESSAGE_RATE in row:
            firsts[f'{name}_rate_{size}'] = _message_rate(size, row, bandwidth, unit)
        else:
            time = _time(size, row)
            megabytes = messages * size / unit
            agree(bandwidth, time, megabytes * MICROSECONDS, what)
            firsts[f'{name}_time_{size}'] = float(time)
        bandwidths[f'{name}_bandwidth_{size}'] = float(bandwidth) * unit / MEGABYTE
    return firsts | bandwidths


def _unit(rows: dict[int, Row], messages: int) -> float:
    """Return the bytes of a Mbyte: 2^20 where the largest message has the rate of that, else 10^6."""
    size = max(rows)
    row = rows[size]
    bandwidth = number(row[RATE], f'MB/s of {size} B', zero=True)
    try:
        if MESSAGE_RATE in row:
            _message_rate(size, row, bandwidth, MEBIBYTE)
        else:
            megabytes = messages * size / MEBIBYTE
            agree(bandwidth, _time(size, row), megabytes * MICROSECONDS, '')
    except Wrong:
        return MEGABYTE
    return MEBIBYTE


def _time(size: int, row: Row) -> Decimal:
    """Return the longest time, which is not below the mean, nor that below the shortest."""
    what = f'time of {size} B'
    if TIME in row:
        return number(row[TIME], what)
    least = number(row[SHORTEST], what)
    mean = number(row[MEAN], what)
    most = number(row[LONGEST], what)
    ordered(f'times of {size} B', least, mean, most)
    return most


def _message_rate(size: int, row: Row, bandwidth: Decimal, unit: float) -> float:
    """Return the messages a second, of which IMB makes the bandwidth."""
    rate = number(row[MESSAGE_RATE], f'messages/s of {size} B')
    megabytes = size / unit
    expected = float(rate) * megabytes
    unsure = half(bandwidth) + half(rate) * megabytes
    if abs(float(bandwidth) - expected) > unsure * (1 + 1e-6):
        raise Wrong(f'{size} B: {bandwidth} MB/s are not {rate} messages/s')
    return float(rate)
