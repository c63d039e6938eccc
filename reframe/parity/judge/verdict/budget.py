"""One budget of false alarms for all that can turn a night red by chance: histories, accepted bounds, pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from parity.base.figures import counted
from parity.judge.compare.pairs import Pair
from parity.judge.stats import bounds
from parity.judge.store.plan_file import parameters
from parity.judge.verdict.model import AlarmBudget, Cell
from parity.site.identity import shared
from parity.site.plan import PlannedCase

#: Nights of a month.
NIGHTS = 30
#: Alarms for nothing in a month, of systems with one false alarm a month by chance, that real histories gave
#: (docs/real-histories.md): the fewest and the most series of these systems, and alarms.
_MEASURED = ((25, 35, '0.1 to 0.7'), (60, 70, '0.2 to 0.8'), (190, 190, '1.2'))
#: At a larger rate no alarm would mean anything, whatever the budget.
_MOST = 0.1


def of(a_month: float, histories: int, bounded: int, pairs: int) -> AlarmBudget:
    """Return the budget of a night, shared evenly; ``a_month``: false alarms a month and system."""
    things = max(1, histories + bounded + pairs)
    return AlarmBudget(a_month=a_month, histories=histories, bounds=bounded, pairs=pairs,
                  rate=min(_MOST, a_month / (NIGHTS * things)))


def guarded(cell: Cell) -> bool:
    """Return whether the cell is judged by accepted bounds, and a bound can call it slower."""
    return cell.reference is not None and cell.verdict in ('ok', 'blind', 'improved', 'regressed') \
        and any(end is not None for end in bounds.bad(cell.better, cell.low, cell.high))


def expectations(declared: Sequence[Pair], cases: Iterable[PlannedCase]) -> int:
    """Return how many figures of planned cases declared pairs speak of."""
    checks = {each.metric.partition('.')[0] for pair in declared for each in pair.expect}
    ran = [(case, f'{case.check}.', parameters(case.case).items()) for case in cases
           if case.environ and case.check in checks]
    return len({(pair.baseline, pair.candidate, i, case.case, case.environ, metric.name)
                for pair in declared for i, each in enumerate(pair.expect) for case, check, own in ran
                if case.partition in (pair.baseline, pair.candidate) and each.parameters.items() <= own
                for metric in case.metrics
                if each.metric in (check + metric.name, shared(check + metric.name))})


def sentence(budget: AlarmBudget) -> str:
    """Return the budget in a sentence; '' where nothing can turn the night red by chance."""
    alone, beside = budget.bounds_alone, budget.bounds - budget.bounds_alone
    counts = (budget.histories, 'histor', 'y', 'ies'), (beside, 'bound', '', 's'), (budget.pairs, 'pair', '', 's')
    named = (f'{n} {what}{one if n == 1 else many}' for n, what, one, many in counts if n)
    shared_by = ', '.join(named)
    parts = [f'false alarms: at most {budget.a_month:g} a month by {shared_by}, one in {1 / budget.rate:,.0f} '
             'nights each (docs/regression.md)'] if shared_by else []
    if real := measured(budget.a_month, budget.histories):
        parts.append(real)
    if alone:
        chance = bounds.CHANCE * (bounds.GOOD_NIGHTS * bounds.CHANCE) ** (budget.nights - 1)
        parts.append(f'{counted(alone, "bound")} without a history: one in {1 / chance:,.0f} nights '
                     f'each, up to {NIGHTS * alone * chance:.2g} a month {"more" if parts else "in all"}')
    return '; '.join(parts)


def measured(a_month: float, histories: int) -> str:
    """Return how many alarms for nothing real histories gave, about as many as these; '' where nobody measured."""
    fewest = _MEASURED[0][0]
    if a_month != 1 or histories < fewest:
        return ''
    first, last, alarms = min(_MEASURED, key=lambda row: abs(math.log(histories / row[1])))
    series = f'{first} to {last}' if last > first else f'{first}'
    return f'real histories of {series} series gave {alarms} a month for nothing'
