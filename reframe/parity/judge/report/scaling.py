"""The scaling of a check: its figures over nodes, ranks or threads, as a table, CSV and drawings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
from itertools import chain
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any, NamedTuple

import polars as pl

from parity.base import codes, console, csvfile, figures
from parity.base.errors import NothingMeasured, UsageError, unknown
from parity.base.groups import grouped
from parity.base.text import columns
from parity.judge.compare.model import differing
from parity.judge.compare.resolve import DAYS
from parity.judge.report import drawings
from parity.judge.report.drawings import Drawing, Plot, PlotLine
from parity.judge.stats import interval
from parity.judge.store import database, history
from parity.judge.verdict.model import Cell

#: The axes of a sweep: the parameters that set each, and the value of -P that measures one.
AXES = {'nodes': (('nodes', 'span'), 'nodes=1,2,4'), 'ranks': (('ranks_a_node', 'nodes', 'span'), 'nodes=1,2,4'),
        'threads': (('threads', 'thread_count'), 'thread_count=1,2,4')}
#: Facts that a sweep changes; all others must be alike.
_SWEPT = {*AXES, 'input', 'arguments'}
_facts = cache(json.loads)


class Interval(NamedTuple):
    """A figure with the ends of its interval; None where there is none."""

    value: float | None
    low: float | None
    high: float | None


class Point(NamedTuple):
    """The figure at a size, its ratio to that at the smallest size, and the efficiency."""

    size: int
    value: float                     # median
    seconds: list[float]             # of the runs
    sessions: int
    runs: int
    ratio: Interval
    efficiency: Interval
    why: str                         # there is no interval


class ScalingSeries(NamedTuple):
    """A metric of a case over the sizes. ``kind``: strong for one problem on all sizes, weak for one that grows
    with them, '' where the code does not tell (`scales` of its code.yaml)."""

    place: str
    environ: str
    subsystem: str
    check: str
    case: str                        # without the parameters that are swept
    metric: str
    unit: str
    better: str
    by: str
    kind: str
    problem: str                     # how it grows
    points: list[Point]
    notes: list[str]


def of_check(check: str, by: str = '') -> list[ScalingSeries]:
    """Return the sweeps of a check by one of AXES ('': by the first with two sizes) at each place. They have the
    sessions of the 14 days before the newest one with two sizes.

    Raises UsageError for a check that nobody planned, NothingMeasured where each place has one size."""
    if by not in ('', *AXES):
        raise UsageError(f'--by: {unknown("axis", by, list(AXES))}')
    uuids = database.uuids()
    status_and_reason = pl.concat_str('status', 'reason', separator=': ')
    why = status_and_reason.str.strip_prefix(': ')
    cases = history.rows(uuids).select('check', 'case', why=why)
    planned = cases.unique(maintain_order=True).collect()
    checks = sorted({*planned['check']})
    if not checks:
        raise database.nothing_stored()
    if check not in checks:
        raise UsageError(unknown('check', check, checks))
    rows = _rows(uuids, [check])
    axes = [by] if by else list(AXES)
    measured = []
    for axis in axes:
        sweeps: list[ScalingSeries] = []
        for of_place in rows:
            sweeps += _sweeps(of_place, axis)
        scaled = [sweep for sweep in sweeps if len(sweep.points) > 1]
        if scaled:
            with_kind = [sweep for sweep in scaled if sweep.kind]
            return with_kind or scaled
        sizes = {point.size for sweep in sweeps for point in sweep.points}
        if sizes:
            texts = map(str, sorted(sizes))
            measured.append(f'{axis} {", ".join(texts)}')
    raise _nothing_to_scale(check, by, planned.filter(check=check), '; '.join(measured))


def _nothing_to_scale(check: str, by: str, planned: pl.DataFrame, measured: str) -> NothingMeasured:
    axis = by
    if not axis:
        has_threads = any(' %threads=' in case for case in planned['case'])
        axis = 'threads' if has_threads else 'nodes'
    _, parameter = AXES[axis]
    why = measured or planned['why'][-1] or f'{axis} unknown'
    return NothingMeasured(f'{check}: nothing to scale: no place has figures on two sizes ({why}); measure some: '
                           f'reframe -c checks/ -n {check} -P {parameter} -r')


def _rows(uuids: Iterable[str], checks: Collection[str], *wanted: pl.Expr) -> list[pl.DataFrame]:
    """Return the figures of these checks, those of each check, place and environment by themselves."""
    of_checks = pl.col('check').is_in(list(checks))
    has_value = pl.col('value').is_not_null()
    is_ok = pl.col('status') == ''
    counted = history.counted(history.rows(uuids), labelled=True)
    rows = counted.filter(*wanted, of_checks, has_value, is_ok)
    place = pl.col('system') + ':' + pl.col('partition')
    placed = rows.with_columns(place=place).collect()
    return placed.partition_by('check', 'place', 'environ', maintain_order=True)


def _sweeps(rows: pl.DataFrame, by: str) -> Iterator[ScalingSeries]:
    """Yield the sweeps of one check, place and environment."""
    fact = pl.col('alike').str.json_path_match(f'$.{by}')
    size = pl.col('at')
    with_sizes = rows.with_columns(at=fact.cast(pl.Int64, strict=False))
    sized = with_sizes.filter(size.is_not_null())
    sizes_of_session = size.n_unique().over('session')
    several = sized.filter(sizes_of_session > 1)
    with_newest = sized if several.is_empty() else several
    newest = with_newest['start'].max() or 0
    earliest = newest - DAYS * 86400
    recent = sized.filter(pl.col('start') >= earliest).sort('start')
    sweeps: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in recent.iter_rows(named=True):
        row['facts'] = _facts(row['alike'])
        case = _without(by, row['case'])
        sweeps.setdefault((case, row['metric']), []).append(row)
    for (case, _), of_sweep in sweeps.items():
        yield _sweep(case, by, of_sweep)


def _without(by: str, case: str) -> str:
    """Return the case without the parameters that sweep the axis."""
    parameters, _ = AXES[by]
    parts = []
    for part in case.split(' %'):
        name, _, _ = part.partition('=')
        if name not in parameters:
            parts.append(part)
    return ' %'.join(parts)


def _declared(case: str, metric: str) -> str:
    """Return strong or weak, as the code declares it for a figure of all ranks or threads together; else ''."""
    name = f'{case.replace(" ", "")}.{metric}'
    for code in codes.every():
        for pattern, kind in code.scales.items():
            if re.match(pattern, name):
                return kind
    return ''


def _sweep(case: str, by: str, rows: list[dict[str, Any]]) -> ScalingSeries:
    """Keep of each size the runs like its newest, and the sizes like the newest of all; ``rows``: oldest first."""
    last = rows[-1]
    alike = {fact: value for fact, value in last['facts'].items() if fact not in _SWEPT}
    sizes = {}
    newest_facts = {}
    notes = []
    for size, runs in grouped(rows, itemgetter('at')).items():
        newest = runs[-1]
        facts, label = newest['facts'], newest['label']
        unlike = [f'{fact} {facts[fact]} | {alike[fact]}' for fact in differing(facts, alike)]
        if unlike:
            notes.append(f'{by} {size} left out, unlike the newest: {", ".join(unlike)}')
            continue
        same_label = [run for run in runs if run['label'] == label]
        sizes[size] = [run for run in same_label if not differing(run['facts'], facts)]
        newest_facts[size] = facts
        if label:
            notes.append(f'{by} {size}: {label}')
    in_order = sorted(sizes)
    facts_in_order = [newest_facts[size] for size in in_order]
    declared = _declared(case, last['metric'])
    kind, problem = _kind(declared, facts_in_order)
    least = in_order[0]
    first = sizes[least]
    points = [_point(size, sizes[size], least, first, kind) for size in in_order]
    return ScalingSeries(last['place'], last['environ'], last['subsystem'], last['check'], case, last['metric'],
                         last['unit'], last['better'], by, kind, problem, points, notes)


def _kind(kind: str, facts: list[dict[str, str]]) -> tuple[str, str]:
    """Return strong, weak or '', and how the problem goes with the size, as the runs' own inputs tell."""
    inputs = _different(facts, 'input')
    commands = _different(facts, 'arguments')
    problem = inputs[0]
    if len(inputs) > 1:
        problem = f'{inputs[0]} .. {inputs[-1]}'
    one_input = len(inputs) == 1
    one_problem = one_input and len(commands) == 1
    if kind == 'strong' and not one_problem:
        return '', f'not the same problem: {problem or " .. ".join(commands)}'
    if kind == 'weak' and one_input and problem:
        kind = 'strong'
    return kind, problem


