"""Compare a study's sides in print, and as its sessions measured them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from parity.base import units
from parity.base.figures import NOTHING, counted, number
from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.judge.compare import join
from parity.judge.compare.model import Comparison, Row
from parity.study import measured
from parity.study.measured import Campaign
from parity.study.published import figures, findings, refuse
from parity.study.published import rows as published_rows
from parity.study.published.derived import FitRow, NoValue, NumberRow
from parity.study.published.findings import Analysis, Judged
from parity.study.published.model import Study

#: Ratios in print and here that differ by no more are like.
MARGIN = 0.05


@dataclass(frozen=True)
class Compared:
    """A study's figures in print, and those measured here where there are any."""

    name: str
    study: Study
    cells: list[figures.StudyCell]
    published: Comparison
    analysis: Analysis
    ran: Campaign | None = None
    measured: Comparison | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison in print with fits, numbers and findings; `here`: rows measured."""
        found = {**self.published.model_dump(exclude={'answer', 'expectations'}), **self.analysis.model_dump()}
        if self.ran and self.measured:
            found['here'] = {'sessions': self.ran.uuids, 'mode': self.ran.mode, 'system': self.ran.system,
                             'labels': self.ran.labels,
                             **self.measured.model_dump(include={'rows', 'means', 'differs'})}
        return found

    @property
    def title(self) -> str:
        """Return the study's name and what ran: `jungels2012, quick on onebox: User-mode Linux`."""
        if not self.ran:
            return f'{self.name}, as published'
        what = '; '.join(self.ran.labels)
        return f'{self.name}, {self.ran.mode} on {self.ran.system or NOTHING}' + (f': {what}' if what else '')


def of_study(name: str, session: str = '') -> Compared:
    """Compare a study's sides in print and, with a session's uuid or `last`, as its campaign measured them."""
    from parity.study.published import read
    study = read(name)
    cells, notes = figures.published(study, name)
    tables = published_rows.tables(cells)
    ran = measured.of_session(study, name, session) if session else None
    if ran and ran.candidate:
        study = study.against(ran.candidate)
        cells = [replace(cell, point={study.contrast: study.baseline, **cell.point}) for cell in cells]
    published = published_rows.compared(study, cells, 'published', notes, tables=tables)
    if not ran:
        return Compared(name, study, cells, published, _analysed(study, name, cells))
    figures.in_units_of_print(cells, ran.cells)
    rows = {_row_of(study, cell) for cell in (*cells, *(cell for cell in ran.cells if cell.values))}
    ran.cells = [cell for cell in ran.cells         # what the check leaves out on all sides is no figure
                 if _row_of(study, cell) in rows or cell.status != 'skipped']
    of_here = published_rows.compared(study, ran.cells, 'session', sessions=ran.uuids, tables=tables)
    calm = [replace(cell, values=[]) if cell.label.startswith('disturbed') else cell
            for cell in ran.cells]
    analysis = _analysed(study, name, cells, calm, ran)
    return Compared(name, study, cells, published, analysis, ran, of_here)


def _analysed(study: Study, name: str, cells: Sequence[figures.StudyCell],
              here: Sequence[figures.StudyCell] | None = None, ran: Campaign | None = None) -> Analysis:
    """Judge the findings. UsageError with file and line for a formula without a value for the figures in print."""
    try:
        return findings.analysed(study, cells, here, bool(ran and ran.mode == 'quick'), ran.one if ran else '')
    except NoValue as err:
        refuse(name, [(err.keys, str(err))])
        raise


def _row_of(study: Study, cell: figures.StudyCell) -> str:
    return replace(cell, point={k: v for k, v in cell.point.items() if k != study.contrast}).name


def pairs(of: Compared) -> list[tuple[Row | None, Row | None, str]]:
    """Return each row in print and here, and whether both are alike.

    Beside a cached figure in print stands a cached one only."""
    ours = grouped(of.measured.rows if of.measured else (),
                   lambda row: (row.benchmark, row.metric.partition(' (')[0]))
    both: list[tuple[Row | None, Row | None]] = []
    for row in of.published.rows:
        for other in ours.pop((row.benchmark, row.metric), [None]):
            apart = other and row.label.startswith('cached') and other.n and not other.label.startswith('cached')
            both += [(row, None), (None, other)] if apart else [(row, other)]
    both += [(None, row) for rows in ours.values() for row in rows if of.study.candidate or row.n]
    several = sum(bool(one and other and one.low and other.low) for one, other in both)
    return [(one, other, join.like(one, other, MARGIN, several) if of.study.candidate else '')
            for one, other in both]


# ---- as text, for the terminal and the page

class Texts(NamedTuple):
    """A row of the comparison, ``both`` in print and here: its figures as texts. ``cells`` are of both."""

    name: str
    both: tuple[Row | None, Row | None]
    cells: list[figures.StudyCell]
    published: list[str]
    here: list[str]
    like: str
    reason: str


def rows(of: Compared) -> Iterator[Texts]:
    """Yield the rows of a comparison."""
    study, texts = of.study, _sides if of.study.candidate else _figure
    cells = grouped((*of.cells, *(of.ran.cells if of.ran else ())), lambda c: figures.labelled(
        study.experiments[c.experiment], c.experiment, c.metric, c.point, study))
    printed = {(*row, c.point.get(study.contrast) == study.candidate): c.text
               for row, mine in cells.items() for c in mine if c.values and c.text}
    for one, other, like in pairs(of):
        row = (other if of.ran else one) or other or one
        stated = [printed.get((row.benchmark, row.metric, side), '') for side in (False, True)]
        unit = ''.join(stated) and next(filter(None, stated)).partition(' ')[2]
        name = f'{(other or one).benchmark}: {(other or one).metric}'
        mine = [c for r in filter(None, (one, other)) for c in cells[r.benchmark, r.metric]]
        yield Texts(name, (one, other), mine, texts(one, unit, stated), texts(other, unit), like, row.reason)


