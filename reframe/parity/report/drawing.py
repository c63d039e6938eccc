"""Where the lines of a plot go: paths and ticks in the units of its picture, numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from parity.base import figures
from parity.report.curves import Plot

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
    return Drawn(plot, unit, sorted(paths, key=lambda p: not p.earlier), _ticks(across, lambda x: _along(x, plot)),
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


def _along(x: float, plot: Plot) -> str:
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
            parts.append(f'{line.name}: {figures.figure(y0, plot.unit)} at {_along(x0, plot)}, '
                         f'{figures.figure(y1, plot.unit)} at {_along(x1, plot)}')
    return f'{plot.metric} by {plot.what}: ' + '; '.join(parts)
