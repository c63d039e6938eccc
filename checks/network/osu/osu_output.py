"""OSU Micro-Benchmarks 5 to 7 (Panda et al., Ohio State): point to point and collectives.

Latencies and bandwidths stand alone: an altered digit is not noticed. A table without a row or with a cut one is.
So is a bandwidth of mbw_mr that is not the message rate times the size. With -f, a mean lies between the minimum
and the maximum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from parity.check import (
    COUNT,
    FIGURE,
    Columns,
    Incomplete,
    Output,
    Program,
    Read,
    Sweep,
    Unread,
    Wrong,
    by_pair,
    half,
    number,
    ordered,
)
from parity.measure.check.columns import Row, demand_first

PROGRAM = Program('OSU', title=r'# OSU (?P<library>\S+) (?P<benchmark>\S.*) v(?P<version>\d+(?:\.\d+)+)',
                  tried=('5.0', '7.5'), alone=r'This test requires (?:exactly|at least) two processes.*')

LATENCY, COLLECTIVE, BANDWIDTH, RATES, BARRIER = 'latency', 'collective', 'bandwidth', 'rates', 'barrier'


class Benchmark(NamedTuple):
    """A benchmark that is read: its name, and what its table has."""

    name: str
    kind: str


#: The title of a benchmark, without `Test` at its end.
BENCHMARKS = {
    'Latency': Benchmark('latency', LATENCY),
    'Bandwidth': Benchmark('bw', BANDWIDTH),
    'Bi-Directional Bandwidth': Benchmark('bibw', BANDWIDTH),
    'Multiple Bandwidth / Message Rate': Benchmark('mbw_mr', RATES),
    'Allreduce Latency': Benchmark('allreduce', COLLECTIVE),
    'All-to-All Personalized Exchange Latency': Benchmark('alltoall', COLLECTIVE),
    'Broadcast Latency': Benchmark('bcast', COLLECTIVE),
    'Barrier Latency': Benchmark('barrier', BARRIER),
}

#: The columns by what a table has. OSU 5 to 7.3 heads a latency between two ranks otherwise. -c adds whether the
#: data arrived, and of collectives -f adds the shortest and the longest.
AVERAGE, ONLY, SHORTEST, LONGEST = 'Avg Latency(us)', 'Latency (us)', 'Min Latency(us)', 'Max Latency(us)'
ONE_WAY, OF_PAIRS, MESSAGES, VALID = 'Bandwidth (MB/s)', 'MB/s', 'Messages/s', 'Validation'
_CHECKED = {VALID: 'Pass|Fail'}
TABLES = {
    LATENCY: Columns('# Size', {AVERAGE: FIGURE, ONLY: FIGURE, **_CHECKED}),
    COLLECTIVE: Columns('# Size', {AVERAGE: FIGURE, SHORTEST: FIGURE, LONGEST: FIGURE, 'Iterations': COUNT,
                                   **_CHECKED}),
    BANDWIDTH: Columns('# Size', {ONE_WAY: FIGURE, **_CHECKED}),
    RATES: Columns('# Size', {OF_PAIRS: FIGURE, MESSAGES: FIGURE, **_CHECKED}),
}
SMALL = 8               # bytes; of fewer, 0.00 MB/s is a slow network
NUMBER = 4              # bytes of what the older allreduce adds up: its table begins there
FLOATS = r'# Datatype: (MPI_FLOAT|MPI_INT)\.?'
ONE_BARRIER = rf' +(?P<mean>{FIGURE})'
ALL_BARRIERS = rf'{ONE_BARRIER} +(?P<least>{FIGURE}) +(?P<most>{FIGURE}) +{COUNT}'
COMPLAINTS = r'^(DATA VALIDATION ERROR|This test requires|Invalid option)'


def read(text: str, max_size: int | None = None, min_size: int = 1, devices: Sequence[str] = ()) -> Read:
    """<benchmark>_<size> of every message size (bytes): mean latency in us, or MB/s (10^6 bytes).

    mbw_mr has message_rate_<size> (1/s), too; barrier has ``barrier`` (us) and no sizes. A bandwidth of messages
    below 8 B may be 0: OSU prints two decimals. ``max_size`` and ``min_size`` are the last and the first size that
    were asked for; barrier has none. ``devices`` are the runtimes that may hold the buffers, cuda or
    rocm; none: the host's memory holds them.

    Facts: benchmark and version; device, the runtime; first_size and last_size (bytes) but for barrier; pairs and
    window of mbw_mr; validated, of -c."""
    out = PROGRAM.output(text, fold=False)
    out.refuse(COMPLAINTS)
    device = _device(out, devices)
    benchmark = _benchmark(out)
    facts: dict[str, int | str] = {'benchmark': benchmark.name, 'version': out.version}
    if device:
        facts['device'] = device
    if benchmark.kind != RATES:
        PROGRAM.demand_tried(out.version, benchmark.name)
    facts |= PROGRAM.untried(out.version)
    if benchmark.kind == BARRIER:
        return {'barrier': _barrier(out)}, facts
    rows = TABLES[benchmark.kind].rows(out, max_size)
    demand_first(out, rows, _first(out, benchmark, min_size))
    facts |= {'first_size': min(rows), 'last_size': max(rows)}
    if _validated(rows):
        facts['validated'] = 'yes'
    if benchmark.kind == RATES:
        facts['pairs'] = out.count(r'# \[ pairs: (\S+) \] .*')
        facts['window'] = out.count(r'# .* \[ window size: (\S+) \]')
    return _figures(benchmark, rows), facts


def _device(out: Output, devices: Sequence[str]) -> str:
    """Return the runtime that holds the buffers; '' for the host's memory."""
    valid = {f'MPI-{device.upper()}': device for device in devices} or {'MPI': ''}
    library = out.title['library']
    if library in valid:
        return valid[library]
    if not library.startswith('MPI-') and library != 'MPI':
        raise Unread(_no_check(f'{library} {out.title["benchmark"]}'))
    memory = f'devices ({", ".join(devices)})' if devices else 'the host'
    raise Unread(f'OSU {library[:20]} is not read: read is MPI with buffers in the memory of {memory}')


