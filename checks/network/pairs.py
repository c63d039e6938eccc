"""Every two nodes of a partition, one pair after another or many in flight: finds the slow link or node.

One after another, a pair has the network for itself. Many in flight end sooner, on disjoint nodes; they
start when they start, so what the network shares is not loaded evenly: that is OsuAtOnce of network/osu.
"""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.check.metric import Metric
from parity.check.threaded import Paired
from parity.outputs import pairs
from parity.scheduler import placement


class Pairs(rfm.RunOnlyRegressionTest, Paired):
    """OSU between all pairs of all nodes; the slowest pair is named in the case's facts."""

    needs = frozenset({'osu'})
    how = parameter(['one-by-one', 'in-flight'])
    binding = variable(typ.Str['|'.join(placement.BINDINGS)], value='core')

    @run_after('setup')
    def place(self):
        osu = self.program(f'../libexec/osu-micro-benchmarks/mpi/pt2pt/osu_{self.benchmark}')
        self.pair_up(*self.all_pairs(self.how == 'one-by-one'),
                     [f'{osu} -m {self.bytes}:{self.bytes} -i {self.iterations}'], self.binding)

    def parse(self, text):
        sweep = pairs.read(text, self.bytes)
        self.note({'slowest': ' '.join(sweep.slowest()[1]),
                   'pairs': {' '.join(pair): figure for pair, figure in sweep.figures.items()}})
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
