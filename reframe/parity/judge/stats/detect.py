"""A history in a file (columns series, night, kind, run, value, perhaps others), judged: `parity detect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from parity.base.csvfile import CsvTable
from parity.base.figures import LARGEST, SMALLEST
from parity.judge.stats.judgement import Judgement, judged
from parity.judge.stats.nights import Nights
from parity.judge.stats.rule import EVENTS, LOW_NIGHTS, RATE

STATED = f'stated rate: 1 new false alarm in {1 / RATE:.0f} nights of a series'

COLUMNS, _OPTIONAL = ('series', 'night', 'kind', 'run', 'value'), ('direction', 'group', 'event', 'node')
#: direction: an empty one is the default, higher.
_SIGNS = {'higher': 1, 'lower': -1, '': 1}
_WHOLE = '^-?[0-9]{1,18}$'
NUMBER = '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$'


@dataclass(frozen=True)
class SeriesJudgement:
    """The judgement on a series' last night, and every night that alarmed when it was the last."""

    judgement: Judgement
    alarms: tuple[int | str, ...]


class History(NamedTuple):
    """The nights of the series of a file. ``labels``, ``events`` and ``nodes`` [nights]; the others [series]."""

    names: list[str]
    nights: Nights
    signs: list[int]               # 1: higher is better, -1: lower
    groups: np.ndarray             # like series have the same number
    labels: list[int | str]
    events: np.ndarray | None
    nodes: list[str] | None
    areas: list[str] | None = None     # slowdowns of one area that begin together are one; None: of one group

    @property
    def places(self) -> np.ndarray | None:
        """Return the number of the nodes of each night; None where a file has none."""
        return None if self.nodes is None else np.unique(self.nodes, return_inverse=True)[1]

    @property
    def longest(self) -> int:
        """Return how many nights the longest series has."""
        return int(np.diff(self.nights.start).max(initial=0))

    def part(self, groups: np.ndarray, until: int | None = None) -> History:
        """Return the series of some groups, up to a time."""
        of = np.flatnonzero(np.isin(self.groups, groups))
        series = np.repeat(np.arange(len(self.groups)), np.diff(self.nights.start))
        keep = np.isin(series, of) if until is None else np.isin(series, of) & (self.nights.when <= until)
        at, nights = np.flatnonzero(keep), self.nights
        start = np.append(0, np.bincount(series[at], minlength=len(self.groups))[of].cumsum())
        columns = (each[at] for each in (nights.when, nights.value, nights.again, nights.total))
        return History([self.names[k] for k in of], Nights(start, *columns, nights.counts[of]),
                       [self.signs[k] for k in of], self.groups[of], [self.labels[i] for i in at],
                       None if self.events is None else self.events[at],
                       None if self.nodes is None else [self.nodes[i] for i in at],
                       None if self.areas is None else [self.areas[k] for k in of])


def of_file(raw: bytes, name: str) -> dict[str, SeriesJudgement]:
    """Judge every series in the bytes of the CSV ``name``, each for itself: the stated rate is that of one series.

    Nights that are numbers stay numbers. UsageError names the first wrong line, and its column."""
    history = read(raw, name)
    told, outcome = judged(history.nights, history.signs, list(map(str, history.labels)), groups=history.groups,
                           events=history.events, nodes=history.nodes)
    slow = np.flatnonzero(np.isin(outcome.state, LOW_NIGHTS))
    of_series = np.split(slow, np.searchsorted(slow, history.nights.start[1:-1]))
    return {series: SeriesJudgement(last, tuple(history.labels[i] for i in alarms))
            for series, last, alarms in zip(history.names, told, of_series, strict=True)}


def read(raw: bytes, name: str) -> History:
    """Return the nights of every series in the bytes of the CSV ``name``.

    UsageError names the first wrong line, and its column."""
    return of_rows(_read(raw, name))


