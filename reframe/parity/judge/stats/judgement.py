"""The judgement of each series on its last night, as data. parity.judge.verdict.reasons has its sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from parity.judge.stats import bounds, levels, rule
from parity.judge.stats.bounds import WANTED
from parity.judge.stats.nights import Nights, Texts, medians
from parity.judge.stats.rule import Outcome

Word = Literal['ok', 'blind', 'improved', 'regressed', 'insufficient']


@dataclass(frozen=True)
class Reference:
    """An accepted value and its bounds, absolute, in the metric's unit; None where there is no bound."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Followed:
    """Series that were followed night by night, with the names of their nights and nodes."""

    nights: Nights
    outcome: Outcome
    signs: Sequence[int]             # of the series: 1 if higher is better, else -1
    labels: Sequence[str]            # of the nights
    nodes: Texts | None = None       # of the nights


@dataclass(frozen=True)
class Series:
    """Series ``k`` of those that were followed."""

    followed: Followed
    k: int

    @property
    def cells(self) -> rule.Cells:
        return self.followed.outcome.cells

    @property
    def sign(self) -> int:
        return self.followed.signs[self.k]

    @property
    def is_count(self) -> bool:
        return bool(self.followed.nights.counts[self.k])

    @property
    def first(self) -> int:
        """The first night of the series."""
        return int(self.followed.nights.start[self.k])

    @property
    def last(self) -> int:
        """Tonight."""
        return int(self.followed.nights.start[self.k + 1]) - 1

    @property
    def values(self) -> np.ndarray:
        return self.followed.nights.value[self.first:self.last + 1]

    @property
    def totals(self) -> np.ndarray:
        return self.followed.nights.total[self.first:self.last + 1]

    @property
    def columns(self) -> np.ndarray:
        return self.followed.outcome.column[self.first:self.last + 1]

    @property
    def state(self) -> int:
        """The state of tonight."""
        return int(self.followed.outcome.state[self.last])

    @property
    def episode(self) -> rule.Episode | None:
        """The slowdown, or the improvement on probation, that lasts."""
        return self.cells.lasting.get(self.k)

    def figure(self, log: float) -> float:
        """Return a value in the metric's unit."""
        return math.exp(self.sign * float(log))

    def share(self, log: float) -> float:
        """Return a change of the logarithm as a share."""
        return abs(math.expm1(self.sign * float(log)))

    def nights_since(self, column: int) -> int:
        return int(np.count_nonzero(self.columns >= column))

    def label(self, column: int) -> str:
        """Return the label of the night in a column, or of the next one that the series has."""
        night = self.first + int(np.searchsorted(self.columns, column))
        return self.followed.labels[min(night, self.last)]


@dataclass(frozen=True)
class Judgement:
    """The judgement of a cell tonight; values are in the metric's unit."""

    verdict: Word
    value: float = math.nan       # tonight's: the runs (and reruns) together
    series: Series | None = field(default=None, compare=False, repr=False)      # None: no history judges the cell
    baseline: float | None = None # the level
    low: float | None = None      # band of a single night: three standard deviations around the level
    high: float | None = None
    needs_rerun: bool = False     # the runs are low, and nothing was run again
    visible: float | None = None  # a share: the smallest slowdown that shows within three nights; None: not judged
    state: str = 'learning'       # of parity.judge.verdict.model.State
    begin: int = -1               # column of the first night of a slow or fast level; -1: there is none
    detected: int = -1            # and of the night on which it, or the newest drop below it, was found
    last_good: int = -1           # column of the newest night that was surely good before a slowdown
    first_slow: int = -1          # and of the first that was surely slow; -1: not known
    level: float | None = None    # of the newest nights
    alone: bool = False           # tonight is so low that it is no chance, alone
    lasts: int = 0                # nights of a slowdown that was found
    lost: float | None = None     # share that its level lost, at most; None: it is beyond a bound, or of counts
    before: float | None = None   # the median of the nights before tonight or an improvement; None: too few
    beyond: Reference | None = None     # the accepted value beyond whose bound the level is

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rate: float = rule.RATE, *,
           groups: np.ndarray | None = None, events: np.ndarray | None = None, nodes: Texts | None = None,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """Return the judgement of each series on its last night, and the state of all nights.

    ``signs`` [series]: 1 if higher is better, else -1; ``labels``, ``events`` and ``nodes`` [nights]; ``groups``
    [series]: like cells have the same number; ``rate``: new false alarms a series and night."""
    node_numbers = None if nodes is None else nodes.number
    outcome = levels.follow(nights, groups, rate, events, node_numbers)
    followed = Followed(nights, outcome, signs, labels, nodes)
    usual = _usual(followed)
    accepted = references or [None] * len(signs)
    judgements = []
    for k, reference in enumerate(accepted):
        series = Series(followed, k)
        if series.is_count:
            judgements.append(_of_counts(series))
        else:
            judgements.append(_judgement(series, reference, usual[k]))
    return judgements, outcome


