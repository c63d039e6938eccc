"""A study as a person reads it: in a list, by itself, and compared with what was measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parity.base.figures import NOTHING, counted, duration, number
from parity.base.text import brief, columns, visible
from parity.compare.model import Comparison, Row
from parity.study import figures, findings, measured
from parity.study.campaign import Key, Step
from parity.study.conditions import Planned
from parity.study.findings import Analysis
from parity.study.measured import Campaign
from parity.study.model import Study

#: (text, style)
Line = tuple[str, str]
_STYLES = {'holds': 'green', 'does not hold': 'bold red'}


@dataclass(frozen=True)
class Compared:
    """A study's figures in print, and those measured here where there are any."""

    name: str
    study: Study
    cells: list[figures.Cell]
    published: Comparison
    analysis: Analysis
    ran: Campaign | None = None
    measured: Comparison | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison in print with fits, numbers, clusters and findings; `here`: rows measured."""
        found = {**self.published.model_dump(), **self.analysis.model_dump()}
        if self.ran and self.measured:
            found['here'] = {'sessions': self.ran.uuids, 'mode': self.ran.mode, 'system': self.ran.system,
                             'labels': self.ran.labels,
                             **self.measured.model_dump(include={'rows', 'means', 'differs'})}
        return found


def compared(name: str, session: str = '') -> Compared:
    """Compare a study's sides in print and, with a session's uuid or `last`, as its campaign measured them."""
    from parity.study import read
    study = read(name)
    cells, notes = figures.published(study, name)
    tables = figures.tables(cells)
    ran = measured.of_session(study, name, session) if session else None
    if ran and ran.candidate:
        study = study.against(ran.candidate)
        cells = [replace(cell, point={study.contrast: study.baseline, **cell.point}) for cell in cells]
    published = figures.compared(study, cells, 'published', notes, tables=tables)
    if not ran:
        return Compared(name, study, cells, published, findings.analysed(study, cells, published))
    known = {_row_of(study, cell) for cell in (*cells, *(each for each in ran.cells if each.values))}
    ran.cells = [cell for cell in ran.cells         # what the check leaves out on all sides is no figure
                 if _row_of(study, cell) in known or not cell.reason.startswith('skipped: ')]
    of_here = figures.compared(study, ran.cells, 'session', sessions=ran.uuids, tables=tables)
    analysis = findings.analysed(study, cells, published, ran.cells, of_here, ran.left_out)
    return Compared(name, study, cells, published, analysis, ran, of_here)


def _row_of(study: Study, cell: figures.Cell) -> str:
    return replace(cell, point={k: v for k, v in cell.point.items() if k != study.contrast}).name


def title(of: Compared) -> str:
    """Return the study's name and what ran: `jungels2012, quick on onebox: User-mode Linux`."""
    if not of.ran:
        return f'{of.name}, as published'
    what = '; '.join(of.ran.labels)
    return f'{of.name}, {of.ran.mode} on {of.ran.system or NOTHING}' + (f': {what}' if what else '')


def pairs(of: Compared) -> list[tuple[Row | None, Row | None, str]]:
    """Return each row in print and here, and whether both are like: whether the intervals of their ratios meet.
    Beside a cached figure in print stands a cached one only."""
    ours: dict[tuple[str, str], list[Row]] = {}
    for row in of.measured.rows if of.measured else ():
        ours.setdefault((row.benchmark, row.metric.partition(' (')[0]), []).append(row)
    both: list[tuple[Row | None, Row | None]] = []
    for row in of.published.rows:
        for other in ours.pop((row.benchmark, row.metric), [None]):
            apart = other and row.label.startswith('cached') and other.n and not other.label.startswith('cached')
            both += [(row, None), (None, other)] if apart else [(row, other)]
    both += [(None, row) for rows in ours.values() for row in rows if of.study.candidate or row.n]
    return [(one, other, _like(one, other) if of.study.candidate else '') for one, other in both]


