"""HPCG 3.1 (Dongarra, Heroux, Luszczek, 2016): multigrid-preconditioned conjugate gradients, bound by memory."""

import math

import reframe as rfm
from hpcg_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import run_after

from parity.base.codes import CACHE_MULTIPLE
from parity.check import Metric, Mpi, Wrong

# points along the edge of each rank's cube: the fewest, and the most where caches hold fewer; seconds; by size
# a cube of 64 takes 20 s, one of 104 over 3 minutes, whatever the seconds: its 50 iterations are one set
SIZES = {'quick': (32, 64, 10), 'nightly': (104, 104, 60), 'acceptance': (104, 104, 1800)}
POINT_BYTES, DATA_BYTES = 1000, 715     # measured: 873 B a point at the peak, of which HPCG counts 715


@rfm.simple_test
class Hpcg(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, one thread a rank; every rank has a cube of the grid."""

    postrun_cmds = ['cat HPCG-Benchmark*.txt']
    metrics = (Metric('gflops', 'Gflop/s', 'higher', limit='peak_flops'),
               Metric('bandwidth', 'GB/s', 'higher', limit='memory_bandwidth'))

    @run_after('setup')
    def place(self):
        nodes = int(self.nodes)
        self.place_ranks(most_ranks(self.ranks_on(nodes), nodes))
        caches = (self.extra('llc_bytes') or 0) / self.num_tasks_per_node
        self.edge = edge_of(self.size, caches)
        seconds = SIZES[self.size][2]
        need = POINT_BYTES * self.edge ** 3 * self.num_tasks_per_node
        have = self.extra('memory_bytes')
        if have and need > have:
            self.skip_case(f'memory: a node needs {need / 1e9:.3g} GB and has {have / 1e9:.3g} GB')
        self.executable = self.program('xhpcg')
        self.executable_opts = [f'--nx={self.edge} --rt={seconds}']

    def parse(self, text):
        values, facts = read(text)
        ran = [facts[name] for name in ('nx', 'ny', 'nz', 'ranks', 'threads')]
        asked = [self.edge, self.edge, self.edge, self.num_tasks, 1]
        if ran != asked:
            raise Wrong(f'ran nx, ny, nz, ranks, threads {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached(values, facts['data_bytes'], self.extra('llc_bytes'))
        return values


def most_ranks(available, nodes=1):
    """Return the largest number of ranks, as many on each node, whose grid is at most 8 times as long as wide.

    HPCG refuses others. It is 1 where there is none, as on 11 nodes of one core."""
    for ranks in range(available, 0, -nodes):
        if any(longest <= 8 * shortest for shortest, longest in _grids(ranks)):
            return ranks
    return 1


def _grids(ranks):
    """Yield the shortest and the longest side of each grid of so many ranks."""
    for width in _divisors(ranks):
        for height in _divisors(ranks // width):
            depth = ranks // width // height
            yield min(width, height, depth), max(width, height, depth)


def _divisors(number):
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def edge_of(size, cache_bytes):
    """Return the edge of a rank's cube: beyond so many bytes of cache, as far as the size allows."""
    fewest, most, _ = SIZES[size]
    return min(most, max(fewest, edge_beyond(cache_bytes)))


def edge_beyond(cache_bytes):
    """Return the edge of a cube whose data no cache of so many bytes holds. HPCG halves it three times."""
    points = CACHE_MULTIPLE * cache_bytes / DATA_BYTES
    return 8 * math.ceil(points ** (1 / 3) / 8)
