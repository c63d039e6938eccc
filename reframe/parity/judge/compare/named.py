"""Nodes that incidents name: their nights are no measure of the partition that they belong to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parity.base.figures import counted, several
from parity.judge.compare.model import Measured, Value
from parity.judge.store import incidents

#: A night's begin is rounded where it is stored with an incident, seconds.
_CLOCK = 1.0


@dataclass(frozen=True)
class NamedNode:
    """A node that an incident names, from its first bad night until the night that ended it (Unix times)."""

    name: str
    incident: int                    # its number; 0: tonight's, which has none yet
    begin: float
    end: float = math.inf


def of_system(system: str, until: float = math.inf) -> list[NamedNode]:
    """Return the nodes that the incidents of a system name, of those that were opened ``until`` then."""
    named = []
    for incident in incidents.of_system(system):
        if incident.opened.start > until:
            continue
        end = incident.closed.start if incident.closed else math.inf
        begin = incident.begin or incident.since
        named += [NamedNode(name, incident.number, begin, end) for name in incident.nodes]
    return named


def leave_out(cell: Measured, named: Sequence[NamedNode], starts: Mapping[str, float]) -> None:
    """Leave the runs on named nodes out of a cell, and say so; ``starts``: when each session began.

    Where the cell ran on no other node, all of its partition is slow, and its runs stay."""
    kept: list[Value] = []
    slow, nights, incidents_of = set(), set(), set()       # nodes, sessions and incidents of the other runs
    for value in cell.values:
        start = starts.get(value.session, 0.0)
        node = _node_of(value, named, start)
        if node is None:
            kept.append(value)
            continue
        slow.add(node.name)
        nights.add(value.session)
        incidents_of.add(node.incident)
    if not slow or all(slow.intersection(value.nodes) for value in kept):
        return
    numbers = sorted(incidents_of - {0})
    of_incidents = ''
    if numbers:
        listed = several([f'incident {number}' for number in numbers])
        of_incidents = f' ({listed})'
    count = counted(len(nights), 'night')
    nodes = several(sorted(slow))
    cell.left_out = f'{count} on {nodes}{of_incidents} left out'
    cell.every, cell.values = cell.values, kept


def _node_of(value: Value, named: Sequence[NamedNode], start: float) -> NamedNode | None:
    """Return the named node on which a run was, in a session that began then; None where it was on none."""
    for node in named:
        if node.name in value.nodes and node.begin - _CLOCK <= start < node.end:
            return node
    return None
