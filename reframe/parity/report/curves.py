"""Curves: what a case measured over message sizes, and what the cases of a check measured along a parameter."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from parity.base import figures
from parity.records import cells
from parity.records.record import Run, Session

#: Plots of one page; the figures of all of them are in the database.
MOST = 60
#: So many points make a curve.
FEWEST = 3

_BETWEEN = ' · '
_BYTES = {'B': 1, 'KB': 1e3, 'MB': 1e6, 'GB': 1e9, 'KiB': 2 ** 10, 'MiB': 2 ** 20, 'GiB': 2 ** 30, 'TiB': 2 ** 40}
_NUMBER = re.compile(rf'(\d+(?:\.\d+)?)\s?({"|".join(_BYTES)})?')
_SIZED = re.compile(r'(.+)_(\d+)')


@dataclass
class Line:
    """One curve, its points by x; ``earlier``: of the session before."""

    name: str
    points: dict[float, float]
    earlier: bool = False


@dataclass
class Plot:
    subsystem: str
    title: str
    what: str                        # along the x axis
    x_unit: str
    metric: str
    unit: str
    better: str
    lines: list[Line] = field(default_factory=list)

    @property
    def key(self) -> tuple:
        return self.subsystem, self.title, self.what, self.metric, self.unit


#: (plot without lines, name of the line, x, y)
Point = tuple[Plot, str, float, float]


def of_sessions(session: Session, before: Session | None) -> list[Plot]:
    """The plots of a session, a line for each partition; those of the session before beside them."""
    plots: dict[tuple, Plot] = {}
    for points, earlier in ((_points(session), False), (_points(before) if before else (), True)):
        lines: dict[tuple, dict[float, list[float]]] = {}
        for plot, name, x, y in points:
            if not earlier:
                plots.setdefault(plot.key, plot)
            lines.setdefault((plot.key, name), {}).setdefault(x, []).append(y)
        for (key, name), values in lines.items():
            if key in plots and len(values) >= FEWEST:
                middles = {x: median(values[x]) for x in sorted(values)}
                plots[key].lines.append(Line(name, middles, earlier))
    shown = [p for p in plots.values() if any(not line.earlier for line in p.lines)]
    return _named(shown)


def _named(plots: list[Plot]) -> list[Plot]:
    """Lines are partitions; the environment is told where there are several."""
    if len({line.name.partition(_BETWEEN)[2] for plot in plots for line in plot.lines}) == 1:
        for line in (line for plot in plots for line in plot.lines):
            line.name = line.name.partition(_BETWEEN)[0]
    return plots


def _points(session: Session) -> Iterator[Point]:
    swept: dict[tuple, list[tuple[dict[str, str], Run]]] = {}
    for (case, partition, environ), attempts in session.attempts.items():
        check = case.partition(' %')[0]
        for run in attempts:
            if not run.retry and not run.status:
                yield from _by_size(case, partition, environ, run)
                swept.setdefault((check, partition, environ), []).append((cells.parameters(case), run))
    axes = _axes(swept)
    for (check, partition, environ), cases in swept.items():
        if check in axes:
            for has, run in cases:
                yield from _along(axes[check], check, _line(partition, environ), has, run)


def _line(partition: str, environ: str) -> str:
    return f'{partition}{_BETWEEN}{environ}'


def _by_size(case: str, partition: str, environ: str, run: Run) -> Iterator[Point]:
    """The whole curve that a case noted: <name>_<bytes>; its unit is that of the metric judged from it."""
    noted = run.noted.get('curve') or {}
    known: dict[str, str] = {}
    for name, value in run.values().items():
        for key in (k for k, v in noted.items() if v == value and _SIZED.fullmatch(k)):
            known.setdefault(_SIZED.fullmatch(key)[1], name)
    for key, value in noted.items():
        found = _SIZED.fullmatch(key)
        if found and found[1] in known and int(found[2]):
            metric = known[found[1]]
            figure = run.figures[metric]
            plot = Plot(run.subsystem, case, 'message size', 'B', metric.rpartition('_')[0] or metric, figure.unit,
                        figure.better)
            yield plot, _line(partition, environ), float(found[2]), value


def _axes(swept: dict[tuple, list[tuple[dict[str, str], Run]]]) -> dict[str, str]:
    """Of each check the parameter whose values are numbers, and most: what its cases are a curve along."""
    values: dict[str, dict[str, set[float | None]]] = {}
    for (check, _, _), cases in swept.items():
        for parameters, run in cases:
            for name in parameters:
                values.setdefault(check, {}).setdefault(name, set()).add(_number(name, parameters, run))
    axes = {}
    for check, found in values.items():
        numeric = {name: len(xs) for name, xs in found.items() if None not in xs and len(xs) >= FEWEST}
        if numeric:
            axes[check] = max(numeric, key=numeric.get)
    return axes


def _number(name: str, parameters: dict[str, str], run: Run) -> float | None:
    """'64KiB' is 65536; of threads=all the case noted how many there were. None: no number."""
    if found := _NUMBER.fullmatch(parameters[name]):
        return float(found[1]) * _BYTES.get(found[2], 1)
    noted = run.noted.get(name)
    return float(noted) if isinstance(noted, int | float) and not isinstance(noted, bool) else None


def _along(axis: str, check: str, line: str, parameters: dict[str, str], run: Run) -> Iterator[Point]:
    if axis not in parameters:
        return
    x = _number(axis, parameters, run)
    others = ' '.join(f'%{name}={value}' for name, value in parameters.items() if name != axis)
    unit = 'B' if re.search(r'[A-Za-z]$', parameters[axis]) and _NUMBER.fullmatch(parameters[axis]) else ''
    for metric, value in run.values().items():
        figure = run.figures[metric]
        yield Plot(run.subsystem, f'{check} {others}'.strip(), axis, unit, metric, figure.unit,
                   figure.better), line, x, value


WIDTH, HEIGHT = 340, 190
LEFT = 46
_RIGHT, _TOP, _BOTTOM = 10, 8, 22
#: An axis whose ends are so far apart is logarithmic.
_FAR_X, _FAR_Y = 8, 20


@dataclass
class Tick:
    at: float
    label: str


@dataclass
class Path:
    d: str
    colour: int                      # the same for a line and for what it was in the session before
    earlier: bool
    name: str


@dataclass
class Drawn:
    plot: Plot
    unit: str                        # of the labels up the side
    paths: list[Path]
    across: list[Tick]
    up: list[Tick]
    said: str                        # in words, for those who do not see it

    @property
    def names(self) -> list[Path]:
        return [p for p in self.paths if not p.earlier]


@dataclass
class _Axis:
    """From a value to its place: ``ticks`` are values that are worth a label."""

    place: Callable[[float], float]
    ticks: list[float]


def draw(plot: Plot) -> Drawn | None:
    """None where nothing can be drawn: no finite point."""
    lines = [(line, [(x, y) for x, y in line.points.items() if math.isfinite(x) and math.isfinite(y)])
             for line in plot.lines]
    lines = [(line, points) for line, points in lines if points]
    if not any(not line.earlier for line, _ in lines):
        return None
    xs = [x for _, points in lines for x, _ in points]
    across = _axis(xs, LEFT, WIDTH - _RIGHT, _FAR_X, _base(xs), False)
    up = _axis([y for _, points in lines for _, y in points], HEIGHT - _BOTTOM, _TOP, _FAR_Y, 10.0, True)
    names = list(dict.fromkeys(line.name for line, _ in sorted(lines, key=lambda pair: pair[0].earlier)))
    paths = [Path(_path(points, across, up), names.index(line.name), line.earlier, line.name)
             for line, points in lines]
    factor, unit = figures.moved(max(up.ticks), plot.unit)
    return Drawn(plot, unit, sorted(paths, key=lambda p: not p.earlier),
                 _ticks(across, lambda x: _along_axis(x, plot)),
                 _ticks(up, lambda y: f'{y * factor:g}'), _said(plot))


def _path(points: list[tuple[float, float]], across: _Axis, up: _Axis) -> str:
    return 'M' + 'L'.join(f'{across.place(x):.1f} {up.place(y):.1f}' for x, y in sorted(points))


def _axis(values: list[float], start: float, end: float, far: float, base: float, from_zero: bool) -> _Axis:
    least, most = min(values), max(values)
    if least > 0 and most / least >= far:
        return _logarithmic(least, most, start, end, base)
    least = min(0.0, least) if from_zero else least
    span = (most - least) or 1.0
    return _Axis(lambda v: start + (end - start) * (v - least) / span, _steps(least, least + span))


def _logarithmic(least: float, most: float, start: float, end: float, base: float) -> _Axis:
    low, high = math.log(least, base), math.log(most, base)
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    step = max(1, -(-(last - first) // 4))
    powers = [base ** n for n in range(first, last + 1, step)]
    return _Axis(lambda v: start + (end - start) * (math.log(v, base) - low) / (high - low),
                 powers if len(powers) > 1 else [least, most])


def _steps(least: float, most: float) -> list[float]:
    """Round numbers between the ends, at most five."""
    rough = (most - least) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough)
    first = math.ceil(least / step - 1e-9)
    return [n * step for n in range(first, int(most / step + 1e-9) + 1)]


def _base(xs: list[float]) -> float:
    """10 for sizes such as 1, 10 and 100 KB, otherwise 2."""
    return 10.0 if all(x > 0 and math.log10(x).is_integer() for x in xs) else 2.0


def _ticks(axis: _Axis, label: Callable[[float], str]) -> list[Tick]:
    return [Tick(round(axis.place(v), 1), label(v)) for v in axis.ticks]


def _along_axis(x: float, plot: Plot) -> str:
    return _size(x) if plot.x_unit == 'B' else figures.figure(x, plot.x_unit)


def _size(value: float) -> str:
    """Bytes as a person names them: 1 KiB, 10 KB."""
    step, mark = (1024, 'i') if value % 1024 == 0 else (1000, '')
    power = min(int(math.log(value, step) + 1e-9), 4) if value >= step else 0
    prefix = 'KMGT'[power - 1] + mark if power else ''
    return f'{value / step ** power:g} {prefix}B'


def _said(plot: Plot) -> str:
    """From where to where each line of tonight goes."""
    parts = []
    for line in plot.lines:
        if not line.earlier:
            (x0, y0), (x1, y1) = list(line.points.items())[0], list(line.points.items())[-1]
            parts.append(f'{line.name}: {figures.figure(y0, plot.unit)} at {_along_axis(x0, plot)}, '
                         f'{figures.figure(y1, plot.unit)} at {_along_axis(x1, plot)}')
    return f'{plot.metric} by {plot.what}: ' + '; '.join(parts)
