"""The mixin under checks of our own kernels in C: compiled by the job, on the node that runs them."""

from __future__ import annotations

from reframe.core.builtins import run_before

from parity.check.threaded import Threaded


class Kernel(Threaded):
    """``kernel`` names the program, programs/<kernel>.c; compiled where it runs."""

    needs = frozenset({'cc'})
    kernel = ''

    def run_kernel(self, *arguments):
        """Compile it and run it with ``count`` threads."""
        self.spread_threads()
        self.prerun_cmds = [f'./compile.sh {self.kernel} || exit 1']
        self.executable, self.executable_opts = f'./{self.kernel}', [str(each) for each in arguments]

    @run_before('run')
    def parity_stage_kernel(self):
        for name in ('compile.sh', 'kernel.h', f'{self.kernel}.c'):
            self.stage_program(name)