def _different(facts: list[dict[str, str]], fact: str) -> list[str]:
    """Return the different values of a fact, without the grid of ranks in them."""
    values = [re.sub(r' [pq]=\d+', '', of_size.get(fact, '')) for of_size in facts]
    return list(dict.fromkeys(values))


def _point(size: int, rows: list[dict[str, Any]], least: int, first: list[dict[str, Any]], kind: str) -> Point:
    """Compare a size with the smallest."""
    result = interval.Ratio(1.0)
    if size != least:
        try:
            result = interval.ratio(_sample(first), _sample(rows))
        except ValueError as err:
            result = interval.Ratio(None, why=str(err))
    ratio = Interval(result.ratio, result.low, result.high)
    better = rows[0]['better']
    speed = ratio
    if better != 'higher':
        speed = Interval(_inverse(ratio.value), _inverse(ratio.high), _inverse(ratio.low))
    efficiency = _efficiency(speed, size / least, kind, better)
    middle = median(row['value'] for row in rows)
    seconds = [row['seconds'] for row in rows if row['seconds']]
    sessions = {row['session'] for row in rows}
    return Point(size, middle, seconds, len(sessions), len(rows), ratio, efficiency, result.why)


def _efficiency(speed: Interval, growth: float, kind: str, better: str) -> Interval:
    """Return the speed a node, rank or thread, as a share of the smallest size's; ``growth``: of the size."""
    if not kind:
        return Interval(None, None, None)
    if kind == 'weak' and better == 'lower':
        # a weak sweep's time stays where it scales; its rate grows, and so does the speed of one problem
        growth = 1.0
    shares = [share / growth if share else None for share in speed]
    return Interval(*shares)


