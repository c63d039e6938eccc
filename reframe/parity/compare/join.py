"""Two sides joined, case by case and metric by metric, and the state of declared pairs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean, median
from typing import Any

from parity.base import codes
from parity.compare import model, pairs, resolve
from parity.compare.model import Comparison, Difference, Facts, Mean, Measured, Outcome, Row, Side, Value, Word
from parity.compare.pairs import Expectation, Pair
from parity.stats import interval
from parity.stats.interval import CONFIDENCE, Ratio, Sample
from parity.system import systems
from parity.system.systems import System

_ORDER = (*codes.SUBSYSTEMS, 'other')
#: A difference that nobody acts on.
MARGIN = 0.02
PRINTED = 'in print each run counts as a session: intervals hold for these runs, and say nothing of other days'
#: What no label makes comparable; nor does a pair of different programs, which are compared node to node.
_NEVER = ('unit', 'direction')
_NODE_TO_NODE = (*_NEVER, 'nodes')


def compare(baseline: Side, candidate: Side, margin: float = MARGIN, label: bool = False,
            confidence: float = CONFIDENCE) -> Comparison:
    """Return the comparison of two sides. Rows say what could not be compared, and why: nothing is raised.

    ``margin`` counts as equivalent; with ``label`` cells that are not alike are compared, too."""
    every = list(_joined(baseline, candidate))
    joined = [(one, other) for one, other in every if one.values or other.values]
    names = baseline.name, candidate.name
    rows = [_row(*both, names, margin, label, confidence) for both in joined]
    means = _means(zip(rows, joined, strict=True), confidence)      # before the rows are sorted
    rows.sort(key=lambda r: (_ORDER.index(r.subsystem) if r.subsystem in _ORDER else len(_ORDER), r.subsystem))
    counted = Counter((d.fact, d.baseline, d.candidate) for r in rows for d in r.differs)
    differs = [Difference(fact=f, baseline=b, candidate=c, metrics=n) for (f, b, c), n in counted.items()]
    alike, unknown = _known([(one.facts, other.facts) for one, other in joined if one.values and other.values])
    notes = [f'{neither} metrics were measured on neither side'] if (neither := len(every) - len(joined)) else []
    notes += [PRINTED] if baseline.kind == 'published' else []
    return Comparison(
        baseline=baseline, candidate=candidate, confidence=confidence, margin=margin, alike=alike,
        differs=differs, labelled=label, rows=rows, means=means,
        notes=[*(f'{s.name}: {n}' for s in (baseline, candidate) for n in s.notes), *notes, *unknown])


def alone(side: Side) -> Comparison:
    """Return the figures of a side that stands beside none: a row for each, without a ratio."""
    rows = []
    for cell in side.cells:
        low, high = limits(cell.values)
        rows.append(Row(**_about(cell), **{**_sides(cell.values, []), 'n': len(cell.values)}, label=cell.label,
                        reason=cell.reason, low=low, high=high))
    return Comparison(baseline=side, candidate=Side('', side.kind, []), confidence=CONFIDENCE, margin=MARGIN,
                      alike={}, differs=[], labelled=False, rows=rows, means=[],
                      notes=[*side.notes, *([PRINTED] if side.kind == 'published' else [])])


def _joined(baseline: Side, candidate: Side) -> Iterable[tuple[Measured, Measured]]:
    """Yield cells of the same case and metric, first in the same environment, then in the only one each side has.

    The partition counts only where a side has several: otherwise it is compared."""
    by_place = len(baseline.places) > 1 or len(candidate.places) > 1
    cases: dict[tuple, tuple[dict[str, Measured], dict[str, Measured]]] = {}
    for i, side in enumerate((baseline, candidate)):
        for cell in side.cells:
            key = cell.case, cell.metric, cell.place if by_place else ''
            cases.setdefault(key, ({}, {}))[i][cell.environ] = cell
    for ones, others in cases.values():
        for environ in [e for e in ones if e in others and (ones[e].values or others[e].values)]:
            yield ones.pop(environ), others.pop(environ)
        here, there = list(ones.values()), list(others.values())
        if len(here) == len(there) == 1:
            yield here[0], there[0]
        else:
            yield from ((one, _nothing(one, there)) for one in here)
            yield from ((_nothing(other, here), other) for other in there)


def _nothing(like: Measured, there: list[Measured]) -> Measured:
    """Return a cell without values, and why the other side has none like it."""
    reason = next((c.reason for c in there if not c.values and c.reason), '')
    if not reason and (elsewhere := sorted({c.environ for c in there if c.values} - {like.environ})):
        reason = f'measured in another environment: {", ".join(elsewhere)}'
    return replace(like, values=[], label='', reason=reason)


def _known(facts: list[tuple[Facts, Facts]]) -> tuple[dict[str, str], list[str]]:
    """Return the facts that all rows that were compared share, and a note for each that one side does not tell."""
    shared: dict[str, set[str]] = {}
    alone: Counter[str] = Counter()
    for one, other in facts:
        for fact in one.keys() | other.keys():
            shared.setdefault(fact, set()).update((one.get(fact, 'not known'), other.get(fact, 'not known')))
        alone.update(one.keys() ^ other.keys() if one and other else {'software, ranks, size and all else'})
    return ({fact: values.pop() for fact, values in sorted(shared.items()) if len(values) == 1},
            [f'not known to be like for like: {fact} of {n} metrics' for fact, n in sorted(alone.items())])


def _means(compared: Iterable[tuple[Row, tuple[Measured, Measured]]], confidence: float) -> list[Mean]:
    """Return a geometric mean a subsystem: of the metrics of a case, of the cases of a check, of the checks.

    So a check with many sizes weighs no more than one with a single figure. A rate and a time of the same run do
    not count twice. Rows without a ratio, refused ones and cached figures are not in it. The interval is of the
    sessions that have all metrics, a mean of each: metrics of a session are not independent."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row, both in compared:
        if row.speed:
            both = [_sample(cell.values, cell.past, cell.step) for cell in both]
            found[row.subsystem][row.check][row.benchmark].append((row, both))
    means = []
    for subsystem, checks in sorted(found.items()):
        logs = {check: fmean(fmean(math.log(row.speed) for row, _ in metrics) for metrics in cases.values())
                for check, cases in checks.items()}
        weighed = [((1 if row.better == 'higher' else -1) / len(checks) / len(cases) / len(metrics), both)
                   for cases in checks.values() for metrics in cases.values() for row, both in metrics]
        one, other = (interval.mean([(weight, both[i]) for weight, both in weighed]) for i in (0, 1))
        whole = interval.ratio(one, other, confidence) if one.sessions and other.sessions else \
            Ratio(None, why='no session of a side has all of these metrics')
        means.append(Mean(
            subsystem=subsystem, speed=math.exp(fmean(logs.values())) if whole.low is None else whole.ratio,
            checks={check: math.exp(log) for check, log in logs.items()}, metrics=len(weighed), low=whole.low,
            high=whole.high, sessions_baseline=len(one.sessions), sessions_candidate=len(other.sessions),
            reason=whole.why or whole.note))
    return means