def caption(of: Compared) -> str:
    """Return what the figures of the table are."""
    to_make = figures.to_make(of.study, of.name)
    several = sum(row.low is not None for of_one in (of.published, of.measured) if of_one for row in of_one.rows)
    misses = f': of {several} about {round(several / 20)} may miss' if round(several / 20) else ''
    return (f'no figures in print: {to_make}; ' if to_make else '') + \
        'several runs: their geometric mean; printed once: as printed' + (
            f'; [95 % interval], each by itself{misses}' if several else '')


def _sides(row: Row | None, unit: str, printed: Sequence[str] = ('', '')) -> list[str]:
    """Return baseline, candidate, and ratio with its interval."""
    if not row:
        return [NOTHING] * 3
    one, two = (text or _text(value, row.unit, unit)
                for value, text in zip((row.baseline, row.candidate), printed, strict=True))
    return [one, two, number(row.ratio) + _interval(row) + _label(row)]


def _figure(row: Row | None, unit: str, printed: Sequence[str] = ('', '')) -> list[str]:
    """Return the figure of a study of one side, with its interval and what it can be used for."""
    if not row or (row.baseline is None and row.ratio is None):
        return [row.reason if row and row.kind is Kind.FLAGGED else NOTHING]
    figure = [] if row.baseline is None else [printed[0] or _text(row.baseline, row.unit, unit)]
    figure += [] if row.ratio is None else [f'{number(row.ratio)} of the first']
    return [', '.join(figure) + _interval(row) + _label(row)]


def _text(value: float | None, unit: str, wanted: str) -> str:
    """Return a figure in the unit that print has beside it."""
    if value is None:
        return NOTHING
    factor = units.factor(unit, wanted) if wanted else None
    return f'{number(value * (factor or 1))} {wanted if factor else unit}'.strip()


def _label(row: Row) -> str:
    label = row.label.removeprefix('ratio_only').removeprefix(': ').partition(':')[0]
    return f' ({label})' if label else ''


def _interval(row: Row | NumberRow | FitRow) -> str:
    return '' if row.low is None else f' [{number(row.low)}, {number(row.high)}]'


def tables(of: Compared) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the fits and the numbers, each with its heading."""
    where = {'published': '', 'here': ' here'}
    yield 'fits', [[f'{fit.name}{where[fit.of]}', law(fit), fit.reason] for fit in of.analysis.fits]
    yield 'numbers', [[f'{n.name}{where[n.of]}', f'{number(n.value)}{_interval(n)} {n.unit}'.strip(),
                       n.text and f'in print {n.text}', n.note]
                      for n in of.analysis.numbers]


def law(fit: FitRow) -> str:
    """Return a fitted law as text; along which axis it is, where there is none."""
    if fit.a is None:
        return f'by {fit.along}'
    r2 = '' if fit.r2 is None else f', R2 {fit.r2:.3f}'
    text = f'{number(fit.a) if fit.points else format(fit.a, ".10g")} / {fit.along}' if fit.law == 'inverse' else \
        f'{number(fit.a)} {fit.along}^{number(fit.b)}'
    return f'{text}{_interval(fit)}{r2}, {counted(fit.points, "point")}'


def judged(finding: Judged, here: bool = False) -> tuple[str, str]:
    """Return a finding's word, in print or here, and the figures that it rests on beside its bounds."""
    word, why = (finding.here, finding.why_here) if here else (finding.published, finding.why_published)
    if here and word in ('not testable', ''):
        word = 'not testable here'
    elif here and finding.one:
        word = f'{word} ({finding.one})'
    return word, ', '.join(filter(None, (why, f'needs {finding.needs}')))


def experiments(study: Study, here: Sequence[figures.StudyCell] | None = None) -> tuple[str, list[list[str]]]:
    """Return how many printed experiments study.yaml has whole, in part and not, and a row for each, with what it
    lacks. ``here``: the cells of a campaign; how many experiments have figures comes first."""
    rows, measured_here = [], 0
    for key, of in study.experiments.items():
        each = [[f'%{axis}={value}' for value in (study.axes[axis].values if values == 'all' else values)]
                for axis, values in of.printed_by.items()]
        extent, lacks = of.extent
        for point in itertools.product(*each) if of.where != 'not printed' else ():
            rows.append([' '.join([key, *point]), extent, '; '.join(lacks) or of.here])
            measured_here += any(_is_of(cell, key, point) for cell in here or ())
    counts = Counter(extent for _, extent, _ in rows)
    before = ''
    if here is not None:
        before = f'measured here {measured_here} of {len(rows)}; a system that has all can run '
    return (f'{before}{counts["whole"]} of {len(rows)} whole, {counts["in part"]} in part, '
            f'{counts["missing"]} missing'), rows


def _is_of(cell: figures.StudyCell, experiment: str, point: Sequence[str]) -> bool:
    """Return whether a cell has figures of this printed experiment."""
    if cell.experiment != experiment or not cell.values:
        return False
    stated = dict(text.removeprefix('%').split('=', 1) for text in point)
    return all(cell.point.get(axis, value) == value for axis, value in stated.items())