def _benchmark(out: Output) -> Benchmark:
    """Return the benchmark that ran."""
    title = ' '.join(out.title['benchmark'].split())
    benchmark = BENCHMARKS.get(title.removesuffix(' Test'))
    if not benchmark:
        raise Unread(_no_check(title))
    return benchmark


def _no_check(title: str) -> str:
    """Return the sentence on a benchmark that no check runs."""
    names = ', '.join(benchmark.name for benchmark in BENCHMARKS.values())
    return f'"{title[:80]}" of OSU has no check; read are {names}'


def _first(out: Output, benchmark: Benchmark, asked: int) -> int:
    """Return the size at which the table must begin: an allreduce of numbers begins at those of 4 B."""
    numbers = out.maybe(FLOATS)
    if benchmark.name != 'allreduce':
        if numbers:
            raise Unread(f'{benchmark.name} of {numbers[1]} is not read: that of MPI_CHAR is')
        return asked
    if numbers or out.numbers < (7,):
        return max(NUMBER, asked)
    return asked


def _validated(rows: dict[int, Row]) -> bool:
    """Return whether OSU compared the data that arrived (-c). Raise Wrong where they differed."""
    for size, row in rows.items():
        if row.get(VALID) == 'Fail':
            raise Wrong(f'{size} B: the data that arrived are not those that were sent (Validation: Fail)')
    return all(VALID in row for row in rows.values())


def _figures(benchmark: Benchmark, rows: dict[int, Row]) -> dict[str, float]:
    """Return the figure of each size, and its message rate where there is one."""
    figures: dict[str, float] = {}
    rates: dict[str, float] = {}
    for size, row in rows.items():
        if benchmark.kind in (LATENCY, COLLECTIVE):
            figure = _latency(size, row)
        else:
            token = row.get(ONE_WAY) or row[OF_PAIRS]
            figure = number(token, f'{size} B', zero=size < SMALL)
        figures[f'{benchmark.name}_{size}'] = float(figure)
        if MESSAGES in row:
            rates[f'message_rate_{size}'] = _message_rate(size, row, figure)
    return figures | rates


def _latency(size: int, row: Row) -> Decimal:
    """Return the mean latency, which lies between the shortest and the longest."""
    what = f'{size} B'
    mean = number(row.get(AVERAGE) or row[ONLY], what)
    if SHORTEST in row:
        shortest = number(row[SHORTEST], what)
        longest = number(row[LONGEST], what)
        ordered(what, shortest, mean, longest)
    return mean


def _message_rate(size: int, row: Row, bandwidth: Decimal) -> float:
    """Messages/s, which OSU makes of the bandwidth: both are the same within their last digits."""
    rate = number(row[MESSAGES], f'messages/s of {size} B')
    megabytes = size / 1e6
    expected = float(rate) * megabytes
    unsure = half(bandwidth) + half(rate) * megabytes
    if abs(float(bandwidth) - expected) > unsure * (1 + 1e-6):
        raise Wrong(f'{size} B: {bandwidth} MB/s are not {rate} messages/s')
    return float(rate)


def _barrier(out: Output) -> float:
    """Return the mean time of a barrier (us), which ends where its heading does."""
    heading = out.one(r'(# Avg Latency\(us\))( .*)?', '# Avg Latency(us)')
    line = out.one(r' {3}.*', 'the figure of a barrier')[0]
    row = ALL_BARRIERS if heading[2] else ONE_BARRIER
    figures = re.fullmatch(row, line, re.ASCII)
    if not figures or figures.end('mean') != heading.end(1) or len(line) != heading.end():
        if out.lines[-1] == line:
            raise Incomplete(f'line {out.end}: the output ends within a row: {line[:80]!r}')
        raise Wrong(f'{line[:80]!r} has not the figure of a barrier below its heading')
    mean = number(figures['mean'], 'the barrier')
    if heading[2]:
        shortest, longest = number(figures['least'], 'the shortest'), number(figures['most'], 'the longest')
        ordered('the barrier', shortest, mean, longest)
    return float(mean)


def read_pairs(text: str, size: int) -> Sweep:
    """Read one benchmark between all pairs of nodes at messages of ``size`` bytes, the last of every table."""
    figures: dict[tuple[str, str], float] = {}
    benchmarks = set()
    for pair, own in by_pair(text).items():
        curve, facts = read(own, size, size)
        benchmarks.add(facts['benchmark'])
        figures[pair] = curve[f'{facts["benchmark"]}_{size}']
    if len(benchmarks) != 1:
        raise Wrong('the pairs ran different benchmarks')
    return Sweep(figures, benchmarks == {'latency'})
