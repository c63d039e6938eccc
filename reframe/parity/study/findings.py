"""Judge the sentences of a study by its figures: by those in print, and by those measured here."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from parity.base.figures import number
from parity.base.strict import Strict
from parity.compare.model import Comparison, Row
from parity.study import derived
from parity.study.derived import FitRow, NumberRow, Of, by_point, chosen, labels, numeric
from parity.study.figures import FIGURE, Cell, quotient
from parity.study.model import Study, filled
from parity.study.statements import Finding

Word = Literal['holds', 'does not hold', 'not testable', 'not printed']
_BOUNDS = {'above': operator.gt, 'below': operator.lt, 'at_least': operator.ge, 'at_most': operator.le}


class Judged(Strict):
    """A judged finding. ``published`` and ``here`` are its words, `why_...` the figures or the reason."""

    id: str
    says: str
    where: str
    kind: str
    statement: str
    published: Word
    why_published: str
    here: Word | Literal[''] = ''
    why_here: str = ''


class Analysis(Strict):
    fits: list[FitRow]
    numbers: list[NumberRow]
    findings: list[Judged]


class Part(NamedTuple):
    """One of the ratios or fits that must all agree. ``holds``: None where it is not testable. ``absent``: one of
    its figures was not measured."""

    holds: bool | None
    text: str
    absent: bool = False


def analysed(study: Study, published: Sequence[Cell], compared: Comparison,
             here: Sequence[Cell] | None = None, measured: Comparison | None = None,
             left_out: Sequence[Cell] = ()) -> Analysis:
    """Return what follows from the figures in print and, where there are any, from those measured here. Cells of
    ``left_out`` say why they could not be measured either."""
    sources: list[tuple[Of, Sequence[Cell], Comparison]] = [('published', published, compared)]
    sources += [('here', here, measured)] if here is not None and measured else []
    numbers = [row for of, cells, comparison in sources for row in derived.numbers(study, of, cells, comparison)]
    judged = [_judged(study, finding, {of: cells for of, cells, _ in sources}, numbers, left_out)
              for finding in study.findings]
    return Analysis(numbers=numbers, findings=sorted(judged, key=lambda f: f.published != 'does not hold'),
                    fits=[row for of, cells, _ in sources for row in derived.fits(study, of, cells)])


def _judged(study: Study, finding: Finding, sources: dict[Of, Sequence[Cell]], numbers: Sequence[NumberRow],
            left_out: Sequence[Cell]) -> Judged:
    words: dict[Of, tuple[Word, str]] = {}
    for of, cells in sources.items():
        parts = list(_of_number(finding, [n for n in numbers if n.of == of]) if study.number(finding.text)
                     else _parts(study, finding, of, chosen(cells, study.series(finding.text))))
        words[of] = _word(parts or (_unmeasured(study, finding, [*cells, *left_out]) if of == 'here' else []))
    bounds = ' and '.join(f'{name.replace("_", " ")} {value:g}' for name, value in finding.bounds.items())
    more = (bounds, finding.along and f'along {finding.along}', finding.goes, finding.law)
    word, why = words.get('here', ('', ''))
    return Judged(id=finding.id, says=finding.says, where=finding.where, kind=finding.kind,
                  statement=' '.join(filter(None, (finding.text, *more))), published=words['published'][0],
                  why_published=words['published'][1], here=word, why_here=why)


def _unmeasured(study: Study, finding: Finding, cells: Sequence[Cell]) -> list[Part]:
    """Say why a finding has no figures here."""
    series = [study.series(text) for text in _series(study, finding)]
    if reasons := dict.fromkeys(c.reason for one in series for c in chosen(cells, one) if c.reason):
        return [Part(None, reason) for reason in reasons]
    of = [study.experiments[one.experiment] for one in series]
    if not of or any(not experiment.check for experiment in of):
        return [Part(None, 'nothing here measures it')]
    quick = study.number(finding.text) or any(not experiment.quick for experiment in of)
    return [Part(None, '--quick leaves it out' if quick else 'not measured')]


def _series(study: Study, finding: Finding) -> list[str]:
    """Return the series of a finding, or of the number that it names, with the values of `over` that it names."""
    if not (of := study.number(finding.text)):
        return [finding.text]
    fixed = dict(text.split('=', 1) for text in finding.text.split(' %')[1:])
    over = [[fixed[axis]] if axis in fixed else values for axis, values in of.over.items()]
    return [filled(text, dict(zip(of.over, values, strict=True))) for values in itertools.product(*over)
            for text in (of.here or of).let.values()]


def _word(parts: Sequence[Part]) -> tuple[Word, str]:
    """Return the word of all parts: each that was measured must hold. Name the parts that decide, and those that
    were not measured."""
    if not parts:
        return 'not printed', ''
    if 0 < (absent := sum(part.absent for part in parts)) < len(parts):
        word, why = _word([part for part in parts if not part.absent])
        first = next(part.text for part in parts if part.absent)
        more = f'; and {absent - 1} more' if absent > 1 else ''
        return word, f'{why}; not measured ({absent} of {len(parts)}): {first}{more}'
    for state, word in ((False, 'does not hold'), (None, 'not testable'), (True, 'holds')):
        if deciding := [part.text for part in parts if part.holds is state]:
            more = f'; and {len(deciding) - 3} more' if len(deciding) > 3 else ''
            share = f' ({len(deciding)} of {len(parts)})' if len(deciding) < len(parts) else ''
            return word, '; '.join(deciding[:3]) + more + share
    raise AssertionError(parts)


# ---- parts

def _parts(study: Study, finding: Finding, of: Of, cells: Sequence[Cell]) -> Iterator[Part]:
    """Judge each group of cells that differ in the finding's own axes only."""
    ends = study.series(finding.text).ends
    axes = [finding.along] if finding.along else list(ends[0]) if ends else [*study.axes, FIGURE]
    for point, group in by_point(cells, axes).items():
        name = ' '.join(f'{axis} {value}' for axis, value in point)
        yield from _KINDS.get(finding.kind, _neighbours)(study, finding, of, name, group)


