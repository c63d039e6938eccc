"""The nodes of a system: when each was measured last, its speed beside its peers by part, its scheduler's word."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from parity.base import codes
from parity.base.errors import UsageError, near
from parity.base.figures import several
from parity.base.text import node_name
from parity.plan.identity import DISTRIBUTED
from parity.records import database, history
from parity.records.history import Frame
from parity.records.plan_file import CELL, cell_id
from parity.scheduler import command, pbs, slurm
from parity.scheduler.command import NodeState, SchedulerError
from parity.stats import peers
from parity.stats.peers import RelativeSpeed
from parity.system import systems
from parity.system.systems import ROTATES, Partition, System

PARTS = ('compute', 'memory', 'network', 'storage', 'gpu', 'other')
#: Groups of cells that tell of another part (codes.group_of); a GPU's cells tell of the GPU.
_PART = {'memory-bound codes': 'memory', 'within a node': 'memory'}
#: Figures of jobs on several nodes that count for each of their nodes: the best of so many, of several jobs.
_JOBS = 5


@dataclass(frozen=True)
class Standing:
    """``measured``: when its newest session with a figure of this node alone began (Unix time), None: never."""

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
        return {part: beside for part, beside in self.parts.items() if beside and beside.slower}


def of_system(system: System, states: list[NodeState], alone: str = '') -> list[Standing]:
    """Return how each known node stands, by name, without retired ones; with ``alone`` only that node. UsageError
    where it is unknown.

    ``states``: of `states`. Of the listed nodes and parts together at most one of 1/CHANCE listings names a node
    that is as its peers are."""
    each = figures(system.name)
    known = {node_name(state.name): state for state in states}
    last = _last(each)
    alone = node_name(alone)
    parts, gone = listed(each), systems.gone(system, time.time())
    names = sorted({*known, *last, *parts})
    if alone and alone not in names:
        raise UsageError(f'{system.name}: unknown node {alone!r}; valid: {", ".join(names) or "none is known"}')
    return [Standing(name, known.get(name), *last.get(name, (None, '')), parts.get(name, {}))
            for name in ([alone] if alone else (name for name in names if name not in gone))]


def amiss(system: System, start: float, ran_on: set[str]) -> Iterator[str]:
    """Yield a warning for each retired node that is none of the system's, or that ran at ``start`` (Unix time)."""
    stated = [(node, ('retired', place, 'nodes', at)) for place, entry in enumerate(system.retired)
              for at, node in enumerate(entry.nodes)]
    if not stated:
        return
    rows = history.rows(database.starts()).filter(system=system.name).select('node').unique().collect()
    known = {node for names in rows['node'] for node in names.split(',')} - {''}
    if not known.issuperset(node for node, _ in stated):
        known |= {node_name(state.name) for state in states(system)[0]}
    gone = systems.gone(system, start)
    for node, keys in stated:
        if node not in known:
            yield (f'{systems.line(system.name, keys)}: unknown node {node}{near(node, sorted(known)) or ";"} '
                   f'valid: {several(sorted(known)) or "none is known"}')
        elif node in ran_on and node in gone:
            yield (f'{systems.line(system.name, keys)}: {node} ran again: take it out of retired:, or correct '
                   f'since: {gone[node].since}')


def figures(system: str, newest: int | None = None) -> pl.DataFrame:
    """Return a row for each cell, node or nodes, and session: `log` is the logarithm of the median of its runs,
    higher is better. The reruns of a session are its own. Labelled and disturbed figures are left out.

    ``newest``: only so many sessions of each node and subsystem."""
    frame = history.load(system, reruns=True).lazy().filter(
        pl.col('node') != '', pl.col('value') > 0, pl.col('better') != '').select(
        *CELL, 'session', 'start', 'rerun_of', 'better', 'value', 'node', 'software', 'subsystem').collect()
    known = pl.col('rerun_of').is_in(frame['session'].unique().implode())
    frame = frame.with_columns(session=pl.when(known).then('rerun_of').otherwise('session'))
    if newest is not None:
        own = ['node', 'subsystem']
        last = frame.group_by(*own, 'session').agg(pl.col('start').min()).filter(
            pl.col('start').rank('dense', descending=True).over(own) <= newest)
        frame = frame.join(last, on=[*own, 'session'], how='semi', maintain_order='left')
    sign = pl.when(pl.col('better') == 'higher').then(1.0).otherwise(-1.0)
    start = pl.col('start').min().over('session')
    frame = undistributed(frame.cast({history.TEXT: pl.String}))
    return (frame.with_columns(start, log=sign * pl.col('value').log())
            .group_by(*CELL, 'software', 'node', 'session', maintain_order=True)
            .agg(pl.col('log').median(), pl.col('start').max(), pl.col('subsystem').first())
            .sort('start', maintain_order=True))


