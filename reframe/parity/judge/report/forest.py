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
    scale = forest.scale([bar for _, bar in pairs if bar], forest.PAGE)
    rows: dict[str, list[ForestRow]] = {}
    for row, bar in pairs:
        rows.setdefault(row.subsystem, []).append(_row(c, row, bar, scale))
    return ForestPlot(scale.labels, rows, _stretch(scale, 1 - c.margin, 1 + c.margin))


def worst_first(c: Comparison) -> list[tuple[Row, Bar | None]]:
    """Return the rows with a ratio, and their bars."""
    pairs = [(row, forest.bar(row, c.expectation(row))) for row in c.rows if row.ratio is not None]
    return sorted(pairs, key=lambda pair: _badness(*pair))


def of_pairs(states: Sequence[PairState]) -> ForestPlot:
    """Return the plot of declared pairs."""
    pairs = [(state, forest.bar(state, state)) for state in states]
    scale = forest.scale([bar for _, bar in pairs if bar], forest.PAGE)
    pairs.sort(key=lambda pair: (_STATES.index(pair[0].state), _speed(pair[1])))
    rows: dict[str, list[ForestRow]] = {}
    for state, bar in pairs:
        rows.setdefault(state.subsystem, []).append(_of_pair(state, bar, scale))
    return ForestPlot(scale.labels, rows)


def _badness(row: Row, bar: Bar | None) -> tuple[bool, int, float]:
    return row.state != 'regressed', _WORDS.index(row.verdict), _speed(bar)


def _speed(bar: Bar | None) -> float:
    """Return the speed; a row without one comes last."""
    return bar.speed if bar else float('inf')


def _row(c: Comparison, row: Row, bar: Bar | None, scale: Scale) -> ForestRow:
    (baseline, candidate), unit = figures.alike(row.unit, row.baseline, row.candidate)
    metric = f'{row.metric} / {row.against}' if row.against else row.metric
    lower = ' (lower is better)' if row.better == 'lower' else ''
    name = f'{row.title}: {metric}{lower}'
    label = row.label.partition(':')[0]
    return ForestRow(
        name=name,
        word=f'{row.verdict} ({label})' if label else row.verdict,
        style='regressed' if row.state == 'regressed' else row.verdict,
        ratio=figures.number(row.ratio, pad=True),
        limits=_limits(row),
        picture=_picture(name, bar, scale),
        baseline=f'{baseline} {unit}'.strip(),
        candidate=f'{candidate} {unit}'.strip(),
        expected=f'{row.expected}: {row.state}' if row.expected else '',
        why=row.reason)


def _of_pair(state: PairState, bar: Bar | None, scale: Scale) -> ForestRow:
    baseline, candidate = short_names(state.baseline, state.candidate)
    name = f'{state.benchmark}: {state.metric}{state.suffix}'
    return ForestRow(
        name=name,
        word=state.state,
        style=state.state,
        ratio=figures.number(state.ratio, pad=True),
        limits=_limits(state),
        picture=_picture(name, bar, scale),
        pair=f'{candidate} / {baseline}',
        expected=state.expected,
        why=state.why)


def _limits(figure: Row | PairState) -> str:
    if figure.low is None or figure.high is None:
        return ''
    return f'{figures.number(figure.low, pad=True)} .. {figures.number(figure.high, pad=True)}'


def _picture(name: str, bar: Bar | None, scale: Scale) -> Picture | None:
    if bar is None:
        return None
    figure = _place(scale, bar.speed)
    is_within = _LEFT <= figure <= _RIGHT
    interval = _stretch(scale, bar.low, bar.high) if bar.low is not None else None
    ends = [value for value in (bar.speed, bar.low, bar.high) if value is not None]
    places = [_place(scale, bound) for bound in bar.bounds]
    speed = with_interval(bar.speed, bar.low, bar.high)
    return Picture(
        text=f'{brief(name, 120)}: speed {speed}',
        figure=figure if is_within else None,
        interval=interval,
        bounds=[place for place in places if _LEFT <= place <= _RIGHT],
        broken=_broken(bar, scale),
        goes_left=_place(scale, min(ends)) < _LEFT,
        goes_right=_place(scale, max(ends)) > _RIGHT)


def _place(scale: Scale, speed: float) -> float:
    return round(100 * scale.place(speed), 2)


def _stretch(scale: Scale, low: float, high: float) -> Stretch | None:
    """Return the part of the axis between two speeds; None where the axis has neither."""
    start, end = max(_place(scale, low), _LEFT), min(_place(scale, high), _RIGHT)
    return Stretch(start, round(end - start, 2)) if start <= end else None


def _broken(bar: Bar, scale: Scale) -> list[Stretch]:
    """Return the parts of the axis that break the expectation."""
    stretches = []
    if bar.at_least is not None:
        stretches.append(_stretch(scale, scale.end, bar.at_least))
    if bar.at_most is not None:
        stretches.append(_stretch(scale, bar.at_most, 1 / scale.end))
    return [stretch for stretch in stretches if stretch]
