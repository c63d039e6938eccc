"""Two sides joined, case by case and metric by metric, and the state of declared pairs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from statistics import fmean, median
from typing import Any

from parity.base import codes
from parity.base.figures import counted
from parity.base.groups import grouped
from parity.judge.compare import model, pairs, resolve
from parity.judge.compare.model import Comparison, Difference, Facts, Mean, Measured, Row, Side, Value, Word
from parity.judge.compare.named import NamedNode
from parity.judge.compare.pairs import Expectation, Pair, PairState
from parity.judge.stats import interval
from parity.judge.stats.interval import CONFIDENCE, Ratio, Sample
from parity.site.identity import shared
from parity.site.systems import System

#: A difference that nobody acts on.
MARGIN = 0.02
#: What no label makes comparable; nor does a pair of different programs, which are compared node to node.
_NEVER = ('unit', 'direction')
_NODE_TO_NODE = (*_NEVER, 'nodes')


def compare(baseline: Side, candidate: Side, margin: float = MARGIN, label: bool = False,
            confidence: float = CONFIDENCE, declared: Sequence[Pair] = ()) -> Comparison:
    """Return the comparison of two sides. Rows say what could not be compared, and why: nothing is raised.

    ``margin`` counts as equivalent; with ``label`` cells that are not alike are compared, too. Rows have what the
    ``declared`` pairs expect, and there is one for each figure of another program that they name."""
    row = partial(_row, names=(baseline.name, candidate.name), margin=margin, confidence=confidence)
    every = list(_joined(baseline, candidate))
    joined = [(one, other) for one, other in every if one.values or other.values]
    rows = [row(*both, never=_NEVER if label else None) for both in joined]
    means = _means(zip(rows, joined, strict=True), confidence)      # before the rows are sorted
    order = {subsystem: i for i, subsystem in enumerate((*codes.SUBSYSTEMS, 'other'))}
    rows.sort(key=lambda r: (order.get(r.subsystem, len(order)), r.subsystem))
    often = Counter((d.fact, d.baseline, d.candidate) for r in rows for d in r.differs)
    differs = [Difference(fact=f, baseline=b, candidate=c, metrics=n) for (f, b, c), n in often.items()]
    alike, unknown = _shared([(one.facts, other.facts) for one, other in joined if one.values and other.values])
    notes = [f'{s.name}: {n}' for s in (baseline, candidate) for n in s.notes]
    notes += _neither(baseline.name, candidate.name, [both for both in every if not any(c.values for c in both)])
    if baseline.kind == 'published':
        notes.append('in print each run counts as a session: intervals hold for these runs, and say nothing of '
                     'other days')
    for expected in (expected for pair in declared for expected in pair.expect):
        rows += _speedups(expected, baseline, candidate, row) if expected.against else []
        for i, each in enumerate(rows):
            if expected.fits(each):
                state, _ = expected.state(each, confidence)
                rows[i] = each.model_copy(update={'expected': expected.bounds, 'state': state})
    return Comparison(
        baseline=baseline, candidate=candidate, confidence=confidence, margin=margin, alike=alike,
        differs=differs, labelled=label, rows=rows, means=means, notes=[*notes, *unknown])


def _neither(baseline: str, candidate: str, lacking: list[tuple[Measured, Measured]]) -> list[str]:
    """Say how many metrics no side has to compare, and how many disturbed ones each side has."""
    if not lacking:
        return []
    disturbed = [sum(cell.status == 'disturbed' for cell in side) for side in zip(*lacking, strict=True)]
    if not any(disturbed):
        return [f'{counted(len(lacking), "metric", "were")} measured on neither side']
    has = ', '.join(f'{name} has {count}' for name, count in zip((baseline, candidate), disturbed, strict=True))
    return [f'{counted(len(lacking), "metric")} without a figure that nobody disturbed; of disturbed ones {has}']


def alone(side: Side) -> Comparison:
    """Return the figures of a side that stands beside none: a row for each, without a ratio."""
    rows = []
    for cell in side.cells:
        row = _row(cell, _nothing(cell), ('', ''), MARGIN, CONFIDENCE)
        low, high = limits(cell.values)
        rows.append(row.model_copy(update={
            'n': row.n_baseline, 'kind': cell.kind, 'reason': cell.reason, 'low': low, 'high': high}))
    return compare(replace(side, cells=[]), Side('', side.kind, [])).model_copy(update={'rows': rows})


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
            continue
        for one in here:        # in an environment of both, neither side has a figure: one pair, counted once
            yield one, others.get(one.environ) or _nothing(one, there)
        for other in there:
            if other.environ not in ones:
                yield _nothing(other, here), other


def _nothing(like: Measured, there: Sequence[Measured] = ()) -> Measured:
    """Return a cell without values, and why the other side has none like it."""
    status, reason = next(((c.status, c.reason) for c in there if not c.values and c.reason), ('', ''))
    if not reason and (elsewhere := sorted({c.environ for c in there if c.values} - {like.environ})):
        reason = f'measured in another environment: {", ".join(elsewhere)}'
    return replace(like, values=[], label='', status=status, reason=reason)


def _shared(facts: list[tuple[Facts, Facts]]) -> tuple[dict[str, str], list[str]]:
    """Return the facts that all rows that were compared share, and a note for each that one side does not tell."""
    found, alone = defaultdict(set), Counter()
    for one, other in facts:
        for fact in one.keys() | other.keys():
            found[fact] |= {one.get(fact), other.get(fact)}
        alone.update(one.keys() ^ other.keys() if one and other else {'software, ranks, size and all else'})
    return ({fact: values.pop() for fact, values in sorted(found.items()) if len(values) == 1},
            [f'not known to be like for like: {fact} of {counted(n, "metric")}'
             for fact, n in sorted(alone.items())])


def _means(compared: Iterable[tuple[Row, tuple[Measured, Measured]]], confidence: float) -> list[Mean]:
    """Return a geometric mean a subsystem: of the metrics of a case, of the cases of a check, of the checks.

    So a check with many sizes weighs no more than one with a single figure. A rate and a time of the same run do
    not count twice. Rows without a ratio, refused ones and cached figures are not in it. The interval is of the
    sessions that have all metrics, a mean of each: metrics of a session are not independent."""
    found = defaultdict(list)
    for row, both in compared:
        if row.ratio and row.better and not row.label:
            found[row.subsystem].append((row, [_sample(cell) for cell in both]))
    means = []
    for subsystem, rows in sorted(found.items()):
        metrics = Counter((row.check, row.benchmark) for row, _ in rows)
        cases = Counter(check for check, _ in metrics)
        checks, weighed = dict.fromkeys(cases, 0.0), []
        for row, both in rows:
            weight = (1 if row.better == 'higher' else -1) / cases[row.check] / metrics[row.check, row.benchmark]
            checks[row.check] += weight * math.log(row.ratio)
            weighed.append((weight / len(cases), both))
        one, other = (interval.mean([(weight, both[i]) for weight, both in weighed]) for i in (0, 1))
        whole = interval.ratio(one, other, confidence)
        means.append(Mean(
            subsystem=subsystem, speed=math.exp(fmean(checks.values())) if whole.low is None else whole.ratio,
            checks={check: math.exp(log) for check, log in checks.items()}, metrics=len(rows), low=whole.low,
            high=whole.high, sessions_baseline=len(one.sessions), sessions_candidate=len(other.sessions),
            reason=whole.why or whole.note))
    return means


def _row(baseline: Measured, candidate: Measured, names: tuple[str, str], margin: float, confidence: float,
         never: Sequence[str] | None = None) -> Row:
    """Return the row of two cells; either may have no values. All but ``never`` may differ; None: nothing may."""
    both, known = (baseline, candidate), baseline if baseline.values else candidate
    fields = {name: getattr(known, name) for name in ('subsystem', 'check', 'metric', 'unit', 'better', 'changed')}
    fields |= {'benchmark': known.case, 'label': baseline.label or candidate.label,
               'n': min(len(baseline.values), len(candidate.values))}
    for side, cell in (('baseline', baseline), ('candidate', candidate)):
        values = [v.value for v in cell.values]
        fields |= {f'n_{side}': len(values), f'sessions_{side}': len({v.session for v in cell.values}),
                   side: median(values) if values else None, f'spread_{side}': interval.spread(values),
                   f'nodes_{side}': cell.nodes}
    if not (baseline.values and candidate.values):
        return Row(**fields, reason='; '.join(f'not measured on {name}: {cell.reason or "not among its cases"}'
                                              for name, cell in zip(names, both, strict=True) if not cell.values))
    one, other = ({'unit': cell.unit, 'direction': cell.better, **cell.facts} for cell in both)
    fields['differs'] = [Difference(fact=fact, baseline=one[fact], candidate=other[fact])
                         for fact in model.differing(one, other)]
    if unlike := [f'{d.fact} {d.baseline} | {d.candidate}' for d in fields['differs']
                  if never is None or d.fact in never]:
        return Row(**fields, refused=True, reason=f'not like for like: {"; ".join(unlike)}')
    found = _ratio(both, confidence)
    if found.ratio is not None:
        fields |= {'baseline': found.baseline, 'candidate': found.candidate}
    verdict: Word = word(found.low, found.high, fields['better'], margin)
    if not any(v.value for cell in both for v in cell.values):
        found = found._replace(why=f'always 0 on both sides, {counted(fields["n"], "run")}')
        if min(fields['sessions_baseline'], fields['sessions_candidate']) > 1:
            verdict = 'equivalent'
    reasons = [fields['label'], found.why, *(f'{name}: newest {cell.reason}' for name, cell in
                                             zip(names, both, strict=True) if cell.reason),
               '' if fields['better'] else 'whether higher or lower is better is not known']
    return Row(**fields, ratio=found.ratio, low=found.low, high=found.high, paired=found.paired,
               left_out='; '.join(cell.left_out for cell in both if cell.left_out),
               ratio_with_all=_ratio_with_all(both, confidence),
               verdict='undecided' if fields['label'] else verdict, reason='; '.join(filter(None, reasons)),
               notes=[found.note] if found.note else [])


def _ratio(both: Sequence[Measured], confidence: float) -> Ratio:
    try:
        return interval.ratio(*(_sample(cell) for cell in both), confidence)
    except ValueError as err:
        return Ratio(None, why=str(err))


def _ratio_with_all(both: Sequence[Measured], confidence: float) -> str:
    """Return the ratio with the nights that were left out, and its interval; '' where none were."""
    if not any(cell.every for cell in both):
        return ''
    found = _ratio([replace(cell, values=cell.every or cell.values) for cell in both], confidence)
    return pairs.with_interval(found.ratio, found.low, found.high)


def _sample(cell: Measured) -> Sample:
    return interval.sample(*([(v.session, v.value) for v in of] for of in (cell.values, cell.past)), cell.step)


def limits(values: Sequence[Value]) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of figures that stand beside none; None where they have none."""
    known = values and min(v.value for v in values) > 0
    return interval.limits(interval.sample((v.session, v.value) for v in values)) if known else (None, None)


