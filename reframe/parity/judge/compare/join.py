"""Two sides joined, case by case and metric by metric, and the state of declared pairs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from statistics import fmean, median
from typing import Any, NamedTuple

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
    names = baseline.name, candidate.name
    never = _NEVER if label else None

    def row(one: Measured, other: Measured, never: Sequence[str] | None) -> Row:
        return _row(one, other, names, margin, confidence, never)

    joined, neither = [], []
    for one, other in _joined(baseline, candidate):
        has_values = one.values or other.values
        (joined if has_values else neither).append((one, other))
    rows = [row(one, other, never) for one, other in joined]
    means = _means(rows, joined, confidence)        # before the rows are sorted
    if _have_several_places(baseline, candidate):
        rows = _with_partitions(rows, joined)
    rows.sort(key=lambda row: _rank(row.subsystem))
    differs = _differences(rows)
    facts = [(one.facts, other.facts) for one, other in joined if one.values and other.values]
    alike, unknown = _shared(facts)
    notes = []
    for side in (baseline, candidate):
        notes += [f'{side.name}: {note}' for note in side.notes]
    notes += _neither(*names, neither)
    if baseline.kind == 'published':
        notes.append('in print each run counts as a session: intervals hold for these runs, and say nothing of '
                     'other days')
    notes += unknown
    for pair in declared:
        for expected in pair.expect:
            if expected.against:
                rows += _speedups(expected, baseline, candidate, row)
            rows = [_with_state(row, expected, confidence) for row in rows]
    compared = Comparison(
        baseline=baseline, candidate=candidate, confidence=confidence, margin=margin, alike=alike,
        differs=differs, labelled=label, rows=rows, means=means, notes=notes)
    expectations = []
    for pair in declared:
        expectations += pairs.judged(pair, compared)
    return compared.model_copy(update={'expectations': expectations})


def _with_partitions(rows: list[Row], joined: list[tuple[Measured, Measured]]) -> list[Row]:
    """Return the rows with the name of their partition; ``joined``: the cells of each row."""
    named_rows = []
    for row, (one, _) in zip(rows, joined, strict=True):
        partition = resolve.partition_of(one.place)
        named_rows.append(row.model_copy(update={'partition': partition}))
    return named_rows


def _rank(subsystem: str) -> tuple[int, str]:
    order = (*codes.SUBSYSTEMS, 'other')
    if subsystem not in order:
        return len(order), subsystem
    return order.index(subsystem), subsystem


def _differences(rows: list[Row]) -> list[Difference]:
    """Return what makes the rows unlike, with how many rows each concerns."""
    often: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for unlike in row.differs:
            often[unlike.fact, unlike.baseline, unlike.candidate] += 1
    differences = []
    for (fact, baseline, candidate), count in often.items():
        difference = Difference(fact=fact, baseline=baseline, candidate=candidate, metrics=count)
        differences.append(difference)
    return differences


def _with_state(row: Row, expected: Expectation, confidence: float) -> Row:
    if not expected.fits(row):
        return row
    state, _ = expected.state(row, confidence)
    return row.model_copy(update={'expected': expected.bounds, 'state': state})


def _neither(baseline: str, candidate: str, lacking: list[tuple[Measured, Measured]]) -> list[str]:
    """Say how many metrics no side has to compare, and how many disturbed ones each side has."""
    if not lacking:
        return []
    ones = sum(one.status == 'disturbed' for one, _ in lacking)
    others = sum(other.status == 'disturbed' for _, other in lacking)
    if not (ones or others):
        were = counted(len(lacking), 'metric', 'were')
        return [f'{were} measured on neither side']
    count = counted(len(lacking), 'metric')
    return [f'{count} without a figure that nobody disturbed; '
            f'of disturbed ones {baseline} has {ones}, {candidate} has {others}']


def alone(side: Side) -> Comparison:
    """Return the figures of a side that stands beside none: a row for each, without a ratio."""
    rows = []
    for cell in side.cells:
        row = _row(cell, _nothing(cell), ('', ''), MARGIN, CONFIDENCE)
        low, high = limits(cell.values)
        update = {'n': row.n_baseline, 'kind': cell.kind, 'reason': cell.reason, 'low': low, 'high': high}
        rows.append(row.model_copy(update=update))
    without_cells = replace(side, cells=[])
    nobody = Side('', side.kind, [])
    compared = compare(without_cells, nobody)
    return compared.model_copy(update={'rows': rows})


def _joined(baseline: Side, candidate: Side) -> Iterable[tuple[Measured, Measured]]:
    """Yield the pairs of cells of the same case and metric, one a side; `_pairs` joins their environments.

    Where a side has several partitions, both cells are of partitions of the same name."""
    by_partition = _have_several_places(baseline, candidate)
    cells_of_baseline = _by_metric(baseline, by_partition)
    cells_of_candidate = _by_metric(candidate, by_partition)
    for key in cells_of_baseline | cells_of_candidate:
        ones = cells_of_baseline.get(key, {})
        others = cells_of_candidate.get(key, {})
        yield from _pairs(ones, others)


def _have_several_places(*both: Side) -> bool:
    return any(len(side.places) > 1 for side in both)


def _by_metric(side: Side, by_partition: bool) -> dict[tuple[str, str, str], dict[str, Measured]]:
    """Return the cells by case, metric and, where it counts, partition; then by environment."""
    cells: dict[tuple[str, str, str], dict[str, Measured]] = {}
    for cell in side.cells:
        partition = resolve.partition_of(cell.place) if by_partition else ''
        by_environ = cells.setdefault((cell.case, cell.metric, partition), {})
        by_environ[cell.environ] = cell
    return cells


def _pairs(ones: dict[str, Measured], others: dict[str, Measured]) -> Iterator[tuple[Measured, Measured]]:
    """Yield the pairs of one metric; both sides are by environment.

    Cells of the same environment are a pair, then the only cell that each side has left. A cell without a partner
    is paired with one without values."""
    for environ in list(ones):
        if environ not in others:
            continue
        if ones[environ].values or others[environ].values:
            yield ones.pop(environ), others.pop(environ)
    here, there = list(ones.values()), list(others.values())
    if len(here) == len(there) == 1:
        yield here[0], there[0]
        return
    for one in here:        # in an environment of both, neither side has a figure: one pair, counted once
        other = others.get(one.environ)
        yield one, other or _nothing(one, there)
    for other in there:
        if other.environ not in ones:
            yield _nothing(other, here), other


def _nothing(like: Measured, there: Sequence[Measured] = ()) -> Measured:
    """Return a cell without values, and why the other side has none like it."""
    status = reason = ''
    for cell in there:
        if not cell.values and cell.reason:
            status, reason = cell.status, cell.reason
            break
    if not reason:
        environs = {cell.environ for cell in there if cell.values}
        elsewhere = ', '.join(sorted(environs - {like.environ}))
        if elsewhere:
            reason = f'measured in another environment: {elsewhere}'
    return replace(like, values=[], label='', status=status, reason=reason)


def _shared(facts: list[tuple[Facts, Facts]]) -> tuple[dict[str, str], list[str]]:
    """Return the facts that all rows that were compared share, and a note for each that one side does not tell."""
    values: dict[str, set[str | None]] = defaultdict(set)
    one_sided: Counter[str] = Counter()
    for one, other in facts:
        for fact in one.keys() | other.keys():
            values[fact] |= {one.get(fact), other.get(fact)}
        if one and other:
            one_sided.update(one.keys() ^ other.keys())
        else:
            one_sided['software, ranks, size and all else'] += 1
    shared = {}
    for fact in sorted(values):
        if len(values[fact]) == 1:
            shared[fact] = values[fact].pop()
    notes = []
    for fact, count in sorted(one_sided.items()):
        metrics = counted(count, 'metric')
        notes.append(f'not known to be like for like: {fact} of {metrics}')
    return shared, notes


class _Compared(NamedTuple):
    """A row with its ratio, and what this was made of."""

    row: Row
    baseline: Sample
    candidate: Sample


def _means(rows: list[Row], joined: list[tuple[Measured, Measured]], confidence: float) -> list[Mean]:
    """Return a geometric mean a subsystem: of the metrics of a case, of the cases of a check, of the checks.

    So a check with many sizes weighs no more than one with a single figure. A rate and a time of the same run do
    not count twice. Rows without a ratio, refused ones and cached figures are not in it. The interval is of the
    sessions that have all metrics, a mean of each: metrics of a session are not independent. ``joined``: the cells
    of each row."""
    by_subsystem: dict[str, list[_Compared]] = {}
    for row, (one, other) in zip(rows, joined, strict=True):
        if row.ratio and row.better and not row.label:
            compared = _Compared(row, _sample(one), _sample(other))
            by_subsystem.setdefault(row.subsystem, []).append(compared)
    means = []
    for subsystem in sorted(by_subsystem):
        of_subsystem = by_subsystem[subsystem]
        means.append(_mean(of_subsystem, confidence))
    return means


def _mean(compared: list[_Compared], confidence: float) -> Mean:
    """Return the mean of one subsystem."""
    metrics = Counter((row.check, row.benchmark) for row, *_ in compared)
    cases = Counter(check for check, _ in metrics)
    log_of_check = dict.fromkeys(cases, 0.0)
    ones, others = [], []
    for row, one, other in compared:
        direction = 1 if row.better == 'higher' else -1
        weight = direction / cases[row.check] / metrics[row.check, row.benchmark]
        log_of_check[row.check] += weight * math.log(row.ratio)
        share = weight / len(cases)
        ones.append((share, one))
        others.append((share, other))
    baseline = interval.mean(ones)
    candidate = interval.mean(others)
    whole = interval.ratio(baseline, candidate, confidence)
    speed = whole.ratio
    if whole.low is None:
        speed = math.exp(fmean(log_of_check.values()))
    checks = {check: math.exp(log) for check, log in log_of_check.items()}
    subsystem = compared[0].row.subsystem
    sessions = len(baseline.sessions), len(candidate.sessions)
    reason = whole.why or whole.note
    return Mean(
        subsystem=subsystem, speed=speed, metrics=len(compared), low=whole.low, high=whole.high, checks=checks,
        sessions_baseline=sessions[0], sessions_candidate=sessions[1], reason=reason)


def _row(baseline: Measured, candidate: Measured, names: tuple[str, str], margin: float, confidence: float,
         never: Sequence[str] | None = None) -> Row:
    """Return the row of two cells; either may have no values. All but ``never`` may differ; None: nothing may."""
    both = (baseline, candidate)
    fields = _fields(baseline, candidate)
    lacking = []
    for name, cell in zip(names, both, strict=True):
        if not cell.values:
            why = cell.reason or 'not among its cases'
            lacking.append(f'not measured on {name}: {why}')
    if lacking:
        return Row(**fields, reason='; '.join(lacking))
    differs = _unlike(baseline, candidate)
    refusing = [unlike for unlike in differs if never is None or unlike.fact in never]
    if refusing:
        reason = f'not like for like: {_listed(refusing)}'
        return Row(**fields, differs=differs, refused=True, reason=reason)

    result = _ratio(both, confidence)
    if result.ratio is not None:
        fields |= {'baseline': result.baseline, 'candidate': result.candidate}
    verdict: Word = word(result.low, result.high, fields['better'], margin)
    why = result.why
    if not any(run.value for cell in both for run in cell.values):
        runs = counted(fields['n'], 'run')
        why = f'always 0 on both sides, {runs}'
        if min(fields['sessions_baseline'], fields['sessions_candidate']) > 1:
            verdict = 'equivalent'
    reasons = [fields['label'], why]
    for name, cell in zip(names, both, strict=True):
        if cell.reason:
            reasons.append(f'{name}: newest {cell.reason}')
    if fields['label']:
        verdict = 'undecided'
    if not fields['better']:
        reasons.append('whether higher or lower is better is not known')
    reason = '; '.join(filter(None, reasons))
    left_out = '; '.join(cell.left_out for cell in both if cell.left_out)
    with_all = _ratio_with_all(both, confidence)
    notes = [result.note] if result.note else []
    return Row(**fields, differs=differs, ratio=result.ratio, low=result.low, high=result.high,
               paired=result.paired, left_out=left_out, ratio_with_all=with_all, verdict=verdict, reason=reason,
               notes=notes)


def _listed(differences: list[Difference]) -> str:
    """Return 'ranks 4 | 8; size quick | nightly'."""
    texts = []
    for unlike in differences:
        texts.append(f'{unlike.fact} {unlike.baseline} | {unlike.candidate}')
    return '; '.join(texts)


def _fields(baseline: Measured, candidate: Measured) -> dict[str, Any]:
    """Return the fields of a row that need no comparison."""
    measured = baseline if baseline.values else candidate
    fields: dict[str, Any] = {}
    for name in ('subsystem', 'check', 'metric', 'unit', 'better', 'changed'):
        fields[name] = getattr(measured, name)
    fields['benchmark'] = measured.case
    fields['label'] = baseline.label or candidate.label
    fields['n'] = min(len(baseline.values), len(candidate.values))
    for side, cell in (('baseline', baseline), ('candidate', candidate)):
        values = [run.value for run in cell.values]
        sessions = {run.session for run in cell.values}
        fields[side] = median(values) if values else None
        fields[f'n_{side}'] = len(values)
        fields[f'sessions_{side}'] = len(sessions)
        fields[f'spread_{side}'] = interval.spread(values)
        fields[f'nodes_{side}'] = cell.nodes
    return fields


def _unlike(baseline: Measured, candidate: Measured) -> list[Difference]:
    one, other = _comparable_facts(baseline), _comparable_facts(candidate)
    differences = []
    for fact in model.differing(one, other):
        difference = Difference(fact=fact, baseline=one[fact], candidate=other[fact])
        differences.append(difference)
    return differences


def _comparable_facts(cell: Measured) -> Facts:
    return {'unit': cell.unit, 'direction': cell.better, **cell.facts}


def _ratio(both: Sequence[Measured], confidence: float) -> Ratio:
    try:
        one, other = map(_sample, both)
        return interval.ratio(one, other, confidence)
    except ValueError as err:
        return Ratio(None, why=str(err))


def _ratio_with_all(both: Sequence[Measured], confidence: float) -> str:
    """Return the ratio with the nights that were left out, and its interval; '' where none were."""
    if not any(cell.every for cell in both):
        return ''
    whole = []
    for cell in both:
        values = cell.every or cell.values
        whole.append(replace(cell, values=values))
    result = _ratio(whole, confidence)
    return pairs.with_interval(result.ratio, result.low, result.high)


def _sample(cell: Measured) -> Sample:
    return interval.sample(_by_session(cell.values), _by_session(cell.past), cell.step)


def _by_session(values: Sequence[Value]) -> list[tuple[str, float]]:
    return [(run.session, run.value) for run in values]


def limits(values: Sequence[Value]) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of figures that stand beside none; None where they have none."""
    if not values or min(run.value for run in values) <= 0:
        return None, None
    sample = interval.sample(_by_session(values))
    return interval.limits(sample)


