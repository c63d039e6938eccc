"""The noise that like cells share: covariance of their nights, scale of each cell, tail of the statistic."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from parity.stats.bounds import FIRST

#: A step is looked for in the last 1, 2, ... STEPS nights. The prediction of a night uses WINDOW nights before it.
STEPS, WINDOW = 10, 80
#: The smallest scatter of a night.
FLOOR = 0.003
#: No night counts for more than this share of the normal bar, so that none alarms alone; nor of a higher bar.
CLIP, FARTHER = 0.95, 0.72
#: Covariance of nights i and j: v ((1 - share) [i = j] + share phi^|i - j|).
_SHARES, _PHIS = np.array([.2, .4, .6, .8, .95]), np.array([.3, .6, .8, .9, .97])
_GRID = [(0.0, 0.0), *((s, p) for s in _SHARES for p in _PHIS)]
#: The noise of all other cells counts as much as this many more cells of the group.
_OTHERS = 5
#: A group's scatter is known no better than by so many degrees of freedom.
_DF = 400.0
#: The tail of M: M^2 beyond _U0^2 is exponential. Its share and its mean excess in normal noise, and how many
#: nights these count for; all cells count for _SYSTEM in a group's tail. Shared nights beyond _FAR weigh less.
_U0, _P0, _E0, _PRIOR, _SYSTEM, _FAR = 1.97, 0.10, 1.95, 12.0, 60.0, 3.0


@lru_cache(maxsize=128)
def _restricted(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the projected inverse of each covariance of _GRID [26, n, n], and the log of its determinants."""
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    r = np.array([(1 - s) * np.eye(n) + s * np.float64(p) ** lag for s, p in _GRID])
    inverse = np.linalg.inv(r)
    known = np.column_stack((np.ones(n), np.linspace(-1, 1, n)))       # a level, and a drift
    across = inverse @ known
    small = known.T @ across
    return (inverse - across @ np.linalg.inv(small) @ across.transpose(0, 2, 1),
            np.linalg.slogdet(r)[1] + np.linalg.slogdet(small)[1])


def clean(x: np.ndarray, reach: float = 3.5) -> np.ndarray:
    """Pull isolated nights to the running median of five [..., n]."""
    padded = np.pad(x, ((0, 0), (2, 2)), mode='edge')
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1), axis=2)
    step = np.diff(x, axis=1)
    s = 1.4826 * np.median(np.abs(step - np.median(step, axis=1, keepdims=True)), axis=1, keepdims=True) / 2 ** .5
    s = np.fmax(s, FLOOR / 2)
    return middle + np.clip(x - middle, -reach * s, reach * s)


