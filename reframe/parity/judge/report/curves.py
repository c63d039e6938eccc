"""The nights of a figure as a curve: with the band that judges it, its level, its incidents, dates and a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from parity.judge.report.drawings import Tick, steps

Bound = float | None
#: Dates of an axis, at most.
_DATES = 4
#: The least that a scale in per cent holds to either side of what is expected: noise is no landscape.
_LEAST = 2.0
#: A scale in per cent goes no further: one night of a hundred times would leave a flat line.
_FURTHEST = 300.0


class Scale(NamedTuple):
    """The least and the greatest value of a curve's box."""

    low: float
    high: float


class Curve(NamedTuple):
    """The paths of a history in a box: a step a night across, ``height`` steps up. A night is in the middle of its
    step, so that the band of a single night has a width."""

    nights: int
    height: int
    scale: Scale
    line: str = ''
    band: str = ''                   # '' where nothing bounds the figure
    last: int | None = None          # steps down to the last night; None where that has no figure

    @property
    def box(self) -> str:
        return f'-0.5 0 {self.nights} {self.height}'

    @property
    def end(self) -> str:
        """Return a dot on the last night; '' where that has no figure."""
        return '' if self.last is None else f'M{self.nights - 1} {self.last}h0'

    def y(self, value: float) -> int:
        low, high = self.scale
        within = min(max(value, low), high)
        share = (high - within) / (high - low)
        return round(self.height * share)

    def down(self, value: float) -> float:
        """Return the place of a value, in per cent from the top."""
        return round(100 * self.y(value) / self.height, 1)


def history(at: Sequence[int], values: Sequence[float], low: Sequence[Bound], high: Sequence[Bound], nights: int,
            height: int, scale: Scale | None = None) -> Curve:
    """Return the drawing of ``values`` in the nights ``at``, within their bounds."""
    if scale is None:
        scale = scale_of(values, [*low, *high])
    curve = Curve(nights, height, scale)
    heights = map(curve.y, values)
    points = list(zip(at, heights, strict=True))
    bounds = list(zip(low, high, strict=True))
    line = _steps_through(points)
    band = _band(curve, at, bounds)
    newest, y = points[-1]
    last = y if newest == nights - 1 else None
    return curve._replace(line=line, band=band, last=last)


def scale_of(values: Sequence[float], bounds: Sequence[Bound]) -> Scale:
    """Return the scale of one curve. A far wider band is cut: the line must not become flat."""
    least = min(values)
    most = max(values)
    room = (most - least) or abs(most) * .02 or 1.0
    given = _given(*bounds)
    lowest = min([least, *given])
    highest = max([most, *given])
    floor = max(least - room, lowest)
    top = min(most + room, highest)
    edge = (top - floor) * .04 or room
    return Scale(floor - edge, top + edge)


def _steps_through(points: list[tuple[int, int]]) -> str:
    moves = []
    for (before, above), (x, y) in pairwise(points):
        moves.append(f'{x - before} {y - above}')
    x, y = points[0]
    path = f'M{x} {y}l'
    path += ' '.join(moves or ['0 0'])
    return path.replace(' -', '-')


class _Stretch(NamedTuple):
    """Nights with the same bounds, from edge to edge."""

    start: float
    end: float
    low: Bound
    high: Bound


def _band(curve: Curve, nights: Sequence[int], bounds: list[tuple[Bound, Bound]]) -> str:
    """Return the path of a box for each stretch of nights with the same bounds. A side without a bound is at the
    edge of the drawing."""
    boxes = []
    for start, end, low, high in _stretches(curve, nights, bounds):
        if low is None and high is None:
            continue
        top = 0 if high is None else curve.y(high)
        bottom = curve.height if low is None else curve.y(low)
        boxes.append(f'M{start:g} {top}H{end:g}V{bottom}H{start:g}z')
    path = ''.join(boxes)
    return path.replace('-0.5', '-.5')      # a shorter page


def _stretches(curve: Curve, nights: Sequence[int], bounds: list[tuple[Bound, Bound]]) -> Iterator[_Stretch]:
    """Yield the stretches of nights with the same bounds. The first begins at the edge."""
    start = -.5
    same = bounds[0]
    for night, limits in zip(nights, bounds, strict=True):
        if limits == same:
            continue
        yield _Stretch(start, night - .5, *same)
        start = night - .5
        same = limits
    yield _Stretch(start, curve.nights - .5, *same)


# ---- a curve with all that judges it

class Span(NamedTuple):
    """The nights of an incident, the first and the last one."""

    first: int
    last: int
    title: str