def _part(bounds: dict[str, float], text: str, low: float, high: float, label: str = '') -> Part:
    """Return whether an interval is wholly inside the bounds (True), wholly outside one (False), or straddles."""
    met = [[_BOUNDS[name](end, bound) for end in (low, high)] for name, bound in bounds.items()]
    holds = True if all(map(all, met)) else None if all(map(any, met)) else False
    return Part(holds, f'{text} ({label})' if label else text)


def _interval(low: float, high: float) -> str:
    return f' [{number(low)}, {number(high)}]'


def _ratio(of: Of, above: Cell, below: Cell, bounds: dict[str, float], name: str) -> Iterator[Part]:
    """Judge a quotient; print without such figures has no part."""
    if not (above.values and below.values):
        missing = above if not above.values else below
        reason = missing.reason or (f'flagged: {missing.flagged[0][1]}' if missing.flagged else 'not measured')
        yield from [Part(None, f'{name}: {reason}', absent=True)] if of == 'here' else []
        return
    row = quotient(above, below)
    text = f'{name} {number(row.ratio)}'
    if row.ratio is None:
        yield Part(None, f'{name}: {row.reason}')
    elif row.low is not None and row.high is not None:
        part = _part(bounds, text + _interval(row.low, row.high), row.low, row.high, row.label)
        more = f' straddles: {_repeats(row, bounds)}' if part.holds is None else ''
        yield part._replace(text=part.text + more)
    elif of == 'published' and row.n == 1:
        yield _part(bounds, f'{text}, printed once: no interval', row.ratio, row.ratio)
    else:
        yield Part(None, f'{text}: {row.reason}')


def _repeats(row: Row, bounds: dict[str, float]) -> str:
    """Say how many runs of a side would end the straddling: an interval's width falls with their root."""
    far = min(abs(math.log(row.ratio / bound)) for bound in bounds.values() if bound > 0)
    half = math.log(row.high / row.low) / 2
    sessions = min(row.sessions_baseline, row.sessions_candidate)
    needed = max(2, math.ceil(sessions * (half / far) ** 2)) if far else math.inf
    return f'about {needed} repeats would tell' if needed <= 10_000 else 'no number of repeats would tell'


