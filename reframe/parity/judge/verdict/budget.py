"""One budget of false alarms for all that can turn a night red by chance: histories, accepted bounds, pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from parity.base.figures import counted
from parity.judge.compare.pairs import Expectation, Pair
from parity.judge.stats import bounds
from parity.judge.store.plan_file import parameters
from parity.judge.verdict.model import AlarmBudget, Cell
from parity.site.identity import shared
from parity.site.plan import PlannedCase

#: Nights of a month.
NIGHTS = 30
#: At a larger rate no alarm would mean anything, whatever the budget.
_MOST = 0.1


class _RealRate(NamedTuple):
    """Alarms for nothing that real histories gave, of systems of so many series."""

    fewest: int
    most: int
    a_month: str


#: Of systems with one false alarm a month by chance (docs/real-histories.md).
_MEASURED = (_RealRate(25, 35, '0.1 to 0.7'), _RealRate(60, 70, '0.2 to 0.8'), _RealRate(190, 190, '1.2'))


def of(a_month: float, histories: int, bounded: int, pairs: int) -> AlarmBudget:
    """Return the budget of a night, shared evenly; ``a_month``: false alarms a month and system."""
    things = max(1, histories + bounded + pairs)
    even = a_month / (NIGHTS * things)
    rate = min(_MOST, even)
    return AlarmBudget(a_month=a_month, histories=histories, bounds=bounded, pairs=pairs, rate=rate)


def guarded(cell: Cell) -> bool:
    """Return whether the cell is judged by accepted bounds, and a bound can call it slower."""
    if cell.reference is None:
        return False
    if cell.verdict not in ('ok', 'blind', 'improved', 'regressed'):
        return False
    ends = bounds.bad(cell.better, cell.low, cell.high)
    return any(end is not None for end in ends)


def expectations(declared: Sequence[Pair], cases: Iterable[PlannedCase]) -> int:
    """Return how many figures of planned cases declared pairs speak of."""
    ran = [case for case in cases if case.environ]
    figures = set()
    for pair in declared:
        for place, expectation in enumerate(pair.expect):
            for case in ran:
                if case.partition not in (pair.baseline, pair.candidate):
                    continue
                for metric in _metrics(expectation, case):
                    figures.add((pair.baseline, pair.candidate, place, case.case, case.environ, metric))
    return len(figures)


def _metrics(expectation: Expectation, case: PlannedCase) -> list[str]:
    """Return the metrics of a case that an expectation speaks of."""
    if not expectation.metric.startswith(f'{case.check}.'):
        return []
    if not expectation.parameters.items() <= parameters(case.case).items():
        return []
    names = []
    for metric in case.metrics:
        name = f'{case.check}.{metric.name}'
        if expectation.metric in (name, shared(name)):
            names.append(metric.name)
    return names


def sentence(budget: AlarmBudget) -> str:
    """Return the budget in a sentence; '' where nothing can turn the night red by chance."""
    judges = []
    if budget.histories:
        judges.append(counted(budget.histories, 'history'))
    with_history = budget.bounds - budget.bounds_alone
    if with_history:
        judges.append(counted(with_history, 'bound'))
    if budget.pairs:
        judges.append(counted(budget.pairs, 'pair'))
    parts = []
    if judges:
        listed = ', '.join(judges)
        nights = 1 / budget.rate
        parts.append(f'false alarms: at most {budget.a_month:g} a month by {listed}, one in {nights:,.0f} nights '
                     'each (docs/regression.md)')
    real = measured(budget.a_month, budget.histories)
    if real:
        parts.append(real)
    if budget.bounds_alone:
        count = counted(budget.bounds_alone, 'bound')
        again = bounds.GOOD_NIGHTS * bounds.CHANCE
        chance = bounds.CHANCE * again ** (budget.nights - 1)
        a_month = NIGHTS * budget.bounds_alone * chance
        nights = 1 / chance
        further = 'more' if parts else 'in all'
        parts.append(f'{count} without a history: one in {nights:,.0f} nights each, up to {a_month:.2g} a month '
                     f'{further}')
    return '; '.join(parts)


def measured(a_month: float, histories: int) -> str:
    """Return how many alarms for nothing real histories gave, about as many as these; '' where nobody measured."""
    if a_month != 1 or histories < _MEASURED[0].fewest:
        return ''
    nearest = min(_MEASURED, key=lambda real: abs(math.log(histories / real.most)))
    series = f'{nearest.fewest}'
    if nearest.most > nearest.fewest:
        series += f' to {nearest.most}'
    return f'real histories of {series} series gave {nearest.a_month} a month for nothing'
