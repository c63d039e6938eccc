"""OSU Micro-Benchmarks 7.4 (Panda et al., Ohio State): MPI latency, bandwidth and collectives.

The whole curve up to 1 MiB is stored with the case; three sizes are judged: 8 B is latency, 8 KiB
is where the eager protocol ends in most MPIs, 1 MiB is bandwidth.
"""

import reframe as rfm
import reframe.utility.typecheck as typ
from osu_output import PROGRAM, read, read_pairs  # noqa: F401
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Kind, Metric, Mpi, Paired, Wrong
from parity.measure.scheduler import placement

LARGEST = 1 << 20
JUDGED = {'8B': 8, '8KiB': 8192, '1MiB': LARGEST}
COLLECTIVES = ('allreduce', 'alltoall', 'bcast', 'barrier')


class Osu(rfm.RunOnlyRegressionTest, Mpi):
    """Places ranks within a node or between two, sets options and keeps the curve, for all OSU checks."""

    where = parameter(['within', 'between'], type=str)        # one node, two or more
    options = f'-m 1:{LARGEST}'
    iterations = {'quick': 500, 'nightly': 2000, 'acceptance': 10000}       # of each message size
    largest = LARGEST
    runtimes = ()                           # cuda, rocm: they hold the buffers; none: the host's memory

    @run_after('setup')
    def place(self):
        if (self.benchmark, self.where, self.order) == ('mbw_mr', 'between', 'cyclic'):
            self.skip_case('cyclic order puts both ranks of a pair on one node')
        self.place_osu()
        folder, iterations = 'pt2pt', self.iterations[self.size]
        if self.benchmark in COLLECTIVES:
            folder = 'collective'
            iterations = collective_iterations(iterations, self.num_tasks)
        self.executable = self.program(f'../libexec/osu-micro-benchmarks/mpi/{folder}/osu_{self.benchmark}')
        self.executable_opts = [f'-i {iterations}', self.options]
        if self.benchmark == 'alltoall':
            self.buffers()

    @property
    def two_ranks(self):
        return self.benchmark in ('latency', 'bw', 'bibw')

    def place_osu(self):
        self.place_where(even=2)

    def buffers(self):
        """OSU would end alltoall's table early where a rank needs more than 512 MiB: -M allows it."""
        rank_bytes = alltoall_bytes(self.num_tasks, LARGEST)
        node_bytes = rank_bytes * self.num_tasks_per_node
        memory = self.extra('memory_bytes')
        if memory and node_bytes > memory / 2:
            self.skip_case(f'memory: {self.num_tasks_per_node} ranks of {rank_bytes / 1e9:.3g} GB a node')
        self.executable_opts.append(f'-M {2 * rank_bytes}')

    def parse(self, text):
        values, facts = read(text, self.largest, devices=self.runtimes)
        if facts['benchmark'] != self.benchmark:
            raise Wrong(f'ran {facts["benchmark"]}, asked for {self.benchmark}')
        self.note({**facts, 'curve': values})
        return self.judged(values)

    def judged(self, curve):
        figures = {}
        for metric in self.metrics:
            size = JUDGED.get(metric.name.rpartition('_')[2])
            if size:
                figures[metric.name] = curve.get(f'{self.benchmark}_{size}')
        return figures


@rfm.simple_test
class OsuLatency(Osu):
    """Time of one message, or of one collective operation over all ranks."""

    benchmark = parameter(['latency', 'allreduce', 'alltoall', 'bcast'], type=str)
    metrics = tuple(Metric(f'latency_{name}', 'us', 'lower') for name in JUDGED)


@rfm.simple_test
class OsuBandwidth(Osu):
    """One pair one way, one pair both ways, all pairs at once: first half of the ranks to the second."""

    benchmark = parameter(['bw', 'bibw', 'mbw_mr'], type=str)
    iterations = {'quick': 20, 'nightly': 50, 'acceptance': 200}            # of 64 messages
    metrics = tuple(Metric(f'bandwidth_{name}', 'MB/s', 'higher') for name in JUDGED)

    @run_after('init')
    def bound(self):
        if self.where == 'between' and self.benchmark != 'bibw':    # both ways: a link carries twice its rate
            self.limit_to('link_bandwidth', 'MB/s')


