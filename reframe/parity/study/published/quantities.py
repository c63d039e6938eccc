"""The functions of cells that findings name: ratio, variation, order, slope, knee, count and value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from parity.base.figures import counted
from parity.study.published import derived, rows
from parity.study.published.derived import Of, by_point, numeric
from parity.study.published.estimate import Level, Part, Quantity
from parity.study.published.figures import FIGURE, Cells, StudyCell
from parity.study.published.model import Study
from parity.study.published.statements import Finding

Function = Quantity | Part
Functions = Iterator[Function]


@dataclass(frozen=True)
class Group:
    """Cells that differ in the finding's own ``axes`` only. ``name`` has their values of the others."""

    study: Study
    finding: Finding
    ends: Sequence[dict[str, str]]
    axes: Sequence[str]
    of: Of
    name: str
    cells: Cells

    def name_with(self, text: str) -> str:
        return f'{self.name} {text}'.strip()

    def points(self) -> list[StudyCell]:
        """Return the cells that have values, in the order of the axis along which the finding goes."""
        return derived.along(self.study, self.cells, self.finding.along)

    def at(self, end: dict[str, str]) -> list[StudyCell]:
        return [cell for cell in self.cells if end.items() <= cell.point.items()]

    def end(self, cell: StudyCell) -> str:
        """Return the values of the own axes at a cell."""
        return ','.join(cell.point[axis] for axis in self.axes)

    def quotient(self, above: StudyCell, below: StudyCell, prefix: str = '') -> Functions:
        """Yield the quotient of two cells; print without such figures has none."""
        name = self.name_with(f'{prefix}{self.end(above)}/{self.end(below)}')
        if not (above.values and below.values):
            if self.of == 'here':
                yield Part(name, why=_lacking(below if above.values else above), absent=True)
            return
        unlike = rows.unlike(above, below)
        if unlike.why:
            yield Part(name, why=unlike.why)
        else:
            yield replace(rows.ratio(above, below, name), label=unlike.label)


def _lacking(cell: StudyCell) -> str:
    """Return why a cell has no values."""
    if cell.reason or not cell.flagged:
        return cell.reason or 'not measured'
    return f'flagged: {cell.flagged[0].why}'


def of_finding(study: Study, finding: Finding, of: Of, cells: Cells) -> Functions:
    """Yield the quantities of each group of cells that differ in the finding's own axes only."""
    ends = study.series(finding.text).ends
    axes: list[str] = []
    if finding.along:
        axes = [finding.along]
    elif ends:
        axes = list(max(ends, key=len))
    elif finding.kind == 'count':
        axes = [*study.axes, FIGURE]
    function = _FUNCTIONS[finding.kind]
    for point, alike in by_point(cells, axes).items():
        name = ' '.join(f'{axis} {value}' for axis, value in point)
        group = Group(study, finding, ends, axes, of, name, alike)
        yield from function(group)


def general(functions: Sequence[Quantity]) -> Quantity:
    """Return the geometric mean of quantities of one kind."""
    def mean(level: Level) -> float:
        logarithms = [math.log(quantity.function(level)) for quantity in functions]
        return math.exp(math.fsum(logarithms) / len(functions))

    name = f'geometric mean of {len(functions)}'
    cells = list(itertools.chain.from_iterable(quantity.cells for quantity in functions))
    return replace(functions[0], name=name, cells=cells, function=mean)


def _ratio(group: Group) -> Functions:
    above, below = [group.at(end) for end in group.ends]
    for one, other in itertools.product(above, below):
        if one is not other:
            yield from group.quotient(one, other)


def _variation(group: Group) -> Functions:
    for quotient in _ratio(group):
        yield replace(quotient, of='spread') if isinstance(quotient, Quantity) else quotient


def _order(group: Group) -> Functions:
    """Yield the quotient of each step."""
    steps = [group.at(end) for end in group.ends]
    if group.finding.along:
        steps = [[cell] for cell in group.points()]
    for lower, higher in itertools.pairwise(steps):
        for below, above in itertools.product(lower, higher):
            yield from group.quotient(above, below)


def _slope(group: Group) -> Functions:
    """Yield the exponent of a power law."""
    points = group.points()
    if not points:
        return
    try:
        slope = derived.coefficient('power', points, group.finding.along)
        slope.function(lambda cell: cell.mean)
    except ValueError as err:
        yield Part(group.name, why=str(err))
    else:
        yield replace(slope, name=group.name, label=derived.labels(group.cells))


def _knee(group: Group) -> Functions:
    """Yield what each point above the bound gains on the point at the bound; of a gain, the last point alone."""
    along, points = group.finding.along, group.points()
    bound = max(group.finding.bounds.values())
    try:
        sizes = [numeric(cell, along) for cell in points]
    except ValueError as err:
        yield Part(group.name, why=str(err))
        return
    at_bound = [cell for size, cell in zip(sizes, points, strict=True) if size == bound]
    beyond = [cell for size, cell in zip(sizes, points, strict=True) if size > bound]
    if points and not (at_bound and beyond):
        there = ', '.join(f'{size:g}' for size in sizes)
        yield Part(group.name_with(f'knee at {bound:g}'),
                   why=f'of {along} {there}: a point at {bound:g} and one above are needed')
        return
    for cell in beyond if group.finding.flat else beyond[-1:]:
        above, below = (at_bound[0], cell) if cell.better == 'lower' else (cell, at_bound[0])
        yield from group.quotient(above, below, f'{along} ')


def _count(group: Group) -> Functions:
    """Yield the sum over all runs: what happened is certain."""
    runs = list(itertools.chain.from_iterable(cell.values for cell in group.cells))
    total = math.fsum(run.value for run in runs)
    if runs:
        label = f'in {counted(len(runs), "run")}'
        yield Quantity('', [], lambda level: total, label=label)


def _value(group: Group) -> Functions:
    for cell in group.cells:
        if cell.values:
            yield Quantity(group.name, [cell], lambda level, cell=cell: level(cell), label=cell.unit)


_FUNCTIONS: dict[str, Callable[[Group], Functions]] = {
    'ratio': _ratio, 'variation': _variation, 'order': _order, 'slope': _slope, 'knee': _knee, 'count': _count,
    'value': _value}
