"""The page of a replayed history: its answer, a map of nights and incidents, a curve of each series."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parity.base import figures
from parity.judge.report import curves
from parity.judge.report.curves import Curve
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


class Bars(NamedTuple):
    """A row of the map, as paths."""

    slow: str           # the nights on which a slowdown was known
    notices: str        # those that found one


def page(source: Source, life: Life, a_month: float, accept_after: int) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    times = np.unique(source.history.nights.when)
    losses = _losses(life)
    missed = {drop.series: drop.loss for drop in reversed(life.missed)}

    def rank(series: Series) -> tuple[float, float, str]:
        loss = losses.get(series.name, 0.0)
        missed_loss = missed.get(series.name, 0.0)
        return -loss, -missed_loss, series.name

    worst_first = sorted(life.series, key=rank)
    slowed = [series for series in worst_first if series.name in losses]
    rows = [(series.name, _bars(series, times)) for series in slowed[:ROWS]]
    curved = [series for series in worst_first[:CURVES] if series.nights > 1]
    drawings = [_drawn(series, times) for series in curved]
    incidents = words.worst_first(life)
    answer = words.answer(source, life, a_month, accept_after)
    drawn = template('replay.html.j2', _HERE, words=words)
    return drawn.render(
        title=source.name,
        answer=list(answer),
        life=life,
        curves=drawings,
        rows=rows,
        told=len(slowed),
        width=len(times),
        incidents=incidents,
        first=FIRST,
        listed=LISTED)


def _losses(life: Life) -> dict[str, float]:
    """Return the largest loss of each series that has an incident."""
    losses: dict[str, float] = {}
    for incident in life.incidents:
        for slow in incident.slowdowns:
            losses[slow.series] = max(losses.get(slow.series, 0.0), slow.loss)
    return losses


def _bars(series: Series, times: np.ndarray) -> Bars:
    """Return the row of a series."""
    nights = np.searchsorted(times, series.when)
    slow = []
    for begin, end in _stretches(nights, series.slow):
        slow.append(f'M{begin} 0H{end + 1}V10H{begin}z')
    notices = [f'M{night} 0V10' for night in nights[series.places]]
    return Bars(''.join(slow), ''.join(notices))


def _stretches(nights: np.ndarray, slow: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the first and the last night of each stretch of slow ones."""
    changes = np.diff(slow.astype(int), prepend=0, append=0)
    begins = np.flatnonzero(changes == 1)
    ends = np.flatnonzero(changes == -1)
    for begin, end in zip(begins, ends, strict=True):
        yield int(nights[begin]), int(nights[end - 1])


class Level(NamedTuple):
    """A stretch of figures between two steps."""

    begin: int          # its first figure, by number
    end: int            # the number after its last
    low: float          # the band that holds 19 of 20 nights
    middle: float
    high: float


def _levels(series: Series) -> list[Level]:
    """Return the stretches of a series, each with the median of its nights and their band."""
    levels = []
    edges = [0, *series.cuts, len(series.values)]
    for begin, end in pairwise(edges):
        logarithms = np.log(series.values[begin:end])
        deviation = max(hindsight.robust_sd(logarithms), hindsight.FLOOR)
        spread = _WIDE * deviation
        median = float(np.median(logarithms))
        low, middle, high = np.exp([median - spread, median, median + spread]).tolist()
        levels.append(Level(begin, end, low, middle, high))
    return levels


def _drawn(series: Series, times: np.ndarray) -> SeriesDrawing:
    """Return the drawing of a series."""
    nights = np.searchsorted(times, series.when)
    levels = _levels(series)
    low, high = [], []
    for level in levels:
        length = level.end - level.begin
        low += length * [level.low]
        high += length * [level.high]
    slow = series.values[series.slow]
    lower_edge = min([*low, *slow]) / _ROOM
    upper_edge = max([*high, *slow]) * _ROOM
    values = np.clip(series.values, lower_edge, upper_edge)
    curve = curves.history(nights.tolist(), values.tolist(), low, high, len(times), 1000)
    steps = []
    for level in levels:
        first = nights[level.begin]
        last = nights[min(level.end, len(nights) - 1)]
        height = curve.y(level.middle)
        steps.append(f'M{first} {height}H{last}')
    notices = []
    for place in series.places:
        height = curve.y(values[place])
        notices.append(f'M{nights[place]} {height}h0')
    return SeriesDrawing(
        name=series.name,
        about=words.about(series),
        curve=curve,
        levels=''.join(steps),
        notices=''.join(notices),
        low=figures.number(curve.scale.low),
        high=figures.number(curve.scale.high))
