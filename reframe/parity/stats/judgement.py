"""The judgement of each series on its last night: data that the terminal, JSON and the page render alike.

Also of a history in a file (columns series, night, kind, run, value, perhaps others): `parity detect`."""

from __future__ import annotations

import io
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from parity.base import files
from parity.base.errors import UsageError
from parity.base.figures import counted, percent
from parity.stats import levels
from parity.stats.bounds import FIRST, WANTED
from parity.stats.levels import (
    AFTER,
    COMES,
    COUNTED,
    DRIFTING,
    EVENTS,
    FAST,
    GOING,
    HEAD,
    LOW_NIGHTS,
    MOST,
    QUIET,
    RATE,
    SLOW,
    STEPS,
    TOO_FEW,
    Outcome,
)
from parity.stats.nights import Nights
from parity.stats.noise import MEMORY

if TYPE_CHECKING:
    import polars as pl

State = Literal['learning', 'normal', 'slow', 'fast', 'comes and goes']
Word = Literal['ok', 'blind', 'improved', 'regressed', 'insufficient']
_BEGAN = {'accepted': 'the value accepted', 'level': 'the level begun by hand', 'work': 'other work',
          'software': 'the software change', 'hardware': 'the change of hardware',
          'maintenance': 'the maintenance', 'improved': 'the improvement'}
_CHANGED = {'software': 'the software changed', 'hardware': 'the hardware changed',
            'maintenance': 'maintenance was'}

#: Two modes: nights of each, at least; times of the lower one; their distance in standard deviations. A calm end
#: is so many nights.
_MODE, _SPELLS, _APART, _CALM = 4, 3, 4.0, 15


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
    warnings: tuple[str, ...] = ()
    value: float = math.nan       # tonight's: the runs (and reruns) together
    baseline: float | None = None # the level
    low: float | None = None      # band of a single night: three standard deviations around the level
    high: float | None = None
    needs_rerun: bool = False     # the runs are low, and nothing was run again
    visible: float | None = None  # a share: the smallest slowdown that shows within three nights; None: not judged
    state: State = 'learning'
    begin: int = -1               # column of the first night of a slow or fast level; -1: there is none
    found: int = -1               # and of the night on which it, or the newest drop below it, was found
    level: float | None = None    # of the newest nights
    alone: bool = False           # tonight is so low that it is no chance, alone
    new: bool = False             # a slowdown that was found tonight

    @property
    def alarm(self) -> bool:
        return self.verdict == 'regressed'


def judged(nights: Nights, signs: Sequence[int], labels: Sequence[str], rate: float = RATE, *,
           groups: np.ndarray | None = None, events: np.ndarray | None = None, nodes: Sequence[str] | None = None,
           references: Sequence[Reference | None] | None = None) -> tuple[list[Judgement], Outcome]:
    """Return the judgement of each series on its last night, and the state of all nights.

    ``signs`` [series]: 1 if higher is better, else -1; ``labels``, ``events`` and ``nodes`` [nights]; ``groups``
    [series]: like cells have the same number; ``rate``: new false alarms a series and night."""
    names, number = np.unique(nodes, return_inverse=True) if nodes is not None else (None, None)
    outcome = levels.follow(nights, groups, rate, events, number)
    series = _Series(nights, outcome, labels, names, number)
    return [series.judgement(k, sign, reference) for k, (sign, reference) in enumerate(
        zip(signs, references or [None] * len(signs), strict=True))], outcome


