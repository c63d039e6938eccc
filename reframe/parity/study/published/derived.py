"""Fits and numbers that follow from a study's figures, in print and as measured here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from parity.base.figures import amount
from parity.base.groups import grouped
from parity.base.strict import Strict
from parity.study.published import formula
from parity.study.published.estimate import Estimate, Level, Quantity, estimated
from parity.study.published.figures import StudyCell, named
from parity.study.published.model import FigureSeries, Study, filled
from parity.study.published.statements import Derived, Formula

if TYPE_CHECKING:
    from parity.study.published.fits import FittedLaw

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
    low: float | None = None            # its interval
    high: float | None = None
    estimate: Estimate | None = Field(default=None, exclude=True)
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


def fitted(study: Study, of: Of, name: str, law_name: str, cells: Sequence[StudyCell], axis: str) -> FitRow:
    """Fit a law to the means along an axis; ``reason`` says why there is none."""
    points = along(study, cells, axis)
    row = FitRow(of=of, name=name, law=law_name, along=axis, points=len(points))
    try:
        fit = law(law_name, points, axis)([cell.mean for cell in points])
        found = estimated(coefficient(law_name, points, axis))
        exponent = estimated(coefficient('power', points, axis))
    except ValueError as err:
        return row.model_copy(update={'reason': str(err)})
    reasons = [fit.reason] if fit.reason else []
    if law_name == 'inverse' and exponent.low is not None and not exponent.low <= -1 <= exponent.high:
        reasons.append('a free exponent is not -1')
    return row.model_copy(update={'a': fit.a, 'b': fit.b, 'r2': fit.r2, 'low': found.low, 'high': found.high,
                                  'reason': '; '.join(reasons)})


def law(name: str, points: Sequence[StudyCell], axis: str) -> Callable[[Sequence[float]], FittedLaw]:
    """Return what fits a law to figures at these points. ValueError where the axis has no numbers."""
    from parity.study.published import fits
    sizes = [numeric(cell, axis) for cell in points]
    fit = getattr(fits, name)
    return lambda figures: fit(sizes, figures)


def coefficient(name: str, points: Sequence[StudyCell], axis: str) -> Quantity:
    """Return the exponent of a power law, or a of an inverse one, as a function of the points."""
    fit = law(name, points, axis)

    def value(level: Level) -> float:
        found = fit([level(cell) for cell in points])
        return found.b if name == 'power' else found.a

    return Quantity('', points, value, linear=name == 'power')


# ---- numbers

def numbers(study: Study, of: Of, cells: Sequence[StudyCell]) -> Iterator[NumberRow]:
    """Yield the study's numbers of these figures. NoValue for a formula that has none for those in print."""
    for place, derived in enumerate(study.numbers):
        worked = derived.here if of == 'here' and derived.here else derived
        if not worked.formula or of == 'here' and not worked.let:    # of no figures: it is among those in print
            continue
        for values in itertools.product(*derived.over.values()):
            over = dict(zip(derived.over, values, strict=True))
            quantity, flags = _quantity(study, worked, over, cells)
            if quantity is None:
                continue
            try:
                found = estimated(quantity)
            except (ArithmeticError, ValueError) as err:
                if of == 'published':
                    raise NoValue(('numbers', place, 'formula'), str(err)) from None
                continue
            yield _number(study, of, derived, worked, over, cells, found, flags, quantity.label)


def _number(study: Study, of: Of, derived: Derived, worked: Formula, over: dict[str, str],
            cells: Sequence[StudyCell], estimate: Estimate, flags: str, label: str) -> NumberRow:
    """Return the row of a number for these values of its axes."""
    cell = _printed(study, derived, over, cells) if of == 'published' else None
    printed = derived.published.get(' '.join(over.values()), cell and cell.figure)
    flag = f'in print: {cell.flagged[0][1]}' if cell and not cell.values else ''
    exact = estimate.low == estimate.high
    notes = [label, derived.note, flags, flag, '' if exact else estimate.why, estimate.few]
    return NumberRow(
        of=of, name=derived.name + ''.join(f' %{axis}={v}' for axis, v in over.items()), value=estimate.value,
        low=None if exact else estimate.low, high=None if exact else estimate.high, unit=derived.unit,
        estimate=estimate, formula=worked.formula, label=label, published=printed,
        note='; '.join(filter(None, notes)),
        text=cell.text if cell else '' if printed is None else f'{printed:.10g}')


def _printed(study: Study, derived: Derived, over: dict[str, str],
             cells: Sequence[StudyCell]) -> StudyCell | None:
    """Return the figure that is a number as it stands in print."""
    series = study.series(filled(derived.printed, over)) if derived.printed else None
    return next((c for c in chosen(cells, series) if c.values or c.flagged), None) if series else None


def _quantity(study: Study, worked: Formula, over: dict[str, str],
              cells: Sequence[StudyCell]) -> tuple[Quantity | None, str]:
    """Return a number as a function of its cells, None where some are absent, and which figures are flagged.

    A list has no flagged figure. Of several lists over the same axes, only the points that all have count."""
    figures: dict[str, list[StudyCell]] = {}
    axes: dict[str, list[str]] = {}
    for name, text in worked.let.items():
        series = study.series(filled(text, over))
        own = study.experiments[series.experiment].axes
        whole = all(len(series.fixed.get(axis, ())) == 1 for axis in own)
        figures[name] = [c for c in chosen(cells, series) if c.values or whole and c.flagged]
        if not figures[name]:
            return None, ''
        axes[name] = [axis for axis in figures[name][0].point if len(series.fixed.get(axis, ())) != 1]

    def at(cell: StudyCell, name: str) -> tuple:
        return tuple(cell.point[axis] for axis in axes[name])

    points = {name: {at(cell, name) for cell in mine} for name, mine in figures.items()}
    for name, mine in figures.items():
        alike = [points[other] for other in figures if axes[other] == axes[name]]
        both = set.intersection(*alike)
        figures[name] = [cell for cell in mine if at(cell, name) in both]
    numbers = {axis: float({'yes': '1', 'no': '0'}.get(v, v)) for axis, v in over.items()
               if v in ('yes', 'no') or v.replace('.', '', 1).isdigit()}
    functions = formula.functions(study.functions)

    def value(level: Level) -> float:
        names: dict[str, object] = dict(numbers)
        for name, mine in figures.items():
            levels = [level(cell) for cell in mine]
            names[name] = levels if axes[name] else levels[0]
        return formula.value(worked.formula, names, functions)

    used = list({id(cell): cell for mine in figures.values() for cell in mine}.values())
    flags = [f'{c.name} is flagged: {c.flagged[0][1]}' for c in used if not c.values]
    return Quantity('', used, value, label=labels(used), linear='-' in worked.formula), '; '.join(flags)
