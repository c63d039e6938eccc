"""The worth of a night's node-hours: which figures show a slowdown of 5 %, and what to leave out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import polars as pl

from parity.base.errors import NothingMeasured
from parity.base.figures import counted, percent, several
from parity.base.text import columns, visible
from parity.judge.stats import repeats
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.rule import WITHIN
from parity.judge.store import history
from parity.judge.verdict import judge
from parity.judge.verdict.model import Cell

#: The newest nights of which a case's time and runs are the median; cases that are named; repeats that are tried.
_NIGHTS, _NAMED, _MORE = 30, 5, 2
_CASE = ('partition', 'environ', 'case', 'size')


@dataclass(frozen=True)
class JudgedFigure:
    """A figure that its history judges. Shares: the slowdown that shows, the scatter of a night, and of a run."""

    metric: str
    shows: float | None
    night: float
    run: float | None

    def with_runs(self, now: float, runs: int, nights: int = WITHIN) -> float | None:
        """Return the slowdown that shows with ``runs`` runs a night, of ``now``, in so many nights."""
        return None if self.shows is None else repeats.visible(self.shows, self.night, self.run, now, runs, nights)


@dataclass
class CaseHours:
    """A case: node-hours of a run, runs a night, and its figures."""

    name: str
    hours: float
    runs: int
    figures: list[JudgedFigure] = field(default_factory=list)

    def count(self, runs: int, nights: int = WITHIN) -> int:
        """Return how many figures show a slowdown of 5 % with so many runs a night."""
        return sum(repeats.enough(figure.with_runs(self.runs, runs, nights)) for figure in self.figures)

    def an_hour(self, runs: int) -> float:
        """Return how many figures show a slowdown of 5 % for each of its node-hours, with so many runs a night."""
        return self.count(runs) / max(self.hours * runs, 1e-9)

    @property
    def best(self) -> float | None:
        return min((figure.shows for figure in self.figures if figure.shows is not None), default=None)


@dataclass(frozen=True)
class Way:
    """A way to spend a night: runs of a case more than now, nights of three, cases left out."""

    name: str
    more: int
    hours: float
    count: int                       # figures that show a slowdown of 5 %
    left_out: tuple[CaseHours, ...] = ()


@dataclass(frozen=True)
class Worth:
    system: str
    budget: float
    cases: list[CaseHours]
    young: int                       # figures without enough nights
    ways: list[Way]                  # as now, and what a repeat or a night changes
    best: Way                        # within the budget


def worth(system: str, budget: float) -> Worth:
    """Return what so many node-hours a night buy a system. NothingMeasured where no run has a time."""
    verdict = judge.newest('', system)
    name = verdict.session.system
    frame = history.load(name).filter(pl.col('seconds').is_not_null())
    measured = [cell for cell in verdict.cells if cell.value is not None and cell.better and not cell.label]
    judged = [cell for cell in measured if cell.usual is not None]
    cases = list(_cases(frame, judged)) if frame.height else []
    if not cases:
        raise NothingMeasured(f'{name}: no judged figure has a run with a time; a figure is judged after ten '
                              'nights')
    figures = sum(len(case.figures) for case in cases)
    return Worth(name, budget, cases, len(measured) - figures, list(_ways(cases)), best(cases, budget))


def _cases(frame: pl.DataFrame, judged: list[Cell]) -> Iterator[CaseHours]:
    newest = frame.unique('session').sort('start')['session'].tail(_NIGHTS)
    frame = frame.filter(pl.col('session').is_in(newest.implode()))
    nodes = pl.col('node').cast(pl.String).str.count_matches(',') + 1
    runs = frame.unique(['session', *_CASE, 'run']).group_by('session', *_CASE).agg(
        hours=(pl.col('seconds') * nodes).mean() / 3600, runs=pl.len())
    usual = {tuple(case): (cost, max(1, round(count))) for *case, cost, count in runs.group_by(_CASE).agg(
        pl.col('hours', 'runs').median()).cast({pl.Categorical: pl.String}).iter_rows()}
    values = frame.group_by(*_CASE, 'metric', 'session').agg('value').group_by(*_CASE, 'metric').agg('value')
    scatter = {tuple(key): repeats.scatter(nights)
               for *key, nights in values.cast({pl.Categorical: pl.String}).iter_rows()}
    found: dict[tuple[str, ...], CaseHours] = {}
    for cell in judged:
        key = tuple(getattr(cell, name) for name in _CASE)
        if key in usual:
            cost, count = usual[key]
            case = found.setdefault(key, CaseHours(f'{cell.case} on {cell.partition}+{cell.environ}', cost, count))
            band = math.log(cell.usual_high / cell.usual_low) if cell.usual_low > 0 else 0.0
            of_night = scatter.get((*key, cell.metric))
            case.figures.append(JudgedFigure(cell.metric, cell.visible, band / 6, of_night))
    yield from found.values()


def _ways(cases: list[CaseHours]) -> Iterator[Way]:
    """Yield what the night costs and shows now, with a repeat more or less, and without a night of three."""
    yield _way('as now', cases, 0)
    yield _way('a repeat more', cases, 1)
    if any(case.runs > 1 for case in cases):
        yield _way('a repeat less', cases, -1)
    now, nights = _way('', cases, 0), WITHIN - 1
    yield Way(f'{nights} nights of {WITHIN}', 0, now.hours * nights / WITHIN,
              sum(case.count(case.runs, nights) for case in cases))


def _way(name: str, cases: Iterable[CaseHours], more: int, left_out: Iterable[CaseHours] = ()) -> Way:
    runs = [(case, max(1, case.runs + more)) for case in cases]
    return Way(name, more, sum(case.hours * count for case, count in runs),
               sum(case.count(count) for case, count in runs), tuple(left_out))


def best(cases: list[CaseHours], budget: float) -> Way:
    """Return the way within the budget that shows a slowdown of 5 % in most figures.

    Of equal ones it is the one that leaves out least, then the one with runs as now.

    For each number of repeats it takes the cases that show most for an hour first, then the cheapest others."""
    def spent(more: int) -> Way:
        taken, left, rest = [], [], budget
        for case in sorted(cases, key=lambda case: (-case.an_hour(max(1, case.runs + more)), case.hours)):
            cost = case.hours * max(1, case.runs + more)
            (taken if cost <= rest else left).append(case)
            rest -= cost if cost <= rest else 0
        return _way('', taken, more, sorted(left, key=lambda case: -case.hours))
    fewest = max(case.runs for case in cases) - 1
    ways = map(spent, range(-fewest, _MORE + 1))
    return max(ways, key=lambda way: (way.count, -len(way.left_out), -abs(way.more)))


def lines(plan: Worth) -> Iterator[str]:
    """Yield the plan on one screen, the answer first."""
    now, figures = plan.ways[0], sum(len(case.figures) for case in plan.cases)
    word = 'are enough' if now.hours <= plan.budget else 'are too few'
    yield (f'{plan.system}: {_hours(plan.budget)} node-hours a night {word}: {counted(len(plan.cases), "case")} '
           f'of {_hours(now.hours)}; {now.count} of {counted(figures, "figure")} show a slowdown of '
           f'{100 * WANTED:g} % in {WITHIN} nights')
    yield ''
    table = [('', 'node-hours', f'figures that show {100 * WANTED:g} %'),
             *((way.name, _hours(way.hours), str(way.count)) for way in (*plan.ways, plan.best))]
    table[-1] = ('this plan', *table[-1][1:])
    yield from columns(table, right=(1, 2))
    yield ''
    more = {0: 'as many runs of a case as now'}.get(plan.best.more) or \
        f'{counted(abs(plan.best.more), "run")} of a case {"more" if plan.best.more > 0 else "less"} than now'
    left = plan.best.left_out
    yield f'this plan      {more}' + (
        f', without {several([visible(case.name) for case in left])}' if left else ', nothing left out')
    ranked = sorted(plan.cases, key=lambda case: case.an_hour(case.runs))
    shown = [f'{visible(case.name)} ({case.count(case.runs)} of {len(case.figures)})' for case in reversed(ranked)
             if case.count(case.runs)]
    yield f'show {100 * WANTED:g} %       {several(shown) if shown else "none"}'
    title = 'cost most'
    for case in sorted(ranked[:_NAMED], key=attrgetter('hours'), reverse=True):
        best = 'no slowdown shows' if case.best is None else f'the best shows {percent(case.best)}'
        yield (f'{title:14} {_hours(case.hours * case.runs)} node-hours: {visible(case.name)}: '
               f'{case.count(case.runs)} of {counted(len(case.figures), "figure")}; {best}')
        title = ''
    blind = [case for case in ranked if not case.count(case.runs + _MORE)]
    if blind:
        cost, names = sum(case.hours * case.runs for case in blind), [visible(case.name) for case in blind]
        yield (f'leave out      {counted(len(blind), "case")} of {_hours(cost)} node-hours that show no '
               f'{100 * WANTED:g} %, with {_MORE} repeats more either: {several(names)}')
    unknown = sum(figure.run is None for case in plan.cases for figure in case.figures)
    if unknown:
        yield f'not known      what a repeat buys for {counted(unknown, "figure")}: no night has two runs'
    if plan.young:
        yield f'not counted    {counted(plan.young, "figure")}: not judged yet, or no time of a run is stored'


def _hours(hours: float) -> str:
    return f'{hours:.0f}' if hours >= 100 else f'{hours:.2g}'


def document(plan: Worth) -> dict[str, Any]:
    """Return the same for --json. Shares; None: no slowdown shows."""
    def way(of: Way) -> dict[str, Any]:
        return {'name': of.name, 'more_runs': of.more, 'node_hours': of.hours, 'figures': of.count,
                'left_out': [case.name for case in of.left_out]}
    return {'system': plan.system, 'budget': plan.budget, 'not_counted': plan.young,
            'ways': [way(each) for each in plan.ways], 'plan': way(plan.best),
            'cases': {case.name: {
                'node_hours': case.hours * case.runs, 'runs': case.runs,
                'figures': {figure.metric: {'visible': figure.shows, 'night': figure.night, 'run': figure.run}
                            for figure in case.figures}} for case in plan.cases}}
