"""Curves over message sizes or along a parameter of a check, and ratios of two partitions as dot and interval."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from parity.base import figures
from parity.compare.model import Comparison, Outcome
from parity.records import outset
from parity.records.record import Run, Session

#: Plots of one page; the database has the figures of all.
MOST = 60
#: Fewer points are no curve.
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
    """Return the plots of a session, a line for each partition, with the lines of the session before."""
    plots: dict[tuple, Plot] = {}
    for points, earlier in ((_points(session), False), (_points(before) if before else (), True)):
        found: dict[tuple, dict[float, list[float]]] = {}
        for plot, name, x, y in points:
            if not earlier:
                plots.setdefault(plot.key, plot)
            found.setdefault((plot.key, name), {}).setdefault(x, []).append(y)
        for (key, name), values in found.items():
            if key in plots and len(values) >= FEWEST:
                plots[key].lines.append(Line(name, {x: median(values[x]) for x in sorted(values)}, earlier))
    shown = [p for p in plots.values() if any(not line.earlier for line in p.lines)]
    lines = [line for plot in shown for line in plot.lines]
    if len({line.name.partition(_BETWEEN)[2] for line in lines}) == 1:      # one environment needs no name
        for line in lines:
            line.name = line.name.partition(_BETWEEN)[0]
    return shown


def _points(session: Session) -> Iterator[Point]:
    swept: dict[tuple, list[tuple[dict[str, str], Run]]] = {}
    for (case, partition, environ), attempts in session.attempts.items():
        line = f'{partition}{_BETWEEN}{environ}'
        for run in attempts:
            if not run.retry and not run.status:
                yield from _by_size(case, line, run)
                swept.setdefault((case.partition(' %')[0], line), []).append((outset.parameters(case), run))
    axes = _axes(swept)
    for (check, line), cases in swept.items():
        for parameters, run in cases if check in axes else ():
            yield from _along(axes[check], check, line, parameters, run)


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


def _axes(swept: dict[tuple, list[tuple[dict[str, str], Run]]]) -> dict[str, str]:
    """Return the axis of each check: its parameter with the most values, which are all numbers."""
    values: dict[str, dict[str, set[float | None]]] = {}
    for (check, _), cases in swept.items():
        for parameters, run in cases:
            for name in parameters:
                values.setdefault(check, {}).setdefault(name, set()).add(_number(name, parameters, run))
    numeric = {check: {name: len(xs) for name, xs in found.items() if None not in xs and len(xs) >= FEWEST}
               for check, found in values.items()}
    return {check: max(counts, key=counts.get) for check, counts in numeric.items() if counts}


def _number(name: str, parameters: dict[str, str], run: Run) -> float | None:
    """Return a parameter as a number: '64KiB' is 65536, and of threads=all the case noted how many there were."""
    if found := _NUMBER.fullmatch(parameters[name]):
        return float(found[1]) * _BYTES.get(found[2], 1)
    noted = run.noted.get(name)
    return float(noted) if isinstance(noted, int | float) and not isinstance(noted, bool) else None


def _along(axis: str, check: str, line: str, parameters: dict[str, str], run: Run) -> Iterator[Point]:
    if axis not in parameters:
        return
    x, size = _number(axis, parameters, run), _NUMBER.fullmatch(parameters[axis])
    others = ' '.join(f'%{name}={value}' for name, value in parameters.items() if name != axis)
    for metric, value in run.values().items():
        figure = run.figures[metric]
        yield Plot(run.subsystem, f'{check} {others}'.strip(), axis, 'B' if size and size[2] else '', metric,
                   figure.unit, figure.better), line, x, value


# ---- the drawing of a plot

WIDTH, HEIGHT, LEFT = 340, 190, 46
_RIGHT, _TOP, _BOTTOM = 10, 8, 22
#: An axis is logarithmic where its ends are so far apart.
_FAR_X, _FAR_Y = 8, 20

#: Place of a label, and the label.
Tick = tuple[float, str]


class Path(NamedTuple):
    d: str
    colour: int                      # the same for a line and its line of the session before
    earlier: bool
    name: str


class Drawn(NamedTuple):
    plot: Plot
    unit: str                        # of the labels up the side
    paths: list[Path]
    across: list[Tick]
    up: list[Tick]
    said: str                        # in words, for those who do not see it


class _Axis(NamedTuple):
    """A map from a value to its place; ``ticks`` are values with a label."""

    place: Callable[[float], float]
    ticks: list[float]

    def labels(self, text: Callable[[float], str]) -> list[Tick]:
        return [(round(self.place(v), 1), text(v)) for v in self.ticks]


def draw(plot: Plot) -> Drawn | None:
    """Return the plot's drawing, without points that are not finite; None where no line of tonight is left."""
    lines = [(line, sorted((x, y) for x, y in line.points.items() if math.isfinite(x) and math.isfinite(y)))
             for line in plot.lines]
    lines = sorted(((line, points) for line, points in lines if points), key=lambda pair: not pair[0].earlier)
    if not lines or lines[-1][0].earlier:
        return None
    xs, ys = zip(*(point for _, points in lines for point in points), strict=True)
    # 10 for sizes such as 1, 10 and 100 KB, otherwise 2
    base = 10.0 if all(x > 0 and math.log10(x).is_integer() for x in xs) else 2.0
    across = _axis(xs, LEFT, WIDTH - _RIGHT, _FAR_X, base, False)
    up = _axis(ys, HEIGHT - _BOTTOM, _TOP, _FAR_Y, 10.0, True)
    names = list(dict.fromkeys(line.name for line, _ in sorted(lines, key=lambda pair: pair[0].earlier)))
    paths = [Path('M' + 'L'.join(f'{across.place(x):.1f} {up.place(y):.1f}' for x, y in points),
                  names.index(line.name), line.earlier, line.name) for line, points in lines]
    factor, unit = figures.moved(max(up.ticks), plot.unit)
    return Drawn(plot, unit, paths, across.labels(lambda x: _size(x, plot.x_unit)),
                 up.labels(lambda y: f'{y * factor:g}'), _said(plot))


