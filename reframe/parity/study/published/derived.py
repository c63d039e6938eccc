"""Fits and numbers that follow from a study's figures, in print and as measured here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from statistics import stdev
from typing import Literal

from pydantic import Field

from parity.base.figures import amount, number
from parity.base.groups import grouped
from parity.base.strict import Strict
from parity.study.published import formula
from parity.study.published.figures import StudyCell, named
from parity.study.published.formula import Estimate
from parity.study.published.model import FigureSeries, Study, filled
from parity.study.published.statements import Derived, Formula

Of = Literal['published', 'here']


class NoValue(ValueError):
    """A formula has no value for the figures in print. ``keys``: of study.yaml."""

    def __init__(self, keys: tuple, why: str):
        super().__init__(why)
        self.keys = keys


class FitRow(Strict):
    """A law fitted to means. ``low``, ``high``: of b (power), of a (inverse). A law in print has no points."""

    of: Of
    name: str
    law: str
    along: str
    points: int
    a: float | None = None
    b: float | None = None
    low: float | None = None
    high: float | None = None
    r2: float | None = None
    reason: str = ''


class NumberRow(Strict):
    of: Of
    name: str
    value: float | None
    low: float | None = None            # its 95 % interval: of a geometric mean, or of 3 runs of each figure
    high: float | None = None
    freedom: float = Field(default=math.inf, exclude=True)      # the interval's degrees of freedom
    why: str = Field(default='', exclude=True)      # what it is of, where no figure has runs
    unit: str
    formula: str
    published: float | None             # in print
    text: str = Field(default='', exclude=True)     # the same as it stands there
    note: str
    label: str = ''                     # 'cached figures': it is not what it seems


def chosen(cells: Sequence[StudyCell], series: FigureSeries) -> list[StudyCell]:
    """Return the cells of a series."""
    return [cell for cell in cells if (cell.experiment, cell.metric) == (series.experiment, series.metric)
            and all(cell.point.get(axis) in values for axis, values in series.fixed.items())]


def by_point(cells: Sequence[StudyCell], axes: Sequence[str]) -> dict[tuple, list[StudyCell]]:
    """Return the cells by their point without ``axes``."""
    return grouped(cells, lambda cell: tuple((a, v) for a, v in cell.point.items() if a not in axes))


def along(study: Study, cells: Sequence[StudyCell], axis: str) -> list[StudyCell]:
    """Return the cells that have values, in the order of an axis."""
    order = list(study.axes[axis].values)
    return sorted((c for c in cells if c.values), key=lambda c: order.index(c.point[axis]))


def numeric(cell: StudyCell, axis: str) -> float:
    """Return the value of an axis as a number, bytes for a size. ValueError where it is none."""
    if not (found := amount(cell.point[axis])):
        raise ValueError(f'{axis} {cell.point[axis]} is no number, such as 4 or 64KiB')
    return found[0]


def labels(cells: Sequence[StudyCell]) -> str:
    """Return how the figures are labelled, as `cached figures`; '' where none is."""
    words = dict.fromkeys(c.label.partition(':')[0] for c in cells if c.label)
    return f'{", ".join(words)} figures' if words else ''


# ---- fits

def fits(study: Study, of: Of, cells: Sequence[StudyCell]) -> Iterator[FitRow]:
    """Yield the study's fits to these figures."""
    for fit in study.fits:
        series = study.series(fit.series)
        of_series = chosen(cells, series)
        if of == 'published' and not (of_series or fit.printed):
            yield FitRow(of=of, name=fit.series, law=fit.law, along=fit.along, points=0, reason='not printed')
        for point, group in by_point(of_series, [fit.along]).items():
            if of == 'published' or any(c.values for c in group):
                name = named(series.experiment, series.metric, dict(point))
                yield fitted(study, of, name, fit.law, group, fit.along)
        for cell in chosen(cells, study.series(fit.printed)) if fit.printed else ():
            yield FitRow(of=of, name=named(series.experiment, series.metric, cell.point), law=fit.law,
                         along=fit.along, points=0, a=cell.mean, b=-1 if fit.law == 'inverse' else None,
                         reason='the law is printed, its points are not')


def fitted(study: Study, of: Of, name: str, law: str, cells: Sequence[StudyCell], axis: str) -> FitRow:
    """Fit a law to the means along an axis; ``reason`` says why there is none."""
    from parity.study.published import fits
    points = along(study, cells, axis)
    try:
        fit = getattr(fits, law)([numeric(c, axis) for c in points], [c.mean for c in points])
    except ValueError as err:
        return FitRow(of=of, name=name, law=law, along=axis, points=len(points), reason=str(err))
    fields = {name: value for name, value in fit._asdict().items() if name in FitRow.model_fields}
    if fit.holds is False:
        fields['reason'] = '; '.join(filter(None, (fit.reason, 'a free exponent is not -1')))
    return FitRow(**{**fields, 'of': of, 'name': name, 'along': axis})


# ---- numbers

def numbers(study: Study, of: Of, cells: Sequence[StudyCell]) -> Iterator[NumberRow]:
    """Yield the study's numbers of these figures. NoValue for a formula that has none for those in print."""
    for place, derived in enumerate(study.numbers):
        worked = derived.here if of == 'here' and derived.here else derived
        if not worked.formula or of == 'here' and not worked.let:    # of no figures: it is among those in print
            continue
        for values in itertools.product(*derived.over.values()):
            over = dict(zip(derived.over, values, strict=True))
            value, why, label = _value(study, worked, over, cells)
            if of == 'published' and why and not value:
                raise NoValue(('numbers', place, 'formula'), why)
            if value:
                yield _number(study, of, derived, worked, over, cells, value, why, label)


