"""What is known of the cause of a slower figure; what is not known stays empty."""

from __future__ import annotations

import datetime
from typing import Literal

from parity.base.strict import Strict

#: Nodes that are named one by one in a sentence.
_NAMED = 4


class Change(Strict):
    """A fact that differs between the last good night and the bad one."""

    fact: str                        # kernel, microcode, mpi, nodes, ...
    old: str
    new: str
    nodes: list[str] = []            # where it changed; none: not a fact of a node
    since: float                     # when the first session began that had the new value (Unix time)

    def __str__(self) -> str:
        day = datetime.datetime.fromtimestamp(self.since).date()
        on = f' on {several(self.nodes)}' if self.nodes else ''
        return f'{self.fact} {self.old} -> {self.new}{on} since {day}'


class Where(Strict):
    """One node, one partition or everything; '' where that cannot be told. ``why`` is the evidence."""

    kind: Literal['node', 'partition', 'everything', ''] = ''
    name: str = ''
    why: str = ''

    def __str__(self) -> str:
        named = {'node': f'this node: {self.name}', 'partition': f'partition {self.name}',
                 'everything': 'everything', '': 'cannot be told'}[self.kind]
        return f'{named} ({self.why})' if self.why else named


class Subsystem(Strict):
    """What part of a machine moves with the cells that are slower; '' where none can be told."""

    name: str = ''
    why: str = ''
    cells: list[str] = []            # those that support it, as parity.records.history.cell_id prints them

    def __str__(self) -> str:
        return f'{self.name or "cannot be told"} ({self.why})' if self.why else self.name


class Attribution(Strict):
    """Where, in what part of the machine, and what changed."""

    where: Where = Where()
    subsystem: Subsystem = Subsystem()
    changes: list[Change] = []

    def lines(self, changes: int | None = None) -> list[str]:
        """What is known, a line each, with no more than so many changes; what is not known has none."""
        told = [f'changed: {change}' for change in self.changes]
        left = len(told) - len(told[:changes])
        return list(filter(None, (f'where: {self.where}', f'part: {self.subsystem}' if str(self.subsystem) else '',
                                  *told[:changes], f'changed: {left} facts more' if left else '')))


def several(names: list[str]) -> str:
    """'v1, v2, v3, v4 and 12 more'."""
    rest = len(names) - _NAMED
    return ', '.join(names[:_NAMED]) + (f' and {rest} more' if rest > 0 else '')