def word(low: float | None, high: float | None, better: str, margin: float) -> Word:
    """Return faster or slower: 1 is outside the interval; equivalent: the interval is within the margin."""
    if low is not None and better and 1 - margin <= low and high <= 1 + margin:
        return 'equivalent'
    if low is None or not better or low <= 1 <= high:
        return 'undecided'
    return 'faster' if (low > 1) == (better == 'higher') else 'slower'


def like(one: Row | None, other: Row | None, margin: float, several: int = 1) -> str:
    """Return like: the ratios differ by no more than the margin; unlike: by more; or cannot tell. The intervals of
    several rows are as wide as lets all hold at once with 95 %."""
    if not one or not other or one.ratio is None or other.ratio is None:
        return ''
    if not (one.low and one.high and other.low and other.high) or other.label.startswith('disturbed'):
        return 'cannot tell'
    half = math.hypot(*(math.log(row.high / row.low) / 2 for row in (one, other)))
    half *= interval.at_once(several)
    apart = abs(math.log(other.ratio / one.ratio))
    return 'like' if apart + half <= math.log1p(margin) else 'unlike' if apart - half > math.log1p(margin) else \
        'cannot tell'


def _speedups(expected: Expectation, baseline: Side, candidate: Side, row: Callable[..., Row]) -> Iterator[Row]:
    """Yield a row for each case of the candidate, beside the fastest of the baseline's figures that fit."""
    stands = max(filter(expected.is_baseline, baseline.cells), default=None,
                 key=lambda cell: median(v.value for v in cell.values) if cell.values else -math.inf)
    check, metric = expected.metric.split('.')
    devices = grouped(filter(expected.adds, candidate.cells), attrgetter('case', 'environ'))
    sums = [_sum(cells, metric) for cells in devices.values()]
    if not sums and stands:
        sums = [replace(_nothing(stands), check=check, case=check)]
    for other in sums:
        one = stands or _nothing(other)
        found = row(one, other, never=_NODE_TO_NODE)
        differs, notes = [], found.notes
        if one.values and other.values:
            differs = [Difference(fact='program', baseline=one.case, candidate=other.case),
                       *(d for d in found.differs if d.fact != 'check')]
            said = '; '.join(f'{d.fact} {d.baseline} | {d.candidate}' for d in differs)
            notes = [*notes, f'{pairs.SPEEDUP}; the programs differ: {said}',
                     f'per joule is left out: {one.check} notes no energy']
        yield found.model_copy(update={
            'subsystem': other.subsystem, 'check': check, 'benchmark': other.case, 'metric': metric,
            'against': expected.suffix, 'differs': differs, 'notes': notes})


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
    some_left_out = any(cell.every for cell in cells)
    every = added([cell.every or cell.values for cell in cells]) if some_left_out else []
    none = 'no run has every device' if not whole and any(cell.values for cell in cells) else ''
    return replace(cells[0], metric=metric, values=whole, past=past, every=every,
                   left_out=next((c.left_out for c in cells if c.left_out), ''),
                   label=next((c.label for c in cells if c.label), ''),
                   reason=next((c.reason for c in cells if c.reason), none))


def of_session(system: System, uuid: str, planned: list[Any], confidence: float = CONFIDENCE,
               slow: Sequence[NamedNode] = ()) -> list[PairState]:
    """Return the declared pairs of a system as they stood with the session ``uuid``, whose plan is given.

    Only cases of this session are judged: what was not selected tonight is not judged again. The runs of
    both partitions go back ``resolve.DAYS`` days, as in `parity compare`. ``confidence`` is that of intervals.
    ``slow``: nodes that incidents name."""
    cases = {(c.case, c.partition) for c in planned}
    checks = {(c.check, c.partition) for c in planned}
    outcomes = []
    for pair in pairs.read(system):
        both = (pair.baseline, pair.candidate)
        metrics = {shared(m) for expected in pair.expect for m in (expected.metric, expected.against) if m}
        sides = [resolve.partition(f'{system.name}:{name}', uuid, metrics) for name in both]
        compared = compare(*resolve.settled(*sides, slow=slow), confidence=confidence, declared=[pair])
        outcomes += [o for o in pairs.judged(pair, compared)
                     if any((o.benchmark, name) in cases or (not o.subsystem and (o.benchmark, name) in checks)
                            for name in both)]
    return outcomes
