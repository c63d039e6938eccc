"""A history in a file (columns series, night, kind, run, value, perhaps others), judged: `parity detect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
_DATE = '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'
_NOT_FINITE = '^(?i)[+-]?(nan|inf|infinity)$'
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
        nights = self.nights
        chosen = np.flatnonzero(np.isin(self.groups, groups))
        series_of_night = np.repeat(np.arange(len(self.groups)), np.diff(nights.start))
        is_kept = np.isin(series_of_night, chosen)
        if until is not None:
            is_kept &= nights.when <= until
        kept = np.flatnonzero(is_kept)
        nights_of_series = np.bincount(series_of_night[kept], minlength=len(self.groups))
        ends = nights_of_series[chosen].cumsum()
        part = Nights(
            start=np.append(0, ends),
            when=nights.when[kept],
            value=nights.value[kept],
            again=nights.again[kept],
            total=nights.total[kept],
            counts=nights.counts[chosen])
        return History(
            names=_taken(self.names, chosen),
            nights=part,
            signs=_taken(self.signs, chosen),
            groups=self.groups[chosen],
            labels=_taken(self.labels, kept),
            events=None if self.events is None else self.events[kept],
            nodes=None if self.nodes is None else _taken(self.nodes, kept),
            areas=None if self.areas is None else _taken(self.areas, chosen))


def _taken(values: Sequence[Any], places: np.ndarray) -> list[Any]:
    return [values[place] for place in places]


def of_file(raw: bytes, name: str) -> dict[str, SeriesJudgement]:
    """Judge every series in the bytes of the CSV ``name``, each for itself: the stated rate is that of one series.

    Nights that are numbers stay numbers. UsageError names the first wrong line, and its column."""
    history = read(raw, name)
    nights = [str(label) for label in history.labels]
    judgements, outcome = judged(history.nights, history.signs, nights, groups=history.groups,
                                 events=history.events, nodes=history.nodes)
    slow = np.flatnonzero(np.isin(outcome.state, LOW_NIGHTS))
    slow_of_series = np.split(slow, np.searchsorted(slow, history.nights.start[1:-1]))
    by_series = {}
    for series, judgement, alarms in zip(history.names, judgements, slow_of_series, strict=True):
        labels = tuple(history.labels[i] for i in alarms)
        by_series[series] = SeriesJudgement(judgement, labels)
    return by_series


def read(raw: bytes, name: str) -> History:
    """Return the nights of every series in the bytes of the CSV ``name``.

    UsageError names the first wrong line, and its column."""
    return of_rows(_read(raw, name))


def of_rows(rows: pl.DataFrame) -> History:
    """Return the nights of rows with series, group, event, node, night, again (a rerun's), run, value and sign."""
    rows = rows.sort('series', 'night', 'again', 'run')
    series_of_row = rows['series'].rle_id().cast(int).to_numpy()
    night_of_row = rows.select(pl.struct('series', 'night').rle_id().cast(int)).to_series().to_numpy()
    first_rows = np.flatnonzero(np.diff(night_of_row, prepend=-1))          # of each night
    first_nights = np.flatnonzero(np.diff(series_of_row[first_rows], prepend=-1))       # of each series
    start = np.append(first_nights, len(first_rows))
    by_series = rows[first_rows[first_nights]]
    labels = rows['night'].gather(first_rows)
    signs = by_series['sign'].to_numpy()
    nights = Nights.of(start, night_of_row, rows['value'].to_numpy(), rows['again'].to_numpy(), signs,
                       when=labels.rank('dense').to_numpy().astype(int))
    return History(
        names=by_series['series'].to_list(),
        nights=nights,
        signs=signs.tolist(),
        groups=_group_numbers(by_series),
        labels=labels.to_list(),
        events=_events(rows, night_of_row),
        nodes=_nodes(rows, night_of_row),
        areas=by_series['area'].to_list() if 'area' in by_series.columns else None)


def _group_numbers(by_series: pl.DataFrame) -> np.ndarray:
    """Return a number for each group. A series without a group is one of its own."""
    alone = pl.format('series {}', 'row')
    of_group = pl.format('group {}', 'group')
    names = by_series.with_row_index('row').select(pl.when(pl.col('group') == '').then(alone).otherwise(of_group))
    return names.to_series().rank('dense').to_numpy().astype(int)


def _events(rows: pl.DataFrame, night_of_row: np.ndarray) -> np.ndarray | None:
    """Return the event of each night, or ''; None where no row has one."""
    if (rows['event'] == '').all():
        return None
    by_night = rows.group_by(pl.Series('at', night_of_row)).agg(pl.col('event').max())
    return by_night.sort('at')['event'].to_numpy()


def _nodes(rows: pl.DataFrame, night_of_row: np.ndarray) -> list[str] | None:
    """Return the nodes of each night's own runs; None where all rows have the same."""
    if rows['node'].n_unique() <= 1:
        return None
    own = rows.select('node', 'again', at=pl.Series(night_of_row)).filter(~pl.col('again'))
    by_night = own.group_by('at').agg(pl.col('node').unique().sort().str.join(','))
    return by_night.sort('at')['node'].to_list()


def _read(raw: bytes, name: str) -> pl.DataFrame:
    """Return the rows of a file as series, night, again (a rerun's), run, value and sign."""
    table = CsvTable(raw, name, COLUMNS, _OPTIONAL, others=True, blank=False)
    text = table.frame()
    night = pl.col('night')
    if text['night'].str.contains(_WHOLE).all():
        night = night.str.to_integer(strict=False)
    rows = text.select(
        'series', 'group', 'event', 'node', night,
        again=pl.col('kind') == 'rerun',
        run=pl.col('run').str.to_integer(strict=False),
        value=pl.col('value').cast(pl.Float64, strict=False),
        sign=pl.col('direction').replace_strict(_SIGNS, default=None, return_dtype=pl.Int8))
    table.refuse(text, _wrong_cells(rows) | _wrong_rows(rows))
    return rows


def _wrong_cells(rows: pl.DataFrame) -> dict[str, pl.Expr | pl.Series]:
    """Return the messages of cells that cannot be read, each with the rows that it is about."""
    whole_night = pl.col('night').str.contains(_WHOLE)
    date = pl.when(pl.col('night').str.contains(_DATE)).then('night').str.to_date('%Y-%m-%d', strict=False)
    number = pl.col('value').str.contains(NUMBER)
    not_finite = pl.col('value').str.contains(_NOT_FINITE)
    size = rows['value'].abs()
    is_small = (size > 0) & (size < SMALLEST)
    wrong: dict[str, pl.Expr | pl.Series] = {}
    wrong['series is empty; must be a name'] = pl.col('series') == ''
    wrong['night {night!r} is neither a whole number nor a date such as 2026-11-20'] = \
        ~whole_night & date.is_null()
    wrong['kind {kind!r}; valid: run, rerun'] = ~pl.col('kind').is_in(['run', 'rerun'])
    wrong['run {run!r} is no whole number'] = ~pl.col('run').str.contains(_WHOLE)
    wrong['value {value} is not finite; a run without a figure is left out of the file'] = \
        not_finite | number & size.is_infinite()
    wrong['value {value!r} is no number, such as 71.2 or 7.12e4'] = ~number
    wrong[f'value {{value}} is too large to be a figure; must be below {LARGEST:g}'] = number & (size >= LARGEST)
    wrong[f'value {{value}} is too small to be a figure; must be above {SMALLEST:g}'] = number & is_small
    wrong['direction {direction!r}; valid: higher, lower, or empty for higher'] = rows['sign'].is_null()
    wrong[f'event {{event!r}}; valid: {", ".join(EVENTS)}, or empty'] = ~pl.col('event').is_in(['', *EVENTS])
    return wrong


def _wrong_rows(rows: pl.DataFrame) -> dict[str, pl.Expr | pl.Series]:
    """Return the messages of rows that contradict others, each with the rows that it is about."""
    has_event = pl.col('event') != ''
    first_event = pl.col('event').filter(has_event).first().over('series', 'night')
    first_group = pl.col('group').first().over('series')
    first_sign = pl.col('sign').first().over('series')
    whole_night = pl.col('night').str.contains(_WHOLE)
    is_repeated = ~pl.struct('series', 'night', 'again', 'run').is_first_distinct()
    other_event = _where(rows, has_event & (pl.col('event') != first_event))
    wrong: dict[str, pl.Expr | pl.Series] = {}
    wrong['series {series!r}, night {night} has another event on an earlier line; must be one a night'] = \
        other_event.fill_null(False)
    wrong['series {series!r} is in another group on an earlier line; must be one group'] = \
        _where(rows, pl.col('group') != first_group)
    wrong['night {night!r}: nights are whole numbers or dates; the order of both together is not known'] = \
        whole_night != whole_night.first()
    wrong['{kind} {run} of series {series!r}, night {night}, stands on an earlier line, too'] = \
        _where(rows, is_repeated)
    wrong['series {series!r} has another direction on an earlier line; must be one direction'] = \
        _where(rows, pl.col('sign') != first_sign)
    wrong['series {series!r}, night {night} has reruns but no run'] = \
        _where(rows, pl.col('again').all().over('series', 'night'))
    return wrong


def _where(rows: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    return rows.select(condition).to_series()
