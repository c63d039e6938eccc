"""Series judged night after night, each with only what was known on that night.

A slowdown that was found stays out of the baseline as long as it lasts, so that it does not become normal. An
improvement becomes the baseline once it has lasted long enough to be one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parity.stats.noise import Nights, Noise, Rules, Values, of_history, place, windows

#: The state of a night.
TOO_FEW, QUIET, SLOW, FAST = -1, 0, 1, 2
#: So many nights that are back in order end a slowdown, or an improvement.
_BACK = 2
#: Nights that are looked at in one go after the first episode.
_AHEAD = 4096
#: No rule can speak unless the last three nights are in this lowest (or highest) share of the window, or tonight
#: is in that one: the exact p forbid it. Nights outside both, the most, need no model of the noise.
_THREE, _TONIGHT = 0.2, 0.04


@dataclass
class Episode:
    """Nights that are slower (or faster) than the history before them."""

    begin: int               # its first night
    found: int               # the night on which it was found
    state: int               # SLOW or FAST
    rule: int                # 1, 2, 3: so many nights; 0: the last nights against the first ones
    baseline: float          # what it was found against, oriented
    change: float            # relative, negative for slower
    least: float             # relative, what the mean of the last nights must at least have changed by
    p: float                 # exact p of the last three nights


@dataclass
class Outcome:
    """``state`` and ``kept`` (part of the baseline) of each night."""

    state: np.ndarray
    kept: np.ndarray
    base: np.ndarray          # where the baseline of each series begins
    lasting: dict[int, Episode] = field(default_factory=dict)       # by series: what is not over on its last night


@dataclass(frozen=True)
class _Kept:
    """The nights that are part of a baseline or still to be judged, series after series."""

    night: np.ndarray        # where each stands among all nights
    start: np.ndarray
    value: np.ndarray
    within: np.ndarray
    again: np.ndarray        # bool: it was run again
    elsewhere: np.ndarray    # bool: on another node, too
    open: np.ndarray         # bool: still to be judged
    level: np.ndarray        # [series] median of the first nights of the baseline; NaN: too few, or 0
    age: np.ndarray          # [series] nights of the baseline that are older than those here


def follow(nights: Nights, values: Values, rules: Rules) -> Outcome:
    """Judge every night of every series."""
    start = nights.start
    state = np.where(place(start) < rules.least + rules.last - 1, TOO_FEW, QUIET)
    outcome = Outcome(state, np.ones(len(state), dtype=bool), start[:-1].copy())
    onward = start[:-1].copy()              # the next night to judge, of each series
    active, ahead = np.arange(len(onward)), len(state)
    while len(active):
        until = np.minimum(onward[active] + ahead, start[active + 1])
        found = _first(_kept(nights, values, rules, outcome, active, onward[active], until), rules)
        onward[active] = until
        for k, episode in found.items():
            series = int(active[k])
            onward[series] = _lived(values.value, rules, outcome, series, episode, int(start[series + 1]))
        active, ahead = active[onward[active] < start[active + 1]], _AHEAD
    return outcome


def _kept(nights: Nights, values: Values, rules: Rules, outcome: Outcome, active, onward, until) -> _Kept:
    """Gather the nights of the active series' baselines that a rule looks at, and the open ones."""
    looked_at, begin = rules.window + rules.last + rules.drift, rules.least + rules.last
    rows, start, age = [], [0], []
    level = np.full(len(active), np.nan)
    for k, (series, now, end) in enumerate(zip(active, onward, until, strict=True)):
        base = outcome.base[series]
        past = base + np.flatnonzero(outcome.kept[base:now])
        ahead = np.arange(now, end)
        first = np.concatenate((past[:begin], ahead[:max(0, begin - len(past))]))
        if len(first) == begin:
            level[k] = np.median(values.value[first]) or np.nan
        rows += [past[-looked_at:], ahead]
        age.append(max(0, len(past) - looked_at))
        start.append(start[-1] + min(len(past), looked_at) + len(ahead))
    night, start = np.concatenate(rows), np.array(start)
    return _Kept(night, start, values.value[night], values.within[night], nights.reruns.count[night] > 0,
                 nights.elsewhere[night], night >= np.repeat(onward, np.diff(start)), level, np.array(age))


