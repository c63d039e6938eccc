"""The nodes of a system: the state of each, when it was measured last, its speed beside its peers by part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from parity.base.errors import UsageError, near
from parity.base.figures import several
from parity.base.text import node_name
from parity.judge.nodes import figures
from parity.judge.stats import peers
from parity.judge.stats.peers import RelativeSpeed
from parity.judge.store import database, history, incidents
from parity.judge.store.plan_file import CELL
from parity.site import systems
from parity.site.nodes import NodeState, Scheduled
from parity.site.systems import System

_NOT_ASKED = Scheduled()


@dataclass(frozen=True)
class ListedNode:
    """A node as it stands. ``measured``: when its newest ``session`` with a figure of this node alone began (Unix
    time), None: never."""

    name: str
    state: NodeState | None = None
    measured: float | None = None
    session: str = ''
    parts: dict[str, RelativeSpeed | None] = field(default_factory=dict)      # None: too few peers

    @property
    def asked(self) -> str:
        """The name that its scheduler knows."""
        return self.state.name if self.state else self.name

    @property
    def slower(self) -> dict[str, RelativeSpeed]:
        return {part: speed for part, speed in self.parts.items() if speed and speed.slower}

    @property
    def out(self) -> bool:
        """Return whether its scheduler gives it no jobs."""
        return bool(self.state and not self.state.takes)


def of_system(system: System, scheduled: Scheduled = _NOT_ASKED, only: str = '') -> list[ListedNode]:
    """Return the nodes by name that were measured or that are ``scheduled``, without retired ones.

    ``only``: that node alone, also a retired one; UsageError where it is unknown. Of all nodes and parts together
    at most one of 1/CHANCE listings names a node that is as its peers are."""
    rows, only = figures.of_system(system.name), node_name(only)
    nodes = defaultdict(dict, {node_name(state.name): {'state': state} for state in scheduled.nodes})
    last = rows.filter(figures.ON_ONE_NODE).group_by('node', maintain_order=True).last()
    for name, start, session in last.select('node', 'start', 'session').iter_rows():
        nodes[name] |= {'measured': start, 'session': session}
    for name, parts in _listed(rows, well_since(system.name)).items():
        nodes[name]['parts'] = parts
    if only and only not in nodes:
        valid = ', '.join(sorted(nodes)) or 'none is known'
        raise UsageError(f'{system.name}: unknown node {only!r}; valid: {valid}')
    names = [only] if only else sorted(nodes.keys() - systems.gone(system, time.time()))
    return [ListedNode(name, **nodes[name]) for name in names]


def _listed(rows: pl.DataFrame, since: Mapping[str, float]) -> dict[str, dict[str, RelativeSpeed | None]]:
    """Return each node's parts beside its peers of the same partition, by its newest nights."""
    tables = _tables(rows, peers.NIGHTS, since)
    compared = sum(len(names) for names, *_ in tables.values())
    nodes: dict[str, dict[str, RelativeSpeed | None]] = defaultdict(dict)
    for (_, part), (names, logs, errors) in tables.items():
        for name, speed in zip(names, peers.listed(logs, errors, peers.CHANCE / compared), strict=True):
            nodes[name][part] = worse(nodes[name].get(part), speed)
    return nodes


def worse(one: RelativeSpeed | None, other: RelativeSpeed | None) -> RelativeSpeed | None:
    """Return the worse one of a node in two partitions."""
    return min(filter(None, (one, other)), key=lambda speed: speed.share, default=None)


