"""The worth of a night's node-hours: what shows a slowdown of 5 %, what costs most, what shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    figures, shown = sum(case.figures for case in cases), sum(case.shown for case in cases)
    yield (f'{number(sum(case.hours for case in cases))} a night; {shown} of {counted(figures, "figure")} show a '
           f'slowdown of {100 * WANTED:g} % in {WITHIN} nights')
    costly = sorted(cases, key=lambda case: -case.hours)[:_NAMED]
    yield f'most: {"; ".join(map(_cost, costly))}'
    idle = [case for case in cases if not case.shown]
    if idle:
        names = several([visible(case.name) for case in idle])
        yield f'{number(sum(case.hours for case in idle))} a night for what shows no {100 * WANTED:g} %: {names}'


def _cost(case: CaseHours) -> str:
    return f'{visible(case.name)} {number(case.hours)}, {case.shown} of {counted(case.figures, "figure")}'


def _cases(system: str, cells: Sequence[Cell]) -> Iterator[CaseHours]:
    """Yield the cases that have judged figures and runs with a time."""
    hours = _hours(system)
    judged = [cell for cell in cells if cell.better and cell.usual is not None and not cell.label]
    for case, of_case in grouped(judged, lambda cell: tuple(getattr(cell, name) for name in _CASE)).items():
        if case in hours:
            partition, environ, name, _ = case
            shown = sum(cell.visible is not None and cell.visible <= WANTED for cell in of_case)
            yield CaseHours(f'{name} on {partition}+{environ}', hours[case], len(of_case), shown)


def _hours(system: str) -> dict[tuple[str, ...], float]:
    """Return the node-hours of each case in a night, without queues: the median of its newest sessions."""
    figures = history.load(system).filter(pl.col('seconds').is_not_null())
    runs = figures.unique(['session', *_CASE, 'run'])
    sessions = runs.unique('session').sort('start')['session'].tail(_NIGHTS)
    newest = runs.filter(pl.col('session').is_in(sessions.implode()))
    nodes = pl.col('node').cast(pl.String).str.count_matches(',') + 1
    node_seconds = pl.col('seconds') * nodes
    nights = newest.group_by('session', *_CASE).agg(hours=node_seconds.sum() / 3600)
    cases = nights.group_by(_CASE).agg(pl.col('hours').median())
    texts = cases.cast({pl.Categorical: pl.String})
    return {tuple(case): hours for *case, hours in texts.iter_rows()}