class Noise:
    """The noise that like cells share: covariance of their nights, scale of each cell, tail of the statistic."""

    def __init__(self, group: np.ndarray, longest: int, rate: float):
        self.group, self.many = group, int(group.max(initial=-1)) + 1
        self.width = min(longest, WINDOW + 1)
        self.mix = np.zeros((self.many, len(_PHIS)))                 # weight of each phi; the rest is independent
        self.ready = np.zeros(self.many, dtype=bool)
        self.steps = np.zeros((self.many, self.width, self.width), dtype=np.float32)    # see `_solve`
        self.scale, self.df = np.full(len(group), FLOOR), np.full(len(group), 4.0)
        self.likely = np.zeros((len(group), len(_GRID)))             # restricted log likelihood of each cell
        self.apart = np.zeros((self.many, 2))        # by how much cells of a group differ, and in how many
        self.total, self.over, self.excess = (np.zeros(self.many) for _ in range(3))
        self.least = float(-ndtri(rate / 2))                         # the bar in normal noise
        self.bar = np.full(self.many, self.least)
        self.rate = rate

    def fit(self, groups: np.ndarray, segments: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Learn covariance and scales of ``groups`` from nights of levels: cells [m] and their nights [m, n]."""
        cells = np.flatnonzero(np.isin(self.group, groups))
        square, free, det = (np.zeros(shape) for shape in
                             ((len(self.group), len(_GRID)), len(self.group), (len(self.group), len(_GRID))))
        for owner, x in segments:
            n, x = x.shape[1], clean(x)
            inverse, logs = _restricted(n)
            x = x - x.mean(axis=1, keepdims=True)
            for g in range(len(_GRID)):
                np.add.at(square[:, g], owner, np.einsum('ci,ci->c', x @ inverse[g], x))
            np.add.at(free, owner, n - 2)
            np.add.at(det, owner, logs)
        known = cells[free[cells] > 0]
        square = np.fmax(square, FLOOR ** 2)
        self.likely[known] = -det[known] / 2 - free[known, None] / 2 * np.log(square[known])
        at = self.group[known]
        of_group = np.zeros((self.many, len(_GRID)))
        np.add.at(of_group, self.group, self.likely)
        everyone = of_group.sum(axis=0)
        cells_of = np.bincount(self.group[self.likely[:, 0] != 0], minlength=self.many)
        found = []
        for g in np.unique(at):
            mine = known[at == g]
            others = max(1, cells_of.sum() - cells_of[g])
            logs = of_group[g] + (everyone - of_group[g]) * min(1.0, _OTHERS / others)
            weight = np.exp(logs - logs.max())
            weight /= weight.sum()
            v = np.exp(np.log(square[mine] / free[mine, None]).mean(axis=0))
            mixed = weight * v / (v @ weight)
            self.mix[g] = mixed[1:].reshape(len(_SHARES), len(_PHIS)).T @ _SHARES
            found.append((g, mine, np.log(square[mine] @ weight / free[mine])))
        for g, mine, logs in found:
            pairs = len(mine) - 1
            self.apart[g] = ((logs - logs.mean()) ** 2).sum() - (2 / free[mine]).mean() * pairs, pairs
        self._scale(found, free)
        self.ready[groups] = True
        self._solve(np.unique(at))

    def _scale(self, found: list[tuple[int, np.ndarray, np.ndarray]], free: np.ndarray) -> None:
        """Shrink each cell's log variance to that of its group (empirical Bayes); groups differ alike."""
        total, pairs = self.apart.sum(axis=0)
        for g, mine, logs in found:
            own, one = self.apart[g]
            between = max((own + _OTHERS * total / max(pairs, 1)) / (one + _OTHERS), 1e-9)
            prior = min(2 / between, _DF) if one else 0.0
            middle, cells = np.exp(logs.mean()), np.flatnonzero(self.group == g)
            self.scale[cells], self.df[cells] = np.sqrt(max(middle, FLOOR ** 2)), prior + 4
            variance = (prior * middle + free[mine] * np.exp(logs)) / (prior + free[mine])
            self.scale[mine] = np.sqrt(np.fmax(variance, FLOOR ** 2))
            self.df[mine] = prior + np.fmax(free[mine], 4)

    def _solve(self, groups: np.ndarray) -> None:
        """Set ``steps``: steps[g, j, p] is the surprise of night j, in standard deviations, if nights p to j are
        higher by 1 than those before. So a night's surprise is the sum of steps[g, j, p] (x_p - x_{p - 1})."""
        n = self.width
        lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        powers = _PHIS[:, None, None] ** lag
        for some in np.array_split(groups, max(1, -(-len(groups) // 256))):
            mix = self.mix[some]
            r = np.einsum('gp,pij->gij', mix, powers)
            r[:, np.arange(n), np.arange(n)] = 1 + 1e-9
            white = np.linalg.inv(np.linalg.cholesky(r + 1e4))       # 1e4: the level is not known
            self.steps[some] = np.cumsum(white[:, :, ::-1], axis=2)[:, :, ::-1]

    def surprises(self, g: int, x: np.ndarray) -> np.ndarray:
        """Return the surprise of each night of levels x [B, n] of group ``g``, in log units."""
        n, last = x.shape[1], self.width - 1
        step = np.diff(x, axis=1)
        found = np.zeros_like(x)
        short = min(n, self.width)
        found[:, 1:short] = step[:, :short - 1] @ self.steps[g, 1:short, 1:short].T
        if n > short:
            found[:, short:] = np.lib.stride_tricks.sliding_window_view(step, last, axis=1)[:, 1:] @ \
                self.steps[g, last, 1:]
        return found

    def directions(self, g: np.ndarray, i: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the whitened steps of 1 to STEPS nights as unit vectors on the last STEPS surprises
        [B, STEPS, STEPS], and their lengths [B, STEPS]: 0 where there are too few nights. The last night is number
        ``i`` of its level."""
        k = np.arange(1, STEPS + 1)
        j, p = i[:, None] - STEPS + 1 + np.arange(STEPS), i[:, None] + 1 - k
        valid = (j[:, None, :] >= p[:, :, None]) & (p >= 3)[:, :, None]
        d = self.steps[g[:, None, None], np.fmax(j, 0)[:, None, :], np.fmax(p, 0)[:, :, None]] * valid
        length = np.sqrt((d * d).sum(axis=2))
        return d / np.fmax(length, 1e-12)[:, :, None], length

    def drift(self, g: np.ndarray, age: np.ndarray) -> np.ndarray:
        """Return the standard deviation of a drift, in scales: the mean of the last STEPS nights of a level of
        ``age`` nights less that of its first FIRST ones."""
        def mean(n: int) -> np.ndarray:        # of all correlations within n nights in a row, by phi
            lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
            return (_PHIS[:, None, None] ** lag).mean(axis=(1, 2))
        mix, rest = self.mix[g], 1 - self.mix[g].sum(axis=1)
        ahead = age[:, None] - FIRST - STEPS + 1
        across = _PHIS ** ahead * (1 - _PHIS ** FIRST) * (1 - _PHIS ** STEPS) / (1 - _PHIS) ** 2 / FIRST / STEPS
        shared = (mix * (mean(FIRST) + mean(STEPS) - 2 * across)).sum(axis=1)
        return np.sqrt(rest * (1 / FIRST + 1 / STEPS) + shared)

    def note(self, g: np.ndarray, m: np.ndarray, night: np.ndarray | int) -> None:
        """Count the statistics ``m`` of quiet nights: what befalls many cells in one night is one event."""
        w = np.where((m > _U0) & (m <= _FAR), 1 / 3, 0.0)
        far = m > _FAR
        if far.any():
            _, which, many = np.unique(np.broadcast_to(night, m.shape)[far] * self.many + g[far],
                                       return_inverse=True, return_counts=True)
            w[far] = 1 / 3 / np.sqrt(many[which])
        self.total += np.bincount(g, minlength=self.many) / 3
        self.over += np.bincount(g, w, self.many)
        self.excess += np.bincount(g, w * (np.fmax(m, _U0) ** 2 - _U0 ** 2), self.many)

    def set_bars(self, groups: np.ndarray) -> None:
        """Set the bars: the normal value of the rate, or farther out where the tail is longer.

        A group's tail is shrunk to that of all cells, and that one to the normal tail."""
        share, mean = _tail(self.over.sum(), self.total.sum(), self.excess.sum(), _P0, _E0)
        share, mean = _tail(self.over[groups], self.total[groups], self.excess[groups], share, mean, _SYSTEM)
        far = _U0 ** 2 + mean * np.log(np.fmax(share, _P0 / 2) / (self.rate * 1.5))
        self.bar[groups] = np.fmax(self.least, np.sqrt(np.fmax(far, 0)))

    def edge(self, cells: np.ndarray) -> np.ndarray:
        """Return the surprise beyond which a night counts no more."""
        return stdtrit(self.df[cells], ndtr(np.fmax(CLIP * self.least, FARTHER * self.bar[self.group[cells]])))

    def normal(self, z: np.ndarray, df: np.ndarray) -> np.ndarray:
        """Return what is as likely on the normal scale as ``z`` is on Student's."""
        return -ndtri(stdtr(df, -z))


def _tail(over, total, excess, share, mean, worth=_PRIOR):
    """Return the share of M beyond _U0 and the mean excess of M^2, with a prior of _PRIOR nights."""
    prior = share * worth
    return (over + prior) / (total + worth), (excess + mean * prior) / (over + prior)
