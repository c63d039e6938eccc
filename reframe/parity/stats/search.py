"""The first night of each series on which a rule speaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats.nights import before, place, rows_by_length
from parity.stats.noise import Noise, Rules, of_history

#: What is known of a night.
TOO_FEW, QUIET, SLOW, FAST = -1, 0, 1, 2
#: No rule can speak unless the last three nights are in this lowest (or highest) share of the window, or tonight
#: is in that one: the exact p forbid it. Nights outside both, most of them, need no model of the noise.
_THREE, _TONIGHT = 0.2, 0.04


@dataclass
class Episode:
    """Nights that are slower (or faster) than the history before them."""

    state: int               # SLOW or FAST
    begin: int               # its first night
    found: int               # the night on which it was found
    rule: int                # 1, 2, 3: so many nights; 0: the last nights against the first ones
    baseline: float          # what it was found against, oriented
    change: float            # relative, negative for slower
    least: float             # relative, what the mean of the last nights must at least have changed by
    p: float                 # exact p of the last three nights
    end: int | None = None   # the night that ended it; None: it lasts


@dataclass(frozen=True)
class Kept:
    """The nights that are part of a baseline or still to be judged, series after series."""

    night: np.ndarray        # where each stands among all nights
    start: np.ndarray
    value: np.ndarray
    within: np.ndarray
    again: np.ndarray        # bool: it was run again
    elsewhere: np.ndarray    # bool: on another node, too
    open: np.ndarray         # bool: still to be judged
    level: np.ndarray        # [series] median of the first nights of the baseline; NaN: too few
    age: np.ndarray          # [series] nights of the baseline that are older than those here


def first(kept: Kept, rules: Rules) -> dict[int, Episode]:
    """The first episode of each series, if any, by the series' number."""
    level, drifted = drift(kept, rules)
    found = []
    for n, rows in rows_by_length(kept.start, rules.window, rules.least, rules.last - 1):
        for piece, window in before(kept.value, rows[kept.open[rows]], n, rules.last - 1):
            three = kept.value[piece[:, None] - np.arange(rules.last)]
            low = (_share(window <= three.max(axis=1, keepdims=True)) <= _THREE) | \
                (_share(window <= three[:, :1]) <= _TONIGHT) | (drifted[piece] < -rules.drift_effect)
            high = _share(window >= three.min(axis=1, keepdims=True)) <= _THREE
            found.append(_slower(kept, rules, piece[low], window[low], level, drifted))
            found.append(_faster(kept, rules, piece[high], window[high]))
    if not found:
        return {}
    table = np.concatenate(found)
    table = table[np.argsort(table['row'], kind='stable')]
    series, at = np.unique(np.searchsorted(kept.start, table['row'], side='right') - 1, return_index=True)
    return {int(k): _episode(kept, table[i], rules) for k, i in zip(series, at, strict=True)}


def drift(kept: Kept, rules: Rules) -> tuple[np.ndarray, np.ndarray]:
    """The level of a series' first nights, and how far the mean of the last ones is from it, relative [nights].

    NaN where there are too few nights for both, or the level is 0. A few bad nights move the mean, so a rule
    asks for their median, too."""
    length = np.diff(kept.start)
    level = np.repeat(np.where(kept.level == 0, np.nan, kept.level), length)
    age = place(kept.start) + np.repeat(kept.age, length)
    enough = (age >= rules.least + rules.last + rules.drift - 1) & (place(kept.start) >= rules.drift - 1)
    total = np.append(0.0, np.cumsum(kept.value))
    known = np.flatnonzero(enough & np.isfinite(level))
    change = np.full(len(level), np.nan)
    last = (total[known + 1] - total[known + 1 - rules.drift]) / rules.drift
    change[known] = (last - level[known]) / np.abs(level[known])
    return level, change


def _share(true: np.ndarray) -> np.ndarray:
    return np.count_nonzero(true, axis=1) / true.shape[1]


_FOUND = np.dtype([('row', int), ('state', int), ('rule', int), ('baseline', float), ('change', float),
                   ('least', float), ('p', float)])


def _episode(kept: Kept, found: np.void, rules: Rules) -> Episode:
    back = (found['rule'] or rules.drift) - 1
    return Episode(int(found['state']), int(kept.night[found['row'] - back]), int(kept.night[found['row']]),
                   int(found['rule']), *(float(found[name]) for name in ('baseline', 'change', 'least', 'p')))


def _slower(kept: Kept, rules: Rules, rows: np.ndarray, window: np.ndarray, level, drifted) -> np.ndarray:
    model, dropped = _held(kept, rules, rows, window, 1, kept.again[rows], kept.elsewhere[rows])
    chosen = dropped.fired > 0
    found = _table(rows, SLOW, dropped, model)
    least = np.fmax(rules.drift_effect, rules.drift_share * dropped.bar * model.spread)
    far = ~chosen & (drifted[rows] < -least)
    last = kept.value[rows[far][:, None] - np.arange(rules.drift)]
    far[far] = (np.median(last, axis=1) - level[rows[far]]) / np.abs(level[rows[far]]) < -least[far]
    for name, value in (('rule', 0), ('baseline', level[rows[far]]), ('change', drifted[rows[far]]),
                        ('least', least[far]), ('p', np.nan)):
        found[name][far] = value
    return found[chosen | far]


