"""NAS Parallel Benchmarks 3.4 (Bailey et al., 1991; NAS-95-020): five kernels and three applications."""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check import sizing_npb
from parity.check.metric import Metric
from parity.check.mpi import Mpi
from parity.outputs import npb


@rfm.simple_test
class Npb(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, or as many as the benchmark's grid allows; the class goes by the size."""

    needs = frozenset({'npb'})
    benchmark = parameter(['bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp'])
    metrics = (
        Metric('mops_total', 'Mop/s', 'higher'),
        Metric('mops_per_process', 'Mop/s', 'higher'),
        Metric('seconds', 's', 'lower'),
    )

    @run_after('setup')
    def place(self):
        self.letter = sizing_npb.NPB_CLASS_BY_SIZE[self.size]
        ranks = sizing_npb.npb_ranks(self.benchmark, self.ranks_on(int(self.nodes)), self.letter)
        need = sizing_npb.npb_memory_bytes(self.benchmark, self.letter, ranks)
        have = int(self.nodes) * (self.extra('memory_bytes') or 0)
        if have and need > have:
            self.skip_case(f'memory: class {self.letter} needs {need / 1e9:.3g} GB, there are {have / 1e9:.3g} GB')
        self.place_ranks(ranks)
        self.executable = self.program(f'{self.benchmark}.{self.letter}.x')

    def parse(self, text):
        values, facts = npb.read(text)
        npb.check(facts, self.benchmark, self.letter, self.num_tasks)
        self.note(facts)
        return values
