"""The mixins under checks of threads and of kernels that the job compiles."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import median

import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, variable

from parity.base.figures import counted
from parity.base.reasons import Kind
from parity.measure.check.reader import Incomplete, Lines, Wrong, sections
from parity.measure.check.workload import Workload
from parity.measure.scheduler import placement


class Threaded(Workload):
    """``count`` threads of OpenMP, bound and spread over the cores of one node. ``thread_count`` is a number of
    them, which threads=all takes instead."""

    threads = parameter(['one', 'half', 'all'], type=str)
    thread_count = variable(typ.Str[r'([1-9]\d{0,3})?'], value='')

    def spread_threads(self):
        """Set ``count``, and the job that has room for it; skips what another case runs already."""
        cores = self.extra('cores') or 1
        counts = {'one': 1, 'half': max(1, cores // 2), 'all': cores}
        self.count = counts[self.threads]
        asked_for = self.threads == 'all' and self.parity_changed()     # the case of a study has no other
        if self.threads != 'one' and self.count == 1 and not asked_for:
            self.skip_case(f'{counted(cores, "core")}: the same as threads=one', Kind.SAME)
        if self.thread_count:
            self.count = int(self.thread_count)
            if self.threads != 'all':
                self.skip_case('thread_count: a case of threads=all takes it')
            if self.count > cores:
                self.skip_case(f'{counted(self.count, "thread")}: a node has {counted(cores, "core")}')
        self.num_tasks = 1
        self.num_cpus_per_task = cores      # all cores, or a scheduler packs the threads
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


#: One after another, more pairs than this only with size=acceptance: at a second each, 8 minutes.
MOST = 500


class Paired(Workload):
    """Two ranks, one a node; ``programs`` of ours that they need lie beside them."""

    programs = ('pairs.py', 'rank.sh')

    def node_count(self):
        if hasattr(self, 'where'):
            return super().node_count()
        return int(getattr(self, 'nodes', '') or 0) or None         # None: all of the partition

    def pair_up(self, nodes, in_flight, command, binding='core', cpus=1, limit=120, group=''):
        """Run ``command`` (words of the job script) between every two of ``nodes``, so many pairs at once. Each
        rank has ``cpus`` of its node's CPUs; a pair that takes longer than ``limit`` seconds has failed.
        ``group`` disjoint: each node of the first half has one partner, in the second half. three: no pairs, but
        the first three nodes."""
        available = self.extra('nodes') or 1
        if available < nodes or nodes < 2:
            self.skip_case(f'nodes: needs {max(nodes, 2)}, {self.current_partition.fullname} has {available}, '
                           'or does not state `nodes`', Kind.NODES)
        self.num_tasks = nodes
        self.num_tasks_per_node = 1
        self.num_cpus_per_task = self.extra('cores') or 1
        self.without_launcher()
        self.env_vars.update(placement.variables(placement.RankLayout(nodes, nodes, binding)))
        launcher = 'srun' if self.current_partition.launcher_type.registered_name == 'srun' else 'mpirun'
        options = [f'--in-flight {in_flight}', f'--cpus {cpus} --limit {limit}']
        if group:
            options.append(f'--{group}')
        self.executable = 'python3'
        self.executable_opts = [f'pairs.py --launcher {launcher}', *options, '--', *command]

    def all_pairs(self, one_by_one):
        """Every two nodes of the partition, or of `nodes`: (nodes, pairs in flight). Skips what would take a
        night."""
        nodes = self.node_count() or self.extra('nodes') or 1
        count = nodes * (nodes - 1) // 2
        if one_by_one and count > MOST and self.size != 'acceptance':
            self.skip_case(f'{count} pairs of {nodes} nodes one after another: only with size=acceptance',
                           Kind.SIZE)
        return nodes, 1 if one_by_one else nodes // 2

    def disjoint_pairs(self, most, one_by_one, each=2):
        """Return (nodes, pairs in flight) of at most so many pairs, each node in one; ``each``: nodes a pair."""
        nodes = self.node_count() or self.extra('nodes') or 1
        pairs = max(1, min(most, nodes // each))
        return each * pairs, 1 if one_by_one else pairs


_PAIR = r'parity-pair (\S+) (\S+)'
_END = r'parity-pair-end (\S+) (\S+) exit (?P<exit>-?\d+) seconds \d+\.\d{3}'


@dataclass(frozen=True)
class Sweep:
    """The figure of each pair of nodes at one message size: a time (us), or a bandwidth (MB/s)."""

    figures: dict[tuple[str, str], float]
    is_time: bool

    def slowest(self) -> tuple[float, tuple[str, str]]:
        """The longest latency or the lowest bandwidth, and its pair of nodes."""
        by_figure = [(figure, pair) for pair, figure in self.figures.items()]
        return max(by_figure) if self.is_time else min(by_figure)

    def metrics(self) -> dict[str, float]:
        """median, worst and worst_over_median: 1 is even, and more is worse for times and bandwidths."""
        middle = median(self.figures.values())
        worst, _ = self.slowest()
        ratio = worst / middle if self.is_time else middle / worst
        return {'median': middle, 'worst': worst, 'worst_over_median': ratio}


def by_pair(text: str, disjoint: bool = False) -> dict[tuple[str, str], str]:
    """Return what the program printed for each pair of nodes, by name; of ``disjoint`` ones a node is in one.
    Raises Incomplete where a pair or the end is absent, or a pair failed, Wrong where one came twice."""
    out = Lines([line.rstrip('\r') for line in text.split('\n')])     # a checksum may be of any blank
    nodes = out.count(r'parity-pairs 1 nodes (\d+) in-flight \d+')
    failed = out.count(r'parity-pairs-end failed (\d+)', zero=True)
    outputs: dict[tuple[str, str], str] = {}
    for begin, output in sections(out, _PAIR, _END):
        first, second = begin.groups()
        if (first, second) in outputs or (second, first) in outputs:
            raise Wrong(f'pair {first} {second} stands twice')
        outputs[first, second] = output
    if failed:
        raise Incomplete(f'line {out.end}: {counted(failed, "pair")} failed')
    names = {name for pair in outputs for name in pair}
    expected = nodes // 2 if disjoint else math.comb(len(names), 2)
    if len(names) != nodes or len(outputs) != expected:
        raise Incomplete(f'line {out.end}: {len(outputs)} pairs of {len(names)} nodes, there are {nodes} nodes')
    in_order = sorted(outputs, key=lambda pair: _numbers(' '.join(pair)))
    return {pair: outputs[pair] for pair in in_order}


def _numbers(names: str) -> list[str]:
    """Return what puts c9 before c10."""
    return [part.zfill(9) if part.isdecimal() else part for part in re.split(r'(\d+)', names)]
