"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike.

Also of a history in a file (columns series, night, kind, run, value, perhaps direction): `parity detect`."""

from __future__ import annotations

import datetime
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, NoReturn

import numpy as np

from parity.base import files
from parity.base.errors import UsageError
from parity.stats import bounds, search
from parity.stats.noise import DEFAULT, RATE, Nights, Rules, Values, of_history, of_nights
from parity.stats.search import FAST, SLOW, TOO_FEW, Episode, Outcome

#: From these on a person should know.
_DEPENDENT, _SEEN = 0.3, 0.05
#: A history of fewer nights than this has no spread to speak of.
_SOME = 5
Word = Literal['ok', 'improved', 'regressed', 'insufficient']


@dataclass(frozen=True)
class Reference:
    """An accepted value and its bounds, absolute, in the metric's unit; None where there is no bound."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The judgement of a cell tonight; values are in the metric's unit."""

    verdict: Word
    why: str
    warnings: tuple[str, ...]
    value: float                  # tonight's: the runs (and reruns) together
    baseline: float | None        # median of the history
    low: float | None             # band of a single night: three spreads around the baseline
    high: float | None
    needs_rerun: bool             # the runs are suspicious, and nothing was run again

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


@dataclass
class _Last:
    """One series on its last night; relative figures are fractions of ``baseline``, below 0 for worse."""

    state: int
    night: int               # its place among all nights
    nights: int              # length of the history it is held against
    value: float             # of tonight, oriented: higher is better
    suspicious: bool         # tonight is low, and was not run again
    episode: Episode | None
    baseline: float = math.nan
    spread: float = math.nan
    three: float = math.nan  # mean of the last three nights, oriented
    bar: float = math.nan
    lag: float = 0.0
    shared: float = 1.0
    slow: int = 0
    resolution: float = 0.0

    @property
    def change(self) -> float:
        return (self.value - self.baseline) / abs(self.baseline) if self.baseline else math.nan

    @property
    def least(self) -> float:
        """The change that three nights must be clear of, relative."""
        return self.bar * self.spread * math.sqrt(1 / 3 + 1 / max(1, self.nights))


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rules: Rules,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """Return the judgement of each series on its last night, and the state of all nights. ``signs`` [series]: 1
    where higher is better, else -1; ``labels`` [nights]; ``references`` [series]."""
    values = of_nights(nights, rules)
    outcome = search.follow(nights, values, rules)
    lasts = _lasts(nights, values, outcome, rules)
    return [_judgement(*each, labels, rules)
            for each in zip(lasts, signs, references or [None] * len(lasts), strict=True)], outcome


def _lasts(nights: Nights, values: Values, outcome: Outcome, rules: Rules) -> list[_Last]:
    """Return the last night of every series; histories of one length are measured together."""
    found, by_length = [], {}
    for k, (base, end) in enumerate(zip(outcome.base, nights.start[1:], strict=True)):
        night, episode = int(end) - 1, outcome.lasting.get(k)
        rows = base + np.flatnonzero(outcome.kept[base:episode.begin if episode else end])
        rows = (rows if episode else rows[:-rules.last])[-rules.window:]
        low = values.suspicious[night] and not nights.reruns.count[night]
        found.append(_Last(int(outcome.state[night]), night, len(rows), float(values.value[night]), bool(low),
                           episode))
        by_length.setdefault(len(rows), []).append((k, rows))
    for n, histories in by_length.items():
        if n < _SOME:
            continue
        rows = np.array([rows for _, rows in histories])
        noise = of_history(values.value[rows], values.within[rows], rules)
        needed = search.bar(noise, rules)
        for i, (k, _) in enumerate(histories):
            last = found[k]
            last.baseline, last.bar = float(noise.median[i]), float(needed[i])
            last.three = float(values.value[max(int(nights.start[k]), last.night - 2):last.night + 1].mean())
            for name in ('spread', 'lag', 'shared', 'slow', 'resolution'):
                setattr(last, name, getattr(noise, name)[i].item())
    return found


def _judgement(last: _Last, sign: int, reference: Reference | None, labels: Sequence[str],
               rules: Rules) -> Judgement:
    word, why = _word(last, sign, reference, labels, rules)
    known = math.isfinite(last.spread) and last.baseline != 0
    width = 3 * last.spread * math.sqrt(1 + 1 / last.nights) * abs(last.baseline) if known else 0.0
    middle = sign * last.baseline if known else None
    new = last.episode is None or last.episode.found == last.night      # not a slowdown that is known already
    return Judgement(
        verdict=word, why=why, warnings=tuple(_warnings(last, rules)) if known else (), value=sign * last.value,
        baseline=middle, low=middle - width if known else None, high=middle + width if known else None,
        needs_rerun=last.suspicious and new and not last.change > -rules.effect)


def _word(last: _Last, sign: int, reference: Reference | None, labels: Sequence[str],
          rules: Rules) -> tuple[Word, str]:
    if last.state == TOO_FEW:
        return 'insufficient', (
            f'{last.nights} nights of history before the last three: the stated error rate needs {rules.least}, '
            f'so judging begins on night {rules.least + rules.last}')
    if not last.baseline:
        return 'insufficient', 'the median of the history is 0: a change has no measure'
    if last.state in (SLOW, FAST):
        return ('regressed' if last.state == SLOW else 'improved'), _episode(last, labels, rules)
    if reference and reference.value:
        off = (last.three - sign * reference.value) / abs(reference.value)
        beyond = bounds.side(sign * last.three, reference.low, reference.high)
        if beyond and abs(off) >= last.bar * last.spread / math.sqrt(3):        # clear of the noise
            return ('regressed' if beyond == -sign else 'improved'), (
                f'the last three nights are {_off(off)} the accepted {reference.value:.4g}, beyond its bound; '
                f'the recent nights alone show no step: a drift')
    said = (f'tonight is {_off(last.change)} the median of {last.nights} nights; '
            f'their spread is {_share(last.spread)}')
    if last.suspicious and last.change < -last.least:
        said += '; it was not run again, and one night alone is not believed'
    if last.episode:
        said += (f'; what began on {labels[last.episode.begin]} is not over: '
                 'it ends with a second night like this one')
    return 'ok', said


def _episode(last: _Last, labels: Sequence[str], rules: Rules) -> str:
    """Say why the nights are an episode, and how long it has lasted."""
    found, against = last.episode, f'the median of the {last.nights} nights before'
    off = _off(found.change)
    said = (f'a drift: the last {rules.drift} nights were {off} the first {rules.least + rules.last}',
            f'one night was {off} {against}, and its rerun confirmed it',
            f'two nights were {off} {against}, and a rerun confirmed it',
            f'three nights were {off} {against}; {_share(last.least)} is clear of the noise, exact p {found.p:.2g}'
            )[found.rule]
    lasts = last.night - found.begin + 1
    kind = 'better' if found.state == FAST else 'worse'
    return f'{kind} since {labels[found.begin]} ({lasts} {"night" if lasts == 1 else "nights"}): {said}'


def _warnings(last: _Last, rules: Rules) -> Iterator[str]:
    """Name what limits the judgement."""
    shared = last.shared > rules.shared
    if math.isfinite(last.shared) and shared:
        yield f'nights scatter {last.shared:.1f} times more than their runs do: a rerun that night confirms little'
    if last.lag > _DEPENDENT and shared:
        yield f'nights depend on the night before ({last.lag:.2f}): a change must be larger to be believed'
    if last.slow:
        yield f'{last.slow} of {last.nights} nights are slow ones among good ones (a slow node?)'
    if last.resolution > rules.effect:
        yield f'the values come in steps of {_share(last.resolution)}'
    if last.least > _SEEN:
        yield f'three nights must change by {_share(last.least)} before it is clear of the noise'
    if last.suspicious:
        yield 'tonight is low and was not run again: one or two nights alone are not believed without a rerun'


def _share(x: float) -> str:
    return f'{100 * x:.1f} %' if abs(x) < 0.0995 else f'{100 * x:.0f} %'


def _off(change: float) -> str:
    if abs(change) < 0.0005:
        return 'at'
    return f'{_share(abs(change))} {"better" if change > 0 else "worse"} than'


STATED = (f'stated false-alarm rate: {1000 * RATE:g} per 1000 nights of a series '
          f'(from its night {DEFAULT.least + DEFAULT.last} on)')
_COLUMNS = ('series', 'night', 'kind', 'run', 'value')
_KINDS = ('run', 'rerun')
#: Nothing is measured in more, and the squares of more are no numbers.
_LARGEST = 1e100
#: direction: an empty one is the default, higher.
_SIGNS = {'higher': 1, 'lower': -1, '': 1}
_WHOLE = re.compile(r'^-?[0-9]{1,18}$')
_ISO = re.compile(r'^[0-9]{4}-[0-9]{2}-[0-9]{2}$')
_NUMBER = re.compile(r'^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$')


@dataclass(frozen=True)
class Table:
    """The nights of all series, by name; ``labels`` [nights] as they stand in the file, numbers as numbers."""

    names: Sequence[str]
    signs: Sequence[int]
    nights: Nights
    labels: Sequence[int | str]


@dataclass(frozen=True)
class Series:
    """The judgement on a series' last night, and every night that alarmed when it was the last."""

    judgement: Judgement
    alarms: tuple[int | str, ...]