def _like(one: Row | None, other: Row | None) -> str:
    if not one or not other or one.low is None or one.high is None or other.low is None or other.high is None:
        return ''
    return 'like' if one.low <= other.high and other.low <= one.high else 'unlike'


def sides(row: Row | None) -> list[str]:
    """Return baseline, candidate, and ratio with its interval, as text."""
    if not row:
        return [NOTHING] * 3
    limits = f' [{number(row.low)}, {number(row.high)}]' if row.low is not None else ''
    unit = row.unit if row.candidate is not None else ''
    return [number(row.baseline), f'{number(row.candidate)} {unit}'.strip(), number(row.ratio) + limits]


def alone(row: Row | None) -> list[str]:
    """Return the figure of a study of one side, with its interval and what it can be used for."""
    if not row or (row.baseline is None and row.ratio is None):
        return [row.reason if row and ', flagged ' in row.reason else NOTHING]
    limits = f' [{number(row.low)}, {number(row.high)}]' if row.low is not None else ''
    figure = [] if row.baseline is None else [f'{number(row.baseline)} {row.unit}'.strip()]
    figure += [] if row.ratio is None else [f'{number(row.ratio)} of the first']
    label = row.label.removeprefix('ratio_only').removeprefix(': ').partition(':')[0]
    return [', '.join(figure) + limits + (f' ({label})' if label else '')]


def lines(of: Compared) -> Iterator[Line]:
    """Say the comparison with what was measured: table, findings, fits, numbers, what differs, what is dropped."""
    two = of.study.candidate
    yield title(of) + (f' ({two} / {of.study.baseline})' if two else ''), 'bold'
    if not two or of.ran:
        alone_ = ['', 'in print', *(['here'] if of.ran else [])]
        head = ['', 'in print', '', 'ratio', 'here', '', 'ratio', ''] if two else alone_
        said = sides if two else alone
        rows = [[f'{(other or one).benchmark}: {(other or one).metric}', *said(one), *said(other), like]
                for one, other, like in pairs(of) if one or other]
        right = {1, 3, 4, 6} if two else {1, 2}
        yield from ((line, '') for line in columns([head, *(r[:len(head)] for r in rows)], right))
        lost = [row.reason for row in (of.measured.rows if of.measured else ())
                if (row.ratio if two else row.baseline) is None]
        for why, count in Counter(lost).items():
            yield f'  {count} not measured: {visible(why)}', ''
    yield from analysed(of)
    if not two and not of.ran:
        yield from (('', ''), *((f'note: {visible(note)}', '') for note in of.published.notes))


def analysed(of: Compared) -> Iterator[Line]:
    """Say the findings, those that fail on their own figures first; then fits, numbers and groups."""
    labels = f' ({"; ".join(of.ran.labels)})' if of.ran and of.ran.labels else ''
    for finding in of.analysis.findings:
        yield from (('', ''), (f'{finding.id}: "{finding.says}" ({finding.where})', ''))
        yield f'  in print: {finding.published}{_why(finding.why_published)}', _STYLES.get(finding.published, '')
        if of.ran:
            said = f'{word_here(finding.here)}{_why(finding.why_here)}'
            yield f'  here{labels}: {said}', _STYLES.get(finding.here, '')
    of_here = {'published': '', 'here': ' here'}
    if of.analysis.fits:
        yield from (('', ''), ('fits', 'bold'))
        yield from ((line, '') for line in columns([
            [f'{f.name}{of_here[f.of]}', law(f), f.reason] for f in of.analysis.fits]))
    if of.analysis.numbers:
        yield from (('', ''), ('numbers', 'bold'))
        yield from ((line, '') for line in columns([
            [f'{n.name}{of_here[n.of]}', f'{number(n.value)}{within(n)} {n.unit}'.strip(),
             '' if n.published is None else f'in print {number(n.published)}', brief(n.note, 90)]
            for n in of.analysis.numbers]))
    if of.analysis.clusters:
        yield from (('', ''), ('groups', 'bold'))
        yield from ((line, '') for line in columns([
            [f'{c.name}{of_here[c.of]}', str(c.size), ', '.join(f'{k} {number(v)}' for k, v in c.centroid.items())]
            for c in of.analysis.clusters]))


