"""STREAM 5.10: sustainable memory bandwidth (McCalpin, 1995)."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.check.metric import Metric
from parity.check.threaded import Threaded
from parity.outputs import Wrong, stream


@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest, Threaded):
    """Copy, Scale, Add and Triad over arrays that no cache holds."""

    needs = frozenset({'stream'})
    metrics = tuple(Metric(kernel, 'GB/s', 'higher', limit='memory_bandwidth')
                    for kernel in ('copy', 'scale', 'add', 'triad'))

    @run_after('setup')
    def place(self):
        self.spread_threads()
        self.executable = self.program('stream_c.exe')

    def parse(self, text):
        values, facts = stream.read(text)
        if facts['threads'] != self.count:
            raise Wrong(f'ran {facts["threads"]:g} threads, asked for {self.count}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], 8 * facts['array_elements'], self.extra('llc_bytes'))
        return {kernel: rate / 1000 for kernel, rate in values.items()}  # STREAM prints MB/s
