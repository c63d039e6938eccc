"""The verdict on a contract as data: terminal and page print the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from parity.judge.contract.evidence import Measured
from parity.judge.stats import promise
from parity.site.contract import Clause

Word = Literal['met', 'not met', 'open', 'missing']
#: In the order in which a person reads them. A clause is missing where nothing can run its check.
WORDS: tuple[Word, ...] = ('not met', 'open', 'missing', 'met')


@dataclass(frozen=True)
class NodeFigure:
    """A node and its figure, in the unit of the clause. ``low`` and ``high`` are None before its first look.

    ``word`` and ``reason`` are of the run that fails it, or of its last run where that does not count."""

    name: str
    values: tuple[float, ...] = ()      # of the runs that count, oldest first
    value: float | None = None          # their mean: of logarithms where all are above 0
    low: float | None = None
    high: float | None = None
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
    looked: int = 0                     # runs of each node that the interval is made of
    further: int | None = None          # runs of each node that would decide it; None: not known
    nodes: tuple[NodeFigure, ...] = ()          # the worst first
    failing: tuple[NodeFigure, ...] = ()        # those that surely break the promise, the worst first
    measured: tuple[Measured, ...] = ()

    @property
    def target(self) -> int:
        """Return the runs of each node that the next look needs; 0 where none is to come."""
        if self.word != 'open':
            return 0
        for look in range(promise.LOOKS):
            count = promise.runs_of_look(look, self.clause.runs)
            if count > self.looked:
                return count
        return 0
