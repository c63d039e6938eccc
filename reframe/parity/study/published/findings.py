"""Judge the sentences of a study by its figures: by those in print, and by those measured here.

A finding is a named function of cells and a bound: `quantities` makes the function, `estimate` its interval."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from parity.base.figures import number
from parity.base.strict import Strict
from parity.judge.stats import interval
from parity.study.published import derived, quantities
from parity.study.published.derived import FitRow, NumberRow, Of, chosen
from parity.study.published.estimate import Estimate, Quantity, estimated
from parity.study.published.figures import StudyCell
from parity.study.published.model import Study, filled
from parity.study.published.quantities import Missing
from parity.study.published.statements import Finding

Word = Literal['holds', 'does not hold', 'not testable', 'not printed']
_BOUNDS = {'above': operator.gt, 'below': operator.lt, 'at_least': operator.ge, 'at_most': operator.le}


class Judged(Strict):
    """A judged finding. ``says`` is the document's where ``quoted``; ``sentence`` says whose it is.

    ``needs`` are the bounds, and whose they are. ``published`` and ``here`` are its words, `why_...` the figures
    or the reason. ``one`` is what both sides here are on, where they are no two: 'one device'."""

    id: str
    says: str
    quoted: bool
    sentence: str
    where: str
    kind: str
    statement: str
    needs: str
    published: Word
    why_published: str
    here: Word | Literal[''] = ''
    why_here: str = ''
    one: str = ''


class Analysis(Strict):
    fits: list[FitRow]
    numbers: list[NumberRow]
    findings: list[Judged]


class Part(NamedTuple):
    """One of the estimates that count together. Without one ``why`` says why. ``absent``: it was not measured."""

    name: str
    estimate: Estimate | None = None
    why: str = ''
    label: str = ''
    absent: bool = False

    @property
    def sampled(self) -> bool:
        """Return whether it has an interval that other runs might miss."""
        return self.estimate is not None and self.estimate.low is not None and self.estimate.freedom > 0

    def __str__(self) -> str:
        if self.estimate is None:
            return f'{self.name}: {self.why}'.removeprefix(': ')
        reasons = [reason for reason in (self.estimate.why, self.estimate.few, self.why) if reason]
        more = f', {", ".join(reasons)}' if reasons else ''
        label = f' ({self.label})' if self.label else ''
        return f'{self.name} {_figure(self.estimate)}{more}{label}'.strip()


def _figure(estimate: Estimate) -> str:
    """Return a value with its interval, in as many digits as tell the ends apart."""
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    if estimate.low == estimate.high:
        return f'{estimate.value:.10g}' if estimate.value == round(estimate.value, 6) else f'{estimate.value:.6g}'
    if number(estimate.low) != number(estimate.high):
        return f'{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]'
    return f'{estimate.value:.6g} [{estimate.low:.6g}, {estimate.high:.6g}]'


def analysed(study: Study, published: Sequence[StudyCell], here: Sequence[StudyCell] | None = None,
             quick: bool = False, one: str = '') -> Analysis:
    """Return what follows from the figures in print and, where there are any, from those measured here.

    ``one``: what both sides here are on."""
    sources: dict[Of, Sequence[StudyCell]] = {'published': published, **({} if here is None else {'here': here})}
    numbers = [row for of, cells in sources.items() for row in derived.numbers(study, of, cells)]
    judged = [_judged(study, finding, sources, numbers, quick) for finding in study.findings]
    judged = [finding.model_copy(update={'one': one}) for finding in judged]
    return Analysis(numbers=numbers, findings=sorted(judged, key=lambda f: f.published != 'does not hold'),
                    fits=[row for of, cells in sources.items() for row in derived.fits(study, of, cells)])


def _judged(study: Study, finding: Finding, sources: dict[Of, Sequence[StudyCell]],
            numbers: Sequence[NumberRow], quick: bool) -> Judged:
    words: dict[Of, tuple[Word, str]] = {}
    for of, cells in sources.items():
        rows = [row for row in numbers if row.of == of]
        parts = _parts(study, finding, of, cells, rows, quick and of == 'here')
        word, why = _word(finding, of, parts)
        words[of] = word, '; '.join(filter(None, (why, _partly(study, finding, parts))))
    more = (finding.along and f'along {finding.along}', finding.goes, finding.law,
            finding.rule if finding.rule != 'always' else '')
    word, why = words.get('here', ('', ''))
    return Judged(id=finding.id, says=finding.quote or finding.claim, quoted=bool(finding.quote),
                  sentence=finding.sentence,
                  where=finding.where, kind=finding.kind, needs=finding.needs,
                  statement=' '.join(filter(None, (finding.text, *more))), published=words['published'][0],
                  why_published=words['published'][1], here=word, why_here=why)


def _parts(study: Study, finding: Finding, of: Of, cells: Sequence[StudyCell], rows: Sequence[NumberRow],
           quick: bool) -> list[Part]:
    """Return the estimates that decide a finding, or why there are none."""
    if of == 'published' and finding.not_testable:
        return [Part('', why=finding.not_testable)]
    if of == 'here' and finding.kind == 'value':
        return [Part('', why='an absolute figure, of the machine in print')]
    if study.number(finding.text):
        parts = list(_of_number(finding.text, rows))
    else:
        series = study.series(finding.text)
        if quick and finding.kind == 'count' and (cut := study.experiments[series.experiment].cut):
            return [Part('', why=f'--quick cuts what it counts: {cut}')]
        parts = _estimated(finding, quantities.of_finding(study, finding, of, chosen(cells, series)))
    if not parts and of == 'published' and finding.printed:
        parts = [part._replace(name='printed') for part in _of_number(finding.printed, rows)]
    if not parts and of == 'here':
        parts = _unmeasured(study, finding, cells)
    return parts


def _estimated(finding: Finding, functions: Iterable[Quantity | Missing]) -> list[Part]:
    """Return the parts of quantities; where their mean counts, that of all with figures."""
    missing, there = [], []
    for function in functions:
        if isinstance(function, Missing):
            missing.append(Part(function.name, why=function.why, absent=function.absent))
        else:
            there.append(function)
    if finding.rule == 'general' and len(there) > 1:
        there = [quantities.general(there)]
    return [*map(_part, there), *missing]


def _part(quantity: Quantity) -> Part:
    try:
        return Part(quantity.name, estimated(quantity), label=quantity.label)
    except (ArithmeticError, ValueError) as err:
        return Part(quantity.name, why=str(err))


def _of_number(text: str, rows: Iterable[NumberRow]) -> Iterator[Part]:
    for row in rows:
        if {*text.split(' %')} <= {*row.name.split(' %')} and row.estimate:
            over = ' '.join(row.name.split(' %')[1:]).replace('=', ' ')
            yield Part(over, row.estimate, label=row.label)


def _unmeasured(study: Study, finding: Finding, cells: Sequence[StudyCell]) -> list[Part]:
    """Say why a finding has no figures here."""
    series = [study.series(text) for text in _series(study, finding)]
    reasons = dict.fromkeys(c.reason for one in series for c in chosen(cells, one) if c.reason)
    checks = [study.experiments[one.experiment].check for one in series]
    return [Part('', why=why) for why in reasons or ['not measured' if all(checks or ['']) else
                                                     'nothing here measures it']]


def _partly(study: Study, finding: Finding, parts: Sequence[Part]) -> str:
    """Say which of the values that a finding names its figures are of, where they are not of all."""
    if study.number(finding.text):
        return ''
    there = [part.name.split() for part in parts if part.estimate]
    fixed = study.series(finding.text).fixed
    sentences = []
    for axis, values in fixed.items():
        have = [value for value in values if any(axis in words and value in words for words in there)]
        if have and len(have) < len(values):
            lacking = ', '.join(value for value in values if value not in have)
            sentences.append(f'of {axis} {", ".join(have)} only, not of {lacking}')
    return '; '.join(sentences)


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
    several = sum(part.sampled for part in there)
    states = [_state(finding, of, _at_once(part, several)) for part in there]
    holds = _by_rule(finding.rule, [state for state, _ in states])
    word: Word = 'not testable' if holds is None else 'holds' if holds else 'does not hold'
    deciding = [text for state, text in states if state is holds]
    why = '; '.join(deciding[:3])
    if len(deciding) > 3:
        why += f'; and {len(deciding) - 3} more'
    if len(deciding) < len(there):
        why += f' ({len(deciding)} of {len(there)})'
    if several > 1:
        why += f', 95 % for all {several} at once'
    if lost:
        more = f'; and {len(lost) - 1} more' if len(lost) > 1 else ''
        why += f'; not measured ({len(lost)} of {len(parts)}): {lost[0]}{more}'
    return word, why.removeprefix('; ')


def _by_rule(rule: str, states: Sequence[bool | None]) -> bool | None:
    """Return what the states of parts say together; None where that is open."""
    if not states:
        return None
    if rule == 'most':
        if 2 * states.count(True) > len(states):
            return True
        return False if 2 * states.count(False) >= len(states) else None
    if False in states:
        return False
    return None if None in states else True


def _state(finding: Finding, of: Of, part: Part) -> tuple[bool | None, str]:
    """Return whether an interval is wholly inside the bounds (True), wholly outside one (False), or straddles."""
    found = part.estimate
    if found is None or found.low is None or found.high is None or found.few:
        return None, str(part)
    bounds = finding.tested
    met = [[_BOUNDS[name](end, bound) for end in (found.low, found.high)] for name, bound in bounds.items()]
    if all(map(all, met)):
        return True, str(part)
    if not all(map(any, met)):
        return False, str(part)
    repeats = f'straddles: {_repeats(found, bounds)}' if of == 'here' else 'straddles'
    return None, str(part._replace(why=repeats))


def _at_once(part: Part, several: int) -> Part:
    """Widen a part's interval from 95 % by itself to 95 % for so many at once."""
    found = part.estimate
    if several < 2 or not part.sampled:
        return part
    factor = interval.at_once(several, found.freedom)
    low, high = _widened(found.low, found.value, found.high, factor)
    return part._replace(estimate=found._replace(low=low, high=high))


def _widened(low: float, value: float, high: float, factor: float) -> tuple[float, float]:
    """Return an interval so many times as wide: of logarithms where all is above 0."""
    if low <= 0:
        return value - factor * (value - low), value + factor * (high - value)
    return value * (low / value) ** factor, value * (high / value) ** factor


def _repeats(estimate: Estimate, bounds: dict[str, float]) -> str:
    """Say how many runs of a side would end the straddling: an interval's width falls with their root."""
    positive = estimate.low > 0 and all(bound > 0 for bound in bounds.values())
    far = min(abs(math.log(estimate.value / bound)) for bound in bounds.values()) if positive else 0
    if not far or not math.isfinite(estimate.freedom):
        return 'no number of repeats would tell'
    half = math.log(estimate.high / estimate.low) / 2
    needed = max(2, math.ceil((estimate.freedom / 2 + 1) * (half / far) ** 2))
    return f'about {needed} repeats would tell' if needed <= 10_000 else 'no number of repeats would tell'
