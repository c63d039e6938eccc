"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike.

Also of a history in a file (columns series, night, kind, run, value, perhaps direction): `parity detect`."""

from __future__ import annotations

import io
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np

from parity.base import files
from parity.base.errors import UsageError
from parity.stats import bounds, search
from parity.stats.noise import DEFAULT, RATE, Nights, Rules, Values, of_history, of_nights
from parity.stats.search import FAST, SLOW, TOO_FEW, Episode, Outcome

if TYPE_CHECKING:
    import polars as pl

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
#: direction: an empty one is the default, higher.
_SIGNS = {'higher': 1, 'lower': -1, '': 1}
_WHOLE = '^-?[0-9]{1,18}$'
_NUMBER = '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$'
#: Nothing is measured in more, and the squares of more are no numbers.
_LARGEST = 1e100


@dataclass(frozen=True)
class Series:
    """The judgement on a series' last night, and every night that alarmed when it was the last."""

    judgement: Judgement
    alarms: tuple[int | str, ...]


def of_file(raw: bytes, name: str) -> dict[str, Series]:
    """Judge every series in the bytes of the CSV ``name``, each for itself: the stated rate is that of one series.

    Nights that are numbers stay numbers. UsageError names the first wrong line, and its column."""
    import polars as pl
    frame = _read(raw, name).sort('series', 'night', 'again', 'run')
    series, at = (frame.select(each.rle_id().cast(int)).to_series().to_numpy()
                  for each in (pl.col('series'), pl.struct('series', 'night')))
    first = np.flatnonzero(np.diff(at, prepend=-1))
    start = np.append(np.flatnonzero(np.diff(series[first], prepend=-1)), len(first))
    nights = Nights.of(start, at, (frame['value'] * frame['sign']).to_numpy(), frame['again'].to_numpy())
    labels, each = frame['night'].gather(first).to_list(), frame[first[start[:-1]]]
    told, outcome = judged(nights, each['sign'].to_list(), list(map(str, labels)), DEFAULT)
    slow = np.flatnonzero(outcome.state == SLOW)
    of_series = np.split(slow, np.searchsorted(slow, start[1:-1]))
    return {name: Series(last, tuple(labels[i] for i in alarms))
            for name, last, alarms in zip(each['series'], told, of_series, strict=True)}


def _read(raw: bytes, name: str) -> pl.DataFrame:
    """Return the rows of a file as series, night, again (a rerun's), run, value and sign.

    polars reads a million rows in a second and knows no lines; ``lines`` knows them, and what is not CSV."""
    import polars as pl

    def lines() -> Iterator[tuple[int, dict[str, str]]]:
        return files.rows(raw, name, _bad_header, blank=False)

    if next(lines(), None) is None:
        raise UsageError(f'{name}:1: no rows below the header: nothing was measured')
    try:
        frame = pl.read_csv(io.BytesIO(raw.rstrip()), infer_schema=False).fill_null('')
    except pl.exceptions.PolarsError:
        deque(lines(), 0)
        raise UsageError(f'{name}: this cannot be read as a table of {", ".join(_COLUMNS)}') from None
    text = frame.select(*_COLUMNS, direction='direction' if 'direction' in frame.columns else pl.lit(''))
    whole = pl.col('night').str.contains(_WHOLE)
    night = pl.col('night').str.to_integer(strict=False) if text.select(whole.all()).item() else pl.col('night')
    rows = text.select('series', night, again=pl.col('kind') == 'rerun',
                       run=pl.col('run').str.to_integer(strict=False),
                       value=pl.col('value').cast(pl.Float64, strict=False),
                       sign=pl.col('direction').replace_strict(_SIGNS, default=None, return_dtype=pl.Int8))
    number, size = pl.col('value').str.contains(_NUMBER), rows['value'].abs()
    wrong = {
        'series is empty; must be a name': pl.col('series') == '',
        'night {night!r} is neither a whole number nor a date such as 2026-11-20':
            ~whole & pl.when(pl.col('night').str.contains('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')).then('night')
            .str.to_date('%Y-%m-%d', strict=False).is_null(),
        'kind {kind!r}; valid: run, rerun': ~pl.col('kind').is_in(['run', 'rerun']),
        'run {run!r} is no whole number': ~pl.col('run').str.contains(_WHOLE),
        'value {value} is not finite; a run without a figure is left out of the file':
            pl.col('value').str.contains('^(?i)[+-]?(nan|inf|infinity)$') | number & size.is_infinite(),
        'value {value!r} is no number, such as 71.2 or 7.12e4': ~number,
        f'value {{value}} is too large to be a figure; must be below {_LARGEST:g}': number & (size >= _LARGEST),
        'direction {direction!r}; valid: higher, lower, or empty for higher': rows['sign'].is_null(),
        'night {night!r}: nights are whole numbers or dates; the order of both together is not known':
            whole != whole.first(),
        '{kind} {run} of series {series!r}, night {night}, stands on an earlier line, too':
            ~rows.select(pl.struct('series', 'night', 'again', 'run').is_first_distinct()).to_series(),
        'series {series!r} has another direction on an earlier line; must be one direction':
            rows.select(pl.col('sign') != pl.col('sign').first().over('series')).to_series(),
        'series {series!r}, night {night} has reruns but no run':
            rows.select(pl.col('again').all().over('series', 'night')).to_series(),
    }
    found = [(at, what) for what, mask in wrong.items()
             if (at := text.select(pl.arg_where(mask).first()).item()) is not None]
    if found:
        at, what = min(found, key=itemgetter(0))
        line = deque(islice(lines(), at + 1), 1)[0][0]
        raise UsageError(f'{name}:{line}: {what.format(**text.row(at, named=True))}')
    return rows


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
