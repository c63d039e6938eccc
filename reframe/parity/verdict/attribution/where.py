"""Where a slower figure comes from: one node, one partition, or everything; told by the nodes of jobs.

A node is named only when every figure that it had part in tonight is slow and every one that it had no
part in is not: of a job on several nodes none is to blame alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parity.verdict.attribution.model import Where, several
from parity.verdict.attribution.slow import level


@dataclass(frozen=True)
class Figure:
    """One figure of the cell, or of its like in another partition or environment."""

    partition: str
    nodes: frozenset[str]
    start: float                     # of its session, Unix time
    tonight: bool
    slow: bool


def figures(rows: Iterable[Mapping[str, Any]], session: str, good: float) -> list[Figure]:
    """The figures of one case, size and metric, oldest first, that can be told slow or not.

    ``rows`` are of parity.records.history.load, of all partitions and environments; reruns of ``session`` count
    as tonight's. ``good``: when the last good night of the cell began.
    """
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault((row['partition'], row['environ']), []).append(row)
    found = []
    for (partition, _), own in groups.items():
        known = level(own, good)
        for row in own if known else ():
            slow = known.slow(row['value'])
            if slow is not None:
                found.append(Figure(partition, frozenset(filter(None, row['node'].split(','))), row['start'],
                                    session in (row['session'], row['rerun_of']), slow))
    return sorted(found, key=lambda f: f.start)


def of(found: list[Figure], partition: str) -> Where:
    """Where the slow figures of tonight in ``partition`` come from."""
    own = [f for f in found if f.partition == partition]
    slow = [f for f in own if f.tonight and f.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = [w for node in sorted(frozenset().union(*(f.nodes for f in slow))) if (w := _apart(node, own))]
    if len(apart) == 1:
        return apart[0]
    return _partitions(found, own, partition)


def _apart(node: str, own: list[Figure]) -> Where | None:
    """The node, if its figures are slow tonight and those without it were not since its own became so."""
    with_it = [f for f in own if node in f.nodes]
    if not all(f.slow for f in with_it if f.tonight):
        return None
    fine_until = max((f.start for f in with_it if not f.slow), default=float('-inf'))
    since = min(f.start for f in with_it if f.start > fine_until)
    others = [f for f in own if f.nodes and node not in f.nodes and f.start >= since]
    if not others or any(f.slow for f in others):
        return None
    fine = sorted(frozenset().union(*(f.nodes for f in others)))
    return Where(kind='node', name=node, why=f'not slow on {several(fine)}')


def _partitions(found: list[Figure], own: list[Figure], partition: str) -> Where:
    """All nodes alike: is it this partition, or every one that measured the same?"""
    nodes = sorted(frozenset().union(*(f.nodes for f in own if f.tonight)))
    slow, fine = set(), set()
    for name in {f.partition for f in found if f.tonight}:
        tonight = [f.slow for f in found if f.partition == name and f.tonight]
        (slow if sum(tonight) > len(tonight) / 2 else fine).add(name)
    if partition in fine:
        return Where(why=f'{sum(f.slow for f in own if f.tonight)} of '
                         f'{sum(f.tonight for f in own)} figures of this night are slow')
    if len(slow) > 1 and not fine:
        return Where(kind='everything', name=', '.join(sorted(slow)), why=f'slow on {", ".join(sorted(slow))}')
    if fine:
        return Where(kind='partition', name=', '.join(sorted(slow)), why=f'not slow on {", ".join(sorted(fine))}')
    if len(nodes) > 1:
        return Where(kind='partition', name=partition,
                     why=f'slow on {several(nodes)}; no other partition was measured')
    return Where(why=f'only {several(nodes) or "an unknown node"} was measured')


def by_cells(slow: Mapping[str, list[frozenset[str]]], fine: Mapping[str, list[frozenset[str]]]) -> Where | None:
    """The one node that all slow cells ran on, and no other: {case: the nodes of each of its runs tonight}.

    For cells of one partition and subsystem, each of which may have run on one node only. One slow case
    says nothing of its node.
    """
    runs = [nodes for each in slow.values() for nodes in each]
    elsewhere = frozenset().union(*(nodes for each in fine.values() for nodes in each))
    if len(slow) < 2 or not elsewhere or not runs:
        return None
    suspects = frozenset.intersection(*runs) - elsewhere
    if len(suspects) != 1:
        return None
    return Where(kind='node', name=min(suspects),
                 why=f'{len(slow)} slow cases ran there, {len(fine)} elsewhere are not slow')