def of_table(table: Table, rules: Rules = DEFAULT) -> dict[str, Series]:
    """Every series by name. Each is judged for itself: the stated rate is that of one series."""
    told, outcome = judged(table.nights, table.signs, list(map(str, table.labels)), rules)
    slow = np.flatnonzero(outcome.state == SLOW)
    edges = np.searchsorted(slow, table.nights.start)
    return {name: Series(each, tuple(table.labels[i] for i in slow[edges[k]:edges[k + 1]]))
            for k, (name, each) in enumerate(zip(table.names, told, strict=True))}


def read(raw: bytes, name: str) -> Table:
    """Return the table in the bytes of file ``name``. UsageError names the first wrong line, and its column.

    polars reads a million rows in a second and knows no lines: only a file that is wrong is read row by row."""
    return _quickly(raw.rstrip()) or _refused(raw, name)


def _quickly(raw: bytes) -> Table | None:
    """Return the table, or None where anything is wrong."""
    import polars as pl
    try:
        frame = pl.read_csv(io.BytesIO(raw), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None
    twice = any('_duplicated_' in column for column in frame.columns)     # polars' name for a second one
    if not frame.height or twice or _bad_header(frame.columns):
        return None
    if 'direction' not in frame.columns:
        frame = frame.with_columns(direction=pl.lit(''))
    frame = frame.select(*_COLUMNS, 'direction').fill_null('')
    night, value = frame['night'], frame['value'].cast(pl.Float64, strict=False)
    if night.str.contains(_WHOLE.pattern).all():
        night = night.str.to_integer(strict=False)
    elif not night.str.contains(_ISO.pattern).all() or night.str.to_date('%Y-%m-%d', strict=False).null_count():
        return None
    found = pl.DataFrame({
        'series': frame['series'], 'night': night, 'again': frame['kind'] == _KINDS[1],
        'run': frame['run'].str.to_integer(strict=False), 'value': value,
        'sign': frame['direction'].replace_strict(_SIGNS, default=None, return_dtype=pl.Int8)})
    good = (found.null_count().sum_horizontal().item() == 0 and (value.abs() < _LARGEST).all()
            and frame['kind'].is_in(_KINDS).all() and frame['run'].str.contains(_WHOLE.pattern).all()
            and frame['value'].str.contains(_NUMBER.pattern).all() and (frame['series'] != '').all())
    if not good:
        return None
    found = found.sort('series', 'night', 'again', 'run')
    run = found.select(pl.struct('series', 'night', 'again', 'run').rle_id()).to_series()
    series, at = (found.select(each.rle_id().cast(int)).to_series().to_numpy()
                  for each in (pl.col('series'), pl.struct('series', 'night')))
    first = np.flatnonzero(np.diff(at, prepend=-1))
    start = np.append(np.flatnonzero(np.diff(series[first], prepend=-1)), len(first))
    again, sign = found['again'].to_numpy(), found['sign'].to_numpy()
    signs = sign[first[start[:-1]]]
    if run.n_unique() < len(run) or (signs[series] != sign).any() or \
            not np.bincount(at[~again], minlength=len(first)).all():
        return None
    return Table(found['series'].gather(first[start[:-1]]).to_list(), signs.tolist(),
                 Nights.of(start, at, found['value'].to_numpy() * sign, again),
                 found['night'].gather(first).to_list())


def _bad_header(header: Sequence[str]) -> str:
    """Say what is wrong with the columns, '' if nothing. Others are let be unless they look like one of ours."""
    if missing := [column for column in _COLUMNS if column not in header]:
        return f'no column {", ".join(missing)}; needed are {", ".join(_COLUMNS)}, and direction if wanted'
    if twice := [column for column in header if header.count(column) > 1]:
        return f'column {twice[0]} stands there twice'
    for column in header:
        near = get_close_matches(column.strip().lower(), (*_COLUMNS, 'direction'), n=1, cutoff=0.75)
        if near and column != near[0]:
            return f'column {column!r}; did you mean {near[0]}?'
    return ''


def _refused(raw: bytes, name: str) -> NoReturn:
    """Raise UsageError for the first row that is wrong."""
    line, sorts = 0, ''
    runs: dict[tuple, int] = {}
    directions: dict[str, tuple[str, int]] = {}
    first: dict[tuple, int] = {}
    for line, row in files.rows(raw, name, _bad_header, blank=False):
        series, night, kind, run = (row[column] for column in _COLUMNS[:4])
        key = series, *(int(text) if _WHOLE.match(text) else text for text in (night, run)), kind
        sort, better = 'whole number' if _WHOLE.match(night) else 'date', row.get('direction') or 'higher'
        sorts = sorts or sort
        before, at = directions.setdefault(series, (better, line))
        if what := _field_wrong(row):
            pass
        elif sort != sorts:
            what = f'night {night!r} is a {sort}, but those before are {sorts}s: their order is not known'
        elif key in runs:
            what = f'{kind} {run} of series {series!r}, night {night}, was on line {runs[key]} already'
        elif better != before:
            what = f'series {series!r} is {better} here and {before} on line {at}; must be one direction'
        if what:
            raise UsageError(f'{name}:{line}: {what}')
        runs[key] = line
        first.setdefault(key[:2], line)
    if not line:
        raise UsageError(f'{name}:1: no rows below the header: nothing was measured')
    ran = {key[:2] for key in runs if key[3] == 'run'}
    for (series, night), line in first.items():
        if (series, night) not in ran:
            raise UsageError(f'{name}:{line}: series {series!r}, night {night} has reruns but no run')
    raise UsageError(f'{name}: this cannot be read as a table of {", ".join(_COLUMNS)}')


def _field_wrong(row: dict[str, str]) -> str:
    """Say what is wrong with a field of the row, '' if nothing."""
    night, kind, value, direction = row['night'], row['kind'], row['value'], row.get('direction', '')
    if not row['series']:
        return 'series is empty; must be a name'
    if not _WHOLE.match(night) and not _date(night):
        return f'night {night!r} is neither a whole number nor a date such as 2026-11-20'
    if kind not in _KINDS:
        return f'kind {kind!r}; valid: {", ".join(_KINDS)}'
    if not _WHOLE.match(row['run']):
        return f'run {row["run"]!r} is no whole number'
    if re.fullmatch(r'[+-]?(nan|inf|infinity)', value, re.I) or _NUMBER.match(value) and math.isinf(float(value)):
        return f'value {value} is not finite; a run without a figure is left out of the file'
    if not _NUMBER.match(value):
        return f'value {value!r} is no number, such as 71.2 or 7.12e4'
    if abs(float(value)) >= _LARGEST:
        return f'value {value} is too large to be a figure; must be below {_LARGEST:g}'
    return '' if direction in _SIGNS else f'direction {direction!r}; valid: higher, lower, or empty for higher'


def _date(text: str) -> bool:
    try:
        return bool(_ISO.match(text) and datetime.date.fromisoformat(text))
    except ValueError:
        return False