def _number(study: Study, of: Of, derived: Derived, worked: Formula, over: dict[str, str],
            cells: Sequence[StudyCell], value: Estimate, flags: str, label: str) -> NumberRow:
    """Return the row of a number for these values of its axes."""
    cell = _printed(study, derived, over, cells) if of == 'published' else None
    printed = derived.published.get(' '.join(over.values()), cell and cell.figure)
    flag = f'in print: {cell.flagged[0][1]}' if cell and not cell.values else ''
    return NumberRow(
        of=of, name=derived.name + ''.join(f' %{axis}={v}' for axis, v in over.items()),
        value=value.value, low=value.low, high=value.high, unit=derived.unit, freedom=value.freedom,
        formula=worked.formula, why=value.why, label=label, published=printed,
        note='; '.join(filter(None, (label, derived.note, flags, flag, value.why))),
        text=cell.text if cell else '' if printed is None else f'{printed:.10g}')


def _printed(study: Study, derived: Derived, over: dict[str, str],
             cells: Sequence[StudyCell]) -> StudyCell | None:
    """Return the figure that is a number as it stands in print."""
    series = study.series(filled(derived.printed, over)) if derived.printed else None
    return next((c for c in chosen(cells, series) if c.values or c.flagged), None) if series else None


def _value(study: Study, worked: Formula, over: dict[str, str],
           cells: Sequence[StudyCell]) -> tuple[Estimate | None, str, str]:
    """Return a number, a note: which of its figures are flagged, or why there is none ('': they are absent), and
    the label of its figures. A list has no flagged figure; of several lists over the same axes, only the points
    that all have count."""
    names: dict[str, object] = {axis: float({'yes': '1', 'no': '0'}.get(v, v)) for axis, v in over.items()
                                if v in ('yes', 'no') or v.replace('.', '', 1).isdigit()}
    lists: dict[str, dict[tuple, StudyCell]] = {}
    for name, text in worked.let.items():
        series = study.series(filled(text, over))
        whole = all(len(series.fixed.get(axis, ())) == 1 for axis in study.experiments[series.experiment].axes)
        if not (mine := [c for c in chosen(cells, series) if c.values or whole and c.flagged]):
            return None, '', ''
        free = [axis for axis in mine[0].point if len(series.fixed.get(axis, ())) != 1]
        lists[name] = {tuple((axis, c.point[axis]) for axis in free): c for c in mine}
    axes = {name: [axis for axis, _ in next(iter(points))] for name, points in lists.items()}
    used = {name: [c for point, c in points.items() if all(
        point in lists[other] for other in lists if axes[other] == axes[name])] for name, points in lists.items()}
    functions = formula.functions(study.functions)

    def estimate(changed: StudyCell | None = None, factor: float = 1.0) -> Estimate:
        for name, mine in used.items():
            values = [c.figure * (factor if c is changed else 1.0) for c in mine]
            names[name] = values if axes[name] else values[0]
        return formula.value(worked.formula, names, functions)

    figures = [c for mine in used.values() for c in mine]
    try:
        found = estimate()
        found = found if found.low is not None else with_interval(found.value, figures, estimate)
    except (ArithmeticError, ValueError) as err:
        return None, str(err), ''
    flags = (f'{c.name} is flagged: {c.flagged[0][1]}' for c in figures if not c.values)
    return found, '; '.join(flags), labels(figures)


def with_interval(value: float, cells: Sequence[StudyCell],
                  estimate: Callable[[StudyCell, float], Estimate]) -> Estimate:
    """Give a number its interval by the propagation of error. ``estimate``: the number with a figure changed.

    Where each figure has 3 runs or more it is that of 95 %, else what figures that are printed once leave open."""
    from scipy.special import stdtrit
    runs = [len(cell.values) for cell in cells]
    if value <= 0 or not runs or any(v.value <= 0 for cell in cells for v in cell.values):
        return Estimate(value)
    if min(runs) < 3:
        return _open(value, {cell.name: cell for cell in cells if cell.text}.values(), estimate)
    variance = 0.0
    for cell in {id(cell): cell for cell in cells}.values():
        logs = [math.log(v.value) for v in cell.values]
        error = stdev(logs) / math.sqrt(len(logs))
        variance += (estimate(cell, math.exp(error)).value / value - 1) ** 2 if error else 0.0
    half = stdtrit(min(runs) - 1, 0.975) * math.sqrt(variance)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), min(runs) - 1)


def _open(value: float, cells: Collection[StudyCell],
          estimate: Callable[[StudyCell, float], Estimate]) -> Estimate:
    """Give a number the ends that figures printed once leave open: 95 % of the runs by their standard deviations
    in print, and half of each last digit."""
    def moved(sign: int, factor: Callable[[StudyCell, int], float]) -> list[float]:
        return [max(0.0, *(sign * (estimate(cell, factor(cell, by)).value - value) for by in (-1, 1)))
                for cell in cells]

    low, high = (value + sign * (math.fsum(moved(sign, lambda cell, by: 1 + by * cell.rounding)) + math.hypot(
        *moved(sign, lambda cell, by: math.exp(by * 1.96 * cell.deviation)))) for sign in (-1, 1))
    if number(low) == number(high):
        return Estimate(value)
    if any(cell.deviation for cell in cells):
        return Estimate(value, low, high, why='printed once: by its standard deviation')
    return Estimate(value, low, high, 0.0, 'printed once: rounding only')
