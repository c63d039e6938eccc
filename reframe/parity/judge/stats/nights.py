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
class Texts:
    """Texts of which most are alike. ``names``: each text once, sorted. ``number``: where there each text is."""

    names: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, texts: pl.Series) -> Texts:
        """Number texts (numpy's unique is slow on these)."""
        names = texts.unique().cast(pl.String).sort()
        numbers = texts.cast(pl.Enum(names)).to_physical()
        return cls(names.to_numpy(), numbers.to_numpy())

    def all(self) -> np.ndarray:
        """Return all texts; alike ones are one object."""
        return self.names[self.number]


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

    @property
    def series(self) -> np.ndarray:
        """Return the number of the series of each night."""
        return _series(self.start)

    def part(self, chosen: np.ndarray, kept: np.ndarray) -> Nights:
        """Return the series at the places ``chosen``, with their nights at the places ``kept``."""
        series_of_kept = self.series[kept]
        nights_of_series = np.bincount(series_of_kept, minlength=len(self.counts))
        ends = nights_of_series[chosen].cumsum()
        start = np.append(0, ends)
        return Nights(
            start=start,
            when=self.when[kept],
            value=self.value[kept],
            again=self.again[kept],
            total=self.total[kept],
            counts=self.counts[chosen])

    @classmethod
    def of(cls, start: np.ndarray, night: np.ndarray, figure: np.ndarray, again: np.ndarray, signs: np.ndarray,
           when: np.ndarray | None = None) -> Nights:
        """Group figures by ``night``; ``again``: of a rerun; ``signs`` [series]: 1 if higher is better, else -1.

        The value of a night is the mean of its runs, but no further from their median than runs usually scatter:
        one wild run makes no night."""
        total = int(start[-1])
        signs = np.asarray(signs)
        series_count = len(start) - 1
        series = _series(start)
        place = places(start)
        series_of_figure = series[night]
        with np.errstate(divide='ignore', invalid='ignore'):
            log = signs[series_of_figure] * np.log(figure)
        frame = pl.DataFrame({'night': night, 'log': log, 'figure': figure, 'again': again})
        both = _Runs.of(frame, total)
        runs = both
        if again.any():
            runs = _Runs.of(frame.filter(~pl.col('again')), total)
        usual = _usual_scatter(runs, series, place, series_count)[series]
        with_reruns = np.full(total, np.nan)
        if again.any():
            reruns = _Runs.of(frame.filter('again'), total)
            with_reruns = _with_reruns(runs, reruns, both, usual)
        is_lower_better = signs < 0
        return cls(
            start=start,
            when=place if when is None else when,
            value=runs.near(usual),
            again=with_reruns,
            total=runs.total,
            counts=_are_counts(figure, series_of_figure, series_count) & is_lower_better)


def _series(start: np.ndarray) -> np.ndarray:
    """Return the number of the series of each night. ``start`` has where each series begins, and the last ends."""
    sizes = np.diff(start)
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def places(start: np.ndarray) -> np.ndarray:
    """Return the place of each night in its series. ``start`` as for `_series`."""
    first = np.repeat(start[:-1], np.diff(start))
    return np.arange(len(first)) - first


def _are_counts(figure: np.ndarray, series: np.ndarray, series_count: int) -> np.ndarray:
    """Return whether the figures of each series are whole numbers with a zero among them."""
    is_no_count = (figure < 0) | (figure != np.round(figure))
    are_counts = np.ones(series_count, dtype=bool)
    are_counts[series[is_no_count]] = False
    is_zero = figure == 0
    has_zero = np.zeros(series_count, dtype=bool)
    has_zero[series[is_zero]] = True
    return are_counts & has_zero


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
        night = frame['night'].to_numpy()
        count = np.bincount(night, minlength=nights)
        is_alone = count[night] == 1        # most nights have one run: no need to group these
        alone = frame if is_alone.all() else frame.filter(is_alone)
        by_night = alone.select('night', mean='log', median='log', reach=pl.lit(0.0), total='figure')
        log = pl.col('log')
        if len(alone) < len(frame):
            of_several = frame.filter(~is_alone).group_by('night').agg(
                mean=log.mean(),
                median=log.median(),
                reach=log.max() - log.min(),
                total=pl.col('figure').sum())
            by_night = pl.concat([by_night, of_several])
        measured = by_night['night'].to_numpy()

        def of_nights(name: str) -> np.ndarray:
            values = np.full(nights, np.nan)
            values[measured] = by_night[name].to_numpy()
            return values

        mean = of_nights('mean')
        mean[~np.isfinite(mean)] = np.nan
        like_count = np.minimum(count, len(_RANGE) - 1)
        range_in_sd = _RANGE[like_count]
        return cls(
            count=count,
            mean=mean,
            median=of_nights('median'),
            sd=of_nights('reach') / range_in_sd,
            total=of_nights('total'))

    def near(self, usual: np.ndarray) -> np.ndarray:
        """Return the mean, but no further than the usual scatter from the median."""
        off = self.mean - self.median
        return self.median + np.clip(off, -usual, usual)


def _usual_scatter(runs: _Runs, series: np.ndarray, place: np.ndarray, series_count: int) -> np.ndarray:
    """Return how much the runs of a night scatter, for each series: the median of its first nights.

    ``series``, ``place`` [nights]: the series of each night, and its place in that."""
    scatter = np.full((series_count, _FIRST), np.nan)       # [series, places]
    is_first = place < _FIRST
    early = is_first & (runs.count > 1)
    scatter[series[early], place[early]] = runs.sd[early]
    return np.fmax(LEAST, medians(scatter))


def _with_reruns(runs: _Runs, reruns: _Runs, both: _Runs, usual: np.ndarray) -> np.ndarray:
    """Return the value of each night with its reruns, NaN without. Reruns that are clearly better replace runs."""
    with np.errstate(divide='ignore', invalid='ignore'):
        variance = 1 / runs.count + 1 / reruns.count
        error = usual * np.sqrt(variance)
    again = reruns.near(usual)
    better = again - runs.near(usual)
    is_clear = better > _CONTRADICT * error
    joined = np.where(is_clear, again, both.near(usual))
    joined[reruns.count == 0] = np.nan
    return joined


def medians(rows: np.ndarray) -> np.ndarray:
    """Return the median of what is known in each row, or NaN (numpy's nanmedian is slow on short rows)."""
    n = np.isfinite(rows).sum(axis=1)
    ordered = np.sort(rows, axis=1)
    middle = median_of(ordered, n)
    return np.where(n > 0, middle, np.nan)


def median_of(ordered: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the median of the first ``n`` values of each sorted row."""
    row = np.arange(len(ordered))
    n = np.fmax(n, 1)
    below = ordered[row, (n - 1) // 2]
    above = ordered[row, n // 2]
    return (below + above) / 2
