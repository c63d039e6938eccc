"""Curves over message sizes, along a parameter of a check, and over the nights."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from parity.base import figures
from parity.judge.store import plan_file
from parity.judge.store.record import Run, Session

#: Plots of one page; the database has the figures of all.
MOST = 60
#: Fewer points are no curve.
FEWEST = 3

_SIZED = re.compile(r'(.+)_(\d+)')


class PlotLine(NamedTuple):
    """A curve through points by x. With ``limits`` they are drawn as points with intervals, among their ``runs``,
    beside the line of a ``law``."""

    name: str
    points: dict[float, float]
    earlier: bool = False            # of the session before, or in print
    limits: dict[float, tuple[float, float]] | None = None
    law: Callable[[float], float] | None = None
    runs: dict[float, list[float]] = {}


class Plot(NamedTuple):
    """All that the curves of one picture have in common."""

    subsystem: str
    title: str
    what: str                        # along the x axis
    x_unit: str
    metric: str
    unit: str
    better: str
    places: tuple[str, ...] = ()     # the names of 0, 1, 2, ... along the x axis, where it has no numbers


#: (plot, name of the line, x, y)
Point = tuple[Plot, str, float, float]


def of_sessions(session: Session, before: Session | None) -> dict[Plot, list[PlotLine]]:
    """Return the curves of a session, a line for each partition, with the lines of the session before."""
    plots: dict[Plot, list[PlotLine]] = {}
    for stored in filter(None, (session, before)):
        found: dict[tuple[Plot, str], dict[float, list[float]]] = {}
        for plot, name, x, y in _points(stored):
            found.setdefault((plot, name), {}).setdefault(x, []).append(y)
        for (plot, name), values in found.items():
            if len(values) >= FEWEST and (stored is session or plot in plots):
                points = {x: median(values[x]) for x in sorted(values)}
                plots.setdefault(plot, []).append(PlotLine(name, points, stored is before))
    return plots


def _points(session: Session) -> Iterator[Point]:
    swept: dict[str, list[tuple[str, dict[str, str], Run]]] = {}
    for (case, partition, environ), attempts in session.attempts.items():
        line = f'{partition}+{environ}'
        for run in attempts:
            if not run.retry and not run.status:
                yield from _by_size(case, line, run)
                swept.setdefault(case.partition(' %')[0], []).append((line, plan_file.parameters(case), run))
    for check, cases in swept.items():
        axis = _swept(cases)
        for line, parameters, run in cases:
            if axis not in parameters:
                continue
            x, size = _number(axis, parameters, run), figures.amount(parameters[axis])
            others = ' '.join(f'%{name}={value}' for name, value in parameters.items() if name != axis)
            for metric, value in run.values().items():
                figure = run.figures[metric]
                yield Plot(run.subsystem, f'{check} {others}'.strip(), axis, size[1] if size else '', metric,
                           figure.unit, figure.better), line, x, value


def _by_size(case: str, line: str, run: Run) -> Iterator[Point]:
    """Yield the whole curve that a case noted, <name>_<bytes>; its unit is that of the metric judged from it."""
    noted = {(m[1], int(m[2])): value for key, value in (run.noted.get('curve') or {}).items()
             if (m := _SIZED.fullmatch(key))}
    judged: dict[str, str] = {}
    for metric, value in run.values().items():
        for name in (name for (name, _), v in noted.items() if v == value):
            judged.setdefault(name, metric)
    for (name, size), value in noted.items():
        if name in judged and size:
            metric = judged[name]
            figure = run.figures[metric]
            yield Plot(run.subsystem, case, 'message size', 'B', metric.rpartition('_')[0] or metric, figure.unit,
                       figure.better), line, float(size), value


def _swept(cases: list[tuple[str, dict[str, str], Run]]) -> str:
    """Return the parameter of a check with the most values, which are all numbers; '' where it has none."""
    values: dict[str, set[float | None]] = {}
    for _, parameters, run in cases:
        for name in parameters:
            values.setdefault(name, set()).add(_number(name, parameters, run))
    counts = {name: len(xs) for name, xs in values.items() if None not in xs and len(xs) >= FEWEST}
    return max(counts, key=counts.get, default='')


def _number(name: str, parameters: dict[str, str], run: Run) -> float | None:
    """Return a parameter as a number: '64KiB' is 65536, and of threads=all the case noted how many there were."""
    if found := figures.amount(parameters[name]):
        return found[0]
    noted = run.noted.get(name)
    return float(noted) if isinstance(noted, int | float) and not isinstance(noted, bool) else None


# ---- the drawing of a plot

WIDTH, HEIGHT, LEFT = 340, 190, 46
_RIGHT, _TOP, _BOTTOM = 10, 8, 22
#: An axis is logarithmic where its ends are so far apart.
_FAR_X, _FAR_Y = 8, 20

#: Place of a label, and the label.
Tick = tuple[float, str]


class Path(NamedTuple):
    d: str
    colour: int                      # the place of the line's name among `Drawing.names`
    earlier: bool


class Mark(NamedTuple):
    """The points of one line with their intervals and runs, as paths."""

    points: str
    intervals: str
    runs: str
    colour: int
    earlier: bool


class Drawing(NamedTuple):
    plot: Plot
    unit: str                        # of the labels up the side
    paths: list[Path]
    across: list[Tick]
    up: list[Tick]
    text: str                        # in words, for those who do not see it
    marks: list[Mark]
    names: list[str]
    scales: tuple[str, str]          # of both axes: 'logarithmic' or ''


class _Axis(NamedTuple):
    """A map from a value to its place; ``ticks`` are values with a label."""

    place: Callable[[float], float]
    ticks: list[float]
    scale: str = ''

    def labels(self, text: Callable[[float], str]) -> list[Tick]:
        return [(round(self.place(v), 1), text(v)) for v in self.ticks]


def draw(plot: Plot, curves: list[PlotLine]) -> Drawing | None:
    """Return the plot's drawing, without points that are not finite; None where only curves of the session before
    are left. Axes are logarithmic where their ends are far apart."""
    found = [line._replace(points={x: y for x, y in sorted(line.points.items())
                                   if math.isfinite(x) and math.isfinite(y)}) for line in curves]
    lines = sorted((line for line in found if line.points), key=lambda line: not line.earlier)
    if not any(line.limits is not None or not line.earlier for line in lines):
        return None
    xs = sorted({x for line in lines for x in line.points})
    traces = [line.points if line.limits is None else {
        x: y for x in xs if line.law and math.isfinite(y := line.law(x)) and y > 0} for line in lines]
    ys = [y for points in (*traces, *(line.points for line in lines)) for y in points.values()]
    ys += [y for line in lines for ends in (line.limits or {}, line.runs) for of in ends.values() for y in of]
    # 10 for sizes such as 1, 10 and 100 KB, otherwise 2
    base = 10.0 if all(x > 0 and math.log10(x).is_integer() for x in xs) else 2.0
    across = _places(len(plot.places)) if plot.places else _axis(xs, LEFT, WIDTH - _RIGHT, _FAR_X, base, False)
    up = _axis(ys, HEIGHT - _BOTTOM, _TOP, _FAR_Y, 10.0, True)
    names = list(dict.fromkeys(line.name for line in sorted(lines, key=lambda line: line.earlier)))
    paths = [Path('M' + 'L'.join(f'{across.place(x):.1f} {up.place(y):.1f}' for x, y in trace.items()),
                  names.index(line.name), line.earlier)
             for line, trace in zip(lines, traces, strict=True) if trace]
    marks = [Mark(''.join(f'M{across.place(x) - 3:.1f} {up.place(y):.1f}a3 3 0 1 0 6 0a3 3 0 1 0-6 0'
                          for x, y in line.points.items()),
                  ''.join(f'M{across.place(x):.1f} {up.place(low):.1f}V{up.place(high):.1f}'
                          for x, (low, high) in line.limits.items() if low < high),
                  ''.join(dict.fromkeys(f'M{across.place(x):.1f} {up.place(y):.1f}h0'
                                        for x, runs in line.runs.items() for y in runs)),
                  names.index(line.name), line.earlier) for line in lines if line.limits is not None]
    factor, unit = figures.moved(max(up.ticks), plot.unit)
    return Drawing(plot, unit, paths, across.labels(lambda x: _size(x, plot)),
                 up.labels(lambda y: f'{y * factor:g}'), _text(plot, curves), marks, names,
                 (across.scale, up.scale))


def _places(count: int) -> _Axis:
    return _Axis(lambda v: LEFT + (WIDTH - _RIGHT - LEFT) * (v + .5) / count, [*range(count)][::-(-count // 10)])


def _axis(values: Iterable[float], start: float, end: float, far: float, base: float, from_zero: bool) -> _Axis:
    least, most = min(values), max(values)
    if least > 0 and most / least >= far:
        low, high = math.log(least, base), math.log(most, base)
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        powers = [base ** n for n in range(first, last + 1, max(1, -(-(last - first) // 4)))]
        return _Axis(lambda v: start + (end - start) * (math.log(v, base) - low) / (high - low),
                     powers if len(powers) > 1 else [least, most], 'logarithmic')
    least = min(0.0, least) if from_zero else least
    span = (most - least) or 1.0
    return _Axis(lambda v: start + (end - start) * (v - least) / span, _steps(least, least + span))


def _steps(least: float, most: float) -> list[float]:
    """Return round numbers between the ends, at most five."""
    rough = (most - least) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    first = math.ceil(least / step - 1e-9)
    return [n * step for n in range(first, int(most / step + 1e-9) + 1)]


def _size(value: float, plot: Plot) -> str:
    """Return a place on the x axis as a person names it: bytes are 1 KiB, 10 KB."""
    if plot.places or plot.x_unit != 'B':
        return plot.places[int(value)] if plot.places else figures.figure(value, plot.x_unit)
    step, mark = (1024, 'i') if value % 1024 == 0 else (1000, '')
    power = min(int(math.log(value, step) + 1e-9), 4) if value >= step else 0
    prefix = 'KMGT'[power - 1] + mark if power else ''
    return f'{value / step ** power:g} {prefix}B'


def _text(plot: Plot, curves: list[PlotLine]) -> str:
    """Say from where to where each line goes, but for curves of the session before."""
    parts = [f'{line.name}: ' + ', '.join(f'{figures.figure(line.points[x], plot.unit)} at {_size(x, plot)}'
                                          for x in (min(line.points), max(line.points)))
             for line in curves if line.points and (line.limits is not None or not line.earlier)]
    return f'{plot.metric} by {plot.what}: ' + '; '.join(parts)


# ---- the drawing of nights

class Curve(NamedTuple):
    """The paths of a history, a step a night across and ``height`` steps up, from ``low`` to ``high``."""

    line: str
    band: str                        # '' where no bounds are accepted
    end: str                         # a dot on the last night; '' where that has no figure
    width: int
    height: int
    low: float
    high: float

    def y(self, value: float) -> int:
        share = (self.high - min(max(value, self.low), self.high)) / (self.high - self.low)
        return round(self.height * share)


def history(at: Sequence[int], values: Sequence[float], low: Sequence[float | None], high: Sequence[float | None],
            nights: int, height: int) -> Curve:
    """Return the drawing of ``values`` in the nights ``at``, within their bounds.

    A far wider band is cut: the line must not become flat."""
    least, most = min(values), max(values)
    room = (most - least) or abs(most) * .02 or 1.0
    bounds = [bound for bound in {*low, *high} if bound is not None]
    floor, top = max(least - room, min(least, *bounds, least)), min(most + room, max(most, *bounds, most))
    edge = (top - floor) * .04 or room
    curve = Curve('', '', '', max(nights - 1, 1), height, floor - edge, top + edge)
    ys = list(map(curve.y, values))
    steps = ''.join(f'{x - before} {y - above} '
                    for (before, above), (x, y) in pairwise(zip(at, ys, strict=True)))
    return curve._replace(line=f'M{at[0]} {ys[0]}l{steps or "0 0"}'.strip().replace(' -', '-'),
                          band=_band(curve, at, low, high),
                          end=f'M{at[-1]} {ys[-1]}h0' if at[-1] == nights - 1 else '')


def _band(curve: Curve, at: Sequence[int], low: Sequence[float | None], high: Sequence[float | None]) -> str:
    """Return a box for each stretch of nights with the same bounds."""
    changes = [(night, bounds) for night, bounds, before in zip(at, zip(low, high, strict=True),
                                                                [None, *zip(low, high, strict=True)], strict=False)
               if bounds != before]
    ends = [night for night, _ in changes[1:]] + [curve.width]
    return ''.join(f'M{start if n else 0} {0 if most is None else curve.y(most)}'
                   f'H{end}V{curve.height if least is None else curve.y(least)}H{start if n else 0}z'
                   for n, ((start, (least, most)), end) in enumerate(zip(changes, ends, strict=True))
                   if least is not None or most is not None)
