"""Intel MPI Benchmarks 2021 (IMB-MPI1): one pair to and fro, a chain, an exchange with two neighbours.

The whole curve up to 16 MiB is stored with the case; three sizes are judged.
"""

import re

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check import Incomplete, Lines, Metric, Mpi, Read, Wrong, agree, number, ordered, table

LARGEST = 1 << 24
JUDGED = {'8B': 8, '1MiB': 1 << 20, '16MiB': LARGEST}
# most repetitions of a message size; IMB makes fewer where 40 MB have passed
ITERATIONS = {'quick': 200, 'nightly': 1000, 'acceptance': 4000}

# Messages that a rank sends and receives in the time printed, as IMB counts them in its bandwidth.
MESSAGES = {'PingPong': 1, 'Sendrecv': 2, 'Exchange': 4}
_ONE = ('#bytes #repetitions t[usec] Mbytes/sec', r' *(\d+) +[1-9]\d* +(\d+\.\d\d) +(\d+\.\d\d)', 52)
_ALL = ('#bytes #repetitions t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec',
        r' *(\d+) +[1-9]\d* +(\d+\.\d\d) +(\d+\.\d\d) +(\d+\.\d\d) +(\d+\.\d\d)', 78)


@rfm.simple_test
class Imb(rfm.RunOnlyRegressionTest, Mpi):
    """Two ranks for PingPong, all for Sendrecv and Exchange; time of the smallest message, rate of the larger."""

    benchmark = parameter(['PingPong', 'Sendrecv', 'Exchange'])
    where = parameter(['within', 'between'])
    metrics = (Metric('time_8B', 'us', 'lower'),
               *(Metric(f'bandwidth_{name}', 'MB/s', 'higher') for name in list(JUDGED)[1:]))

    @property
    def two_ranks(self):
        return self.benchmark == 'PingPong'

    @run_after('init')
    def bound(self):
        if self.where == 'between' and self.benchmark == 'PingPong':
            self.limit_to('link_bandwidth', 'MB/s')

    @run_after('setup')
    def place(self):
        self.place_where()
        self.executable = self.program('IMB-MPI1')
        self.executable_opts = [f'-npmin {self.num_tasks}', f'-iter {ITERATIONS[self.size]}',
                                f'-msglog 0:{LARGEST.bit_length() - 1}', self.benchmark]

    def parse(self, text):
        values, facts = read(text, LARGEST)
        if (facts['benchmark'], facts['processes']) != (self.benchmark, self.num_tasks):
            raise Wrong(f'ran {facts["benchmark"]} of {facts["processes"]} processes, '
                        f'asked for {self.benchmark} of {self.num_tasks}')
        self.note({**facts, 'curve': values})
        of = self.benchmark.lower()
        return {'time_8B': values.get(f'{of}_time_8'),
                **{f'bandwidth_{name}': values.get(f'{of}_bandwidth_{JUDGED[name]}') for name in list(JUDGED)[1:]}}


def read(text: str, max_size: int | None = None) -> Read:
    """<benchmark>_time_<size> in us and <benchmark>_bandwidth_<size> in MB/s (10^6 bytes), sizes in bytes. Of
    Sendrecv and Exchange t_max, of which IMB makes the bandwidth. ``max_size``: the last size that was asked for.
    Facts: version, benchmark, processes, first_size and last_size (bytes)."""
    out = Lines(text, fold=False)
    out.one('# All processes entering MPI_Finalize')
    out.refuse('# !! Benchmark |Invalid benchmark name')
    out.refuse(r'^ *\d+ +(out-of-mem|int-overflow|time-out)\.?;', Incomplete)
    version = out.one(r'# +Intel ?\(R\) MPI Benchmarks (20\d\d.*), MPI-1 part')[1]
    name = out.one(r'# Benchmarking (.+)')[1]
    if name not in MESSAGES:
        raise Wrong(f'{name[:40]!r} is not read; valid are {", ".join(MESSAGES)}')
    processes = out.count(r'# #processes = (\S+)')
    first = out.count(r'# Minimum message length in bytes: +(\S+)', zero=True)
    last = out.count(r'# Maximum message length in bytes: +(\S+)')
    rows = table(out, *(_ONE if name == 'PingPong' else _ALL), last if max_size is None else max_size, first)
    if (min(rows), max(rows)) != (first, last):
        raise Incomplete(f'line {out.end}: {min(rows)} to {max(rows)} B, announced were {first} to {last} B')
    figures = {size: _figures(row, size, MESSAGES[name]) for size, row in rows.items()}
    values = {f'{name.lower()}_{what}_{size}': figure[at]
              for at, what in enumerate(('time', 'bandwidth')) for size, figure in figures.items()}
    return values, {'version': version, 'benchmark': name, 'processes': processes,
                    'first_size': first, 'last_size': last}


def _figures(row: re.Match[str], size: int, messages: int) -> tuple[float, float]:
    """Return the longest time, and the bandwidth that IMB computes from it."""
    *times, token = row.groups()[1:]
    least, most, average = [number(time, f'time of {size} B') for time in times] * (1 if len(times) == 3 else 3)
    ordered(f'times of {size} B', least, average, most)
    rate = number(token, f'MB/s of {size} B', zero=True)
    agree(rate, most, messages * size, f'MB/s of {size} B')
    return float(most), float(rate)