def _lived(value: np.ndarray, rules: Rules, outcome: Outcome, series: int, episode: Episode, end: int) -> int:
    """Note how long the episode lasted; return the night to judge next.

    A night belongs to it on two conditions. It is nearer to the found level than to the one before, and the last
    nights together are still clear of the noise. It is over when `_BACK` nights in a row are back; an
    improvement of a whole history's length is the new baseline."""
    enough = rules.least + rules.last - 1
    stop = min(end, episode.begin + enough) if episode.state == FAST else end
    side, span = (1 if episode.state == FAST else -1), rules.last if episode.rule else rules.drift
    moved = side * (value[episode.found + 2 - span:stop] - episode.baseline) / abs(episode.baseline)
    total = np.append(0.0, np.cumsum(moved))
    near = moved[span - 1:] > side * episode.change / 2
    within = near & ((total[span:] - total[:-span]) / span > episode.least)
    back = np.flatnonzero(~near[1:] & ~near[:-1])
    lasted = int(back[0]) if len(back) else len(near)       # nights after the one that found it
    inside = episode.found + 1 + np.flatnonzero(within[:lasted])
    outcome.state[episode.found], outcome.state[inside] = episode.state, episode.state
    if not len(back) and stop < end:                           # an improvement that has lasted
        outcome.base[series] = episode.begin
        return stop
    outcome.kept[episode.begin:episode.found + 1] = False
    outcome.kept[inside] = False
    if not len(back):
        outcome.lasting[series] = episode
        return end
    return episode.found + lasted + _BACK


def _first(kept: _Kept, rules: Rules) -> dict[int, Episode]:
    """Return the first episode of each series, if any, by the series' number."""
    drifted = _drifted(kept, rules)
    found = [np.empty((0, 7))]
    for rows, window in windows(kept.start, kept.value, rules, rules.least, rules.last - 1, kept.open):
        three = kept.value[rows[:, None] - np.arange(rules.last)]
        low = (_share(window <= three.max(axis=1, keepdims=True)) <= _THREE) | \
            (_share(window <= three[:, :1]) <= _TONIGHT) | (drifted[rows] < -rules.drift_effect)
        high = _share(window >= three.min(axis=1, keepdims=True)) <= _THREE
        found += [_changed(kept, rules, rows[those], window[those], state, drifted)
                  for those, state in ((low, SLOW), (high, FAST))]
    table = np.concatenate(found)
    table = table[np.argsort(table[:, 0], kind='stable')]
    rows = table[:, 0].astype(int)
    begin = rows - np.where(table[:, 2], table[:, 2], rules.drift).astype(int) + 1
    series, at = np.unique(np.searchsorted(kept.start, rows, side='right') - 1, return_index=True)
    return {int(k): Episode(int(kept.night[begin[i]]), int(kept.night[rows[i]]), *map(int, table[i, 1:3]),
                            *table[i, 3:].tolist()) for k, i in zip(series, at, strict=True)}


def _share(true: np.ndarray) -> np.ndarray:
    return np.count_nonzero(true, axis=1) / true.shape[1]


def _drifted(kept: _Kept, rules: Rules) -> np.ndarray:
    """Return how far the mean of the last nights is from the level of the first ones, relative [nights].

    NaN where there are too few nights for both, or the level is 0. A few bad nights move the mean, so a rule
    asks for their median, too."""
    length, here = np.diff(kept.start), place(kept.start)
    enough = (here + np.repeat(kept.age, length) >= rules.least + rules.last + rules.drift - 1) & \
        (here >= rules.drift - 1)
    total = np.append(0.0, np.cumsum(kept.value))
    level = np.repeat(kept.level, length)
    known = np.flatnonzero(enough & np.isfinite(level))
    last = (total[known + 1] - total[known + 1 - rules.drift]) / rules.drift
    change = np.full(len(level), np.nan)
    change[known] = (last - level[known]) / np.abs(level[known])
    return change


def _changed(kept: _Kept, rules: Rules, rows: np.ndarray, window: np.ndarray, state: int,
             drifted: np.ndarray) -> np.ndarray:
    """Return the ``rows`` on which a rule speaks: row, state, rule, baseline, change, least, p [found, 7].

    For FAST the rules are upside down: nothing is run again for being faster, and nothing drifts."""
    slower = state == SLOW
    side, n, lag = 1 if slower else -1, window.shape[1], rules.last - 1
    within = np.lib.stride_tricks.sliding_window_view(kept.within, n)[rows - lag - n]
    noise = of_history(side * window, within, rules)
    needed = bar(noise, rules)
    last = side * kept.value[rows[:, None] - np.arange(rules.last)]
    again, elsewhere = kept.again[rows] & slower, kept.elsewhere[rows] & slower
    fired, change, p = _judged(noise, needed, last, again, elsewhere, rules)
    chosen, baseline = fired > 0, noise.median
    least = needed * noise.spread * np.sqrt(1 / 3 + 1 / n)
    if slower:
        level = kept.level[np.searchsorted(kept.start, rows, side='right') - 1]
        beyond = np.fmax(rules.drift_effect, rules.drift_share * needed * noise.spread)
        far = ~chosen & (drifted[rows] < -beyond)
        ten = np.median(kept.value[rows[far][:, None] - np.arange(rules.drift)], axis=1)
        far[far] = (ten - level[far]) / np.abs(level[far]) < -beyond[far]
        chosen |= far
        baseline, change, least, p = (np.where(far, one, other) for one, other in (
            (level, baseline), (drifted[rows], change), (beyond, least), (np.nan, p)))
    states = np.full(len(rows), state)
    return np.column_stack((rows, states, fired, side * baseline, side * change, least, p))[chosen]


