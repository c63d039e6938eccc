"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from parity.base.figures import counted, percent
from parity.judge.stats import bounds, levels, rule
from parity.judge.stats.bounds import FIRST, WANTED
from parity.judge.stats.nights import Nights
from parity.judge.stats.rule import Outcome

Word = Literal['ok', 'blind', 'improved', 'regressed', 'insufficient']
_BEGAN = {'accepted': 'the value accepted', 'level': 'the level begun by hand', 'work': 'other work',
          'software': 'the software change', 'hardware': 'the change of hardware',
          'maintenance': 'the maintenance', 'improved': 'the improvement'}
_CHANGED = {'software': 'the software changed', 'hardware': 'the hardware changed',
            'maintenance': 'maintenance was'}

#: Two modes: nights of each, at least; times of the lower one; their distance in standard deviations. A calm end
#: is so many nights.
_MODE, _SPELLS, _APART, _CALM = 4, 3, 4.0, 15


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
    warnings: tuple[str, ...] = ()
    value: float = math.nan       # tonight's: the runs (and reruns) together
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
    new: bool = False             # a slowdown that was found tonight
    before: float | None = None   # the median of the nights before tonight or an improvement; None: too few

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rate: float = rule.RATE, *,
           groups: np.ndarray | None = None, events: np.ndarray | None = None, nodes: Sequence[str] | None = None,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """Return the judgement of each series on its last night, and the state of all nights.

    ``signs`` [series]: 1 if higher is better, else -1; ``labels``, ``events`` and ``nodes`` [nights]; ``groups``
    [series]: like cells have the same number; ``rate``: new false alarms a series and night."""
    names, number = None, None
    if nodes is not None:
        names, number = np.unique(nodes, return_inverse=True)
    outcome = levels.follow(nights, groups, rate, events, number)
    accepted = references or [None] * len(signs)
    judgements = []
    for k, (sign, reference) in enumerate(zip(signs, accepted, strict=True)):
        series = _Series(nights, outcome, labels, names, number, k, sign)
        judgements.append(series.judgement(reference))
    return judgements, outcome


