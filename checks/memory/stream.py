"""STREAM 5.10: sustainable memory bandwidth (McCalpin, 1995)."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.metric import Metric
from parity.outputs import Wrong, stream
from parity.workload import Workload


@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest, Workload):
    """Copy, Scale, Add and Triad over arrays that no cache holds; threads bound and spread over the cores."""

    needs = frozenset({'stream'})
    threads = parameter(['one', 'half', 'all'])
    metrics = tuple(Metric(kernel, 'GB/s', 'higher', limit='memory_bandwidth')
                    for kernel in ('copy', 'scale', 'add', 'triad'))

    @run_after('setup')
    def place(self):
        cores = self.extra('cores') or 1
        self.count = {'one': 1, 'half': max(1, cores // 2), 'all': cores}[self.threads]
        if self.threads != 'one' and self.count == 1:
            self.skip_case(f'{cores} cores: the same as threads=one')
        self.num_tasks, self.num_cpus_per_task = 1, cores  # all of them, or a scheduler packs the threads
        self.without_launcher()
        self.env_vars.update(OMP_NUM_THREADS=self.count, OMP_PROC_BIND='spread', OMP_PLACES='cores')
        self.executable = self.program('stream_c.exe')

    def parse(self, text):
        values, facts = stream.parse(text), stream.facts(text)
        if facts['threads'] != self.count:
            raise Wrong(f'ran {facts["threads"]:g} threads, asked for {self.count}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], 8 * facts['array_elements'], self.extra('llc_bytes'))
        return {kernel: rate / 1000 for kernel, rate in values.items()}  # STREAM prints MB/s
