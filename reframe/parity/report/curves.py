"""Curves: what a case measured over message sizes, and what the cases of a check measured along a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

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
