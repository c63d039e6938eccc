"""A study as the terminal prints it: in a list, by itself, and compared with what was measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from parity.base.figures import counted, duration
from parity.base.text import brief, columns, visible
from parity.study import campaign, compared, figures
from parity.study.campaign import Key, Status, Step
from parity.study.compared import Compared
from parity.study.conditions import Planned
from parity.study.model import Study

#: (text, style)
Line = tuple[str, str]
_STYLES = {'holds': 'green', 'does not hold': 'bold red'}


def comparison(of: Compared) -> Iterator[Line]:
    """Yield the comparison with what was measured: table, findings, fits, numbers, notes."""
    two = of.study.candidate
    yield of.title + (f' ({two} / {of.study.baseline})' if two else ''), 'bold'
    if not two or of.ran:
        head = ['', 'in print', '', 'ratio', 'here', '', 'ratio', ''] if two else \
            ['', 'in print', *(['here'] if of.ran else [])]
        rows = [[row.name, *row.published, *row.here, row.like] for row in compared.rows(of)]
        right = {1, 3, 4, 6} if two else {1, 2}
        yield from ((line, '') for line in columns([head, *(row[:len(head)] for row in rows)], right))
        lost = [row.reason for row in (of.measured.rows if of.measured else ())
                if (row.ratio if two else row.baseline) is None]
        for why, count in Counter(lost).items():
            yield f'  {count} not measured: {visible(why)}', ''
    yield from _analysis(of)
    if not two and not of.ran:
        yield from (('', ''), *((f'note: {visible(note)}', '') for note in of.published.notes))


def _analysis(of: Compared) -> Iterator[Line]:
    """Yield the findings, those that fail on their own figures first; then fits and numbers."""
    labels = f' ({"; ".join(of.ran.labels)})' if of.ran and of.ran.labels else ''
    for finding in of.analysis.findings:
        yield from (('', ''), (f'{finding.id}: "{finding.says}" ({finding.where})', ''))
        yield f'  in print: {finding.published}{_why(finding.why_published)}', _STYLES.get(finding.published, '')
        if of.ran:
            here = f'{compared.word_here(finding.here)}{_why(finding.why_here)}'
            yield f'  here{labels}: {here}', _STYLES.get(finding.here, '')
    for heading, rows in compared.tables(of):
        if rows:
            yield from (('', ''), (heading, 'bold'))
            yield from ((line, '') for line in columns([[*row[:-1], brief(row[-1], 90)] for row in rows]))


def _why(why: str) -> str:
    return f': {visible(why)}' if why else ''


# ---- before anything is measured

def not_testable(planned: Sequence[Planned]) -> Iterator[Line]:
    """Yield which cases cannot be measured, and why."""
    for why in dict.fromkeys(p.reason for p in planned if p.reason):
        counts = Counter(p.case.experiment for p in planned if p.reason == why)
        cases = ', '.join(f'{count} of {experiment}' for experiment, count in counts.items())
        yield f'  not testable here: {cases}: {visible(why)}', ''


def announced(head: str, planned: Sequence[Planned], steps: Sequence[Step], done: int,
              seconds: float) -> Iterator[Line]:
    """Yield what a campaign is about to measure. ``done``: runs of cases that were measured before."""
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


def outcome(name: str, lost: Mapping[Key, Status], total: int, seconds: float, estimate: float) -> Iterator[Line]:
    """Yield what a campaign has measured. ``lost``: runs without a figure, with the reason."""
    yield '', ''
    runs = f'{total - len(lost)} of {counted(total, "run")} measured'
    yield f'{runs} in {duration(seconds)} (about {duration(estimate)} said)', 'bold'
    yield from without_figure(lost)
    yield f'next: parity study compare {name} last', ''


def without_figure(outcomes: Mapping[Key, Status]) -> Iterator[Line]:
    """Yield how many runs of each experiment have no figure, and why."""
    for (experiment, of), count in Counter((key[2], of) for key, of in outcomes.items() if of.word).items():
        yield f'  {experiment}: {counted(count, "run")} without a figure: {visible(str(of))}', ''


def listed(name: str, study: Study, cases: dict[str, Sequence[Planned]]) -> Iterator[Line]:
    """Yield a study in brief: title, experiments, what cannot be tested and why, and the time that a system needs.

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
    if cases and (printed := [key for key, experiment in study.experiments.items() if not experiment.check]):
        yield f'  in print only: {", ".join(printed)}', ''
    for mode, planned in cases.items():
        ready = [p for p in planned if not p.reason]
        if ready:
            yield (f'  {mode}: {counted(len(ready), "case")}, {_time(study, ready, mode == "quick")}'
                   + (' (a guess where nothing was measured yet)' if any(p.guessed for p in ready) else '')), ''


def _time(study: Study, planned: Sequence[Planned], quick: bool) -> str:
    return duration(sum({(p.partition, study.side(p.case), p.case.runs):
                         p.seconds * campaign.repeats(study, p.case.experiment, quick) for p in planned}.values()))


def shown(name: str, study: Study, cells: Sequence[figures.Cell],
          planned: Sequence[Planned] | None) -> Iterator[Line]:
    """Yield a study: its question, each experiment in print and here, its findings, and what is dropped."""
    yield f'{name}: {study.title}', 'bold'
    yield from ((study.source, ''), (study.what, ''), ('', ''), ('axes', 'bold'))
    yield from ((line, '') for line in columns([
        [axis, ' '.join(of.values), of.what, f'here: {of.here}'] for axis, of in study.axes.items()]))
    for key in study.experiments:
        yield from (('', ''), (key, 'bold'))
        yield from _experiment(study, key, cells, [p for p in planned or () if p.case.experiment == key])
    yield from (('', ''), ('findings', 'bold'))
    yield from ((f'  {f.id}: "{f.says}" ({f.where}): {f.kind} {f.text}', '') for f in study.findings)
    for heading, entries in (('confounders', study.confounders), ('dropped', study.dropped)):
        if entries:
            yield from (('', ''), (heading, 'bold'))
            yield from ((f'  {each.what}: {each.why}', '') for each in entries)


def _experiment(study: Study, key: str, cells: Sequence[figures.Cell],
                planned: Sequence[Planned]) -> Iterator[Line]:
    experiment = study.experiments[key]
    mine = [c for c in cells if c.experiment == key]
    runs = counted(sum(len(c.values) for c in mine), 'figure')
    yield f'  in print  {experiment.what} ({experiment.where}); {runs}', ''
    yield from ((f'  flagged   {text}', '') for text in compared.flagged(mine))
    settings = ' '.join(f'{k}={v}' for k, v in {**experiment.parameters, **experiment.set}.items())
    yield f'  here      {experiment.check or "nothing measures it"} {settings}'.rstrip(), ''
    if quick := experiment.quick:
        changes = [*(f'{k}={v}' for k, v in quick.set.items()),
                   *(f'{k} {" ".join(v)}' for k, v in quick.axes.items())]
        yield '  quick     ' + '; '.join([*changes, f'{quick.repeats} repeats']), ''
    yield from ((f'  differs   {text}', '') for text in experiment.differs)
    for reason, count in Counter(p.reason for p in planned).items():
        word = f'not testable here: {reason}' if reason else 'can run'
        yield f'  {count} of {counted(len(planned), "case")} {word}', ''
