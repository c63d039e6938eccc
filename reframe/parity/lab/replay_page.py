"""The page of a replayed history: its answer, a map of nights and incidents, a curve of each series."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.base import figures
from parity.judge.report import drawings
from parity.judge.report.drawings import Curve
from parity.judge.report.templates import template
from parity.judge.stats import hindsight
from parity.judge.stats.replay import Life, Series
from parity.judge.store.histories import Source
from parity.lab import replay as words

#: Series of the map, and with a curve: a browser does not open a page of thousands.
ROWS, CURVES = 40, 60
#: Incidents and missed drops that are listed at once, and behind a click.
FIRST, LISTED = 20, 500
#: The band of a level holds nights so many robust standard deviations from it: 19 of 20 where they are normal.
_WIDE = 2.0
#: A wilder night is drawn at the edge, so far beyond the bands: one of a hundred times would leave a flat line.
_ROOM = 1.1
_HERE = Path(__file__).parent


class SeriesDrawing(NamedTuple):
    """The drawing of a series: its curve, its levels, its notices, and the edges of the figures."""

    name: str
    about: str
    curve: Curve
    levels: str
    notices: str
    low: str
    high: str


def page(source: Source, life: Life, a_month: float, accept_after: int) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    times = np.unique(source.history.nights.when)
    losses: dict[str, float] = {}
    for incident in life.incidents:
        for slow in incident.slowdowns:
            losses[slow.series] = max(losses.get(slow.series, 0.0), slow.loss)
    missed = {m.series: m.loss for m in reversed(life.missed)}
    order = sorted(life.series, key=lambda s: (-losses.get(s.name, 0.0), -missed.get(s.name, 0.0), s.name))
    curves = [_drawn(series, times) for series in order[:CURVES] if series.nights > 1]
    told = [series for series in order if series.name in losses]
    return template('replay.html.j2', _HERE, words=words).render(
        title=source.name, answer=[*words.answer(source, life, a_month, accept_after)],
        life=life, curves=curves, rows=[(s.name, _bars(s, times)) for s in told[:ROWS]], told=len(told),
        width=len(times), incidents=sorted(life.incidents, key=lambda i: -i.slowdowns[0].loss),
        first=FIRST, listed=LISTED)


def _bars(series: Series, times: np.ndarray) -> tuple[str, str]:
    """Return the nights on which a slowdown was known, and those that found one, as paths of a row of the map."""
    at = np.searchsorted(times, series.when)
    return (''.join(f'M{begin} 0H{end + 1}V10H{begin}z' for begin, end in _stretches(at, series.slow)),
            ''.join(f'M{at[i]} 0V10' for i in series.places))


def _stretches(at: np.ndarray, slow: np.ndarray) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], slow, [False])).astype(int)))
    yield from ((int(at[begin]), int(at[end - 1])) for begin, end in edges.reshape(-1, 2))


def _drawn(series: Series, times: np.ndarray) -> SeriesDrawing:
    at, values = np.searchsorted(times, series.when), series.values
    level, low, high = (np.empty(len(values)) for _ in range(3))
    for begin, end in zip([0, *series.cuts], [*series.cuts, len(values)], strict=True):
        x = np.log(values[begin:end])
        spread = _WIDE * max(hindsight.robust_sd(x), hindsight.FLOOR)
        middle = float(np.median(x))
        level[begin:end], low[begin:end], high[begin:end] = np.exp([middle, middle - spread, middle + spread])
    seen = np.concatenate((low, high, values[series.slow]))
    values = np.clip(values, seen.min() / _ROOM, seen.max() * _ROOM)
    curve = drawings.history(at.tolist(), values.tolist(), low.tolist(), high.tolist(), len(times), 1000)
    starts = [0, *series.cuts]
    ends = [*(int(at[cut]) for cut in series.cuts), int(at[-1])]
    return SeriesDrawing(series.name, words.about(series), curve,
                 ''.join(f'M{int(at[i])} {curve.y(level[i])}H{end}'
                         for i, end in zip(starts, ends, strict=True)),
                 ''.join(f'M{at[i]} {curve.y(values[i])}h0' for i in series.places),
                 figures.number(curve.low), figures.number(curve.high))