@dataclass(frozen=True)
class _Series:
    """Series ``k`` of the nights, their outcome, and the names that sentences on it need."""

    nights: Nights
    outcome: Outcome
    labels: Sequence[str]
    names: np.ndarray | None      # of nodes
    node: np.ndarray | None       # the number of the node of each night
    k: int
    sign: int                     # 1 if higher is better, else -1

    @property
    def _cells(self) -> rule.Cells:
        return self.outcome.cells

    @property
    def _first(self) -> int:
        """The first night of the series."""
        return int(self.nights.start[self.k])

    @property
    def _last(self) -> int:
        """Tonight."""
        return int(self.nights.start[self.k + 1]) - 1

    @property
    def _values(self) -> np.ndarray:
        return self.nights.value[self._first:self._last + 1]

    @property
    def _state(self) -> int:
        return int(self.outcome.state[self._last])

    @property
    def _episode(self) -> rule.Episode | None:
        """The slowdown, or the improvement on probation, that lasts."""
        return self._cells.lasting.get(self.k)

    def _figure(self, log: float) -> float:
        """Return a value in the metric's unit."""
        return math.exp(self.sign * float(log))

    def judgement(self, reference: Reference | None) -> Judgement:
        if self.nights.counts[self.k]:
            return self._of_counts()
        cells, k = self._cells, self.k
        known = bool(np.isfinite(cells.visible[k]))
        value = float(np.exp(self.sign * cells.value[k])) if np.isfinite(cells.value[k]) else math.nan
        needs_noise = self._state in (rule.QUIET, rule.GOING)
        if self._state == rule.TOO_FEW or needs_noise and not known:
            return Judgement('insufficient', self._few(), value=value, before=self._before())
        visible = _share(-cells.visible[k], self.sign) if known else None
        word, why = self._word(visible)
        life = self._life()
        lasts, lost = 0, None
        if word == 'regressed':
            lasts = self._nights_since(self._episode.begin)
            lost = _share(-self._episode.deepest, self.sign)
        level = self._figure(cells.now[k])
        if known and word in ('ok', 'blind') and self._is_beyond(reference):
            begin = int(cells.begin[k])
            life = _Life('slow', begin, begin)
            lower = _share(float(cells.now[k]) - self.sign * math.log(reference.value), self.sign)
            beyond = (f'the level of the last nights is {percent(lower)} worse than the accepted '
                      f'{reference.value:.4g}, beyond its bound')
            if bounds.side(self._with_reruns(), reference.low, reference.high):
                word, why, lasts = 'regressed', beyond, self._nights_since(begin)
            else:
                why += f'; {beyond}: tonight is within it'
        base, width = float(cells.base[k]), 3 * float(cells.scale[k])
        low, high = sorted((self._figure(base - width), self._figure(base + width)))
        return Judgement(
            word, why, tuple(self._warnings()), value, self._figure(base), low, high,
            state=life.state, begin=life.begin, detected=life.detected,
            last_good=int(cells.last_good[k]), first_slow=int(cells.first_slow[k]),
            lasts=lasts, lost=lost, needs_rerun=bool(cells.low[k]), visible=visible, level=level,
            alone=known and bool(self.outcome.lone[self._last] > 0),
            new=self._state == rule.SLOW and self._is_new(), before=self._before())

    # ---- figures

    def _nights_since(self, column: int) -> int:
        columns = self.outcome.column[self._first:self._last + 1]
        return int((columns >= column).sum())

    def _before(self) -> float | None:
        """Return what was usual before tonight, of the same work and of the level that a person began; before an
        improvement that is on probation."""
        episode = self._episode
        if episode and episode.depth > 0:
            return self._figure(episode.base)
        first = self._first
        if self._cells.began[self.k] in ('work', 'level'):
            first = self._last + 1 - int(self._cells.nights[self.k])
        nights = self.nights.value[max(first, self._last - rule.LEVEL):self._last]
        nights = nights[np.isfinite(nights)]
        if len(nights) < rule.AFTER:
            return None
        return self._figure(np.median(nights))

    def _life(self) -> _Life:
        """Return the state of the life, and where its slow or fast level begins and was found."""
        episode = self._episode
        comes = self._cells.comes.get(self.k)
        if episode:
            state = 'slow' if episode.depth < 0 else 'fast'
            return _Life('comes and goes' if comes else state, episode.begin, episode.detected)
        if comes:
            _, since = comes
            return _Life('comes and goes', since, since)
        return _Life('normal')

    def _is_beyond(self, reference: Reference | None) -> bool:
        """Return whether the level is beyond the accepted bound by more than chance."""
        if reference is None:
            return False
        bound = reference.low if self.sign > 0 else reference.high
        if not bound or bound <= 0:
            return False
        chance = self._cells.bar[self.k] * self._cells.error[self.k]
        return bool(self._cells.now[self.k] + chance < self.sign * math.log(bound))

    def _with_reruns(self) -> float:
        """Return tonight's figure: of the runs and their reruns, where it was run again."""
        again = self.nights.again[self._last]
        value = again if np.isfinite(again) else self._cells.value[self.k]
        return float(np.exp(self.sign * value))

    def _is_new(self) -> bool:
        return self._episode is not None and bool(self._episode.detected == self.outcome.column[self._last])

    # ---- sentences

    def _few(self) -> str:
        values = self._values
        finite = np.isfinite(values)
        if not finite[-1]:
            return 'a figure is 0 or below: a change has no measure'
        event = self._cells.began[self.k]
        if event:
            began = f'{_BEGAN[event]} of {self._label(self._cells.since[self.k])}'
            nights = int(self._cells.nights[self.k])
            return f'{_nights(nights)} since {began}: judging resumes after {rule.AFTER}'
        return f'{_nights(int(finite.sum()))} of history: judging begins on night {FIRST + 1}'

    def _word(self, visible: float | None) -> tuple[Word, str]:
        """Return the word, and the reason. ``visible``: the smallest slowdown that shows, a share."""
        cells, k, episode = self._cells, self.k, self._episode
        if episode and self._state in (rule.SLOW, rule.FAST, rule.COMES):
            word = 'improved' if self._state == rule.FAST else 'regressed'
            return word, self._change(episode)
        off = cells.value[k] - cells.base[k]
        why = f'tonight is {_off(_share(off, self.sign), off)} the level of {_nights(int(cells.nights[k]))}'
        if cells.began[k]:
            why += f', which began with {_BEGAN[cells.began[k]]} of {self._label(cells.since[k])}'
        if k in cells.comes:
            why += f'; {self._spells()}'
        why += f'; a slowdown shows from {percent(visible)} on' if visible < 1 else '; no slowdown would show'
        if visible > WANTED:
            why += f': {self._noise()}'
        if episode and episode.depth < 0:
            why += (f'; what began on {self._label(episode.begin)} is not over: it ends with a second night '
                    'like this one')
        return ('ok' if visible <= WANTED else 'blind'), why

    def _change(self, episode: rule.Episode) -> str:
        """Return the sentence on a slowdown or an improvement."""
        cells, k = self._cells, self.k
        kind = 'better' if episode.depth > 0 else 'worse'
        why = (f'{kind} since {self._label(episode.begin)} ({_nights(self._nights_since(episode.begin))}): '
               f'{_nights(episode.nights)} were {percent(_share(episode.depth, self.sign))} {kind} '
               'than the level before')
        if episode.again >= 0:
            why += f', back to the level before {self._label(episode.again)}'
        why += f', {episode.size:.1f} standard errors where {cells.bar[k]:.1f} are needed'
        changed = int(cells.changed[k])
        if episode.depth < 0 and changed >= 0 and abs(episode.begin - changed) <= rule.WITHIN:
            why += f'; {_CHANGED[cells.change[k]]} on {self._label(changed)}'
        if k in cells.comes:
            why += f'; {self._spells()}'
        return why

    def _spells(self) -> str:
        spells, since = self._cells.comes[self.k]
        return f'comes and goes: {spells} spells since {self._label(since)}'

    def _noise(self) -> str:
        """Say why a slowdown of WANTED would not show: two modes, a wild time, or nights that scatter."""
        at = (self._first + np.flatnonzero(np.isfinite(self._values)))[-rule.MEMORY:]
        scale = float(self._cells.scale[self.k])
        return self._two_modes(at) or self._wild_time(at, scale) or f'its nights scatter by {_lower(scale)}'

    def _two_modes(self, at: np.ndarray) -> str:
        """Return a sentence where the nights ``at`` have two modes of _MODE nights or more; else ''."""
        x = self.nights.value[at]
        ordered = np.sort(x)
        gaps = np.diff(ordered)[_MODE - 1:1 - _MODE]
        if not len(gaps):
            return ''
        many = _MODE + int(gaps.argmax())           # nights of the lower mode
        lower, upper = ordered[:many], ordered[many:]
        gap = float(np.median(upper) - np.median(lower))
        low = (x < upper[0]).astype(int)
        spells = int((np.diff(low, prepend=0) > 0).sum())
        apart = _APART * max(np.std(lower), np.std(upper))
        if spells < _SPELLS or gap <= max(WANTED, apart):
            return ''
        return (f'since {self.labels[at[0]]} {_nights(many)} of {len(x)} were {_lower(gap)} lower, '
                f'in {spells} spells')

    def _wild_time(self, at: np.ndarray, scale: float) -> str:
        """Return a sentence where some of the nights ``at`` were wild, and the newest are calm; else ''."""
        steps = np.abs(np.diff(self.nights.value[at]))
        if len(steps) <= 2 * _CALM:
            return ''
        calm = float(np.median(steps[-_CALM:]))
        wild = np.flatnonzero(steps > _APART * max(calm, 1e-3))
        if len(wild) < _SPELLS or calm * _APART >= scale:
            return ''
        return f'its nights of {self.labels[at[wild[0]]]} to {self.labels[at[wild[-1] + 1]]} were wild'

    def _warnings(self) -> Iterator[str]:
        effect = self._cells.node[self.k]
        if self.names is not None and np.isfinite(effect) and effect:
            node, off = self.names[self.node[self._last]], percent(_share(effect, self.sign))
            side = 'faster' if effect > 0 else 'slower'
            yield f'{node} is {off} {side} here than the other nodes: that is taken out'
        left_out = int(np.isnan(self._values[:-1]).sum())
        if left_out:
            yield f'{_nights(left_out)} with a figure of 0 or below: left out'
        nights = len(self._values)
        if nights > rule.MOST:
            yield f'the newest {rule.MOST} of {nights} nights are judged'

    def _of_counts(self) -> Judgement:
        total = self.nights.total[self._first:self._last + 1]
        tonight = float(total[-1])
        if self._state == rule.TOO_FEW:
            why = f'{_nights(len(total))} of counts: judging begins on night {rule.COUNTED + 1}'
            return Judgement('insufficient', why, value=tonight)
        usual = float(total[:-rule.STEPS].mean())
        newest = float(total[-rule.STEPS:].mean())
        why = (f'{tonight:g} tonight, {newest:.3g} a night in the last {rule.STEPS}, {usual:.3g} '
               'before (exact test of counts)')
        word = 'regressed' if self._state == rule.SLOW else 'ok'
        # no night of counts alarms alone
        return Judgement(word, why, value=tonight, baseline=usual, lasts=rule.STEPS)

    def _label(self, column: int) -> str:
        columns = self.outcome.column[self._first:self._last + 1]
        night = self._first + int(np.searchsorted(columns, column))
        return self.labels[min(night, self._last)]


class _Life(NamedTuple):
    """The state of a life, and the columns where its slow or fast level begins and was found."""

    state: str
    begin: int = -1
    detected: int = -1


def _share(log: float, sign: int) -> float:
    """Return the change of a figure as a share: ``log`` is oriented, ``sign`` its direction."""
    return abs(math.expm1(sign * float(log)))


def _lower(gap: float) -> str:
    """Return a difference of logarithms in percent of the higher value."""
    return percent(-math.expm1(-gap))


def _nights(n: int) -> str:
    return counted(n, 'night')


def _off(share: float, log: float) -> str:
    return 'at' if share < 0.0005 else f'{percent(share)} {"better" if log > 0 else "worse"} than'