def word(low: float | None, high: float | None, better: str, margin: float) -> Word:
    """Return faster or slower: 1 is outside the interval; equivalent: the interval is within the margin."""
    if low is None or not better:
        return 'undecided'
    if 1 - margin <= low and high <= 1 + margin:
        return 'equivalent'
    if low <= 1 <= high:
        return 'undecided'
    is_higher = low > 1
    return 'faster' if is_higher == (better == 'higher') else 'slower'


def like(one: Row | None, other: Row | None, margin: float, several: int = 1) -> str:
    """Return like: the ratios differ by no more than the margin; unlike: by more; or cannot tell. The intervals of
    several rows are as wide as lets all hold at once with 95 %."""
    if not one or not other or one.ratio is None or other.ratio is None:
        return ''
    if other.label.startswith('disturbed'):
        return 'cannot tell'
    halves = []
    for row in (one, other):
        if row.low is None or row.low <= 0:
            return 'cannot tell'
        halves.append(math.log(row.high / row.low) / 2)
    half = math.hypot(*halves) * interval.at_once(several)
    apart = abs(math.log(other.ratio / one.ratio))
    bound = math.log1p(margin)
    if apart + half <= bound:
        return 'like'
    if apart - half > bound:
        return 'unlike'
    return 'cannot tell'


