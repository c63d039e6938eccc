"""The mixins under checks of threads and of kernels that the job compiles."""

from __future__ import annotations

from reframe.core.builtins import parameter

from parity.check.workload import Workload


class Threaded(Workload):
    """``count`` threads of OpenMP, bound and spread over the cores of one node."""

    threads = parameter(['one', 'half', 'all'])

    def spread_threads(self):
        """Set ``count``, and the job that has room for it; skips what another case runs already."""
        cores = self.extra('cores') or 1
        self.count = {'one': 1, 'half': max(1, cores // 2), 'all': cores}[self.threads]
        if self.threads != 'one' and self.count == 1:
            self.skip_case(f'{cores} cores: the same as threads=one')
        self.num_tasks, self.num_cpus_per_task = 1, cores  # all cores, or a scheduler packs the threads
        self.without_launcher()
        self.env_vars.update(OMP_NUM_THREADS=self.count, OMP_PROC_BIND='spread', OMP_PLACES='cores')


class Kernel(Threaded):
    """``kernel`` names the program, <kernel>.c beside the check; the job compiles it."""

    needs = frozenset({'cc'})
    kernel = ''

    def run_kernel(self, *arguments):
        """Compile it and run it with ``count`` threads."""
        self.spread_threads()
        self.programs = ('compile.sh', 'kernel.h', f'{self.kernel}.c')
        self.prerun_cmds = [f'./compile.sh {self.kernel} || exit 1']
        self.executable, self.executable_opts = f'./{self.kernel}', [str(each) for each in arguments]
