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
from parity.judge.stats.nights import Nights, Texts
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
        if self.nodes is None:
            return None
        return Texts.of(pl.Series(self.nodes)).number

    @property
    def longest(self) -> int:
        """Return how many nights the longest series has."""
        return int(np.diff(self.nights.start).max(initial=0))

    def part(self, groups: np.ndarray, until: int | None = None) -> History:
        """Return the series of some groups, up to a time."""
        is_chosen = np.isin(self.groups, groups)
        is_kept = is_chosen[self.nights.series]
        if until is not None:
            is_kept &= self.nights.when <= until
        chosen = np.flatnonzero(is_chosen)
        kept = np.flatnonzero(is_kept)
        events = self.events
        if events is not None:
            events = events[kept]
        return History(
            names=_taken(self.names, chosen),
            nights=self.nights.part(chosen, kept),
            signs=_taken(self.signs, chosen),
            groups=self.groups[chosen],
            labels=_taken(self.labels, kept),
            events=events,
            nodes=_taken(self.nodes, kept),
            areas=_taken(self.areas, chosen))


def _taken(values: Sequence[Any] | None, places: np.ndarray) -> list[Any] | None:
    """Return the values at some places; None of None."""
    if values is None:
        return None
    return [values[place] for place in places]


def of_file(raw: bytes, name: str) -> dict[str, SeriesJudgement]:
    """Judge every series in the bytes of the CSV ``name``, each for itself: the stated rate is that of one series.

    Nights that are numbers stay numbers. UsageError names the first wrong line, and its column."""
    history = read(raw, name)
    names_of_nights = [str(label) for label in history.labels]
    nodes = None
    if history.nodes is not None:
        nodes = Texts.of(pl.Series(history.nodes))
    judgements, outcome = judged(
        history.nights,
        history.signs,
        names_of_nights,
        groups=history.groups,
        events=history.events,
        nodes=nodes)
    is_slow = np.isin(outcome.state, LOW_NIGHTS)
    start = history.nights.start
    by_series = {}
    for k, series in enumerate(history.names):
        first, end = start[k:k + 2]
        slow = np.flatnonzero(is_slow[first:end])
        alarms = tuple(history.labels[first + night] for night in slow)
        by_series[series] = SeriesJudgement(judgements[k], alarms)
    return by_series


def read(raw: bytes, name: str) -> History:
    """Return the nights of every series in the bytes of the CSV ``name``.

    UsageError names the first wrong line, and its column."""
    return of_rows(_read(raw, name))


def of_rows(rows: pl.DataFrame) -> History:
    """Return the nights of rows with series, group, event, node, night, again (a rerun's), run, value and sign."""
    rows = rows.sort('series', 'night', 'again', 'run')
    night_id = pl.struct('series', 'night').rle_id().cast(int)
    night_of_row = rows.select(night_id).to_series().to_numpy()
    series_of_row = rows['series'].rle_id().cast(int).to_numpy()
    first_rows = _begins(night_of_row)                          # of each night
    series_of_night = series_of_row[first_rows]
    first_nights = _begins(series_of_night)                     # of each series
    first_row_of_series = first_rows[first_nights]
    by_series = rows[first_row_of_series]
    areas = by_series['area'].to_list() if 'area' in by_series.columns else None
    signs = by_series['sign'].to_numpy()
    labels = rows['night'].gather(first_rows)
    order = labels.rank('dense').to_numpy()
    nights = Nights.of(
        start=np.append(first_nights, len(first_rows)),
        night=night_of_row,
        figure=rows['value'].to_numpy(),
        again=rows['again'].to_numpy(),
        signs=signs,
        when=order.astype(int))
    return History(
        names=by_series['series'].to_list(),
        nights=nights,
        signs=signs.tolist(),
        groups=_group_numbers(by_series),
        labels=labels.to_list(),
        events=_events(rows, night_of_row),
        nodes=_nodes(rows, night_of_row),
        areas=areas)


def _begins(numbers: np.ndarray) -> np.ndarray:
    """Return the places at which a number from 0 up differs from the one before."""
    steps = np.diff(numbers, prepend=-1)
    return np.flatnonzero(steps)


def _group_numbers(by_series: pl.DataFrame) -> np.ndarray:
    """Return a number for each group. A series without a group is one of its own."""
    is_alone = pl.col('group') == ''
    alone = pl.format('series {}', 'row')
    of_group = pl.format('group {}', 'group')
    name = pl.when(is_alone).then(alone).otherwise(of_group)
    names = by_series.with_row_index('row').select(name).to_series()
    return names.rank('dense').to_numpy().astype(int)


def _events(rows: pl.DataFrame, night_of_row: np.ndarray) -> np.ndarray | None:
    """Return the event of each night, or ''; None where no row has one."""
    if (rows['event'] == '').all():
        return None
    night = pl.Series('at', night_of_row)
    by_night = rows.group_by(night).agg(pl.col('event').max())
    return by_night.sort('at')['event'].to_numpy()


