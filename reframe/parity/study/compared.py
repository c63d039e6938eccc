"""Compare a study's sides in print, and as its sessions measured them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from parity.study.published.figures import Cells, RowName, StudyCell, labelled, spelled
from parity.study.published.findings import Analysis, Judged
from parity.study.published.model import Study
from parity.study.published.statements import points

#: Ratios in print and here that differ by no more are like.
MARGIN = 0.05


@dataclass(frozen=True)
class Compared:
    """A study's figures in print, and those measured here where there are any."""

    name: str
    study: Study
    cells: list[StudyCell]
    published: Comparison
    analysis: Analysis
    ran: Campaign | None = None
    measured: Comparison | None = None

    @property
    def here(self) -> list[StudyCell]:
        """Return the cells that were measured."""
        return self.ran.cells if self.ran else []

    @property
    def quick(self) -> bool:
        return self.ran is not None and self.ran.quick

    @property
    def rows_here(self) -> list[Row]:
        return self.measured.rows if self.measured else []

    @property
    def places(self) -> dict[str, bool]:
        """Return where findings are judged: in print and, with a campaign, here."""
        return {'in print': False, 'here': True} if self.ran else {'in print': False}

    def as_json(self) -> dict[str, Any]:
        """Return the comparison in print with fits, numbers and findings; `here`: rows measured."""
        answer = self.published.model_dump(exclude={'answer', 'expectations'})
        answer |= self.analysis.model_dump()
        if self.ran and self.measured:
            here = {'sessions': self.ran.uuids, 'mode': self.ran.mode, 'system': self.ran.system}
            here['labels'] = self.ran.labels
            answer['here'] = here | self.measured.model_dump(include={'rows', 'means', 'differs'})
        return answer

    @property
    def title(self) -> str:
        """Return the study's name and what ran: `jungels2012, quick on onebox: User-mode Linux`."""
        return f'{self.name}, {self.what_ran}' if self.ran else f'{self.name}, as published'

    @property
    def what_ran(self) -> str:
        if not self.ran:
            return ''
        labels = '; '.join(self.ran.labels)
        place = f'{self.ran.mode} on {self.ran.system or NOTHING}'
        return f'{place}: {labels}' if labels else place

    def words(self, here: bool) -> Counter[str]:
        """Return how many findings have each word, in print or here."""
        return Counter(judged(finding, here).word for finding in self.analysis.findings)


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
    ran.cells = _with_figures(study, cells, ran.cells)
    of_here = published_rows.compared(study, ran.cells, 'session', sessions=ran.uuids, tables=tables)
    return Compared(name, study, cells, published, _analysed(study, name, cells, ran), ran, of_here)


def _with_figures(study: Study, printed: Cells, here: Cells) -> list[StudyCell]:
    """Return what was measured: what a check leaves out on all sides is no figure, unless print has it."""
    def row(cell: StudyCell) -> str:
        return figures.metric_name(cell.experiment, cell.metric, cell.without(study.contrast))

    rows = {row(cell) for cell in printed}
    rows.update(row(cell) for cell in here if cell.values)
    return [cell for cell in here if cell.status != 'skipped' or row(cell) in rows]


def _analysed(study: Study, name: str, cells: Cells, ran: Campaign | None = None) -> Analysis:
    """Judge the findings. UsageError with file and line for a formula without a value for the figures in print."""
    try:
        if not ran:
            return findings.analysed(study, cells)
        calm = [replace(cell, values=[]) if cell.disturbed else cell for cell in ran.cells]
        return findings.analysed(study, cells, calm, ran.quick, ran.one)
    except NoValue as err:
        refuse(name, [(err.keys, str(err))])
        raise


# ---- rows, in print and here

@dataclass(frozen=True)
class Pair:
    """A row in print and the same one here, and whether both are alike. One of both is there."""

    printed: Row | None
    here: Row | None
    like: str = ''

    @property
    def row(self) -> Row:
        """Return the row here, or that in print where there is none."""
        return self.here or self.printed

    @property
    def rows(self) -> list[Row]:
        return [row for row in (self.printed, self.here) if row]

    @property
    def intervals(self) -> int:
        """Return how many of both have an interval."""
        return len([row for row in self.rows if row.low])