def since(system: str, node: str, start: float) -> dict[str, float]:
    """Return the newest figure of each cell, named with its size, that a job on the node measured after ``start``
    (Unix time)."""
    rows = undistributed(history.load(system, reruns=True).filter(pl.col('start') > start).cast(
        {history.TEXT: pl.String})).filter(pl.col('node').str.split(',').list.contains(node))
    return {f'{cell_id(row, True)} ({row["size"]})': row['value'] for row in rows.iter_rows(named=True)}


def undistributed(frame: Frame) -> Frame:
    """Return the rows with the names that the cases have where ReFrame does not distribute them over nodes."""
    return frame.with_columns(pl.col('case').str.replace(DISTRIBUTED, ''))


def latest(each: pl.DataFrame) -> pl.DataFrame:
    """Return the newest figure of each cell and node. A figure of several nodes is weaker: a node counts with the
    best of its last jobs, and only if they were of different nodes, as a slow partner slows it down."""
    several = pl.col('node').str.contains(',', literal=True)
    alone = each.filter(~several).group_by(*CELL, 'node', maintain_order=True).last()
    own = [{**row, 'job': row['node'], 'node': node} for row in each.filter(several).iter_rows(named=True)
           for node in row['node'].split(',')]
    jobs = pl.DataFrame(own, {**each.schema, 'job': pl.String})
    jobs = jobs.group_by(*CELL, 'node', maintain_order=True).tail(_JOBS)
    shared = jobs.group_by(*CELL, 'node', maintain_order=True).agg(
        pl.col('software', 'session', 'subsystem').last(), pl.col('log').max(), pl.col('start').last(),
        jobs=pl.col('job').n_unique()).filter(pl.col('jobs') > 1)
    return pl.concat([alone, shared.select(alone.columns)])