def _axis(values: Iterable[float], start: float, end: float, far: float, base: float, from_zero: bool) -> _Axis:
    least, most = min(values), max(values)
    if least > 0 and most / least >= far:
        low, high = math.log(least, base), math.log(most, base)
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        powers = [base ** n for n in range(first, last + 1, max(1, -(-(last - first) // 4)))]
        return _Axis(lambda v: start + (end - start) * (math.log(v, base) - low) / (high - low),
                     powers if len(powers) > 1 else [least, most])
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


def _size(value: float, unit: str) -> str:
    """Return a place on the x axis as a person names it: bytes are 1 KiB, 10 KB."""
    if unit != 'B':
        return figures.figure(value, unit)
    step, mark = (1024, 'i') if value % 1024 == 0 else (1000, '')
    power = min(int(math.log(value, step) + 1e-9), 4) if value >= step else 0
    prefix = 'KMGT'[power - 1] + mark if power else ''
    return f'{value / step ** power:g} {prefix}B'


def _said(plot: Plot) -> str:
    """Say from where to where each line of tonight goes."""
    ends = [(line.name, list(line.points.items())) for line in plot.lines if not line.earlier]
    parts = [f'{name}: ' + ', '.join(f'{figures.figure(y, plot.unit)} at {_size(x, plot.x_unit)}'
                                     for x, y in (points[0], points[-1])) for name, points in ends]
    return f'{plot.metric} by {plot.what}: ' + '; '.join(parts)


# ---- ratios around 1

WIDE, HIGH = 260, 18
#: The axis is asinh of so many times the logarithm: near 1 a step is a share, far from it a multiple.
_STRETCH = 20.0
_MARKS = (0.01, 0.1, 0.5, 0.8, 0.95, 1.0, 1.05, 1.25, 2.0, 10.0, 100.0)


class Ratio(NamedTuple):
    """One metric of a pair, candidate / baseline with its interval, and the expectation."""

    name: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    expected: str = ''
    word: str = ''                   # ok, regressed, insufficient; without an expectation the comparison's word
    better: str = ''
    reason: str = ''                 # why there is no ratio

    @property
    def interval(self) -> str:
        known = self.low is not None and self.high is not None
        return ' .. '.join(figures.number(v, pad=True) for v in (self.low, self.high)) if known else ''


class Pair(NamedTuple):
    """Two compared sides; ``notes`` are part of the answer."""

    title: str
    rows: list[Ratio]
    notes: list[str] = []


class Chart(NamedTuple):
    """``place`` is where on the axis a ratio is drawn; None: nowhere."""

    pair: Pair
    place: Callable[[float | None], float | None]
    ticks: list[Tick]


def chart(pair: Pair) -> Chart:
    """Return the pair on an axis that reaches as far as its ratios do, alike on both sides of 1."""
    known = [v for r in pair.rows for v in (r.ratio, r.low, r.high) if v is not None and 0 < v < math.inf]
    far = max(abs(_stretched(v)) for v in (*known, 1.25))

    def place(value: float | None) -> float | None:
        drawn = value is not None and 0 < value < math.inf
        return round(WIDE / 2 + (WIDE / 2 - 8) * _stretched(value) / far, 1) if drawn else None

    ticks: list[Tick] = []
    for mark in sorted(_MARKS, key=lambda m: (m != 1, -abs(_stretched(m)))):    # labels must not touch
        if abs(_stretched(mark)) <= far and all(abs(place(mark) - other) > 30 for other, _ in ticks):
            ticks.append((place(mark), f'{mark:g}'))
    return Chart(pair, place, sorted(ticks))


def _stretched(ratio: float) -> float:
    return math.asinh(_STRETCH * math.log(ratio))


def of_comparison(compared: Comparison) -> Pair:
    """Return all metrics of a pair, those with an expectation first; a note says why others have no ratio."""
    known = [r for r in compared.rows if r.ratio is not None or r.expected]
    rows = [Ratio(f'{r.benchmark}: {r.metric}', r.ratio, r.low, r.high, r.expected, r.state or r.verdict, r.better,
                  r.reason) for r in sorted(known, key=lambda r: not r.expected)]
    without = Counter(r.reason for r in compared.rows if r.ratio is None and not r.expected)
    notes = [f'{count} {"metric" if count == 1 else "metrics"}: {why}' for why, count in without.most_common()]
    candidate, baseline = compared.candidate.name, compared.baseline.name
    if means := ' · '.join(f'{m.subsystem or "all"} {figures.number(m.speed, pad=True)}' for m in compared.means):
        notes = [f'geometric means, as speed of {candidate}: {means}', *notes]
    return Pair(f'{candidate} / {baseline}', rows, notes)


def of_outcomes(outcomes: Iterable[Outcome]) -> list[Pair]:
    """Return the declared pairs by the verdict alone."""
    pairs: dict[str, list[Ratio]] = {}
    for o in outcomes:
        pairs.setdefault(f'{o.candidate} / {o.baseline}', []).append(
            Ratio(f'{o.benchmark}: {o.metric}', o.ratio, o.low, o.high, o.expected, o.state, reason=o.why))
    return [Pair(title, rows) for title, rows in pairs.items()]