def _nodes(rows: pl.DataFrame, night_of_row: np.ndarray) -> list[str] | None:
    """Return the nodes of each night's own runs; None where all rows have the same."""
    if rows['node'].n_unique() <= 1:
        return None
    of_rows = rows.select('node', 'again', at=pl.Series(night_of_row))
    of_runs = of_rows.filter(~pl.col('again'))
    names = pl.col('node').unique().sort().str.join(',')
    by_night = of_runs.group_by('at').agg(names)
    return by_night.sort('at')['node'].to_list()


def _read(raw: bytes, name: str) -> pl.DataFrame:
    """Return the rows of a file as series, night, again (a rerun's), run, value and sign."""
    table = CsvTable(raw, name, COLUMNS, _OPTIONAL, others=True, blank=False)
    text = table.frame()
    night = pl.col('night')
    is_whole = text['night'].str.contains(_WHOLE)
    if is_whole.all():
        night = night.str.to_integer(strict=False)
    direction = pl.col('direction')
    rows = text.select(
        'series', 'group', 'event', 'node', night,
        again=pl.col('kind') == 'rerun',
        run=pl.col('run').str.to_integer(strict=False),
        value=pl.col('value').cast(pl.Float64, strict=False),
        sign=direction.replace_strict(_SIGNS, default=None, return_dtype=pl.Int8))
    wrong = _wrong_cells(rows) | _wrong_rows(rows)
    table.refuse(text, wrong)
    return rows


def _wrong_cells(rows: pl.DataFrame) -> dict[str, pl.Expr | pl.Series]:
    """Return the messages of cells that cannot be read, each with the rows that it is about."""
    night, value = pl.col('night'), pl.col('value')
    is_whole_night = night.str.contains(_WHOLE)
    has_form_of_date = night.str.contains(_DATE)
    date = pl.when(has_form_of_date).then('night').str.to_date('%Y-%m-%d', strict=False)
    is_kind = pl.col('kind').is_in(['run', 'rerun'])
    is_whole_run = pl.col('run').str.contains(_WHOLE)
    is_number = value.str.contains(NUMBER)
    is_not_finite = value.str.contains(_NOT_FINITE)
    size = rows['value'].abs()
    is_large = size >= LARGEST
    is_small = (size > 0) & (size < SMALLEST)
    is_event = pl.col('event').is_in(['', *EVENTS])
    wrong: dict[str, pl.Expr | pl.Series] = {}
    wrong['series is empty; must be a name'] = pl.col('series') == ''
    wrong['night {night!r} is neither a whole number nor a date such as 2026-11-20'] = \
        ~is_whole_night & date.is_null()
    wrong['kind {kind!r}; valid: run, rerun'] = ~is_kind
    wrong['run {run!r} is no whole number'] = ~is_whole_run
    wrong['value {value} is not finite; a run without a figure is left out of the file'] = \
        is_not_finite | is_number & size.is_infinite()
    wrong['value {value!r} is no number, such as 71.2 or 7.12e4'] = ~is_number
    wrong[f'value {{value}} is too large to be a figure; must be below {LARGEST:g}'] = is_number & is_large
    wrong[f'value {{value}} is too small to be a figure; must be above {SMALLEST:g}'] = is_number & is_small
    wrong['direction {direction!r}; valid: higher, lower, or empty for higher'] = rows['sign'].is_null()
    wrong[f'event {{event!r}}; valid: {", ".join(EVENTS)}, or empty'] = ~is_event
    return wrong


def _wrong_rows(rows: pl.DataFrame) -> dict[str, pl.Expr | pl.Series]:
    """Return the messages of rows that contradict others, each with the rows that it is about."""
    event, night = pl.col('event'), pl.col('night')
    first_event = event.filter(event != '').first().over('series', 'night')
    first_group = pl.col('group').first().over('series')
    first_sign = pl.col('sign').first().over('series')
    is_other_event = (event != '') & (event != first_event)
    is_whole_night = night.str.contains(_WHOLE)
    is_repeated = ~pl.struct('series', 'night', 'again', 'run').is_first_distinct()
    are_all_reruns = pl.col('again').all().over('series', 'night')
    wrong: dict[str, pl.Expr | pl.Series] = {}
    wrong['series {series!r}, night {night} has another event on an earlier line; must be one a night'] = \
        _where(rows, is_other_event).fill_null(False)
    wrong['series {series!r} is in another group on an earlier line; must be one group'] = \
        _where(rows, pl.col('group') != first_group)
    wrong['night {night!r}: nights are whole numbers or dates; the order of both together is not known'] = \
        is_whole_night != is_whole_night.first()
    wrong['{kind} {run} of series {series!r}, night {night}, stands on an earlier line, too'] = \
        _where(rows, is_repeated)
    wrong['series {series!r} has another direction on an earlier line; must be one direction'] = \
        _where(rows, pl.col('sign') != first_sign)
    wrong['series {series!r}, night {night} has reruns but no run'] = _where(rows, are_all_reruns)
    return wrong


def _where(rows: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    return rows.select(condition).to_series()
