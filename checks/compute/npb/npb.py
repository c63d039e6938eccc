"""NAS Parallel Benchmarks 3.4 (Bailey et al., 1991; NAS-95-020): five kernels and three applications."""

import reframe as rfm
import reframe.utility.typecheck as typ
from npb_output import check, read, receive_seconds
from npb_sizes import class_of, memory_bytes, most_ranks
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Code, Metric, Mpi

CODE = Code('NPB', spack='npb@3.4.3 implementation=mpi classes:=A,B,C,D,W', binaries=('{names}.{classes}.x',),
            requires=('mpirun',), units={'mops_.*': 'Mop/s', 'seconds': 's'},
            parts={'memory-bound codes': ('Npb%benchmark=(bt|cg|ft|is|lu|mg|sp)',),
                   'compute': ('Npb%benchmark=ep',)},
            headlines={r'Npb%benchmark=ep\.mops_total': 'NPB EP',
                       r'Npb%benchmark=cg\.mops_total': 'NPB CG'},
            scales={r'Npb.*\.(mops_total|seconds)$': 'strong'})


#: Of LU with profile=yes: how long a rank is in MPI_Recv.
RECEIVES = Metric('receive_seconds', 's', 'lower', zero=True)


@rfm.simple_test
class Npb(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, or as many as the benchmark's grid allows; the class goes by the size, or is
    ``npb_class``."""

    benchmark = parameter(['bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp'])
    npb_class = variable(typ.Str['[SWABCDEF]?'], value='')
    metrics = (
        Metric('mops_total', 'Mop/s', 'higher'),
        Metric('mops_per_process', 'Mop/s', 'higher'),
        Metric('seconds', 's', 'lower'),
    )

    @run_after('init')
    def profile_receives(self):
        if self.profile and self.benchmark == 'lu':
            self.metrics = (*self.metrics, RECEIVES)

    @run_after('setup')
    def place(self):
        there, have = self.ranks_on(int(self.nodes)), int(self.nodes) * (self.extra('memory_bytes') or 0)
        self.letter = self.npb_class or class_of(self.size, self.benchmark, there, have)
        try:
            count = most_ranks(self.benchmark, there, self.letter)
        except ValueError as none:
            self.skip_case(str(none))
        need = memory_bytes(self.benchmark, self.letter, count)
        if have and need > have:
            self.skip_case(f'memory: class {self.letter} needs {need / 1e9:.3g} GB, there are {have / 1e9:.3g} GB')
        self.place_ranks(count)
        self.executable = self.program(f'{self.benchmark}.{self.letter}.x')

    def parse(self, text):
        values, facts = read(text)
        check(facts, self.benchmark, self.letter, self.num_tasks)
        self.note(facts)
        return values

    def parity_beside(self):
        values = super().parity_beside()
        if RECEIVES in self.metrics:
            calls = self.parity['profile']['calls']
            values[RECEIVES.name] = receive_seconds(calls, self.letter, self.num_tasks)
        return values