@dataclass(frozen=True)
class _Series:
    """The nights, their outcome and the names that sentences on a series need."""

    nights: Nights
    outcome: Outcome
    labels: Sequence[str]
    names: np.ndarray | None
    node: np.ndarray | None

    def judgement(self, k: int, sign: int, reference: Reference | None) -> Judgement:
        cells, last = self.outcome.cells, int(self.nights.start[k + 1]) - 1
        state, known = int(self.outcome.state[last]), bool(np.isfinite(cells.visible[k]))
        value = float(np.exp(sign * cells.value[k])) if np.isfinite(cells.value[k]) else math.nan
        if self.nights.counts[k]:
            return self._counted(k, state, last)
        if state == TOO_FEW or state in (QUIET, GOING) and not known:
            return Judgement('insufficient', self._few(k, last), value=value)
        base, width = float(cells.base[k]), 3 * float(cells.scale[k])
        band = sorted(math.exp(sign * (base + side * width)) for side in (-1, 1))
        seen = _share(-cells.visible[k], sign) if known else None
        word, why = self._word(k, sign, state, last, seen)
        life = self._life(k, state, last)
        level = float(cells.now[k])
        if word in ('ok', 'blind') and known and self._below(k, sign, reference):
            life |= {'state': 'slow', 'begin': int(cells.begin[k]), 'found': int(cells.begin[k])}
            off = percent(_share(level - sign * math.log(reference.value), sign))
            word, why = 'regressed', (f'the level of the last nights is {off} worse than the accepted '
                                      f'{reference.value:.4g}, beyond its bound')
        low = base - float(cells.value[k])
        return Judgement(
            word, why, tuple(self._warnings(k, sign, last)), value, math.exp(sign * base), *band, **life,
            needs_rerun=bool(cells.low[k]), visible=seen, level=math.exp(sign * level),
            alone=known and state == QUIET and bool(low > cells.clear[k, int(np.isnan(self.nights.again[last]))]),
            new=state == SLOW and self._found(k, last))

    def _life(self, k: int, state: int, last: int) -> dict[str, Any]:
        """Return the state of the life, and where its slow or fast level begins and was found."""
        episode = self.outcome.cells.lasting.get(k)
        word = 'normal' if episode is None or episode.wait else 'slow' if episode.depth < 0 else 'fast'
        word = 'comes and goes' if k in self.outcome.cells.comes else word
        if word == 'normal':
            return {'state': word}
        if episode:
            return {'state': word, 'begin': episode.begin, 'found': episode.found}
        since = self.outcome.cells.comes[k][1]
        return {'state': word, 'begin': since, 'found': since}

    def _below(self, k: int, sign: int, reference: Reference | None) -> bool:
        """Return whether the level is beyond the accepted bound by more than chance."""
        bound = reference and (reference.low if sign > 0 else reference.high)
        cells = self.outcome.cells
        return bool(bound) and bound > 0 and bool(
            cells.now[k] + cells.bar[k] * cells.error[k] < sign * math.log(bound))

    def _found(self, k: int, last: int) -> bool:
        episode = self.outcome.cells.lasting.get(k)
        return bool(episode) and bool(episode.found == self.outcome.column[last])

    def _few(self, k: int, last: int) -> str:
        cells, first = self.outcome.cells, int(self.nights.start[k])
        own = self.nights.value[first:last + 1]
        if not np.isfinite(own[-1]) or not np.isfinite(own).any():
            return 'a figure is 0 or below: a change has no measure'
        if cells.began[k]:
            event = f'{_BEGAN[cells.began[k]]} of {self._label(k, cells.since[k])}'
            return f'{_nights(int(cells.nights[k]))} since {event}: judging resumes after {AFTER}'
        return f'{_nights(int(np.isfinite(own).sum()))} of history: judging begins on night {FIRST + 1}'

    def _word(self, k: int, sign: int, state: int, last: int, seen: float | None) -> tuple[Word, str]:
        cells = self.outcome.cells
        episode, since = cells.lasting.get(k), cells.since[k]
        if episode and state in (SLOW, FAST, COMES):
            return ('improved' if state == FAST else 'regressed'), self._episode(k, sign, last)
        off = (cells.value[k] - cells.base[k])
        said = f'tonight is {_off(_share(off, sign), off)} the level of {_nights(int(cells.nights[k]))}'
        if cells.began[k]:
            said += f', which began with {_BEGAN[cells.began[k]]} of {self._label(k, since)}'
        if k in cells.comes:
            said += f'; {self._spells(k)}'
        said += f'; a slowdown shows from {percent(seen)} on' if seen < 1 else '; no slowdown would show'
        said += f': {reason}' if seen > WANTED and (reason := self._noise(k, last)) else ''
        if episode and episode.depth < 0:
            said += (f'; what began on {self._label(k, episode.begin)} is not over: it ends with a second night '
                     'like this one')
        return ('ok' if seen <= WANTED else 'blind'), said

    def _spells(self, k: int) -> str:
        spells, since = self.outcome.cells.comes[k]
        return f'comes and goes: {spells} spells since {self._label(k, since)}'

    def _noise(self, k: int, last: int) -> str:
        """Say why a slowdown of WANTED would not show: two modes, a wild time, or nights that scatter."""
        first = int(self.nights.start[k])
        at = (first + np.flatnonzero(np.isfinite(self.nights.value[first:last + 1])))[-MEMORY:]
        x = self.nights.value[at]
        ordered = np.sort(x)
        gaps = np.diff(ordered)[_MODE - 1:1 - _MODE]
        if len(gaps):                     # of two modes that are MODE nights each at least, the widest gap
            i = _MODE + int(gaps.argmax())
            low, gap = x < ordered[i], float(np.median(ordered[i:]) - np.median(ordered[:i]))
            spells = int((np.diff(low.astype(int), prepend=0) > 0).sum())
            if spells >= _SPELLS and gap > max(WANTED, _APART * max(np.std(ordered[:i]), np.std(ordered[i:]))):
                return (f'since {self.labels[at[0]]} {counted(i, "night")} of {len(x)} '
                        f'{"was" if i == 1 else "were"} {percent(-math.expm1(-gap))} lower, in {spells} spells')
        scatter = np.abs(np.diff(x))
        calm = float(np.median(scatter[-_CALM:])) if len(scatter) > 2 * _CALM else math.inf
        wild = np.flatnonzero(scatter > _APART * max(calm, 1e-3))
        if len(wild) >= _SPELLS and calm * _APART < self.outcome.cells.scale[k]:
            return f'its nights of {self.labels[at[wild[0]]]} to {self.labels[at[wild[-1] + 1]]} were wild'
        return f'its nights scatter by {percent(-math.expm1(-float(self.outcome.cells.scale[k])))}'

    def _episode(self, k: int, sign: int, last: int) -> str:
        cells = self.outcome.cells
        found = cells.lasting[k]
        lasts = int((self.outcome.column[int(self.nights.start[k]):last + 1] >= found.begin).sum())
        off = percent(_share(found.depth, sign))
        kind = 'better' if found.depth > 0 else 'worse'
        said = f'{kind} since {self._label(k, found.begin)} ({_nights(lasts)}): '
        were = f'{_nights(found.nights)} {"was" if found.nights == 1 else "were"}'
        said += f'{were} {off} {kind} than the level before' if found.nights else \
            f'a drift: the last {DRIFTING} nights were {off} worse than the first {HEAD}'
        if found.again >= 0:
            said += f', back to the level before {self._label(k, found.again)}'
        said += f', {found.size:.1f} standard errors where {cells.bar[k]:.1f} are needed'
        if found.depth < 0 and abs(found.begin - cells.changed[k]) <= levels.WITHIN and cells.changed[k] >= 0:
            said += f'; {_CHANGED[cells.change[k]]} on {self._label(k, cells.changed[k])}'
        return said + (f'; {self._spells(k)}' if k in cells.comes else '')

    def _warnings(self, k: int, sign: int, last: int) -> Iterator[str]:
        effect, nights = self.outcome.cells.node[k], int(np.diff(self.nights.start)[k])
        if self.names is not None and np.isfinite(effect) and effect:
            yield (f'{self.names[self.node[last]]} is {percent(_share(effect, sign))} '
                   f'{"faster" if effect > 0 else "slower"} here than the other nodes: that is taken out')
        if left_out := int(np.isnan(self.nights.value[int(self.nights.start[k]):last]).sum()):
            yield f'{_nights(left_out)} with a figure of 0 or below: left out'
        if nights > MOST:
            yield f'the newest {MOST} of {nights} nights are judged'

    def _counted(self, k: int, state: int, last: int) -> Judgement:
        total = self.nights.total[int(self.nights.start[k]):last + 1]
        if state == TOO_FEW:
            why = f'{_nights(len(total))} of counts: judging begins on night {COUNTED + 1}'
            return Judgement('insufficient', why, value=float(total[-1]))
        usual = float(total[:-STEPS].mean())
        why = (f'{total[-1]:g} tonight, {total[-STEPS:].mean():.3g} a night in the last {STEPS}, {usual:.3g} '
               'before (exact test of counts)')
        return Judgement('regressed' if state == SLOW else 'ok', why, value=float(total[-1]), baseline=usual)

    def _label(self, k: int, column: int) -> str:
        here = slice(int(self.nights.start[k]), int(self.nights.start[k + 1]))
        at = np.searchsorted(self.outcome.column[here], column)
        return self.labels[min(here.start + int(at), here.stop - 1)]


