"""The statistic of a night: the mean of the newest nights beside the level before, for all cells at once.

docs/regression.md explains it. All values are logarithms, turned so that higher is better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.judge.stats import rule
from parity.judge.stats.bounds import FIRST
from parity.judge.stats.episodes import Shift
from parity.judge.stats.node_effects import Nodes
from parity.judge.stats.noise import Noise
from parity.judge.stats.table import Base, Table, newest

#: Standard deviations; a night of a cell whose noise is not known counts for so many.
_NO_CLIP = 99.0


@dataclass
class Tonight:
    """Tonight of some cells, a row each. ``z``: the mean of the newest nights less the base, in standard errors of
    independent nights. ``far``: the same, with the dependence of the nights."""

    has_noise: np.ndarray    # bool: the base and the scatter are known
    ready: np.ndarray        # bool: and enough nights to be judged
    base: np.ndarray
    error: np.ndarray        # standard deviation of a night less the base
    residual: np.ndarray     # of tonight, as far as a night is from a known level
    off: np.ndarray          # [cells, nights]: the newest nights less the base, tonight last
    z: np.ndarray            # [cells, lengths], NaN: too few nights
    far: np.ndarray          # [cells, lengths]

    @property
    def below(self) -> np.ndarray:
        """Return how far tonight is below the base."""
        return -self.off[:, -1]

    def shift(self, i: int, side: int, bar: float) -> Shift | None:
        """Return the largest shift of row ``i`` on a side of the base (-1: below) that is beyond the bar."""
        far = side * self.far[i]
        if not self.ready[i] or not np.isfinite(far).any():
            return None
        largest = int(np.nanargmax(far))
        size = float(far[largest])
        if size <= bar:
            return None
        nights = int(rule.LENGTHS[largest])
        return Shift(nights, size)


class Statistic:
    """The statistic of the cells of a table. It also notes which nights are to be run again."""

    def __init__(self, table: Table, noise: Noise, nodes: Nodes):
        self.table = table
        self.noise = noise
        self.nodes = nodes

    def tonight(self, cells: np.ndarray, t: int) -> Tonight:
        """Return what tonight says. A low night that was run again is judged with its reruns."""
        base = self.table.base(cells)
        some = np.fmax(base.nights, 1)
        scale = self.noise.scale[cells]
        has_base = base.nights >= rule.AFTER
        has_noise = has_base & np.isfinite(scale)
        is_old = self.table.age[cells] > FIRST
        ready = has_noise & is_old
        error = scale * np.sqrt(1 + rule.BASE / some)
        self._rerun(cells, t, base.value, error, ready)       # puts reruns into x
        off = self._off(cells, t, base.value)
        of_base = rule.BASE * rule.LENGTHS / some[:, None]      # variance of the base over that of the mean
        dependence = self._dependence(cells, of_base)
        clip = self._clip(cells, dependence[:, :1], of_base[:, :1])
        clipped = np.clip(off / scale[:, None], -clip, clip)
        error_of_sum = np.sqrt(rule.LENGTHS * (1 + of_base))
        in_errors = _sums(clipped) / error_of_sum
        fits = self._fits(cells, base)
        z = np.where(fits, in_errors, np.nan)
        of_median = np.sqrt(1 + rule.MEDIAN / some)
        independent = off[:, -1] / of_median
        residual = np.where(has_base, independent, np.nan)
        return Tonight(
            has_noise=has_noise,
            ready=ready,
            base=base.value,
            error=error,
            residual=residual,
            off=off,
            z=z,
            far=z / np.sqrt(dependence))

    def _off(self, cells: np.ndarray, t: int, base: np.ndarray) -> np.ndarray:
        """Return the newest nights less the base, tonight last [cells, nights]; 0 before the level."""
        table = self.table
        begin, end = table.begin[cells], table.end[cells]
        many = rule.LONGEST - 1
        before = newest(table.level, cells, begin, end, many)
        before_off = before - base[:, None]
        tonight_off = table.x[cells, t] - base
        return np.column_stack((np.nan_to_num(before_off), tonight_off))

    def _fits(self, cells: np.ndarray, base: Base) -> np.ndarray:
        """Return whether a mean is of tonight's level, and short beside the base, [cells, lengths]."""
        table = self.table
        of_level = table.end[cells] - table.begin[cells] + 1
        is_of_level = rule.LENGTHS <= of_level[:, None]
        in_base = rule.LENGTHS - 1 - base.gap[:, None]
        most = base.nights / 5
        is_short = in_base <= most[:, None]
        return is_of_level & is_short

    def _dependence(self, cells: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return V of a mean less its base, [cells, lengths]: the base is as dependent as the longest mean."""
        v = self.noise.v[cells]
        longest = v[:, -1:]
        return (v + of_base * longest) / (1 + of_base)

    def _clip(self, cells: np.ndarray, dependence: np.ndarray, of_base: np.ndarray) -> np.ndarray:
        """Return how many standard deviations a night counts for at most, [cells, 1]: it never alarms alone."""
        variance = dependence * (1 + of_base)
        bar = self.noise.bar[cells]
        bar = bar[:, None]
        clip = rule.CLIP * bar * np.sqrt(variance)
        is_known = np.isfinite(bar)
        return np.where(is_known, clip, _NO_CLIP)

    def _rerun(self, cells: np.ndarray, t: int, base: np.ndarray, error: np.ndarray, ready: np.ndarray) -> None:
        """Want low nights run again; where they were, judge them with their reruns."""
        table = self.table
        night = cells, t
        surprise = (table.x[night] - base) / error
        low = ready & (surprise < rule.LOW)
        low[low] = self._is_among_the_lowest(cells[low], t, surprise[low])
        has_reruns = np.isfinite(table.again[night])
        table.surprise[night] = np.where(ready, surprise, np.nan)
        table.wanted[night] = low
        table.low[cells] = low & ~has_reruns
        rerun = cells[low & has_reruns]
        rerun_night = rerun, t
        effects = self.nodes.effects(rerun, t)
        table.x[rerun_night] = table.again[rerun_night] - effects

    def _is_among_the_lowest(self, cells: np.ndarray, t: int, surprise: np.ndarray) -> np.ndarray:
        """Return whether tonight is among the few lowest of the newest nights of each cell."""
        first = max(0, t - rule.LEVEL)
        before = self.table.surprise[cells, first:t]
        is_lower = before < surprise[:, None]
        is_judged = np.isfinite(before)
        lower = np.count_nonzero(is_lower, axis=1)
        judged = np.count_nonzero(is_judged, axis=1)
        return lower <= rule.RERUN * judged


def _sums(nights: np.ndarray) -> np.ndarray:
    """Return the sums of the newest nights, [cells, lengths]. ``nights`` [cells, nights]: tonight last."""
    newest_first = nights[:, ::-1]
    sums = np.cumsum(newest_first, axis=1)
    return sums[:, rule.LENGTHS - 1]
