"""The rows of a study's tables: its sides compared, point by point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.judge.compare import join
from parity.judge.compare.model import Comparison, Measured, Row, Side
from parity.study.published import estimate
from parity.study.published.estimate import Quantity
from parity.study.published.figures import Cells, StudyCell, labelled
from parity.study.published.model import Point, Study

#: The point of the first figure of an experiment and metric, where each is shown as its ratio to that.
FirstPoints = Mapping[tuple[str, str], Point]
Origin = Literal['published', 'session']


def compared(study: Study, cells: Cells, kind: Origin, notes: Sequence[str] = (),
             sessions: Sequence[str] = (), tables: FirstPoints | None = None) -> Comparison:
    """Compare the candidate with the baseline, point by point; figures without sides have no row. A study of one
    side has a row for each figure, and ``tables`` are those in which it is divided by the first one."""
    shown = [cell for cell in cells if _has_row(study, cell)]
    by_side = grouped(shown, lambda cell: study.side_of(cell.point))
    sides = []
    for name in study.sides:
        measured = [_measured(study, cell) for cell in by_side.get(name, ())]
        sides.append(Side(name, kind, measured, list(sessions)))
    if study.candidate:
        unlike_cases = study.axes[study.contrast].kind in ('value', 'environ')
        comparison = join.compare(*sides, label=unlike_cases)
    else:
        comparison = join.alone(*sides)
    by_row = grouped(shown, lambda cell: labelled(study, cell))
    rows = [_of_means(row, study, by_row[row.benchmark, row.metric], kind) for row in comparison.rows]
    if tables and not study.candidate:
        rows = list(_divided(rows, shown, tables))
    notes = [*head(study), *notes, *study.repairs]
    return comparison.model_copy(update={'rows': rows, 'means': [], 'notes': notes})


def _has_row(study: Study, cell: StudyCell) -> bool:
    experiment = study.experiments[cell.experiment]
    side = study.side_of(cell.point)
    if not experiment.compared or side not in study.sides:
        return False
    return not study.candidate or not _is_ratio(cell)


def _measured(study: Study, cell: StudyCell) -> Measured:
    """Return a cell in the form of a night's comparison."""
    name = labelled(study, cell)
    benchmark = name.case.partition(' %')[0]
    subsystem = study.experiments[cell.experiment].subsystem
    measured = Measured(subsystem, benchmark, name.case, name.metric, cell.unit, cell.better, values=cell.values)
    measured.step, measured.label, measured.reason = cell.step, cell.label, cell.reason
    if cell.flagged and not cell.reason:
        measured.kind = Kind.FLAGGED
        flags = [f'{cell.shown(value)}, flagged {why}' for value, why in cell.flagged]
        measured.reason = '; '.join(flags)
    return measured


def _of_means(row: Row, study: Study, cells: Cells, kind: Origin) -> Row:
    """Return a row whose sides are the means that its ratio is of, with the one interval that a study has."""
    sides = {}
    for cell in cells:
        if cell.values:
            sides['candidate' if study.side_of(cell.point) == study.candidate else 'baseline'] = cell
    update: dict[str, Any] = {side: cell.mean for side, cell in sides.items()}
    if not study.candidate and row.low is not None:
        update |= _limits(estimate.mean_limits(cells[0]))
    if row.ratio is not None:
        update |= _interval(ratio(sides['candidate'], sides['baseline']), row, kind)
    return row.model_copy(update=update)


def ratio(above: StudyCell, below: StudyCell, name: str = '') -> Quantity:
    """Return the quotient of two cells."""
    return Quantity(name, [above, below], lambda level: level(above) / level(below))


def _limits(limits: tuple[float | None, float | None]) -> dict[str, float | None]:
    low, high = limits
    return {'low': low, 'high': high}


def _few(quantity: Quantity) -> bool:
    """Return whether one of its cells has too few runs for an interval."""
    return any(len(cell.values) < estimate.LEAST for cell in quantity.cells)


def _interval(quantity: Quantity, row: Row, kind: Origin) -> dict[str, Any]:
    """Return what a row says of the interval of its ratio: none where a figure is printed once."""
    if _few(quantity):
        few = 'printed once: no interval' if kind == 'published' else f'{estimate.LEAST} repeats are the least'
        reason = '; '.join(filter(None, (row.label, few)))
        return {**_limits((None, None)), 'notes': [], 'reason': reason, 'verdict': 'undecided'}
    interval = estimate.estimated(quantity)
    word = 'undecided'
    if not (row.label or interval.few):
        word = join.word(interval.low, interval.high, row.better, join.MARGIN)
    notes = [note for note in (interval.why, interval.few) if note]
    return {**_limits((interval.low, interval.high)), 'notes': notes, 'verdict': word}


def _is_ratio(cell: StudyCell) -> bool:
    return cell.label.startswith('ratio_only')


def tables(cells: Cells) -> FirstPoints:
    """Return the tables in print of which no figure stands by itself."""
    return {(cell.experiment, cell.metric): cell.point for cell in reversed(cells) if _is_ratio(cell)}


def first(cells: Cells, points: FirstPoints) -> dict[tuple[str, str], StudyCell]:
    """Return the first figure of each of these tables, by experiment and metric."""
    firsts = {}
    for cell in cells:
        table = cell.experiment, cell.metric
        if points.get(table) == cell.point:
            firsts[table] = cell
    return firsts


def _divided(rows: Sequence[Row], cells: Cells, points: FirstPoints) -> Iterator[Row]:
    """Yield the rows; one of a table has its ratio to the first figure, and in print nothing else."""
    firsts = first(cells, points)
    for row, cell in zip(rows, cells, strict=True):
        of_table = firsts.get((cell.experiment, cell.metric))
        if not of_table or not of_table.values or not cell.values:
            yield row
            continue
        quotient = cell.mean / of_table.mean
        update: dict[str, Any] = {'ratio': float(f'{quotient:.12g}'), **_limits((None, None))}
        divided = ratio(cell, of_table)
        if cell is not of_table and not _few(divided):
            interval = estimate.estimated(divided)
            update |= _limits((interval.low, interval.high))
        if _is_ratio(cell):
            update |= {'baseline': None, 'unit': ''}
        yield row.model_copy(update=update)


class Unlike(NamedTuple):
    """The reason why two cells have no quotient ('': they have), and the label of their quotient."""

    why: str
    label: str


def unlike(above: StudyCell, below: StudyCell) -> Unlike:
    sides = []
    for cell in (below, above):
        alone = Measured('', '', '', '', cell.unit, cell.better, values=cell.values)
        alone.step, alone.label = cell.step, cell.label
        sides.append(Side('', 'session', [alone]))
    row, = join.compare(*sides, label=True).rows
    why = row.reason if row.ratio is None else ''
    return Unlike(why, row.label)


def head(study: Study) -> Iterator[str]:
    yield f'published: {study.source}: {study.title}'
    if study.confounders and study.candidate:
        texts = [': '.join(entry.row) for entry in study.confounders]
        differ = '; '.join(texts)
        sides = 'clusters' if study.axes[study.contrast].kind == 'partition' else 'sides'
        yield (f'each ratio is of these two {sides} as a whole, and no measure of a single one of their '
               f'differences; what differs beside {study.candidate} and {study.baseline}: {differ}')