def _speedups(expected: Expectation, baseline: Side, candidate: Side, row: Callable[..., Row]) -> Iterator[Row]:
    """Yield a row for each case of the candidate, beside the fastest of the baseline's figures that fit."""
    of_baseline = filter(expected.is_baseline, baseline.cells)
    fastest = max(of_baseline, default=None, key=_speed)
    check, metric = expected.metric.split('.')
    shares = filter(expected.adds, candidate.cells)
    devices = grouped(shares, attrgetter('case', 'environ'))
    sums = [_sum(cells, metric) for cells in devices.values()]
    if not sums and fastest:
        sums = [replace(_nothing(fastest), check=check, case=check)]
    for other in sums:
        one = fastest or _nothing(other)
        compared = row(one, other, never=_NODE_TO_NODE)
        differs, notes = [], compared.notes
        if one.values and other.values:
            program = Difference(fact='program', baseline=one.case, candidate=other.case)
            rest = [unlike for unlike in compared.differs if unlike.fact != 'check']
            differs = [program, *rest]
            programs = f'{pairs.SPEEDUP}; the programs differ: {_listed(differs)}'
            per_joule = f'per joule is left out: {one.check} notes no energy'
            notes = [*notes, programs, per_joule]
        yield compared.model_copy(update={
            'subsystem': other.subsystem, 'check': check, 'benchmark': other.case, 'metric': metric,
            'against': expected.suffix, 'differs': differs, 'notes': notes})


