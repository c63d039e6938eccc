"""The judgement of a cell on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from parity.stats import words
from parity.stats.last import FAST, SLOW, TOO_FEW, Last
from parity.stats.rules import Rules

Word = Literal['ok', 'improved', 'regressed', 'insufficient']


@dataclass(frozen=True)
class Reference:
    """An accepted value and its bounds, absolute, in the metric's unit; None where there is no bound."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What is said of a cell tonight. Values are in the metric's unit, ``spread`` and ``change`` relative."""

    verdict: Word
    why: str
    warnings: tuple[str, ...]
    value: float                  # tonight's: what the runs (and reruns) say together
    baseline: float | None        # median of the history
    low: float | None             # band of a single night: three spreads around the baseline
    high: float | None
    spread: float | None
    change: float | None          # tonight's against the baseline; above 0 where the figure is larger
    needs_rerun: bool             # the runs are suspicious, and nothing was run again
    nights: int                   # length of the history
    since: str = ''               # the night that the slowdown, or the improvement, began

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


def of_last(last: Last, sign: int, labels: Sequence[str], rules: Rules,
            reference: Reference | None = None) -> Judgement:
    """The judgement; ``sign`` is 1 where higher is better, else -1; ``labels`` are the series' nights."""
    word, why = _word(last, sign, labels, rules, reference)
    known = math.isfinite(last.spread) and last.baseline != 0
    width = 3 * last.spread * math.sqrt(1 + 1 / last.nights) * abs(last.baseline) if known else 0.0
    middle = sign * last.baseline if known else None
    since = labels[last.episode.begin - (last.night + 1 - len(labels))] if last.episode and word != 'ok' else ''
    return Judgement(
        verdict=word, why=why, warnings=tuple(words.warnings(last, rules)), value=sign * last.value,
        baseline=middle, low=middle - width if known else None, high=middle + width if known else None,
        spread=last.spread if known else None, change=sign * last.change if known else None,
        needs_rerun=wants_rerun(last, rules), nights=last.nights, since=since)


def wants_rerun(last: Last, rules: Rules) -> bool:
    """Is tonight worth a confirming rerun? Not where there was one, nor where the slowdown is known already."""
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
    beyond = _beyond(last, sign, reference)
    if beyond:
        return ('regressed' if beyond < 0 else 'improved'), words.reference(last, sign, reference)
    return 'ok', words.quiet(last, labels)


def _beyond(last: Last, sign: int, reference: Reference | None) -> int:
    """-1: the last three nights are beyond the bad bound of the reference, clear of the noise; 1: the good one."""
    if reference is None or not reference.value:
        return 0
    level = last.baseline + last.three * abs(last.baseline)
    far = (level - sign * reference.value) / abs(reference.value)
    if abs(far) < last.bar * last.spread / math.sqrt(3):
        return 0
    bound = reference.low if sign * far < 0 else reference.high
    value = sign * level
    outside = bound is not None and (value < bound if bound == reference.low else value > bound)
    return int(math.copysign(1, far)) if outside else 0