def twice(system: str, since: Mapping[str, float], named: Collection[tuple[str, str]] = ()
          ) -> dict[tuple[str, str], float]:
    """Return the nodes that two listings call slower: today's and an earlier one. They are by (node, part), with
    their speed as a share of their peers'. No job of a node is in both listings. The newest night has half of the
    slowdown at least, but of those that are ``named`` already. ``since``: see `well_since`. Of three nodes, one
    that was far below both others on three nights in a row."""
    rows = figures.of_system(system, 2 * peers.NIGHTS)
    tables = _tables(rows, 2 * peers.NIGHTS, since)
    compared = sum(len(names) for names, *_ in tables.values())
    found: dict[tuple[str, str], float] = {}
    for (_, part), (names, logs, errors) in tables.items():
        def shares(of: np.ndarray, only: np.ndarray, logs=logs, errors=errors) -> dict[int, float]:
            """Return the shares of the nodes among ``only`` that are slower by the nights ``of`` each."""
            speeds = peers.listed(np.where(of, logs, np.nan), errors, peers.CHANCE / compared, only)
            return {at: speeds[at].share for at in only if speeds[at] and speeds[at].slower}
        nights = np.arange(logs.shape[1])
        now = {at: share for at, share in shares(nights < peers.NIGHTS, np.arange(len(names))).items()
               if logs[at][np.isfinite(logs[at])][0] <= np.log(share) / 2 or (names[at], part) in named}
        left = np.array([*now], int)
        for newer in range(2, peers.NIGHTS + 1) if left.size else ():   # nights since the earlier listing
            until = np.full((len(names), 1), peers.NIGHTS)
            until[left] = newer
            own = np.isin(np.arange(len(names)), left)[:, None]
            both = shares(nights < until, left)
            earlier = (nights >= until * own) & (nights < until * own + peers.NIGHTS)
            for at in shares(earlier, np.array([*both], int)):
                found[names[at], part] = min(now[at], found.get((names[at], part), 1.0))
            left = np.array([at for at in left if (names[at], part) not in found], int)
    for part, names, logs in _of_three(rows, since):
        for name, share in zip(names, peers.apart(logs), strict=True):
            if share is not None:
                found[name, part] = min(share, found.get((name, part), 1.0))
    return found


def mended(system: str, slow: Mapping[tuple[str, str], float], since: Mapping[str, float]) -> set[str]:
    """Return the nodes whose newest nights show, all parts together, that they are not ``slow`` any more.

    ``slow``: their speeds by (node, part) as a share of their peers'. ``since``: see `well_since`."""
    if not slow:
        return set()
    rows = figures.of_system(system, peers.NIGHTS)
    tables = _tables(rows, peers.NIGHTS, since, by_part=False)
    parts: dict[str, list[tuple[np.ndarray, np.ndarray, int, float]]] = defaultdict(list)
    for (_, part), (names, logs, errors) in tables.items():
        for at, node in enumerate(names):
            if share := slow.get((node, part)):
                parts[node].append((logs, errors, at, share))
    back: dict[str, list[bool]] = defaultdict(list)
    for part, names, logs in _of_three(rows, since):
        for at, node in enumerate(names):
            if share := slow.get((node, part)):
                back[node].append(peers.rejoined(logs, at, share))
    return {node for node, found in parts.items() if peers.mended(found)} | {
        node for node, found in back.items() if all(found)}


def well_since(system: str) -> dict[str, float]:
    """Return when a listing named a node last (Unix time), of the nodes that were slow in a part and are mended
    there: no night until then tells of the node as it is now."""
    found: dict[str, float] = {}
    for each in incidents.of_system(system):
        for fault in each.faults.values():
            if fault.listed and fault.well:
                found[fault.nodes[0]] = max(fault.measured, found.get(fault.nodes[0], 0.0))
    return found


def _tables(rows: pl.DataFrame, nights: int, since: Mapping[str, float], by_part: bool = True
            ) -> dict[tuple[str, str], tuple[list[str], np.ndarray, np.ndarray]]:
    """Return for each partition and part the nodes, and [nodes, nights] how fast each was in its newest ``nights``
    there, the newest first: the logarithm of its speed over that of its peers, and its standard error.

    ``since``: Unix times by node, whose later nights alone count. ``by_part``: a night is one of that part."""
    table, cell = ['partition', 'part'], [*CELL, 'software']
    night = pl.col('start').rank('dense', descending=True).over(*table[:1 + by_part], 'node') - 1
    begin = pl.col('node').replace_strict(since, default=0.0, return_dtype=pl.Float64)
    jobs = figures.by_node(rows).filter(pl.col('start') > begin).with_columns(night=night)
    jobs = jobs.filter(pl.col('night') < nights, pl.col('node').n_unique().over(cell) > peers.FEWEST)
    jobs = jobs.with_columns(log=pl.col('log') - pl.col('log').median().over(cell))
    common = pl.col('log').median().over(*table, 'session')         # of a night on which all are slower
    many = pl.col('node').n_unique().over(*table, 'session') > peers.FEWEST
    jobs = jobs.with_columns(log=pl.col('log') - pl.when(many).then(common).otherwise(0.0))
    error = (1.4826 * pl.col('log').abs().median().over(cell)).clip(peers.CLOSEST)
    jobs = jobs.with_columns(weight=error ** -2.0)
    mean = (pl.col('log') * pl.col('weight')).sum() / pl.col('weight').sum()
    key = [*table, 'node', 'night']
    jobs = jobs.group_by(*key, 'case').agg(log=mean, weight=pl.col('weight').mean())     # of a job
    jobs = jobs.group_by(key).agg(log=mean, weight=pl.col('weight').sum()).sort(key)
    found = {}
    for name, own in jobs.partition_by(table, as_dict=True).items():
        names = own['node'].unique(maintain_order=True).to_list()
        at = own['node'].rank('dense').to_numpy() - 1, own['night'].to_numpy()
        logs, errors = np.full((len(names), nights), np.nan), np.ones((len(names), nights))
        logs[at], errors[at] = own['log'].to_numpy(), own['weight'].to_numpy() ** -0.5
        found[name] = names, logs, errors
    return found