def bar(noise: Noise, rules: Rules) -> np.ndarray:
    """Return the standard errors that a drop of three nights must be clear of [B].

    The number grows if nights depend on one another or the lower tail is long."""
    shared = noise.shared > rules.shared
    lag = np.where(shared, noise.lag, noise.lag - rules.runs_lag)
    lag = lag + rules.unsettled * (noise.nights ** -0.5 - rules.settled ** -0.5)
    needed = np.interp(lag, rules.lags, rules.bars) * np.where(shared, 1, rules.runs)
    return needed * (1 + rules.skew * np.fmax(0, -noise.skew)) * rules.tighter


def _judged(noise: Noise, needed: np.ndarray, last: np.ndarray, confirmed: np.ndarray, elsewhere: np.ndarray,
            rules: Rules) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hold the last nights ``last`` [B, 3], tonight first, against the history that ended before them.

    Return the number of nights that the rule that speaks has looked at (0: none speaks), the relative change of
    their mean, and the exact p of the last three nights.

    ``confirmed`` [B]: tonight was run again; ``elsewhere`` [B]: on another node as well. One night alone
    is believed where no slow node can explain it: elsewhere, at a large drop, or after a long history
    without a slow night. Two nights need a rerun, too; three do not."""
    middle, n = noise.median[:, None], noise.nights
    d = (last - middle) / np.where(middle == 0, np.nan, np.abs(middle))
    change = np.cumsum(d, axis=1) / (1, 2, 3)
    highest = np.maximum.accumulate(d, axis=1)
    below = [(noise.relative <= highest[:, [k]] + 1e-12).sum(axis=1) for k in range(3)]
    # a low night leaves phi, phi^2, phi^3 in the next ones, where phi is the dependence on the night before
    phi = np.clip(np.where(noise.shared > rules.shared, noise.lag, 0), 0, 0.9)
    low = np.clip(noise.relative[:, -1], -2.5 * noise.spread, 2.5 * noise.spread)
    clear = [(low * sum(phi ** j for j in range(1, k + 1)) / k - change[:, k - 1])
             / (noise.spread * np.sqrt(1 / k + 1 / n)) for k in (1, 2, 3)]
    p = exact(below[2], 3, n)
    none_slow = noise.slow == 0
    believed = elsewhere | (d[:, 0] < -rules.at_once) | (n >= rules.long)
    with np.errstate(invalid='ignore'):
        one = ((clear[0] > rules.one * needed) & (below[0] == 0) & believed & confirmed
               & (elsewhere | none_slow & (d[:, 0] < rules.worst * noise.worst)) & (d[:, 0] < -rules.least_one))
        two = ((clear[1] > rules.two * needed) & (exact(below[1], 2, n) <= rules.exact_two) & confirmed
               & (none_slow | (highest[:, 1] < rules.worst_two * noise.worst))
               & (change[:, 1] < -1.5 * rules.effect))
        three = ((clear[2] > needed) & (p <= np.where(none_slow, rules.exact, rules.exact_slow))
                 & (none_slow | _unseen(noise, d, rules)) & (change[:, 2] < -rules.effect))
        tonight = d[:, 0] < -rules.effect
    fired = np.where(tonight, np.where(one, 1, np.where(two, 2, np.where(three, 3, 0))), 0)
    return fired, change[np.arange(len(d)), np.fmax(0, fired - 1)], p


def exact(below, k: int, n: int):
    """Return the exact p that the best of ``k`` exchangeable nights is above at most ``below`` of ``n`` others.

    C(below + k, k) / C(n + k, k): of all choices of k nights among n + k, those within the lowest below + k."""
    ways, of = np.ones(np.shape(below)), 1.0
    for j in range(1, k + 1):
        ways, of = ways * (below + j) / j, of * (n + j) / j
    return ways / of


def _unseen(noise: Noise, d: np.ndarray, rules: Rules) -> np.ndarray:
    """Decide, in a history with slow nights, if the last three are all slow, and more often than chance allows.

    Either they lie below every night seen, or at a level where so few nights were that three in a row are no
    chance."""
    edge = noise.core[:, None] / 2
    level = (noise.relative >= d.min(axis=1, keepdims=True) - edge) & \
        (noise.relative <= d.max(axis=1, keepdims=True) + edge)
    rare = ((level.sum(axis=1) + 1) / (noise.nights + 2)) ** 3 < rules.seen
    return (d.max(axis=1) < -2.2 * noise.core) & (rare | (d.max(axis=1) < noise.worst))
