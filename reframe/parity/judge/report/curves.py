"""The nights of a figure as a curve: with the band that judges it, its level, its incidents, dates and a scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    line: str
    band: str                        # '' where nothing bounds the figure
    end: str                         # a dot on the last night; '' where that has no figure
    nights: int
    height: int
    scale: Scale

    @property
    def box(self) -> str:
        return f'-0.5 0 {self.nights} {self.height}'

    def y(self, value: float) -> int:
        low, high = self.scale
        share = (high - min(max(value, low), high)) / (high - low)
        return round(self.height * share)

    def down(self, value: float) -> float:
        """Return the place of a value, in per cent from the top."""
        return round(100 * self.y(value) / self.height, 1)


def history(at: Sequence[int], values: Sequence[float], low: Sequence[Bound], high: Sequence[Bound], nights: int,
            height: int, scale: Scale | None = None) -> Curve:
    """Return the drawing of ``values`` in the nights ``at``, within their bounds."""
    curve = Curve('', '', '', nights, height, scale or scale_of(values, [*low, *high]))
    points = [(night, curve.y(value)) for night, value in zip(at, values, strict=True)]
    band = _band(curve, at, [*zip(low, high, strict=True)])
    last, y = points[-1]
    end = f'M{last} {y}h0' if last == nights - 1 else ''
    return curve._replace(line=_steps_through(points), band=band, end=end)


def scale_of(values: Sequence[float], bounds: Sequence[Bound]) -> Scale:
    """Return the scale of one curve. A far wider band is cut: the line must not become flat."""
    least, most = min(values), max(values)
    room = (most - least) or abs(most) * .02 or 1.0
    given = [bound for bound in bounds if bound is not None]
    lowest = min([least, *given])
    highest = max([most, *given])
    floor = max(least - room, lowest)
    top = min(most + room, highest)
    edge = (top - floor) * .04 or room
    return Scale(floor - edge, top + edge)


def _steps_through(points: list[tuple[int, int]]) -> str:
    parts = [f'{x - before} {y - above}' for (before, above), (x, y) in pairwise(points)]
    x, y = points[0]
    path = f'M{x} {y}l' + ' '.join(parts or ['0 0'])
    return path.replace(' -', '-')


def _band(curve: Curve, at: Sequence[int], bounds: list[tuple[Bound, Bound]]) -> str:
    """Return a box for each stretch of nights with the same bounds. The first begins at the edge."""
    stretches = []
    before = None
    for night, same in zip(at, bounds, strict=True):
        if same != before:
            stretches.append((night, *same))
        before = same
    starts = [-.5, *(night - .5 for night, *_ in stretches[1:])]
    ends = [*starts[1:], curve.nights - .5]
    boxes = []
    for (_, low, high), start, end in zip(stretches, starts, ends, strict=True):
        if low is not None or high is not None:
            top = 0 if high is None else curve.y(high)
            bottom = curve.height if low is None else curve.y(low)
            boxes.append(f'M{start:g} {top}H{end:g}V{bottom}H{start:g}z')
    return ''.join(boxes).replace('-0.5', '-.5')


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

    def in_per_cent(self) -> JudgedNights:
        """Return the same in per cent above what is expected; a figure of 0 everywhere stays as it is."""
        base = self.base
        if not base:
            return self

        def share(value: Bound) -> Bound:
            return None if value is None else 100 * (value - base) / abs(base)

        return self._replace(
            values=[*map(share, self.values)], low=[*map(share, self.low)], high=[*map(share, self.high)],
            expected=share(self.expected), level=share(self.level))


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


def drawn(own: JudgedNights, height: int, scale: Scale | None = None) -> NightCurve:
    """Return the curve of a figure and its marks, without labels."""
    if scale is None:
        values = [*own.values, *_given(own.expected, own.level)]
        scale = scale_of(values, [*own.low, *own.high])
    curve = history(own.at, own.values, own.low, own.high, own.nights, height, scale)
    edges = [_across(curve, bound, -.5) for bound in (own.low[-1], own.high[-1])]
    end = own.nights - .5
    changes = end if own.level is None else own.begin - .5
    expected = _across(curve, own.expected, -.5, changes)
    level = _across(curve, own.level, changes)
    spans = [(_box(span, height), span.title) for span in own.spans]
    return NightCurve(curve, ''.join(edges), expected, level, spans)


def _across(curve: Curve, value: Bound, start: float, end: float | None = None) -> str:
    """Return a line at a value, to the last night if no end is given; '' without a value."""
    if value is None:
        return ''
    last = curve.nights - .5 if end is None else end
    return f'M{start:g} {curve.y(value)}H{last:g}'.replace('-0.5', '-.5')


def _box(span: Span, height: int) -> str:
    first, last = span.first - .5, span.last + .5
    return f'M{first:g} 0H{last:g}V{height}H{first:g}z'


def _given(*values: Bound) -> list[float]:
    return [value for value in values if value is not None]


def shared(several: Sequence[JudgedNights]) -> Scale:
    """Return one scale for curves in per cent: -12 % is as far below in each."""
    values = [-_LEAST, _LEAST]
    bounds: list[float] = []
    for own in several:
        values += [*own.values, *_given(own.expected, own.level)]
        bounds += _given(*own.low, *own.high)
    low, high = scale_of([min(max(value, -_FURTHEST), _FURTHEST) for value in values], bounds)
    return Scale(low, high)


def labelled(one: NightCurve, starts: Sequence[str], tonight: str, text: str, label: Callable[[float], str]
             ) -> NightCurve:
    """Return the curve with labels: ``starts`` of the nights, ``tonight``'s figure, ``label`` of a value."""
    curve = one.curve
    values = steps(*curve.scale)
    up = [(curve.down(value), label(value)) for value in values]
    grid = ''.join(f'M-.5 {curve.y(value)}H{curve.nights - .5:g}' for value in values)
    return one._replace(grid=grid, up=up, across=dates(starts), text=text, now=_now(curve, tonight))


def _now(curve: Curve, tonight: str) -> Tick | None:
    """Return tonight's value at the height of the last night; None where that has no figure."""
    if not curve.end or not tonight:
        return None
    y = int(curve.end.split()[1].removesuffix('h0'))
    return round(100 * y / curve.height, 1), tonight


def dates(starts: Sequence[str]) -> list[Tick]:
    """Return the dates of some nights, the first and the last among them; the year stands in the first alone."""
    count = len(starts)
    places = {round(step * (count - 1) / (_DATES - 1)) for step in range(_DATES)} if count > 1 else {0}
    same_day = starts[0][:10] == starts[-1][:10]
    ticks = []
    for place in sorted(places):
        start = starts[place]
        text = start[:10] if place == 0 else start[11:16] if same_day else start[5:10]
        ticks.append((round(100 * (place + .5) / count, 1), text))
    return ticks
