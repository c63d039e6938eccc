"""The rules themselves: is the drop of the last one, two or three nights clear of the noise?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats.noise import Noise
from parity.stats.rules import Rules


@dataclass(frozen=True)
class Drops:
    """One entry a history [B]. ``fired``: how many nights the rule that speaks has looked at, 0 for none."""

    fired: np.ndarray
    change: np.ndarray      # [B, 3] relative, mean of the last one, two, three nights
    p: np.ndarray           # exact p of the last three nights
    bar: np.ndarray         # standard errors that a drop of three nights must be clear of


def _explained(noise: Noise, rules: Rules) -> list[np.ndarray]:
    """How low the one, two, three nights were to be expected after a low night before them, relative [B] each.

    A low night is followed by phi, phi^2, phi^3 of it where phi is the dependence on the night before.
    """
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
    without a slow night. Two nights need a rerun, too; three do not.
    """
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
    """Exact p that the best of ``k`` exchangeable nights is above no more than ``below`` of ``n`` others.

    C(below + k, k) / C(n + k, k): of all choices of k nights among n + k, those within the lowest below + k.
    """
    ways, of = np.ones(np.shape(below)), 1.0
    for j in range(1, k + 1):
        ways, of = ways * (below + j) / j, of * (n + j) / j
    return ways / of


def _unseen(noise: Noise, d: np.ndarray, rules: Rules) -> np.ndarray:
    """Where the history holds slow nights: the last three are all slow, and more often than those would be.

    Either they lie below every night seen, or at a level where so few nights were that three in a row
    are no chance.
    """
    edge = noise.core[:, None] / 2
    level = (noise.relative >= d.min(axis=1, keepdims=True) - edge) & \
        (noise.relative <= d.max(axis=1, keepdims=True) + edge)
    rare = ((level.sum(axis=1) + 1) / (noise.nights + 2)) ** 3 < rules.seen
    return (d.max(axis=1) < -2.2 * noise.core) & (rare | (d.max(axis=1) < noise.worst))
