"""Fits and numbers that follow from a study's figures, in print and as measured here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from parity.base.figures import amount
from parity.base.groups import grouped
from parity.base.strict import Strict
from parity.study.published import fits as laws
from parity.study.published import formula
from parity.study.published.estimate import Estimate, Level, Quantity, estimated
from parity.study.published.figures import Cells, StudyCell, metric_name, spelled
from parity.study.published.fits import FittedLaw
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
    low: float | None = None            # its interval
    high: float | None = None
    estimate: Estimate | None = Field(default=None, exclude=True)
    unit: str
    formula: str
    published: float | None             # in print
    text: str = Field(default='', exclude=True)     # the same as it stands there
    note: str
    label: str = ''                     # 'cached figures': it is not what it seems


def chosen(cells: Cells, series: FigureSeries) -> list[StudyCell]:
    """Return the cells of a series."""
    mine = [cell for cell in cells if (cell.experiment, cell.metric) == (series.experiment, series.metric)]
    for axis, values in series.fixed.items():
        mine = [cell for cell in mine if cell.point.get(axis) in values]
    return mine


def by_point(cells: Cells, axes: Sequence[str]) -> dict[tuple, list[StudyCell]]:
    """Return the cells by their point without ``axes``."""
    return grouped(cells, lambda cell: tuple(cell.without(*axes).items()))


def along(study: Study, cells: Cells, axis: str) -> list[StudyCell]:
    """Return the cells that have values, in the order of an axis."""
    by_value = grouped(cells, lambda cell: cell.point[axis])
    in_order = []
    for value in study.axes[axis].values:
        in_order += [cell for cell in by_value.get(value, ()) if cell.values]
    return in_order


def numeric(cell: StudyCell, axis: str) -> float:
    """Return the value of an axis as a number, bytes for a size. ValueError where it is none."""
    size = amount(cell.point[axis])
    if not size:
        raise ValueError(f'{axis} {cell.point[axis]} is no number, such as 4 or 64KiB')
    return size[0]


def labels(cells: Cells) -> str:
    """Return how the figures are labelled, as `cached figures`; '' where none is."""
    words = dict.fromkeys(cell.label.partition(':')[0] for cell in cells if cell.label)
    return f'{", ".join(words)} figures' if words else ''


# ---- fits

def fits(study: Study, of: Of, cells: Cells) -> Iterator[FitRow]:
    """Yield the study's fits to these figures."""
    for fit in study.fits:
        series = study.series(fit.series)
        mine = chosen(cells, series)
        if of == 'published' and not (mine or fit.printed):
            yield FitRow(of=of, name=fit.series, law=fit.law, along=fit.along, points=0, reason='not printed')
        for point, group in by_point(mine, [fit.along]).items():
            if of == 'published' or any(cell.values for cell in group):
                name = metric_name(series.experiment, series.metric, dict(point))
                yield fitted(study, of, name, fit.law, group, fit.along)
        if fit.printed:
            for cell in chosen(cells, study.series(fit.printed)):
                yield FitRow(of=of, name=metric_name(series.experiment, series.metric, cell.point), law=fit.law,
                             along=fit.along, points=0, a=cell.mean, b=-1 if fit.law == 'inverse' else None,
                             reason='the law is printed, its points are not')


def fitted(study: Study, of: Of, name: str, law_name: str, cells: Cells, axis: str) -> FitRow:
    """Fit a law to the means along an axis; ``reason`` says why there is none."""
    points = along(study, cells, axis)
    row = FitRow(of=of, name=name, law=law_name, along=axis, points=len(points))
    try:
        fit = law(law_name, points, axis)([cell.mean for cell in points])
        estimate = estimated(coefficient(law_name, points, axis))
        exponent = estimated(coefficient('power', points, axis))
    except ValueError as err:
        return row.model_copy(update={'reason': str(err)})
    reasons = [fit.reason] if fit.reason else []
    if law_name == 'inverse' and exponent.low is not None and not exponent.low <= -1 <= exponent.high:
        reasons.append('a free exponent is not -1')
    return row.model_copy(update={'a': fit.a, 'b': fit.b, 'r2': fit.r2, 'low': estimate.low,
                                  'high': estimate.high, 'reason': '; '.join(reasons)})


def law(name: str, points: Cells, axis: str) -> Callable[[Sequence[float]], FittedLaw]:
    """Return what fits a law to figures at these points. ValueError where the axis has no numbers."""
    sizes = [numeric(cell, axis) for cell in points]
    fit = laws.power if name == 'power' else laws.inverse
    return lambda figures: fit(sizes, figures)


def coefficient(name: str, points: Cells, axis: str) -> Quantity:
    """Return the exponent of a power law, or a of an inverse one, as a function of the points."""
    fit = law(name, points, axis)

    def value(level: Level) -> float:
        levels = [level(cell) for cell in points]
        fitted_law = fit(levels)
        return fitted_law.b if name == 'power' else fitted_law.a

    return Quantity('', points, value, linear=name == 'power')


# ---- numbers

