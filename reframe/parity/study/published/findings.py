"""Judge the sentences of a study by its figures: by those in print, and by those measured here."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from parity.base.figures import counted, number
from parity.base.strict import Strict
from parity.judge.stats import interval
from parity.study.published import derived
from parity.study.published.derived import FitRow, NumberRow, Of, by_point, chosen, labels, numeric
from parity.study.published.figures import FIGURE, StudyCell, quotient
from parity.study.published.formula import Estimate
from parity.study.published.model import Study, filled
from parity.study.published.statements import Finding

Word = Literal['holds', 'does not hold', 'not testable', 'not printed']
_BOUNDS = {'above': operator.gt, 'below': operator.lt, 'at_least': operator.ge, 'at_most': operator.le}
#: Runs without which no finding holds on what is measured here.
REPEATS = 3


class Judged(Strict):
    """A judged finding. ``says`` is the document's where ``quoted``; ``needs`` are the bounds, and whose they are.
    ``published`` and ``here`` are its words, `why_...` the figures or the reason."""

    id: str
    says: str
    quoted: bool
    where: str
    kind: str
    statement: str
    needs: str
    published: Word
    why_published: str
    here: Word | Literal[''] = ''
    why_here: str = ''


    @property
    def sentence(self) -> str:
        """Return what it says, with quotation marks where that is the document's."""
        return f'"{self.says}"' if self.quoted else f'claim of ours: {self.says}'


class Analysis(Strict):
    fits: list[FitRow]
    numbers: list[NumberRow]
    findings: list[Judged]


class Part(NamedTuple):
    """One of the ratios or fits that count together. ``freedom``: degrees of freedom of its interval. ``why`` says
    more, or why it has no value. ``absent``: one of its figures was not measured."""

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    freedom: float = math.inf
    why: str = ''
    label: str = ''
    absent: bool = False

    def __str__(self) -> str:
        if self.value is None:
            return f'{self.name}: {self.why}'.removeprefix(': ')
        limits = '' if self.low is None or self.low == self.high else f' [{number(self.low)}, {number(self.high)}]'
        more = f', {self.why}' if self.why else ''
        label = f' ({self.label})' if self.label else ''
        return f'{self.name} {number(self.value)}{limits}{more}{label}'.strip()


def analysed(study: Study, published: Sequence[StudyCell], here: Sequence[StudyCell] | None = None) -> Analysis:
    """Return what follows from the figures in print and, where there are any, from those measured here."""
    sources: dict[Of, Sequence[StudyCell]] = {'published': published, **({} if here is None else {'here': here})}
    numbers = [row for of, cells in sources.items() for row in derived.numbers(study, of, cells)]
    judged = [_judged(study, finding, sources, numbers) for finding in study.findings]
    return Analysis(numbers=numbers, findings=sorted(judged, key=lambda f: f.published != 'does not hold'),
                    fits=[row for of, cells in sources.items() for row in derived.fits(study, of, cells)])


def _judged(study: Study, finding: Finding, sources: dict[Of, Sequence[StudyCell]],
            numbers: Sequence[NumberRow]) -> Judged:
    words: dict[Of, tuple[Word, str]] = {}
    for of, cells in sources.items():
        rows = [n for n in numbers if n.of == of]
        parts = list(_of_number(finding.text, rows) if study.number(finding.text)
                     else _parts(study, finding, of, chosen(cells, study.series(finding.text))))
        if not parts and of == 'published' and finding.printed:
            parts = [part._replace(name='printed') for part in _of_number(finding.printed, rows)]
        if of == 'published' and finding.not_testable:
            parts = [Part('', why=finding.not_testable)]
        if of == 'here' and finding.kind == 'value':
            parts = [Part('', why='an absolute figure, of the machine in print')]
        word, why = _word(finding, of, parts or (_unmeasured(study, finding, cells) if of == 'here' else []))
        words[of] = word, '; '.join(filter(None, (why, _few(study, finding, parts))))
    more = (finding.along and f'along {finding.along}', finding.goes, finding.law,
            finding.rule if finding.rule != 'always' else '')
    word, why = words.get('here', ('', ''))
    return Judged(id=finding.id, says=finding.quote or finding.claim, quoted=bool(finding.quote),
                  where=finding.where, kind=finding.kind, needs=finding.needs,
                  statement=' '.join(filter(None, (finding.text, *more))), published=words['published'][0],
                  why_published=words['published'][1], here=word, why_here=why)


