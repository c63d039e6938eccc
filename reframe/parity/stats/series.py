"""The judgement of all series of a table of nights, together: what every caller begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parity.stats import history, judgement, last
from parity.stats.history import Outcome
from parity.stats.judgement import Judgement, Reference
from parity.stats.last import Last
from parity.stats.nights import Nights, of_nights
from parity.stats.rules import Rules


@dataclass(frozen=True)
class Judged:
    """By series: what is said of the last night, and what is known of it; and of all nights, what they were."""

    told: list[Judgement]
    lasts: list[Last]
    outcome: Outcome


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rules: Rules,
           references: Sequence[Reference | None] | None = None) -> Judged:
    """``signs`` [series]: 1 where higher is better, else -1; ``labels`` [nights]; ``references`` [series]."""
    values = of_nights(nights, rules)
    outcome = history.follow(nights, values, rules)
    lasts = last.of_series(nights, values, outcome, rules)
    series = zip(lasts, signs, nights.start[:-1], nights.start[1:], references or [None] * len(lasts), strict=True)
    told = [judgement.of_last(each, sign, labels[begin:end], rules, accepted)
            for each, sign, begin, end, accepted in series]
    return Judged(told, lasts, outcome)