def _neighbours(study: Study, finding: Finding, of: Of, name: str, group: list[Cell]) -> Iterator[Part]:
    """Judge the quotient of each two neighbours: among a finding's ends, or along its axis."""
    bounds = finding.bounds or {'above' if finding.goes == 'rising' else 'below': 1.0}
    cells = derived.along(study, group, finding.along)[::-1] if finding.along else [
        next((c for c in group if {**c.point, **end} == c.point), None)
        for end in study.series(finding.text).ends]
    axes = [finding.along] if finding.along else [*study.series(finding.text).ends[0]]
    for one, other in [*itertools.pairwise(cells)][::-1 if finding.along else 1]:
        if one and other:
            quotient_of = '/'.join(','.join(cell.point[axis] for axis in axes) for cell in (one, other))
            yield from _ratio(of, one, other, bounds, f'{name} {quotient_of}'.strip())


def _fit(study: Study, finding: Finding, of: Of, name: str, group: list[Cell]) -> Iterator[Part]:
    if any(c.values for c in group):
        row = derived.fitted(study, of, name, finding.law, group, finding.along)
        if row.low is None or row.high is None:
            yield Part(None, f'{name}: {row.reason}')
        else:
            value = row.b if finding.law == 'power' else row.a
            text = f'{name} {number(value)}{_interval(row.low, row.high)} {row.reason}'.strip()
            yield _part(finding.bounds, text, row.low, row.high, labels(group))


def _knee(study: Study, finding: Finding, of: Of, name: str, group: list[Cell]) -> Iterator[Part]:
    from parity.study import laws
    if not (points := derived.along(study, group, finding.along)):
        return
    rates = [1 / c.median if c.better == 'lower' else c.median for c in points if c.median > 0]
    try:
        sizes = [numeric(c, finding.along) for c in points]
        if max(sizes) < (bound := max(finding.bounds.values())):    # no point lies beyond it
            yield Part(None, f'{name} knee at {bound:g}: {max(sizes):g} {finding.along}'.strip())
            return
        knee = laws.knee(sizes, rates) or math.inf
    except ValueError as err:
        yield Part(None, f'{name} {err}'.strip())
        return
    yield _part(finding.bounds, f'{name} knee at {knee:g}'.strip(), knee, knee, labels(points))


def _variation(study: Study, finding: Finding, of: Of, name: str, group: list[Cell]) -> Iterator[Part]:
    """Judge the quotient of two coefficients of variation."""
    from parity.study import laws
    ends = study.series(finding.text).ends
    sides = [[c for c in group if {**c.point, **end} == c.point] for end in ends]
    above, below = ([v.value for c in side for v in c.values] for side in sides)
    name = f'{name} {"/".join(",".join(end.values()) for end in ends)}'.strip()
    if not (above and below) and of == 'published':
        return
    try:
        found = laws.variation(above, below)
    except ValueError as err:
        yield Part(None, f'{name}: {err}')
        return
    text = f'{name} {number(found.value)}{_interval(found.low, found.high)}'
    yield _part(finding.bounds, text, found.low, found.high, labels(sides[0] + sides[1]))


def _count(study: Study, finding: Finding, of: Of, name: str, group: list[Cell]) -> Iterator[Part]:
    if values := [v.value for c in group for v in c.values]:
        yield _part(finding.bounds, f'{sum(values):g} in {len(values)} runs', sum(values), sum(values))


def _of_number(finding: Finding, numbers: Iterable[NumberRow]) -> Iterator[Part]:
    for row in numbers:
        if {*finding.text.split(' %')} <= {*row.name.split(' %')} and row.value is not None:
            low, high = (row.value, row.value) if row.low is None or row.high is None else (row.low, row.high)
            over = ' '.join(row.name.split(' %')[1:]).replace('=', ' ')
            limits = ', without an interval' if row.low is None else _interval(low, high)
            yield _part(finding.bounds, f'{over} {number(row.value)}{limits}'.strip(), low, high, row.label)


_KINDS: dict[str, Callable[[Study, Finding, Of, str, list[Cell]], Iterator[Part]]] = {
    'fit': _fit, 'knee': _knee, 'count': _count, 'variation': _variation}