class JudgedNights(NamedTuple):
    """The nights of a figure, all in one unit. The last bounds are those that judge tonight."""

    at: Sequence[int]
    values: Sequence[float]
    low: Sequence[Bound]
    high: Sequence[Bound]
    nights: int
    expected: float | None = None    # that judges tonight
    level: float | None = None       # of the newest nights, since `begin`
    begin: int = 0
    spans: Sequence[Span] = ()

    @property
    def base(self) -> float | None:
        """Return what 0 % is: the expected value, else the median night; None where that is 0."""
        middle = sorted(self.values)[len(self.values) // 2]
        return self.expected or middle or None

    def curve(self, height: int, scale: Scale | None = None) -> Curve:
        """Return their drawing, without marks."""
        return history(self.at, self.values, self.low, self.high, self.nights, height, scale)

    def in_per_cent(self) -> JudgedNights:
        """Return the same in per cent above what is expected; a figure of 0 everywhere stays as it is."""
        base = self.base
        if not base:
            return self

        def share(value: Bound) -> Bound:
            return None if value is None else 100 * (value - base) / abs(base)

        values = list(map(share, self.values))
        low = list(map(share, self.low))
        high = list(map(share, self.high))
        expected = share(self.expected)
        level = share(self.level)
        return self._replace(values=values, low=low, high=high, expected=expected, level=level)


class NightCurve(NamedTuple):
    """A curve with its marks and the labels of its axes; places of labels are per cent."""

    curve: Curve
    edges: str                       # tonight's bounds, through all nights
    expected: str
    level: str
    spans: list[tuple[str, str]]     # a path, its title
    grid: str = ''                   # a line at each label
    up: list[Tick] = []
    across: list[Tick] = []
    now: Tick | None = None          # tonight's value
    text: str = ''


def drawn(judged: JudgedNights, height: int, scale: Scale | None = None) -> NightCurve:
    """Return the curve of a figure and its marks, without labels."""
    if scale is None:
        values = [*judged.values, *_given(judged.expected, judged.level)]
        bounds = [*judged.low, *judged.high]
        scale = scale_of(values, bounds)
    curve = judged.curve(height, scale)
    edges = ''
    for bound in (judged.low[-1], judged.high[-1]):
        edges += _across(curve, bound, -.5)
    end = judged.nights - .5
    changes = end if judged.level is None else judged.begin - .5
    expected = _across(curve, judged.expected, -.5, changes)
    level = _across(curve, judged.level, changes)
    spans = [(_box(span, height), span.title) for span in judged.spans]
    return NightCurve(curve, edges, expected, level, spans)


def _across(curve: Curve, value: Bound, start: float, end: float | None = None) -> str:
    """Return a line at a value, to the last night if no end is given; '' without a value."""
    if value is None:
        return ''
    y = curve.y(value)
    last = curve.nights - .5 if end is None else end
    path = f'M{start:g} {y}H{last:g}'
    return path.replace('-0.5', '-.5')


def _box(span: Span, height: int) -> str:
    first, last = span.first - .5, span.last + .5
    return f'M{first:g} 0H{last:g}V{height}H{first:g}z'


def _given(*values: Bound) -> list[float]:
    return [value for value in values if value is not None]


def shared(several: Sequence[JudgedNights]) -> Scale:
    """Return one scale for curves in per cent: -12 % is as far below in each."""
    values = [-_LEAST, _LEAST]
    bounds: list[float] = []
    for judged in several:
        values += [*judged.values, *_given(judged.expected, judged.level)]
        bounds += _given(*judged.low, *judged.high)
    within = [min(max(value, -_FURTHEST), _FURTHEST) for value in values]
    return scale_of(within, bounds)


def labelled(one: NightCurve, starts: Sequence[str], tonight: str, text: str, label: Callable[[float], str]
             ) -> NightCurve:
    """Return the curve with labels: ``starts`` of the nights, ``tonight``'s figure, ``label`` of a value."""
    curve = one.curve
    end = curve.nights - .5
    grid = ''
    up = []
    for value in steps(*curve.scale):
        grid += f'M-.5 {curve.y(value)}H{end:g}'
        place = curve.down(value)
        up.append((place, label(value)))
    across = dates(starts)
    now = _now(curve, tonight)
    return one._replace(grid=grid, up=up, across=across, text=text, now=now)


def _now(curve: Curve, tonight: str) -> Tick | None:
    """Return tonight's value at the height of the last night; None where that has no figure."""
    if curve.last is None or not tonight:
        return None
    place = round(100 * curve.last / curve.height, 1)
    return place, tonight


def dates(starts: Sequence[str]) -> list[Tick]:
    """Return the dates of some nights, the first and the last among them; the year stands in the first alone."""
    count = len(starts)
    places = {0}
    if count > 1:
        gap = (count - 1) / (_DATES - 1)
        places = {round(step * gap) for step in range(_DATES)}
    same_day = starts[0][:10] == starts[-1][:10]
    ticks = []
    for place in sorted(places):
        start = starts[place]
        if place == 0:
            text = start[:10]
        elif same_day:
            text = start[11:16]
        else:
            text = start[5:10]
        across = round(100 * (place + .5) / count, 1)
        ticks.append((across, text))
    return ticks
