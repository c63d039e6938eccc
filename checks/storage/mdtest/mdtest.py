"""mdtest 4.0 (LLNL, with IOR): rates of metadata operations on small files and directories.

Files hold 1 KiB. With -N 1 a rank stats what the next node made, reads what the second next did, removes
what the third did: on two nodes stat and remove are of the other's files, read is of its own. What the
same kernel made it remembers: these figures are labelled `cached`.
"""

import reframe as rfm
from mdtest_output import PROGRAM, read  # noqa: F401
from reframe.core.builtins import parameter, run_after

from parity.check import Kind, Metric, Storage, Wrong

KIB = 1024
# files and directories of each rank, iterations; by size
SIZES = {'quick': (200, 3), 'nightly': (2000, 3), 'acceptance': (10000, 5)}


@rfm.simple_test
class Mdtest(rfm.RunOnlyRegressionTest, Storage):
    """1, half or all cores of 1 node or 2 as clients, in one shared directory or one for each."""

    directories = parameter(['shared', 'unique'], type=str)
    clients = parameter(['one', 'half', 'all'], type=str)
    span = parameter([1, 2], type=int)
    metrics = tuple(Metric(name, '1/s', 'higher') for name in (
        'file_create', 'file_stat', 'file_read', 'file_remove', 'dir_create', 'dir_stat', 'dir_remove'))

    def node_count(self):
        return self.at_least(self.span)

    @run_after('setup')
    def place(self):
        self.not_taken('ranks_a_node')
        nodes = self.take_nodes()
        cores = self.extra('cores') or 1
        on_a_node = {'one': 1, 'half': cores // 2, 'all': cores}[self.clients]
        if self.clients != 'one' and on_a_node < 2:
            self.skip_case(f'{cores} cores: the same as clients=one', Kind.SAME)
        self.place_ranks(on_a_node * nodes, nodes)
        self.items, iterations = SIZES[self.size]
        all_items = self.items * self.num_tasks
        plan = self.plan_bytes([4 * KIB * all_items], iterations, self.on)
        self.iterations = plan.repetitions
        self.take_room(4 * KIB * all_items, 2 * all_items)
        self.executable = self.program('mdtest')
        self.executable_opts = [f'-n {self.items} -i {self.iterations}', f'-w {KIB} -e {KIB}', '-d "$folder"']
        if self.directories == 'unique':
            self.executable_opts.append('-u')
        if self.span > 1:
            self.executable_opts.append('-N 1')         # in nodes

    def parse(self, text):
        values, facts = read(text)
        ran = (facts['tasks'], facts['nodes'], facts['items'], facts['iterations'])
        asked = (self.num_tasks, self.node_count(), self.items, self.iterations)
        if ran != asked:
            raise Wrong(f'ran {ran} tasks, nodes, items, iterations, asked for {asked}')
        self.note({**facts, **self.caches_known()})
        remembered = ['file_read']
        if self.span == 1 or self.one_kernel_has_it():
            remembered = ['file_stat', 'file_read', 'dir_stat']
        self.label(remembered, 'cached', 'the kernel that made the files remembers them')
        return values
