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
        episode = series.episode
        if episode and judgement.verdict in ('regressed', 'improved'):
            return _change(series, episode)
        return _level(judgement, series)
    accepted = judgement.beyond.value
    level = float(series.cells.now[series.k])
    lower = series.share(level - series.sign * math.log(accepted))
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
    if followed.nodes is not None and np.isfinite(effect) and effect:
        number = followed.nodes.number[series.last]
        node = followed.nodes.names[number]
        share = percent(series.share(effect))
        side = 'faster' if effect > 0 else 'slower'
        yield f'{node} is {share} {side} here than the other nodes: that is taken out'
    before = series.values[:-1]
    left_out = np.count_nonzero(np.isnan(before))
    if left_out:
        yield f'{_nights(left_out)} with a figure of 0 or below: left out'
    nights = len(series.values)
    if nights > rule.MOST:
        yield f'the newest {rule.MOST} of {nights} nights are judged'


def _of_counts(judgement: Judgement, series: Series) -> str:
    totals = series.totals
    if judgement.verdict == 'insufficient':
        nights = _nights(len(totals))
        return f'{nights} of counts: judging begins on night {rule.COUNTED + 1}'
    last_nights = totals[-rule.STEPS:]
    newest = float(last_nights.mean())
    tonight = f'{judgement.value:g} tonight'
    lately = f'{newest:.3g} a night in the last {rule.STEPS}'
    return f'{tonight}, {lately}, {judgement.baseline:.3g} before (exact test of counts)'


def _too_few(series: Series) -> str:
    finite = np.isfinite(series.values)
    if not finite[-1]:
        return 'a figure is 0 or below: a change has no measure'
    cells, k = series.cells, series.k
    event = cells.began[k]
    if not event:
        nights = _nights(int(finite.sum()))
        return f'{nights} of history: judging begins on night {FIRST + 1}'
    nights = _nights(int(cells.nights[k]))
    day = series.label(cells.since[k])
    return f'{nights} since {_BEGAN[event]} of {day}: judging resumes after {rule.AFTER}'


def _level(judgement: Judgement, series: Series) -> str:
    """Return the sentence on a night at the level, or on a good one of a slowdown that is not over."""
    cells, k, visible = series.cells, series.k, judgement.visible
    off = cells.value[k] - cells.base[k]
    share = series.share(off)
    side = 'better' if off > 0 else 'worse'
    where = 'at' if share < 0.0005 else f'{percent(share)} {side} than'
    nights = _nights(int(cells.nights[k]))
    level = f'tonight is {where} the level of {nights}'
    event = cells.began[k]
    if event:
        day = series.label(cells.since[k])
        level += f', which began with {_BEGAN[event]} of {day}'
    parts = [level]
    if k in cells.comes:
        parts.append(_spells(series))
    shows = 'no slowdown would show'
    if visible < 1:
        shows = f'a slowdown shows from {percent(visible)} on'
    if visible > WANTED:
        shows += f': {_noise(series)}'
    parts.append(shows)
    episode = series.episode
    if episode and episode.depth < 0:
        begin = series.label(episode.begin)
        parts.append(f'what began on {begin} is not over: it ends with a second night like this one')
    return '; '.join(parts)


def _change(series: Series, episode: rule.Episode) -> str:
    """Return the sentence on a slowdown or an improvement."""
    cells, k = series.cells, series.k
    kind = 'better' if episode.depth > 0 else 'worse'
    begin = series.label(episode.begin)
    lasts = _nights(series.nights_since(episode.begin))
    nights = _nights(episode.nights)
    share = percent(series.share(episode.depth))
    text = f'{kind} since {begin} ({lasts}): {nights} were {share} {kind} than the level before'
    if episode.again >= 0:
        again = series.label(episode.again)
        text += f', back to the level before {again}'
    needed = cells.bar[k]
    parts = [f'{text}, {episode.size:.1f} standard errors where {needed:.1f} are needed']
    changed = int(cells.changed[k])
    is_near = changed >= 0 and abs(episode.begin - changed) <= rule.WITHIN
    if is_near and episode.depth < 0:
        change = _CHANGED[cells.change[k]]
        parts.append(f'{change} on {series.label(changed)}')
    if k in cells.comes:
        parts.append(_spells(series))
    return '; '.join(parts)


def _spells(series: Series) -> str:
    spells, since = series.cells.comes[series.k]
    return f'comes and goes: {spells} spells since {series.label(since)}'


# ---- what hides a slowdown

def _noise(series: Series) -> str:
    """Return why a slowdown of WANTED would not show: two modes, a wild time, or nights that scatter."""
    finite = np.flatnonzero(np.isfinite(series.values))
    newest = finite[-rule.MEMORY:]
    x = series.values[newest]
    labels = series.followed.labels[series.first:series.last + 1]
    scale = float(series.cells.scale[series.k])
    modes = _two_modes(x)
    if modes:
        since = labels[newest[0]]
        return f'since {since} {modes}'
    wild = _wild_time(x, scale)
    if wild:
        first, last = newest[list(wild)]
        return f'its nights of {labels[first]} to {labels[last]} were wild'
    return f'its nights scatter by {_lower(scale)}'


def _two_modes(x: np.ndarray) -> str:
    """Return how many of the nights ``x`` were lower, where they have two modes; '' where they have one."""
    ordered = np.sort(x)
    all_gaps = ordered[1:] - ordered[:-1]
    gaps = all_gaps[_MODE - 1:1 - _MODE]        # with _MODE nights on each side
    if not len(gaps):
        return ''
    many = _MODE + int(gaps.argmax())           # nights of the lower mode
    lower, upper = ordered[:many], ordered[many:]
    gap = _middle(upper) - _middle(lower)
    widest = max(np.std(lower), np.std(upper))
    if gap <= WANTED or gap <= _APART * widest:
        return ''
    is_low = (x < upper[0]).astype(int)
    begins = np.diff(is_low, prepend=0) > 0
    spells = int(begins.sum())
    if spells < _SPELLS:
        return ''
    nights = _nights(many)
    return f'{nights} of {len(x)} were {_lower(gap)} lower, in {spells} spells'


def _wild_time(x: np.ndarray, scale: float) -> tuple[int, int] | None:
    """Return the first and the last of the nights ``x`` that were wild, where the newest are calm; else None."""
    steps = np.abs(x[1:] - x[:-1])
    if len(steps) <= 2 * _CALM:
        return None
    newest_steps = np.sort(steps[-_CALM:])
    calm = _middle(newest_steps)
    if calm * _APART >= scale:
        return None
    is_wild = steps > _APART * max(calm, 1e-3)
    wild = np.flatnonzero(is_wild)
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