def _of_three(rows: pl.DataFrame, since: Mapping[str, float]) -> Iterator[tuple[str, list[str], np.ndarray]]:
    """Yield each cell that three nodes alone have measured, too few for a listing: its part, the nodes, and
    [nodes, nights] the logarithms of the figures, the newest night first. ``since``: see `_tables`."""
    begin = pl.col('node').replace_strict(since, default=0.0, return_dtype=pl.Float64)
    alone = rows.filter(figures.ON_ONE_NODE, pl.col('start') > begin)
    cell = [*CELL, 'software', 'part']
    few = alone.filter(pl.col('node').n_unique().over(cell) == peers.FEWEST)
    for own in few.partition_by(cell):
        nights = own.pivot('node', index=['session', 'start'], values='log').sort('start', descending=True)
        names = nights.columns[2:]
        yield own['part'][0], names, nights.select(names).cast(pl.Float64).fill_null(np.nan).to_numpy().T


def sessions(node: ListedNode, system: str, most: int) -> list[ListedNode]:
    """Return the node in its last sessions, the newest first, beside the newest figures of its peers."""
    rows = figures.of_system(system)
    own = rows.filter(node=node.name)
    others = figures.by_node(rows).filter(pl.col('node') != node.name)
    others = others.group_by(*CELL, 'node', maintain_order=True).last()
    starts = own.group_by('session', maintain_order=True).agg(pl.col('start').max()).tail(most).reverse()
    return [replace(node, measured=start, session=session, parts=_parts_of(
        node.name, pl.concat([others.select(own.columns), own.filter(session=session)])))
        for session, start in starts.iter_rows()]


def _parts_of(name: str, newest: pl.DataFrame) -> dict[str, RelativeSpeed | None]:
    """Return the node's parts beside its peers of the same partition, with the same software."""
    tables = newest.partition_by('partition', 'part', as_dict=True)
    parts: dict[str, RelativeSpeed | None] = {}
    for (_, part), cells in tables.items():
        if name in cells['node']:
            logs = cells.pivot([*CELL, 'software'], index='node', values='log')
            at = logs['node'].to_list().index(name)
            speed = peers.relative_speed(logs.drop('node').to_numpy(), at, peers.CHANCE / len(tables))
            parts[part] = worse(parts.get(part), speed)
    return parts


def unknown_retired(system: System, scheduled: Scheduled) -> Iterator[str]:
    """Yield a warning for each retired node that was never measured and is not ``scheduled``."""
    stated = _retired(system)
    if not stated:
        return
    rows = history.rows(database.starts()).filter(system=system.name).select('node').unique().collect()
    known = {node_name(state.name) for state in scheduled.nodes}
    for names in rows['node']:
        known |= {*names.split(',')} - {''}
    for node, keys in stated:
        if node not in known:
            hint = near(node, sorted(known)) or ';'
            yield (f'{systems.line(system.name, keys)}: unknown node {node}{hint} '
                   f'valid: {several(sorted(known)) or "none is known"}')


def retired_again(system: System, start: float, ran_on: Collection[str]) -> Iterator[str]:
    """Yield a warning for each retired node that ran in the session that began at ``start`` (Unix time)."""
    gone = systems.gone(system, start)
    for node, keys in _retired(system):
        if node in ran_on and node in gone:
            yield (f'{systems.line(system.name, keys)}: {node} ran again: take it out of retired:, or correct '
                   f'since: {gone[node].since}')


def _retired(system: System) -> list[tuple[str, tuple]]:
    """Return the nodes that system.yaml retires, each with its keys there."""
    return [(node, ('retired', place, 'nodes', at))
            for place, entry in enumerate(system.retired) for at, node in enumerate(entry.nodes)]
