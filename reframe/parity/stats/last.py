"""Series judged night after night, each with only what was known on that night.

A slowdown that has been found is left out of the baseline for as long as it lasts, so that it is not
adopted as normal. An improvement becomes the baseline once it has lasted long enough to be one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from parity.stats import search
from parity.stats.nights import Nights, Values, place
from parity.stats.noise import Noise, Rules, of_history
from parity.stats.search import FAST, QUIET, TOO_FEW, Episode, Kept, first

#: So many nights that are back in order end a slowdown, or an improvement.
_BACK = 2
#: Nights that are looked at in one go after the first episode.
_AHEAD = 4096


@dataclass
class Outcome:
    """``state`` and ``kept`` (part of the baseline) of each night, and the episodes of each series."""

    state: np.ndarray
    kept: np.ndarray
    base: np.ndarray          # where the baseline of each series begins
    episodes: dict[int, list[Episode]] = field(default_factory=dict)


def follow(nights: Nights, values: Values, rules: Rules) -> Outcome:
    """Judge every night of every series."""
    start = nights.start
    state = np.where(place(start) < rules.least + rules.last - 1, TOO_FEW, QUIET)
    outcome = Outcome(state, np.ones(len(state), dtype=bool), start[:-1].copy())
    onward = start[:-1].copy()              # the next night to judge, of each series
    active, ahead = np.arange(len(onward)), len(state)
    while len(active):
        until = np.minimum(onward[active] + ahead, start[active + 1])
        found = first(_kept(nights, values, rules, outcome, active, onward[active], until), rules)
        onward[active] = until
        for k, episode in found.items():
            series = int(active[k])
            onward[series] = _lived(values.value, rules, outcome, series, episode, int(start[series + 1]))
        active, ahead = active[onward[active] < start[active + 1]], _AHEAD
    return outcome


def _kept(nights: Nights, values: Values, rules: Rules, outcome: Outcome, active, onward, until) -> Kept:
    """What the active series are judged on: nights of their baselines that a rule looks at, and the open ones."""
    looked_at, begin = rules.window + rules.last + rules.drift, rules.least + rules.last
    rows, start, age = [], [0], []
    level, known, firsts = np.full(len(active), np.nan), [], []
    for k, (series, now, end) in enumerate(zip(active, onward, until, strict=True)):
        base = outcome.base[series]
        past = base + np.flatnonzero(outcome.kept[base:now])
        ahead = np.arange(now, end)
        first = np.concatenate((past[:begin], ahead[:max(0, begin - len(past))]))
        if len(first) == begin:
            known.append(k)
            firsts.append(first)
        rows += [past[-looked_at:], ahead]
        age.append(max(0, len(past) - looked_at))
        start.append(start[-1] + min(len(past), looked_at) + len(ahead))
    if known:
        level[known] = np.median(values.value[np.array(firsts)], axis=1)
    night = np.concatenate(rows)
    start = np.array(start)
    return Kept(night, start, values.value[night], values.within[night], nights.reruns.count[night] > 0,
                nights.elsewhere[night], night >= np.repeat(onward, np.diff(start)), level, np.array(age))


def _lived(value: np.ndarray, rules: Rules, outcome: Outcome, series: int, episode: Episode, end: int) -> int:
    """Note how long the episode lasted; the night to judge next.

    A night belongs to it while it is nearer to the level that was found than to the one before, and the last
    nights together are still clear of the noise. It is over when `_BACK` nights in a row are back; an
    improvement of a whole history's length is the new baseline."""
    outcome.episodes.setdefault(series, []).append(episode)
    enough = rules.least + rules.last - 1
    stop = min(end, episode.begin + enough) if episode.state == FAST else end
    side, span = (1 if episode.state == FAST else -1), rules.last if episode.rule else rules.drift
    moved = side * (value[episode.found + 2 - span:stop] - episode.baseline) / abs(episode.baseline)
    total = np.append(0.0, np.cumsum(moved))
    together = (total[span:] - total[:-span]) / span
    near = moved[span - 1:] > side * episode.change / 2
    within = near & (together > episode.least)
    back = np.flatnonzero(~near[1:] & ~near[:-1])
    lasted = int(back[0]) if len(back) else len(near)       # nights after the one that found it
    inside = episode.found + 1 + np.flatnonzero(within[:lasted])
    outcome.state[episode.found], outcome.state[inside] = episode.state, episode.state
    if not len(back) and stop < end:                           # an improvement that has lasted
        outcome.base[series], episode.end = episode.begin, stop
        return stop
    outcome.kept[episode.begin:episode.found + 1] = False
    outcome.kept[inside] = False
    if not len(back):
        return end
    episode.end = episode.found + 1 + lasted
    return episode.end + _BACK - 1


