"""The known cause of a slower figure: where, in what part of the machine, and what changed before it.

A node is named only if all of tonight's figures with it are slow, and all without it are not. For that ci/nightly
measures a suspicious cell again, on the same nodes and on others. No node of a job on several nodes is to blame
alone. An unknown part of a cause stays empty."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

import polars as pl

from parity.base import codes
from parity.base.figures import counted, several
from parity.base.text import node_name
from parity.judge.store import changes, database, history
from parity.judge.store.record import Session
from parity.judge.verdict.model import BEGAN_WITHIN, COMES, Attribution, Cell, Change, Subsystem, Where, names

#: Words of cells that are as fast as they should be.
FINE = ('ok', 'improved')
_FIGURE = ('case', 'size', 'metric')
_COLUMNS = (*_FIGURE, 'partition', 'environ', 'session', 'rerun_of', 'start', 'value', 'better', 'low', 'high',
            'node', 'reference', 'unit', 'software', 'work')


def with_causes(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """Return the cells, the slower ones with their cause, also those of one bad night.

    Raises InfrastructureError where the database cannot be read."""
    slower = [cell for cell in cells if _is_low(cell)]
    found = of_cells(slower, cells, history.load(system, reruns=True, labelled=True),
                     database.sessions(system), session)
    causes = iter(found)
    return [cell.model_copy(update={'cause': next(causes)}) if _is_low(cell) else cell for cell in cells]


def _is_low(cell: Cell) -> bool:
    return cell.verdict == 'regressed' or bool(cell.once)


def named_once(cells: Iterable[Cell]) -> list[str]:
    """Return the nodes on which alone cells were slow tonight, for one night as yet."""
    nodes = set()
    for cell in cells:
        if cell.once and cell.cause and cell.cause.where.kind == 'node':
            nodes.add(node_name(cell.cause.where.name))
    return sorted(nodes)


def of_cells(asked: list[Cell], cells: list[Cell], frame: pl.DataFrame, nights: list[Session],
             session: str) -> list[Attribution]:
    """Return the known cause of each asked cell; of one that is not slower, only what changed since it was good.

    ``cells``: all cells of ``session`` (a uuid). ``frame``: history.load of the system. ``nights``: its
    database.sessions, this one among them."""
    starts = [night.start for night in nights if night.uuid == session]
    starts = starts or frame.filter(session=session)['start'].to_list()
    bad = starts[0] if starts else float('inf')
    past = _Past.of(asked, frame, nights, session, bad)
    causes = [past.cause(cell) for cell in asked]
    return parts(causes, asked, cells, bad)


@dataclass
class _Past:
    """The facts by which the cells of a session are judged; it began at ``bad``."""

    session: str
    bad: float
    #: by case, size and metric: all figures
    rows: dict[tuple, pl.DataFrame]
    #: by CELL: the value of each night, by its begin
    values: dict[tuple, dict[float, float]]
    #: changes.between and changes.work; many cells ask for the same
    changed: Callable
    given: Callable
    #: by partition
    nodes: dict[str, set[str]]

    @classmethod
    def of(cls, asked: list[Cell], frame: pl.DataFrame, nights: list[Session], session: str, bad: float) -> _Past:
        names = {name: [getattr(cell, name) for cell in asked] for name in _FIGURE}
        wanted = pl.LazyFrame(names, schema=dict.fromkeys(_FIGURE, history.TEXT))
        until = (pl.col('start') <= bad) | (pl.col('rerun_of') == session)
        counting = history.counted(frame.lazy().filter(until), reruns=True)
        usual = counting.join(wanted, on=_FIGURE, how='semi').collect()
        values: dict[tuple, dict[float, float]] = {}
        of_nights = history.nights(usual).select(*history.CELL, 'start', 'value').collect()
        for *cell, start, value in of_nights.iter_rows():
            values.setdefault(tuple(cell), {})[start] = value
        jobs = frame.group_by('partition').agg(pl.col('node').unique())
        nodes = {partition: set(','.join(of_jobs).split(',')) - {''} for partition, of_jobs in jobs.iter_rows()}
        return cls(
            session, bad,
            rows=usual.select(_COLUMNS).partition_by(_FIGURE, as_dict=True),
            values=values,
            changed=functools.cache(functools.partial(changes.between, nights, bad)),
            given=functools.cache(changes.work),
            nodes=nodes)

    def cause(self, cell: Cell) -> Attribution:
        figures_everywhere = self.rows.get(tuple(getattr(cell, name) for name in _FIGURE))
        rows = [] if figures_everywhere is None else figures_everywhere.to_dicts()
        of_cell = [row for row in rows if (row['partition'], row['environ']) == (cell.partition, cell.environ)]
        values = self.values.get(tuple(getattr(cell, name) for name in history.CELL), {})
        good, first = _begin(cell, of_cell, values, self.session, self.bad)
        where = Where()
        if _is_low(cell):
            last_good = float('-inf') if good is None else good
            known = figures(rows, self.session, last_good, cell)
            where = place(known, cell.partition, self.nodes.get(cell.partition, set()))
        if good is None:
            return Attribution(where=where)
        if where.kind == 'node':
            nodes = frozenset({where.name})
        else:
            nodes = _nodes_at(of_cell, first) or frozenset(cell.nodes)
        differences = _of_other_nodes(_nodes_at(of_cell, good), nodes, first)
        differences += changes.of_rows(of_cell, good, first, self.given)
        for change in self.changed(good, cell.environ, first):
            if change.concerns(nodes):
                differences.append(change)
        return Attribution(where=where, changes=differences)


def _of_other_nodes(before: frozenset[str], now: frozenset[str], since: float) -> list[Change]:
    """Return the change of nodes, where a cell ran on none of those before."""
    if not before or not now or before & now:
        return []
    old, new = ' '.join(sorted(before)), ' '.join(sorted(now))
    return [Change(fact='nodes', old=old, new=new, since=since)]


def _nodes_at(rows: list[dict], start: float) -> frozenset[str]:
    """Return the nodes of the runs of the night that began at ``start``."""
    return frozenset().union(*(nodes_of(row) for row in rows if row['start'] == start))


def _begin(cell: Cell, rows: list[dict], nights: dict[float, float], session: str, start: float
           ) -> tuple[float | None, float]:
    """Return when the last good night before a cell's slowdown began (None: not known), and its first slow night.

    A slow level says which nights are slow: those nearer to it than to the usual one. Without one the newest spell
    counts that ends with ``session``, begun at ``start``. ``rows``: the figures of the cell. ``nights``: the value
    of each night, by its begin."""
    has_level = _is_slow(cell) and None not in (cell.level, cell.usual)
    if has_level:
        limit = (cell.level + cell.usual) / 2
    else:
        limit = edge([row for row in rows if row['start'] < start and row['rerun_of'] != session], start)
    slow, fine = [], []
    for began, value in nights.items():
        if began < start:
            is_slow = limit is not None and beyond(value, limit, rows[-1]['better'])
            (slow if is_slow else fine).append(began)
    first = start
    if has_level:
        first = min((began for began in slow if began >= cell.begin), default=start)
    good = max((began for began in fine if began < first), default=None)
    if good is not None and not has_level:
        first = min((began for began in slow if began > good), default=first)
    return good, first


def _is_slow(cell: Cell) -> bool:
    """Return whether the cell is at a slow level with a begin, tonight if it comes and goes."""
    if not cell.begin:
        return False
    return cell.state == 'slow' or cell.state == COMES and cell.verdict == 'regressed'


#: Fewer good figures than these tell no spread.
ENOUGH = 6
#: A drop is clear of the noise beyond so many standard deviations, and beyond this share of the median
#: (on the series of the study of 2012 this found 84 % of 5 % slowdowns in a night, once confirmed by a rerun).
_SIGMAS, _SHARE = 4.0, 0.03
#: Of a slow node's figures so many are slow, at least.
_MOST = 0.75


def edge(rows: Iterable[Mapping[str, Any]], good: float) -> float | None:
    """Return the value beyond which a cell is slow; None where nothing tells it.

    ``rows``: the cell's figures, oldest first. The newest accepted band decides; without one, median and spread of
    the figures up to ``good`` (Unix time). The spread is max(1.4826 MAD, 0.7413 IQR): robust estimates of a
    normal's standard deviation (Rousseeuw and Croux, 1993)."""
    rows = list(rows)
    for row in reversed(rows):
        if row['low'] is not None or row['high'] is not None:
            return row['low'] if row['better'] == 'higher' else row['high']
    values = [row['value'] for row in rows if row['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    deviation = median(abs(value - middle) for value in values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * deviation, 0.7413 * (third - first))
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    return middle - room if rows[0]['better'] == 'higher' else middle + room


def beyond(value: float, edge: float, better: str) -> bool:
    """Return whether ``value`` is on the bad side of the edge."""
    return value < edge if better == 'higher' else value > edge


class CellFigure(NamedTuple):
    """One figure of the cell, or of the same case elsewhere."""

    partition: str
    nodes: frozenset[str]
    start: float                     # of its session, Unix time
    now: bool                        # of tonight, or of the nights of the slow level
    slow: bool


def figures(rows: Iterable[Mapping[str, Any]], session: str, good: float, cell: Cell) -> list[CellFigure]:
    """Return the figures of one case, size and metric that are known to be slow or not, oldest first.

    ``rows``: from parity.judge.store.history.load, of all partitions and environments; reruns of ``session`` count
    as tonight's. ``good``: when the last good night of the cell began. All nights of the
    cell's slow level count. There a figure is slow if it is nearer to such a fall than to the usual figure."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault((row['partition'], row['environ']), []).append(row)
    has_level = _is_slow(cell) and cell.level and cell.usual and cell.level / cell.usual > 0
    known = []
    for place, of_place in groups.items():
        limit = _limit(place, of_place, cell, good) if has_level else edge(of_place, good)
        if limit is None:
            continue
        for row in of_place:
            tonight = session in (row['session'], row['rerun_of'])
            of_level = bool(has_level) and row['start'] >= cell.begin
            known.append(CellFigure(
                row['partition'], nodes_of(row), row['start'], now=tonight or of_level,
                slow=beyond(row['value'], limit, row['better'])))
    return sorted(known, key=lambda figure: figure.start)


def _limit(place: tuple, rows: list, cell: Cell, good: float) -> float | None:
    """Return the middle between the usual figure of a place and the same after the fall of the cell."""
    if place == (cell.partition, cell.environ):
        return (cell.level + cell.usual) / 2
    before = [row['value'] for row in rows if row['start'] < cell.begin]
    if len(before) < ENOUGH:
        return edge(rows, good)
    return median(before) * (1 + cell.level / cell.usual) / 2


def nodes_of(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, row['node'].split(',')))


def place(found: list[CellFigure], partition: str, every: set[str]) -> Where:
    """Return where the slow figures in ``partition`` come from; ``every``: its nodes."""
    of_partition = [figure for figure in found if figure.partition == partition]
    slow = [figure for figure in of_partition if figure.now and figure.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = []
    for node in _all_nodes(slow):
        with_node = sum(node in figure.nodes for figure in slow)
        where = _apart(node, of_partition) if 2 * with_node > len(slow) else None
        if where:
            apart.append(where)
    return apart[0] if len(apart) == 1 else _partitions(found, partition, every)


def _all_nodes(figures: Iterable[CellFigure]) -> list[str]:
    return sorted(frozenset().union(*(f.nodes for f in figures)))


def _apart(node: str, figures: list[CellFigure]) -> Where | None:
    """The node, if its figures are slow and most of those without it were not since its own became so.

    Chance may make one figure of four look fine."""
    with_it = [figure for figure in figures if node in figure.nodes]
    fine_until = max((figure.start for figure in with_it if not figure.slow), default=float('-inf'))
    since = min((figure.start for figure in with_it if figure.start > fine_until), default=float('inf'))
    others = [figure for figure in figures if figure.nodes and node not in figure.nodes
              and (figure.now or figure.start >= since)]
    slow_others = sum(figure.slow for figure in others)
    if 2 * slow_others >= len(others):
        return None
    if fmean(figure.slow for figure in with_it if figure.now) < _MOST:
        return None
    where = several(_all_nodes(others))
    why = f'slow in {slow_others} of {len(others)} figures on {where}' if slow_others else f'not slow on {where}'
    return Where(kind='node', name=node, why=why)


def _partitions(found: list[CellFigure], partition: str, every: set[str]) -> Where:
    """All nodes alike: this partition, or every one that measured the same."""
    now: dict[str, list[CellFigure]] = {}
    for figure in found:
        if figure.now:
            now.setdefault(figure.partition, []).append(figure)
    slow = sorted(name for name, own in now.items() if fmean(f.slow for f in own) > 0.5)
    fine = sorted(now.keys() - set(slow))
    own, nodes = now[partition], _all_nodes(now[partition])
    if partition in fine:
        return Where(why=f'{sum(f.slow for f in own)} of {counted(len(own), "figure")} of this night are slow')
    if fine:
        return Where(kind='partition', name=', '.join(slow), why=f'not slow on {", ".join(fine)}')
    if len(slow) > 1:
        return Where(kind='everything', name=', '.join(slow), why=f'slow on {", ".join(slow)}')
    only = {*nodes} == every
    if len(nodes) > 1 or nodes and only:
        return Where(kind='partition', name=partition, alone=True,
                     why=f'slow on {several(nodes)}; no other {"node" if only else "partition"} was measured')
    return Where(why=f'only {several(nodes) or "an unknown node"} was measured')


#: A part of a machine; the groups that each have a slower cell; those whose slower cells support it; and those of
#: which one was judged and none is slower. A group is a part that a code names for its cells (`parts`), else a
#: subsystem. The first rule that fits counts.
RULES = (
    ('memory', ['memory'], ['memory-bound codes', 'within a node'], ['compute', 'network']),
    ('compute clock', ['compute'], ['memory-bound codes'], ['memory']),
    ('compute and memory alike', ['compute', 'memory'], ['memory-bound codes', 'within a node'],
     ['network', 'storage']),
    ('network', ['network'], ['storage'], ['compute', 'memory', 'memory-bound codes', 'within a node']),
    ('storage', ['storage'], [], ['compute', 'memory', 'memory-bound codes', 'network']),
)


class _Fall(NamedTuple):
    """The fall of a cell, with its begin; ``place``: its partition, and its node if that alone is slow."""

    place: tuple[str, str]
    begin: float
    group: str


def parts(causes: list[Attribution], asked: list[Cell], cells: list[Cell], bad: float) -> list[Attribution]:
    """Return the causes with their parts: of slower cells that began together on one node, or in one partition.

    ``causes``: those of ``asked``. ``cells``: all of the session, which began at ``bad``."""
    if not any(cell.verdict == 'regressed' for cell in asked):
        return causes
    nodes = {}
    for cell, cause in zip(asked, causes, strict=True):
        nodes[id(cell)] = cause.where.name if cause.where.kind == 'node' else ''
    fine = defaultdict(set)         # groups, by partition
    slower = defaultdict(list)      # name and fall, by place
    falls: dict[int, _Fall] = {}
    for name, cell in names(cells).items():
        group = codes.group_of(name, cell.subsystem)
        if cell.verdict in FINE:
            fine[cell.partition].add(group)
        elif cell.verdict == 'regressed':
            place = cell.partition, nodes.get(id(cell), '')
            falls[id(cell)] = _Fall(place, cell.begin or bad, group)
            slower[place].append((name, falls[id(cell)]))

    @functools.cache
    def subsystem(fall: _Fall) -> Subsystem:
        down: dict[str, list[str]] = {}
        for name, other in slower[fall.place]:
            if abs(other.begin - fall.begin) <= BEGAN_WITHIN.total_seconds():
                down.setdefault(other.group, []).append(name)
        return part(down, fine.get(fall.place[0], set()), fall.group)

    with_parts = []
    for cell, cause in zip(asked, causes, strict=True):
        fall = falls.get(id(cell))
        with_parts.append(cause.model_copy(update={'subsystem': subsystem(fall)}) if fall else cause)
    return with_parts


def part(down: Mapping[str, list[str]], judged: set[str], of: str) -> Subsystem:
    """Return the part of a slower cell of group ``of``: what the slower cells of ``down`` tell together, by group,
    beside the groups that have cells in order."""
    for name, needed, support, others in RULES:
        fine = [group for group in others if group in judged]
        fits = down.keys() >= set(needed) and not down.keys() & set(others)
        if not fits or not fine:
            continue
        moved = [group for group in (*needed, *support) if group in down]
        if of not in moved:
            return Subsystem(why=f'slower: {of}; that is no part of {name}')
        cells = [cell for group in moved for cell in down[group]]
        return Subsystem(name=name, cells=cells, why=f'{" and ".join(moved)} slower, {" and ".join(fine)} not')
    others_judged = judged - down.keys()
    rest = 'these move together in no way that is known' if others_judged else 'nothing else was judged'
    return Subsystem(why=f'slower: {", ".join(down)}; {rest}')
