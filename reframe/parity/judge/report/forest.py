"""The forest plot of a page: a row for each ratio, the worst first, all on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parity.base import figures
from parity.base.text import brief
from parity.judge.compare import forest
from parity.judge.compare.forest import Bar, Scale
from parity.judge.compare.model import Comparison, Row
from parity.judge.compare.pairs import PairState, with_interval
from parity.judge.compare.sentence import short_names

#: Places on an axis, in per cent of its length.
_LEFT, _RIGHT = 0.0, 100.0
#: The order of the rows, after those that break an expectation.
_STATES = ('regressed', 'insufficient', 'ok')
_WORDS = ('slower', 'undecided', 'equivalent', 'faster')


class Stretch(NamedTuple):
    """A part of the axis, in per cent."""

    start: float
    width: float


@dataclass(frozen=True)
class Picture:
    """The places of a row's marks on the axis, in per cent."""

    text: str                        # in words, for those who do not see it
    figure: float | None             # None: beyond the axis
    interval: Stretch | None = None
    bounds: list[float] = field(default_factory=list)
    broken: list[Stretch] = field(default_factory=list)     # where the figure would break the expectation
    goes_left: bool = False          # beyond the axis
    goes_right: bool = False


@dataclass(frozen=True)
class ForestRow:
    """A row of the plot with its texts."""

    name: str
    word: str
    style: str                       # the class of the word's colour
    ratio: str
    limits: str
    picture: Picture | None          # None: there is no ratio
    baseline: str = ''
    candidate: str = ''
    pair: str = ''
    expected: str = ''
    why: str = ''


@dataclass(frozen=True)
class ForestPlot:
    """The rows by subsystem, and their axis. ``alike``: the stretch that counts as no difference."""

    labels: tuple[str, str, str]
    rows: dict[str, list[ForestRow]]
    alike: Stretch | None = None


def of_comparison(c: Comparison) -> ForestPlot:
    """Return the plot of all ratios; the subsystem with the worst row is the first."""
    pairs = worst_first(c)
    bars = [bar for _, bar in pairs if bar]
    scale = forest.scale(bars, forest.PAGE)
    rows: dict[str, list[ForestRow]] = {}
    for row, bar in pairs:
        of_subsystem = rows.setdefault(row.subsystem, [])
        of_subsystem.append(_row(c, row, bar, scale))
    alike = _stretch(scale, 1 - c.margin, 1 + c.margin)
    return ForestPlot(scale.labels, rows, alike)


def worst_first(c: Comparison) -> list[tuple[Row, Bar | None]]:
    """Return the rows with a ratio, and their bars."""
    pairs = []
    for row in c.rows:
        if row.ratio is None:
            continue
        expected = c.expectation(row)
        bar = forest.bar(row, expected)
        pairs.append((row, bar))

    def order(pair: tuple[Row, Bar | None]) -> tuple[bool, int, float]:
        row, bar = pair
        word = _WORDS.index(row.verdict)
        return row.state != 'regressed', word, _speed(bar)

    return sorted(pairs, key=order)


def of_pairs(states: Sequence[PairState]) -> ForestPlot:
    """Return the plot of declared pairs."""
    pairs = [(state, forest.bar(state, state)) for state in states]
    bars = [bar for _, bar in pairs if bar]
    scale = forest.scale(bars, forest.PAGE)

    def order(pair: tuple[PairState, Bar | None]) -> tuple[int, float]:
        state, bar = pair
        return _STATES.index(state.state), _speed(bar)

    rows: dict[str, list[ForestRow]] = {}
    for state, bar in sorted(pairs, key=order):
        of_subsystem = rows.setdefault(state.subsystem, [])
        of_subsystem.append(_of_pair(state, bar, scale))
    return ForestPlot(scale.labels, rows)


def _speed(bar: Bar | None) -> float:
    """Return the speed; a row without one comes last."""
    return bar.speed if bar else float('inf')


def _row(c: Comparison, row: Row, bar: Bar | None, scale: Scale) -> ForestRow:
    metric = f'{row.metric} / {row.against}' if row.against else row.metric
    name = f'{row.title}: {metric}'
    if row.better == 'lower':
        name += ' (lower is better)'
    word = row.verdict
    label, _, _ = row.label.partition(':')
    if label:
        word += f' ({label})'
    style = row.verdict
    if row.state == 'regressed':
        style = row.state
    ratio = figures.number(row.ratio, pad=True)
    limits = _limits(row)
    picture = _picture(name, bar, scale)
    (baseline, candidate), unit = figures.alike(row.unit, row.baseline, row.candidate)
    baseline = f'{baseline} {unit}'.strip()
    candidate = f'{candidate} {unit}'.strip()
    expected = ''
    if row.expected:
        expected = f'{row.expected}: {row.state}'
    return ForestRow(name, word, style, ratio, limits, picture, baseline, candidate, expected=expected,
                     why=row.reason)


def _of_pair(state: PairState, bar: Bar | None, scale: Scale) -> ForestRow:
    name = f'{state.benchmark}: {state.metric}{state.suffix}'
    word = style = state.state
    ratio = figures.number(state.ratio, pad=True)
    limits = _limits(state)
    picture = _picture(name, bar, scale)
    baseline, candidate = short_names(state.baseline, state.candidate)
    pair = f'{candidate} / {baseline}'
    return ForestRow(name, word, style, ratio, limits, picture, pair=pair, expected=state.expected,
                     why=state.why)


def _limits(figure: Row | PairState) -> str:
    if figure.low is None or figure.high is None:
        return ''
    low = figures.number(figure.low, pad=True)
    high = figures.number(figure.high, pad=True)
    return f'{low} .. {high}'


def _picture(name: str, bar: Bar | None, scale: Scale) -> Picture | None:
    if bar is None:
        return None
    speed = with_interval(bar.speed, bar.low, bar.high)
    text = f'{brief(name, 120)}: speed {speed}'
    figure = _place(scale, bar.speed)
    if not _LEFT <= figure <= _RIGHT:
        figure = None
    places = [_place(scale, bound) for bound in bar.bounds]
    bounds = [place for place in places if _LEFT <= place <= _RIGHT]
    broken = _broken(bar, scale)
    if bar.low is None:
        interval = None
        least = most = bar.speed
    else:
        interval = _stretch(scale, bar.low, bar.high)
        least = min(bar.speed, bar.low)
        most = max(bar.speed, bar.high)
    goes_left = _place(scale, least) < _LEFT
    goes_right = _place(scale, most) > _RIGHT
    return Picture(text, figure, interval, bounds, broken, goes_left, goes_right)


def _place(scale: Scale, speed: float) -> float:
    return round(100 * scale.place(speed), 2)


def _stretch(scale: Scale, low: float, high: float) -> Stretch | None:
    """Return the part of the axis between two speeds; None where the axis has neither."""
    start = max(_place(scale, low), _LEFT)
    end = min(_place(scale, high), _RIGHT)
    if start > end:
        return None
    width = round(end - start, 2)
    return Stretch(start, width)


def _broken(bar: Bar, scale: Scale) -> list[Stretch]:
    """Return the parts of the axis that break the expectation."""
    below = above = None
    if bar.at_least is not None:
        below = _stretch(scale, scale.end, bar.at_least)
    if bar.at_most is not None:
        above = _stretch(scale, bar.at_most, 1 / scale.end)
    return [stretch for stretch in (below, above) if stretch]
