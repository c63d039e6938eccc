"""The nodes of a system: the state of each, when it was measured last, its speed beside its peers by part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
    nodes: dict[str, dict[str, Any]] = defaultdict(dict)
    for state in scheduled.nodes:
        nodes[node_name(state.name)] = {'state': state}
    last = rows.filter(figures.ON_ONE_NODE).group_by('node', maintain_order=True).last()
    for name, start, session in last.select('node', 'start', 'session').iter_rows():
        nodes[name].update(measured=start, session=session)
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
    chance = _chance(tables)
    nodes: dict[str, dict[str, RelativeSpeed | None]] = defaultdict(dict)
    for table in tables:
        speeds = peers.listed(table.logs, table.errors, chance)
        for name, speed in zip(table.names, speeds, strict=True):
            nodes[name][table.part] = worse(nodes[name].get(table.part), speed)
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
    chance = _chance(tables)
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for table in tables:
        for row, share in _named_twice(table, chance, named).items():
            shares[table.names[row], table.part].append(share)
    for table in _of_three(rows, since):
        for name, share in zip(table.names, peers.apart(table.logs), strict=True):
            if share is not None:
                shares[name, table.part].append(share)
    return {node: min(of_node) for node, of_node in shares.items()}


def _named_twice(table: _Table, chance: float, named: Collection[tuple[str, str]]) -> dict[int, float]:
    """Return the rows of the nodes that two listings call slower, with their share in today's; see `twice`."""
    nights = np.arange(table.logs.shape[1])
    every = np.arange(len(table.names))
    today = {}
    for row, share in table.slower(nights < peers.NIGHTS, every, chance).items():
        is_slow_now = table.newest(row) <= np.log(share) / 2
        if is_slow_now or (table.names[row], table.part) in named:
            today[row] = share
    found: dict[int, float] = {}
    for split in range(2, peers.NIGHTS + 1):        # the nights of a node that the earlier listing has not
        left = np.array([row for row in today if row not in found], int)
        if not left.size:
            break
        is_left = np.isin(every, left)[:, None]
        newer = nights < np.where(is_left, split, peers.NIGHTS)
        begin = np.where(is_left, split, 0)
        earlier = (nights >= begin) & (nights < begin + peers.NIGHTS)
        slow_in_newer = np.array([*table.slower(newer, left, chance)], int)
        for row in table.slower(earlier, slow_in_newer, chance):
            found[row] = today[row]
    return found


def mended(system: str, slow: Mapping[tuple[str, str], float], since: Mapping[str, float]) -> set[str]:
    """Return the nodes whose newest nights show, all parts together, that they are not ``slow`` any more.

    ``slow``: their speeds by (node, part) as a share of their peers'. ``since``: see `well_since`."""
    if not slow:
        return set()
    rows = figures.of_system(system, peers.NIGHTS)
    parts: dict[str, list[tuple[np.ndarray, np.ndarray, int, float]]] = defaultdict(list)
    for table in _tables(rows, peers.NIGHTS, since, by_part=False):
        for name, row, share in table.among(slow):
            parts[name].append((table.logs, table.errors, row, share))
    cells: dict[str, list[bool]] = defaultdict(list)
    for table in _of_three(rows, since):
        for name, row, share in table.among(slow):
            cells[name].append(peers.rejoined(table.logs, row, share))
    among_many = {name for name, of_node in parts.items() if peers.mended(of_node)}
    among_three = {name for name, of_node in cells.items() if all(of_node)}
    return among_many | among_three


def well_since(system: str) -> dict[str, float]:
    """Return when a listing named a node last (Unix time), of the nodes that were slow in a part and are mended
    there: no night until then tells of the node as it is now."""
    last: dict[str, float] = defaultdict(float)
    for incident in incidents.of_system(system):
        for fault in incident.faults.values():
            if fault.listed and fault.well:
                node = fault.nodes[0]
                last[node] = max(last[node], fault.measured)
    return last