def within(of: findings.NumberRow) -> str:
    """Return the interval of a number as text; '' where it has none."""
    return '' if of.low is None else f' [{number(of.low)}, {number(of.high)}]'


def _why(why: str) -> str:
    return f': {visible(why)}' if why else ''


def word_here(word: str) -> str:
    """Return a finding's word, as it is of what was measured here."""
    return 'not testable here' if word in ('not testable', '') else word


def law(fit: findings.FitRow) -> str:
    """Return a fitted law as text; along which axis it is, where there is none."""
    if fit.a is None:
        return f'by {fit.along}'
    limits = '' if fit.low is None else f' [{number(fit.low)}, {number(fit.high)}]'
    r2 = '' if fit.r2 is None else f', R2 {fit.r2:.3f}'
    text = f'{number(fit.a)} / {fit.along}{limits}' if fit.law == 'inverse' else \
        f'{number(fit.a)} {fit.along}^{number(fit.b)}{limits}'
    return f'{text}{r2}, {counted(fit.points, "point")}'


def flagged(cells: Sequence[figures.Cell]) -> list[str]:
    """Return the figures in print that are shown and used for nothing."""
    return [f'{c.name}: {number(value)} {c.unit}: {why}' for c in cells for value, why in c.flagged]


# ---- before anything is measured

def not_testable(planned: Sequence[Planned]) -> Iterator[Line]:
    """Say which cases cannot be measured, and why."""
    for why in dict.fromkeys(p.reason for p in planned if p.reason):
        counts = Counter(p.case.experiment for p in planned if p.reason == why)
        said = ', '.join(f'{count} of {experiment}' for experiment, count in counts.items())
        yield f'  not testable here: {said}: {visible(why)}', ''


def ahead(head: str, planned: Sequence[Planned], steps: Sequence[Step], done: int,
          seconds: float) -> Iterator[Line]:
    """Say what a campaign is about to measure. ``done``: runs of cases that were measured before."""
    yield head, 'bold'
    yield from not_testable(planned)
    if steps:
        left = {id(case) for step in steps for case in step.cases}
        new = sum(p.guessed for p in planned if id(p.case) in left)
        guess = f' (a guess for {new} of {counted(len(left), "case")})' if new else ''
        before = f', {counted(done, "run", "were")} measured before' if done else ''
        runs = counted(sum(len(step.cases) for step in steps), 'run')
        yield (f'  {runs} of {counted(len(left), "case")} in {counted(len(steps), "session")}'
               f'{before}; about {duration(seconds)}{guess}'), ''


def behind(name: str, lost: Mapping[Key, str], total: int, seconds: float, said: float) -> Iterator[Line]:
    """Say what a campaign has measured. ``lost``: runs without a figure, with the reason."""
    yield '', ''
    measured = f'{total - len(lost)} of {counted(total, "run")} measured'
    yield f'{measured} in {duration(seconds)} (about {duration(said)} said)', 'bold'
    yield from without_figure(lost)
    yield f'next: parity study compare {name} last', ''


def without_figure(outcomes: Mapping[Key, str]) -> Iterator[Line]:
    """Say how many runs of each experiment have no figure, and why."""
    for (experiment, why), count in Counter((key[2], why) for key, why in outcomes.items() if why).items():
        yield f'  {experiment}: {counted(count, "run")} without a figure: {visible(why)}', ''


