"""mpi4py's own ping-pong (Dalcin): MPI between two ranks, where there is no OSU to measure it.

The ranks are Python programs whose buffers go to MPI as they are: an MPI call costs about a microsecond
more than in OSU, which counts for small messages only. The curve up to 1 MiB is stored with the case.
"""

import dataclasses

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check.metric import Metric
from parity.check.mpi import Mpi
from parity.outputs import pingpong

LARGEST = 1 << 20
# times to and fro of messages up to 16 KiB, and of larger ones; by size
SAMPLES = {'quick': (2000, 200), 'nightly': (10000, 1000), 'acceptance': (100000, 10000)}


@rfm.simple_test
class Pingpong(rfm.RunOnlyRegressionTest, Mpi):
    """Two ranks on one node or on two: the mean time of a message, and its rate."""

    needs = frozenset({'pingpong'})
    where = parameter(['within', 'between'])
    metrics = (Metric('latency_8B', 'us', 'lower'), Metric('latency_8KiB', 'us', 'lower'),
               Metric('bandwidth_1MiB', 'MB/s', 'higher'))

    @run_after('init')
    def bound(self):
        if self.where == 'between':
            self.metrics = tuple(dataclasses.replace(m, limit='link_bandwidth') if m.unit == 'MB/s' else m
                                 for m in self.metrics)

    @run_after('setup')
    def place(self):
        self.place_where(self.where, 2)
        few, large = SAMPLES[self.size]
        self.executable = self.python()
        self.executable_opts = [f'-m mpi4py.bench pingpong -m 1 -n {LARGEST} -l {few} --loop-large {large}']

    def parse(self, text):
        values, facts = pingpong.read(text, LARGEST)
        self.note({**facts, 'curve': values})
        return {'latency_8B': values.get('latency_8'), 'latency_8KiB': values.get('latency_8192'),
                'bandwidth_1MiB': values.get(f'bandwidth_{LARGEST}')}
