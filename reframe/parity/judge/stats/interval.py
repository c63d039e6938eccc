"""The ratio of two sides, with its interval: one method for every metric, chosen beforehand.

Sessions are independent, their runs are not: these share a node, a clock, neighbours. So a session is one figure,
the mean of its runs' logarithms. Sides measured in the same sessions are compared in each (Student's t of the
differences), others by Welch's t (1947). A side of one session takes its variance from earlier nights, or from the
other side. Sessions that depend on the one before widen the interval. Coverage: docs/compare.md,
`python -m dev.coverage`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from statistics import correlation, fmean, median
from typing import NamedTuple

import numpy as np
import scipy

CONFIDENCE = 0.95
#: Fewer nights tell no variance for a single one.
NIGHTS = 4
#: No interval is narrower than this share to either side: no benchmark repeats so well.
FLOOR = 0.001
#: Fewer figures tell nothing of whether one depends on the one before.
DEPENDENT = 8
#: So much of all sessions may have measured one side only, where sides are compared in each session.
_ALONE = 0.2
#: A factor of e^300 is no noise, and no number that can be calculated with.
_FARTHEST = 300.0
#: The logarithm of the largest float, rounded down.
_LARGEST = 709.0

#: The variance of a session, its weight in the variance of the result, its degrees of freedom.
Part = tuple[float | np.ndarray, float, float]
#: By session, the oldest first: the mean logarithm of its runs, and how many there are.
Sessions = Mapping[str, tuple[float, int]]


class Ratio(NamedTuple):
    """candidate / baseline. ``low`` and ``high`` are None where there is no interval: ``why`` says it.

    ``baseline`` and ``candidate`` are the geometric means that it divides."""

    ratio: float | None
    low: float | None = None
    high: float | None = None
    why: str = ''
    note: str = ''                  # where the variance is from, if not from the sides; how dependent they are
    paired: bool = False
    baseline: float | None = None
    candidate: float | None = None


class Sample(NamedTuple):
    """One side, and earlier nights of the same. ``step``: half a step of the timer, on the logarithm."""

    sessions: Sessions
    past: Sessions
    step: float


def sample(now: Iterable[tuple[str, float]], past: Iterable[tuple[str, float]] = (),
           step: float | None = None) -> Sample:
    """Make a side of its runs and those of earlier nights, each with its session; raises ValueError for values at
    or below 0. ``step``: the timer's; None: as many decimals as the runs show."""
    sessions, earlier = _by_session(now), _by_session(past)
    runs = [value for values in sessions.values() for value in values]
    if min(runs) <= 0:
        raise ValueError('values at or below 0: no ratio')
    if step is None:
        step = _last_digit(runs)
    half_step = min(step / 2 / median(runs), 0.999)
    return Sample(
        sessions=_means_of_logs(sessions),
        past=_means_of_logs(earlier),
        step=-math.log1p(-half_step))