def _usual(followed: Followed) -> np.ndarray:
    """Return the median of the nights before tonight of each series, a logarithm; NaN of too few.

    Only those count that are of the same work, and of the level that a person began."""
    nights, cells = followed.nights, followed.outcome.cells
    first = nights.start[:-1].copy()
    end = nights.start[1:]
    for k, event in enumerate(cells.began):
        if event in ('work', 'level'):
            first[k] = end[k] - cells.nights[k]
    tonight = end - 1
    night = tonight[:, None] + np.arange(-rule.LEVEL, 0)
    values = nights.value[np.fmax(night, 0)]
    is_earlier = night < first[:, None]
    values[is_earlier] = np.nan
    middle = medians(values)
    many = np.isfinite(values).sum(axis=1)
    is_few = many < rule.AFTER
    middle[is_few] = np.nan
    return middle


def _judgement(series: Series, reference: Reference | None, usual: float) -> Judgement:
    """Return the judgement of a series; ``usual``: see `_usual`."""
    cells, k, state = series.cells, series.k, series.state
    tonight = cells.value[k]
    value = float(np.exp(series.sign * tonight)) if np.isfinite(tonight) else math.nan
    before = _before(series, usual)
    is_known = bool(np.isfinite(cells.visible[k]))
    needs_noise = state in (rule.QUIET, rule.GOING)
    is_learning = state == rule.TOO_FEW or needs_noise and not is_known
    if is_learning:
        return Judgement('insufficient', value, series, before=before)
    visible = series.share(-cells.visible[k]) if is_known else None
    standing = _standing(series, reference, visible)
    life = standing.life
    base = float(cells.base[k])
    width = 3 * float(cells.scale[k])
    band = series.figure(base - width), series.figure(base + width)
    low, high = sorted(band)
    lone = series.followed.outcome.lone[series.last]
    return Judgement(
        verdict=standing.word,
        value=value,
        series=series,
        baseline=series.figure(base),
        low=low,
        high=high,
        needs_rerun=bool(cells.low[k]),
        visible=visible,
        state=life.state,
        begin=life.begin,
        detected=life.detected,
        last_good=int(cells.last_good[k]),
        first_slow=int(cells.first_slow[k]),
        level=series.figure(cells.now[k]),
        alone=is_known and bool(lone > 0),
        lasts=standing.lasts,
        lost=standing.lost,
        before=before,
        beyond=standing.beyond)


def _of_counts(series: Series) -> Judgement:
    """Return the judgement of a series of counts: no night alarms alone."""
    tonight = float(series.totals[-1])
    if series.state == rule.TOO_FEW:
        return Judgement('insufficient', tonight, series)
    nights_before = series.totals[:-rule.STEPS]
    usual = float(nights_before.mean())
    word = 'regressed' if series.state == rule.SLOW else 'ok'
    return Judgement(word, tonight, series, baseline=usual, lasts=rule.STEPS)


def _before(series: Series, usual: float) -> float | None:
    """Return what was usual before tonight, or before an improvement that is on probation; None: not known."""
    episode = series.episode
    if episode and episode.is_fast:
        return series.figure(episode.base)
    return series.figure(usual) if np.isfinite(usual) else None


class _Life(NamedTuple):
    """The state of a life, and the columns where its slow or fast level begins and was found."""

    state: str
    begin: int = -1
    detected: int = -1


class _Standing(NamedTuple):
    """The word of a level, and of a slower one how long it lasts and why it is slower; see `Judgement`."""

    word: Word
    life: _Life
    lasts: int = 0
    lost: float | None = None
    beyond: Reference | None = None


def _standing(series: Series, reference: Reference | None, visible: float | None) -> _Standing:
    """Return how the level stands beside its history, and beside the accepted value.

    ``visible``: the smallest slowdown that shows, a share; None: the noise is not known."""
    life = _life(series)
    episode = series.episode
    if episode and series.state in rule.LOW_NIGHTS:
        lasts = series.nights_since(episode.begin)
        lost = series.share(-episode.deepest)
        return _Standing('regressed', life, lasts, lost)
    if episode and series.state == rule.FAST:
        return _Standing('improved', life)
    word = 'ok' if visible <= WANTED else 'blind'
    if not _is_beyond(series, reference):
        return _Standing(word, life)
    begin = int(series.cells.begin[series.k])
    life = _Life('slow', begin, begin)
    tonight = _with_reruns(series)
    if not bounds.side(tonight, reference.low, reference.high):
        return _Standing(word, life, beyond=reference)
    lasts = series.nights_since(begin)
    return _Standing('regressed', life, lasts, beyond=reference)


def _life(series: Series) -> _Life:
    episode = series.episode
    comes = series.cells.comes.get(series.k)
    if comes and not episode:
        _, since = comes
        return _Life('comes and goes', since, since)
    if not episode:
        return _Life('normal')
    if comes:
        state = 'comes and goes'
    else:
        state = 'slow' if episode.is_slow else 'fast'
    return _Life(state, episode.begin, episode.detected)


def _is_beyond(series: Series, reference: Reference | None) -> bool:
    """Return whether the level is beyond the accepted bound by more than chance."""
    if reference is None:
        return False
    bound = reference.low if series.sign > 0 else reference.high
    if not bound or bound <= 0:
        return False
    cells, k = series.cells, series.k
    chance = cells.bar[k] * cells.error[k]
    highest = cells.now[k] + chance
    return bool(highest < series.sign * math.log(bound))


def _with_reruns(series: Series) -> float:
    """Return tonight's figure: of the runs and their reruns, where it was run again."""
    again = series.followed.nights.again[series.last]
    if np.isfinite(again):
        value = again
    else:
        value = series.cells.value[series.k]
    return float(np.exp(series.sign * value))
