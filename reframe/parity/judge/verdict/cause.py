"""The known cause of a slower figure: where, in what part of the machine, and what changed before it.

A node is named only if all of tonight's figures with it are slow, and all without it are not. For that ci/nightly
measures a suspicious cell again, on the same nodes and on others. No node of a job on several nodes is to blame
alone. An unknown part of a cause stays empty."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
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
    starts = [n.start for n in nights if n.uuid == session] or frame.filter(session=session)['start'].to_list()
    bad = starts[0] if starts else float('inf')
    wanted = pl.DataFrame({name: [getattr(c, name) for c in asked] for name in _FIGURE},
                          schema=dict.fromkeys(_FIGURE, history.TEXT))
    until = (pl.col('start') <= bad) | (pl.col('rerun_of') == session)
    usual = history.counted(frame.lazy().filter(until), reruns=True).join(
        wanted.lazy(), on=_FIGURE, how='semi').collect()
    alike = usual.select(_COLUMNS).partition_by(_FIGURE, as_dict=True)
    values: dict[tuple, dict[float, float]] = {}
    for *at, start, value in history.nights(usual).select(*history.CELL, 'start', 'value').collect().iter_rows():
        values.setdefault(tuple(at), {})[start] = value
    # many cells ask for the same
    changed = functools.cache(functools.partial(changes.between, nights, bad))
    given = functools.cache(changes.work)
    jobs = frame.group_by('partition').agg(pl.col('node').unique())
    nodes_in = {partition: {*','.join(nodes).split(',')} - {''} for partition, nodes in jobs.iter_rows()}

    def of(cell: Cell) -> Attribution:
        found, where = alike.get(tuple(getattr(cell, name) for name in _FIGURE)), Where()
        rows = [] if found is None else found.to_dicts()
        own = [r for r in rows if (r['partition'], r['environ']) == (cell.partition, cell.environ)]
        past = values.get(tuple(getattr(cell, name) for name in history.CELL), {})
        good, first = _begin(cell, own, past, session, bad)
        if _is_low(cell):
            known = figures(rows, session, float('-inf') if good is None else good, cell)
            where = place(known, cell.partition, nodes_in.get(cell.partition, set()))
        if good is None:
            return Attribution(where=where)
        was, tonight = (frozenset().union(*(nodes_of(r) for r in own if r['start'] == start))
                        for start in (good, first))
        nodes = {where.name} if where.kind == 'node' else tonight or set(cell.nodes)
        facts = [change for change in changed(good, cell.environ, first) if change.concerns(nodes)]
        told = [*changes.of_rows(own, good, first, given), *facts]
        if was and nodes and not was & nodes:
            both = (' '.join(sorted(each)) for each in (was, nodes))
            told.insert(0, Change(fact='nodes', old=next(both), new=next(both), since=first))
        return Attribution(where=where, changes=told)

    return parts([of(cell) for cell in asked], asked, cells, bad)


def _begin(cell: Cell, own: list[dict], nights: dict[float, float], session: str, start: float
           ) -> tuple[float | None, float]:
    """Return when the last good night before a cell's slowdown began (None: not known), and its first slow night.

    A slow level says which nights are slow: those nearer to it than to the usual one. Without one the newest spell
    counts that ends with ``session``, begun at ``start``. ``nights``: the value of each night, by its begin."""
    level = _is_slow(cell) and None not in (cell.level, cell.usual)
    before = [r for r in own if r['start'] < start and r['rerun_of'] != session]
    limit = (cell.level + cell.usual) / 2 if level else edge(before, start)
    slow = {began: limit is not None and beyond(value, limit, own[-1]['better'])
            for began, value in nights.items() if began < start}
    first = min((began for began, is_slow in slow.items() if level and is_slow and began >= cell.begin),
                default=start)
    good = max((began for began, is_slow in slow.items() if not is_slow and began < first), default=None)
    spell = [began for began in slow if good is not None and good < began < first]
    return good, first if level else min(spell, default=first)


def _is_slow(cell: Cell) -> bool:
    """Return whether the cell is at a slow level with a begin, tonight if it comes and goes."""
    return bool(cell.begin) and cell.state in ('slow', COMES if cell.verdict == 'regressed' else 'slow')


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
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return bands[-1]['low' if bands[-1]['better'] == 'higher' else 'high']
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first))
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
    level = _is_slow(cell) and cell.level and cell.usual and cell.level / cell.usual > 0

    def limit(place: tuple, own: list) -> float | None:
        if not level:
            return edge(own, good)
        before = [row['value'] for row in own if row['start'] < cell.begin]
        if place == (cell.partition, cell.environ):
            return (cell.level + cell.usual) / 2
        return median(before) * (1 + cell.level / cell.usual) / 2 if len(before) >= ENOUGH else edge(own, good)
    found = [CellFigure(row['partition'], nodes_of(row), row['start'], session in (row['session'], row['rerun_of'])
                        or bool(level) and row['start'] >= cell.begin, beyond(row['value'], bound, row['better']))
             for at, own in groups.items() if (bound := limit(at, own)) is not None for row in own]
    return sorted(found, key=lambda f: f.start)


def nodes_of(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, row['node'].split(',')))


def place(found: list[CellFigure], partition: str, every: set[str]) -> Where:
    """Return where the slow figures in ``partition`` come from; ``every``: its nodes."""
    own = [f for f in found if f.partition == partition]
    slow = [f for f in own if f.now and f.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = [where for node in _all_nodes(slow) if 2 * sum(node in f.nodes for f in slow) > len(slow)
             and (where := _apart(node, own))]
    return apart[0] if len(apart) == 1 else _partitions(found, partition, every)


def _all_nodes(figures: Iterable[CellFigure]) -> list[str]:
    return sorted(frozenset().union(*(f.nodes for f in figures)))


def _apart(node: str, own: list[CellFigure]) -> Where | None:
    """The node, if its figures are slow and most of those without it were not since its own became so.

    Chance may make one figure of four look fine."""
    with_it = [f for f in own if node in f.nodes]
    fine_until = max((f.start for f in with_it if not f.slow), default=float('-inf'))
    since = min((f.start for f in with_it if f.start > fine_until), default=float('inf'))
    others = [f for f in own if f.nodes and node not in f.nodes and (f.now or f.start >= since)]
    slow = sum(f.slow for f in others)
    if 2 * slow >= len(others) or fmean(f.slow for f in with_it if f.now) < _MOST:
        return None
    where = several(_all_nodes(others))
    return Where(kind='node', name=node, why=f'slow in {slow} of {len(others)} figures on {where}' if slow
                 else f'not slow on {where}')


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
        return Where(kind='partition', name=partition,
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


def parts(found: list[Attribution], asked: list[Cell], cells: list[Cell], bad: float) -> list[Attribution]:
    """Return the causes with their parts: of slower cells that began together on one node, or in one partition.

    ``found``: the causes of ``asked``. ``cells``: all of the session, which began at ``bad``."""
    fine, slower = defaultdict(set), defaultdict(list)
    keys: dict[int, tuple[tuple[str, str], float, str]] = {}
    places = {id(cell): (cell.partition, cause.where.name if cause.where.kind == 'node' else '')
              for cell, cause in zip(asked, found, strict=True)}
    for name, cell in names(cells).items() if any(cell.verdict == 'regressed' for cell in asked) else ():
        group = codes.group_of(name, cell.subsystem)
        if cell.verdict in FINE:
            fine[cell.partition].add(group)
        elif cell.verdict == 'regressed':
            place, begin, _ = keys[id(cell)] = places.get(id(cell), (cell.partition, '')), cell.begin or bad, group
            slower[place].append((begin, name, group))

    @functools.cache
    def subsystem(place: tuple[str, str], begin: float, group: str) -> Subsystem:
        down: dict[str, list[str]] = {}
        for began, name, other in slower[place]:
            if abs(began - begin) <= BEGAN_WITHIN.total_seconds():
                down.setdefault(other, []).append(name)
        return part(down, fine.get(place[0], set()), group)
    return [cause.model_copy(update={'subsystem': subsystem(*key)}) if (key := keys.get(id(cell))) else cause
            for cell, cause in zip(asked, found, strict=True)]


def part(down: Mapping[str, list[str]], judged: set[str], of: str) -> Subsystem:
    """Return the part of a slower cell of group ``of``: what the slower cells of ``down`` tell together, by group,
    beside the groups that have cells in order."""
    for found, needed, support, others in RULES:
        fine = [group for group in others if group in judged]
        if down.keys() >= set(needed) and fine and not down.keys() & set(others):
            moved = [group for group in (*needed, *support) if group in down]
            if of not in moved:
                return Subsystem(why=f'slower: {of}; that is no part of {found}')
            return Subsystem(name=found, cells=[cell for group in moved for cell in down[group]],
                             why=f'{" and ".join(moved)} slower, {" and ".join(fine)} not')
    rest = 'these move together in no way that is known' if judged - down.keys() else \
        'nothing else was judged'
    return Subsystem(why=f'slower: {", ".join(down)}; {rest}')
