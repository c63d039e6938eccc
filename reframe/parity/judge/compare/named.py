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
    left_out: list[tuple[Value, NamedNode]] = []
    for value in cell.values:
        node = _node_of(value, named, starts.get(value.session, 0.0))
        if node is None:
            kept.append(value)
        else:
            left_out.append((value, node))
    slow = {node.name for _, node in left_out}
    if not left_out or all(slow.intersection(value.nodes) for value in kept):
        return
    nights = len({value.session for value, _ in left_out})
    numbers = [f'incident {number}' for number in sorted({node.incident for _, node in left_out} - {0})]
    of_incidents = f' ({several(numbers)})' if numbers else ''
    cell.left_out = f'{counted(nights, "night")} on {several(sorted(slow))}{of_incidents} left out'
    cell.every, cell.values = cell.values, kept


def _node_of(value: Value, named: Sequence[NamedNode], start: float) -> NamedNode | None:
    """Return the named node on which a run was, in a session that began then; None where it was on none."""
    for node in named:
        if node.name in value.nodes and node.begin - _CLOCK <= start < node.end:
            return node
    return None
