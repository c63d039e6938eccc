"""Where a slower figure comes from, told by the nodes of jobs, and which part of the machine moves with it.

A figure is slow outside its band, or clear of what its good nights spread. A node is named only when every
figure that it had part in tonight is slow and every one that it had no part in is not: of a job on several
nodes none is to blame alone. The part is read from subsystems.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from pydantic import Field

from parity.base import yamlfile
from parity.base.strict import Strict
from parity.verdict.attribution.changes import Subsystem, Where, several

#: Fewer good figures than these tell no spread.
ENOUGH = 6
#: A drop is clear of the noise beyond so many standard deviations, and beyond this share of the median
#: (on the series of the study of 2012 this found 84 % of 5 % slowdowns in a night, once confirmed by a rerun).
_SIGMAS, _SHARE = 4.0, 0.03
#: No series is quieter than this share of its median: timers, and files of one second, show no spread at all.
_FLOOR = 0.005


@dataclass(frozen=True)
class Level:
    """The edges beyond which a figure is slow; None: not known."""

    low: float | None
    high: float | None
    better: str

    def slow(self, value: float) -> bool | None:
        """Whether ``value`` is beyond the edge on the bad side; None where there is no such edge."""
        edge = self.low if self.better == 'higher' else self.high
        if edge is None:
            return None
        return value < edge if self.better == 'higher' else value > edge


def level(rows: Iterable[Mapping[str, Any]], good: float) -> Level | None:
    """The level of one cell; ``rows``: its figures, oldest first, with start, value, better, low and high.

    The newest accepted band decides; without one, median and spread of the nights up to ``good`` (Unix
    time). None where neither is known. Spread is max(1.4826 MAD, 0.7413 IQR, 0.5 %), as robust estimates
    of a normal's standard deviation (Rousseeuw and Croux, 1993)."""
    rows = list(rows)
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return Level(bands[-1]['low'], bands[-1]['high'], bands[-1]['better'])
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first), _FLOOR * abs(middle))
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    return Level(middle - room, middle + room, rows[0]['better'])


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
    as tonight's. ``good``: when the last good night of the cell began."""
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


def place(found: list[Figure], partition: str) -> Where:
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
    """The one node that all slow cells ran on, and no other: {case: the nodes of each of its runs tonight}. For
    cells of one partition and subsystem, each of which may have run on one node only. One slow case says nothing
    of its node."""
    runs = [nodes for each in slow.values() for nodes in each]
    elsewhere = frozenset().union(*(nodes for each in fine.values() for nodes in each))
    if len(slow) < 2 or not elsewhere or not runs:
        return None
    suspects = frozenset.intersection(*runs) - elsewhere
    if len(suspects) != 1:
        return None
    return Where(kind='node', name=min(suspects),
                 why=f'{len(slow)} slow cases ran there, {len(fine)} elsewhere are not slow')


class Rule(Strict):
    name: str
    down: list[str]
    support: list[str] = Field(alias='with')
    fine: list[str]


class Table(Strict):
    groups: dict[str, list[str]]
    rules: list[Rule]


@functools.cache
def table() -> Table:
    """The table that parity comes with."""
    return yamlfile.read(Path(__file__).with_name('subsystems.yaml'), Table)


def group_of(name: str) -> str:
    """The group of a cell, '' for one of none; ``name`` as parity.records.history.cell_id prints it."""
    before = name.partition('@')[0]
    return next((group for group, patterns in table().groups.items()
                 if any(re.match(pattern, before) for pattern in patterns)), '')


def part(cells: Mapping[str, bool]) -> Subsystem:
    """What the cells of one partition say together: {name: slower?} of those that were judged."""
    down: dict[str, list[str]] = {}
    judged = set()
    for name, slower in cells.items():
        if group := group_of(name):
            judged.add(group)
            if slower:
                down.setdefault(group, []).append(name)
    for rule in table().rules:
        if all(g in down for g in rule.down) and judged & set(rule.fine) and not set(rule.fine) & set(down):
            fine = [g for g in rule.fine if g in judged]
            return Subsystem(name=rule.name, why=f'{_moved(rule, down)} slower, {" and ".join(fine)} not',
                             cells=[c for g in (*rule.down, *rule.support) for c in down.get(g, [])])
    if not down:
        return Subsystem()
    if judged == set(down):
        return Subsystem(why=f'slower: {", ".join(down)}; nothing else was judged')
    return Subsystem(why=f'slower: {", ".join(down)}; these move together in no way that is known')


def _moved(rule: Rule, down: Mapping[str, list[str]]) -> str:
    return ' and '.join(g for g in (*rule.down, *rule.support) if g in down)
