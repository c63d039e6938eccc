"""Judge the sentences of a study by its figures: by those in print, and by those measured here.

A finding is a named function of cells and a bound: `quantities` makes the function, `estimate` its interval."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from parity.base.strict import Strict
from parity.judge.stats import interval
from parity.study.published import derived, quantities
from parity.study.published.derived import FitRow, NumberRow, Of, chosen
from parity.study.published.estimate import Estimate, Part, Quantity, estimated
from parity.study.published.figures import Cells
from parity.study.published.model import FigureSeries, Study, filled
from parity.study.published.quantities import Function
from parity.study.published.statements import Finding

Word = Literal['holds', 'does not hold', 'not testable', 'not printed']
_WORDS: dict[bool | None, Word] = {True: 'holds', False: 'does not hold', None: 'not testable'}
#: Parts that the sentence of a word names; of the others it has the number.
_NAMED = 3
#: More repeats than this nobody measures.
_MOST_REPEATS = 10_000


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


@dataclass(frozen=True)
class Source:
    """The figures that findings are judged by: those in print, or those measured here."""

    of: Of
    cells: Cells
    numbers: Sequence[NumberRow]
    quick: bool = False

    @property
    def printed(self) -> bool:
        return self.of == 'published'

    def of_number(self, text: str) -> list[Part]:
        """Return the parts of a number, or of those with the values of `over` that the text names."""
        wanted = set(text.split(' %'))
        parts = []
        for row in self.numbers:
            _, *over = words = row.name.split(' %')
            name = ' '.join(over)
            if row.estimate and wanted <= set(words):
                parts.append(Part(name.replace('=', ' '), row.estimate, label=row.label))
        return parts


def analysed(study: Study, published: Cells, here: Cells | None = None,
             quick: bool = False, one: str = '') -> Analysis:
    """Return what follows from the figures in print and, where there are any, from those measured here.

    ``one``: what both sides here are on."""
    sources = [Source('published', published, list(derived.numbers(study, 'published', published)))]
    if here is not None:
        sources.append(Source('here', here, list(derived.numbers(study, 'here', here)), quick))
    fits, numbers = [], []
    for source in sources:
        fits += derived.fits(study, source.of, source.cells)
        numbers += source.numbers
    judged = [_judged(study, finding, sources, one) for finding in study.findings]
    judged.sort(key=lambda finding: finding.published != 'does not hold')
    return Analysis(fits=fits, numbers=numbers, findings=judged)


def _judged(study: Study, finding: Finding, sources: Sequence[Source], one: str) -> Judged:
    statement = [finding.text]
    if finding.along:
        statement.append(f'along {finding.along}')
    if finding.rule != 'always':
        statement.append(finding.rule)
    words: dict[str, str] = {}
    for source in sources:
        parts = _parts(study, finding, source)
        word, why = _word(finding, source, parts)
        reasons = [why, *_partly(study, finding, parts)]
        words |= {source.of: word, f'why_{source.of}': '; '.join(filter(None, reasons))}
    return Judged(id=finding.id, says=finding.quote or finding.claim, quoted=bool(finding.quote),
                  sentence=finding.sentence, where=finding.where, kind=finding.kind, needs=finding.needs,
                  statement=' '.join(statement), one=one, **words)


# ---- the parts of a finding

def _parts(study: Study, finding: Finding, source: Source) -> list[Part]:
    """Return the estimates that decide a finding, or why there are none."""
    why = _undecided(study, finding, source)
    if why:
        return [Part('', why=why)]
    if study.number(finding.text):
        parts = source.of_number(finding.text)
    else:
        cells = chosen(source.cells, study.series(finding.text))
        parts = _estimated(finding, quantities.of_finding(study, finding, source.of, cells))
    if parts:
        return parts
    if not source.printed:
        return [Part('', why=why) for why in _unmeasured(study, finding, source)]
    return [replace(part, name='printed') for part in source.of_number(finding.printed)]


def _undecided(study: Study, finding: Finding, source: Source) -> str:
    """Return why these figures do not judge a finding, whatever they are; '' where they do."""
    if source.printed:
        return finding.not_testable
    if finding.kind == 'value':
        return 'an absolute figure, of the machine in print'
    if finding.kind == 'count' and source.quick:
        cut = study.experiments[study.series(finding.text).experiment].cut
        return f'--quick cuts what it counts: {cut}' if cut else ''
    return ''


def _estimated(finding: Finding, functions: Iterable[Function]) -> list[Part]:
    """Return the parts of quantities; where their mean counts, that of all with figures."""
    missing, there = [], []
    for function in functions:
        group = missing if isinstance(function, Part) else there
        group.append(function)
    if finding.rule == 'general' and len(there) > 1:
        there = [quantities.general(there)]
    estimates = list(map(_part, there))
    return estimates + missing


def _part(quantity: Quantity) -> Part:
    try:
        estimate = estimated(quantity)
    except (ArithmeticError, ValueError) as err:
        return Part(quantity.name, why=str(err))
    return Part(quantity.name, estimate, label=quantity.label)


def _unmeasured(study: Study, finding: Finding, source: Source) -> list[str]:
    """Return why a finding has no figures here."""
    reasons: dict[str, None] = {}
    checks = []
    for series in _series(study, finding):
        checks.append(study.experiments[series.experiment].check)
        reasons |= dict.fromkeys(cell.reason for cell in chosen(source.cells, series))
    reasons.pop('', None)
    if reasons:
        return list(reasons)
    return ['not measured' if all(checks) else 'nothing here measures it']


def _series(study: Study, finding: Finding) -> Iterator[FigureSeries]:
    """Yield the series of a finding, or of the number that it names, with the values of `over` that it names."""
    derived_number = study.number(finding.text)
    if not derived_number:
        yield study.series(finding.text)
        return
    fixed = dict(text.split('=', 1) for text in finding.text.split(' %')[1:])
    for over in derived_number.points():
        if fixed.items() <= over.items():
            for text in derived_number.worked(here=True).let.values():
                yield study.series(filled(text, over))


def _partly(study: Study, finding: Finding, parts: Sequence[Part]) -> Iterator[str]:
    """Yield which of the values that a finding names its figures are of, where they are not of all."""
    if study.number(finding.text):
        return
    there = [part.name.split() for part in parts if part.estimate]
    for axis, values in study.series(finding.text).fixed.items():
        of_axis = [words for words in there if axis in words]
        words = set(itertools.chain.from_iterable(of_axis))
        named = [value for value in values if value in words]
        lacking = [value for value in values if value not in words]
        if named and lacking:
            yield f'of {axis} {", ".join(named)} only, not of {", ".join(lacking)}'


# ---- the word of all parts

def _word(finding: Finding, source: Source, parts: Sequence[Part]) -> tuple[Word, str]:
    """Return the word of all parts, as the finding's rule takes them together, and the parts that decide.

    The intervals of several are as wide as lets all hold at once with 95 % (Bonferroni)."""
    if not parts:
        return 'not printed', ''
    there = [part for part in parts if not part.absent]
    lost = [part for part in parts if part.absent]
    several = sum(part.sampled for part in there)
    widened = [_at_once(part, several) for part in there]
    states = [_state(finding, part) for part in widened]
    holds = _by_rule(finding.rule, states)
    deciding = []
    for part, state in zip(widened, states, strict=True):
        if state is holds:
            shown = part if holds is not None else _straddling(finding, source, part)
            deciding.append(str(shown))
    why = '; '.join(deciding[:_NAMED])
    if len(deciding) > _NAMED:
        why += f'; and {len(deciding) - _NAMED} more'
    if len(deciding) < len(there):
        why += f' ({len(deciding)} of {len(there)})'
    if several > 1:
        why += f', 95 % for all {several} at once'
    if lost:
        more = f'; and {len(lost) - 1} more' if len(lost) > 1 else ''
        why += f'; not measured ({len(lost)} of {len(parts)}): {lost[0]}{more}'
    return _WORDS[holds], why.removeprefix('; ')


def _by_rule(rule: str, states: Sequence[bool | None]) -> bool | None:
    """Return what the states of parts say together; None where that is open."""
    count = Counter(states)
    if rule == 'most':
        if 2 * count[True] > len(states):
            return True
        return False if states and 2 * count[False] >= len(states) else None
    if count[False]:
        return False
    return True if states and not count[None] else None


def _state(finding: Finding, part: Part) -> bool | None:
    """Return whether an interval is wholly inside the bounds (True), wholly outside one (False), or straddles."""
    if not part.decides:
        return None
    low, high = finding.within(part.estimate.low), finding.within(part.estimate.high)
    if all(low + high):
        return True
    met = [either or other for either, other in zip(low, high, strict=True)]
    return None if all(met) else False


def _straddling(finding: Finding, source: Source, part: Part) -> Part:
    """Return a part that decides nothing with the reason: its own one, or that it straddles a bound."""
    if not part.decides:
        return part
    why = 'straddles'
    if not source.printed:
        why += f': {_repeats(part.estimate, finding.tested)}'
    return replace(part, why=why)


def _at_once(part: Part, several: int) -> Part:
    """Widen a part's interval from 95 % by itself to 95 % for so many at once."""
    if several < 2 or not part.sampled:
        return part
    estimate = part.estimate
    value = estimate.value
    factor = interval.at_once(several, estimate.freedom)
    if estimate.low > 0:
        low = value * (estimate.low / value) ** factor
        high = value * (estimate.high / value) ** factor
    else:
        low = value - factor * (value - estimate.low)
        high = value + factor * (estimate.high - value)
    return replace(part, estimate=replace(estimate, low=low, high=high))


def _repeats(estimate: Estimate, bounds: dict[str, float]) -> str:
    """Say how many runs of a side would end the straddling: an interval's width falls with their root, and with
    the quantile of Student's t as the degrees of freedom grow with them."""
    none = 'no number of repeats would tell'
    if estimate.low <= 0 or min(bounds.values()) <= 0 or not estimate.runs:
        return none
    far = min(abs(math.log(estimate.value / bound)) for bound in bounds.values())
    if not far:
        return none
    half = math.log(estimate.high / estimate.low) / 2
    runs = np.arange(estimate.runs + 1, _MOST_REPEATS + 1)
    more = runs / estimate.runs
    quantiles = stdtrit(estimate.freedom * more, 0.975) / stdtrit(estimate.freedom, 0.975)
    enough = runs[half * quantiles / np.sqrt(more) < far]
    return f'about {enough[0]} repeats would tell' if len(enough) else none
