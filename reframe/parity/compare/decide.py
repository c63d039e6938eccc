"""From an interval to one word, in the direction that is better; and means of subsystems."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean

from parity.compare.model import Mean, Row, Word

#: A difference that nobody acts on.
MARGIN = 0.02


def word(low: float | None, high: float | None, better: str, margin: float) -> Word:
    """faster or slower: 1 is outside the interval; equivalent: the whole interval is within the margin."""
    if low is None or high is None or not better:
        return 'undecided'
    if 1 - margin <= low and high <= 1 + margin:
        return 'equivalent'
    if low <= 1 <= high:
        return 'undecided'
    return 'faster' if (low > 1) == (better == 'higher') else 'slower'


def means(rows: Iterable[Row]) -> list[Mean]:
    """A geometric mean a subsystem: of the metrics of a case, of the cases of a check, of the checks.

    So a check with many sizes weighs no more than one with a single figure, and a rate and a time of the
    same run do not count twice. Rows without a ratio, refused ones and cached figures are not in it.
    """
    speeds: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in rows:
        if row.speed:
            cases = speeds.setdefault(row.subsystem, {}).setdefault(row.check, {})
            cases.setdefault(row.benchmark, []).append(math.log(row.speed))
    return [_mean(subsystem, checks) for subsystem, checks in sorted(speeds.items())]


def _mean(subsystem: str, checks: dict[str, dict[str, list[float]]]) -> Mean:
    each = {check: fmean(fmean(logs) for logs in cases.values()) for check, cases in checks.items()}
    return Mean(subsystem=subsystem, speed=math.exp(fmean(each.values())),
                checks={check: math.exp(log) for check, log in each.items()},
                metrics=sum(len(logs) for cases in checks.values() for logs in cases.values()))