def pairs(result: Compared) -> list[Pair]:
    """Return each row in print and here.

    Beside a cached figure in print stands a cached one only."""
    ours = grouped(result.rows_here, lambda row: (row.benchmark, row.metric.partition(' (')[0]))
    both = []
    for row in result.published.rows:
        for other in ours.pop((row.benchmark, row.metric), [None]):
            if other and other.n and _cached(row) and not _cached(other):
                both += [Pair(row, None), Pair(None, other)]
            else:
                both.append(Pair(row, other))
    for row in itertools.chain.from_iterable(ours.values()):
        if result.study.candidate or row.n:
            both.append(Pair(None, row))
    if not result.study.candidate:
        return both
    several = sum(pair.intervals == 2 for pair in both)
    return [replace(pair, like=join.like(pair.printed, pair.here, MARGIN, several)) for pair in both]


def _cached(row: Row) -> bool:
    return row.label.startswith('cached')


# ---- as text, for the terminal and the page

@dataclass(frozen=True)
class Texts:
    """A row of the comparison: its figures as texts. ``cells`` are of both, in print and here."""

    name: str
    cells: list[StudyCell]
    published: list[str]
    here: list[str]
    pair: Pair = Pair(None, None)
    reason: str = ''

    @property
    def like(self) -> str:
        return self.pair.like


def rows(result: Compared) -> Iterator[Texts]:
    """Yield the rows of a comparison."""
    cells = grouped([*result.cells, *result.here], lambda cell: labelled(result.study, cell))
    texts = _sides if result.study.candidate else _figure
    for pair in pairs(result):
        name = RowName(pair.row.benchmark, pair.row.metric)
        printed = _printed(result.study, cells[name])
        stated = printed[0] or printed[1]
        unit = stated.partition(' ')[2]
        mine = []
        for row in pair.rows:
            mine += cells[row.benchmark, row.metric]
        yield Texts(': '.join(name), mine, texts(pair.printed, unit, printed), texts(pair.here, unit), pair,
                    pair.row.reason)


def _printed(study: Study, cells: Cells) -> list[str]:
    """Return how baseline and candidate stand in print; '' of several runs."""
    texts = ['', '']
    for cell in cells:
        if cell.values and cell.text:
            texts[cell.point.get(study.contrast) == study.candidate] = cell.text
    return texts


def caption(result: Compared) -> str:
    """Return what the figures of the table are."""
    text = 'several runs: their geometric mean; printed once: as printed'
    to_make = figures.to_make(result.study, result.name)
    if to_make:
        text = f'{to_make}; {text}'
    several = sum(row.low is not None for row in [*result.published.rows, *result.rows_here])
    missing = round(several / 20)
    if several:
        text += '; [95 % interval], each by itself'
    if missing:
        text += f': of {several} about {missing} may miss'
    return text


def _sides(row: Row | None, unit: str, printed: Sequence[str] = ('', '')) -> list[str]:
    """Return baseline, candidate, and ratio with its interval."""
    if not row:
        return [NOTHING] * 3
    baseline = printed[0] or _text(row.baseline, row.unit, unit)
    candidate = printed[1] or _text(row.candidate, row.unit, unit)
    ratio = number(row.ratio)
    return [baseline, candidate, ratio + _interval(row) + _label(row)]


def _figure(row: Row | None, unit: str, printed: Sequence[str] = ('', '')) -> list[str]:
    """Return the figure of a study of one side, with its interval and what it can be used for."""
    if not row:
        return [NOTHING]
    figure = []
    if row.baseline is not None:
        figure.append(printed[0] or _text(row.baseline, row.unit, unit))
    if row.ratio is not None:
        figure.append(f'{number(row.ratio)} of the first')
    if not figure:
        return [row.reason if row.kind is Kind.FLAGGED else NOTHING]
    return [', '.join(figure) + _interval(row) + _label(row)]


