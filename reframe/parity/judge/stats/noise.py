"""The noise of a cell: its scale, the dependence of its nights, and how rare so low a mean is.

All values are logarithms. A residual is a night less the level of its time: a change of level is no noise.
"""

from __future__ import annotations

import numpy as np
import scipy

from parity.judge.stats import rule
from parity.judge.stats.nights import median_of


class Noise:
    """The noise of cells, and of groups of like cells. Arrays are by cell."""

    def __init__(self, group: np.ndarray, rate: float):
        many, self.group, self.rate = len(group), group, rate
        self.groups = int(group.max(initial=-1)) + 1
        self.log, self.free = np.full(many, np.nan), np.zeros(many)      # of the own scale; degrees of freedom
        self.scale, self.bar = np.full(many, np.nan), np.full(many, np.inf)
        self.tail = np.zeros(many)                                       # 6 % of the residuals are below -tail
        lag = np.arange(1, rule.LENGTHS[-1])
        shared = rule.CORRELATED * rule.CORRELATION ** (lag - 1)
        usual = [1 + (np.fmax(0, 1 - lag / k) * shared).sum() for k in rule.LENGTHS]
        self.usual = np.array([*usual, 1.5 * usual[-1]])
        self.squares, self.nights = (np.zeros((many, len(self.usual))) for _ in range(2))
        self.v = np.tile(self.usual, (many, 1))

    def learn(self, cells: np.ndarray, residuals: np.ndarray) -> None:
        """Take the winsorised standard deviation of ``residuals`` [cells, nights]; share it with like cells."""
        n, ordered = np.isfinite(residuals).sum(axis=1), np.sort(residuals, axis=1)
        far = np.abs(residuals - median_of(ordered, n)[:, None])
        mad = np.fmax(1.4826 * median_of(np.sort(far, axis=1), n), rule.FLOOR / 2)
        squares = np.minimum(far, rule.WINSOR * mad[:, None]) ** 2
        square = np.nansum(squares, axis=1) / np.fmax(n - 1, 1) / rule.KEPT
        self.log[cells[n >= 7]] = np.log(np.fmax(np.sqrt(square), rule.FLOOR))[n >= 7]
        self.free[cells] = 0.8 * (n - 1)
        self.tail[cells] = -np.nan_to_num(ordered[np.arange(len(cells)), (0.06 * n).astype(int)])
        groups = np.zeros(self.groups, dtype=bool)
        groups[self.group[cells]] = True
        touched = np.flatnonzero(groups[self.group])
        self._scales(touched)
        self._dependence(touched)

    def forget(self, cell: int) -> None:
        """Forget what a cell taught: it does other work from now on."""
        self.log[cell], self.free[cell], self.tail[cell] = np.nan, 0, 0
        self.squares[cell] = self.nights[cell] = 0

    def _scales(self, cells: np.ndarray) -> None:
        """Shrink the log of each scale to the median of like cells, as far as these are alike (Smyth 2004).
        A cell that is rule.UNLIKE standard errors away is shrunk less: a calm one among noisy ones stays calm."""
        g, mine = self.group, self.group[cells]
        middle, count = self._medians(self.log)
        spread = (1.4826 * self._medians(np.abs(self.log - middle[g]))[0]) ** 2 * (1 + 2 / np.fmax(count, 1))
        errors = self._medians(1 / (2 * np.fmax(self.free, 1)))[0]
        apart = np.where(count >= rule.FEWEST_LIKE, spread - errors, np.nan)
        usual = np.nanmedian(apart) if np.isfinite(apart).any() else 0.0
        apart = np.fmax((np.nan_to_num(apart) * count + 5 * usual) / (count + 5), 0.005)
        like = np.where(count >= rule.FEWEST_LIKE, 1 / (2 * apart), 0)[mine]         # in degrees of freedom
        own = np.where(np.isfinite(self.log[cells]), self.free[cells], 0)
        away = np.nan_to_num(np.abs(self.log[cells] - middle[mine]))
        error = np.sqrt(apart[mine] + 1 / (2 * np.fmax(own, 1)))
        like *= np.fmin(1, rule.UNLIKE * error / np.fmax(away, 1e-9)) ** 2
        total = np.nan_to_num(self.log[cells]) * own + np.nan_to_num(middle[mine]) * like
        self.scale[cells] = np.exp(total / np.where(own + like > 0, own + like, np.nan))
        self.bar[cells] = -scipy.special.stdtrit(np.fmax(3, own + like), self.rate * rule.LOOKS)

    def _dependence(self, cells: np.ndarray) -> None:
        """Estimate by how much the variance of the statistic exceeds that of independent nights: V, 1 or more.

        Where nights are alike, it never falls with the length: 1 + 2 times the sum of (1 - j / k) rho_j."""
        mine = self.group[cells]
        for k, usual in enumerate(self.usual):
            ratio = np.where(self.nights[:, k] >= 20, self.squares[:, k] / np.fmax(self.nights[:, k], 1), np.nan)
            like, count = self._medians(np.log(np.fmax(ratio, 0.2)))
            known = min(count.sum(), 30)
            pool = ((np.nanmedian(like) if known else 0.0) * known + 5 * np.log(usual)) / (known + 5)
            like = np.exp((np.nan_to_num(like) * count + 5 * pool) / (count + 5))[mine]
            nights = rule.LIKE_NIGHTS if k < len(rule.LENGTHS) else 2 * rule.LIKE_NIGHTS
            square = (self.squares[cells, k] + nights * like) / (self.nights[cells, k] + nights)
            self.v[cells, k] = np.fmax(self.v[cells, k - 1] if k else 1, square)

    def note(self, cells: np.ndarray, z: np.ndarray) -> None:
        """Count the statistics [cells, lengths] of a quiet night; NaN is none."""
        square = np.minimum(z ** 2, rule.SQUARE_CAP) * np.where(z < 0, rule.LOWER_SQUARES, 2 - rule.LOWER_SQUARES)
        self.squares[cells] += np.nan_to_num(square)
        self.nights[cells] += np.isfinite(square)

    def visible(self, nights: np.ndarray, least: np.ndarray) -> np.ndarray:
        """Return the log of the smallest slowdown that is found within WITHIN nights in four of five cases; NaN
        where the noise is not known.

        ``nights``: of the base; ``least``: the smallest slowdown that is news."""
        v = self.v[:, rule.LENGTHS.tolist().index(rule.WITHIN)]
        error = self.scale * np.sqrt(v / rule.WITHIN * (1 + rule.BASE * rule.WITHIN / nights))
        near = rule.POWER * np.sqrt(rule.MEDIAN * v / rule.WITHIN) * self.scale     # of a median of three nights
        size = np.fmax((self.bar + rule.POWER) * error, np.fmax(least, rule.TAILS * self.tail) + near)
        clip = rule.CLIP * np.sqrt(self.v[:, 0] * (1 + rule.BASE * rule.LENGTHS[0] / nights)) * self.scale
        size[clip <= error] = np.inf                                  # so few clipped nights reach no bar
        return np.where(np.isfinite(self.scale), size, np.nan)

    def _medians(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the median of the finite values of each group, NaN without one, and how many there are."""
        known = np.isfinite(values)
        values, group = values[known], self.group[known]
        values = values[np.lexsort((values, group))]
        count = np.bincount(group, minlength=self.groups)
        first, some, middle = np.cumsum(count) - count, count > 0, np.full(self.groups, np.nan)
        middle[some] = (values[(first + (count - 1) // 2)[some]] + values[(first + count // 2)[some]]) / 2
        return middle, count


def rarity(past: np.ndarray, mean: float, k: int) -> float:
    """Return how far out the ``mean`` (below 0) of ``k`` nights is among nights like ``past``, in normal deviates.

    Cramér's theorem: P(mean of k or lower) is about exp(-k I(mean)). I is the Legendre transform of the cumulants
    of ``past`` (Dembo and Zeitouni, Large Deviations, 2010, theorem 2.2.3). All are in standard deviations."""
    values = np.append(past, mean)
    weight = np.append(np.ones(len(past)), rule.OWN_NIGHT) / (len(past) + rule.OWN_NIGHT)
    tilt = mean
    for _ in range(30):                            # Newton's method: the tilted nights have this mean
        tilted = weight * np.exp(tilt * values - (tilt * values).max())
        tilted /= tilted.sum()
        at = (tilted * values).sum()
        step = (at + rule.KERNEL ** 2 * tilt - mean) / ((tilted * values ** 2).sum() - at ** 2 + rule.KERNEL ** 2)
        tilt -= np.clip(step, -1, 1)
        if abs(step) < 1e-6:
            break
    top = (tilt * values).max()
    cumulant = top + np.log((weight * np.exp(tilt * values - top)).sum()) + rule.KERNEL ** 2 * tilt ** 2 / 2
    return float(np.sqrt(2 * k * max(tilt * mean - cumulant, 0) / (1 + rule.BASE * k / rule.MEMORY)))


def by_chance(low: np.ndarray, share: float) -> float:
    """Return the least probability that so many of the newest nights are ``low`` (the newest first).

    ``share`` of the nights before were as low. Of 2 to all nights together, each a binomial test."""
    many, of = np.cumsum(low), np.arange(1, len(low) + 1)
    chance = scipy.special.betainc(np.fmax(many, 1), of - many + 1, share)
    return float(np.where(many > 0, chance, 1)[1:].min(initial=1))
