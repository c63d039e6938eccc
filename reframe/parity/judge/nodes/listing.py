"""The nodes of a system: the state of each, when it was measured last, its speed beside its peers by part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
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
#: A node's speeds by part of the machine; None: too few peers.
Parts = dict[str, RelativeSpeed | None]


@dataclass(frozen=True)
class ListedNode:
    """A node as it stands. ``measured``: when its newest ``session`` with a figure of this node alone began (Unix
    time), None: never."""

    name: str
    state: NodeState | None = None
    measured: float | None = None
    session: str = ''
    parts: Parts = field(default_factory=dict)

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
    rows = figures.of_system(system.name)
    nodes: dict[str, dict[str, Any]] = defaultdict(dict)
    for state in scheduled.nodes:
        nodes[node_name(state.name)] = {'state': state}
    alone = rows.filter(figures.ON_ONE_NODE)
    last = alone.group_by('node', maintain_order=True).last()
    for name, start, session in last.select('node', 'start', 'session').iter_rows():
        nodes[name].update(measured=start, session=session)
    since = well_since(system.name)
    for name, parts in _listed(rows, since).items():
        nodes[name]['parts'] = parts
    if only:
        names = [_demanded(only, nodes, system)]
    else:
        gone = systems.gone(system, time.time())
        names = sorted(nodes.keys() - gone)
    return [ListedNode(name, **nodes[name]) for name in names]


def _demanded(node: str, nodes: Collection[str], system: System) -> str:
    """Return the short name of a node. UsageError where it is none of ``nodes``."""
    name = node_name(node)
    if name not in nodes:
        valid = ', '.join(sorted(nodes)) or 'none is known'
        raise UsageError(f'{system.name}: unknown node {name!r}; valid: {valid}')
    return name


def _listed(rows: pl.DataFrame, since: Mapping[str, float]) -> dict[str, Parts]:
    """Return each node's parts beside its peers of the same partition, by its newest nights."""
    tables = _tables(rows, peers.NIGHTS, since)
    chance = _chance(tables)
    nodes: dict[str, Parts] = defaultdict(dict)
    for table in tables:
        part = table.part
        speeds = peers.listed(table.logs, table.errors, chance)
        for name, speed in zip(table.names, speeds, strict=True):
            parts = nodes[name]
            in_other_partition = parts.get(part)
            parts[part] = worse(in_other_partition, speed)
    return nodes


def worse(one: RelativeSpeed | None, other: RelativeSpeed | None) -> RelativeSpeed | None:
    """Return the worse one of a node in two partitions."""
    if one is None or other is None:
        return one or other
    return other if other.share < one.share else one


def twice(system: str, since: Mapping[str, float], named: Collection[tuple[str, str]] = ()
          ) -> dict[tuple[str, str], float]:
    """Return the nodes that two listings call slower: today's and an earlier one. They are by (node, part), with
    their speed as a share of their peers'. No job of a node is in both listings. The newest night has half of the
    slowdown at least, but of those that are ``named`` already. ``since``: see `well_since`. Of three nodes, one
    that was far below both others on three nights in a row."""
    nights = 2 * peers.NIGHTS
    rows = figures.of_system(system, nights)
    tables = _tables(rows, nights, since)
    chance = _chance(tables)
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for table in tables:
        for row, share in _named_twice(table, chance, named).items():
            name = table.names[row]
            shares[name, table.part].append(share)
    for table in _of_three(rows, since):
        shares_apart = peers.apart(table.logs)
        for name, share in zip(table.names, shares_apart, strict=True):
            if share is not None:
                shares[name, table.part].append(share)
    return {node: min(of_node) for node, of_node in shares.items()}


def _named_twice(table: _Table, chance: float, named: Collection[tuple[str, str]]) -> dict[int, float]:
    """Return the rows of the nodes that two listings call slower, with their share in today's; see `twice`."""
    nights = np.arange(table.logs.shape[1])
    every = np.arange(len(table.names))
    slow_today = table.slower(nights < peers.NIGHTS, every, chance)
    today = {}
    for row, share in slow_today.items():
        is_named = (table.names[row], table.part) in named
        half_of_slowdown = np.log(share) / 2
        if is_named or table.newest(row) <= half_of_slowdown:
            today[row] = share
    confirmed: dict[int, float] = {}
    for split in range(2, peers.NIGHTS + 1):        # the nights of a node that the earlier listing has not
        left = np.array([row for row in today if row not in confirmed], int)
        if not left.size:
            break
        is_left = np.isin(every, left)[:, None]
        end = np.where(is_left, split, peers.NIGHTS)
        begin = np.where(is_left, split, 0)
        slow_in_newer = table.slower(nights < end, left, chance)
        candidates = np.array([*slow_in_newer], int)
        is_earlier = (nights >= begin) & (nights < begin + peers.NIGHTS)
        for row in table.slower(is_earlier, candidates, chance):
            confirmed[row] = today[row]
    return confirmed