def _sample(rows: list[dict[str, Any]]) -> interval.Sample:
    return interval.sample((row['session'], row['value']) for row in rows)


def _inverse(share: float | None) -> float | None:
    return 1 / share if share else None


# ---- text

def lines(sweeps: list[ScalingSeries]) -> Iterator[console.Line]:
    """Yield the lines of a table a case, its metrics below one another."""
    cases = grouped(sweeps, attrgetter('case', 'place', 'environ', 'kind', 'problem'))
    for number, of_case in enumerate(cases.values()):
        if number:
            yield ''
        first = of_case[0]
        yield _title(first), 'bold'
        table = [[first.by, *_HEAD]]
        notes: dict[str, None] = {}
        for sweep in of_case:
            table += [_cells(sweep, point) for point in sweep.points]
            notes.update(dict.fromkeys(sweep.notes))
            notes.update(dict.fromkeys(point.why for point in sweep.points))
        yield from columns(table, right=(0, 2, 3, 4, 6))
        for note in notes:
            if note:
                yield f'  {note}'


_HEAD = ('metric', 'median', 'time of a run', 'ratio', '95 %', 'efficiency', '95 %', 'sessions: runs')


def _title(sweep: ScalingSeries) -> str:
    place = f'{sweep.place}+{sweep.environ}'
    title = f'{sweep.case} by {sweep.by} on {place}: '
    if sweep.kind:
        title += f'{sweep.kind} scaling'
    else:
        title += 'neither strong nor weak is known'
    if sweep.problem:
        title += f' ({sweep.problem})'
    return title


def _cells(sweep: ScalingSeries, point: Point) -> list[str]:
    size = str(point.size)
    middle = figures.figure(point.value, sweep.unit)
    time = _time(point)
    ratio = _ratio(point.ratio.value)
    ratio_limits = _limits(point.ratio, _ratio)
    efficiency = _percent(point.efficiency.value)
    efficiency_limits = _limits(point.efficiency, _percent)
    counts = f'{point.sessions}: {point.runs}'
    return [size, sweep.metric, middle, time, ratio, ratio_limits, efficiency, efficiency_limits, counts]


