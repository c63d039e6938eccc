"""The mixin under every MPI check: how many ranks, where they are bound, and a profile of their calls.

    reframe -c checks/ -n Npb -S ranks_a_node=1 -r             # one rank a node
    reframe -c checks/ -n Npb -P ranks_a_node=1,2,all -r       # a sweep
    reframe -c checks/ -n Npb -S profile=yes -r                # time and bytes by MPI call

A case that is placed otherwise, or profiled, is another case: its name says so (parity.plan.identity)."""

from __future__ import annotations

from pathlib import Path

import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable

from parity.base import sizing
from parity.check.metric import Metric
from parity.check.workload import Workload
from parity.outputs import Incomplete, Wrong
from parity.scheduler import placement

#: What a profiled case measures beside its own figures (parity.outputs.mpip).
PROFILE = (
    Metric('mpi_share', '%', 'lower', zero=True, most=100),
    Metric('mpi_seconds_mean', 's', 'lower', zero=True),
    Metric('mpi_seconds_max', 's', 'lower', zero=True),
    Metric('computation_seconds_mean', 's', 'lower', zero=True),
    Metric('computation_seconds_max', 's', 'lower', zero=True),
    Metric('imbalance', '', 'lower'),
)


class Mpi(Workload):
    """``ranks_a_node`` 1, 2 or all cores of ``nodes`` nodes; ``profile`` runs under mpiP."""

    nodes = variable(typ.Str[r'[1-9][0-9]{0,5}'], value='1')
    ranks_a_node = variable(typ.Str[r'1|2|all'], value='all')
    binding = variable(typ.Str['|'.join(placement.BINDINGS)], value='core')
    order = variable(typ.Str['|'.join(placement.ORDERS)], value='block')
    profile = variable(typ.Bool, value=False)

    @run_after('init', always_last=True)
    def parity_declare_placement(self):
        if self.profile:
            self.needs |= {'mpip'}
            self.metrics = (*self.metrics, *PROFILE)
            self.keep_files = [*self.keep_files, '*.mpiP']
            self.parity_claim()

    def ranks_on(self, nodes):
        """Ranks of ``nodes`` nodes with ``ranks_a_node`` on each; the case is skipped where they cannot be."""
        cores = self.extra('cores') or 1
        each = cores if self.ranks_a_node == 'all' else int(self.ranks_a_node)
        if each > cores:
            self.skip_case(f'cores: {each} ranks a node, a node has {cores}')
        return nodes * each

    def not_taken(self, *names):
        """Skip the case where a placement was asked for that the check does not take: it has its own."""
        for name in set(names) & set(self.parity_changed()):
            self.skip_case(f'{name}={getattr(self, name)}: this check places its ranks by itself')

    def place_where(self, where, ranks=None, even=1):
        """Ranks `within` one node or `between` two; all that are there if not told, a multiple of ``even``."""
        self.not_taken('nodes', *(['ranks_a_node'] if ranks else []))
        nodes = 1 if where == 'within' else 2
        there = self.ranks_on(nodes) if not ranks else ranks
        if (self.extra('cores') or 1) * nodes < 2 or there < 2:
            self.skip_case('one rank: nobody to send to')
        self.place_ranks(there - there % (nodes * even) or there, nodes)

    def place_ranks(self, ranks=None, nodes=None):
        """Ask for so many ranks, one thread each, evenly on so many nodes; all cores if not told."""
        nodes, have = nodes or int(self.nodes), self.extra('nodes')
        if have and nodes > have:
            self.skip_case(f'nodes: needs {nodes}, {self.current_partition.fullname} has {have}')
        ranks = ranks or self.ranks_on(nodes)
        if ranks % nodes:
            self.skip_case(f'{ranks} ranks cannot be spread evenly over {nodes} nodes')
        self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task = ranks, ranks // nodes, 1
        self.asked = placement.Asked(nodes, ranks, self.binding, self.order)
        node_file = nodes > 1 and placement.needs_node_file(self.current_partition)
        self.env_vars.update(OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1,
                             **placement.variables(self.asked, node_file))
        if node_file:
            self.job.launcher.options += ['--hostfile "$PBS_NODEFILE"']

    def hpl_problem(self, fraction, seconds):
        """The HPL problem for a share of the memory and so many seconds, its derivation kept."""
        guess = self.num_tasks * sizing.gflops_guess((self.extra('machine') or {}).get('simd', ()))
        memory = int(self.nodes) * self.extra('memory_bytes')
        problem = sizing.hpl(memory, self.num_tasks, fraction, seconds, guess)
        self.derive('hpl', problem)
        return problem

    @run_before('run', always_last=True)
    def parity_note_ranks(self):
        """Every rank notes where it is, then becomes the program: programs/rank.sh."""
        if self.standalone:
            return
        self.stage_program('rank.sh')
        self.prerun_cmds = [*self.prerun_cmds, 'mkdir -p ranks && lscpu -p=CPU,CORE,SOCKET >ranks/topology',
                            'grep Cpus_allowed_list /proc/self/status >ranks/allowed']
        profiler = ['--mpip', self.program('../lib/libmpiP.so')] if self.profile else []
        self.executable_opts = [*profiler, self.executable, *self.executable_opts]
        self.executable = './rank.sh'

    def parity_beside(self):
        """Where the ranks ran, and what mpiP says: figures beside those of the program."""
        ran = placement.read(Path(self.stagedir, 'ranks'))
        self.parity['placement'] = {**vars(self.asked), 'ran': ran.told()}
        if why := placement.problem(self.asked, ran):
            raise Wrong(f'placement: {why}')
        return self._parity_profile() if self.profile else {}

    def _parity_profile(self):
        from parity.outputs import mpip
        reports = sorted(Path(self.stagedir).glob('*.mpiP'))
        if len(reports) != 1:
            raise Incomplete(f'mpiP wrote {len(reports)} reports, not one: was it loaded?')
        text = reports[0].read_text(errors='replace')
        values, facts = mpip.read(text)
        if facts['tasks'] != self.num_tasks:
            raise Wrong(f'mpiP saw {facts["tasks"]} tasks, asked for {self.num_tasks}')
        self.parity['profile'] = facts
        return {m.name: values[m.name] for m in PROFILE}
