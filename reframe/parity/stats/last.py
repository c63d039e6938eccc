"""Each series on its last night: its state, and the noise it is judged with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from parity.stats import drops
from parity.stats.history import Outcome
from parity.stats.nights import Nights, Values
from parity.stats.noise import Noise, of_history
from parity.stats.rules import Rules
from parity.stats.search import Episode

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
        needed = drops.bar(noise, rules)
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
    return replace(
        bare, baseline=baseline, spread=float(noise.spread[i]),
        three=(three - baseline) / abs(baseline) if baseline else float('nan'), bar=bar, lag=float(noise.lag[i]),
        shared=float(noise.shared[i]), slow=int(noise.slow[i]), resolution=float(noise.resolution[i]))