def _unmeasured(study: Study, finding: Finding, cells: Sequence[StudyCell]) -> list[Part]:
    """Say why a finding has no figures here."""
    series = [study.series(text) for text in _series(study, finding)]
    reasons = dict.fromkeys(c.reason for one in series for c in chosen(cells, one) if c.reason)
    checks = [study.experiments[one.experiment].check for one in series]
    return [Part('', why=why) for why in reasons or ['not measured' if all(checks or ['']) else
                                                     'nothing here measures it']]


def _few(study: Study, finding: Finding, parts: Sequence[Part]) -> str:
    """Say which of the values that a finding names its figures are of, where they are not of all."""
    if study.number(finding.text):
        return ''
    there = [part.name.split() for part in parts if part.value is not None]
    kept = {axis: [v for v in values if any(axis in words and v in words for words in there)]
            for axis, values in study.series(finding.text).fixed.items()}
    return '; '.join(f'of {axis} {", ".join(have)} only, not of {", ".join(v for v in values if v not in have)}'
                     for axis, values in study.series(finding.text).fixed.items()
                     if (have := kept[axis]) and len(have) < len(values))


def _series(study: Study, finding: Finding) -> list[str]:
    """Return the series of a finding, or of the number that it names, with the values of `over` that it names."""
    if not (of := study.number(finding.text)):
        return [finding.text]
    fixed = dict(text.split('=', 1) for text in finding.text.split(' %')[1:])
    over = [[fixed[axis]] if axis in fixed else values for axis, values in of.over.items()]
    return [filled(text, dict(zip(of.over, values, strict=True))) for values in itertools.product(*over)
            for text in (of.here or of).let.values()]


# ---- the word of all parts

def _word(finding: Finding, of: Of, parts: Sequence[Part]) -> tuple[Word, str]:
    """Return the word of all parts, as the finding's rule takes them together, and the parts that decide.

    The intervals of several are as wide as lets all hold at once with 95 % (Bonferroni)."""
    if not parts:
        return 'not printed', ''
    there = [part for part in parts if not part.absent]
    lost = [part for part in parts if part.absent]
    if finding.rule == 'general' and len(values := [part for part in there if part.value]) > 1:
        there = [_general(values), *(part for part in there if not part.value)]
    several = sum(part.low is not None and part.freedom > 0 for part in there)
    if several > 1:
        there = [_at_once(part, several) for part in there]
    states = [_state(finding, of, part) for part in there]
    known = [state for state, _ in states]
    decided = None
    if finding.rule == 'most':
        decided = next((yes for yes in (True, False) if 2 * known.count(yes) >= len(known) + yes), None)
    elif known:
        decided = False if False in known else None if None in known else True
    word: Word = 'holds' if decided else 'not testable' if decided is None else 'does not hold'
    deciding = [text for state, text in states if state is decided]
    why = '; '.join(deciding[:3]) + (f'; and {len(deciding) - 3} more' if len(deciding) > 3 else '')
    why += f' ({len(deciding)} of {len(there)})' if len(deciding) < len(there) else ''
    why += f', 95 % for all {several} at once' if several > 1 else ''
    if lost:
        more = f'; and {len(lost) - 1} more' if len(lost) > 1 else ''
        why += f'; not measured ({len(lost)} of {len(parts)}): {lost[0]}{more}'
    return word, why.removeprefix('; ')


def _state(finding: Finding, of: Of, part: Part) -> tuple[bool | None, str]:
    """Return whether an interval is wholly inside the bounds (True), wholly outside one (False), or straddles."""
    if part.value is None or part.low is None and of == 'here':
        few = '' if part.why or part.value is None else f'no interval: {REPEATS} repeats are the least'
        return None, str(part._replace(why=part.why or few))
    bounds = _bounds(finding)
    ends = (part.value,) * 2 if part.low is None else (part.low, part.high)
    met = [[_BOUNDS[name](end, bound) for end in ends] for name, bound in bounds.items()]
    holds = True if all(map(all, met)) else None if all(map(any, met)) else False
    more = (f'straddles: {_repeats(part, bounds)}' if of == 'here' else 'straddles') if holds is None else ''
    return holds, str(part._replace(why=', '.join(filter(None, (part.why, more)))))