def _about(cell: Measured) -> dict[str, Any]:
    return {'subsystem': cell.subsystem, 'check': cell.check, 'benchmark': cell.case, 'metric': cell.metric,
            'unit': cell.unit, 'better': cell.better, 'changed': cell.changed}


def _row(baseline: Measured, candidate: Measured, names: tuple[str, str], margin: float, label: bool,
         confidence: float, never: tuple[str, ...] = _NEVER) -> Row:
    """Return the row of two cells; either may have no values. With ``label`` all but ``never`` may differ."""
    measured = bool(baseline.values and candidate.values)
    one, other = ({'unit': cell.unit, 'direction': cell.better, **cell.facts} for cell in (baseline, candidate))
    differs = [Difference(fact=fact, baseline=one[fact], candidate=other[fact])
               for fact in model.differing(one, other)] if measured else []
    known = baseline if baseline.values else candidate
    fields = {**_about(known), 'differs': differs, 'label': baseline.label or candidate.label}
    unlike = [d for d in differs if not label or d.fact in never]
    if measured and not unlike:
        return _compared(fields, baseline, candidate, names, margin, confidence)
    why = 'not like for like: ' + '; '.join(f'{d.fact} {d.baseline} | {d.candidate}' for d in unlike) if measured \
        else '; '.join(f'not measured on {name}: {side.reason or "not among its cases"}'
                       for name, side in zip(names, (baseline, candidate), strict=True) if not side.values)
    return Row(**fields, **_sides(baseline.values, candidate.values), refused=measured, reason=why)


