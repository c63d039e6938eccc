"""The mixin under checks that run a program at both ends of pairs of nodes: programs/pairs.py launches them."""

from __future__ import annotations

from parity.check.workload import Workload
from parity.scheduler import placement

#: One after another, more pairs than this only with size=acceptance: at a second each, 8 minutes.
MOST = 500


class Paired(Workload):
    """Two ranks, one a node; ``programs`` of ours that they need lie beside them."""

    programs = ('pairs.py', 'rank.sh')

    def pair_up(self, nodes, in_flight, command, binding='core', cpus=1, limit=120):
        """Run ``command`` (words of the job script) between every two of ``nodes``, so many pairs at once. Each
        rank has ``cpus`` of its node's CPUs; a pair that takes longer than ``limit`` seconds has failed."""
        have = self.extra('nodes') or 1
        if have < nodes or nodes < 2:
            self.skip_case(f'nodes: needs {max(nodes, 2)}, {self.current_partition.fullname} has {have}, '
                           'or does not state `nodes`')
        self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task = nodes, 1, self.extra('cores') or 1
        self.without_launcher()
        self.env_vars.update(placement.variables(placement.Asked(nodes, nodes, binding)))
        launcher = 'srun' if self.current_partition.launcher_type.registered_name == 'srun' else 'mpirun'
        self.executable = 'python3'
        self.executable_opts = [f'pairs.py --launcher {launcher}', f'--in-flight {in_flight}',
                                f'--cpus {cpus} --limit {limit}', '--', *command]

    def all_pairs(self, one_by_one):
        """Every two nodes of the partition: (nodes, pairs in flight). Skips what would take a night."""
        nodes = self.extra('nodes') or 1
        count = nodes * (nodes - 1) // 2
        if one_by_one and count > MOST and self.size != 'acceptance':
            self.skip_case(f'{count} pairs of {nodes} nodes one after another: only with size=acceptance')
        return nodes, 1 if one_by_one else nodes // 2