def _bounds(finding: Finding) -> dict[str, float]:
    return finding.bounds or {'above' if finding.kind == 'best' or finding.goes == 'rising' else 'below': 1.0}


def _general(parts: Sequence[Part]) -> Part:
    """Return the geometric mean of parts, with the interval that theirs give it."""
    logs = [math.log(part.value) for part in parts]
    mean, half = math.fsum(logs) / len(parts), None
    if all(part.low for part in parts):
        half = math.sqrt(sum((math.log(part.high / part.low) / 2) ** 2 for part in parts)) / len(parts)
    limits = (None, None) if half is None else (math.exp(mean - half), math.exp(mean + half))
    return Part(f'geometric mean of {len(parts)}', math.exp(mean), *limits, min(part.freedom for part in parts),
                'no interval' if half is None else '', parts[0].label)


def _at_once(part: Part, several: int) -> Part:
    """Widen a part's interval from 95 % by itself to 95 % for so many at once."""
    if part.low is None or not part.freedom:
        return part
    low, high = interval.widened(part.low, part.value, part.high, interval.at_once(several, part.freedom))
    return part._replace(low=low, high=high)


def _repeats(part: Part, bounds: dict[str, float]) -> str:
    """Say how many runs of a side would end the straddling: an interval's width falls with their root."""
    positive = part.low > 0 and all(bound > 0 for bound in bounds.values())
    far = min(abs(math.log(part.value / bound)) for bound in bounds.values()) if positive else 0
    if not far:
        return 'no number of repeats would tell'
    half = math.log(part.high / part.low) / 2
    needed = max(2, math.ceil((part.freedom / 2 + 1) * (half / far) ** 2))
    return f'about {needed} repeats would tell' if needed <= 10_000 else 'no number of repeats would tell'


# ---- parts

def _parts(study: Study, finding: Finding, of: Of, cells: Sequence[StudyCell]) -> Iterator[Part]:
    """Yield the parts of each group of cells that differ in the finding's own axes only."""
    ends = study.series(finding.text).ends
    axes = [finding.along] if finding.along else list(ends[0]) if ends else [*study.axes, FIGURE]
    axes = [] if finding.kind == 'value' else axes
    for point, group in by_point(cells, axes).items():
        name = ' '.join(f'{axis} {value}' for axis, value in point)
        yield from _KINDS.get(finding.kind, _neighbours)(study, finding, of, name, group)


def _ratio(of: Of, above: StudyCell, below: StudyCell, name: str) -> Iterator[Part]:
    """Yield a quotient; print without such figures has no part."""
    if not (above.values and below.values):
        missing = above if not above.values else below
        reason = missing.reason or (f'flagged: {missing.flagged[0][1]}' if missing.flagged else 'not measured')
        yield from [Part(name, why=reason, absent=True)] if of == 'here' else []
        return
    row = quotient(above, below)
    if row.ratio is None:
        yield Part(name, why=row.reason)
    elif row.low is not None:
        sessions = row.sessions_baseline + row.sessions_candidate
        few = of == 'here' and min(row.sessions_baseline, row.sessions_candidate) < REPEATS
        yield Part(name, row.ratio, row.low, row.high, max(1, sessions - 2), '; '.join(row.notes), row.label) \
            if not few else Part(name, row.ratio, why=f'{REPEATS} repeats are the least')
    elif of == 'here':
        yield Part(name, row.ratio, why=row.reason, label=row.label)
    else:
        yield _once(name, row.ratio, [above, below], lambda cell, factor: Estimate(
            row.ratio * factor if cell is above else row.ratio / factor), row.label)


def _once(name: str, value: float, cells: Sequence[StudyCell], estimate: Callable[[StudyCell, float], Estimate],
          label: str) -> Part:
    """Return the part of figures that are printed once, with what print leaves open."""
    found = derived.with_interval(value, cells, estimate)
    return Part(name, *found[:4], found.why or 'printed once: no interval', label)


