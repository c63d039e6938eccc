"""The faults that are planted in a life. Each knows its cells, its place, its part, and its nights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple

import numpy as np

#: Groups of cells that memory slows down, and by how much of its own slowdown.
_MEMORY = {'memory': 1.0, 'memory-bound codes': 0.7}
_CLOCK = 'compute clock'
#: The check that a compiler slows down.
_CODE = 'Npb'
#: A fault lasts to the end of the life.
EVER = 10 ** 6


class Cell(NamedTuple):
    """One figure of a case. ``sd``: of a night, as a share; ``usual``: its first level."""

    name: str
    partition: str
    environ: str
    check: str
    case: str
    metric: str
    better: str
    subsystem: str
    group: str
    usual: float
    sd: float
    nodes: int


#: What a cell loses of its speed on some nodes in a night.
Share = Callable[[Cell, Sequence[str], int], float]
#: Kind and names of a place, and the parts of the machine.
Where = tuple[tuple[str, frozenset[str]], frozenset[str]]


@dataclass(eq=False)
class Fault:
    """Nights [first, end), by the number of the measured night.

    ``share``: what is lost of a cell's speed on these nodes in that night. ``word``: regressed, or the status of
    its runs; `other work` for what begins anew. ``places``: node, partition, or everything, and its names.
    ``parts``: of the machine, by which it may be named. ``acked``: the operator acknowledges it after a night.
    ``accepted``: the operator accepts it, and that ends it. ``after``: the fault that it makes worse.
    ``incidents``: that it may open; more than one of a fault that comes and goes. ``fades``: it begins below what
    shows, so that there is no night on which it must be told. ``drawn``: the nights on which the first jobs run on
    the node of its place; on others none does."""

    kind: str
    first: int
    end: int
    share: Share
    place: tuple[str, frozenset[str]]
    parts: frozenset[str]
    word: str = 'regressed'
    reason: str = ''
    acked: bool = False
    accepted: bool = False
    after: Fault | None = None
    incidents: int = 1
    fades: bool = False
    drawn: Callable[[int], bool] | None = None
    facts: dict[str, str] = field(default_factory=dict)

    def loss(self, cell: Cell, nodes: Sequence[str], night: int) -> float:
        """Return what is lost of a cell's speed, as a share; 1 of one that does not run."""
        return self.share(cell, nodes, night) if self.first <= night < self.end else 0.0

    def shift(self, cell: Cell, nodes: Sequence[str], night: int) -> float:
        """Return the change of the logarithm of the speed. What is accepted stays."""
        end = EVER if self.accepted else self.end
        slows = self.word in ('regressed', 'other work') and self.first <= night < end
        return log(1 - self.share(cell, nodes, night)) if slows else 0.0


def planted(rng: np.random.Generator, cells: list[Cell], nodes: dict[str, list[str]], begin: int) -> list[Fault]:
    """Return the faults of a life whose references are accepted before night ``begin``."""
    plan = _Planted(rng, cells, nodes, begin)
    return [*plan.early(), *plan.middle(), *plan.late()]


def story(name: str, cells: list[Cell], nodes: dict[str, list[str]], begin: int) -> list[Fault]:
    """Return the faults of one of the STORIES, which begin on night ``begin``."""
    plan = _Planted(np.random.default_rng(0), cells, nodes, begin)
    return [*STORIES[name](plan)]