def _faster(kept: Kept, rules: Rules, rows: np.ndarray, window: np.ndarray) -> np.ndarray:
    """The slow rule, upside down: nothing is run again for being faster."""
    never = np.zeros(len(rows), dtype=bool)
    model, dropped = _held(kept, rules, rows, window, -1, never, never)
    found = _table(rows, FAST, dropped, model)
    found['baseline'] *= -1
    found['change'] *= -1
    return found[dropped.fired > 0]


def _held(kept: Kept, rules: Rules, rows, window, side: int, again, elsewhere) -> tuple[Noise, Drops]:
    n, lag = window.shape[1], rules.last - 1
    within = np.lib.stride_tricks.sliding_window_view(kept.within, n)[rows - lag - n]
    model = of_history(side * window, within, rules)
    last = side * kept.value[rows[:, None] - np.arange(rules.last)]
    return model, judged(model, last, again, elsewhere, rules)


def _table(rows: np.ndarray, state: int, dropped: Drops, model: Noise) -> np.ndarray:
    found = np.empty(len(rows), _FOUND)
    found['row'], found['state'], found['rule'] = rows, state, dropped.fired
    found['baseline'], found['p'] = model.median, dropped.p
    found['change'] = dropped.change[np.arange(len(rows)), np.fmax(0, dropped.fired - 1)]
    found['least'] = dropped.bar * model.spread * np.sqrt(1 / 3 + 1 / model.nights)
    return found


@dataclass(frozen=True)
class Drops:
    """One entry a history [B]. ``fired``: how many nights the rule that speaks has looked at, 0 for none."""

    fired: np.ndarray
    change: np.ndarray      # [B, 3] relative, mean of the last one, two, three nights
    p: np.ndarray           # exact p of the last three nights
    bar: np.ndarray         # standard errors that a drop of three nights must be clear of


def _explained(noise: Noise, rules: Rules) -> list[np.ndarray]:
    """How low the one, two, three nights were to be expected after a low night before them, relative [B] each. A
    low night is followed by phi, phi^2, phi^3 of it where phi is the dependence on the night before."""
    phi = np.clip(np.where(noise.shared > rules.shared, noise.lag, 0), 0, 0.9)
    low = np.clip(noise.relative[:, -1], -2.5 * noise.spread, 2.5 * noise.spread)
    return [low * sum(phi ** j for j in range(1, k + 1)) / k for k in (1, 2, 3)]


def bar(noise: Noise, rules: Rules) -> np.ndarray:
    """Standard errors that a drop must be clear of [B]: more where nights depend or the lower tail is long."""
    shared = noise.shared > rules.shared
    lag = np.where(shared, noise.lag, noise.lag - rules.runs_lag)
    lag = lag + rules.unsettled * (noise.nights ** -0.5 - rules.settled ** -0.5)
    needed = np.interp(lag, rules.lags, rules.bars) * np.where(shared, 1, rules.runs)
    return needed * (1 + rules.skew * np.fmax(0, -noise.skew)) * rules.tighter


def judged(noise: Noise, last: np.ndarray, confirmed: np.ndarray, elsewhere: np.ndarray, rules: Rules) -> Drops:
    """Hold the last nights ``last`` [B, 3], tonight first, against the history that ended before them.

    ``confirmed`` [B]: tonight was run again; ``elsewhere`` [B]: on another node as well. One night alone
    is believed where no slow node can explain it: elsewhere, at a large drop, or after a long history
    without a slow night. Two nights need a rerun, too; three do not."""
    d = (last - noise.median[:, None]) / np.where(noise.scale > 0, noise.scale, np.nan)[:, None]
    change = np.cumsum(d, axis=1) / (1, 2, 3)
    highest = np.maximum.accumulate(d, axis=1)
    below = [(noise.relative <= highest[:, [k]] + 1e-12).sum(axis=1) for k in range(3)]
    n = noise.nights
    before = _explained(noise, rules)
    clear = [(before[k] - change[:, k]) / (noise.spread * np.sqrt(1 / (k + 1) + 1 / n)) for k in range(3)]
    needed = bar(noise, rules)
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
    fired = np.where(one, 1, np.where(two, 2, np.where(three, 3, 0)))
    return Drops(np.where(tonight, fired, 0), change, p, needed)


def exact(below, k: int, n: int):
    """Exact p that the best of ``k`` exchangeable nights is above no more than ``below`` of ``n`` others. C(below
    + k, k) / C(n + k, k): of all choices of k nights among n + k, those within the lowest below + k."""
    ways, of = np.ones(np.shape(below)), 1.0
    for j in range(1, k + 1):
        ways, of = ways * (below + j) / j, of * (n + j) / j
    return ways / of


def _unseen(noise: Noise, d: np.ndarray, rules: Rules) -> np.ndarray:
    """Where the history holds slow nights: the last three are all slow, and more often than those would be. Either
    they lie below every night seen, or at a level where so few nights were that three in a row are no chance."""
    edge = noise.core[:, None] / 2
    level = (noise.relative >= d.min(axis=1, keepdims=True) - edge) & \
        (noise.relative <= d.max(axis=1, keepdims=True) + edge)
    rare = ((level.sum(axis=1) + 1) / (noise.nights + 2)) ** 3 < rules.seen
    return (d.max(axis=1) < -2.2 * noise.core) & (rare | (d.max(axis=1) < noise.worst))
