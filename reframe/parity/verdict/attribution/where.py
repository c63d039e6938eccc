"""The origin of a slower figure, by the nodes of jobs, and the part of the machine that moves with it.

A node is named only if all of tonight's figures with it are slow, and all without it are not. No node of a job on
several nodes is to blame alone. A code says which part of the machine its cells show (CODE, parts).
subsystems.yaml says which parts explain a night.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

from pydantic import Field

from parity.base import codes, yamlfile
from parity.base.strict import Strict
from parity.verdict.attribution.changes import Subsystem, Where, several

#: Fewer good figures than these tell no spread.
ENOUGH = 6
#: A drop is clear of the noise beyond so many standard deviations, and beyond this share of the median
#: (on the series of the study of 2012 this found 84 % of 5 % slowdowns in a night, once confirmed by a rerun).
_SIGMAS, _SHARE = 4.0, 0.03
#: No series is quieter than this share of its median: timers, and files of one second, show no spread at all.
_FLOOR = 0.005


def edge(rows: Iterable[Mapping[str, Any]], good: float) -> float | None:
    """Return the value beyond which a cell is slow; None where nothing tells it.

    ``rows``: the cell's figures, oldest first. The newest accepted band decides; without one, median and spread of
    the figures up to ``good`` (Unix time). The spread is max(1.4826 MAD, 0.7413 IQR, 0.5 %): robust estimates of
    a normal's standard deviation (Rousseeuw and Croux, 1993)."""
    rows = list(rows)
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return bands[-1]['low' if bands[-1]['better'] == 'higher' else 'high']
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first), _FLOOR * abs(middle))
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    return middle - room if rows[0]['better'] == 'higher' else middle + room


def beyond(value: float, edge: float, better: str) -> bool:
    """Return whether ``value`` is on the bad side of the edge."""
    return value < edge if better == 'higher' else value > edge


class Figure(NamedTuple):
    """One figure of the cell, or of the same case elsewhere."""

    partition: str
    nodes: frozenset[str]
    start: float                     # of its session, Unix time
    tonight: bool
    slow: bool


def figures(rows: Iterable[Mapping[str, Any]], session: str, good: float) -> list[Figure]:
    """Return the figures of one case, size and metric that are known to be slow or not, oldest first.

    ``rows``: from parity.records.history.load, of all partitions and environments; reruns of ``session`` count
    as tonight's. ``good``: when the last good night of the cell began."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault((row['partition'], row['environ']), []).append(row)
    found = [Figure(row['partition'], nodes_of(row), row['start'], session in (row['session'], row['rerun_of']),
                    beyond(row['value'], limit, row['better']))
             for own in groups.values() if (limit := edge(own, good)) is not None for row in own]
    return sorted(found, key=lambda f: f.start)


def nodes_of(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, row['node'].split(',')))


def place(found: list[Figure], partition: str) -> Where:
    """Return where tonight's slow figures in ``partition`` come from."""
    own = [f for f in found if f.partition == partition]
    slow = [f for f in own if f.tonight and f.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = [where for node in _all_nodes(slow) if (where := _apart(node, own))]
    return apart[0] if len(apart) == 1 else _partitions(found, partition)


def _all_nodes(figures: Iterable[Figure]) -> list[str]:
    return sorted(frozenset().union(*(f.nodes for f in figures)))


def _apart(node: str, own: list[Figure]) -> Where | None:
    """The node, if its figures are slow tonight and those without it were not since its own became so."""
    with_it = [f for f in own if node in f.nodes]
    fine_until = max((f.start for f in with_it if not f.slow), default=float('-inf'))
    since = min((f.start for f in with_it if f.start > fine_until), default=float('inf'))
    others = [f for f in own if f.nodes and node not in f.nodes and f.start >= since]
    if not others or any(f.slow for f in others) or not all(f.slow for f in with_it if f.tonight):
        return None
    return Where(kind='node', name=node, why=f'not slow on {several(_all_nodes(others))}')


def _partitions(found: list[Figure], partition: str) -> Where:
    """All nodes alike: this partition, or every one that measured the same."""
    tonight: dict[str, list[Figure]] = {}
    for figure in found:
        if figure.tonight:
            tonight.setdefault(figure.partition, []).append(figure)
    slow = sorted(name for name, own in tonight.items() if fmean(f.slow for f in own) > 0.5)
    fine = sorted(tonight.keys() - set(slow))
    own, nodes = tonight[partition], _all_nodes(tonight[partition])
    if partition in fine:
        return Where(why=f'{sum(f.slow for f in own)} of {len(own)} figures of this night are slow')
    if fine:
        return Where(kind='partition', name=', '.join(slow), why=f'not slow on {", ".join(fine)}')
    if len(slow) > 1:
        return Where(kind='everything', name=', '.join(slow), why=f'slow on {", ".join(slow)}')
    if len(nodes) > 1:
        return Where(kind='partition', name=partition,
                     why=f'slow on {several(nodes)}; no other partition was measured')
    return Where(why=f'only {several(nodes) or "an unknown node"} was measured')


class Rule(Strict):
    name: str
    down: list[str]
    support: list[str] = Field(alias='with')
    fine: list[str]


class Table(Strict):
    rules: list[Rule]


@functools.cache
def table() -> Table:
    return yamlfile.read(Path(__file__).with_name('subsystems.yaml'), Table)


def group_of(name: str) -> str:
    """Return the group of the cell with this name; '' where it has none."""
    before = name.partition('@')[0]
    return next((part for code in codes.every() for part, patterns in code.parts.items()
                 if any(re.match(pattern, before) for pattern in patterns)), '')


def part(cells: Mapping[str, bool]) -> Subsystem:
    """Return the part that the judged cells of one partition tell together; ``cells``: {name: slower?}."""
    judged: set[str] = set()
    down: dict[str, list[str]] = {}
    for name, slower in cells.items():
        if group := group_of(name):
            judged.add(group)
            if slower:
                down.setdefault(group, []).append(name)
    for rule in table().rules:
        fine = [group for group in rule.fine if group in judged]
        if down.keys() >= set(rule.down) and fine and not down.keys() & set(fine):
            moved = [group for group in (*rule.down, *rule.support) if group in down]
            return Subsystem(name=rule.name, cells=[cell for group in moved for cell in down[group]],
                             why=f'{" and ".join(moved)} slower, {" and ".join(fine)} not')
    if not down:
        return Subsystem()
    rest = 'these move together in no way that is known' if judged > down.keys() else \
        'nothing else was judged'
    return Subsystem(why=f'slower: {", ".join(down)}; {rest}')
