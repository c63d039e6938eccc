"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
    names, number = np.unique(nodes, return_inverse=True) if nodes is not None else (None, None)
    outcome = levels.follow(nights, groups, rate, events, number)
    series = _Series(nights, outcome, labels, names, number)
    return [series.judgement(k, sign, reference) for k, (sign, reference) in enumerate(
        zip(signs, references or [None] * len(signs), strict=True))], outcome


@dataclass(frozen=True)
class _Series:
    """The nights, their outcome and the names that sentences on a series need."""

    nights: Nights
    outcome: Outcome
    labels: Sequence[str]
    names: np.ndarray | None
    node: np.ndarray | None

    def judgement(self, k: int, sign: int, reference: Reference | None) -> Judgement:
        cells, last = self.outcome.cells, int(self.nights.start[k + 1]) - 1
        state, known = int(self.outcome.state[last]), bool(np.isfinite(cells.visible[k]))
        value = float(np.exp(sign * cells.value[k])) if np.isfinite(cells.value[k]) else math.nan
        if self.nights.counts[k]:
            return self._counted(k, state, last)
        before = self._before(k, sign, last)
        if state == rule.TOO_FEW or state in (rule.QUIET, rule.GOING) and not known:
            return Judgement('insufficient', self._few(k, last), value=value, before=before)
        base, width = float(cells.base[k]), 3 * float(cells.scale[k])
        band = sorted(math.exp(sign * (base + side * width)) for side in (-1, 1))
        seen = _share(-cells.visible[k], sign) if known else None
        word, why = self._word(k, sign, state, last, seen)
        life = self._life(k)
        level = float(cells.now[k])
        lasts, lost = self._slowdown(k, sign, last) if word == 'regressed' else (0, None)
        if known and word in ('ok', 'blind') and self._below(k, sign, reference):
            life |= {'state': 'slow', 'begin': int(cells.begin[k]), 'detected': int(cells.begin[k])}
            off = percent(_share(level - sign * math.log(reference.value), sign))
            beyond = (f'the level of the last nights is {off} worse than the accepted '
                      f'{reference.value:.4g}, beyond its bound')
            if bounds.side(self._with_reruns(k, sign, last), reference.low, reference.high):
                word, why, lasts = 'regressed', beyond, self._nights_since(k, int(cells.begin[k]), last)
            else:
                why += f'; {beyond}: tonight is within it'
        return Judgement(
            word, why, tuple(self._warnings(k, sign, last)), value, math.exp(sign * base), *band, **life,
            last_good=int(cells.last_good[k]), first_slow=int(cells.first_slow[k]),
            lasts=lasts, lost=lost, needs_rerun=bool(cells.low[k]), visible=seen, level=math.exp(sign * level),
            alone=known and bool(self.outcome.lone[last] > 0),
            new=state == rule.SLOW and self._is_new(k, last), before=before)

    def _slowdown(self, k: int, sign: int, last: int) -> tuple[int, float]:
        """Return how many nights a slowdown lasts, and the share that its level lost at most."""
        episode = self.outcome.cells.lasting[k]
        return self._nights_since(k, episode.begin, last), _share(-episode.deepest, sign)

    def _nights_since(self, k: int, column: int, last: int) -> int:
        columns = self.outcome.column[int(self.nights.start[k]):last + 1]
        return int((columns >= column).sum())

    def _before(self, k: int, sign: int, last: int) -> float | None:
        """Return what was usual before tonight, of the same work and of the level that a person began; before an
        improvement that is on probation."""
        cells, episode = self.outcome.cells, self.outcome.cells.lasting.get(k)
        if episode and episode.depth > 0:
            return math.exp(sign * episode.base)
        first = int(self.nights.start[k])
        if cells.began[k] in ('work', 'level'):
            first = last + 1 - int(cells.nights[k])
        nights = self.nights.value[max(first, last - rule.LEVEL):last]
        nights = nights[np.isfinite(nights)]
        return math.exp(sign * float(np.median(nights))) if len(nights) >= rule.AFTER else None

    def _life(self, k: int) -> dict[str, Any]:
        """Return the state of the life, and where its slow or fast level begins and was found."""
        episode = self.outcome.cells.lasting.get(k)
        word = 'normal' if episode is None else 'slow' if episode.depth < 0 else 'fast'
        word = 'comes and goes' if k in self.outcome.cells.comes else word
        if word == 'normal':
            return {'state': word}
        if episode:
            return {'state': word, 'begin': episode.begin, 'detected': episode.detected}
        since = self.outcome.cells.comes[k][1]
        return {'state': word, 'begin': since, 'detected': since}

    def _below(self, k: int, sign: int, reference: Reference | None) -> bool:
        """Return whether the level is beyond the accepted bound by more than chance."""
        bound = reference and (reference.low if sign > 0 else reference.high)
        cells = self.outcome.cells
        return bool(bound) and bound > 0 and bool(
            cells.now[k] + cells.bar[k] * cells.error[k] < sign * math.log(bound))

    def _with_reruns(self, k: int, sign: int, last: int) -> float:
        """Return tonight's figure: of the runs and their reruns, where it was run again."""
        again = self.nights.again[last]
        return float(np.exp(sign * (again if np.isfinite(again) else self.outcome.cells.value[k])))

    def _is_new(self, k: int, last: int) -> bool:
        episode = self.outcome.cells.lasting.get(k)
        return bool(episode) and bool(episode.detected == self.outcome.column[last])

    def _few(self, k: int, last: int) -> str:
        cells, first = self.outcome.cells, int(self.nights.start[k])
        own = self.nights.value[first:last + 1]
        if not np.isfinite(own[-1]) or not np.isfinite(own).any():
            return 'a figure is 0 or below: a change has no measure'
        if cells.began[k]:
            event = f'{_BEGAN[cells.began[k]]} of {self._label(k, cells.since[k])}'
            return f'{_nights(int(cells.nights[k]))} since {event}: judging resumes after {rule.AFTER}'
        return f'{_nights(int(np.isfinite(own).sum()))} of history: judging begins on night {FIRST + 1}'

    def _word(self, k: int, sign: int, state: int, last: int, seen: float | None) -> tuple[Word, str]:
        cells = self.outcome.cells
        episode, since = cells.lasting.get(k), cells.since[k]
        if episode and state in (rule.SLOW, rule.FAST, rule.COMES):
            return ('improved' if state == rule.FAST else 'regressed'), self._episode(k, sign, last)
        off = (cells.value[k] - cells.base[k])
        said = f'tonight is {_off(_share(off, sign), off)} the level of {_nights(int(cells.nights[k]))}'
        if cells.began[k]:
            said += f', which began with {_BEGAN[cells.began[k]]} of {self._label(k, since)}'
        if k in cells.comes:
            said += f'; {self._spells(k)}'
        said += f'; a slowdown shows from {percent(seen)} on' if seen < 1 else '; no slowdown would show'
        said += f': {reason}' if seen > WANTED and (reason := self._noise(k, last)) else ''
        if episode and episode.depth < 0:
            said += (f'; what began on {self._label(k, episode.begin)} is not over: it ends with a second night '
                     'like this one')
        return ('ok' if seen <= WANTED else 'blind'), said

    def _spells(self, k: int) -> str:
        spells, since = self.outcome.cells.comes[k]
        return f'comes and goes: {spells} spells since {self._label(k, since)}'

    def _noise(self, k: int, last: int) -> str:
        """Say why a slowdown of WANTED would not show: two modes, a wild time, or nights that scatter."""
        first = int(self.nights.start[k])
        at = (first + np.flatnonzero(np.isfinite(self.nights.value[first:last + 1])))[-rule.MEMORY:]
        x = self.nights.value[at]
        ordered = np.sort(x)
        gaps = np.diff(ordered)[_MODE - 1:1 - _MODE]
        if len(gaps):                     # of two modes that are MODE nights each at least, the widest gap
            i = _MODE + int(gaps.argmax())
            low, gap = x < ordered[i], float(np.median(ordered[i:]) - np.median(ordered[:i]))
            spells = int((np.diff(low.astype(int), prepend=0) > 0).sum())
            if spells >= _SPELLS and gap > max(WANTED, _APART * max(np.std(ordered[:i]), np.std(ordered[i:]))):
                return (f'since {self.labels[at[0]]} {counted(i, "night")} of {len(x)} '
                        f'{"was" if i == 1 else "were"} {percent(-math.expm1(-gap))} lower, in {spells} spells')
        scatter = np.abs(np.diff(x))
        calm = float(np.median(scatter[-_CALM:])) if len(scatter) > 2 * _CALM else math.inf
        wild = np.flatnonzero(scatter > _APART * max(calm, 1e-3))
        if len(wild) >= _SPELLS and calm * _APART < self.outcome.cells.scale[k]:
            return f'its nights of {self.labels[at[wild[0]]]} to {self.labels[at[wild[-1] + 1]]} were wild'
        return f'its nights scatter by {percent(-math.expm1(-float(self.outcome.cells.scale[k])))}'

    def _episode(self, k: int, sign: int, last: int) -> str:
        cells = self.outcome.cells
        found = cells.lasting[k]
        lasts = self._nights_since(k, found.begin, last)
        off = percent(_share(found.depth, sign))
        kind = 'better' if found.depth > 0 else 'worse'
        said = f'{kind} since {self._label(k, found.begin)} ({_nights(lasts)}): '
        were = f'{_nights(found.nights)} {"was" if found.nights == 1 else "were"}'
        said += f'{were} {off} {kind} than the level before'
        if found.again >= 0:
            said += f', back to the level before {self._label(k, found.again)}'
        said += f', {found.size:.1f} standard errors where {cells.bar[k]:.1f} are needed'
        if found.depth < 0 and abs(found.begin - cells.changed[k]) <= rule.WITHIN and cells.changed[k] >= 0:
            said += f'; {_CHANGED[cells.change[k]]} on {self._label(k, cells.changed[k])}'
        return said + (f'; {self._spells(k)}' if k in cells.comes else '')

    def _warnings(self, k: int, sign: int, last: int) -> Iterator[str]:
        effect, nights = self.outcome.cells.node[k], int(np.diff(self.nights.start)[k])
        if self.names is not None and np.isfinite(effect) and effect:
            yield (f'{self.names[self.node[last]]} is {percent(_share(effect, sign))} '
                   f'{"faster" if effect > 0 else "slower"} here than the other nodes: that is taken out')
        if left_out := int(np.isnan(self.nights.value[int(self.nights.start[k]):last]).sum()):
            yield f'{_nights(left_out)} with a figure of 0 or below: left out'
        if nights > rule.MOST:
            yield f'the newest {rule.MOST} of {nights} nights are judged'

    def _counted(self, k: int, state: int, last: int) -> Judgement:
        total = self.nights.total[int(self.nights.start[k]):last + 1]
        if state == rule.TOO_FEW:
            why = f'{_nights(len(total))} of counts: judging begins on night {rule.COUNTED + 1}'
            return Judgement('insufficient', why, value=float(total[-1]))
        usual = float(total[:-rule.STEPS].mean())
        newest = float(total[-rule.STEPS:].mean())
        why = (f'{total[-1]:g} tonight, {newest:.3g} a night in the last {rule.STEPS}, {usual:.3g} '
               'before (exact test of counts)')
        return Judgement('regressed' if state == rule.SLOW else 'ok', why, value=float(total[-1]), baseline=usual,
                         lasts=rule.STEPS)             # no night of counts alarms alone

    def _label(self, k: int, column: int) -> str:
        here = slice(int(self.nights.start[k]), int(self.nights.start[k + 1]))
        at = np.searchsorted(self.outcome.column[here], column)
        return self.labels[min(here.start + int(at), here.stop - 1)]


def _share(log: float, sign: int) -> float:
    """Return the change of a figure as a share: ``log`` is oriented, ``sign`` its direction."""
    return abs(math.expm1(sign * float(log)))


def _nights(n: int) -> str:
    return counted(n, 'night')


def _off(share: float, log: float) -> str:
    return 'at' if share < 0.0005 else f'{percent(share)} {"better" if log > 0 else "worse"} than'
