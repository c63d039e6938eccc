"""The reasons of a judgement in words: what the nights before say of tonight."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from parity.base.figures import counted, percent
from parity.judge.stats import rule
from parity.judge.stats.bounds import FIRST, WANTED
from parity.judge.stats.judgement import Judgement, Series

_BEGAN = {'accepted': 'the value accepted', 'level': 'the level begun by hand', 'work': 'other work',
          'software': 'the software change', 'hardware': 'the change of hardware',
          'maintenance': 'the maintenance', 'improved': 'the improvement'}
_CHANGED = {'software': 'the software changed', 'hardware': 'the hardware changed',
            'maintenance': 'maintenance was'}
#: Two modes: nights of each, at least; times of the lower one; their distance in standard deviations. A calm end
#: is so many nights.
_MODE, _SPELLS, _APART, _CALM = 4, 3, 4.0, 15


def why(judgement: Judgement) -> str:
    """Return why a judgement has its word; '' where no history judges the cell."""
    series = judgement.series
    if series is None:
        return ''
    if series.is_count:
        return _of_counts(judgement, series)
    if judgement.verdict == 'insufficient':
        return _too_few(series)
    if judgement.beyond is None:
        found = series.episode if judgement.verdict in ('regressed', 'improved') else None
        return _change(series, found) if found else _level(judgement, series)
    accepted = judgement.beyond.value
    lower = series.share(float(series.cells.now[series.k]) - series.sign * math.log(accepted))
    beyond = (f'the level of the last nights is {percent(lower)} worse than the accepted {accepted:.4g}, '
              'beyond its bound')
    if judgement.verdict == 'regressed':
        return beyond
    return f'{_level(judgement, series)}; {beyond}: tonight is within it'


def warnings(judgement: Judgement) -> Iterator[str]:
    """Yield what a person should know of the nights that a judgement stands on."""
    series = judgement.series
    if judgement.verdict == 'insufficient' or series is None or series.is_count:
        return
    followed = series.followed
    effect = series.cells.node[series.k]
    if followed.node is not None and np.isfinite(effect) and effect:
        node = followed.node_names[followed.node[series.last]]
        side = 'faster' if effect > 0 else 'slower'
        yield f'{node} is {percent(series.share(effect))} {side} here than the other nodes: that is taken out'
    left_out = np.count_nonzero(np.isnan(series.values[:-1]))
    if left_out:
        yield f'{_nights(left_out)} with a figure of 0 or below: left out'
    nights = len(series.values)
    if nights > rule.MOST:
        yield f'the newest {rule.MOST} of {nights} nights are judged'


def _of_counts(judgement: Judgement, series: Series) -> str:
    totals = series.totals
    if judgement.verdict == 'insufficient':
        return f'{_nights(len(totals))} of counts: judging begins on night {rule.COUNTED + 1}'
    newest = float(totals[-rule.STEPS:].mean())
    return (f'{judgement.value:g} tonight, {newest:.3g} a night in the last {rule.STEPS}, '
            f'{judgement.baseline:.3g} before (exact test of counts)')


def _too_few(series: Series) -> str:
    finite = np.isfinite(series.values)
    if not finite[-1]:
        return 'a figure is 0 or below: a change has no measure'
    event = series.cells.began[series.k]
    if not event:
        return f'{_nights(int(finite.sum()))} of history: judging begins on night {FIRST + 1}'
    began = f'{_BEGAN[event]} of {series.label(series.cells.since[series.k])}'
    return f'{_nights(int(series.cells.nights[series.k]))} since {began}: judging resumes after {rule.AFTER}'


def _level(judgement: Judgement, series: Series) -> str:
    """Return the sentence on a night at the level, or on a good one of a slowdown that is not over."""
    cells, k, visible = series.cells, series.k, judgement.visible
    off = cells.value[k] - cells.base[k]
    share = series.share(off)
    if share < 0.0005:
        beside = 'at'
    else:
        beside = f'{percent(share)} {"better" if off > 0 else "worse"} than'
    text = f'tonight is {beside} the level of {_nights(int(cells.nights[k]))}'
    if cells.began[k]:
        text += f', which began with {_BEGAN[cells.began[k]]} of {series.label(cells.since[k])}'
    parts = [text]
    if k in cells.comes:
        parts.append(_spells(series))
    shows = f'a slowdown shows from {percent(visible)} on' if visible < 1 else 'no slowdown would show'
    parts.append(f'{shows}: {_noise(series)}' if visible > WANTED else shows)
    episode = series.episode
    if episode and episode.depth < 0:
        parts.append(f'what began on {series.label(episode.begin)} is not over: it ends with a second night like '
                     'this one')
    return '; '.join(parts)


def _change(series: Series, episode: rule.Episode) -> str:
    """Return the sentence on a slowdown or an improvement."""
    cells, k = series.cells, series.k
    kind = 'better' if episode.depth > 0 else 'worse'
    lasts = _nights(series.nights_since(episode.begin))
    text = (f'{kind} since {series.label(episode.begin)} ({lasts}): {_nights(episode.nights)} were '
            f'{percent(series.share(episode.depth))} {kind} than the level before')
    if episode.again >= 0:
        text += f', back to the level before {series.label(episode.again)}'
    parts = [f'{text}, {episode.size:.1f} standard errors where {cells.bar[k]:.1f} are needed']
    changed = int(cells.changed[k])
    if episode.depth < 0 and changed >= 0 and abs(episode.begin - changed) <= rule.WITHIN:
        parts.append(f'{_CHANGED[cells.change[k]]} on {series.label(changed)}')
    if k in cells.comes:
        parts.append(_spells(series))
    return '; '.join(parts)


def _spells(series: Series) -> str:
    spells, since = series.cells.comes[series.k]
    return f'comes and goes: {spells} spells since {series.label(since)}'


# ---- what hides a slowdown

def _noise(series: Series) -> str:
    """Return why a slowdown of WANTED would not show: two modes, a wild time, or nights that scatter."""
    newest = np.flatnonzero(np.isfinite(series.values))[-rule.MEMORY:]
    x = series.values[newest]
    labels = series.followed.labels[series.first:series.last + 1]
    scale = float(series.cells.scale[series.k])
    modes = _two_modes(x)
    if modes:
        return f'since {labels[newest[0]]} {modes}'
    wild = _wild_time(x, scale)
    if wild:
        first, last = wild
        return f'its nights of {labels[newest[first]]} to {labels[newest[last]]} were wild'
    return f'its nights scatter by {_lower(scale)}'


def _two_modes(x: np.ndarray) -> str:
    """Return how many of the nights ``x`` were lower, where they have two modes; '' where they have one."""
    ordered = np.sort(x)
    gaps = (ordered[1:] - ordered[:-1])[_MODE - 1:1 - _MODE]
    if not len(gaps):
        return ''
    many = _MODE + int(gaps.argmax())           # nights of the lower mode
    lower, upper = ordered[:many], ordered[many:]
    gap = _middle(upper) - _middle(lower)
    if gap <= WANTED or gap <= _APART * max(np.std(lower), np.std(upper)):
        return ''
    is_low = (x < upper[0]).astype(int)
    spells = int((np.diff(is_low, prepend=0) > 0).sum())
    if spells < _SPELLS:
        return ''
    return f'{_nights(many)} of {len(x)} were {_lower(gap)} lower, in {spells} spells'


def _wild_time(x: np.ndarray, scale: float) -> tuple[int, int] | None:
    """Return the first and the last of the nights ``x`` that were wild, where the newest are calm; else None."""
    steps = np.abs(x[1:] - x[:-1])
    if len(steps) <= 2 * _CALM:
        return None
    calm = _middle(np.sort(steps[-_CALM:]))
    if calm * _APART >= scale:
        return None
    wild = np.flatnonzero(steps > _APART * max(calm, 1e-3))
    if len(wild) < _SPELLS:
        return None
    return wild[0], wild[-1] + 1


def _middle(ordered: np.ndarray) -> float:
    """Return the median (numpy's is slow on few values)."""
    n = len(ordered)
    return float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)


def _lower(gap: float) -> str:
    """Return a difference of logarithms in percent of the higher value."""
    return percent(-math.expm1(-gap))


def _nights(n: int) -> str:
    return counted(n, 'night')