@dataclass
class _Table:
    """Nodes, and how fast each was in its newest nights in a part of the machine, the newest night first.

    ``logs`` [nodes, nights]: logarithms of their speeds, NaN where there is none. ``errors``: their standard
    errors."""

    part: str
    names: list[str]
    logs: np.ndarray
    errors: np.ndarray

    def slower(self, nights: np.ndarray, rows: np.ndarray, chance: float) -> dict[int, float]:
        """Return the nodes among ``rows`` that are slower than their peers, by ``nights`` alone, with their
        shares. ``nights`` [nights] or [nodes, nights]: bool."""
        logs = np.where(nights, self.logs, np.nan)
        shares = {}
        for row, speed in enumerate(peers.listed(logs, self.errors, chance, rows)):
            if speed and speed.slower:
                shares[row] = speed.share
        return shares

    def newest(self, row: int) -> float:
        """Return the newest speed of a node."""
        logs = self.logs[row]
        return logs[np.isfinite(logs)][0]

    def among(self, slow: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, int, float]]:
        """Yield name, row and share of each node that is ``slow`` in this part."""
        for row, name in enumerate(self.names):
            share = slow.get((name, self.part))
            if share:
                yield name, row, share


def _chance(tables: Collection[_Table]) -> float:
    """Return the chance of each node: all that are compared share that of the listing."""
    compared = sum(len(table.names) for table in tables)
    return peers.CHANCE / max(compared, 1)


#: Nodes of one partition are compared in one part.
_COMPARED = ['partition', 'part']


def _tables(rows: pl.DataFrame, nights: int, since: Mapping[str, float], by_part: bool = True) -> list[_Table]:
    """Return for each partition and part how fast each node was in its newest ``nights`` there beside its peers.

    ``since``: Unix times by node, whose later nights alone count. ``by_part``: a night is one of that part."""
    speeds = _beside_peers(rows, nights, since, by_part)
    tables = []
    for (_, part), own in speeds.partition_by(_COMPARED, as_dict=True).items():
        names = own['node'].unique(maintain_order=True).to_list()
        place = own['node'].rank('dense').to_numpy() - 1, own['night'].to_numpy()
        logs = np.full((len(names), nights), np.nan)
        errors = np.ones((len(names), nights))
        logs[place] = own['log'].to_numpy()
        errors[place] = own['weight'].to_numpy() ** -0.5
        tables.append(_Table(part, names, logs, errors))
    return tables


def _beside_peers(rows: pl.DataFrame, nights: int, since: Mapping[str, float], by_part: bool) -> pl.DataFrame:
    """Return partition, part, node, night (0 is the newest) and `log`, a node's speed over that of its peers. Its
    `weight` is 1 / its variance. See `_tables`."""
    cell = [*CELL, 'software']
    key = [*_COMPARED, 'node', 'night']
    night_of = [*_COMPARED, 'node'] if by_part else ['partition', 'node']
    log, weight = pl.col('log'), pl.col('weight')
    jobs = figures.by_node(rows).filter(_is_since(since))
    jobs = jobs.with_columns(night=pl.col('start').rank('dense', descending=True).over(night_of) - 1)
    has_peers = pl.col('node').n_unique().over(cell) > peers.FEWEST
    jobs = jobs.filter(pl.col('night') < nights, has_peers)
    jobs = jobs.with_columns(log=log - log.median().over(cell))
    night = [*_COMPARED, 'session']
    shows_all = pl.col('node').n_unique().over(night) > peers.FEWEST
    of_all = pl.when(shows_all).then(log.median().over(night)).otherwise(0.0)     # a night on which all are slower
    jobs = jobs.with_columns(log=log - of_all)
    error = (1.4826 * log.abs().median().over(cell)).clip(peers.CLOSEST)
    jobs = jobs.with_columns(weight=error ** -2.0)
    mean = (log * weight).sum() / weight.sum()
    of_jobs = jobs.group_by(*key, 'case').agg(log=mean, weight=weight.mean())
    return of_jobs.group_by(key).agg(log=mean, weight=weight.sum()).sort(key)


