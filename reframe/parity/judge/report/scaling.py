"""The scaling of a check: its figures over nodes, ranks or threads, as a table, CSV and drawings."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, partial
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
Interval = tuple[float | None, float | None, float | None]


class Point(NamedTuple):
    """The figure at a size. ``ratio`` to the smallest size's, and ``efficiency``: each with its interval, None
    where there is none; ``why`` says it."""

    size: int
    value: float                     # median
    seconds: list[float]             # of the runs
    sessions: int
    runs: int
    ratio: Interval
    efficiency: Interval
    why: str


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
    if not (checks := sorted({*planned['check']})):
        raise database.nothing_stored()
    if check not in checks:
        raise UsageError(unknown('check', check, checks))
    planned = planned.filter(check=check)
    seen, rows = [], _rows(uuids, [check])
    for axis in [by] if by else AXES:
        sweeps = [sweep for own in rows for sweep in _sweeps(own, axis)]
        if found := [sweep for sweep in sweeps if sweep.points[1:]]:
            return [sweep for sweep in found if sweep.kind] or found
        if sizes := sorted({point.size for sweep in sweeps for point in sweep.points}):
            seen.append(f'{axis} {", ".join(map(str, sizes))}')
    axis = by or ('threads' if any(' %threads=' in case for case in planned['case']) else 'nodes')
    raise NothingMeasured(f'{check}: nothing to scale: no place has figures on two sizes ('
                          f'{"; ".join(seen) or planned["why"][-1] or f"{axis} unknown"}); measure some: '
                          f'reframe -c checks/ -n {check} -P {AXES[axis][1]} -r')


def _rows(uuids: Iterable[str], checks: Collection[str], *wanted: pl.Expr) -> list[pl.DataFrame]:
    """Return the figures of these checks, those of each check, place and environment by themselves."""
    rows = history.counted(history.rows(uuids), labelled=True).filter(
        *wanted, pl.col('check').is_in(list(checks)), pl.col('value').is_not_null(), pl.col('status') == ''
    ).with_columns(place=pl.col('system') + ':' + pl.col('partition'))
    return rows.collect().partition_by('check', 'place', 'environ', maintain_order=True)


def _sweeps(rows: pl.DataFrame, by: str) -> Iterator[ScalingSeries]:
    """Yield the sweeps of one check, place and environment."""
    size = pl.col('alike').str.json_path_match(f'$.{by}').cast(pl.Int64, strict=False)
    rows = rows.with_columns(at=size).filter(pl.col('at').is_not_null())
    several = rows.filter(pl.col('at').n_unique().over('session') > 1)
    newest = (rows if several.is_empty() else several)['start'].max()
    rows = rows.filter(pl.col('start') >= (newest or 0) - DAYS * 86400).sort('start')
    runs = ({**row, 'facts': _facts(row['alike'])} for row in rows.iter_rows(named=True))
    for (case, _), own in grouped(runs, lambda row: (_without(by, row['case']), row['metric'])).items():
        yield _sweep(case, by, own)


def _without(by: str, case: str) -> str:
    """Return the case without the parameters that sweep the axis."""
    return ' %'.join(part for part in case.split(' %') if part.partition('=')[0] not in AXES[by][0])


def _declared(case: str, metric: str) -> str:
    """Return strong or weak, as the code declares it for a figure of all ranks or threads together; else ''."""
    name = f'{case.replace(" ", "")}.{metric}'
    return next((kind for code in codes.every() for pattern, kind in code.scales.items()
                 if re.match(pattern, name)), '')


def _sweep(case: str, by: str, rows: list[dict[str, Any]]) -> ScalingSeries:
    """Keep of each size the runs like its newest, and the sizes like the newest of all; ``rows``: oldest first."""
    last = rows[-1]
    alike = {fact: value for fact, value in last['facts'].items() if fact not in _SWEPT}
    sizes, notes = grouped(rows, itemgetter('at')), []
    for size, own in list(sizes.items()):
        facts, label = own[-1]['facts'], own[-1]['label']
        if unlike := differing(facts, alike):
            notes.append(f'{by} {size} left out, unlike the newest: '
                         + ', '.join(f'{fact} {facts[fact]} | {alike[fact]}' for fact in unlike))
            del sizes[size]
            continue
        sizes[size] = [row for row in own if not differing(row['facts'], facts) and row['label'] == label]
        notes += [f'{by} {size}: {label}'] if label else []
    kind, problem = _kind(_declared(case, last['metric']), [sizes[size][-1]['facts'] for size in sorted(sizes)])
    points = [_point(size, sizes[size], min(sizes), sizes[min(sizes)], kind) for size in sorted(sizes)]
    about = (last[name] for name in ('place', 'environ', 'subsystem', 'check'))
    metric = (last[name] for name in ('metric', 'unit', 'better'))
    return ScalingSeries(*about, case, *metric, by, kind, problem, points, notes)


def _kind(kind: str, facts: list[dict[str, str]]) -> tuple[str, str]:
    """Return strong, weak or '', and how the problem goes with the size, as the runs' own inputs tell."""
    inputs, commands = (list(dict.fromkeys(re.sub(r' [pq]=\d+', '', each.get(fact, '')) for each in facts))
                        for fact in ('input', 'arguments'))
    told = f'{inputs[0]} .. {inputs[-1]}' if inputs[1:] else inputs[0]
    if kind == 'strong' and (inputs[1:] or commands[1:]):
        return '', f'not the same problem: {told or " .. ".join(commands)}'
    return 'strong' if kind == 'weak' and inputs == [told] != [''] else kind, told


