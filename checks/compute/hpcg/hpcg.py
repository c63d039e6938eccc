"""HPCG 3.1 (Dongarra, Heroux, Luszczek, 2016): multigrid-preconditioned conjugate gradients, bound by memory."""

import math
from decimal import Decimal

import reframe as rfm
from reframe.core.builtins import run_after

from parity.base.codes import CACHE_MULTIPLE
from parity.check import Lines, Metric, Mpi, Read, Wrong, agree, half, same

# points along the edge of each rank's cube, more where caches would hold them, up to LARGEST; seconds; by size
SIZES = {'quick': (32, 10), 'nightly': (104, 60), 'acceptance': (104, 1800)}
LARGEST = 104
POINT_BYTES, DATA_BYTES = 1000, 715     # measured: 873 B a point at the peak, of which HPCG counts 715
TESTS = ('Spectral Convergence Tests', r'Departure from Symmetry \S+', 'Iteration Count Information',
         'Reproducibility Information')


@rfm.simple_test
class Hpcg(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, one thread a rank; every rank has a cube of the grid."""

    postrun_cmds = ['cat HPCG-Benchmark*.txt']
    metrics = (Metric('gflops', 'Gflop/s', 'higher', limit='peak_flops'),
               Metric('bandwidth', 'GB/s', 'higher', limit='memory_bandwidth'))

    @run_after('setup')
    def place(self):
        edge, seconds = SIZES[self.size]
        self.place_ranks(most_ranks(self.ranks_on(int(self.nodes)), int(self.nodes)))
        caches = CACHE_MULTIPLE * (self.extra('llc_bytes') or 0) / self.num_tasks_per_node
        by_caches = 8 * math.ceil((caches / DATA_BYTES) ** (1 / 3) / 8)         # HPCG halves the edge three times
        self.edge = min(LARGEST, max(edge, by_caches))
        need, have = POINT_BYTES * self.edge ** 3 * self.num_tasks_per_node, self.extra('memory_bytes')
        if have and need > have:
            self.skip_case(f'memory: a node needs {need / 1e9:.3g} GB and has {have / 1e9:.3g} GB')
        self.executable = self.program('xhpcg')
        self.executable_opts = [f'--nx={self.edge} --rt={seconds}']

    def parse(self, text):
        values, facts = read(text)
        ran = [facts[name] for name in ('nx', 'ny', 'nz', 'ranks', 'threads')]
        if ran != (asked := [self.edge] * 3 + [self.num_tasks, 1]):
            raise Wrong(f'ran nx, ny, nz, ranks, threads {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached(values, facts['data_bytes'], self.extra('llc_bytes'))
        return values


def most_ranks(available, nodes=1):
    """Return the largest number of ranks, as many on each node, whose grid is at most 8 times as long as wide.

    HPCG refuses others. It is 1 where there is none, as on 11 nodes of one core."""
    def grids(ranks):
        sides = [n for n in range(1, ranks + 1) if ranks % n == 0]
        return ((a, b, ranks // a // b) for a in sides for b in sides if ranks // a % b == 0)
    able = (n for n in range(available, 0, -nodes) if any(max(g) <= 8 * min(g) for g in grids(n)))
    return next(able, 1)


def six_digits(figure: Decimal) -> Decimal:
    """Return a figure with the zeros at its end, which C++ does not print."""
    return figure.quantize(Decimal(1).scaleb(figure.adjusted() - 5))


def read(text: str) -> Read:
    """gflops is HPCG's rating: operations over the time with a share of the setup. bandwidth counts the bytes that
    HPCG says it read and wrote. Facts: nx, ny, nz (of a rank), ranks, threads, data_bytes, seconds."""
    out = Lines(text)
    out.refuse('Result=FAILED|HPCG result is.INVALID')
    for test in TESTS:
        out.one(rf'{test}::Result=PASSED')
    out.one('version=3.1')
    out.one(r'Final Summary::(Official results|You have selected).*', 'Final Summary::Official results')
    rating = six_digits(out.figure(r'Final Summary::HPCG result is VALID with a GFLOP/s rating of=(\S+)'))
    work = out.figure(r'Floating Point Operations Summary::Total with convergence overhead=(\S+)')
    seconds = out.figure(r'Benchmark Time Summary::Total=(\S+)')
    sets, rest = divmod(out.count(r'.*::Total number of optimized iterations=(\S+)'),
                        out.count(r'.*::Optimized CG iterations per set=(\S+)'))
    same('iterations beyond whole sets', rest, 0)
    begin = [out.figure(rf'{name}=(\S+)', zero=True)
             for name in ('Setup Information::Setup Time', 'Benchmark Time Summary::Optimization phase')]
    rated = seconds + sets * sum(begin) / 10
    agree(rating, rated, float(work) / 1e9, 'the rating', half(work) / 1e9)
    moved = [six_digits(out.figure(rf'GB/s Summary::Raw {what} B/W=(\S+)')) for what in ('Read', 'Write', 'Total')]
    if abs(moved[0] + moved[1] - moved[2]) > sum(map(half, moved)):
        raise Wrong(f'{moved[0]} GB/s read and {moved[1]} GB/s written are not {moved[2]} GB/s')
    gigabytes = [float(rate) * float(time) for rate, time in (
        (moved[2], seconds), (out.figure(r'GB/s Summary::Total with .* overhead=(\S+)'), rated))]
    if abs(gigabytes[0] / gigabytes[1] - 1) > 2e-5:
        raise Wrong(f'{moved[2]} GB/s moved {gigabytes[0]:.6g} GB, with the overhead {gigabytes[1]:.6g} GB')
    return {'gflops': float(rating), 'bandwidth': float(moved[2])}, {
        **{name: out.count(rf'Local Domain Dimensions::{name}=(\S+)') for name in ('nx', 'ny', 'nz')},
        'ranks': out.count(r'Machine Summary::Distributed Processes=(\S+)'),
        'threads': out.count(r'Machine Summary::Threads per processes=(\S+)'),
        'data_bytes': int(out.figure(r'.*::Total memory used for data \(Gbytes\)=(\S+)') * 10**9),
        'seconds': float(seconds)}