def mended(system: str, slow: Mapping[tuple[str, str], float], since: Mapping[str, float]) -> set[str]:
    """Return the nodes whose newest nights show, all parts together, that they are not ``slow`` any more.

    ``slow``: their speeds by (node, part) as a share of their peers'. ``since``: see `well_since`."""
    if not slow:
        return set()
    rows = figures.of_system(system, peers.NIGHTS)
    tables = _tables(rows, peers.NIGHTS, since, by_part=False)
    return _mended_among_many(tables, slow) | _mended_among_three(_of_three(rows, since), slow)


def _mended_among_many(tables: Iterable[_Table], slow: Mapping[tuple[str, str], float]) -> set[str]:
    parts: dict[str, list[tuple]] = defaultdict(list)       # of a node, as peers.mended takes them
    for table in tables:
        for name, row, share in table.among(slow):
            part = table.logs, table.errors, row, share
            parts[name].append(part)
    return {name for name, of_node in parts.items() if peers.mended(of_node)}


def _mended_among_three(tables: Iterable[_Table], slow: Mapping[tuple[str, str], float]) -> set[str]:
    cells: dict[str, list[bool]] = defaultdict(list)
    for table in tables:
        for name, row, share in table.among(slow):
            is_mended = peers.rejoined(table.logs, row, share)
            cells[name].append(is_mended)
    return {name for name, of_node in cells.items() if all(of_node)}


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
    compared = speeds.partition_by(_COMPARED, as_dict=True)
    tables = []
    for (_, part), of_part in compared.items():
        nodes, night, log, weight = of_part.select('node', 'night', 'log', 'weight').get_columns()
        names = nodes.unique(maintain_order=True).to_list()
        row = nodes.rank('dense').to_numpy() - 1
        place = row, night.to_numpy()
        logs = np.full((len(names), nights), np.nan)
        logs[place] = log.to_numpy()
        errors = np.ones(logs.shape)
        errors[place] = weight.to_numpy() ** -0.5
        tables.append(_Table(part, names, logs, errors))
    return tables


def _beside_peers(rows: pl.DataFrame, nights: int, since: Mapping[str, float], by_part: bool) -> pl.DataFrame:
    """Return partition, part, node, night (0 is the newest) and `log`, a node's speed over that of its peers. Its
    `weight` is 1 / its variance. See `_tables`."""
    cell = [*CELL, 'software']
    log, weight = pl.col('log'), pl.col('weight')
    later = figures.by_node(rows).filter(_is_since(since))
    night_of = [*_COMPARED, 'node'] if by_part else ['partition', 'node']
    age = pl.col('start').rank('dense', descending=True).over(night_of)
    jobs = later.with_columns(night=age - 1)
    nodes_of_cell = pl.col('node').n_unique().over(cell)
    is_recent = pl.col('night') < nights
    jobs = jobs.filter(is_recent, nodes_of_cell > peers.FEWEST)
    usual = log.median().over(cell)
    jobs = jobs.with_columns(log=log - usual)
    jobs = jobs.with_columns(log=log - _slowness_of_all())
    scatter = log.abs().median().over(cell)
    error = (1.4826 * scatter).clip(peers.CLOSEST)
    jobs = jobs.with_columns(weight=error ** -2.0)
    mean = (log * weight).sum() / weight.sum()
    key = [*_COMPARED, 'node', 'night']
    of_cases = jobs.group_by(*key, 'case').agg(log=mean, weight=weight.mean())
    of_nights = of_cases.group_by(key).agg(log=mean, weight=weight.sum())
    return of_nights.sort(key)


def _slowness_of_all() -> pl.Expr:
    """Return the median over the nodes of a part in a session: on some nights all are slower. Where too few nodes
    ran, it is 0."""
    night = [*_COMPARED, 'session']
    nodes = pl.col('node').n_unique()
    median = pl.col('log').median()
    is_compared = nodes.over(night) > peers.FEWEST
    return pl.when(is_compared).then(median.over(night)).otherwise(0.0)


