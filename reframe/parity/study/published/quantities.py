"""The functions of cells that findings name: ratio, variation, order, slope, knee, count and value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from parity.study.published import derived, rows
from parity.study.published.derived import Of, by_point, numeric
from parity.study.published.estimate import Level, Quantity
from parity.study.published.figures import FIGURE, StudyCell
from parity.study.published.model import Study
from parity.study.published.statements import Finding


@dataclass(frozen=True)
class Missing:
    """A quantity without figures, and why. ``absent``: one of its figures was not measured."""

    name: str
    why: str
    absent: bool = False


Function = Quantity | Missing


@dataclass(frozen=True)
class Group:
    """Cells that differ in the finding's own ``axes`` only. ``name`` has their values of the others."""

    study: Study
    finding: Finding
    ends: Sequence[dict[str, str]]
    axes: Sequence[str]
    of: Of
    name: str
    cells: Sequence[StudyCell]

    def named(self, text: str) -> str:
        return f'{self.name} {text}'.strip()

    def points(self) -> list[StudyCell]:
        """Return the cells that have values, in the order of the axis along which the finding goes."""
        return derived.along(self.study, self.cells, self.finding.along)

    def at(self, end: dict[str, str]) -> list[StudyCell]:
        return [cell for cell in self.cells if end.items() <= cell.point.items()]

    def quotient(self, above: StudyCell, below: StudyCell, prefix: str = '') -> Iterator[Function]:
        """Yield the quotient of two cells; print without such figures has none."""
        ends = [','.join(cell.point[axis] for axis in self.axes) for cell in (above, below)]
        name = self.named(prefix + '/'.join(ends))
        if not (above.values and below.values):
            if self.of == 'here':
                yield Missing(name, _lacking(below if above.values else above), absent=True)
            return
        unlike = rows.unlike(above, below)
        if unlike.why:
            yield Missing(name, unlike.why)
        else:
            yield replace(rows.ratio(above, below, name), label=unlike.label)


def _lacking(cell: StudyCell) -> str:
    """Return why a cell has no values."""
    if cell.reason or not cell.flagged:
        return cell.reason or 'not measured'
    return f'flagged: {cell.flagged[0].why}'


def of_finding(study: Study, finding: Finding, of: Of, cells: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the quantities of each group of cells that differ in the finding's own axes only."""
    ends = study.series(finding.text).ends
    axes: list[str] = []
    if finding.along:
        axes = [finding.along]
    elif ends:
        axes = list(max(ends, key=len))
    elif finding.kind == 'count':
        axes = [*study.axes, FIGURE]
    for point, group in by_point(cells, axes).items():
        name = ' '.join(f'{axis} {value}' for axis, value in point)
        yield from _FUNCTIONS[finding.kind](Group(study, finding, ends, axes, of, name, group))


def general(functions: Sequence[Quantity]) -> Quantity:
    """Return the geometric mean of quantities of one kind."""
    def mean(level: Level) -> float:
        logarithms = [math.log(quantity.function(level)) for quantity in functions]
        return math.exp(math.fsum(logarithms) / len(functions))

    cells = {id(cell): cell for quantity in functions for cell in quantity.cells}
    return replace(functions[0], name=f'geometric mean of {len(functions)}', cells=list(cells.values()),
                   function=mean)


def _ratio(group: Group) -> Iterator[Function]:
    above, below = group.ends
    for one, other in itertools.product(group.at(above), group.at(below)):
        if one is not other:
            yield from group.quotient(one, other)


def _variation(group: Group) -> Iterator[Function]:
    for quotient in _ratio(group):
        yield replace(quotient, of='spread') if isinstance(quotient, Quantity) else quotient


def _order(group: Group) -> Iterator[Function]:
    """Yield the quotient of each step."""
    if group.finding.along:
        cells = group.points()
    else:
        cells = [cell for end in group.ends for cell in group.at(end)]
    for below, above in itertools.pairwise(cells):
        yield from group.quotient(above, below)


def _slope(group: Group) -> Iterator[Function]:
    """Yield the exponent of a power law."""
    points = group.points()
    if not points:
        return
    try:
        slope = derived.coefficient('power', points, group.finding.along)
        slope.function(lambda cell: cell.mean)
    except ValueError as err:
        yield Missing(group.name, str(err))
    else:
        yield replace(slope, name=group.name, label=derived.labels(group.cells))


def _knee(group: Group) -> Iterator[Function]:
    """Yield what each point above the bound gains on the point at the bound; of a gain, the last point alone."""
    along, points = group.finding.along, group.points()
    bound = max(group.finding.bounds.values())
    try:
        sizes = [numeric(cell, along) for cell in points]
    except ValueError as err:
        yield Missing(group.name, str(err))
        return
    at_bound = [cell for size, cell in zip(sizes, points, strict=True) if size == bound]
    beyond = [cell for size, cell in zip(sizes, points, strict=True) if size > bound]
    if points and not (at_bound and beyond):
        there = ', '.join(f'{size:g}' for size in sizes)
        yield Missing(group.named(f'knee at {bound:g}'),
                      f'of {along} {there}: a point at {bound:g} and one above are needed')
        return
    for cell in beyond if group.finding.flat else beyond[-1:]:
        above, below = (at_bound[0], cell) if cell.better == 'lower' else (cell, at_bound[0])
        yield from group.quotient(above, below, f'{along} ')


def _count(group: Group) -> Iterator[Function]:
    """Yield the sum over all runs: what happened is certain."""
    values = [run.value for cell in group.cells for run in cell.values]
    if values:
        runs = f'in {len(values)} run' + ('s' if len(values) > 1 else '')
        yield Quantity('', [], lambda level: math.fsum(values), label=runs)


def _value(group: Group) -> Iterator[Function]:
    for cell in group.cells:
        if cell.values:
            yield Quantity(group.name, [cell], lambda level, cell=cell: level(cell), label=cell.unit)


_FUNCTIONS: dict[str, Callable[[Group], Iterator[Function]]] = {
    'ratio': _ratio, 'variation': _variation, 'order': _order, 'slope': _slope, 'knee': _knee, 'count': _count,
    'value': _value}