class _Planted:
    """Faults in three partitions, which change places from life to life; no two have the same chosen case."""

    def __init__(self, rng: np.random.Generator, cells: list[Cell], nodes: dict[str, list[str]], begin: int):
        self._rng, self._cells, self._taken, self._nodes, self._begin = rng, cells, set(), nodes, begin
        self.one, self.two, self.three = (str(name) for name in rng.permutation([p for p in nodes if p != 'gpu']))
        self.every = 'everything', frozenset(nodes)

    def early(self) -> Iterator[Fault]:
        first = self._case(self.two, ('compute',), 0.015)
        metric = min((c for c in self._cells if (c.partition, c.case) == (self.two, first)), key=lambda c: c.sd)
        yield self._fault('network at 90 %', 0, 4, _group('network', 0.1), (self.every, _parts('network')))
        yield self._fault('memory of a partition -6 %', 8, 24, _memory(self.one, 0.06), _place(self.one, 'memory'),
                          acked=True)
        yield self._fault('one metric -5 %', 14, 30, lambda cell, _, __: 0.05 * (cell.name == metric.name),
                          _place(self.two, metric.subsystem, metric.group, _CLOCK))
        yield self._dead(18)
        yield self._of_case('a timeout', 20, 23, self.two, ('storage',), 1.0, word='failed',
                            reason='time limit reached, 3600 s (job {job} on {node}: TIMEOUT)')
        drifting = self._case(self.three, ('compute', 'within a node'), 0.015)
        yield self._fault('a drift of 5 % in 60 nights', 20, 95, lambda cell, _, night: 0.05 * min(
            1, (night - self._begin - 20) / 60) * (cell.case == drifting and cell.partition == self.three),
            _place(self.three, 'compute', 'within a node', 'network', _CLOCK), fades=True)
        yield self._of_case('a wrong answer', 26, 28, self.three, ('compute', 'memory-bound codes'), 1.0,
                            word='wrong', reason='the residual is 1.3e+02, larger than 16')
        yield self._of_case('a unit', 28, EVER, self.three, ('network',), 0.999, word='other work', reason='unit')

    def middle(self) -> Iterator[Fault]:
        slow = str(self._rng.choice(self._nodes[self.two]))
        yield self._of_case('a case missing', 30, 31, self.one, ('network',), 1.0, word='missing')
        yield self._of_case('a changed size', 32, EVER, self.two, ('memory', 'memory-bound codes'), 0.5,
                            word='other work', reason='size')
        yield self._fault('one node -4 %', 34, 64, _on(slow, 0.04), _node(slow), acked=True)
        yield self._fault("a GPU's clock -8 %", 40, 55, lambda cell, _, __: 0.08 * (
            cell.subsystem == 'gpu' and cell.group in ('gpu', 'compute')), _place('gpu', 'gpu', 'compute', _CLOCK))
        three = ('everything', self.every[1] - {'gpu'}), _parts('storage')
        before = self._fault('storage -20 %', 46, 58, _group('storage', 0.2), three, acked=True)
        yield before
        yield self._fault('then -45 %', 58, 70, _group('storage', 0.45), three, acked=True, after=before)

    def late(self) -> Iterator[Fault]:
        swapped = str(self._rng.choice(self._nodes[self.three]))
        spells = self._case(self.two, ('storage', 'network', 'within a node'), 0.02)
        yield self._fault('latency +5 %', 74, 90, lambda cell, _, __: (1 - 1 / 1.05) * (
            cell.partition == self.one and cell.group == 'network' and cell.better == 'lower'),
            _place(self.one, 'network'))
        yield self._fault('-8 % for 3 nights in 8', 76, 116, lambda cell, _, night: 0.08 * (
            cell.case == spells and cell.partition == self.two and (night - self._begin - 76) % 8 < 3),
            _place(self.two, 'storage', 'network', 'within a node'), incidents=3)
        yield self._fault('a code -5 % with a compiler', 88, 104, lambda cell, _, __: 0.05 * (cell.check == _CODE),
                          (self.every, _parts('compute', 'memory-bound codes')), accepted=True,
                          facts={'compiler': '14.1.0'})
        yield self._fault('a node swapped, -10 %', 92, 128, _on(swapped, 0.1), _node(swapped),
                          facts={'swapped': swapped})
        yield self._fault('two causes: memory -7 %', 106, 122, _memory(self.one, 0.07), _place(self.one, 'memory'))
        yield self._fault('two causes: storage -10 %', 106, 122, lambda cell, _, __: 0.1 * (
            cell.partition == self.three and cell.group == 'storage'), _place(self.three, 'storage'))

    def outliers(self) -> Iterator[Fault]:
        """Single bad nights, which their reruns confirm."""
        for at, group in ((2, 'memory'), (6, 'storage'), (10, 'network')):
            yield self._of_case('one bad night -20 %', at, at + 1, self.two, (group,), 0.2)

    def kernel_beside_a_slow_clock(self) -> Iterator[Fault]:
        """The clock of a node, which the operator acknowledges; a night later a kernel takes memory everywhere."""
        slow = self._nodes[self.three][-1]
        clock = 'compute', 'memory-bound codes'
        yield self._fault('a slow clock -12 %', 0, EVER, lambda cell, on, _: 0.12 * (
            slow in on and cell.group in clock), _node(slow), acked=True, drawn=lambda _: True)
        yield self._fault('a kernel: memory -5 %', 1, EVER, _group('memory', 0.05), (self.every, _parts('memory')))

    def every_second_night(self) -> Iterator[Fault]:
        yield self._of_case('-12 % every second night', 0, 14, self.two, ('memory',), 0.12, spells=2, acked=True)

    def rare_node(self) -> Iterator[Fault]:
        """A slow node that jobs hit once a week."""
        slow = self._nodes[self.three][-1]
        begin = self._begin
        yield self._fault('a rare node -12 %', 0, EVER, _on(slow, 0.12), _node(slow),
                          drawn=lambda night: (night - begin) % 7 == 0)

    def _dead(self, at: int) -> Fault:
        """Jobs die on a node that seems free; the next night it takes no more jobs."""
        dead = str(self._rng.choice(self._nodes[self.three]))
        return self._fault('a dead node', at, at + 1, lambda cell, on, _: 1.0 * (dead in on),
                           _node(dead), word='failed', facts={'down': dead},
                           reason='a node failed (job {job} on {node}: NODE_FAIL)')

    def _fault(self, kind: str, first: int, end: int, share: Share, where: Where, **other: Any) -> Fault:
        return Fault(kind, self._begin + first, self._begin + end, share, *where, **other)

    def _of_case(self, kind: str, first: int, end: int, partition: str, groups: Sequence[str], share: float,
                 spells: int = 1, **other: Any) -> Fault:
        """Return a fault of one case of a partition, on one night of ``spells``."""
        case, begin = self._case(partition, groups), self._begin + first
        return self._fault(kind, first, end, lambda cell, _, night: share * (
            cell.case == case and cell.partition == partition and (night - begin) % spells == 0),
            _place(partition), **other)

    def _case(self, partition: str, groups: Sequence[str], sd: float = 1.0) -> str:
        """Return a case that no other fault has, with a figure no noisier than ``sd``, or else the calmest."""
        here = [c for c in self._cells if c.partition == partition and c.check != _CODE]
        free = [c for c in here if c.case not in self._taken]
        fit = [c for c in free if c.group in groups] or free or here
        calm = [c for c in fit if c.sd <= sd] or sorted(fit, key=lambda c: c.sd)[:1]
        self._taken.add(found := calm[self._rng.integers(len(calm))].case)
        return found


def _place(partition: str, *parts: str) -> Where:
    return ('partition', frozenset({partition})), _parts(*parts)


def _node(name: str) -> Where:
    return ('node', frozenset({name})), _parts()


def _parts(*parts: str) -> frozenset[str]:
    return frozenset(parts)


def _group(group: str, share: float) -> Share:
    return lambda cell, _, __: share * (cell.group == group)


def _memory(partition: str, share: float) -> Share:
    return lambda cell, _, __: share * _MEMORY.get(cell.group, 0.0) * (cell.partition == partition)


def _on(node: str, share: float) -> Share:
    """A slow partner slows the other nodes of a job. A file system and a network are not the node's."""
    return lambda cell, on, _: share * (node in on and cell.group not in ('network', 'storage'))


#: Short lives of one fault or two, by name: each mail of such a life can be read.
STORIES: dict[str, Callable[[_Planted], Iterator[Fault]]] = {
    'outliers': _Planted.outliers, 'kernel': _Planted.kernel_beside_a_slow_clock,
    'every-second-night': _Planted.every_second_night, 'rare-node': _Planted.rare_node}
