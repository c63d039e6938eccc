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
from parity.site.identity import undistributed

#: Words of cells that are as fast as they should be.
FINE = ('ok', 'improved')
_FIGURE = ('case', 'size', 'metric')
_COLUMNS = (*_FIGURE, 'partition', 'environ', 'session', 'rerun_of', 'start', 'value', 'better', 'low', 'high',
            'node', 'reference', 'unit', 'software', 'work')
#: Of the nodes of a case that `--distribute` made, so many others are looked at.
_OTHERS = 100


def with_causes(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """Return the cells, the slower ones with their cause, also those of one bad night.

    Raises InfrastructureError where the database cannot be read."""
    slower = [cell for cell in cells if _is_low(cell)]
    if not slower:
        return cells
    figures = history.parts(system, reruns=True, labelled=True)
    nights = database.sessions(system)
    causes = iter(of_cells(slower, cells, figures, nights, session))
    explained = []
    for cell in cells:
        if _is_low(cell):
            cell = cell.model_copy(update={'cause': next(causes)})
        explained.append(cell)
    return explained


def _is_low(cell: Cell) -> bool:
    return cell.verdict == 'regressed' or bool(cell.once)


def named_once(cells: Iterable[Cell]) -> list[str]:
    """Return the nodes on which alone cells were slow tonight, for one night as yet."""
    nodes = set()
    for cell in cells:
        if cell.once and cell.cause and cell.cause.where.kind == 'node':
            nodes.add(node_name(cell.cause.where.name))
    return sorted(nodes)


def of_cells(asked: list[Cell], cells: list[Cell], stored: history.Parts, nights: list[Session],
             session: str) -> list[Attribution]:
    """Return the known cause of each asked cell; of one that is not slower, only what changed since it was good.

    ``cells``: all cells of ``session`` (a uuid). ``stored``: history.parts of the system, with reruns and labels.
    ``nights``: its database.sessions, this one among them."""
    starts = [night.start for night in nights if night.uuid == session]
    if not starts:
        of_session = stored.gathered(lambda part: part.filter(session=session).select('start'))
        starts = of_session['start'].to_list()
    bad = starts[0] if starts else float('inf')
    past = _Past.of(asked, cells, stored, nights, session, bad)
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
    stored: history.Parts
    #: by _figure_of_nodes: tonight's cells of a case on each node
    on_nodes: dict[tuple, list[Cell]]

    @classmethod
    def of(cls, asked: list[Cell], cells: list[Cell], stored: history.Parts, nights: list[Session], session: str,
           bad: float) -> _Past:
        names = {name: [getattr(cell, name) for cell in asked] for name in _FIGURE}
        schema = dict.fromkeys(_FIGURE, history.TEXT)
        wanted = pl.LazyFrame(names, schema)
        is_past = pl.col('start') <= bad
        is_rerun = pl.col('rerun_of') == session

        def of_asked(part: pl.LazyFrame) -> pl.LazyFrame:
            past = part.filter(is_past | is_rerun)
            counting = history.counted(past, reruns=True)
            return counting.join(wanted, on=_FIGURE, how='semi')

        usual = stored.of_cases(set(names['case'])).gathered(of_asked)
        rows = usual.select(_COLUMNS).partition_by(_FIGURE, as_dict=True)
        changed = functools.partial(changes.between, nights, bad)
        return cls(
            session, bad, rows,
            values=_values_of_nights(usual),
            changed=functools.cache(changed),
            given=functools.cache(changes.work),
            stored=stored,
            on_nodes=_on_nodes(cells))

    @functools.cached_property
    def nodes(self) -> dict[str, set[str]]:
        """Return the nodes that jobs ran on, by partition: few causes need them."""
        return _nodes_of_partitions(self.stored)

    def cause(self, cell: Cell) -> Attribution:
        figure = tuple(getattr(cell, name) for name in _FIGURE)
        frame = self.rows.get(figure)
        rows = [] if frame is None else frame.to_dicts()        # of all partitions and environments
        here = cell.partition, cell.environ
        of_cell = [row for row in rows if (row['partition'], row['environ']) == here]
        cell_name = tuple(getattr(cell, name) for name in history.CELL)
        values = self.values.get(cell_name, {})
        good, first = _begin(cell, of_cell, values, self.session, self.bad)
        where = Where()
        if _is_low(cell):
            last_good = float('-inf') if good is None else good
            of_case = figures(rows, self.session, last_good, cell)
            of_case += self._elsewhere(cell)
            where = place(of_case, cell.partition, lambda: self.nodes.get(cell.partition, set()))
        if good is None:
            return Attribution(where=where)
        if where.kind == 'node':
            nodes = frozenset({where.name})
        else:
            nodes = _nodes_at(of_cell, first) or frozenset(cell.nodes)
        good_nodes = _nodes_at(of_cell, good)
        differences = _of_other_nodes(good_nodes, nodes, first)
        differences += changes.of_rows(of_cell, good, first, self.given)
        for change in self.changed(good, cell.environ, first):
            if change.concerns(nodes):
                differences.append(change)
        return Attribution(where=where, changes=differences)

    def _elsewhere(self, cell: Cell) -> list[CellFigure]:
        """Return tonight's figures of the same case on other nodes, where `--distribute` made it.

        A figure is slow if it is nearer to such a fall than to its usual value."""
        usual, now = _usual(cell), _level(cell)
        if not usual or not now:
            return []
        others = []
        for other in self.on_nodes.get(_figure_of_nodes(cell), ()):
            if other.nodes == cell.nodes:
                continue
            limit = _usual(other) * (1 + now / usual) / 2
            is_slow = beyond(other.value, limit, other.better)
            others.append(CellFigure(other.partition, frozenset(other.nodes), self.bad, now=True, slow=is_slow))
            if len(others) == _OTHERS:
                break
        return others


def _figure_of_nodes(cell: Cell) -> tuple:
    """Return what the cells share that `--distribute` made of one figure."""
    case, _ = undistributed(cell.case)
    return cell.partition, cell.environ, case, cell.size, cell.metric


def _on_nodes(cells: Iterable[Cell]) -> dict[tuple, list[Cell]]:
    """Return the measured cells that `--distribute` made, by the figure that they share."""
    by_figure = defaultdict(list)
    for cell in cells:
        _, node = undistributed(cell.case)
        if node and cell.is_figure and cell.better and _usual(cell):
            by_figure[_figure_of_nodes(cell)].append(cell)
    return by_figure


def _usual(cell: Cell) -> float | None:
    """Return the usual value of a cell; the expected one where it has no usual value."""
    return cell.usual or cell.expected


def _level(cell: Cell) -> float | None:
    """Return the level of a slow cell; tonight's figure of one that is low for the first time."""
    return cell.level if _is_slow(cell) else cell.value


def _values_of_nights(frame: pl.DataFrame) -> dict[tuple, dict[float, float]]:
    """Return the value of each night, by its begin, by CELL. ``frame``: all figures."""
    nights = history.nights(frame).select(*history.CELL, 'start', 'value').collect()
    values: dict[tuple, dict[float, float]] = {}
    for *cell, start, value in nights.iter_rows():
        of_cell = values.setdefault(tuple(cell), {})
        of_cell[start] = value
    return values


def _nodes_of_partitions(stored: history.Parts) -> dict[str, set[str]]:
    """Return the nodes that jobs ran on, by partition."""
    jobs = stored.gathered(lambda part: part.select('partition', 'node').unique())
    nodes: dict[str, set[str]] = {}
    for partition, of_job in jobs.iter_rows():
        of_partition = nodes.setdefault(partition, set())
        of_partition.update(filter(None, of_job.split(',')))
    return nodes


def _of_other_nodes(before: frozenset[str], now: frozenset[str], since: float) -> list[Change]:
    """Return the change of nodes, where a cell ran on none of those before."""
    if not before or not now or before & now:
        return []
    old = ' '.join(sorted(before))
    new = ' '.join(sorted(now))
    change = Change(fact='nodes', old=old, new=new, since=since)
    return [change]


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
        earlier = [row for row in rows if row['start'] < start and row['rerun_of'] != session]
        limit = edge(earlier, start)
    slow, fine = [], []
    for began, value in nights.items():
        if began >= start:
            continue
        if limit is not None and beyond(value, limit, rows[-1]['better']):
            slow.append(began)
        else:
            fine.append(began)
    first = start
    if has_level:
        of_level = [began for began in slow if began >= cell.begin]
        first = min(of_level, default=start)
    fine_before = [began for began in fine if began < first]
    good = max(fine_before, default=None)
    if good is not None and not has_level:
        slow_since = [began for began in slow if began > good]
        first = min(slow_since, default=first)
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
        low, high = row['low'], row['high']
        if low is not None or high is not None:
            return low if row['better'] == 'higher' else high
    values = [row['value'] for row in rows if row['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    deviation = median(abs(value - middle) for value in values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    quartile_range = third - first
    spread = max(1.4826 * deviation, 0.7413 * quartile_range)
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    if rows[0]['better'] == 'higher':
        return middle - room
    return middle + room


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
    has_values = bool(cell.level and cell.usual)
    has_level = _is_slow(cell) and has_values and cell.level / cell.usual > 0
    judged = []
    for group, of_group in groups.items():
        if has_level:
            limit = _limit(group, of_group, cell, good)
        else:
            limit = edge(of_group, good)
        if limit is None:
            continue
        for row in of_group:
            start = row['start']
            is_tonight = session in (row['session'], row['rerun_of'])
            is_now = is_tonight or has_level and start >= cell.begin
            is_slow = beyond(row['value'], limit, row['better'])
            judged.append(CellFigure(row['partition'], nodes_of(row), start, is_now, is_slow))
    return sorted(judged, key=lambda figure: figure.start)


def _limit(place: tuple, rows: list, cell: Cell, good: float) -> float | None:
    """Return the middle between the usual figure of a place and the same after the fall of the cell."""
    if place == (cell.partition, cell.environ):
        return (cell.level + cell.usual) / 2
    before = [row['value'] for row in rows if row['start'] < cell.begin]
    if len(before) < ENOUGH:
        return edge(rows, good)
    usual = median(before)
    return usual * (1 + cell.level / cell.usual) / 2


def nodes_of(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, row['node'].split(',')))


def place(figures: list[CellFigure], partition: str, every: Callable[[], set[str]]) -> Where:
    """Return where the slow figures in ``partition`` come from. ``every`` returns its nodes."""
    of_partition = [figure for figure in figures if figure.partition == partition]
    slow = [figure for figure in of_partition if figure.now and figure.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = []
    for node in _all_nodes(slow):
        with_node = sum(node in figure.nodes for figure in slow)
        if 2 * with_node <= len(slow):
            continue
        where = _apart(node, of_partition)
        if where is not None:
            apart.append(where)
    if len(apart) == 1:
        return apart[0]
    return _partitions(figures, partition, every)


def _all_nodes(figures: Iterable[CellFigure]) -> list[str]:
    nodes = frozenset().union(*(figure.nodes for figure in figures))
    return sorted(nodes)


def _apart(node: str, figures: list[CellFigure]) -> Where | None:
    """The node, if its figures are slow and most of those without it were not since its own became so.

    Chance may make one figure of four look fine."""
    with_it = [figure for figure in figures if node in figure.nodes]
    fine_starts = [figure.start for figure in with_it if not figure.slow]
    fine_until = max(fine_starts, default=float('-inf'))
    slow_starts = [figure.start for figure in with_it if figure.start > fine_until]
    since = min(slow_starts, default=float('inf'))
    others = []
    for figure in figures:
        is_elsewhere = figure.nodes and node not in figure.nodes
        is_since = figure.now or figure.start >= since
        if is_elsewhere and is_since:
            others.append(figure)
    slow_others = sum(figure.slow for figure in others)
    if 2 * slow_others >= len(others):
        return None
    slow_share = fmean(figure.slow for figure in with_it if figure.now)
    if slow_share < _MOST:
        return None
    nodes = several(_all_nodes(others))
    why = f'not slow on {nodes}'
    if slow_others:
        why = f'slow in {slow_others} of {len(others)} figures on {nodes}'
    return Where(kind='node', name=node, why=why)


def _partitions(figures: list[CellFigure], partition: str, every: Callable[[], set[str]]) -> Where:
    """All nodes alike: this partition, or every one that measured the same."""
    now: dict[str, list[CellFigure]] = {}
    for figure in figures:
        if figure.now:
            now.setdefault(figure.partition, []).append(figure)
    slow, fine = [], []
    for name in sorted(now):
        slow_share = fmean(figure.slow for figure in now[name])
        (slow if slow_share > 0.5 else fine).append(name)
    here = now[partition]
    if partition in fine:
        slow_here = sum(figure.slow for figure in here)
        count = counted(len(here), 'figure')
        return Where(why=f'{slow_here} of {count} of this night are slow')
    slow_names = ', '.join(slow)
    if fine:
        fine_names = ', '.join(fine)
        return Where(kind='partition', name=slow_names, why=f'not slow on {fine_names}')
    if len(slow) > 1:
        return Where(kind='everything', name=slow_names, why=f'slow on {slow_names}')
    nodes = _all_nodes(here)
    ran_everywhere = set(nodes) == every()
    if len(nodes) > 1 or nodes and ran_everywhere:
        lacking = 'node' if ran_everywhere else 'partition'
        why = f'slow on {several(nodes)}; no other {lacking} was measured'
        return Where(kind='partition', name=partition, alone=True, why=why)
    only = several(nodes) or 'an unknown node'
    return Where(why=f'only {only} was measured')


class Rule(NamedTuple):
    """A part of a machine, and the groups of cells that show a fault in it.

    A group is a part that a code names for its cells (`parts`), else a subsystem."""

    part: str
    slower: list[str]                # each of these has a slower cell
    support: list[str]               # slower cells of these support the rule
    fine: list[str]                  # at least one of these was judged, and none is slower


#: The first rule that fits counts.
RULES = (
    Rule('memory', ['memory'], ['memory-bound codes', 'within a node'], ['compute', 'network']),
    Rule('compute clock', ['compute'], ['memory-bound codes'], ['memory']),
    Rule('compute and memory alike', ['compute', 'memory'], ['memory-bound codes', 'within a node'],
         ['network', 'storage']),
    Rule('network', ['network'], ['storage'], ['compute', 'memory', 'memory-bound codes', 'within a node']),
    Rule('storage', ['storage'], [], ['compute', 'memory', 'memory-bound codes', 'network']),
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
            node = nodes.get(id(cell), '')
            fall = _Fall((cell.partition, node), cell.begin or bad, group)
            falls[id(cell)] = fall
            slower[fall.place].append((name, fall))
    part_of: dict[_Fall, Subsystem] = {}
    with_parts = []
    for cell, cause in zip(asked, causes, strict=True):
        fall = falls.get(id(cell))
        if fall is None:
            with_parts.append(cause)
            continue
        if fall not in part_of:
            partition, _ = fall.place
            down = _down_together(fall, slower[fall.place])
            part_of[fall] = part(down, fine.get(partition, set()), fall.group)
        with_parts.append(cause.model_copy(update={'subsystem': part_of[fall]}))
    return with_parts


def _down_together(fall: _Fall, slower: list[tuple[str, _Fall]]) -> dict[str, list[str]]:
    """Return the ``slower`` cells of a place that began with the fall: their names, by group."""
    down: dict[str, list[str]] = {}
    for name, other in slower:
        between = abs(other.begin - fall.begin)
        if between <= BEGAN_WITHIN.total_seconds():
            down.setdefault(other.group, []).append(name)
    return down


def part(down: Mapping[str, list[str]], judged: set[str], of: str) -> Subsystem:
    """Return the part of a slower cell of group ``of``: what the slower cells of ``down`` tell together, by group,
    beside the groups that have cells in order."""
    for rule in RULES:
        fine = [group for group in rule.fine if group in judged]
        all_slower = down.keys() >= set(rule.slower)
        none_down = down.keys().isdisjoint(rule.fine)
        if not (all_slower and none_down and fine):
            continue
        moved = [group for group in (*rule.slower, *rule.support) if group in down]
        if of not in moved:
            return Subsystem(why=f'slower: {of}; that is no part of {rule.part}')
        cells = []
        for group in moved:
            cells += down[group]
        slower, not_slower = ' and '.join(moved), ' and '.join(fine)
        return Subsystem(name=rule.part, cells=cells, why=f'{slower} slower, {not_slower} not')
    groups = ', '.join(down)
    if judged - down.keys():
        return Subsystem(why=f'slower: {groups}; these move together in no way that is known')
    return Subsystem(why=f'slower: {groups}; nothing else was judged')