def _share(log: float, sign: int) -> float:
    """Return the change of a figure as a share: ``log`` is oriented, ``sign`` its direction."""
    return abs(math.expm1(sign * float(log)))


def _nights(n: int) -> str:
    return counted(n, 'night')


def _off(share: float, log: float) -> str:
    return 'at' if share < 0.0005 else f'{percent(share)} {"better" if log > 0 else "worse"} than'


STATED = f'stated rate: 1 new false alarm in {1 / RATE:.0f} nights of a series'

_COLUMNS, _OPTIONAL = ('series', 'night', 'kind', 'run', 'value'), ('direction', 'group', 'event', 'node')
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


class History(NamedTuple):
    """The nights of the series of a file. ``labels``, ``events`` and ``nodes`` [nights]; the others [series]."""

    names: list[str]
    nights: Nights
    signs: list[int]               # 1: higher is better, -1: lower
    groups: np.ndarray             # like series have the same number
    labels: list[int | str]
    events: np.ndarray | None
    nodes: list[str] | None


def of_file(raw: bytes, name: str) -> dict[str, Series]:
    """Judge every series in the bytes of the CSV ``name``, each for itself: the stated rate is that of one series.

    Nights that are numbers stay numbers. UsageError names the first wrong line, and its column."""
    history = read(raw, name)
    told, outcome = judged(history.nights, history.signs, list(map(str, history.labels)), groups=history.groups,
                           events=history.events, nodes=history.nodes)
    slow = np.flatnonzero(np.isin(outcome.state, LOW_NIGHTS))
    of_series = np.split(slow, np.searchsorted(slow, history.nights.start[1:-1]))
    return {series: Series(last, tuple(history.labels[i] for i in alarms))
            for series, last, alarms in zip(history.names, told, of_series, strict=True)}


