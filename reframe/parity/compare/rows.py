"""One metric on both sides becomes a row: medians, ratio, interval, and one word in the better direction.

Runs of two sides that took turns are compared in pairs: what the machine does slowly cancels out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from parity.compare.model import Difference, Row, Word
from parity.compare.sides import Measured, Value, differing
from parity.stats import interval
from parity.stats.interval import Sample

#: More runs of one metric than anybody makes: the newest of them are taken.
MOST = 5000
#: A difference that nobody acts on.
MARGIN = 0.02
#: So much of all runs may stand beside none of the other side (a run that failed), not more.
_ALONE = 0.2
#: What no label makes comparable.
_NEVER = ('unit', 'direction')


@dataclass(frozen=True)
class Terms:
    """How the sides are called, what counts as equivalent, and whether unlike ones are compared."""

    baseline: str
    candidate: str
    margin: float
    label: bool


def row(baseline: Measured, candidate: Measured, terms: Terms) -> Row:
    """The row of two cells with the same case and metric; either may have no values."""
    differs = _differences(baseline, candidate)
    measured = baseline.values and candidate.values
    known = baseline if baseline.values else candidate
    fields: dict[str, Any] = {
        'subsystem': known.subsystem, 'check': known.check, 'benchmark': known.case, 'metric': known.metric,
        'unit': known.unit, 'better': known.better, 'differs': differs,
        'label': baseline.label or candidate.label, 'changed': known.changed}
    unlike = [d for d in differs if not terms.label or d.fact in _NEVER]
    if not measured or unlike:
        why = _lacking(baseline, candidate, terms) if not measured else \
            'not like for like: ' + '; '.join(f'{d.fact} {d.baseline} | {d.candidate}' for d in unlike)
        return Row(**fields, **_sides(baseline.values, candidate.values), refused=bool(measured), reason=why)
    return _compared(fields, baseline, candidate, terms)


def _differences(baseline: Measured, candidate: Measured) -> list[Difference]:
    if not baseline.values or not candidate.values:
        return []
    one = {'unit': baseline.unit, 'direction': baseline.better, **baseline.facts}
    other = {'unit': candidate.unit, 'direction': candidate.better, **candidate.facts}
    return [Difference(fact=fact, baseline=one[fact], candidate=other[fact]) for fact in differing(one, other)]


def _lacking(baseline: Measured, candidate: Measured, terms: Terms) -> str:
    sides = [(baseline, terms.baseline), (candidate, terms.candidate)]
    return '; '.join(f'not measured on {name}: {side.reason or "not among its cases"}'
                     for side, name in sides if not side.values)


def _compared(fields: dict[str, Any], baseline: Measured, candidate: Measured, terms: Terms) -> Row:
    one, other = baseline.values[-MOST:], candidate.values[-MOST:]
    both = pairs(one, other)
    notes = []
    if both:
        if alone := len(one) + len(other) - 2 * len(both):
            notes.append(f'{alone} {"run" if alone == 1 else "runs"} without a neighbour in time left out')
        one, other = map(list, zip(*both, strict=True))
    samples = (Sample(tuple(v.value for v in values), side.step)
               for values, side in ((one, baseline), (other, candidate)))
    found = (interval.paired if both else interval.ratio)(*samples)
    sides = _sides(one, other)
    verdict = word(found.low, found.high, fields['better'], terms.margin)
    if {v.value for v in (*one, *other)} == {0}:
        verdict = 'equivalent' if sides['n'] >= interval.FEWEST else 'undecided'
        found = replace(found, why=f'always 0 on both sides, {sides["n"]} run{"s" if sides["n"] > 1 else ""}')
    reasons = [found.why, *(f'{name}: newest {side.reason}' for side, name in
                            ((baseline, terms.baseline), (candidate, terms.candidate)) if side.reason)]
    if not fields['better']:
        reasons.append('whether higher or lower is better is not known')
    if fields['label']:
        verdict, reasons = 'undecided', [fields['label'], *reasons]
    return Row(**fields, **sides, ratio=found.ratio, low=found.low, high=found.high, paired=bool(both),
               verdict=verdict, reason='; '.join(filter(None, reasons)), notes=[*notes, *found.notes])


def pairs(baseline: list[Value], candidate: list[Value]) -> list[tuple[Value, Value]]:
    """Runs of both sides that are neighbours in time, each in one pair; [] where they did not take turns."""
    both = [(v, 0) for v in baseline] + [(v, 1) for v in candidate]
    if any(v.when is None for v, _ in both):
        return []
    both.sort(key=lambda run: run[0].when)
    found, i = [], 0
    while i + 1 < len(both):
        (one, side), (other, other_side) = both[i], both[i + 1]
        if side != other_side:
            found.append((one, other) if side == 0 else (other, one))
            i += 1
        i += 1
    alone = len(both) - 2 * len(found)
    return found if len(found) >= interval.FEWEST and alone <= _ALONE * len(both) else []


def word(low: float | None, high: float | None, better: str, margin: float) -> Word:
    """faster or slower: 1 is outside the interval; equivalent: the whole interval is within the margin."""
    if low is None or high is None or not better:
        return 'undecided'
    if 1 - margin <= low and high <= 1 + margin:
        return 'equivalent'
    if low <= 1 <= high:
        return 'undecided'
    return 'faster' if (low > 1) == (better == 'higher') else 'slower'


def _sides(baseline: Sequence[Value], candidate: Sequence[Value]) -> dict[str, Any]:
    """Counts, medians and spreads; None where a side has no runs."""
    fields: dict[str, Any] = {'n': min(len(baseline), len(candidate)), 'n_baseline': len(baseline),
                              'n_candidate': len(candidate)}
    for name, values in (('baseline', baseline), ('candidate', candidate)):
        figures = [v.value for v in values]
        fields[name] = median(figures) if figures else None
        fields[f'spread_{name}'] = interval.spread(figures) if figures else None
    return fields
