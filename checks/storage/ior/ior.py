"""IOR 4.0 (LLNL): bandwidth of files written and read by all ranks, POSIX and MPI-IO.

Writes end with fsync (-e), so that no figure is of a write into memory. What one node wrote it would
read out of its own memory: so another node reads it (-C -Q); on one node the reads go past the cache
(direct I/O), or the file is twice the memory, or the figure is labelled `cached`. The storage
server's own cache cannot be seen from a client: the case's facts say so.
"""

import math

import reframe as rfm
from ior_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after

from parity.check import Metric, Storage, Wrong

MIB = 1 << 20
# bytes that a node writes, repetitions; by size
SIZES = {'quick': (256 * MIB, 3), 'nightly': (4096 * MIB, 3), 'acceptance': (32768 * MIB, 5)}


@rfm.simple_test
class Ior(rfm.RunOnlyRegressionTest, Storage):
    """All cores of 1 node or of 2 and more, a file a rank or one shared by all, in transfers of 1 MiB."""

    api = parameter(['POSIX', 'MPIIO'], type=str)
    access = parameter(['file-per-process', 'single-shared-file'], type=str)
    span = parameter([1, 2], type=int)
    metrics = (Metric('write', 'MiB/s', 'higher'), Metric('read', 'MiB/s', 'higher'))

    def node_count(self):
        return self.at_least(self.span)

    @run_after('setup')
    def place(self):
        self.place_ranks(nodes=self.take_nodes())
        size, repetitions = SIZES[self.size]
        self.direct_asked = self.api == 'POSIX' and self.span == 1
        block, repetitions, *direct = self.room_of_blocks(size, repetitions)
        self.executable = self.program('ior')
        self.executable_opts = [f'-a {self.api}', f'-b {block} -t {MIB} -i {repetitions}', '-e -w -r',
                                '-o "$folder/data"']
        if self.access == 'file-per-process':
            self.executable_opts.append('-F')
        self.executable_opts += direct
        if self.span > 1:
            self.executable_opts.append('-C -Q 1')      # the offset is in nodes

    def room_of_blocks(self, size, repetitions):
        """Take room for what all ranks write. Words of the script: a rank's bytes, repetitions, direct I/O."""
        ranks = self.num_tasks
        without = self.whole_blocks(self.bytes_without_direct(size) if self.span == 1 else size)
        direct = self.whole_blocks(size)
        if not self.direct_asked:
            plan = self.plan_bytes([without, direct], repetitions, self.on)
            self.take_room(plan.repetition_bytes, ranks)
            return [plan.repetition_bytes // ranks, plan.repetitions]
        first, second = self.plan_direct(direct, without, repetitions)
        self.take_room_for_direct(first.repetition_bytes, second.repetition_bytes, ranks)
        self.prerun_cmds.append('odirect=(); [ "$direct" = 0 ] || odirect=(--posix.odirect)')
        block = f'"$((bytes / {ranks}))"'
        repetitions = f'"$((direct ? {first.repetitions} : {second.repetitions}))"'
        return [block, repetitions, '"${odirect[@]}"']

    def whole_blocks(self, node_bytes):
        """Return the bytes of all ranks, of which each writes whole MiB, for so many bytes of a node."""
        blocks = max(1, math.ceil(node_bytes / self.num_tasks_per_node / MIB))
        return blocks * MIB * self.num_tasks

    def parse(self, text):
        values, facts = read(text)
        if self.span > 1 and (facts['reorder'], facts['task_offset']) != ('constant task offset', 1):
            raise Wrong('every rank reads what it wrote itself: no -C')
        direct = self.direct_asked and self.took_direct()
        self.demand_as_asked(facts, 'yes' if direct else 'no')
        self.note({**facts, **self.caches_known()})
        one_kernel = self.span == 1 or self.one_kernel_has_it()
        memory = self.extra('memory_bytes') or math.inf
        size = facts['aggregate_bytes']
        if one_kernel and not direct and size < 2 * memory:
            nodes = self.node_count()
            self.label(['read'], 'cached', f'{size / 1e9:.3g} GB that the same kernel wrote may be in its memory: '
                       f'no direct I/O with {self.api} on {nodes} nodes')
        return values

    def demand_as_asked(self, facts, direct):
        """Raise Wrong for another run than the case asked for."""
        names = ('api', 'access', 'nodes', 'tasks', 'fsync', 'direct')
        ran = tuple(facts[name] for name in names)
        asked = (self.api, self.access, self.node_count(), self.num_tasks, 'yes', direct)
        if ran != asked:
            raise Wrong(f'ran {", ".join(names)} {ran}, asked for {asked}')
