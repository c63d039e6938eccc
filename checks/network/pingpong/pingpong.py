"""mpi4py's own ping-pong (Dalcin): MPI between two ranks, where there is no OSU to measure it.

The ranks are Python programs whose buffers go to MPI as they are: an MPI call costs about a microsecond
more than in OSU, which counts for small messages only. The curve up to 1 MiB is stored with the case.
"""

import re

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check import Metric, Mpi, Program, Read, Unread, agree, number, same, table

LARGEST = 1 << 20
# times to and fro of messages up to 16 KiB, and of larger ones; by size
SAMPLES = {'quick': (2000, 200), 'nightly': (10000, 1000), 'acceptance': (100000, 10000)}

#: Two ranks alone have two tables, whose rows of one size follow each other.
PROGRAM = Program("mpi4py's ping-pong", title='# MPI PingPong Test',
                  alone=r'\b(\d+) \d+\.\d\d \|.*(?=\n \1 \d+\.\d\d \|)')
_HEADING = '# Size [B]  Bandwidth [MB/s] | Time Mean [s] ± StdDev [s]  Samples'
_ROW = r' *(\d+) +(\d+\.\d\d) \| (\d\.\d{7}e[-+]\d\d) ± \d\.\d{4}e[-+]\d\d +([1-9]\d*)'
_WIDTH = 66
_MORE = 1 << 14, 1 << 20        # bytes: of larger messages there are fewer samples


@rfm.simple_test
class Pingpong(rfm.RunOnlyRegressionTest, Mpi):
    """Two ranks on one node or on two: the mean time of a message, and its rate."""

    two_ranks = True
    where = parameter(['within', 'between'], type=str)
    metrics = (Metric('latency_8B', 'us', 'lower'), Metric('latency_8KiB', 'us', 'lower'),
               Metric('bandwidth_1MiB', 'MB/s', 'higher'))

    @run_after('init')
    def bound(self):
        if self.where == 'between':
            self.limit_to('link_bandwidth', 'MB/s')

    @run_after('setup')
    def place(self):
        self.place_where()
        few, large = SAMPLES[self.size]
        self.executable = self.python()
        self.executable_opts = [f'-m mpi4py.bench pingpong -m 1 -n {LARGEST} -l {few} --loop-large {large}']

    def parse(self, text):
        values, facts = read(text, LARGEST)
        self.note({**facts, 'curve': values})
        return {'latency_8B': values.get('latency_8'), 'latency_8KiB': values.get('latency_8192'),
                'bandwidth_1MiB': values.get(f'bandwidth_{LARGEST}')}


def read(text: str, max_size: int | None = None, min_size: int = 1) -> Read:
    """latency_<size> in us, the mean of half a round trip, and bandwidth_<size> in MB/s (10^6 bytes).
    Facts: first_size and last_size (bytes). ``min_size`` and ``max_size``: the sizes that were asked for."""
    out = PROGRAM.output(re.sub('\ufffd+', '±', text), fold=False)         # the job may have no UTF-8
    if '# Size [B]  Bandwidth [MB/s]' in out.lines[:-1]:
        raise Unread('a table without statistics (--no-stats): its figures cannot be checked')
    rows = table(out, _HEADING, _ROW, _WIDTH, max_size, min_size)
    _demand_samples(rows)
    latency: dict[str, float] = {}
    bandwidth: dict[str, float] = {}
    for size, row in rows.items():
        rate = number(row[2], f'MB/s of {size} B', zero=True)
        seconds = number(row[3], f'time of {size} B')
        agree(rate, seconds, size / 1e6, f'MB/s of {size} B')
        latency[f'latency_{size}'] = 1e6 * float(seconds)
        bandwidth[f'bandwidth_{size}'] = float(rate)
    return latency | bandwidth, {'first_size': min(rows), 'last_size': max(rows)}


def _demand_samples(rows: dict[int, re.Match[str]]) -> None:
    """Raise Wrong unless messages of like sizes have as many samples."""
    samples: dict[int, str] = {}
    for size, row in rows.items():
        kind = sum(size > most for most in _MORE)
        same(f'samples up to {size} B', row[4], samples.setdefault(kind, row[4]))
