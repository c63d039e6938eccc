"""The mixin under every MPI check: how many ranks, where they are bound, and a profile of their calls.

    reframe -c checks/ -n Npb -S ranks_a_node=1 -r             # one rank a node
    reframe -c checks/ -n Npb -P ranks_a_node=1,2,all -r       # a sweep
    reframe -c checks/ -n Npb -S profile=yes -r                # time and bytes by MPI call
    reframe -c checks/ -n Npb -S nodes=2 -S network=slow -r    # one of the partition's `networks`
    reframe -c checks/ -S nodes=4 -t 4_nodes -r                # all MPI checks that can take four nodes

A case that is placed otherwise, profiled, or takes a network by name is another case: its name says so
(parity.site.identity)."""

from __future__ import annotations

from pathlib import Path

import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from parity.base import codes
from parity.base.figures import counted
from parity.base.reasons import Kind
from parity.measure.check import sizing
from parity.measure.check.reader import Incomplete, Wrong, room
from parity.measure.check.workload import Workload
from parity.measure.machine import traffic
from parity.measure.scheduler import placement


class Mpi(Workload):
    """``ranks_a_node`` 1, 2 or all cores of ``nodes`` nodes; ``profile`` runs under the code that profiles MPI;
    ``network`` names one of the partition's: the case is `wrong` where its data took another."""

    nodes = variable(typ.Str[r'[1-9][0-9]{0,5}'], value='1')
    ranks_a_node = variable(typ.Str[r'1|2|all'], value='all')
    binding = variable(typ.Str['|'.join(placement.BINDINGS)], value='core')
    order = variable(typ.Str['|'.join(placement.ORDERS)], value='block')
    profile = variable(typ.Bool, value=False)
    network = variable(typ.Str[r'[A-Za-z0-9_-]*'], value='')
    #: It has two ranks, on one node or two.
    two_ranks = False
    #: `cuda` or `rocm` where every rank takes a GPU of its node: programs/rank.sh --device.
    device_api = ''
    #: Bytes that the ranks of the first node sent to other nodes, at least, as the program tells.
    sent_bytes = 0

    @run_after('init', always_last=True)
    def parity_declare_placement(self):
        if not self.profile:
            return
        self.profiler = codes.profiler()
        if not self.profiler:
            raise ReframeError('profile=yes: no file in checks/ states PROFILE: add a library that profiles MPI')
        self.needs |= {self.profiler.feature}
        self.metrics = (*self.metrics, *room(self.profiler).METRICS)
        self.keep_files = [*self.keep_files, room(self.profiler).PROFILE[0]]
        self.parity_claim()

    def node_count(self):
        count = super().node_count()
        return count and self.at_least(count)

    def at_least(self, count):
        """Return the nodes of a case on one node, or on several: ``count`` or more, as many as `nodes` says."""
        return max(count, int(self.nodes)) if count > 1 and not self.two_ranks else count

    def take_nodes(self):
        """Return the nodes of the case; skip it where it cannot have as many as `nodes` asks for."""
        count = self.node_count()
        if 'nodes' in self.parity_changed() and count != int(self.nodes):
            self.skip_case(f'nodes={self.nodes}: this case takes {counted(count, "node")}')
        return count

    @property
    def parity_networks(self):
        return self.current_partition.extras.get('networks') or {}

    @run_after('setup')
    def parity_choose_network(self):
        if not self.network:
            return
        networks = self.parity_networks
        if self.network not in networks:
            self.skip_case(f'network: {self.current_partition.name} names no network {self.network} '
                           f'({", ".join(networks) or "none"})')
        self.env_vars.update(networks[self.network]['env_vars'])

    def extra(self, key):
        """A fact of the partition; of its limits, those of the network that the case takes."""
        stated = super().extra(key)
        if key != 'limits' or self.network not in self.parity_networks:
            return stated
        of_network = self.parity_networks[self.network].get('limits')
        return {**(stated or {}), **of_network} if of_network else stated

    def ranks_on(self, nodes):
        """Ranks of ``nodes`` nodes with ``ranks_a_node`` on each; the case is skipped where they cannot be."""
        cores = self.extra('cores') or 1
        on_each = cores if self.ranks_a_node == 'all' else int(self.ranks_a_node)
        if on_each > cores:
            self.skip_case(f'cores: {counted(on_each, "rank")} a node, a node has {cores}')
        return nodes * on_each

    def not_taken(self, *names):
        """Skip the case where a placement was asked for that the check does not take: it has its own."""
        for name in set(names) & set(self.parity_changed()):
            self.skip_case(f'{name}={getattr(self, name)}: this check places its ranks by itself')

    def place_where(self, ranks=None, even=1):
        """Place ranks within one node or between several: ``ranks``, or all that fit in a multiple of ``even``."""
        nodes = self.take_nodes()
        if self.two_ranks:
            ranks = 2
        if ranks:
            self.not_taken('ranks_a_node')
        wanted = ranks or self.ranks_on(nodes)
        cores = (self.extra('cores') or 1) * nodes
        if cores < 2 or wanted < 2:
            self.skip_case('one rank: nobody to send to', Kind.RANKS)
        surplus = wanted % (nodes * even)
        if wanted > surplus:
            wanted -= surplus
        self.place_ranks(wanted, nodes)

    def place_ranks(self, ranks=None, nodes=None):
        """Ask for ``ranks`` of one thread each, evenly on ``nodes``; by default for all cores."""
        nodes = nodes or int(self.nodes)
        ranks = ranks or self.ranks_on(nodes)
        if ranks % nodes:
            self.skip_case(f'{counted(ranks, "rank")} cannot be spread evenly over {counted(nodes, "node")}')
        self.asked = placement.RankLayout(nodes, ranks, self.binding, self.order)
        self.env_vars.update(OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1)
        self.launch(self.asked)
        self.num_cpus_per_task = 1

    def launched(self, words):
        """Return the command of the job's script that starts these words on the ranks of the case."""
        self.job.num_tasks = self.num_tasks
        self.job.num_tasks_per_node = self.num_tasks_per_node
        self.job.num_cpus_per_task = self.num_cpus_per_task
        return f'{self.job.launcher.run_command(self.job)} {words}'

    def dense_problem(self, fraction, seconds):
        """Return the dense system for a share of the memory and so many seconds (`sizing.dense`).

        The rate is the site's, never the newest night's: N is of the case, and must stay as it is."""
        simd = (self.extra('machine') or {}).get('simd', ())
        gflops_a_core = self.extra('gflops_a_core') or sizing.gflops_guess(simd)
        gflops = self.num_tasks * gflops_a_core
        memory = int(self.nodes) * self.extra('memory_bytes')
        return sizing.dense(memory, self.num_tasks, fraction, seconds, gflops)

    @run_before('run', always_last=True)
    def parity_note_ranks(self):
        """Every rank notes where it is, then becomes the program: programs/rank.sh."""
        if self.standalone:
            return
        self.stage_program('rank.sh')
        self.prerun_cmds = [*self.prerun_cmds, *placement.NOTE_NODE]
        if self.network and self.asked.nodes > 1:
            self.prerun_cmds = [*self.prerun_cmds, traffic.command(traffic.BEFORE)]
            self.postrun_cmds = [traffic.command(traffic.AFTER), *self.postrun_cmds]
        options = []
        if self.device_api:
            self.stage_program('gpus.py')
            options = ['--device', self.device_api]
        if self.profile:
            library = self.program(self.profiler.binaries[0])
            _, preload = room(self.profiler).PROFILE
            options += ['--preload', library, preload]
        self.executable_opts = [*options, self.executable, *self.executable_opts]
        self.executable = './rank.sh'

    def parity_beside(self):
        """Check where the ranks ran, and return the figures of the profile. Raises Misplaced."""
        ran = placement.read(Path(self.stagedir, 'ranks'))
        self.parity.placement = {**vars(self.asked), 'ran': ran.as_records()}
        misplaced = placement.problem(self.asked, ran)
        if misplaced:
            raise placement.Misplaced(f'placement: {misplaced}')
        if self.network and self.asked.nodes > 1:
            self.parity.traffic = traffic.counted(Path(self.stagedir))
            why = traffic.problem(self.network, self.parity_networks, self.parity.traffic, self.sent_bytes)
            if why:
                raise Wrong(why)
        return self._parity_profile() if self.profile else {}

    def _parity_profile(self):
        found = room(self.profiler)
        reports = sorted(Path(self.stagedir).glob(found.PROFILE[0]))
        if len(reports) != 1:
            raise Incomplete(f'{self.profiler.name} wrote {len(reports)} reports, must write one: was it loaded?')
        values, facts = found.read(reports[0].read_text(errors='replace'))
        if facts['tasks'] != self.num_tasks:
            raise Wrong(f'{self.profiler.name} saw {facts["tasks"]} tasks, asked for {self.num_tasks}')
        self.parity.profile = facts
        return {m.name: values[m.name] for m in found.METRICS}