def _compared(fields: dict[str, Any], baseline: Measured, candidate: Measured, names: tuple[str, str],
              margin: float, confidence: float) -> Row:
    sides = _sides(baseline.values, candidate.values)
    try:
        found = interval.ratio(*(_sample(c.values, c.past, c.step) for c in (baseline, candidate)), confidence)
    except ValueError as err:
        found = Ratio(None, why=str(err))
    verdict = word(found.low, found.high, fields['better'], margin)
    if {v.value for v in (*baseline.values, *candidate.values)} == {0}:
        verdict = 'equivalent' if min(sides['sessions_baseline'], sides['sessions_candidate']) > 1 else 'undecided'
        found = replace(found, why=f'always 0 on both sides, {sides["n"]} run{"s" if sides["n"] > 1 else ""}')
    reasons = [fields['label'], found.why, *(f'{name}: newest {side.reason}' for name, side in
                                             zip(names, (baseline, candidate), strict=True) if side.reason)]
    if not fields['better']:
        reasons.append('whether higher or lower is better is not known')
    return Row(**fields, **sides, ratio=found.ratio, low=found.low, high=found.high, paired=found.paired,
               verdict='undecided' if fields['label'] else verdict, reason='; '.join(filter(None, reasons)),
               notes=[found.note] if found.note else [])


def _sample(values: Iterable[Value], past: Iterable[Value] = (), step: float | None = None) -> Sample:
    now, before = defaultdict(list), defaultdict(list)
    for sessions, of in ((now, values), (before, past)):
        for each in of:
            sessions[each.session].append(each.value)
    return interval.sample(now, before, step)


def limits(values: Sequence[Value]) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of figures that stand beside none; None where they have none."""
    return interval.limits(_sample(values)) if values and min(v.value for v in values) > 0 else (None, None)


def word(low: float | None, high: float | None, better: str, margin: float) -> Word:
    """Return faster or slower: 1 is outside the interval; equivalent: the interval is within the margin."""
    if low is not None and better and 1 - margin <= low and high <= 1 + margin:
        return 'equivalent'
    if low is None or not better or low <= 1 <= high:
        return 'undecided'
    return 'faster' if (low > 1) == (better == 'higher') else 'slower'


def _sides(baseline: Sequence[Value], candidate: Sequence[Value]) -> dict[str, Any]:
    """Return counts, medians and spreads; None where a side has no runs."""
    fields: dict[str, Any] = {'n': min(len(baseline), len(candidate))}
    for name, values in (('baseline', baseline), ('candidate', candidate)):
        figures = [v.value for v in values]
        fields |= {f'n_{name}': len(figures), f'sessions_{name}': len({v.session for v in values}),
                   name: median(figures) if figures else None, f'spread_{name}': interval.spread(figures)}
    return fields


def marked(compared: Comparison) -> Comparison:
    """Return the comparison; of two partitions that are a declared pair, rows have what was expected."""
    names = compared.baseline.name.split(':') + compared.candidate.name.split(':')
    kinds = {compared.baseline.kind, compared.candidate.kind}
    if kinds != {'partition'} or names[0] != names[2] or names[0] not in systems.names():
        return compared
    for pair in pairs.read(systems.read(names[0])):
        if [pair.baseline, pair.candidate] == [names[1], names[3]]:
            compared = beside(pair, compared)
            for expected in pair.expect:
                compared.rows[:] = [row.model_copy(update={
                    'expected': expected.said, 'state': expected.state(row, compared.confidence)[0]})
                    if expected.fits(row) else row for row in compared.rows]
    return compared


def beside(pair: Pair, compared: Comparison) -> Comparison:
    """Return the comparison with the rows of expectations that name the baseline's metric."""
    rows = [row for expected in pair.expect if expected.against for row in _speedups(expected, compared)]
    return compared.model_copy(update={'rows': [*compared.rows, *rows]})