def _point(size: int, rows: list[dict[str, Any]], least: int, first: list[dict[str, Any]], kind: str) -> Point:
    """Compare a size with the smallest: the efficiency is the speed a node, rank or thread, as a share of its."""
    found = interval.Ratio(1.0)
    if size != least:
        try:
            found = interval.ratio(*(interval.sample((row['session'], row['value']) for row in of)
                                     for of in (first, rows)))
        except ValueError as err:
            found = interval.Ratio(None, why=str(err))
    ratio = found.ratio, found.low, found.high
    speed = ratio if rows[0]['better'] == 'higher' else tuple(1 / r if r else None for r in (
        found.ratio, found.high, found.low))
    # a weak sweep's time stays where it scales; its rate grows, and so does the speed of one problem
    grown = 1 if kind == 'weak' and rows[0]['better'] == 'lower' else size / least
    return Point(size, median(row['value'] for row in rows), [s for row in rows if (s := row['seconds'])],
                 len({row['session'] for row in rows}), len(rows), ratio,
                 tuple(s / grown if s and kind else None for s in speed), found.why)


# ---- text

def lines(sweeps: list[ScalingSeries]) -> Iterator[console.Line]:
    """Yield the lines of a table a case, its metrics below one another."""
    cases = grouped(sweeps, attrgetter('case', 'place', 'environ', 'kind', 'problem'))
    for number, ((case, place, environ, kind, problem), own) in enumerate(cases.items()):
        what = f'{kind} scaling' if kind else 'neither strong nor weak is known'
        what += f' ({problem})' if problem else ''
        yield from ([''] if number else [])
        yield f'{case} by {own[0].by} on {place}+{environ}: {what}', 'bold'
        table = [[own[0].by, 'metric', 'median', 'time of a run', 'ratio', '95 %', 'efficiency', '95 %',
                  'sessions: runs']]
        for sweep in own:
            table += [[str(p.size), sweep.metric, figures.figure(p.value, sweep.unit),
                       _time(p), _ratio(p.ratio[0]), _limits(p.ratio, _ratio),
                       _percent(p.efficiency[0]), _limits(p.efficiency, _percent),
                       f'{p.sessions}: {p.runs}'] for p in sweep.points]
        yield from columns(table, right=(0, 2, 3, 4, 6))
        why = (note for sweep in own for note in (*sweep.notes, *(p.why for p in sweep.points)))
        yield from (f'  {note}' for note in dict.fromkeys(filter(None, why)))


def _time(point: Point) -> str:
    spread = interval.spread(point.seconds)
    beside = '' if spread is None else f' ± {figures.percent(spread)}'
    return figures.duration(median(point.seconds)) + beside if point.seconds else figures.NOTHING


_ratio = partial(figures.number, pad=True)


def _percent(share: float | None) -> str:
    return figures.NOTHING if share is None else f'{100 * share:.1f} %'


def _limits(of: Interval, text: Callable[[float | None], str]) -> str:
    return f'[{text(of[1])}, {text(of[2])}]' if of[1] is not None else figures.NOTHING


_COLUMNS = ('place', 'environ', 'check', 'case', 'metric', 'unit', 'better', 'by', 'kind')
_OF_POINT = ('size', 'value', 'seconds', 'sessions', 'runs', 'ratio', 'ratio_low', 'ratio_high', 'efficiency',
             'efficiency_low', 'efficiency_high', 'why')


def table(sweeps: list[ScalingSeries]) -> str:
    """Return a row for each size of each metric as CSV; seconds: the median of the runs."""
    return csvfile.written((*_COLUMNS, *_OF_POINT), (
        [*(getattr(sweep, name) for name in _COLUMNS), p.size, p.value, median(p.seconds) if p.seconds else None,
         p.sessions, p.runs, *p.ratio, *p.efficiency, p.why] for sweep in sweeps for p in sweep.points))


# ---- drawings

def drawn(session: str, cells: Iterable[Cell]) -> list[Drawing]:
    """Return a drawing for each sweep of the session's cells whose kind is known, `drawings.MOST` at most: figures
    with their intervals, and a line for what scales without loss."""
    swept: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        case = next((case for by in AXES if (case := _without(by, cell.case)) != cell.case), '')
        if cell.value is not None and case and _declared(case, cell.metric):
            swept[case, cell.metric].append(cell)
    chosen = [cell for own in list(swept.values())[:drawings.MOST] for cell in own]
    plots: dict[Plot, list[PlotLine]] = defaultdict(list)
    for system, partition in sorted({(cell.system, cell.partition) for cell in chosen}):
        nights = database.sessions_of(system, partition, DAYS, until=session)
        wanted = pl.col('case').is_in([cell.case for cell in chosen]) & (pl.col('partition') == partition)
        for rows in _rows(nights, {cell.check for cell in chosen}, wanted):
            axes = ([sweep for sweep in _sweeps(rows, by) if sweep.points[1:]] for by in AXES)
            for sweep in next(filter(None, axes), []):
                if sweep.kind:
                    plot = Plot(sweep.subsystem, sweep.case, sweep.by, '', sweep.metric, sweep.unit, sweep.better)
                    plots[plot].append(_line(sweep, f'{partition}+{sweep.environ}, {sweep.kind}'))
    return [made for plot, lines in plots.items() if (made := drawings.draw(plot, lines))]


def _line(sweep: ScalingSeries, name: str) -> PlotLine:
    first, weak_time = sweep.points[0], sweep.kind == 'weak' and sweep.better == 'lower'
    power = 0 if weak_time else 1 if sweep.better == 'higher' else -1
    at = {p.size: [first.value * r for r in p.ratio] if p.ratio[1] else [p.value] for p in sweep.points}
    return PlotLine(name, {size: value for size, (value, *_) in at.items()},
                limits={size: (low, high) for size, (_, *ends) in at.items() if ends for low, high in [ends]},
                law=lambda size: first.value * (size / first.size) ** power)
