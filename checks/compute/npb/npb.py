"""NAS Parallel Benchmarks 3.4 (Bailey et al., 1991; NAS-95-020): five kernels and three applications."""

import reframe as rfm
import reframe.utility.typecheck as typ
from npb_output import PROGRAM, ROUTINES, check, read, receive_seconds  # noqa: F401
from npb_sizes import class_of, memory_bytes, most_ranks
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Metric, Mpi


def _seconds(name):
    return Metric(name, 's', 'lower', zero=True)


#: Of LU with profile=yes: how long a rank is in MPI_Recv.
RECEIVES = _seconds('receive_seconds')
#: The same of its other calls.
CALLS = {'send_seconds': ('Send',), 'nonblocking_seconds': ('Irecv', 'Wait')}


@rfm.simple_test
class Npb(rfm.RunOnlyRegressionTest, Mpi):
    """One rank a core, or as many as the benchmark's grid allows; the class goes by the size, or is
    ``npb_class``. ``timers`` of BT are its own, by routine."""

    benchmark = parameter(['bt', 'cg', 'ep', 'ft', 'is', 'lu', 'mg', 'sp'], type=str)
    npb_class = variable(typ.Str['[SWABCDEF]?'], value='')
    timers = variable(typ.Bool, value=False)
    metrics = (
        Metric('mops_total', 'Mop/s', 'higher'),
        Metric('mops_per_process', 'Mop/s', 'higher'),
        Metric('seconds', 's', 'lower'),
    )

    @run_after('init')
    def profile_receives(self):
        if self.profile and self.benchmark == 'lu':
            self.metrics += (RECEIVES, *(_seconds(name) for name in CALLS))

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare_routines(self):
        if self.timers:
            self.metrics += tuple(_seconds(name) for name in ROUTINES)

    @run_after('setup')
    def place(self):
        if self.timers and self.benchmark != 'bt':
            self.skip_case('timers=yes: only those of BT are read')
        if self.timers:
            self.env_vars['NPB_TIMER_FLAG'] = 'on'
        nodes = int(self.nodes)
        there = self.ranks_on(nodes)
        have = nodes * (self.extra('memory_bytes') or 0)
        self.letter = self.npb_class or class_of(self.size, self.benchmark, there, have)
        try:
            count = most_ranks(self.benchmark, there, self.letter, nodes)
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
            for name, names in CALLS.items():
                values[name] = sum(call['mean_seconds'] for call in calls if call['call'] in names)
        return values
