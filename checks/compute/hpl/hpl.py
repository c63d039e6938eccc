"""High-Performance Linpack 2.3 (Petitet, Whaley, Dongarra, Cleary): one dense system on all cores."""

from dataclasses import replace
from pathlib import Path

import reframe as rfm
import reframe.utility.typecheck as typ
from hpl_output import PROGRAM, check, read, results, update_gflops  # noqa: F401
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from parity.base import paths
from parity.base.limits import measured
from parity.check import Metric, Mpi, Wrong

# share of memory, and seconds, by size
SIZES = {'quick': (0.20, 15), 'nightly': (0.50, 120), 'acceptance': (0.80, 7200)}
# the DGEMM beside it: the largest order of a rank's update, and its seconds
LARGEST_UPDATE, UPDATE_SECONDS = 4096, 2
UPDATE = 'update.txt'


@rfm.simple_test
class Hpl(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, one thread a rank; every residual must pass. ``dat`` names an HPL.dat to use as it is, in
    this checkout unless its path is absolute; gflops is of the best of its lines. ``n`` and ``nb`` take the place
    of the order and the block that are sized; 0 for none.

    Behind HPL, the same ranks run DGEMM in the shape of HPL's update, with the same BLAS. HPL could do as much.
    Without Python on the nodes, or with a BLAS inside the program, HPCC's square DGEMM is the ceiling."""

    dat = variable(str, value='')
    n = variable(typ.Str[r'0|[1-9][0-9]{0,6}'], value='0')
    nb = variable(typ.Str[r'0|[1-9][0-9]{0,3}'], value='0')
    metrics = (
        Metric('gflops', 'Gflop/s', 'higher', limit='peak_flops',
               ceiling='Hpcc.dgemm_star', ceiling_times_ranks=True),
        Metric('seconds', 's', 'lower'),
    )

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare_lines(self):
        if self.dat:
            for which in ('median', 'worst'):
                self.metrics += (Metric(f'gflops_{which}', 'Gflop/s', 'higher', limit='peak_flops'),)

    @run_after('setup')
    def place(self):
        self.place_ranks()
        self.executable = self.program('xhpl')
        if self.dat and {self.n, self.nb} != {'0'}:
            self.skip_case(f'dat={self.dat} has its own N and NB: leave out n and nb')
        needed = 8 * int(self.n) ** 2
        there = int(self.nodes) * (self.extra('memory_bytes') or 0)
        if needed > there > 0:
            self.skip_case(f'memory: N = {self.n} takes {needed / 1e9:.3g} GB of {there / 1e9:.3g} GB')

    @run_before('run')
    def write_input(self):
        if self.dat:
            self.stage('HPL.dat', self.given())
            return
        self.problem = self.dense_problem(*SIZES[self.size])
        given = {}
        if self.n != '0':
            given['n'] = int(self.n)
        if self.nb != '0':
            given['nb'] = int(self.nb)
        if given:
            self.problem = replace(self.problem, **given, why=f'as asked for: {given}; {self.problem.why}')
        self.derive('hpl', self.problem)
        self.stage('HPL.dat', self.problem.into(Path(self.prefix, 'HPL.dat').read_text()))
        if not self.standalone:
            self.run_update()

    def run_update(self):
        """Have the ranks run DGEMM behind HPL. HPL's figures stand even if it fails."""
        self.stage_program('dgemm.py')
        order = update_order(self.problem)
        words = f'python3 -IS dgemm.py {self.executable} {order} {self.problem.nb} {UPDATE_SECONDS}'
        self.postrun_cmds = [*self.postrun_cmds, f'{self.launched(words)} >{UPDATE} 2>&1 || true']
        self.keep_files = [*self.keep_files, UPDATE]

    def parity_beside(self):
        self.stand_beside_update()
        return super().parity_beside()

    def stand_beside_update(self):
        """Make the DGEMM behind HPL what HPL could do, unless the partition states its peak."""
        file, record = Path(self.stagedir, UPDATE), self.parity.metrics['gflops']
        if record.limit or not file.exists():
            return
        gflops = update_gflops(file.read_text(errors='replace'), self.num_tasks)
        if gflops:
            record.limit = measured("DGEMM of HPL's shape", gflops, 1, 'Gflop/s', 'run').model_dump()

    def given(self):
        """The text of the HPL.dat that ``dat`` names."""
        try:
            return (paths.root() / self.dat).read_text()
        except (OSError, UnicodeDecodeError) as err:
            raise ReframeError(f'dat={self.dat}: {err}') from None

    def parse(self, text):
        values, lines = read(text)[0], results(text)
        if self.dat:
            check(text, self.given())
        else:
            asked = (self.problem.n, self.problem.nb, self.problem.p, self.problem.q)
            if len(lines) != 1 or lines[0].problem != asked:
                raise Wrong(f'ran N, NB, P, Q {lines[0].problem}, asked for {asked}')
        self.note({'lines': [vars(line) for line in lines]})
        return values


def update_order(problem):
    """Return the order of the matrix that a rank updates first, at least a block, at most LARGEST_UPDATE."""
    return max(problem.nb, min(LARGEST_UPDATE, problem.n // problem.q))