def _by_session(runs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    values = defaultdict(list)
    for session, value in runs:
        values[session].append(value)
    return values


def _last_digit(runs: Iterable[float]) -> float:
    """Return the step of the last decimal that a run shows, at most 1."""
    exponents = []
    for value in runs:
        shortest = repr(float(value))
        digits = Decimal(shortest).normalize().as_tuple()
        exponents.append(digits.exponent)
    return 10.0 ** min(0, *exponents)


def _means_of_logs(sessions: dict[str, list[float]]) -> Sessions:
    """Return the sessions whose runs are all above 0."""
    means = {}
    for name, runs in sessions.items():
        if min(runs) > 0:
            mean_of_logs = fmean(map(math.log, runs))
            means[name] = mean_of_logs, len(runs)
    return means


def mean(parts: Sequence[tuple[float, Sample]]) -> Sample:
    """Return the weighted mean of samples, of the sessions that have them all."""
    weights = [weight for weight, _ in parts]
    samples = [sample for _, sample in parts]
    sessions = _joined(weights, [sample.sessions for sample in samples])
    past = _joined(weights, [sample.past for sample in samples])
    step = sum(abs(weight) * sample.step for weight, sample in parts)
    return Sample(sessions, past, step)


def _joined(weights: Sequence[float], sides: Sequence[Sessions]) -> Sessions:
    """Return the weighted mean of each session that all sides have."""
    joined = {}
    for name in sides[0]:
        if not all(name in side for side in sides):
            continue
        of_sides = [side[name] for side in sides]
        weighted = [weight * mean for weight, (mean, _) in zip(weights, of_sides, strict=True)]
        runs = sum(runs for _, runs in of_sides)
        joined[name] = sum(weighted), runs
    return joined


def ratio(baseline: Sample, candidate: Sample, confidence: float = CONFIDENCE) -> Ratio:
    """Return exp(difference of the means of session means), with its interval where their variance is known."""
    if not (baseline.sessions and candidate.sessions):
        return Ratio(None, why='no session of a side has all of these metrics')
    both = _in_same_sessions(baseline, candidate)
    if both:
        ones = _means({name: baseline.sessions[name] for name in both})
        others = _means({name: candidate.sessions[name] for name in both})
        differences = others - ones
        series = [differences]
        parts, notes = [part(differences)], []
    else:
        ones = _means(baseline.sessions)
        others = _means(candidate.sessions)
        series = [ones, others]
        parts, notes = _variances(baseline, candidate)
    difference = others.mean() - ones.mean()
    if abs(difference) > _FARTHEST:
        return Ratio(None, why='the values are too far apart: no ratio')
    alone = Ratio(
        ratio=_figure(difference),
        paired=bool(both),
        baseline=_figure(ones.mean()),
        candidate=_figure(others.mean()))
    if not parts:
        return alone._replace(why='one session a side: no interval; run more nights, or compare where '
                                  f'{NIGHTS} nights of the same are stored')
    factor, dependent = stretched(*series)
    by_chance = max(factor * half_width(parts, confidence), FLOOR)
    with_steps = by_chance + baseline.step + candidate.step
    half = min(with_steps, _FARTHEST)
    if dependent:
        notes.append(dependent)
    different_notes = dict.fromkeys(notes)
    return alone._replace(
        low=math.exp(difference - half),
        high=math.exp(difference + half),
        note='; '.join(different_notes))


def _in_same_sessions(baseline: Sample, candidate: Sample) -> list[str]:
    """Return the sessions that measured both sides; [] where too many measured one only."""
    both = [name for name in baseline.sessions if name in candidate.sessions]
    every = len(baseline.sessions) + len(candidate.sessions)
    alone = every - 2 * len(both)
    if len(both) < 2 or alone > _ALONE * every:
        return []
    return both


def _figure(log: float) -> float:
    value = math.exp(min(log, _LARGEST))
    return float(f'{value:.12g}')       # 12 / 10 is 1.2


def _variances(*sides: Sample) -> tuple[list[Part], list[str]]:
    """Return the parts of the variance, [] where it is not known, and whence they are. A source is one part."""
    sources, notes = [], []
    for side, other in (sides, sides[::-1]):
        if len(side.sessions) > 1:
            weight = 1 / len(side.sessions)
            sources.append((side.sessions, weight))
            continue
        has_history = len(side.past) >= NIGHTS
        source = side.past if has_history else other.sessions
        if len(source) < NIGHTS:
            return [], []
        weight = _weight_of_one(side.sessions, source)
        sources.append((source, weight))
        origin = 'nights of history' if has_history else 'sessions of the other side'
        notes.append(f'variance between nights from {len(source)} {origin}')
    (one, weight), (another, other_weight) = sources
    if one == another:
        sources = [(one, weight + other_weight)]
    parts = [part(_means(source), weight) for source, weight in sources]
    return parts, notes


def _weight_of_one(sessions: Sessions, source: Sessions) -> float:
    """Return the weight of a lone session's variance, which a source of several tells.

    Of fewer runs than the source's sessions have, it has at most so much more variance."""
    (_, runs), = sessions.values()
    usual_runs = fmean(many for _, many in source.values())
    return max(1.0, usual_runs / runs)


def part(means: np.ndarray, weight: float = 0.0) -> Part:
    """Return what two or more sessions [..., k] tell of the variance of their mean; with ``weight`` 1 or more,
    of another one. Long tails show in that: two thirds of the degrees of freedom keep the coverage."""
    k = means.shape[-1]
    variance = means.var(-1, ddof=1)
    share = 2 / 3 if weight >= 1 else 1
    return variance, weight or 1 / k, (k - 1) * share


def half_width(parts: Sequence[Part], confidence: float) -> np.ndarray:
    """Return half the width of Student's interval of a sum of independent parts.

    The degrees of freedom are Satterthwaite's (1946), but no more than alike noise would give: else two sessions
    that happen to lie together, beside 30, cover 87 %."""
    variances, weights, freedom = [], [], []
    for variance, weight, degrees in parts:
        above_0 = np.maximum(variance, 1e-24)
        variances.append(above_0 * weight)
        weights.append(weight)
        freedom.append(degrees)
    most = _satterthwaite(weights, freedom)
    degrees = np.minimum(_satterthwaite(variances, freedom), most)
    standard_errors = scipy.special.stdtrit(degrees, (1 + confidence) / 2)
    return standard_errors * np.sqrt(sum(variances))


def _satterthwaite(variances: Sequence[float | np.ndarray], freedom: Sequence[float]) -> float | np.ndarray:
    """Return the degrees of freedom of a sum of independent parts."""
    squares = []
    for variance, degrees in zip(variances, freedom, strict=True):
        squares.append(variance ** 2 / degrees)
    total = sum(variances)
    return total ** 2 / sum(squares)


def limits(of: Sample) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of one side alone; None of fewer than 3 sessions."""
    means = _means(of.sessions)
    if len(means) < 3:
        return None, None
    middle = means.mean()
    half = half_width([part(means)], CONFIDENCE)
    ends = np.clip([middle - half, middle + half], -_FARTHEST, _FARTHEST)
    low, high = np.exp(ends).tolist()
    return low, high


def _means(sessions: Sessions) -> np.ndarray:
    return np.array([mean for mean, _ in sessions.values()])


def spread(values: Sequence[float]) -> float | None:
    """Return the robust standard deviation 0.7413 x IQR as a share of the median; None of one value, or at 0."""
    if len(values) < 2:
        return None
    middle = median(values)
    if not middle:
        return None
    third, first = np.quantile(values, (0.75, 0.25))
    return 0.7413 * float(third - first) / abs(middle)


def at_once(several: int, freedom: float = math.inf) -> float:
    """Return how many times as wide so many 95 % intervals are if all hold at once with 95 % (Bonferroni)."""
    freedom = min(freedom, 1e6)
    of_all = scipy.special.stdtrit(freedom, 1 - 0.025 / several)
    of_one = scipy.special.stdtrit(freedom, 0.975)
    return of_all / of_one


def stretched(*series: Sequence[float]) -> tuple[float, str]:
    """Return how many times as wide dependent figures make an interval, and a sentence; 1 and '' for others.

    Of figures whose neighbours correlate by r, n count as n (1 - r) / (1 + r) (Bartlett, 1946); as 1 at least."""
    largest = max(map(_dependence, series))
    if not largest:
        return 1.0, ''
    factor = ((1 + largest) / (1 - largest)) ** 0.5
    return factor, f'neighbours in time correlate by {largest:.2f}: interval {factor:.1f} times as wide'


def _dependence(series: Sequence[float]) -> float:
    """Return the correlation of neighbours, 0 where chance explains it. All figures count as one at least."""
    values = [*map(float, series)]
    many = len(values)
    before, after = values[:-1], values[1:]
    has_constant = len(set(before)) < 2 or len(set(after)) < 2
    if many < DEPENDENT or has_constant:
        return 0.0
    r = correlation(after, before)
    if r <= 1.96 / many ** 0.5:
        return 0.0
    largest = (many - 1) / (many + 1)
    return min(r, largest)
