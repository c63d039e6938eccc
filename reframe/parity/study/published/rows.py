"""The rows of a study's tables: its sides compared, point by point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from parity.base.figures import number
from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.judge.compare import join
from parity.judge.compare.model import Comparison, Measured, Row, Side
from parity.study.published import estimate
from parity.study.published.estimate import Quantity
from parity.study.published.figures import StudyCell, labelled
from parity.study.published.model import Point, Study


def compared(study: Study, cells: Iterable[StudyCell], kind: Literal['published', 'session'],
             notes: Sequence[str] = (), sessions: Sequence[str] = (),
             tables: Mapping[tuple[str, str], Point] | None = None) -> Comparison:
    """Compare the candidate with the baseline, point by point; figures without sides have no row. A study of one
    side has a row for each figure, and ``tables`` are those in which it is divided by the first one."""
    sides: dict[str, list[Measured]] = {study.baseline: []} | ({study.candidate: []} if study.candidate else {})
    shown = []
    for cell in cells:
        side = cell.point.get(study.contrast) if study.candidate else study.baseline
        experiment = study.experiments[cell.experiment]
        if side in sides and experiment.compared and not (study.candidate and _is_ratio(cell)):
            shown.append(cell)
            case, metric = labelled(experiment, cell.experiment, cell.metric, cell.point, study)
            sides[side].append(Measured(
                experiment.subsystem, case.partition(' %')[0], case, metric, cell.unit, cell.better,
                step=cell.step, values=cell.values, label=cell.label,
                reason=cell.reason or '; '.join(
                    f'{cell.text or f"{number(value)} {cell.unit}".strip()}, flagged {why}'
                    for value, why in cell.flagged),
                kind=Kind.FLAGGED if cell.flagged and not cell.reason else Kind.NONE))
    both = [Side(side, kind, of, list(sessions)) for side, of in sides.items()]
    found = join.alone(*both) if not study.candidate else \
        join.compare(*both, label=study.axes[study.contrast].kind in ('value', 'environ'))     # unlike cases
    by_row = grouped(shown, lambda c: labelled(study.experiments[c.experiment], c.experiment, c.metric, c.point,
                                               study))
    rows = [_of_means(row, study, by_row[row.benchmark, row.metric], kind) for row in found.rows]
    if tables and not study.candidate:
        rows = list(_divided(rows, shown, tables))
    return found.model_copy(update={'rows': rows, 'means': [], 'notes': [*head(study), *notes, *study.repairs]})


def _of_means(row: Row, study: Study, cells: Sequence[StudyCell], kind: str) -> Row:
    """Return a row whose sides are the means that its ratio is of, with the one interval that a study has."""
    sides = {}
    for cell in cells:
        if cell.values:
            side = 'candidate' if study.candidate and cell.point[study.contrast] == study.candidate else 'baseline'
            sides[side] = cell
    update: dict[str, object] = {side: cell.mean for side, cell in sides.items()}
    if not study.candidate and row.low is not None:
        update['low'], update['high'] = estimate.mean_limits(cells[0])
    if row.ratio is not None:
        update |= _interval(ratio(sides['candidate'], sides['baseline']), row, kind)
    return row.model_copy(update=update)


def ratio(above: StudyCell, below: StudyCell, name: str = '') -> Quantity:
    """Return the quotient of two cells."""
    return Quantity(name, [above, below], lambda level: level(above) / level(below))


def _interval(quantity: Quantity, row: Row, kind: str) -> dict[str, object]:
    """Return what a row says of the interval of its ratio: none where a figure is printed once."""
    reasons = [row.label] if row.label else []
    if any(len(cell.values) < estimate.LEAST for cell in quantity.cells):
        few = 'printed once: no interval' if kind == 'published' else f'{estimate.LEAST} repeats are the least'
        reason = '; '.join([*reasons, few])
        return {'low': None, 'high': None, 'notes': [], 'reason': reason, 'verdict': 'undecided'}
    found = estimate.estimated(quantity)
    word = 'undecided' if row.label or found.few else join.word(found.low, found.high, row.better, join.MARGIN)
    notes = [note for note in (found.why, found.few) if note]
    return {'low': found.low, 'high': found.high, 'notes': notes, 'verdict': word}


def _is_ratio(cell: StudyCell) -> bool:
    return cell.label.startswith('ratio_only')


def tables(cells: Sequence[StudyCell]) -> dict[tuple[str, str], Point]:
    """Return the tables in print of which no figure stands by itself: experiment and metric, and the point of the
    first figure."""
    return {(cell.experiment, cell.metric): cell.point for cell in reversed(cells) if _is_ratio(cell)}


def _divided(rows: Sequence[Row], cells: Sequence[StudyCell],
             tables: Mapping[tuple[str, str], Point]) -> Iterator[Row]:
    """Yield the rows; one of a table has its ratio to the first figure, and in print nothing else."""
    firsts = {(c.experiment, c.metric): c for c in cells if tables.get((c.experiment, c.metric)) == c.point}
    for row, cell in zip(rows, cells, strict=True):
        first = firsts.get((cell.experiment, cell.metric))
        if not first or not first.values or not cell.values:
            yield row
            continue
        divided = ratio(cell, first)
        limits: tuple[float | None, float | None] = (None, None)
        if cell is not first and min(len(of.values) for of in divided.cells) >= estimate.LEAST:
            found = estimate.estimated(divided)
            limits = found.low, found.high
        absolute = {'baseline': None, 'unit': ''} if _is_ratio(cell) else {}
        quotient = float(f'{cell.mean / first.mean:.12g}')
        yield row.model_copy(update={**absolute, 'ratio': quotient, 'low': limits[0], 'high': limits[1]})


def unlike(above: StudyCell, below: StudyCell) -> tuple[str, str]:
    """Return why two cells have no quotient ('': they have), and the label of their quotient."""
    sides = [Side('', 'session', [Measured('', '', '', '', c.unit, c.better, values=c.values, step=c.step,
                                           label=c.label)])
             for c in (below, above)]
    row = join.compare(*sides, label=True).rows[0]
    return (row.reason if row.ratio is None else ''), row.label


def head(study: Study) -> Iterator[str]:
    yield f'published: {study.source}: {study.title}'
    if study.confounders and study.candidate:
        differ = '; '.join(f'{c.what}: {c.why}' for c in study.confounders)
        sides = 'clusters' if study.axes[study.contrast].kind == 'partition' else 'sides'
        yield (f'each ratio is of these two {sides} as a whole, and no measure of a single one of their '
               f'differences; what differs beside {study.candidate} and {study.baseline}: {differ}')
