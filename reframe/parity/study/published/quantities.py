"""The functions of cells that findings name: ratio, order, best, trend, fit, knee, variation, value and count."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.study.published import derived, rows
from parity.study.published.derived import Of, by_point, numeric
from parity.study.published.estimate import Level, Quantity
from parity.study.published.figures import FIGURE, StudyCell
from parity.study.published.model import Study
from parity.study.published.statements import Finding


class Missing(NamedTuple):
    """A quantity without figures, and why. ``absent``: one of its figures was not measured."""

    name: str
    why: str
    absent: bool = False


Function = Quantity | Missing


def of_finding(study: Study, finding: Finding, of: Of, cells: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the quantities of each group of cells that differ in the finding's own axes only."""
    ends = study.series(finding.text).ends
    axes = [finding.along] if finding.along else list(ends[0]) if ends else [*study.axes, FIGURE]
    if finding.kind == 'value':
        axes = []
    for point, group in by_point(cells, axes).items():
        name = ' '.join(f'{axis} {value}' for axis, value in point)
        match finding.kind:
            case 'fit':
                yield from _fit(study, finding, name, group)
            case 'knee':
                yield from _knee(study, finding, of, name, group)
            case 'variation':
                yield from _variation(ends, of, name, group)
            case 'value':
                yield from (_figure(cell, name) for cell in group if cell.values)
            case 'count':
                yield from _count(group)
            case 'best':
                yield from _best(ends[0], of, name, group)
            case 'trend':
                yield from _trend(study, finding, of, name, group)
            case _:
                yield from _ends(ends, of, name, group)


def general(functions: Sequence[Quantity]) -> Quantity:
    """Return the geometric mean of quantities of one kind."""
    def mean(level: Level) -> float:
        return math.exp(math.fsum(math.log(each.function(level)) for each in functions) / len(functions))

    cells = list({id(cell): cell for each in functions for cell in each.cells}.values())
    return Quantity(f'geometric mean of {len(functions)}', cells, mean, functions[0].of, functions[0].label)


def _ratio(of: Of, above: StudyCell, below: StudyCell, name: str) -> Iterator[Function]:
    """Yield a quotient; print without such figures has none."""
    if not (above.values and below.values):
        missing = above if not above.values else below
        reason = missing.reason or (f'flagged: {missing.flagged[0][1]}' if missing.flagged else 'not measured')
        yield from [Missing(name, reason, absent=True)] if of == 'here' else []
        return
    why, label = rows.unlike(above, below)
    yield Missing(name, why) if why else rows.ratio(above, below, name)._replace(label=label)


def _between(of: Of, above: StudyCell, below: StudyCell, axes: Sequence[str], name: str) -> Iterator[Function]:
    ends = '/'.join(','.join(cell.point[axis] for axis in axes) for cell in (above, below))
    yield from _ratio(of, above, below, f'{name} {ends}'.strip())


def _ends(ends: Sequence[dict[str, str]], of: Of, name: str, group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the quotient of each two neighbours among the ends of a ratio or an order."""
    cells = [next((c for c in group if {**c.point, **end} == c.point), None) for end in ends]
    for above, below in itertools.pairwise(cells):
        if above and below:
            yield from _between(of, above, below, [*ends[0]], name)


def _best(end: dict[str, str], of: Of, name: str, group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield by how much the end is better than each other value of its axes."""
    best = next((c for c in group if {**c.point, **end} == c.point), None)
    for other in group if best else ():
        if other is not best:
            above, below = (other, best) if best.better == 'lower' else (best, other)
            yield from _between(of, above, below, [*end], name)


def _trend(study: Study, finding: Finding, of: Of, name: str, group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the quotient of each step along the axis."""
    for below, above in itertools.pairwise(derived.along(study, group, finding.along)):
        yield from _between(of, above, below, [finding.along], name)


def _fit(study: Study, finding: Finding, name: str, group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the exponent of a power law, or a of an inverse one."""
    points = derived.along(study, group, finding.along)
    if not points:
        return
    try:
        fitted = derived.law(finding.law, points, finding.along)
        fitted([cell.mean for cell in points])
    except ValueError as err:
        yield Missing(name, str(err))
        return
    yield derived.coefficient(finding.law, points, finding.along)._replace(name=name, label=derived.labels(group))


def _knee(study: Study, finding: Finding, of: Of, name: str, group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield what each point above the bound gains on the point at the bound; of a gain, the last point alone."""
    points = derived.along(study, group, finding.along)
    bound = max(finding.bounds.values())
    try:
        sizes = [numeric(cell, finding.along) for cell in points]
    except ValueError as err:
        yield Missing(name, str(err))
        return
    at = [cell for size, cell in zip(sizes, points, strict=True) if size == bound]
    beyond = [cell for size, cell in zip(sizes, points, strict=True) if size > bound]
    if not points:
        return
    if not at or not beyond:
        there = ', '.join(f'{size:g}' for size in sizes)
        yield Missing(f'{name} knee at {bound:g}'.strip(),
                      f'of {finding.along} {there}: a point at {bound:g} and one above are needed')
        return
    for cell in beyond if finding.flat else beyond[-1:]:
        above, below = (at[0], cell) if cell.better == 'lower' else (cell, at[0])
        ends = f'{cell.point[finding.along]}/{at[0].point[finding.along]}'
        yield from _ratio(of, above, below, f'{name} {finding.along} {ends}'.strip())


def _variation(ends: Sequence[dict[str, str]], of: Of, name: str,
               group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the quotient of two spreads."""
    above, below = (next((c for c in group if {**c.point, **end} == c.point), None) for end in ends)
    if not above or not below or not (above.values and below.values):
        if of == 'here' and (missing := above or below):
            yield Missing(name, missing.reason or 'not measured', absent=True)
        return
    name = f'{name} {"/".join(",".join(end.values()) for end in ends)}'.strip()
    yield rows.ratio(above, below, name)._replace(of='spread', label=derived.labels([above, below]))


def _figure(cell: StudyCell, name: str) -> Quantity:
    return Quantity(name, [cell], lambda level: level(cell), label=cell.unit)


def _count(group: Sequence[StudyCell]) -> Iterator[Function]:
    """Yield the sum over all runs: what happened is certain."""
    values = [run.value for cell in group for run in cell.values]
    if values:
        runs = f'in {len(values)} run' + ('s' if len(values) > 1 else '')
        yield Quantity('', [], lambda level: math.fsum(values), label=runs)