def _text(value: float | None, unit: str, wanted: str) -> str:
    """Return a figure in the unit that print has beside it."""
    if value is None:
        return NOTHING
    factor = units.factor(unit, wanted) if wanted else None
    if factor:
        value, unit = value * factor, wanted
    text = f'{number(value)} {unit}'
    return text.strip()


def _label(row: Row) -> str:
    label = row.label.removeprefix('ratio_only').removeprefix(': ').partition(':')[0]
    return f' ({label})' if label else ''


def _interval(row: Row | NumberRow | FitRow) -> str:
    return '' if row.low is None else f' [{number(row.low)}, {number(row.high)}]'


def tables(result: Compared) -> dict[str, list[list[str]]]:
    """Return the fits and the numbers, each by its heading."""
    where = {'published': '', 'here': ' here'}
    fits, numbers = [], []
    for fit in result.analysis.fits:
        fits.append([fit.name + where[fit.of], law(fit), fit.reason])
    for row in result.analysis.numbers:
        value = f'{number(row.value)}{_interval(row)} {row.unit}'
        printed = f'in print {row.text}' if row.text else ''
        numbers.append([row.name + where[row.of], value.strip(), printed, row.note])
    return {'fits': fits, 'numbers': numbers}


def law(fit: FitRow) -> str:
    """Return a fitted law as text; along which axis it is, where there is none."""
    if fit.a is None:
        return f'by {fit.along}'
    a = number(fit.a) if fit.points else f'{fit.a:.10g}'
    text = f'{a} / {fit.along}' if fit.law == 'inverse' else f'{a} {fit.along}^{number(fit.b)}'
    r2 = '' if fit.r2 is None else f', R2 {fit.r2:.3f}'
    points = counted(fit.points, 'point')
    return f'{text}{_interval(fit)}{r2}, {points}'


class Judgement(NamedTuple):
    """A finding's word, and the figures that it rests on beside its bounds."""

    word: str
    why: str


def judged(finding: Judged, here: bool = False) -> Judgement:
    """Return the judgement of a finding, in print or here."""
    needs = f'needs {finding.needs}'
    if not here:
        return Judgement(finding.published, ', '.join(filter(None, (finding.why_published, needs))))
    word: str = finding.here
    if word in ('not testable', ''):
        word = 'not testable here'
    elif finding.one:
        word = f'{word} ({finding.one})'
    return Judgement(word, ', '.join(filter(None, (finding.why_here, needs))))


# ---- how much of print is here

class Extents(NamedTuple):
    """The printed experiments: a summary, and of each its name, its extent here and why."""

    summary: str
    rows: list[list[str]]


def experiments(study: Study, here: Cells | None = None) -> Extents:
    """Return which printed experiments study.yaml has whole, in part and not, with what each lacks.

    ``here``: the cells of a campaign; how many experiments have figures comes first."""
    extents, measured_here = [], 0
    for key, experiment in study.experiments.items():
        why = '; '.join(experiment.lacking) or experiment.here
        axes = {axis: study.stated(axis, values) for axis, values in experiment.printed_by.items()}
        for point in points(axes) if experiment.where != 'not printed' else ():
            extents.append([spelled(key, point), experiment.extent, why])
            measured_here += any(_is_of(cell, key, point) for cell in here or ())
    counts, total = Counter(extent for _, extent, _ in extents), len(extents)
    summary = f'{counts["whole"]} of {total} whole, {counts["in part"]} in part, {counts["missing"]} missing'
    if here is not None:
        summary = f'measured here {measured_here} of {total}; a system that has all can run {summary}'
    return Extents(summary, extents)


def _is_of(cell: StudyCell, experiment: str, point: Mapping[str, str]) -> bool:
    """Return whether a cell has figures of this printed experiment."""
    if cell.experiment != experiment or not cell.values:
        return False
    shared = cell.point.keys() & point.keys()
    return all(cell.point[axis] == point[axis] for axis in shared)