def of_rows(rows: pl.DataFrame) -> History:
    """Return the nights of rows with series, group, event, node, night, again (a rerun's), run, value and sign."""
    frame = rows.sort('series', 'night', 'again', 'run')
    series, at = (frame.select(each.rle_id().cast(int)).to_series().to_numpy()
                  for each in (pl.col('series'), pl.struct('series', 'night')))
    first = np.flatnonzero(np.diff(at, prepend=-1))
    start = np.append(np.flatnonzero(np.diff(series[first], prepend=-1)), len(first))
    labels, each = frame['night'].gather(first), frame[first[start[:-1]]]
    when, signs = labels.rank('dense').to_numpy().astype(int), each['sign'].to_numpy()
    nights = Nights.of(start, at, frame['value'].to_numpy(), frame['again'].to_numpy(), signs, when)
    names = each.with_row_index('i').select(pl.when(pl.col('group') == '').then(
        pl.format('series {}', 'i')).otherwise(pl.format('group {}', 'group'))).to_series()
    own = frame.filter(~pl.col('again')).select('node', at=pl.Series(at).filter(~frame['again']))
    nodes = own.group_by('at').agg(pl.col('node').unique().sort().str.join(',')).sort('at')['node']
    events = frame.select('event', at=pl.Series(at)).group_by('at').agg(pl.col('event').max()).sort('at')['event']
    return History(each['series'].to_list(), nights, signs.tolist(), names.rank('dense').to_numpy().astype(int),
                   labels.to_list(), events.to_numpy() if (frame['event'] != '').any() else None,
                   nodes.to_list() if frame['node'].n_unique() > 1 else None,
                   each['area'].to_list() if 'area' in each.columns else None)


def _read(raw: bytes, name: str) -> pl.DataFrame:
    """Return the rows of a file as series, night, again (a rerun's), run, value and sign."""

    table = CsvTable(raw, name, COLUMNS, _OPTIONAL, others=True, blank=False)
    text = table.frame()
    whole = pl.col('night').str.contains(_WHOLE)
    night = pl.col('night').str.to_integer(strict=False) if text.select(whole.all()).item() else pl.col('night')
    rows = text.select('series', 'group', 'event', 'node', night, again=pl.col('kind') == 'rerun',
                       run=pl.col('run').str.to_integer(strict=False),
                       value=pl.col('value').cast(pl.Float64, strict=False),
                       sign=pl.col('direction').replace_strict(_SIGNS, default=None, return_dtype=pl.Int8))
    number, size = pl.col('value').str.contains(NUMBER), rows['value'].abs()
    table.refuse(text, {
        'series is empty; must be a name': pl.col('series') == '',
        'night {night!r} is neither a whole number nor a date such as 2026-11-20':
            ~whole & pl.when(pl.col('night').str.contains('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')).then('night')
            .str.to_date('%Y-%m-%d', strict=False).is_null(),
        'kind {kind!r}; valid: run, rerun': ~pl.col('kind').is_in(['run', 'rerun']),
        'run {run!r} is no whole number': ~pl.col('run').str.contains(_WHOLE),
        'value {value} is not finite; a run without a figure is left out of the file':
            pl.col('value').str.contains('^(?i)[+-]?(nan|inf|infinity)$') | number & size.is_infinite(),
        'value {value!r} is no number, such as 71.2 or 7.12e4': ~number,
        f'value {{value}} is too large to be a figure; must be below {LARGEST:g}': number & (size >= LARGEST),
        f'value {{value}} is too small to be a figure; must be above {SMALLEST:g}':
            number & (size > 0) & (size < SMALLEST),
        'direction {direction!r}; valid: higher, lower, or empty for higher': rows['sign'].is_null(),
        f'event {{event!r}}; valid: {", ".join(EVENTS)}, or empty': ~pl.col('event').is_in(['', *EVENTS]),
        'series {series!r}, night {night} has another event on an earlier line; must be one a night':
            rows.select((pl.col('event') != '') & (pl.col('event') != pl.col('event').filter(
                pl.col('event') != '').first().over('series', 'night'))).to_series().fill_null(False),
        'series {series!r} is in another group on an earlier line; must be one group':
            rows.select(pl.col('group') != pl.col('group').first().over('series')).to_series(),
        'night {night!r}: nights are whole numbers or dates; the order of both together is not known':
            whole != whole.first(),
        '{kind} {run} of series {series!r}, night {night}, stands on an earlier line, too':
            ~rows.select(pl.struct('series', 'night', 'again', 'run').is_first_distinct()).to_series(),
        'series {series!r} has another direction on an earlier line; must be one direction':
            rows.select(pl.col('sign') != pl.col('sign').first().over('series')).to_series(),
        'series {series!r}, night {night} has reruns but no run':
            rows.select(pl.col('again').all().over('series', 'night')).to_series(),
    })
    return rows
