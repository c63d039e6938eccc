"""The first night of each series on which a rule speaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats import drops, noise
from parity.stats.nights import before, place, rows_by_length
from parity.stats.rules import Rules

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
    asks for their median, too.
    """
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
    far[far] = _median_of_last(kept, rules, rows[far], level) < -least[far]
    for name, value in (('rule', 0), ('baseline', level[rows[far]]), ('change', drifted[rows[far]]),
                        ('least', least[far]), ('p', np.nan)):
        found[name][far] = value
    return found[chosen | far]


def _median_of_last(kept: Kept, rules: Rules, rows: np.ndarray, level: np.ndarray) -> np.ndarray:
    last = kept.value[rows[:, None] - np.arange(rules.drift)]
    return (np.median(last, axis=1) - level[rows]) / np.abs(level[rows])


def _faster(kept: Kept, rules: Rules, rows: np.ndarray, window: np.ndarray) -> np.ndarray:
    """The slow rule, upside down: nothing is run again for being faster."""
    never = np.zeros(len(rows), dtype=bool)
    model, dropped = _held(kept, rules, rows, window, -1, never, never)
    found = _table(rows, FAST, dropped, model)
    found['baseline'] *= -1
    found['change'] *= -1
    return found[dropped.fired > 0]


def _held(kept: Kept, rules: Rules, rows, window, side: int, again, elsewhere) -> tuple[noise.Noise, drops.Drops]:
    n, lag = window.shape[1], rules.last - 1
    within = np.lib.stride_tricks.sliding_window_view(kept.within, n)[rows - lag - n]
    model = noise.of_history(side * window, within, rules)
    last = side * kept.value[rows[:, None] - np.arange(rules.last)]
    return model, drops.judged(model, last, again, elsewhere, rules)


def _table(rows: np.ndarray, state: int, dropped: drops.Drops, model: noise.Noise) -> np.ndarray:
    found = np.empty(len(rows), _FOUND)
    found['row'], found['state'], found['rule'] = rows, state, dropped.fired
    found['baseline'], found['p'] = model.median, dropped.p
    found['change'] = dropped.change[np.arange(len(rows)), np.fmax(0, dropped.fired - 1)]
    found['least'] = dropped.bar * model.spread * np.sqrt(1 / 3 + 1 / model.nights)
    return found
