"""A study as the terminal prints it: in a list, by itself, and compared with what was measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from parity.base.console import Line
from parity.base.figures import counted, duration
from parity.base.groups import grouped
from parity.base.text import brief, columns
from parity.study import campaign, compared, conditions, tables
from parity.study.campaign import Key, Status, Step
from parity.study.compared import Compared
from parity.study.conditions import Planned
from parity.study.published import figures
from parity.study.published.model import Study

_STYLES = {'holds': 'green', 'does not hold': 'bold red'}


def comparison(of: Compared) -> Iterator[Line]:
    """Yield the comparison with what was measured: findings, tables, fits, numbers, notes."""
    two, measured = of.study.candidate, of.measured.rows if of.measured else ()
    yield from ((of.title + (f' ({two} / {of.study.baseline})' if two else ''), 'bold'), compared.caption(of))
    yield from _findings(of)
    for key, table in tables.of_study(of).items():
        yield from ('', ('; '.join([key, *table.notes]), 'bold'))
        rows = [[name, *map(' | '.join, texts)] for name, _, texts in table.rows]
        yield from columns([['', *table.head], *rows], range(1, len(table.head) + 1))
    lost = Counter(row.reason for row in measured if (row.ratio if two else row.baseline) is None)
    yield from (f'  {count} not measured: {why}' for why, count in lost.items())
    for row in (*of.published.rows, *measured):
        yield from (f'  {row.benchmark}: {row.metric}: {note}' for note in row.notes)
    for heading, table in compared.tables(of):
        if table:
            yield from ('', (heading, 'bold'), *columns([[*row[:-1], brief(row[-1], 90)] for row in table]))
    if not of.ran:
        yield from ('', *(f'note: {note}' for note in of.published.notes))


def _findings(of: Compared) -> Iterator[Line]:
    """Yield how many findings have each word, and each finding with its figures."""
    labels = f' ({"; ".join(of.ran.labels)})' if of.ran and of.ran.labels else ''
    places = [('in print', False), *([(f'here{labels}', True)] if of.ran else [])]
    for where, here in places if of.analysis.findings else ():
        words = Counter(compared.judged(finding, here)[0] for finding in of.analysis.findings)
        yield f'  findings {where}: ' + ', '.join(f'{word} {count}' for word, count in words.items())
    for finding in of.analysis.findings:
        yield from ('', f'{finding.id}: {finding.sentence} ({finding.where})')
        for where, here in places:
            word, why = compared.judged(finding, here)
            yield f'  {where}: {word}: {why}', _STYLES.get(word.partition(' (')[0], '')


# ---- before anything is measured

def not_testable(planned: Sequence[Planned]) -> Iterator[Line]:
    """Yield which cases cannot be measured, and why."""
    for why, of in grouped((p for p in planned if p.reason), lambda p: p.reason).items():
        counts = Counter(p.case.experiment for p in of)
        yield f'  not testable here: {", ".join(f"{n} of {name}" for name, n in counts.items())}: {why}'


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
               f'{before}; about {duration(seconds)}{guess}')


def outcome(name: str, lost: Mapping[Key, Status], total: int, seconds: float, estimate: float) -> Iterator[Line]:
    """Yield what a campaign has measured. ``lost``: runs without a figure, with the reason."""
    runs = f'{total - len(lost)} of {counted(total, "run")} measured'
    yield from ('', (f'{runs} in {duration(seconds)} (about {duration(estimate)} expected)', 'bold'))
    yield from without_figure(lost)
    yield f'next: parity study compare {name} last'


def without_figure(outcomes: Mapping[Key, Status]) -> Iterator[Line]:
    """Yield how many runs of each experiment have no figure, and why."""
    for (experiment, of), count in Counter((key[2], of) for key, of in outcomes.items() if of.word).items():
        yield f'  {experiment}: {counted(count, "run")} without a figure: {of}'


def listed(name: str, study: Study, cases: dict[str, Sequence[Planned]]) -> Iterator[Line]:
    """Yield a study in brief: title, experiments, what cannot be tested and why, and the time that a system needs.

    ``cases``: of that system, by mode."""
    full = cases.get('full', ())
    able = {p.case.experiment for p in full if not p.reason}
    measured = {p.case.experiment for planned in cases.values() for p in planned if not p.guessed}
    can = f'{len(able)} can run, {len(measured)} measured here' if cases else '--system says how many can run'
    yield from ((f'{name}: {study.title}', 'bold'), f'  {counted(len(study.experiments), "experiment")}, {can}')
    yield from (f'  no figures in print: {how}' for how in [figures.to_make(study, name)] if how)
    lost = grouped((p for p in full if p.case.experiment not in able), lambda p: p.reason)
    for reason, of in lost.items():
        yield f'  not testable here: {", ".join(dict.fromkeys(p.case.experiment for p in of))}: {reason}'
    if cases and (printed := [key for key, experiment in study.experiments.items() if not experiment.check]):
        yield f'  in print only: {", ".join(printed)}'
    for mode, planned in cases.items():
        if ready := [p for p in planned if not p.reason]:
            steps = campaign.steps(study, [p.case for p in ready], mode == 'quick')
            guess = ' (a guess where nothing was measured yet)' if any(p.guessed for p in ready) else ''
            yield f'  {mode}: {counted(len(ready), "case")}, {duration(conditions.seconds(steps, ready))}{guess}'


def shown(name: str, study: Study, cells: Sequence[figures.StudyCell],
          planned: Sequence[Planned] | None) -> Iterator[Line]:
    """Yield a study: its question, each experiment in print and here, its findings, and what is dropped."""
    yield from ((f'{name}: {study.title}', 'bold'), study.source, study.what)
    yield from (f'no figures in print: {how}' for how in [figures.to_make(study, name)] if how)
    yield from ('', ('axes', 'bold'))
    yield from columns([[name, ' '.join(axis.values), axis.what, f'here: {axis.here}']
                        for name, axis in study.axes.items()])
    counts, rows = compared.experiments(study)
    yield from ('', (f'experiments: {counts}', 'bold'), *columns(rows))
    for key in study.experiments:
        yield from ('', (key, 'bold'))
        yield from _experiment(study, key, cells, [p for p in planned or () if p.case.experiment == key])
    quoted = sum(bool(finding.quote) for finding in study.findings)
    ours = counted(len(study.findings) - quoted, 'claim')
    yield from ('', (f'findings: {quoted} sentences of the document, {ours} of ours; left out with the reason: '
                     f'{len(study.dropped)}', 'bold'))
    yield from (f'  {f.id}: {f.sentence} ({f.where}): {f.kind} {f.text}, needs {f.needs}' for f in study.findings)
    for heading, entries in (('confounders', study.confounders), ('dropped', study.dropped)):
        if entries:
            yield from ('', (heading, 'bold'), *(f'  {entry.what}: {entry.why}' for entry in entries))


def _experiment(study: Study, key: str, cells: Sequence[figures.StudyCell],
                planned: Sequence[Planned]) -> Iterator[Line]:
    experiment = study.experiments[key]
    mine = [c for c in cells if c.experiment == key]
    runs = counted(sum(len(c.values) for c in mine), 'figure')
    yield f'  in print  {experiment.what} ({experiment.where}); {runs}'
    yield from (f'  flagged   {c.name}: {c.text or f"{value:.10g} {c.unit}".rstrip()}: {why}'
                for c in mine for value, why in c.flagged)
    settings = ' '.join(f'{k}={v}' for k, v in {**experiment.parameters, **experiment.set}.items())
    yield f'  here      {experiment.check or "nothing measures it"} {settings}'.rstrip()
    if quick := experiment.quick:
        changes = [*(f'{k}={v}' for k, v in quick.set.items()),
                   *(f'{k} {" ".join(v)}' for k, v in quick.axes.items())]
        yield '  quick     ' + '; '.join([*changes, f'{quick.repeats} repeats'])
    yield from (f'  differs   {text}' for text in experiment.differs)
    for reason, count in Counter(p.reason for p in planned).items():
        word = f'not testable here: {reason}' if reason else 'can run'
        yield f'  {count} of {counted(len(planned), "case")} {word}'
