"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from parity.stats import bounds, last
from parity.stats.last import Last, Outcome, of_series
from parity.stats.nights import Nights, of_nights
from parity.stats.noise import Rules
from parity.stats.search import FAST, SLOW, TOO_FEW

#: From these on a person should know of it.
_DEPENDENT, _SEEN = 0.3, 0.05
Word = Literal['ok', 'improved', 'regressed', 'insufficient']


@dataclass(frozen=True)
class Reference:
    """An accepted value and its bounds, absolute, in the metric's unit; None where there is no bound."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The judgement of a cell tonight; values are in the metric's unit."""

    verdict: Word
    why: str
    warnings: tuple[str, ...]
    value: float                  # tonight's: the runs (and reruns) together
    baseline: float | None        # median of the history
    low: float | None             # band of a single night: three spreads around the baseline
    high: float | None
    needs_rerun: bool             # the runs are suspicious, and nothing was run again

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rules: Rules,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """The judgement of each series on its last night, and the state of all nights. ``signs`` [series]: 1 where
    higher is better, else -1; ``labels`` [nights]; ``references`` [series]."""
    values = of_nights(nights, rules)
    outcome = last.follow(nights, values, rules)
    lasts = of_series(nights, values, outcome, rules)
    series = zip(lasts, signs, nights.start[:-1], nights.start[1:], references or [None] * len(lasts), strict=True)
    return [_of_last(each, sign, labels[begin:end], rules, accepted)
            for each, sign, begin, end, accepted in series], outcome


def _of_last(last: Last, sign: int, labels: Sequence[str], rules: Rules, reference: Reference | None) -> Judgement:
    word, why = _word(last, sign, labels, rules, reference)
    known = math.isfinite(last.spread) and last.baseline != 0
    width = 3 * last.spread * math.sqrt(1 + 1 / last.nights) * abs(last.baseline) if known else 0.0
    middle = sign * last.baseline if known else None
    return Judgement(
        verdict=word, why=why, warnings=tuple(_warnings(last, rules)), value=sign * last.value,
        baseline=middle, low=middle - width if known else None, high=middle + width if known else None,
        needs_rerun=_wants_rerun(last, rules))


def _wants_rerun(last: Last, rules: Rules) -> bool:
    """Not where tonight was run again, nor where the slowdown is known already."""
    new = last.episode is None or last.episode.found == last.night
    return last.suspicious and not last.again and new and not last.change > -rules.effect


def _word(last: Last, sign: int, labels: Sequence[str], rules: Rules,
          reference: Reference | None) -> tuple[Word, str]:
    if last.state == TOO_FEW:
        return 'insufficient', (
            f'{last.nights} nights of history before the last three: the stated error rate needs {rules.least}, '
            f'so judging begins on night {rules.least + rules.last}')
    if not last.baseline:
        return 'insufficient', 'the median of the history is 0: a change has no measure'
    if last.state in (SLOW, FAST):
        return ('regressed' if last.state == SLOW else 'improved'), _episode(last, labels, rules)
    if reference and (beyond := _beyond(last, sign, reference)):
        return ('regressed' if beyond == -sign else 'improved'), _drift(last, sign, reference)
    return 'ok', _quiet(last, labels)


def _beyond(last: Last, sign: int, reference: Reference) -> int:
    """Of the last three nights: -1 below the accepted bounds, 1 above, clear of the noise; else 0."""
    level = sign * (last.baseline + last.three * abs(last.baseline))
    far = abs(level - reference.value)
    clear = reference.value and far / abs(reference.value) >= last.bar * last.spread / math.sqrt(3)
    return bounds.side(level, reference.low, reference.high) if clear else 0


def _quiet(last: Last, labels: Sequence[str]) -> str:
    said = (f'tonight is {_off(last.change)} the median of {last.nights} nights; '
            f'their spread is {_share(last.spread)}')
    if last.suspicious and not last.again and last.change < -last.least:
        said += '; it was not run again, and one night alone is not believed'
    if last.episode:
        begin = labels[last.episode.begin - (last.night + 1 - len(labels))]
        return f'{said}; what began on {begin} is not over: it ends with a second night like this one'
    return said


def _episode(last: Last, labels: Sequence[str], rules: Rules) -> str:
    """Why the nights are an episode, and how long it has lasted."""
    found = last.episode
    began = labels[found.begin - (last.night + 1 - len(labels))]
    against = f'the median of the {last.nights} nights before'
    off = _off(found.change)
    said = (f'a drift: the last {rules.drift} nights were {off} the first {rules.least + rules.last}',
            f'one night was {off} {against}, and its rerun confirmed it',
            f'two nights were {off} {against}, and a rerun confirmed it',
            f'three nights were {off} {against}; {_share(last.least)} is clear of the noise, exact p {found.p:.2g}'
            )[found.rule]
    lasts = last.night - found.begin + 1
    kind = 'better' if found.state == FAST else 'worse'
    return f'{kind} since {began} ({lasts} {"night" if lasts == 1 else "nights"}): {said}'


def _drift(last: Last, sign: int, accepted: Reference) -> str:
    level = last.baseline + last.three * abs(last.baseline)
    off = (level - sign * accepted.value) / abs(accepted.value)
    return (f'the last three nights are {_off(off)} the accepted {accepted.value:.4g}, beyond its bound; '
            f'the recent nights alone show no step: a drift')


def _warnings(last: Last, rules: Rules) -> Iterator[str]:
    """What limits the judgement."""
    if not math.isfinite(last.spread) or not last.baseline:
        return
    if math.isfinite(last.shared) and last.shared > rules.shared:
        yield f'nights scatter {last.shared:.1f} times more than their runs do: a rerun that night confirms little'
    if last.lag > _DEPENDENT and last.shared > rules.shared:
        yield f'nights depend on the night before ({last.lag:.2f}): a change must be larger to be believed'
    if last.slow:
        yield f'{last.slow} of {last.nights} nights are slow ones among good ones (a slow node?)'
    if last.resolution > rules.effect:
        yield f'the values come in steps of {_share(last.resolution)}'
    if last.least > _SEEN:
        yield f'three nights must change by {_share(last.least)} before it is clear of the noise'
    if last.suspicious and not last.again:
        yield 'tonight is low and was not run again: one or two nights alone are not believed without a rerun'


def _share(x: float) -> str:
    return f'{100 * x:.1f} %' if abs(x) < 0.0995 else f'{100 * x:.0f} %'


def _off(change: float) -> str:
    if abs(change) < 0.0005:
        return 'at'
    return f'{_share(abs(change))} {"better" if change > 0 else "worse"} than'