def _speed(cell: Measured) -> float:
    return median(run.value for run in cell.values) if cell.values else -math.inf


def _sum(cells: list[Measured], metric: str) -> Measured:
    """Return the sum of a node's devices: a value for each run that has one of every device."""
    values = _added([cell.values for cell in cells])
    past = _added([cell.past for cell in cells])
    every = []
    if any(cell.every for cell in cells):
        every = _added([cell.every or cell.values for cell in cells])
    reason = _first(cell.reason for cell in cells)
    has_values = any(cell.values for cell in cells)
    if has_values and not values and not reason:
        reason = 'no run has every device'
    left_out = _first(cell.left_out for cell in cells)
    label = _first(cell.label for cell in cells)
    return replace(cells[0], metric=metric, values=values, past=past, every=every, reason=reason,
                   left_out=left_out, label=label)


def _added(devices: Sequence[Sequence[Value]]) -> list[Value]:
    """Return the sum over the devices of each run that has a value of all."""
    runs: dict[tuple, list[Value]] = {}
    for values in devices:
        repeated: Counter[tuple] = Counter()
        for value in values:
            job = value.session, value.when
            run = job, repeated[job]
            runs.setdefault(run, []).append(value)
            repeated[job] += 1
    sums = []
    for values in runs.values():
        if len(values) == len(devices):
            total = math.fsum(run.value for run in values)
            sums.append(replace(values[0], value=total))
    return sums


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), '')


