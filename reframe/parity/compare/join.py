"""Two sides joined, case by case and metric by metric; what one side lacks is a row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from parity.compare.model import Comparison, Difference, Mean, Row, SideTold
from parity.compare.rows import Terms, row
from parity.compare.sides import Measured, Side
from parity.stats.interval import CONFIDENCE

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
