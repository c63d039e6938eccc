"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from parity.stats import bounds, history, words
from parity.stats.history import Outcome
from parity.stats.last import Last, of_series
from parity.stats.nights import Nights, of_nights
from parity.stats.rules import Rules
from parity.stats.search import FAST, SLOW, TOO_FEW

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
    """The judgement of each series on its last night, and the state of all nights.

    ``signs`` [series]: 1 where higher is better, else -1; ``labels`` [nights]; ``references`` [series].
    """
    values = of_nights(nights, rules)
    outcome = history.follow(nights, values, rules)
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
        verdict=word, why=why, warnings=tuple(words.warnings(last, rules)), value=sign * last.value,
        baseline=middle, low=middle - width if known else None, high=middle + width if known else None,
        needs_rerun=_wants_rerun(last, rules))


def _wants_rerun(last: Last, rules: Rules) -> bool:
    """Not where tonight was run again, nor where the slowdown is known already."""
    new = last.episode is None or last.episode.found == last.night
    return last.suspicious and not last.again and new and not last.change > -rules.effect


def _word(last: Last, sign: int, labels: Sequence[str], rules: Rules,
          reference: Reference | None) -> tuple[Word, str]:
    if last.state == TOO_FEW:
        return 'insufficient', words.too_few(last, rules)
    if not last.baseline:
        return 'insufficient', 'the median of the history is 0: a change has no measure'
    if last.state in (SLOW, FAST):
        return ('regressed' if last.state == SLOW else 'improved'), words.episode(last, labels, rules)
    if reference and (beyond := _beyond(last, sign, reference)):
        return ('regressed' if beyond == -sign else 'improved'), words.reference(last, sign, reference)
    return 'ok', words.quiet(last, labels)


def _beyond(last: Last, sign: int, reference: Reference) -> int:
    """Of the last three nights: -1 below the accepted bounds, 1 above, clear of the noise; else 0."""
    level = sign * (last.baseline + last.three * abs(last.baseline))
    far = abs(level - reference.value)
    clear = reference.value and far / abs(reference.value) >= last.bar * last.spread / math.sqrt(3)
    return bounds.side(level, reference.low, reference.high) if clear else 0