def _speedups(expected: Expectation, compared: Comparison) -> Iterator[Row]:
    """Yield a row for each case of the candidate, beside the fastest of the baseline's figures that fit."""
    stand = sorted((c for c in compared.baseline.cells if expected.stands(c)),
                   key=lambda c: median(v.value for v in c.values) if c.values else -math.inf)
    cases: dict[tuple[str, str], list[Measured]] = {}
    for cell in compared.candidate.cells:
        if expected.adds(cell):
            cases.setdefault((cell.case, cell.environ), []).append(cell)
    check, metric = expected.metric.split('.')
    sums = [_sum(cells, metric) for cells in cases.values()]
    if not sums and stand:
        sums = [replace(stand[-1], check=check, case=check, metric=metric, values=[], label='', reason='')]
    for candidate in sums:
        one = stand[-1] if stand else replace(candidate, values=[], label='', reason='')
        row = _row(one, candidate, (compared.baseline.name, compared.candidate.name), compared.margin, True,
                   compared.confidence, _NODE_TO_NODE)
        differs = [Difference(fact='program', baseline=one.case, candidate=candidate.case),
                   *(d for d in row.differs if d.fact != 'check')] if one.values and candidate.values else []
        said = '; '.join(f'{d.fact} {d.baseline} | {d.candidate}' for d in differs)
        notes = [f'{model.SPEEDUP}; the programs differ: {said}',
                 f'per joule is left out: {one.check} notes no energy'] if differs else []
        yield row.model_copy(update={
            'subsystem': candidate.subsystem, 'check': check, 'benchmark': candidate.case, 'metric': metric,
            'against': expected.beside, 'differs': differs, 'notes': [*row.notes, *notes]})


def _sum(cells: list[Measured], metric: str) -> Measured:
    """Return the sum of a node's devices: a value for each run that has one of every device."""
    def added(of: Sequence[Sequence[Value]]) -> list[Value]:
        runs: dict[tuple, list[Value]] = defaultdict(list)
        for values in of:
            for run, same in groupby(values, lambda v: (v.session, v.when)):
                for i, value in enumerate(same):
                    runs[(*run, i)].append(value)
        return [replace(values[0], value=math.fsum(v.value for v in values)) for values in runs.values()
                if len(values) == len(of)]

    whole, past = added([cell.values for cell in cells]), added([cell.past for cell in cells])
    none = 'no run has every device' if not whole and any(cell.values for cell in cells) else ''
    return replace(cells[0], metric=metric, values=whole, past=past,
                   label=next((c.label for c in cells if c.label), ''),
                   reason=next((c.reason for c in cells if c.reason), none))


def of_session(system: System, uuid: str, planned: list[Any], confidence: float = CONFIDENCE) -> list[Outcome]:
    """Return the declared pairs of a system as they stood with the session ``uuid``, whose plan is given.

    Only cases of this session are judged: what was not selected tonight is not judged again. The runs of
    both partitions go back ``resolve.DAYS`` days, as in `parity compare`. ``confidence`` is that of intervals."""
    cases = {(c.case, c.partition) for c in planned}
    checks = {(c.check, c.partition) for c in planned}
    outcomes = []
    for pair in pairs.read(system):
        both = (pair.baseline, pair.candidate)
        metrics = [m for expected in pair.expect for m in (expected.metric, expected.against) if m]
        sides = [resolve.partition(f'{system.name}:{name}', uuid, metrics) for name in both]
        compared = compare(*resolve.settled(*sides), confidence=confidence)
        outcomes += [o for o in pairs.judged(pair, beside(pair, compared))
                     if any((o.benchmark, name) in cases or (not o.subsystem and (o.benchmark, name) in checks)
                            for name in both)]
    return outcomes