def of_session(system: System, uuid: str, planned: list[Any], confidence: float = CONFIDENCE,
               slow: Sequence[NamedNode] = ()) -> list[PairState]:
    """Return the declared pairs of a system as they stood with the session ``uuid``, whose plan is given.

    Only cases of this session are judged: what was not selected tonight is not judged again. The runs of
    both partitions go back ``resolve.DAYS`` days, as in `parity compare`. ``confidence`` is that of intervals.
    ``slow``: nodes that incidents name."""
    cases = {(case.case, case.partition) for case in planned}
    checks = {(case.check, case.partition) for case in planned}
    outcomes = []
    for pair in pairs.read(system):
        partitions = (pair.baseline, pair.candidate)
        metrics = set()
        for expected in pair.expect:
            metrics.add(shared(expected.metric))
            if expected.against:
                metrics.add(shared(expected.against))
        sides = [resolve.partition(f'{system.name}:{name}', uuid, metrics) for name in partitions]
        one, other = resolve.settled(*sides, slow=slow)
        compared = compare(one, other, confidence=confidence, declared=[pair])
        for state in compared.expectations:
            here = {(state.benchmark, name) for name in partitions}
            is_case = not here.isdisjoint(cases)
            is_check = not state.subsystem and not here.isdisjoint(checks)
            if is_case or is_check:
                outcomes.append(state)
    return outcomes
