"""How far from its value a reference lets a night be, from the nights that it was measured in.

A bound is `median - k Qn` or `median + k Qn` of the nights' medians. Qn is the robust spread of
Rousseeuw and Croux (Alternatives to the median absolute deviation, JASA 88, 1993): one bad night in
the history does not widen it. k makes the bound a one-sided tolerance limit (Krishnamoorthy and
Mathew, Statistical Tolerance Regions, 2009, chapter 2): in 95 % of all histories of n independent
normal nights at most 1 of 1000 later nights lies beyond it. The usual factor belongs to mean and
standard deviation; for median and Qn it has no closed form and was found by simulation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

#: The nights that a reference may stand on. With 9 the bound would be more than twice as wide as one
#: whose median and spread were known (3.09 standard deviations); older ones than 30 say little of today.
FEWEST, MOST = 10, 30
#: k of 10, 11, ... 30 nights: the 95 % point of (3.0902 + median) / Qn over 200 000 histories of
#: standard normal nights. Odd and even n differ as Qn's order statistic steps.
FACTORS = (4.219, 5.176, 4.101, 4.852, 4.015, 4.626, 3.948, 4.493, 3.910, 4.366, 3.869, 4.267, 3.838, 4.203,
           3.807, 4.126, 3.780, 4.082, 3.752, 4.034, 3.740)
#: What a bound says, where the nights are as its derivation takes them.
STATED = ('with 95 % confidence at most 1 of 1000 nights like these lies beyond a bound '
          '(independent nights, normal noise)')
#: No bound is narrower (a share of the value): what a quiet history has not met yet, a kernel or a
#: colder room, moves most figures by that much.
LEAST = 0.03
#: A wider bound would let a figure fall to half of its value without a word.
WIDEST = 0.5
#: Steps of the timer that a figure may be off: one is the timer's own doing.
_STEPS = 1.5


def side(value: float, low: float | None, high: float | None) -> int:
    """-1 where ``value`` is below its bounds, 1 above, 0 within; None is no bound."""
    return (high is not None and value > high) - (low is not None and value < low)


def spread(values: Sequence[float]) -> float:
    """Qn of ``values`` (at least 2), in their unit; the standard deviation where they are normal."""
    import numpy as np
    x = np.asarray(values, float)
    first, second = np.triu_indices(len(x), 1)
    half = len(x) // 2 + 1
    rank = half * (half - 1) // 2 - 1
    return 2.2219 * float(np.partition(abs(x[first] - x[second]), rank)[rank])


def resolution(runs: Sequence[float]) -> float:
    """The step in which ``runs`` (every single one) were read or printed, in their unit; 0: none is seen.

    The last decimal of any; where half repeat another's value, the smallest step between two: a timer's.
    """
    decimals = max(len(f'{v:.9f}'.rstrip('0').partition('.')[2]) for v in runs)
    printed = 10.0 ** -decimals if decimals <= 6 else 0.0
    distinct = sorted(set(runs))
    if len(distinct) > 1 and sum(n for n in Counter(runs).values() if n > 1) >= len(runs) / 2:
        return max(printed, min(b - a for a, b in zip(distinct, distinct[1:], strict=False)))
    return printed


def share(medians: Sequence[float], runs: Sequence[float]) -> float:
    """The bound on either side as a share of the nights' median, rounded up to 0.1 %; LEAST, or more.

    ``medians``: FEWEST to MOST nights, whose median is not 0. The caller refuses more than WIDEST.
    """
    from statistics import median
    wide = FACTORS[len(medians) - FEWEST] * spread(medians)
    wanted = max(wide, _STEPS * resolution(runs)) / abs(median(medians))
    return max(LEAST, math.ceil(round(1000 * wanted, 6)) / 1000)