def _of_three(rows: pl.DataFrame, since: Mapping[str, float]) -> Iterator[_Table]:
    """Yield each cell that three nodes alone have measured, too few for a listing: the logarithms of its figures.
    ``since``: see `_tables`."""
    alone = rows.filter(figures.ON_ONE_NODE, _is_since(since))
    cell = [*CELL, 'software', 'part']
    nodes = pl.col('node').n_unique().over(cell)
    few = alone.filter(nodes == peers.FEWEST)
    for of_cell in few.partition_by(cell):
        by_session = of_cell.pivot('node', index=['session', 'start'], values='log')
        newest_first = by_session.sort('start', descending=True)
        names = newest_first.columns[2:]
        columns = newest_first.select(names).cast(pl.Float64)
        logs = columns.fill_null(np.nan).to_numpy().T
        part = of_cell['part'][0]
        yield _Table(part, names, logs, np.ones(logs.shape))


def _is_since(since: Mapping[str, float]) -> pl.Expr:
    """Return whether a row is later than the time of its node in ``since``."""
    return pl.col('start') > pl.col('node').replace_strict(since, default=0.0, return_dtype=pl.Float64)


def sessions(node: ListedNode, system: str, most: int) -> list[ListedNode]:
    """Return the node in its last sessions, the newest first, beside the newest figures of its peers."""
    rows = figures.of_system(system)
    of_node = rows.filter(node=node.name)
    is_peer = pl.col('node') != node.name
    others = figures.by_node(rows).filter(is_peer)
    newest = others.group_by(*CELL, 'node', maintain_order=True).last()
    of_peers = newest.select(of_node.columns)
    began = pl.col('start').max()
    starts = of_node.group_by('session', maintain_order=True).agg(began)
    newest_first = starts.tail(most).reverse()
    listed = []
    for session, start in newest_first.iter_rows():
        in_session = of_node.filter(session=session)
        compared = pl.concat([of_peers, in_session])
        parts = _parts_of(node.name, compared)
        listed.append(replace(node, measured=start, session=session, parts=parts))
    return listed


def _parts_of(name: str, newest: pl.DataFrame) -> Parts:
    """Return the node's parts beside its peers of the same partition, with the same software."""
    tables = newest.partition_by('partition', 'part', as_dict=True)
    compared = max(len(tables), 1)
    chance = peers.CHANCE / compared
    parts: Parts = {}
    for (_, part), cells in tables.items():
        if name not in cells['node']:
            continue
        table = cells.pivot([*CELL, 'software'], index='node', values='log')
        names = table['node'].to_list()
        logs = table.drop('node').to_numpy()
        speed = peers.relative_speed(logs, names.index(name), chance)
        in_other_partition = parts.get(part)
        parts[part] = worse(in_other_partition, speed)
    return parts


def unknown_retired(system: System, scheduled: Scheduled) -> Iterator[str]:
    """Yield a warning for each retired node that was never measured and is not ``scheduled``."""
    stated = _retired(system)
    if not stated:
        return
    stored = history.rows(database.starts())
    measured = stored.filter(system=system.name).select('node').unique().collect()
    known = {node_name(state.name) for state in scheduled.nodes}
    for names in measured['node']:
        known.update(filter(None, names.split(',')))
    names = sorted(known)
    valid = several(names) or 'none is known'
    for node, keys in stated:
        if node not in known:
            line = systems.line(system.name, keys)
            hint = near(node, names) or ';'
            yield f'{line}: unknown node {node}{hint} valid: {valid}'


def retired_again(system: System, start: float, ran_on: Collection[str]) -> Iterator[str]:
    """Yield a warning for each retired node that ran in the session that began at ``start`` (Unix time)."""
    gone = systems.gone(system, start)
    for node, keys in _retired(system):
        if node in ran_on and node in gone:
            line = systems.line(system.name, keys)
            since = gone[node].since
            yield f'{line}: {node} ran again: take it out of retired:, or correct since: {since}'


def _retired(system: System) -> list[tuple[str, tuple]]:
    """Return the nodes that system.yaml retires, each with its keys there."""
    stated = []
    for place, entry in enumerate(system.retired):
        for number, node in enumerate(entry.nodes):
            stated.append((node, ('retired', place, 'nodes', number)))
    return stated
