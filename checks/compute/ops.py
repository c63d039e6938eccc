"""Arithmetic operations a second: fused multiply-adds in double precision, integers of 64 to 8 bits.

A kernel of ours (programs/ops.c), compiled by the job for the node's own processor; every lane of every
vector is compared with its closed form. Integers have no limit: no table of their pipes is vouched for.
"""

import dataclasses

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check.metric import Metric
from parity.check.threaded import Kernel
from parity.outputs import Wrong, ops

# seconds of each kind, samples of a second; by size
SIZES = {'quick': (0.3, 3), 'nightly': (2, 60), 'acceptance': (10, 600)}


class Counted(rfm.RunOnlyRegressionTest, Kernel):
    """What both checks share: figures of double precision stand beside the peak of as many cores."""

    kernel = 'ops'

    @run_after('init')
    def bound(self):
        limit = 'peak_flops_core' if self.threads == 'one' else 'peak_flops'
        self.metrics = tuple(dataclasses.replace(m, limit=limit) if m.unit == 'Gflop/s' else m
                             for m in self.metrics)

    def parse(self, text):
        values, facts = ops.read(text)
        if facts['threads'] != self.count:
            raise Wrong(f'ran {facts["threads"]} threads, asked for {self.count}')
        self.note(facts)
        return values


@rfm.simple_test
class Ops(Counted):
    """All threads at once, one kind of number after another."""

    metrics = (Metric('double', 'Gflop/s', 'higher'),
               *(Metric(kind, 'Gop/s', 'higher') for kind in ops.KINDS if kind != 'double'))

    @run_after('setup')
    def place(self):
        self.run_kernel('--seconds', SIZES[self.size][0], *ops.KINDS)


@rfm.simple_test
class OpsOverTime(Counted):
    """Double precision on all cores, told once a second: a clock that falls, a neighbour, a throttled socket."""

    threads = parameter(['all'])
    metrics = (Metric('median', 'Gflop/s', 'higher'), Metric('lowest', 'Gflop/s', 'higher'),
               Metric('lowest_over_median', '', 'higher'))

    @run_after('setup')
    def place(self):
        self.run_kernel('--samples', SIZES[self.size][1], 'double')

    def parse(self, text):
        values = super().parse(text)
        if (told := len(ops.read(text)[1].get('samples', ()))) != SIZES[self.size][1]:
            raise Wrong(f'{told} samples, asked for {SIZES[self.size][1]}')
        return values