#: A history of fewer nights than this has no spread to speak of.
_SOME = 5


@dataclass(frozen=True)
class Last:
    """One series on its last night; relative figures are fractions of ``baseline``, below 0 for worse."""

    state: int
    night: int               # its place among all nights
    nights: int              # length of the history it is held against
    value: float             # of tonight, oriented: higher is better
    suspicious: bool
    again: bool              # tonight was run again
    baseline: float = float('nan')
    spread: float = float('nan')
    three: float = float('nan')   # relative, mean of the last three nights
    bar: float = float('nan')
    lag: float = 0.0
    shared: float = 1.0
    slow: int = 0
    resolution: float = 0.0
    episode: Episode | None = None

    @property
    def change(self) -> float:
        return (self.value - self.baseline) / abs(self.baseline) if self.baseline else float('nan')

    @property
    def least(self) -> float:
        """The change that three nights must be clear of, relative."""
        return self.bar * self.spread * (1 / 3 + 1 / max(1, self.nights)) ** 0.5


def of_series(nights: Nights, values: Values, outcome: Outcome, rules: Rules) -> list[Last]:
    """The last night of every series."""
    windows = [_window(nights, outcome, k, rules) for k in range(len(nights.start) - 1)]
    found = [_bare(nights, values, outcome, k, len(window)) for k, window in enumerate(windows)]
    by_length: dict[int, list[int]] = {}
    for k, window in enumerate(windows):
        by_length.setdefault(len(window), []).append(k)
    for n, series in by_length.items():
        if n < _SOME:
            continue
        rows = np.array([windows[k] for k in series])
        noise = of_history(values.value[rows], values.within[rows], rules)
        needed = search.bar(noise, rules)
        for i, k in enumerate(series):
            first = max(int(nights.start[k]), found[k].night - 2)
            three = values.value[first:found[k].night + 1].mean()
            found[k] = _known(found[k], float(three), noise, float(needed[i]), i)
    return found


def _window(nights: Nights, outcome: Outcome, k: int, rules: Rules) -> np.ndarray:
    """The nights that the last one is held against."""
    end = int(nights.start[k + 1])
    episode = _lasting(outcome, k)
    until = episode.begin if episode else end
    rows = outcome.base[k] + np.flatnonzero(outcome.kept[outcome.base[k]:until])
    rows = rows if episode else rows[:-rules.last]
    return rows[-rules.window:]


def _lasting(outcome: Outcome, k: int) -> Episode | None:
    episodes = outcome.episodes.get(k, [])
    return episodes[-1] if episodes and episodes[-1].end is None else None


def _bare(nights: Nights, values: Values, outcome: Outcome, k: int, n: int) -> Last:
    night = int(nights.start[k + 1]) - 1
    return Last(int(outcome.state[night]), night, n, float(values.value[night]), bool(values.suspicious[night]),
                bool(nights.reruns.count[night]), episode=_lasting(outcome, k))


def _known(bare: Last, three: float, noise: Noise, bar: float, i: int) -> Last:
    baseline = float(noise.median[i])
    alike = {name: getattr(noise, name)[i].item() for name in ('spread', 'lag', 'shared', 'slow', 'resolution')}
    return replace(bare, baseline=baseline, bar=bar, **alike,
                   three=(three - baseline) / abs(baseline) if baseline else float('nan'))