def numbers(study: Study, of: Of, cells: Cells) -> Iterator[NumberRow]:
    """Yield the study's numbers of these figures. NoValue for a formula that has none for those in print."""
    functions = formula.functions(study.functions)
    for place, derived in enumerate(study.numbers):
        worked = derived.worked(of == 'here')
        if not worked.formula or (of == 'here' and not worked.let):    # of no figures: it is among those in print
            continue
        for over in derived.points():
            quantity = _quantity(study, worked, over, cells, functions)
            if quantity is None:
                continue
            try:
                estimate = estimated(quantity)
            except (ArithmeticError, ValueError) as err:
                if of == 'published':
                    raise NoValue(('numbers', place, 'formula'), str(err)) from None
                continue
            printed = _printed(study, derived, over, cells) if of == 'published' else None
            yield _number(of, derived, over, quantity, estimate, printed)


def _number(of: Of, derived: Derived, over: Mapping[str, str], quantity: Quantity, estimate: Estimate,
            cell: StudyCell | None) -> NumberRow:
    """Return the row of a number for these values of its axes. ``cell``: the same as it stands in print."""
    printed = derived.published.get(' '.join(over.values()))
    text = '' if printed is None else f'{printed:.10g}'
    notes = [quantity.label, derived.note]
    notes += [f'{used.name} is flagged: {used.flagged[0].why}' for used in quantity.cells if not used.values]
    if cell:
        text = cell.text
        printed = cell.figure if printed is None else printed
        if not cell.values:
            notes.append(f'in print: {cell.flagged[0].why}')
    interval = {}
    if estimate.low != estimate.high:
        interval = {'low': estimate.low, 'high': estimate.high}
        notes.append(estimate.why)
    notes.append(estimate.few)
    return NumberRow(of=of, name=spelled(derived.name, over), value=estimate.value, unit=derived.unit,
                     estimate=estimate, formula=derived.worked(of == 'here').formula, label=quantity.label,
                     published=printed, note='; '.join(filter(None, notes)), text=text, **interval)


def _printed(study: Study, derived: Derived, over: Mapping[str, str],
             cells: Cells) -> StudyCell | None:
    """Return the figure that is a number as it stands in print."""
    if not derived.printed:
        return None
    series = study.series(filled(derived.printed, over))
    there = [cell for cell in chosen(cells, series) if cell.values or cell.flagged]
    return there[0] if there else None


@dataclass(frozen=True)
class _Operand:
    """The figures that a name of a formula stands for. ``open``: axes of which its series names no one value."""

    cells: Cells
    open: tuple[str, ...]

    def place(self, cell: StudyCell) -> tuple[str, ...]:
        return tuple(cell.point[axis] for axis in self.open)


def _operand(study: Study, series: FigureSeries, cells: Cells) -> _Operand:
    """Return the figures of a series. A list has no flagged one."""
    single = [axis for axis, values in series.fixed.items() if len(values) == 1]
    several = study.experiments[series.experiment].axes.keys() - single
    there = chosen(cells, series)
    mine = [cell for cell in there if cell.values or (cell.flagged and not several)]
    if not mine:
        return _Operand([], ())
    axes = mine[0].without(*single)
    return _Operand(mine, tuple(axes))


def _with_shared_points(operands: Mapping[str, _Operand]) -> dict[str, _Operand]:
    """Return the operands with the points that all lists over the same axes have."""
    places: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for operand in operands.values():
        mine = {operand.place(cell) for cell in operand.cells}
        places[operand.open] = places.get(operand.open, mine) & mine
    shared = {}
    for name, operand in operands.items():
        there = places[operand.open]
        cells = [cell for cell in operand.cells if operand.place(cell) in there]
        shared[name] = _Operand(cells, operand.open)
    return shared


def _quantity(study: Study, worked: Formula, over: Mapping[str, str], cells: Cells,
              functions: formula.Functions) -> Quantity | None:
    """Return a number as a function of its cells; None where some are absent."""
    operands = {}
    for name, text in worked.let.items():
        series = study.series(filled(text, over))
        operand = _operand(study, series, cells)
        if not operand.cells:
            return None
        operands[name] = operand
    operands = _with_shared_points(operands)
    settings = _settings(over)

    def value(level: Level) -> float:
        names: dict[str, object] = dict(settings)
        for name, operand in operands.items():
            levels = [level(cell) for cell in operand.cells]
            names[name] = levels if operand.open else levels[0]
        return formula.value(worked.formula, names, functions)

    every = itertools.chain.from_iterable(operand.cells for operand in operands.values())
    by_id = {id(cell): cell for cell in every}
    used = list(by_id.values())
    return Quantity('', used, value, label=labels(used), linear='-' in worked.formula)


def _settings(over: Mapping[str, str]) -> dict[str, float]:
    """Return the values of axes that are numbers: yes is 1, no is 0."""
    settings = {}
    for axis, value in over.items():
        if value in ('yes', 'no'):
            settings[axis] = float(value == 'yes')
        elif value.replace('.', '', 1).isdigit():
            settings[axis] = float(value)
    return settings