def relative_speeds(newest: pl.DataFrame, alone: str = '') -> dict[str, dict[str, RelativeSpeed | None]]:
    """Return each node's parts beside its peers of the same partition, with the same software; the worse one of a
    node in two partitions. ``newest``: of `latest`."""
    tables: dict[tuple[str, str], dict[tuple, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for *cell, node, software, subsystem, log in newest.select(
            *CELL, 'node', 'software', 'subsystem', 'log').iter_rows():
        partition, _, case, _, metric = cell
        tables[partition, _part(case, metric, subsystem)][(*cell, software)][node] = log
    compared = len(tables) if alone else sum(len(set().union(*cells.values())) for cells in tables.values())
    found: dict[str, dict[str, RelativeSpeed | None]] = defaultdict(dict)
    for (_, part), cells in tables.items():
        names = sorted(set().union(*cells.values()))
        shared = [of for of in cells.values() if len(of) > peers.FEWEST]      # the others compare nothing
        logs = np.array([[of.get(name, np.nan) for of in shared] for name in names])
        for name, told in zip(names, peers.relative_speeds(logs, peers.CHANCE / compared), strict=True):
            _keep_worse(found[name], part, told)
    return found


def _keep_worse(parts: dict[str, RelativeSpeed | None], part: str, other: RelativeSpeed | None) -> None:
    """Keep the worse one of a node in two partitions."""
    before = parts.get(part)
    if before is None or other and other.share < before.share:
        parts[part] = other


def _part(case: str, metric: str, subsystem: str) -> str:
    group = subsystem if subsystem == 'gpu' else codes.group_of(f'{case.replace(" ", "")}.{metric}', subsystem)
    return group if group in PARTS else _PART.get(group, 'other')


def listed(each: pl.DataFrame) -> dict[str, dict[str, RelativeSpeed | None]]:
    """Return each node's parts beside its peers of the same partition, by its newest nights; the worse one of a
    node in two partitions. ``each``: of `figures`."""
    tables = _tables(each, peers.NIGHTS)
    compared = sum(len(names) for names, *_ in tables.values())
    found: dict[str, dict[str, RelativeSpeed | None]] = defaultdict(dict)
    for (_, part), (names, logs, errors) in tables.items():
        for name, told in zip(names, peers.listed(logs, errors, peers.CHANCE / compared), strict=True):
            _keep_worse(found[name], part, told)
    return found


def twice(system: str) -> dict[tuple[str, str], float]:
    """Return the nodes that two listings call slower: today's and an earlier one. They are by (node, part), with
    their speed as a share of their peers'. No job of a node is in both listings."""
    tables = _tables(figures(system, 2 * peers.NIGHTS), 2 * peers.NIGHTS)
    compared = sum(len(names) for names, *_ in tables.values())
    found: dict[tuple[str, str], float] = {}
    for (_, part), (names, logs, errors) in tables.items():
        def shares(of: np.ndarray, only: np.ndarray, logs=logs, errors=errors) -> dict[int, float]:
            """Return the shares of the nodes among ``only`` that are slower by the nights ``of`` each."""
            taken = np.where(of, logs, np.nan)
            told = peers.listed(taken, errors, peers.CHANCE / compared, only)
            return {at: told[at].share for at in only if told[at] and told[at].slower}
        nights = np.arange(logs.shape[1])
        now = shares(nights < peers.NIGHTS, np.arange(len(names)))
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
    return found


def _tables(each: pl.DataFrame, nights: int) -> dict[tuple[str, str], tuple[list[str], np.ndarray, np.ndarray]]:
    """Return for each partition and part the nodes, and [nodes, nights] how fast each was in its newest ``nights``
    there, the newest first: the logarithm of its speed over that of its peers, and its standard error."""
    kind = ['case', 'metric', 'subsystem']
    kinds = pl.DataFrame([(*key, _part(*key)) for key in each.select(kind).unique().iter_rows()], orient='row',
                         schema=dict.fromkeys((*kind, 'part'), pl.String))
    table, cell = ['partition', 'part'], [*CELL, 'software']
    night = pl.col('start').rank('dense', descending=True).over(*table, 'node') - 1
    jobs = _of_nodes(each).join(kinds, on=kind).with_columns(night=night)
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


def _of_nodes(each: pl.DataFrame) -> pl.DataFrame:
    """Return the figures by single node. A figure of several nodes is weaker, as a slow partner slows a node
    down. A node counts with the better one of two jobs after another, and only if they were of different nodes."""
    several = pl.col('node').str.contains(',', literal=True)
    jobs = each.filter(several)
    names = [node.split(',') for node in jobs['node']]
    jobs = jobs[np.repeat(np.arange(len(jobs)), [*map(len, names)])].with_columns(
        job='node', node=pl.Series([name for node in names for name in node], dtype=pl.String))
    job, log = (pl.col(name).shift(1).over(*CELL, 'software', 'node') for name in ('job', 'log'))
    jobs = jobs.with_columns(before=job, log=pl.max_horizontal('log', log))
    jobs = jobs.filter(pl.col('job') != pl.col('before'))
    return pl.concat([each.filter(~several), jobs.select(each.columns)])


def _last(each: pl.DataFrame) -> dict[str, tuple[float, str]]:
    """Return when and in which session each node had its newest figure of a job on it alone."""
    alone = each.filter(~pl.col('node').str.contains(',', literal=True))
    rows = alone.group_by('node', maintain_order=True).last().select('node', 'start', 'session')
    return {node: (start, session) for node, start, session in rows.iter_rows()}


def past(each: pl.DataFrame, node: str, nights: int) -> list[tuple[float, str, dict[str, RelativeSpeed | None]]]:
    """Return start, session and parts of the node's last sessions, the newest first, beside its peers' newest
    figures."""
    own = each.filter(node=node)
    others = latest(each).filter(pl.col('node') != node)
    sessions = own.group_by('session', maintain_order=True).agg(pl.col('start').max()).tail(nights).reverse()
    beside = ((start, session, pl.concat([others, own.filter(session=session).select(others.columns)]))
              for session, start in sessions.iter_rows())
    return [(start, session, relative_speeds(newest, node).get(node, {})) for start, session, newest in beside]


def queue_of(partition: Partition) -> str:
    kind = 'pbs' if partition.scheduler == 'pbs' else 'slurm'
    return command.read(kind, partition.access).where.get('queue', '')


def states(system: System) -> tuple[list[NodeState], str]:
    """Return the nodes of the system's partitions as their scheduler sees them, or none and why it tells none."""
    found: dict[str, NodeState] = {}
    try:
        for kind, asked in (('slurm', slurm.nodes), ('pbs', pbs.nodes)):
            queues = {queue_of(p) for p in system.partitions
                      if p.scheduler in ROTATES and (p.scheduler == 'pbs') == (kind == 'pbs')}
            for node in asked() if queues else ():
                if '' in queues or not node.queues or queues & set(node.queues):
                    found[node.name] = node
    except SchedulerError as err:
        return [], str(err)
    return list(found.values()), '' if found else 'no scheduler tells its nodes'
