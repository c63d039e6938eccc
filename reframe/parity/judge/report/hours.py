"""The worth of a night's node-hours: what shows a slowdown of 5 %, what costs most, what shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from parity.base.figures import counted, number, several
from parity.base.groups import grouped
from parity.base.text import visible
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.rule import WITHIN
from parity.judge.store import history
from parity.judge.verdict.model import Cell

#: A case costs the median of so many of its newest sessions.
_NIGHTS = 30
#: Cases that are named among those that cost most.
_NAMED = 3
_CASE = ('partition', 'environ', 'case', 'size')


class CaseHours(NamedTuple):
    """A case: its node-hours in a night, and how many of its judged figures show a slowdown of 5 %."""

    name: str
    hours: float
    figures: int
    shown: int


def lines(system: str, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what the night shows, what costs most, and what shows nothing. ``cells``: of the newest session."""
    cases = list(_cases(system, cells))
    if not cases:
        return
    slowdown = f'{100 * WANTED:g} %'
    shown = sum(case.shown for case in cases)
    figures = counted(sum(case.figures for case in cases), 'figure')
    yield f'{_sum(cases)} a night; {shown} of {figures} show a slowdown of {slowdown} in {WITHIN} nights'
    costly = sorted(cases, key=lambda case: -case.hours)
    costs = [_cost(case) for case in costly[:_NAMED]]
    yield f'most: {"; ".join(costs)}'
    idle = [case for case in cases if not case.shown]
    if idle:
        names = [visible(case.name) for case in idle]
        yield f'{_sum(idle)} a night for what shows no {slowdown}: {several(names)}'


def _sum(cases: Sequence[CaseHours]) -> str:
    return number(sum(case.hours for case in cases))


def _cost(case: CaseHours) -> str:
    figures = counted(case.figures, 'figure')
    return f'{visible(case.name)} {number(case.hours)}, {case.shown} of {figures}'


def _cases(system: str, cells: Sequence[Cell]) -> Iterator[CaseHours]:
    """Yield the cases that have judged figures and runs with a time."""
    judged = [cell for cell in cells if cell.better and cell.usual is not None and not cell.label]
    by_case = grouped(judged, attrgetter(*_CASE))
    hours = _hours(system)
    for case, of_case in by_case.items():
        if case not in hours:
            continue
        shown = 0
        for cell in of_case:
            if cell.visible is not None and cell.visible <= WANTED:
                shown += 1
        partition, environ, name, _ = case
        title = f'{name} on {partition}+{environ}'
        yield CaseHours(title, hours[case], len(of_case), shown)


def _hours(system: str) -> dict[tuple[str, ...], float]:
    """Return the node-hours of each case in a night, without queues: the median of its newest sessions."""
    timed = history.load(system).filter(pl.col('seconds').is_not_null())
    runs = timed.unique(['session', *_CASE, 'run'])
    in_order = runs.unique('session').sort('start')['session']
    sessions = in_order.tail(_NIGHTS)
    newest = runs.filter(pl.col('session').is_in(sessions.implode()))
    commas = pl.col('node').cast(pl.String).str.count_matches(',')
    node_seconds = pl.col('seconds') * (commas + 1)
    hours = node_seconds.sum() / 3600
    nights = newest.group_by('session', *_CASE).agg(hours=hours)
    median = pl.col('hours').median()
    cases = nights.group_by(_CASE).agg(median)
    texts = cases.cast({pl.Categorical: pl.String})
    return {tuple(case): hours for *case, hours in texts.iter_rows()}