def read(raw: bytes, name: str) -> History:
    """Return the nights of every series in the bytes of the CSV ``name``.

    UsageError names the first wrong line, and its column."""
    import polars as pl
    frame = _read(raw, name).sort('series', 'night', 'again', 'run')
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
                   nodes.to_list() if frame['node'].n_unique() > 1 else None)


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
    text = frame.select(*_COLUMNS, **{c: c if c in frame.columns else pl.lit('') for c in _OPTIONAL})
    whole = pl.col('night').str.contains(_WHOLE)
    night = pl.col('night').str.to_integer(strict=False) if text.select(whole.all()).item() else pl.col('night')
    rows = text.select('series', 'group', 'event', 'node', night, again=pl.col('kind') == 'rerun',
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
    }
    found = [(at, what) for what, mask in wrong.items()
             if (at := text.select(pl.arg_where(mask).first()).item()) is not None]
    if found:
        at, what = min(found, key=itemgetter(0))
        line = deque(islice(lines(), at + 1), 1)[0][0]
        raise UsageError(f'{name}:{line}: {what.format(**text.row(at, named=True))}')
    return rows


def _bad_header(header: Sequence[str]) -> str:
    """Say what is wrong with the columns, '' if nothing. Others are let be unless they look like ours."""
    if missing := [column for column in _COLUMNS if column not in header]:
        needed = f'needed are {", ".join(_COLUMNS)}, and perhaps {", ".join(_OPTIONAL)}'
        return f'no column {", ".join(missing)}; {needed}'
    if twice := [column for column in header if header.count(column) > 1]:
        return f'column {twice[0]} stands there twice'
    for column in header:
        near = get_close_matches(column.strip().lower(), (*_COLUMNS, *_OPTIONAL), n=1, cutoff=0.75)
        if near and column != near[0]:
            return f'column {column!r}; did you mean {near[0]}?'
    return ''
