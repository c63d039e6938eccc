"""The noise of a cell: its scatter, the dependence of its nights, and how often a night is as low by chance.

All values are logarithms. A residual is a night less the level of its time, so a change of level is no noise.
"""

from __future__ import annotations

import numpy as np
import scipy

from parity.judge.stats import rule
from parity.judge.stats.nights import median_of

#: A scatter needs so many residuals.
_FEWEST = 7
#: Winsorised residuals have so many degrees of freedom each.
_FREEDOM = 0.8
#: The share of the nights that are below -tail.
_TAIL = 0.06
#: A slowdown that shows is so many times as large, since nights are clipped: measured on simulated noise.
_CLIPPED = 1.1


class Noise:
    """The noise of cells. All arrays are [cells], but for ``v`` [cells, lengths]."""

    def __init__(self, cells: int, rate: float):
        self.rate = rate
        self.scale = np.full(cells, np.nan)         # standard deviation of a night
        self.bar = np.full(cells, np.inf)           # standard errors that a change needs
        self.tail = np.zeros(cells)
        self.usual = _usual_dependence()
        self.v = np.tile(self.usual, (cells, 1))    # variance of the statistic over that of independent nights
        self._squares = np.zeros_like(self.v)
        self._nights = np.zeros_like(self.v)

    def learn(self, cells: np.ndarray, residuals: np.ndarray) -> None:
        """Learn the scatter from ``residuals`` [cells, nights], and the dependence from the statistics noted."""
        nights = np.isfinite(residuals).sum(axis=1)
        enough = nights >= _FEWEST
        cells = cells[enough]
        residuals = residuals[enough]
        nights = nights[enough]
        ordered = np.sort(residuals, axis=1)
        self.scale[cells] = _winsorised(residuals, ordered, nights)
        row = np.arange(len(cells))
        nights_below = (_TAIL * nights).astype(int)
        self.tail[cells] = -ordered[row, nights_below]
        self.bar[cells] = self._bar(nights)
        self._learn_dependence(cells)

    def _bar(self, nights: np.ndarray) -> np.ndarray:
        """Return the bar of cells that learned from so many residuals. Each length is looked at each night: a look
        has its share of the rate (Bonferroni)."""
        different, place = np.unique(nights, return_inverse=True)      # few, and the quantile is slow
        freedom = np.fmax(3, _FREEDOM * (different - 1))
        share = self.rate / len(rule.LENGTHS)
        bars = -scipy.special.stdtrit(freedom, share)
        return bars[place]

    def _learn_dependence(self, cells: np.ndarray) -> None:
        """Take the mean square of the statistics, at least 1. It never falls with the length, as that of like
        nights: 1 + 2 times the sum of (1 - j / k) rho_j."""
        all_squares = self._squares.sum(axis=0)
        all_nights = self._nights.sum(axis=0)
        of_all_cells = _with_prior(all_squares, all_nights, self.usual)
        begins_with = np.minimum(self.usual, of_all_cells)
        squares, nights = self._squares[cells], self._nights[cells]
        of_cells = _with_prior(squares, nights, begins_with)
        at_least_one = np.fmax(1, of_cells)
        self.v[cells] = np.maximum.accumulate(at_least_one, axis=1)

    def note(self, cells: np.ndarray, z: np.ndarray) -> None:
        """Count the statistics [cells, lengths] of a quiet night; NaN is none."""
        squares = np.minimum(z ** 2, rule.SQUARE_CAP)
        self._squares[cells] += np.nan_to_num(squares)
        self._nights[cells] += np.isfinite(z)

    def forget(self, cell: int) -> None:
        """Forget what a cell taught: it does other work from now on."""
        self.scale[cell] = np.nan
        self.bar[cell] = np.inf
        self.tail[cell] = 0
        self._squares[cell] = 0
        self._nights[cell] = 0
        self.v[cell] = self.usual

    def spell(self, cells: np.ndarray | int) -> np.ndarray | float:
        """Return how far below the base two nights of a further spell are at least."""
        return np.fmax(rule.SPELL, rule.CLEAR * self.scale[cells])

    def visible(self, nights: np.ndarray) -> np.ndarray:
        """Return the log of the smallest slowdown that is found within WITHIN nights in four of five cases.

        ``nights``: of the base. inf: none is; NaN: the noise is not known."""
        within = rule.LENGTHS.tolist().index(rule.WITHIN)
        v = self.v[:, within]
        v_of_shortest = self.v[:, 0]
        of_base = rule.BASE * rule.LENGTHS / nights[:, None]
        with_base = 1 + of_base
        variance = v / rule.WITHIN * with_base[:, within]
        error = self.scale * np.sqrt(variance)
        by_size = _CLIPPED * (self.bar + rule.POWER) * error
        # its nights must be lower than the usual low ones
        usual_low = np.fmax(rule.EFFECT, rule.TAILS * self.tail)
        of_median = rule.MEDIAN * v / rule.WITHIN
        middle = rule.POWER * self.scale * np.sqrt(of_median)
        size = np.fmax(by_size, usual_low + middle)
        # clipped nights may be so few that they reach no bar
        of_one_night = v_of_shortest * with_base[:, 0]
        clip = rule.CLIP * self.scale * np.sqrt(of_one_night)
        size[clip <= error] = np.inf
        has_none = ~np.isfinite(self.scale)
        size[has_none] = np.nan
        return size


def _usual_dependence() -> np.ndarray:
    """Return what V is at each length where neighbours have the correlation CORRELATION: rho_j is its power j."""
    lag = np.arange(1, rule.LONGEST)
    correlation = rule.CORRELATION ** lag
    usual = []
    for nights in rule.LENGTHS:
        pairs = np.fmax(0, 1 - lag / nights)
        of_pairs = (pairs * correlation).sum()
        usual.append(1 + 2 * of_pairs)
    return np.array(usual)


def _with_prior(squares: np.ndarray, nights: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Return a mean square of so many nights; ``prior`` counts as PRIOR_NIGHTS more."""
    return (squares + rule.PRIOR_NIGHTS * prior) / (nights + rule.PRIOR_NIGHTS)


def _winsorised(residuals: np.ndarray, ordered: np.ndarray, nights: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each row, in which a residual counts up to WINSOR MAD from the median."""
    middle = median_of(ordered, nights)
    off = np.abs(residuals - middle[:, None])
    mad = 1.4826 * median_of(np.sort(off, axis=1), nights)
    most = rule.WINSOR * np.fmax(mad, rule.FLOOR / 2)
    clipped = np.minimum(off, most[:, None])
    squares = np.nansum(clipped ** 2, axis=1)
    variance = squares / (nights - 1)
    deviation = np.sqrt(variance / rule.KEPT)
    return np.fmax(deviation, rule.FLOOR)


def by_chance(low: np.ndarray, share: float) -> float:
    """Return the least probability that so many of the newest nights are ``low`` (the newest first).

    ``share`` of the nights before were as low. Of 2 to all nights together, each a binomial test."""
    nights = np.arange(1, len(low) + 1)
    many = np.cumsum(low)
    others = nights - many
    some = np.fmax(many, 1)
    chance = scipy.special.betainc(some, others + 1, share)
    chance[many == 0] = 1
    of_several = chance[1:]
    return float(of_several.min(initial=1))
