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
    why = pl.concat_str('status', 'reason', separator=': ').str.strip_prefix(': ').alias('why')
    planned = history.rows(uuids).select('check', 'case', why).unique(maintain_order=True).collect()
    checks = sorted({*planned['check']})
    if not checks:
        raise database.nothing_stored()
    if check not in checks:
        raise UsageError(unknown('check', check, checks))
    rows = _rows(uuids, [check])
    measured = []
    for axis in [by] if by else AXES:
        sweeps = [sweep for own in rows for sweep in _sweeps(own, axis)]
        scaled = [sweep for sweep in sweeps if len(sweep.points) > 1]
        if scaled:
            return [sweep for sweep in scaled if sweep.kind] or scaled
        sizes = sorted({point.size for sweep in sweeps for point in sweep.points})
        if sizes:
            measured.append(f'{axis} {", ".join(map(str, sizes))}')
    raise _nothing_to_scale(check, by, planned.filter(check=check), '; '.join(measured))


def _nothing_to_scale(check: str, by: str, planned: pl.DataFrame, measured: str) -> NothingMeasured:
    axis = by
    if not axis:
        has_threads = any(' %threads=' in case for case in planned['case'])
        axis = 'threads' if has_threads else 'nodes'
    why = measured or planned['why'][-1] or f'{axis} unknown'
    return NothingMeasured(f'{check}: nothing to scale: no place has figures on two sizes ({why}); measure some: '
                           f'reframe -c checks/ -n {check} -P {AXES[axis][1]} -r')


def _rows(uuids: Iterable[str], checks: Collection[str], *wanted: pl.Expr) -> list[pl.DataFrame]:
    """Return the figures of these checks, those of each check, place and environment by themselves."""
    counted = history.counted(history.rows(uuids), labelled=True)
    of_checks = pl.col('check').is_in(list(checks))
    rows = counted.filter(*wanted, of_checks, pl.col('value').is_not_null(), pl.col('status') == '')
    place = pl.col('system') + ':' + pl.col('partition')
    return rows.with_columns(place=place).collect().partition_by('check', 'place', 'environ', maintain_order=True)


def _sweeps(rows: pl.DataFrame, by: str) -> Iterator[ScalingSeries]:
    """Yield the sweeps of one check, place and environment."""
    size = pl.col('alike').str.json_path_match(f'$.{by}').cast(pl.Int64, strict=False)
    rows = rows.with_columns(at=size).filter(pl.col('at').is_not_null())
    several = rows.filter(pl.col('at').n_unique().over('session') > 1)
    with_newest = rows if several.is_empty() else several
    newest = with_newest['start'].max() or 0
    rows = rows.filter(pl.col('start') >= newest - DAYS * 86400).sort('start')
    sweeps: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        row['facts'] = _facts(row['alike'])
        sweeps.setdefault((_without(by, row['case']), row['metric']), []).append(row)
    for (case, _), own in sweeps.items():
        yield _sweep(case, by, own)


def _without(by: str, case: str) -> str:
    """Return the case without the parameters that sweep the axis."""
    parameters, _ = AXES[by]
    parts = [part for part in case.split(' %') if part.partition('=')[0] not in parameters]
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
    sizes, notes = {}, []
    for size, runs in grouped(rows, itemgetter('at')).items():
        facts, label = runs[-1]['facts'], runs[-1]['label']
        unlike = [f'{fact} {facts[fact]} | {alike[fact]}' for fact in differing(facts, alike)]
        if unlike:
            notes.append(f'{by} {size} left out, unlike the newest: {", ".join(unlike)}')
            continue
        sizes[size] = [run for run in runs if not differing(run['facts'], facts) and run['label'] == label]
        if label:
            notes.append(f'{by} {size}: {label}')
    in_order = sorted(sizes)
    newest_facts = [sizes[size][-1]['facts'] for size in in_order]
    kind, problem = _kind(_declared(case, last['metric']), newest_facts)
    least = in_order[0]
    points = [_point(size, sizes[size], least, sizes[least], kind) for size in in_order]
    named = {name: last[name] for name in ('place', 'environ', 'subsystem', 'check', 'metric', 'unit', 'better')}
    return ScalingSeries(**named, case=case, by=by, kind=kind, problem=problem, points=points, notes=notes)


def _kind(kind: str, facts: list[dict[str, str]]) -> tuple[str, str]:
    """Return strong, weak or '', and how the problem goes with the size, as the runs' own inputs tell."""
    inputs, commands = _different(facts, 'input'), _different(facts, 'arguments')
    problem = inputs[0]
    if len(inputs) > 1:
        problem = f'{inputs[0]} .. {inputs[-1]}'
    if kind == 'strong' and (len(inputs) > 1 or len(commands) > 1):
        return '', f'not the same problem: {problem or " .. ".join(commands)}'
    if kind == 'weak' and len(inputs) == 1 and problem:         # one input on all sizes
        kind = 'strong'
    return kind, problem


def _different(facts: list[dict[str, str]], fact: str) -> list[str]:
    """Return the different values of a fact, without the grid of ranks in them."""
    values = [re.sub(r' [pq]=\d+', '', of_size.get(fact, '')) for of_size in facts]
    return list(dict.fromkeys(values))