def _of_three(rows: pl.DataFrame, since: Mapping[str, float]) -> Iterator[_Table]:
    """Yield each cell that three nodes alone have measured, too few for a listing: the logarithms of its figures.
    ``since``: see `_tables`."""
    alone = rows.filter(figures.ON_ONE_NODE, _is_since(since))
    cell = [*CELL, 'software', 'part']
    few = alone.filter(pl.col('node').n_unique().over(cell) == peers.FEWEST)
    for own in few.partition_by(cell):
        nights = own.pivot('node', index=['session', 'start'], values='log').sort('start', descending=True)
        names = nights.columns[2:]
        logs = nights.select(names).cast(pl.Float64).fill_null(np.nan).to_numpy().T
        yield _Table(own['part'][0], names, logs, np.ones(logs.shape))


def _is_since(since: Mapping[str, float]) -> pl.Expr:
    """Return whether a row is later than the time of its node in ``since``."""
    return pl.col('start') > pl.col('node').replace_strict(since, default=0.0, return_dtype=pl.Float64)


def sessions(node: ListedNode, system: str, most: int) -> list[ListedNode]:
    """Return the node in its last sessions, the newest first, beside the newest figures of its peers."""
    rows = figures.of_system(system)
    own = rows.filter(node=node.name)
    others = figures.by_node(rows).filter(pl.col('node') != node.name)
    of_peers = others.group_by(*CELL, 'node', maintain_order=True).last().select(own.columns)
    starts = own.group_by('session', maintain_order=True).agg(pl.col('start').max()).tail(most).reverse()
    listed = []
    for session, start in starts.iter_rows():
        parts = _parts_of(node.name, pl.concat([of_peers, own.filter(session=session)]))
        listed.append(replace(node, measured=start, session=session, parts=parts))
    return listed


def _parts_of(name: str, newest: pl.DataFrame) -> dict[str, RelativeSpeed | None]:
    """Return the node's parts beside its peers of the same partition, with the same software."""
    tables = newest.partition_by('partition', 'part', as_dict=True)
    chance = peers.CHANCE / max(len(tables), 1)
    parts: dict[str, RelativeSpeed | None] = {}
    for (_, part), cells in tables.items():
        if name not in cells['node']:
            continue
        table = cells.pivot([*CELL, 'software'], index='node', values='log')
        row = table['node'].to_list().index(name)
        speed = peers.relative_speed(table.drop('node').to_numpy(), row, chance)
        parts[part] = worse(parts.get(part), speed)
    return parts


def unknown_retired(system: System, scheduled: Scheduled) -> Iterator[str]:
    """Yield a warning for each retired node that was never measured and is not ``scheduled``."""
    stated = _retired(system)
    if not stated:
        return
    measured = history.rows(database.starts()).filter(system=system.name).select('node').unique().collect()
    known = {node_name(state.name) for state in scheduled.nodes}
    for names in measured['node']:
        known.update(filter(None, names.split(',')))
    for node, keys in stated:
        if node in known:
            continue
        hint = near(node, sorted(known)) or ';'
        valid = several(sorted(known)) or 'none is known'
        yield f'{systems.line(system.name, keys)}: unknown node {node}{hint} valid: {valid}'


def retired_again(system: System, start: float, ran_on: Collection[str]) -> Iterator[str]:
    """Yield a warning for each retired node that ran in the session that began at ``start`` (Unix time)."""
    gone = systems.gone(system, start)
    for node, keys in _retired(system):
        if node in ran_on and node in gone:
            yield (f'{systems.line(system.name, keys)}: {node} ran again: take it out of retired:, or correct '
                   f'since: {gone[node].since}')


def _retired(system: System) -> list[tuple[str, tuple]]:
    """Return the nodes that system.yaml retires, each with its keys there."""
    stated = []
    for place, entry in enumerate(system.retired):
        for number, node in enumerate(entry.nodes):
            stated.append((node, ('retired', place, 'nodes', number)))
    return stated