def _time(point: Point) -> str:
    if not point.seconds:
        return figures.NOTHING
    time = figures.duration(median(point.seconds))
    spread = interval.spread(point.seconds)
    if spread is None:
        return time
    return f'{time} ± {figures.percent(spread)}'


_ratio = partial(figures.number, pad=True)


def _percent(share: float | None) -> str:
    return figures.NOTHING if share is None else f'{100 * share:.1f} %'


def _limits(of: Interval, text: Callable[[float | None], str]) -> str:
    if of.low is None:
        return figures.NOTHING
    return f'[{text(of.low)}, {text(of.high)}]'


_COLUMNS = ('place', 'environ', 'check', 'case', 'metric', 'unit', 'better', 'by', 'kind')
_OF_POINT = ('size', 'value', 'seconds', 'sessions', 'runs', 'ratio', 'ratio_low', 'ratio_high', 'efficiency',
             'efficiency_low', 'efficiency_high', 'why')


def table(sweeps: list[ScalingSeries]) -> str:
    """Return a row for each size of each metric as CSV; seconds: the median of the runs."""
    rows = []
    for sweep in sweeps:
        about = [getattr(sweep, name) for name in _COLUMNS]
        for point in sweep.points:
            seconds = median(point.seconds) if point.seconds else None
            measured = [point.size, point.value, seconds, point.sessions, point.runs]
            rows.append([*about, *measured, *point.ratio, *point.efficiency, point.why])
    return csvfile.written((*_COLUMNS, *_OF_POINT), rows)


# ---- drawings

def drawn(session: str, cells: Iterable[Cell]) -> list[Drawing]:
    """Return a drawing for each sweep of the session's cells whose kind is known, `drawings.MOST` at most: figures
    with their intervals, and a line for what scales without loss."""
    chosen = _swept(cells)
    checks = {cell.check for cell in chosen}
    cases = [cell.case for cell in chosen]
    places = {(cell.system, cell.partition) for cell in chosen}
    plots: dict[Plot, list[PlotLine]] = {}
    for system, partition in sorted(places):
        nights = database.sessions_of(system, partition, DAYS, until=session)
        wanted = pl.col('case').is_in(cases) & (pl.col('partition') == partition)
        for rows in _rows(nights, checks, wanted):
            for sweep in _of_first_axis(rows):
                if not sweep.kind:
                    continue
                line = _line(sweep, f'{partition}+{sweep.environ}, {sweep.kind}')
                of_plot = plots.setdefault(_plot(sweep), [])
                of_plot.append(line)
    drawn = [drawings.draw(plot, lines) for plot, lines in plots.items()]
    return [drawing for drawing in drawn if drawing]


def _plot(sweep: ScalingSeries) -> Plot:
    return Plot(sweep.subsystem, sweep.case, sweep.by, '', sweep.metric, sweep.unit, sweep.better)


def _swept(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of the first sweeps whose kind is declared."""
    sweeps: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if cell.value is None:
            continue
        cases = [_without(by, cell.case) for by in AXES]
        shorter = [case for case in cases if case != cell.case]
        if shorter and _declared(shorter[0], cell.metric):
            of_sweep = sweeps.setdefault((shorter[0], cell.metric), [])
            of_sweep.append(cell)
    first = list(sweeps.values())[:drawings.MOST]
    return list(chain(*first))


def _of_first_axis(rows: pl.DataFrame) -> list[ScalingSeries]:
    """Return the sweeps by the first axis on which some have several sizes."""
    for by in AXES:
        sweeps = [sweep for sweep in _sweeps(rows, by) if len(sweep.points) > 1]
        if sweeps:
            return sweeps
    return []


def _line(sweep: ScalingSeries, name: str) -> PlotLine:
    """Return the figures as the smallest size's, times the ratio to it: the interval is of that."""
    first = sweep.points[0]
    power = 1 if sweep.better == 'higher' else -1
    if sweep.kind == 'weak' and sweep.better == 'lower':
        power = 0

    def law(size: float) -> float:
        return first.value * (size / first.size) ** power

    points, limits = {}, {}
    for point in sweep.points:
        size, ratio = point.size, point.ratio
        points[size] = point.value
        if ratio.low:
            points[size] = first.value * ratio.value
            limits[size] = first.value * ratio.low, first.value * ratio.high
    return PlotLine(name, points, limits=limits, law=law)
