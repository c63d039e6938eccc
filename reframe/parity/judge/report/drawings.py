"""Curves over message sizes, and along a parameter of a check."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from parity.base import figures
from parity.base.groups import grouped
from parity.judge.store import plan_file
from parity.judge.store.record import Run, Session

#: Plots of one page; the database has the figures of all.
MOST = 60
#: Fewer points are no curve.
FEWEST = 3

_SIZED = re.compile(r'(.+)_(\d+)')
#: The circle of a point, as an SVG path from its leftmost place.
_RADIUS = 3
_CIRCLE = 'a3 3 0 1 0 6 0a3 3 0 1 0-6 0'


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


class Point(NamedTuple):
    plot: Plot
    line: str
    x: float
    y: float


def of_sessions(session: Session, before: Session | None) -> dict[Plot, list[PlotLine]]:
    """Return the curves of a session, a line for each partition, with the lines of the session before."""
    plots: dict[Plot, list[PlotLine]] = {}
    _add_lines(plots, session, earlier=False)
    if before:
        _add_lines(plots, before, earlier=True)
    return plots


def _add_lines(plots: dict[Plot, list[PlotLine]], session: Session, earlier: bool) -> None:
    """Add the lines of a session; of an earlier one only to plots that are there."""
    by_line = grouped(_points(session), attrgetter('plot', 'line'))
    for (plot, name), points in by_line.items():
        if earlier and plot not in plots:
            continue
        values: dict[float, list[float]] = {}
        for point in points:
            values.setdefault(point.x, []).append(point.y)
        if len(values) < FEWEST:
            continue
        medians = {x: median(values[x]) for x in sorted(values)}
        lines = plots.setdefault(plot, [])
        lines.append(PlotLine(name, medians, earlier))


class _SweptRun(NamedTuple):
    line: str
    parameters: dict[str, str]
    run: Run


def _points(session: Session) -> Iterator[Point]:
    runs_of: dict[str, list[_SweptRun]] = {}
    for (case, partition, environ), attempts in session.attempts.items():
        line = f'{partition}+{environ}'
        parameters = plan_file.parameters(case)
        check, _, _ = case.partition(' %')
        for run in attempts:
            if run.retry or run.status:
                continue
            yield from _by_size(case, line, run)
            runs = runs_of.setdefault(check, [])
            runs.append(_SweptRun(line, parameters, run))
    for check, runs in runs_of.items():
        yield from _by_parameter(check, runs)


def _by_parameter(check: str, runs: list[_SweptRun]) -> Iterator[Point]:
    """Yield the figures of a check along its parameter with the most values."""
    axis = _swept(runs)
    for line, parameters, run in runs:
        if axis not in parameters:
            continue
        x = _number(axis, parameters, run)
        size = figures.amount(parameters[axis])
        x_unit = size[1] if size else ''
        others = [f'%{name}={value}' for name, value in parameters.items() if name != axis]
        title = ' '.join([check, *others])
        for metric, value in run.values().items():
            figure = run.figures[metric]
            plot = Plot(run.subsystem, title, axis, x_unit, metric, figure.unit, figure.better)
            yield Point(plot, line, x, value)


def _by_size(case: str, line: str, run: Run) -> Iterator[Point]:
    """Yield the whole curve that a case noted, <name>_<bytes>; its unit is that of the metric judged from it."""
    noted: dict[tuple[str, int], float] = {}
    curve = run.noted.get('curve') or {}
    for key, value in curve.items():
        if match := _SIZED.fullmatch(key):
            name, size = match.groups()
            noted[name, int(size)] = value
    judged: dict[str, str] = {}
    for metric, value in run.values().items():
        for (name, _), of_size in noted.items():
            if of_size == value:
                judged.setdefault(name, metric)
    for (name, size), value in noted.items():
        if not size or name not in judged:
            continue
        metric = judged[name]
        figure = run.figures[metric]
        without_size = metric.rpartition('_')[0] or metric
        plot = Plot(run.subsystem, case, 'message size', 'B', without_size, figure.unit, figure.better)
        yield Point(plot, line, float(size), value)


def _swept(runs: list[_SweptRun]) -> str:
    """Return the parameter of a check with the most values, which are all numbers; '' where it has none."""
    values: dict[str, set[float | None]] = {}
    for _, parameters, run in runs:
        for name in parameters:
            numbers = values.setdefault(name, set())
            numbers.add(_number(name, parameters, run))
    counts = {}
    for name, numbers in values.items():
        count = len(numbers)
        if count >= FEWEST and None not in numbers:
            counts[name] = count
    return max(counts, key=counts.get, default='')


def _number(name: str, parameters: dict[str, str], run: Run) -> float | None:
    """Return a parameter as a number: '64KiB' is 65536, and of threads=all the case noted how many there were."""
    amount = figures.amount(parameters[name])
    if amount:
        return amount[0]
    noted = run.noted.get(name)
    is_number = isinstance(noted, int | float) and not isinstance(noted, bool)
    return float(noted) if is_number else None


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
        labels = []
        for value in self.ticks:
            place = round(self.place(value), 1)
            labels.append((place, text(value)))
        return labels


def draw(plot: Plot, curves: list[PlotLine]) -> Drawing | None:
    """Return the plot's drawing, without points that are not finite; None where only curves of the session before
    are left. Axes are logarithmic where their ends are far apart."""
    finite = [_finite(line) for line in curves]
    lines = [line for line in finite if line.points]
    lines.sort(key=lambda line: not line.earlier)
    if all(line.earlier and line.limits is None for line in lines):
        return None
    xs = sorted({x for line in lines for x in line.points})
    traces = [_trace(line, xs) for line in lines]
    across = _places(len(plot.places)) if plot.places else _axis_across(xs)
    heights = _heights(lines, traces)
    up = _axis(heights, HEIGHT - _BOTTOM, _TOP, _FAR_Y, 10.0, True)

    tonight_first = sorted(lines, key=lambda line: line.earlier)
    names = list(dict.fromkeys(line.name for line in tonight_first))
    pen = _Pen(across, up)
    paths, marks = [], []
    for line, trace in zip(lines, traces, strict=True):
        colour = names.index(line.name)
        if trace:
            path = pen.through(trace)
            paths.append(Path(path, colour, line.earlier))
        if line.limits is not None:
            marks.append(pen.mark(line, colour))
    factor, unit = figures.moved(max(up.ticks), plot.unit)
    x_labels = across.labels(lambda x: _size(x, plot))
    y_labels = up.labels(lambda y: f'{y * factor:g}')
    text = _text(plot, curves)
    scales = across.scale, up.scale
    return Drawing(plot, unit, paths, x_labels, y_labels, text, marks, names, scales)


def _finite(line: PlotLine) -> PlotLine:
    """Return the line with its finite points, from left to right."""
    points = {}
    for x, y in sorted(line.points.items()):
        if math.isfinite(x) and math.isfinite(y):
            points[x] = y
    return line._replace(points=points)


def _trace(line: PlotLine, xs: list[float]) -> dict[float, float]:
    """Return the points that a path goes through: those of the law where the line has limits."""
    if line.limits is None:
        return line.points
    if line.law is None:
        return {}
    trace = {}
    for x in xs:
        y = line.law(x)
        if math.isfinite(y) and y > 0:
            trace[x] = y
    return trace


def _heights(lines: list[PlotLine], traces: list[dict[float, float]]) -> list[float]:
    """Return all values that the axis up the side must hold."""
    heights: list[float] = []
    for trace in traces:
        heights += trace.values()
    for line in lines:
        heights += line.points.values()
        limits = line.limits or {}
        heights += chain(*limits.values(), *line.runs.values())
    return heights


class _Pen(NamedTuple):
    """Paths between both axes."""

    across: _Axis
    up: _Axis

    def at(self, x: float, y: float, left: float = 0) -> str:
        across = self.across.place(x) - left
        up = self.up.place(y)
        return f'{across:.1f} {up:.1f}'

    def through(self, points: dict[float, float]) -> str:
        corners = [self.at(x, y) for x, y in points.items()]
        return 'M' + 'L'.join(corners)

    def mark(self, line: PlotLine, colour: int) -> Mark:
        """Return circles at the points of a line, a stroke for each interval, and a dot for each run."""
        circles = ''
        for x, y in line.points.items():
            leftmost = self.at(x, y, left=_RADIUS)
            circles += f'M{leftmost}{_CIRCLE}'
        intervals = ''
        for x, (low, high) in line.limits.items():
            if low < high:
                end = self.up.place(high)
                intervals += f'M{self.at(x, low)}V{end:.1f}'
        dots: dict[str, None] = {}      # runs in one place have one dot
        for x, runs in line.runs.items():
            for y in runs:
                dots[f'M{self.at(x, y)}h0'] = None
        return Mark(circles, intervals, ''.join(dots), colour, line.earlier)


def _places(count: int) -> _Axis:
    """Return an axis of names; of many, ten have a label at most."""
    length = WIDTH - _RIGHT - LEFT

    def place(number: float) -> float:
        return LEFT + length * (number + .5) / count

    gap = math.ceil(count / 10)
    labelled = range(0, count, gap)
    return _Axis(place, list(labelled))


def _axis_across(xs: list[float]) -> _Axis:
    base = 2.0
    if all(x > 0 and math.log10(x).is_integer() for x in xs):
        base = 10.0                  # sizes such as 1, 10 and 100 KB
    return _axis(xs, LEFT, WIDTH - _RIGHT, _FAR_X, base, False)


def _axis(values: Iterable[float], start: float, end: float, far: float, base: float, from_zero: bool) -> _Axis:
    least, most = min(values), max(values)
    length = end - start
    if least > 0 and most / least >= far:
        low = math.log(least, base)
        high = math.log(most, base)
        ticks = _powers(low, high, base)
        if len(ticks) < 2:
            ticks = [least, most]
        return _Axis(lambda v: start + length * (math.log(v, base) - low) / (high - low), ticks, 'logarithmic')
    if from_zero:
        least = min(0.0, least)
    span = (most - least) or 1.0
    ticks = steps(least, least + span)
    return _Axis(lambda v: start + length * (v - least) / span, ticks)


def _powers(low: float, high: float, base: float) -> list[float]:
    """Return powers of the base between two exponents, at most five."""
    first = math.ceil(low - 1e-9)
    last = math.floor(high + 1e-9)
    gap = math.ceil((last - first) / 4)
    exponents = range(first, last + 1, max(1, gap))
    return [base ** exponent for exponent in exponents]


def steps(least: float, most: float) -> list[float]:
    """Return round numbers between the ends, at most five."""
    rough = (most - least) / 4
    exponent = math.floor(math.log10(rough))
    round_steps = [factor * 10.0 ** exponent for factor in (1, 2, 2.5, 5, 10)]
    step = next(step for step in round_steps if step >= rough)
    first = math.ceil(least / step - 1e-9)
    last = int(most / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _size(value: float, plot: Plot) -> str:
    """Return a place on the x axis as a person names it: bytes are 1 KiB, 10 KB."""
    if plot.places:
        return plot.places[int(value)]
    if plot.x_unit != 'B':
        return figures.figure(value, plot.x_unit)
    step, prefixes = 1000, ('', 'K', 'M', 'G', 'T')
    if value % 1024 == 0:
        step, prefixes = 1024, ('', 'Ki', 'Mi', 'Gi', 'Ti')
    power = 0
    if value >= step:
        power = int(math.log(value, step) + 1e-9)
        power = min(power, len(prefixes) - 1)
    amount = value / step ** power
    return f'{amount:g} {prefixes[power]}B'


def _text(plot: Plot, curves: list[PlotLine]) -> str:
    """Say from where to where each line goes, but for curves of the session before."""
    parts = []
    for line in curves:
        if not line.points or (line.earlier and line.limits is None):
            continue
        first = _end(line, min(line.points), plot)
        last = _end(line, max(line.points), plot)
        parts.append(f'{line.name}: {first}, {last}')
    return f'{plot.metric} by {plot.what}: ' + '; '.join(parts)


def _end(line: PlotLine, x: float, plot: Plot) -> str:
    """Return '1.2 GB/s at 4 MiB'."""
    value = figures.figure(line.points[x], plot.unit)
    return f'{value} at {_size(x, plot)}'
