"""Bounds of a reference: the allowed distance of a night from the value, derived from the nights behind it.

A bound is `median - k Qn` or `median + k Qn` of the nights' medians. Qn is the robust spread of
Rousseeuw and Croux (Alternatives to the median absolute deviation, JASA 88, 1993): one bad night in
the history does not widen it. k makes the bound a one-sided tolerance limit (Krishnamoorthy and
Mathew, Statistical Tolerance Regions, 2009, chapter 2): in 95 % of all histories of n independent
normal nights at most 1 of 1000 later nights lies beyond it. The usual factor belongs to mean and
standard deviation; for median and Qn it has no closed form and was found by simulation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

#: The nights that a reference may stand on. With 9 the bound would be more than twice as wide as one
#: whose median and spread were known (3.09 standard deviations); older ones than 30 say little of today.
FEWEST, MOST = 10, 30
#: k of 10, 11, ... 30 nights: the 95 % point of (3.0902 + median) / Qn over 200 000 histories of
#: standard normal nights. Odd and even n differ as Qn's order statistic steps.
FACTORS = (4.219, 5.176, 4.101, 4.852, 4.015, 4.626, 3.948, 4.493, 3.910, 4.366, 3.869, 4.267, 3.838, 4.203,
           3.807, 4.126, 3.780, 4.082, 3.752, 4.034, 3.740)
#: The promise of a bound, for nights as its derivation assumes them.
CHANCE = 1 / 1000
STATED = (f'with 95 % confidence at most 1 of {1 / CHANCE:.0f} nights like these lies beyond a bound '
          '(independent nights, normal noise)')
#: No bound is narrower (a share of the value): what a quiet history has not met yet, a kernel or a
#: colder room, moves most figures by that much.
LEAST = 0.03
#: A wider bound would let a figure fall to half of its value without a word.
WIDEST = 0.5
#: A cell is `ok` only where a slowdown of this share would show; else it is `blind`.
WANTED = 0.05
#: No machine is so many times as fast as the night before: such a figure is a mistake of its measurement. A metric
#: that is better the lower it is must be a time: a count may fall so far.
ABSURD, TIMES = 1000.0, ('s', 'ms', 'us', 'ns', 'min', 'h')
#: Bad nights belong together if less good ones lie between two; what comes and goes is over after so many.
GOOD_NIGHTS = 14
#: Nights of a cell before its history judges it (parity.judge.stats.levels).
FIRST = 10
#: Steps of the timer that a figure may be off: one is the timer's own doing.
_STEPS = 1.5


def side(value: float, low: float | None, high: float | None) -> int:
    """Return -1 where ``value`` is below its bounds, 1 above, 0 within; None is no bound."""
    return (high is not None and value > high) - (low is not None and value < low)


def word(better: str, value: float, low: float | None, high: float | None) -> str:
    """Return what the bounds say of ``value``: ok, improved or regressed. Where the direction is not known, it is
    regressed beyond either bound."""
    beyond = side(value, low, high)
    if not beyond:
        return 'ok'
    good_side = {'higher': 1, 'lower': -1}.get(better)
    return 'improved' if beyond == good_side else 'regressed'


def bad(better: str, low: float | None, high: float | None) -> list[float | None]:
    """Return the bounds beyond which a value is slower: both where the direction is not known."""
    return [end for end, good in ((low, 'lower'), (high, 'higher')) if better != good]


def says_usual(better: str, low: float | None, high: float | None) -> bool:
    """Return whether a reference is what a figure usually is: it is bounded on the good side. One that is not may
    be far from that, such as the most seconds that a build may take."""
    good = high if better == 'higher' else low
    return good is not None


def absurd(better: str, value: float, usual: float | None, unit: str) -> float | None:
    """Return how many times as fast as usual a figure is, where no machine is; None else."""
    is_speed = better == 'higher' or better == 'lower' and unit in TIMES
    if not is_speed or not usual or usual < 0 or value <= 0:
        return None
    times = value / usual if better == 'higher' else usual / value
    return times if times >= ABSURD else None


def visible(better: str, value: float, low: float | None, high: float | None) -> float | None:
    """Return the share from which on a slowdown of ``value`` lies beyond its bound; None: no bound shows one.

    ``better``: higher, lower or '' (not known): of two bounds the farther one counts."""
    ends = bad(better, low, high)
    if None in ends:
        return None
    reach = max(abs(end - value) for end in ends)
    if value:
        share_of_value = reach / abs(value)
        return round(share_of_value, 6)
    return None if reach else 0.0


def spread(values: Sequence[float]) -> float:
    """Return Qn of ``values`` (at least 2), in their unit; the standard deviation where they are normal."""
    import numpy as np
    x = np.asarray(values, float)
    first, second = np.triu_indices(len(x), 1)
    differences = abs(x[first] - x[second])
    half = len(x) // 2 + 1
    rank = half * (half - 1) // 2 - 1
    quantile = np.partition(differences, rank)[rank]
    return 2.2219 * float(quantile)


def resolution(runs: Sequence[float]) -> float:
    """Return the step in which ``runs`` (every single one) were read or printed, in their unit; 0: none is seen.

    The last decimal of any; where half repeat another's value, the smallest step between two: a timer's."""
    decimals = max(_decimals(run) for run in runs)
    printed = 10.0 ** -decimals if decimals <= 6 else 0.0
    often = Counter(runs)
    repeating = sum(count for count in often.values() if count > 1)
    if len(often) == 1 or repeating < len(runs) / 2:
        return printed
    different = sorted(often)
    smallest_step = min(above - below for below, above in pairwise(different))
    return max(printed, smallest_step)


def _decimals(run: float) -> int:
    """Return how many of nine decimals are left without the zeros at the end."""
    _, _, decimals = f'{run:.9f}'.rstrip('0').partition('.')
    return len(decimals)


def share(medians: Sequence[float], runs: Sequence[float]) -> float:
    """Return the bound on either side as a share of the nights' median, rounded up to 0.1 %; LEAST, or more.

    ``medians``: FEWEST to MOST nights, whose median is not 0. The caller refuses more than WIDEST."""
    factor = FACTORS[len(medians) - FEWEST]
    by_noise = factor * spread(medians)
    by_timer = _STEPS * resolution(runs)
    middle = abs(median(medians))
    wanted = max(by_noise, by_timer) / middle
    per_mille = round(1000 * wanted, 6)
    rounded_up = math.ceil(per_mille) / 1000
    return max(LEAST, rounded_up)


#: A quiet history that moves more than LEAST_EFFECT by chance is refused in so many cases.
ALPHA = 0.05
#: A smaller step (a share of the value) is half of what every bound allows for.
LEAST_EFFECT = 0.015
#: On either side of a change, and on a node that is compared with others, there are at least so many nights: fewer
#: are single bad nights.
SIDE = 3
_PERMUTATIONS = 4000


class ChangePoint(NamedTuple):
    """``at`` is the first night (from 0) after it; ``effect`` the later median to the earlier, less 1."""

    at: int
    effect: float
    p: float


def most_likely_change(values: Sequence[float]) -> ChangePoint | None:
    """Return the most likely change among ``values``, oldest first, if chance does not explain it.

    Over all splits with at least 3 nights on either side, take the largest standardised rank sum (Mann-Whitney).
    Compare it with those of random orders of the same values. This is exact for any distribution, ties and the
    number of splits included. Pettitt approximates it (A non-parametric approach to the change-point problem,
    1979)."""
    import numpy as np
    x = np.asarray(values, float)
    _, which, count = np.unique(x, return_inverse=True, return_counts=True)
    shared_ranks = count.cumsum() - (count - 1) / 2         # from 1; equal ones share the mean of theirs
    ranks = shared_ranks[which]
    if len(ranks) < 2 * SIDE or len(count) == 1:
        return None
    one_order = ranks[None]
    scores = abs(_scores(one_order)[0])
    split = int(scores.argmax())
    largest = scores[split] - 1e-9          # rounding apart
    of_chance = _chance(tuple(sorted(ranks)))
    as_large = int((of_chance >= largest).sum())
    p = (1 + as_large) / (1 + _PERMUTATIONS)
    first = split + SIDE
    effect = _effect(values[first:], values[:first])
    if p > ALPHA or abs(effect) < LEAST_EFFECT:
        return None
    return ChangePoint(first, effect, p)


def _effect(these: Sequence[float], others: Sequence[float]) -> float:
    """Return how far the median of ``these`` is from that of ``others``, as a share of the latter."""
    middle = median(others)
    if not middle:
        return math.inf
    return (median(these) - middle) / abs(middle)


def _scores(ranks):
    """Return the standardised rank sum of the nights from each split on, of each order of ``ranks``."""
    import numpy as np
    n = ranks.shape[1]
    splits = np.arange(SIDE, n - SIDE + 1)
    later = n - splits
    newest_first = ranks[:, ::-1]
    sums_to_the_end = newest_first.cumsum(axis=1)[:, ::-1]
    sums = sums_to_the_end[:, splits]
    mean = later * (n + 1) / 2
    variance = later * splits * ranks[0].var() / (n - 1)
    return (sums - mean) / np.sqrt(variance)


@lru_cache(maxsize=256)
def _chance(ranks: tuple[float, ...]):
    """Return the largest score of each random order of ``ranks``; the orders are the same in every run."""
    import numpy as np
    rng = np.random.default_rng(len(ranks))
    copies = np.tile(ranks, (_PERMUTATIONS, 1))
    orders = rng.permuted(copies, axis=1)
    scores = abs(_scores(orders))
    return scores.max(axis=1)


def other_place(values: Sequence[float], places: Sequence[str]) -> tuple[str, float] | None:
    """Return a place (a node, or the nodes of a case) whose nights differ from those elsewhere, and by what share.

    Places with 3 nights or more are compared with all others (Mann-Whitney), ALPHA shared among them. Of
    several that differ it is the one farthest from the middle of all places; of two, the rarer."""
    at_place: dict[str, list[float]] = {}
    for value, place in zip(values, places, strict=True):
        at_place.setdefault(place, []).append(value)
    medians = {place: median(nights) for place, nights in at_place.items()}
    middle = median(medians.values())

    def farthest_then_rarest(place: str) -> tuple[float, int]:
        distance = round(abs(medians[place] - middle), 9)
        return -distance, len(at_place[place])

    most = len(values) - SIDE
    often = [place for place, nights in at_place.items() if SIDE <= len(nights) <= most]
    often.sort(key=farthest_then_rarest)
    method = 'exact' if len(set(values)) == len(values) else 'asymptotic'
    for place in often:
        from scipy.stats import mannwhitneyu
        here = at_place[place]
        elsewhere = [value for value, other in zip(values, places, strict=True) if other != place]
        effect = _effect(here, elsewhere)
        p = mannwhitneyu(here, elsewhere, method=method).pvalue
        if abs(effect) >= LEAST_EFFECT and p <= ALPHA / len(often):
            return place, effect
    return None