@rfm.simple_test
class OsuAtOnce(OsuBandwidth):
    """All nodes at once, or ``nodes``, one rank each: the first half sends to the second."""

    benchmark = parameter(['mbw_mr'], type=str)
    where = parameter(['all-nodes'], type=str)

    def node_count(self):
        return int(self.nodes) if 'nodes' in self.parity_changed() else None

    def place_osu(self):
        even = (self.extra('nodes') or 1) // 2 * 2
        nodes = self.node_count() or even
        self.not_taken('ranks_a_node', 'order')
        if nodes < 4 or nodes % 2:
            self.skip_case(f'nodes: needs an even number from 4 on, {self.current_partition.fullname} has '
                           f'{nodes}, or does not state `nodes`', Kind.NODES)
        self.place_ranks(nodes, nodes)


@rfm.simple_test
class OsuBarrier(Osu):
    """Time until all ranks have met."""

    benchmark = parameter(['barrier'], type=str)
    metrics = (Metric('latency', 'us', 'lower'),)
    options, largest = '', None             # it sends nothing

    def judged(self, curve):
        return {'latency': curve['barrier']}


#: Ranks up to which a collective is repeated as often as a message between two.
_FEW = 8
_LEAST = 20


def collective_iterations(iterations: int, ranks: int) -> int:
    """Fewer on many ranks: the work of one operation grows with them. Never below 20, nor above ``iterations``."""
    return min(iterations, max(_LEAST, iterations * _FEW // max(ranks, _FEW)))


def alltoall_bytes(ranks: int, largest: int) -> int:
    """Return the bytes of a rank's buffers in osu_alltoall: ``largest`` bytes to and from every rank."""
    return 2 * ranks * largest


class Pairs(rfm.RunOnlyRegressionTest, Paired):
    """OSU between every two nodes of the partition, or of ``nodes``. The facts name the slowest pair.

    One after another, a pair has the network for itself. Many in flight end sooner, on disjoint nodes; they start
    when they start, so what the network shares is not loaded evenly: that is OsuAtOnce."""

    how = parameter(['one-by-one', 'in-flight'], type=str)
    nodes = variable(typ.Str[r'([1-9]\d{0,5})?'], value='')
    binding = variable(typ.Str['|'.join(placement.BINDINGS)], value='core')

    @run_after('setup')
    def place(self):
        osu = self.program(f'../libexec/osu-micro-benchmarks/mpi/pt2pt/osu_{self.benchmark}')
        self.pair_up(*self.all_pairs(self.how == 'one-by-one'),
                     [f'{osu} -m {self.bytes}:{self.bytes} -i {self.iterations}'], self.binding)

    def parse(self, text):
        sweep = read_pairs(text, self.bytes)
        _, slowest = sweep.slowest()
        pairs = {' '.join(pair): figure for pair, figure in sweep.figures.items()}
        self.note({'slowest': ' '.join(slowest), 'pairs': pairs})
        return sweep.metrics()


@rfm.simple_test
class PairsLatency(Pairs):
    """Messages of 8 B."""

    benchmark, bytes, iterations = 'latency', 8, 500
    metrics = (Metric('median', 'us', 'lower'), Metric('worst', 'us', 'lower'),
               Metric('worst_over_median', '', 'lower'))


@rfm.simple_test
class PairsBandwidth(Pairs):
    """Messages of 1 MiB."""

    benchmark, bytes, iterations = 'bw', 1 << 20, 20
    metrics = (Metric('median', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('worst', 'MB/s', 'higher', limit='link_bandwidth'), Metric('worst_over_median', '', 'lower'))
