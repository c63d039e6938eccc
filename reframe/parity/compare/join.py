"""Two sides joined, case by case and metric by metric; what one side lacks is a row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from parity.compare.model import Comparison, Difference, Mean, Row, SideTold, Word
from parity.compare.sides import Measured, Side, Value, differing
from parity.stats import interval
from parity.stats.interval import CONFIDENCE, Sample

_ORDER = ('compute', 'memory', 'network', 'storage', 'gpu')


def compare(baseline: Side, candidate: Side, margin: float, label: bool) -> Comparison:
    """The comparison of two sides. Nothing is raised: rows say what could not be compared, and why."""
    terms = Terms(baseline.name, candidate.name, margin, label)
    pairs = list(_joined(baseline, candidate))
    rows = [row(one, other, terms) for one, other in pairs if one.values or other.values]
    rows.sort(key=lambda r: (_ORDER.index(r.subsystem) if r.subsystem in _ORDER else len(_ORDER), r.subsystem))
    neither = len(pairs) - len(rows)
    notes = [f'{neither} metrics were measured on neither side'] if neither else []
    return Comparison(
        **{which: SideTold(name=side.name, kind=side.kind, sessions=side.sessions, facts=side.context)
           for which, side in (('baseline', baseline), ('candidate', candidate))},
        confidence=CONFIDENCE, margin=margin,
        alike=_alike(pairs, rows), differs=_differs(rows), labelled=label, rows=rows, means=_means(rows),
        notes=[*(f'{s.name}: {n}' for s in (baseline, candidate) for n in s.notes), *notes, *_unknown(pairs)])


def _joined(baseline: Side, candidate: Side) -> Iterable[tuple[Measured, Measured]]:
    """Cells of the same case and metric, first in the same environment, then in the only one each side has.

    The partition counts only where a side has several: otherwise it is what is compared.
    """
    by_place = len(baseline.places) > 1 or len(candidate.places) > 1

    def broad(cell: Measured) -> tuple:
        return cell.case, cell.metric, cell.place if by_place else ''

    ones, others = ({(*broad(c), c.environ): c for c in side.cells} for side in (baseline, candidate))
    for key in [k for k in ones if k in others]:
        if ones[key].values or others[key].values:
            yield ones.pop(key), others.pop(key)
    left = _by(broad, ones.values()), _by(broad, others.values())
    for key in dict.fromkeys((*left[0], *left[1])):
        yield from _rest(left[0].get(key, []), left[1].get(key, []))


def _by(broad, cells: Iterable[Measured]) -> dict[tuple, list[Measured]]:
    found: dict[tuple, list[Measured]] = {}
    for cell in cells:
        found.setdefault(broad(cell), []).append(cell)
    return found


def _rest(ones: list[Measured], others: list[Measured]) -> Iterable[tuple[Measured, Measured]]:
    """What is left of one case and metric: one beside one; else each beside what the other side says of it."""
    if len(ones) == len(others) == 1:
        yield ones[0], others[0]
        return
    for one in ones:
        yield one, _nothing(one, others)
    for other in others:
        yield _nothing(other, ones), other


def _nothing(like: Measured, there: list[Measured]) -> Measured:
    reason = next((c.reason for c in there if not c.values and c.reason), '')
    if not reason and (elsewhere := sorted({c.environ for c in there if c.values} - {like.environ})):
        reason = f'measured in another environment: {", ".join(elsewhere)}'
    return replace(like, values=[], label='', reason=reason)


def _alike(pairs: list[tuple[Measured, Measured]], rows: list[Row]) -> dict[str, str]:
    """The facts that are the same on both sides and in all rows that were compared."""
    shared: dict[str, set[str]] = {}
    for one, other in pairs:
        if one.values and other.values:
            for fact in one.facts.keys() | other.facts.keys():
                shared.setdefault(fact, set()).update(
                    (one.facts.get(fact, 'not known'), other.facts.get(fact, 'not known')))
    return {fact: values.pop() for fact, values in sorted(shared.items()) if len(values) == 1}


def _differs(rows: list[Row]) -> list[Difference]:
    counted = Counter((d.fact, d.baseline, d.candidate) for r in rows for d in r.differs)
    return [Difference(fact=f, baseline=b, candidate=c, metrics=n) for (f, b, c), n in counted.items()]


def _unknown(pairs: list[tuple[Measured, Measured]]) -> list[str]:
    """Facts of which only one side tells: whether they are alike is not known."""
    counted: Counter[str] = Counter()
    for one, other in pairs:
        if one.values and other.values:
            facts = one.facts.keys() ^ other.facts.keys()
            if not one.facts or not other.facts:            # a file of bare figures
                facts = {'software, ranks, size and all else'}
            counted.update(facts)
    return [f'not known to be like for like: {fact} of {n} metrics' for fact, n in sorted(counted.items())]


def _means(rows: Iterable[Row]) -> list[Mean]:
    """A geometric mean a subsystem: of the metrics of a case, of the cases of a check, of the checks.

    So a check with many sizes weighs no more than one with a single figure, and a rate and a time of the
    same run do not count twice. Rows without a ratio, refused ones and cached figures are not in it.
    """
    speeds: dict[str, dict[str, dict[str, list[float]]]] = {}
    for each in rows:
        if each.speed:
            cases = speeds.setdefault(each.subsystem, {}).setdefault(each.check, {})
            cases.setdefault(each.benchmark, []).append(math.log(each.speed))
    return [_mean(subsystem, checks) for subsystem, checks in sorted(speeds.items())]


def _mean(subsystem: str, checks: dict[str, dict[str, list[float]]]) -> Mean:
    each = {check: fmean(fmean(logs) for logs in cases.values()) for check, cases in checks.items()}
    return Mean(subsystem=subsystem, speed=math.exp(fmean(each.values())),
                checks={check: math.exp(log) for check, log in each.items()},
                metrics=sum(len(logs) for cases in checks.values() for logs in cases.values()))


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
    both = neighbours(one, other)
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


def neighbours(baseline: list[Value], candidate: list[Value]) -> list[tuple[Value, Value]]:
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
