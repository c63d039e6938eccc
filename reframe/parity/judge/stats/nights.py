"""The value of each night of a series: the logarithm of what its runs measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

#: No runs are believed to scatter less around their median (log).
LEAST = 0.01
#: The usual scatter of runs is the median of so many first nights.
_FIRST = 40
#: Reruns that are so many standard errors better than the runs replace them.
_CONTRADICT = 3.0
#: Mean range of n normal values in standard deviations (Tippett 1925); beyond eight, that of eight is near enough.
_RANGE = np.array([np.nan, np.nan, 1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847])


@dataclass(frozen=True)
class Nights:
    """Nights of many series, one series after the other, oldest first. Series k has the nights ``start[k]`` to
    ``start[k + 1]``; values are logarithms, turned so that higher is better."""

    start: np.ndarray
    when: np.ndarray        # a number that grows with time, the same in all series
    value: np.ndarray       # of the runs; NaN where one is not above 0
    again: np.ndarray       # of the runs and their reruns; NaN without reruns
    total: np.ndarray       # sum of the runs' figures, as measured
    counts: np.ndarray      # bool [series]: whole numbers with a zero among them, lower is better

    @classmethod
    def of(cls, start: np.ndarray, night: np.ndarray, figure: np.ndarray, again: np.ndarray, signs: np.ndarray,
           when: np.ndarray | None = None) -> Nights:
        """Group figures by ``night``; ``again``: of a rerun; ``signs`` [series]: 1 if higher is better, else -1.

        The value of a night is the mean of its runs, but no further from their median than runs usually scatter:
        one wild run makes no night."""
        total, sizes, signs = int(start[-1]), np.diff(start), np.asarray(signs)
        series = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(total) - np.repeat(start[:-1], sizes)
        with np.errstate(divide='ignore', invalid='ignore'):
            log = signs[series[night]] * np.log(figure)
        frame = pl.DataFrame({'night': night, 'log': log, 'figure': figure, 'again': again})
        runs = _Runs.of(frame.filter(~pl.col('again')), total)
        first = np.full((len(sizes), _FIRST), np.nan)
        early = (place < _FIRST) & (runs.count > 1)
        first[series[early], place[early]] = runs.sd[early]
        usual = np.fmax(LEAST, medians(first))[series]
        value, joined = runs.near(usual), np.full(total, np.nan)
        if again.any():
            reruns, both = _Runs.of(frame.filter('again'), total), _Runs.of(frame, total)
            other, some = reruns.near(usual), reruns.count > 0
            error = usual[some] * np.sqrt(1 / runs.count[some] + 1 / reruns.count[some])
            worse = other[some] - value[some] > _CONTRADICT * error
            joined[some] = np.where(worse, other[some], both.near(usual)[some])
        whole = np.ones(len(sizes), dtype=bool)
        whole[np.unique(series[night[(figure < 0) | (figure != np.round(figure))]])] = False
        zero = np.isin(np.arange(len(sizes)), series[night[figure == 0]])
        return cls(start, place if when is None else when, value, joined, runs.total, whole & zero & (signs < 0))


@dataclass(frozen=True)
class _Runs:
    """The runs of each night [nights]: logarithms, and the sum of their figures."""

    count: np.ndarray
    mean: np.ndarray         # NaN where one is not above 0
    median: np.ndarray
    sd: np.ndarray
    total: np.ndarray

    @classmethod
    def of(cls, frame: pl.DataFrame, nights: int) -> _Runs:
        log = pl.col('log')
        found = frame.group_by('night').agg(pl.len(), mean=log.mean(), median=log.median(),
                                            reach=log.max() - log.min(), total=pl.col('figure').sum())
        at, count = found['night'].to_numpy(), np.zeros(nights, dtype=int)
        made = [np.full(nights, np.nan) for _ in range(4)]
        for each, name in zip(made, ('mean', 'median', 'reach', 'total'), strict=True):
            each[at] = found[name].to_numpy()
        count[at] = found['len'].to_numpy()
        mean, median, reach, total = made
        return cls(count, np.where(np.isfinite(mean), mean, np.nan), median,
                   reach / _RANGE[np.minimum(count, len(_RANGE) - 1)], total)

    def near(self, usual: np.ndarray) -> np.ndarray:
        """Return the mean, but no further than the usual scatter from the median."""
        return self.median + np.clip(self.mean - self.median, -usual, usual)


def medians(rows: np.ndarray) -> np.ndarray:
    """Return the median of what is known in each row, or NaN (numpy's nanmedian is slow on short rows)."""
    n = np.isfinite(rows).sum(axis=1)
    return np.where(n > 0, median_of(np.sort(rows, axis=1), n), np.nan)


def median_of(ordered: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the median of the first ``n`` values of each sorted row."""
    row, n = np.arange(len(ordered)), np.fmax(n, 1)
    return (ordered[row, (n - 1) // 2] + ordered[row, n // 2]) / 2