def listed(name: str, study: Study, cases: dict[str, Sequence[Planned]]) -> Iterator[Line]:
    """Say a study: title, experiments, what cannot be tested and why, and the time that a system needs.

    ``cases``: of that system, by mode."""
    yield f'{name}: {study.title}', 'bold'
    full = cases.get('full', ())
    able = {p.case.experiment for p in full if not p.reason}
    measured = {p.case.experiment for planned in cases.values() for p in planned if not p.guessed}
    can = f'{len(able)} can run, {len(measured)} measured here' if cases else '--system says how many can run'
    yield f'  {counted(len(study.experiments), "experiment")}, {can}', ''
    lost: dict[str, list[str]] = {}
    for planned in full:
        if planned.case.experiment not in able:
            lost.setdefault(planned.reason, []).append(planned.case.experiment)
    for reason, names in lost.items():
        yield f'  not testable here: {", ".join(dict.fromkeys(names))}: {visible(reason)}', ''
    if cases and (printed := [key for key, each in study.experiments.items() if not each.check]):
        yield f'  in print only: {", ".join(printed)}', ''
    for mode, planned in cases.items():
        ready = [p for p in planned if not p.reason]
        if ready:
            yield (f'  {mode}: {counted(len(ready), "case")}, {_time(study, ready, mode == "quick")}'
                   + (' (a guess where nothing was measured yet)' if any(p.guessed for p in ready) else '')), ''


def _time(study: Study, planned: Sequence[Planned], quick: bool) -> str:
    def repeats(experiment: str) -> int:
        asked = study.experiments[experiment]
        return asked.quick.repeats if quick and asked.quick else asked.repeats
    return duration(sum({(p.partition, study.side(p.case), p.case.runs): p.seconds * repeats(p.case.experiment)
                         for p in planned}.values()))


def shown(name: str, study: Study, cells: Sequence[figures.Cell],
          planned: Sequence[Planned] | None) -> Iterator[Line]:
    """Say a study: its question, each experiment in print and here, its findings, and what is dropped."""
    yield f'{name}: {study.title}', 'bold'
    yield from ((study.source, ''), (study.what, ''), ('', ''), ('axes', 'bold'))
    yield from ((line, '') for line in columns([
        [axis, ' '.join(of.values), of.what, f'here: {of.here}'] for axis, of in study.axes.items()]))
    for key, experiment in study.experiments.items():
        yield from (('', ''), (key, 'bold'))
        runs = sum(len(c.values) for c in cells if c.experiment == key)
        yield f'  in print  {experiment.what} ({experiment.where}); {counted(runs, "figure")}', ''
        yield from ((f'  flagged   {each}', '') for each in flagged(cells) if each.startswith(f'{key}.'))
        settings = ' '.join(f'{k}={v}' for k, v in {**experiment.parameters, **experiment.set}.items())
        yield f'  here      {experiment.check or "nothing measures it"} {settings}'.rstrip(), ''
        if experiment.quick:
            quick = experiment.quick
            said = [*(f'{k}={v}' for k, v in quick.set.items()),
                    *(f'{k} {" ".join(v)}' for k, v in quick.axes.items())]
            yield '  quick     ' + '; '.join([*said, f'{quick.repeats} repeats']), ''
        yield from ((f'  differs   {each}', '') for each in experiment.differs)
        mine = [p for p in planned or () if p.case.experiment == key]
        for reason, count in Counter(p.reason for p in mine).items():
            word = f'not testable here: {reason}' if reason else 'can run'
            yield f'  {count} of {counted(len(mine), "case")} {word}', ''
    yield from (('', ''), ('findings', 'bold'))
    yield from ((f'  {f.id}: "{f.says}" ({f.where}): {f.kind} {f.text}', '') for f in study.findings)
    for heading, entries in (('confounders', study.confounders), ('dropped', study.dropped)):
        if entries:
            yield from (('', ''), (heading, 'bold'))
            yield from ((f'  {each.what}: {each.why}', '') for each in entries)