def _point(size: int, rows: list[dict[str, Any]], least: int, first: list[dict[str, Any]], kind: str) -> Point:
    """Compare a size with the smallest: the efficiency is the speed a node, rank or thread, as a share of its."""
    result = interval.Ratio(1.0)
    if size != least:
        try:
            result = interval.ratio(_sample(first), _sample(rows))
        except ValueError as err:
            result = interval.Ratio(None, why=str(err))
    ratio = Interval(result.ratio, result.low, result.high)
    speed = ratio
    if rows[0]['better'] != 'higher':
        speed = Interval(_inverse(ratio.value), _inverse(ratio.high), _inverse(ratio.low))
    efficiency = Interval(None, None, None)
    if kind:
        # a weak sweep's time stays where it scales; its rate grows, and so does the speed of one problem
        grown = 1 if kind == 'weak' and rows[0]['better'] == 'lower' else size / least
        efficiency = Interval(*(share / grown if share else None for share in speed))
    seconds = [row['seconds'] for row in rows if row['seconds']]
    sessions = {row['session'] for row in rows}
    middle = median(row['value'] for row in rows)
    return Point(size, middle, seconds, len(sessions), len(rows), ratio, efficiency, result.why)


def _sample(rows: list[dict[str, Any]]) -> interval.Sample:
    return interval.sample((row['session'], row['value']) for row in rows)


def _inverse(share: float | None) -> float | None:
    return 1 / share if share else None


# ---- text

def lines(sweeps: list[ScalingSeries]) -> Iterator[console.Line]:
    """Yield the lines of a table a case, its metrics below one another."""
    cases = grouped(sweeps, attrgetter('case', 'place', 'environ', 'kind', 'problem'))
    for number, own in enumerate(cases.values()):
        if number:
            yield ''
        yield _title(own[0]), 'bold'
        table = [[own[0].by, *_HEAD]]
        notes: list[str] = []
        for sweep in own:
            table += [_cells(sweep, point) for point in sweep.points]
            notes += [*sweep.notes, *(point.why for point in sweep.points)]
        yield from columns(table, right=(0, 2, 3, 4, 6))
        for note in dict.fromkeys(filter(None, notes)):
            yield f'  {note}'


_HEAD = ('metric', 'median', 'time of a run', 'ratio', '95 %', 'efficiency', '95 %', 'sessions: runs')


def _title(sweep: ScalingSeries) -> str:
    title = f'{sweep.case} by {sweep.by} on {sweep.place}+{sweep.environ}: '
    title += f'{sweep.kind} scaling' if sweep.kind else 'neither strong nor weak is known'
    return f'{title} ({sweep.problem})' if sweep.problem else title


def _cells(sweep: ScalingSeries, point: Point) -> list[str]:
    ratio, efficiency = point.ratio, point.efficiency
    return [str(point.size), sweep.metric, figures.figure(point.value, sweep.unit), _time(point),
            _ratio(ratio.value), _limits(ratio, _ratio),
            _percent(efficiency.value), _limits(efficiency, _percent),
            f'{point.sessions}: {point.runs}']


def _time(point: Point) -> str:
    if not point.seconds:
        return figures.NOTHING
    time = figures.duration(median(point.seconds))
    spread = interval.spread(point.seconds)
    return time if spread is None else f'{time} ± {figures.percent(spread)}'


_ratio = partial(figures.number, pad=True)


def _percent(share: float | None) -> str:
    return figures.NOTHING if share is None else f'{100 * share:.1f} %'


def _limits(of: Interval, text: Callable[[float | None], str]) -> str:
    return figures.NOTHING if of.low is None else f'[{text(of.low)}, {text(of.high)}]'


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
            counts = point.sessions, point.runs
            rows.append([*about, point.size, point.value, seconds, *counts, *point.ratio, *point.efficiency,
                         point.why])
    return csvfile.written((*_COLUMNS, *_OF_POINT), rows)


# ---- drawings

def drawn(session: str, cells: Iterable[Cell]) -> list[Drawing]:
    """Return a drawing for each sweep of the session's cells whose kind is known, `drawings.MOST` at most: figures
    with their intervals, and a line for what scales without loss."""
    chosen = _swept(cells)
    checks = {cell.check for cell in chosen}
    cases = [cell.case for cell in chosen]
    plots: dict[Plot, list[PlotLine]] = {}
    for system, partition in sorted({(cell.system, cell.partition) for cell in chosen}):
        nights = database.sessions_of(system, partition, DAYS, until=session)
        wanted = pl.col('case').is_in(cases) & (pl.col('partition') == partition)
        for rows in _rows(nights, checks, wanted):
            for sweep in _of_first_axis(rows):
                if sweep.kind:
                    plot = Plot(sweep.subsystem, sweep.case, sweep.by, '', sweep.metric, sweep.unit, sweep.better)
                    line = _line(sweep, f'{partition}+{sweep.environ}, {sweep.kind}')
                    plots.setdefault(plot, []).append(line)
    drawn = [drawings.draw(plot, lines) for plot, lines in plots.items()]
    return [drawing for drawing in drawn if drawing]


def _swept(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of the first sweeps whose kind is declared."""
    sweeps: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        shorter = [case for case in (_without(by, cell.case) for by in AXES) if case != cell.case]
        case = shorter[0] if shorter else ''
        if cell.value is not None and case and _declared(case, cell.metric):
            sweeps.setdefault((case, cell.metric), []).append(cell)
    return list(chain(*list(sweeps.values())[:drawings.MOST]))


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
    points, limits = {}, {}
    for point in sweep.points:
        ratio = point.ratio
        points[point.size] = point.value
        if ratio.low:
            points[point.size] = first.value * ratio.value
            limits[point.size] = first.value * ratio.low, first.value * ratio.high
    return PlotLine(name, points, limits=limits, law=lambda size: first.value * (size / first.size) ** power)
