"""The verdict on a contract as data: terminal and page print the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from parity.judge.contract.evidence import Measured
from parity.site.contract import Clause

Word = Literal['met', 'not met', 'open', 'missing']
#: In the order in which a person reads them. A clause is missing where nothing can run its check.
WORDS: tuple[Word, ...] = ('not met', 'open', 'missing', 'met')


@dataclass(frozen=True)
class NodeFigure:
    """A node and its figure, in the unit of the clause. ``low`` and ``high`` are None before its first look.

    ``looked``: the runs that they are made of. ``target``: those that its next look needs; 0 where it is decided.
    ``word`` and ``reason`` are of the run that fails it, or of its last run where that does not count."""

    name: str
    values: tuple[float, ...] = ()      # of the runs that count, oldest first
    value: float | None = None          # their median
    low: float | None = None
    high: float | None = None
    looked: int = 0
    target: int = 0
    word: str = ''
    reason: str = ''

    @property
    def fails(self) -> bool:
        """Return whether a wrong answer or an impossible figure fails it: no run mends that."""
        return self.word in ('impossible', 'wrong')


@dataclass(frozen=True)
class ClauseVerdict:
    """A clause as it stands. ``value``: the level of the node that decides, in the unit of the clause."""

    clause: Clause
    word: Word = 'open'
    reason: str = ''
    value: float | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0                       # that count and that every node has
    first: int = 0                      # runs of each node that its first look needs
    further: int | None = None          # runs of each open node that would decide it; None: not known
    nodes: tuple[NodeFigure, ...] = ()          # the worst first
    failing: tuple[NodeFigure, ...] = ()        # those that surely break the promise, the worst first
    measured: tuple[Measured, ...] = ()

    @property
    def looked(self) -> int:
        """Return the runs that each node was looked at by, at least."""
        return min((node.looked for node in self.nodes), default=0)

    @property
    def most_looked(self) -> int:
        return max((node.looked for node in self.nodes), default=0)

    def target(self, node: str) -> int:
        """Return the runs that the next look at a node needs; 0 where none is to come.

        '' is whichever node takes the job. A node without any figure has its first look to come."""
        if self.word != 'open':
            return 0
        targets = {figure.name: figure.target for figure in self.nodes}
        if node in targets:
            return targets[node]
        return max(targets.values(), default=self.first) if not node else self.first