def _neighbours(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    """Yield the quotient of each two neighbours: among a finding's ends, or along its axis; of `best`, of its end
    with each other value."""
    ends = study.series(finding.text).ends
    axes = [finding.along] if finding.along else [*ends[0]]
    if finding.along:
        cells = derived.along(study, group, finding.along)[::-1]
    else:
        cells = [next((c for c in group if {**c.point, **end} == c.point), None) for end in ends]
    both = [*itertools.pairwise(cells)][::-1 if finding.along else 1]
    if finding.kind == 'best' and (own := cells[0]):
        both = [(other, own) if own.better == 'lower' else (own, other) for other in group if other is not own]
    for one, other in both:
        if one and other:
            quotient_of = '/'.join(','.join(cell.point[axis] for axis in axes) for cell in (one, other))
            yield from _ratio(of, one, other, f'{name} {quotient_of}'.strip())


def _fit(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    if any(c.values for c in group):
        row = derived.fitted(study, of, name, finding.law, group, finding.along)
        yield Part(name, row.b if finding.law == 'power' else row.a, row.low, row.high, max(1, row.points - 2),
                   row.reason, labels(group))


def _knee(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    from parity.study.published import fits
    if not (points := derived.along(study, group, finding.along)):
        return
    rates = [1 / c.mean if c.better == 'lower' else c.mean for c in points if c.mean > 0]
    try:
        sizes = [numeric(c, finding.along) for c in points]
        bound = max(finding.bounds.values())
        if not min(sizes) < bound < max(sizes):
            yield Part(f'{name} knee at {bound:g}'.strip(), why=f'{min(sizes):g} to {max(sizes):g} '
                       f'{finding.along}: points on both sides are needed')
        elif of == 'here' and (fewest := min(len(c.values) for c in points)) < REPEATS:
            yield Part(name, why=f'{counted(fewest, "run")} at a point: {REPEATS} repeats are the least')
        else:
            knee = fits.knee(sizes, rates) or math.inf
            yield Part(f'{name} knee at'.strip(), knee, knee, knee, label=labels(points))
    except ValueError as err:
        yield Part(name, why=str(err))


def _variation(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    """Yield the quotient of two coefficients of variation."""
    from parity.study.published import fits
    ends = study.series(finding.text).ends
    sides = [[c for c in group if {**c.point, **end} == c.point] for end in ends]
    above, below = ([v.value for c in side for v in c.values] for side in sides)
    name = f'{name} {"/".join(",".join(end.values()) for end in ends)}'.strip()
    if not (above and below) and of == 'published':
        return
    try:
        found = fits.variation(above, below)
    except ValueError as err:
        yield Part(name, why=str(err))
        return
    yield Part(name, found.value, found.low, found.high, len(above) + len(below) - 2,
               label=labels(sides[0] + sides[1]))


def _value(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    """Yield each figure as it stands."""
    for cell in group:
        if cell.values:
            low, high = cell.limits
            yield Part(name, cell.mean, low, high, max(1, len(cell.values) - 1), label=cell.unit) if low else \
                _once(name, cell.mean, [cell], lambda cell, factor: Estimate(cell.mean * factor), cell.unit)


def _count(study: Study, finding: Finding, of: Of, name: str, group: list[StudyCell]) -> Iterator[Part]:
    if values := [v.value for c in group for v in c.values]:
        few = of == 'here' and min(len(c.values) for c in group if c.values) < REPEATS
        yield Part(name, None if few and not sum(values) else sum(values), sum(values), sum(values),
                   why=f'in {counted(len(values), "run")}' + (f': {REPEATS} repeats are the least' if few else ''))


def _of_number(text: str, numbers: Iterable[NumberRow]) -> Iterator[Part]:
    for row in numbers:
        if {*text.split(' %')} <= {*row.name.split(' %')} and row.value is not None:
            over = ' '.join(row.name.split(' %')[1:]).replace('=', ' ')
            yield Part(over, row.value, row.low, row.high, row.freedom,
                       row.why or ('without an interval' if row.low is None else ''), row.label)


_KINDS: dict[str, Callable[[Study, Finding, Of, str, list[StudyCell]], Iterator[Part]]] = {
    'fit': _fit, 'knee': _knee, 'value': _value, 'count': _count, 'variation': _variation}
