"""A study as the terminal prints it: in a list, by itself, and compared with what was measured here."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from parity.base.console import Line
from parity.base.figures import counted, duration
from parity.base.groups import grouped
from parity.base.text import brief, columns
from parity.study import campaign, compared, conditions, tables
from parity.study.campaign import Outcomes, Step
from parity.study.compared import Compared
from parity.study.conditions import Plans
from parity.study.published import figures
from parity.study.published.figures import Cells
from parity.study.published.findings import Judged
from parity.study.published.model import Experiment, Study

_STYLES = {'holds': 'green', 'does not hold': 'bold red'}
Lines = Iterator[Line]


def comparison(result: Compared) -> Lines:
    """Yield the comparison with what was measured: findings, tables, fits, numbers, notes."""
    candidate, baseline = result.study.candidate, result.study.baseline
    sides = f' ({candidate} / {baseline})' if candidate else ''
    yield result.title + sides, 'bold'
    yield compared.caption(result)
    yield from _counts(result)
    for finding in result.analysis.findings:
        yield from _finding(result, finding)
    for key, table in tables.of_study(result).items():
        yield from _headed('; '.join([key, *table.notes]), table.lines())
    absent = [row.reason for row in result.rows_here if (row.ratio if candidate else row.baseline) is None]
    for why, count in Counter(absent).items():
        yield f'  {count} not measured: {why}'
    for row in [*result.published.rows, *result.rows_here]:
        for note in row.notes:
            yield f'  {row.benchmark}: {row.metric}: {note}'
    for heading, rows in compared.tables(result).items():
        yield from _headed(heading, columns([[*row[:-1], brief(row[-1], 90)] for row in rows]))
    if not result.ran:
        yield ''
        yield from (f'note: {note}' for note in result.published.notes)


def _headed(heading: str, lines: Sequence[Line]) -> Lines:
    """Yield lines below a heading; nothing for none."""
    if lines:
        yield ''
        yield heading, 'bold'
        yield from lines


def _places(result: Compared) -> dict[str, bool]:
    """Return where findings are judged, with the labels of what was measured; and whether that is here."""
    if not result.ran or not result.ran.labels:
        return result.places
    return {'in print': False, f'here ({"; ".join(result.ran.labels)})': True}


def _counts(result: Compared) -> Iterator[str]:
    """Yield how many findings have each word."""
    for place, here in _places(result).items():
        counts = [f'{word} {count}' for word, count in result.words(here).items()]
        if counts:
            yield f'  findings {place}: {", ".join(counts)}'


def _finding(result: Compared, finding: Judged) -> Lines:
    """Yield a finding with its figures."""
    yield ''
    yield f'{finding.id}: {finding.sentence} ({finding.where})'
    for place, here in _places(result).items():
        word, why = compared.judged(finding, here)
        unlabelled = word.partition(' (')[0]
        yield f'  {place}: {word}: {why}', _STYLES.get(unlabelled, '')


# ---- before anything is measured

def not_testable(planned: Plans) -> Lines:
    """Yield which cases cannot be measured, and why."""
    unable = [case for case in planned if case.reason]
    for why, cases in grouped(unable, lambda case: case.reason).items():
        counts = Counter(planned.case.experiment for planned in cases)
        texts = [f'{count} of {name}' for name, count in counts.items()]
        yield f'  not testable here: {", ".join(texts)}: {why}'


def announced(head: str, planned: Plans, steps: Sequence[Step], done: int,
              seconds: float) -> Lines:
    """Yield what a campaign is about to measure. ``done``: runs of cases that were measured before."""
    yield head, 'bold'
    yield from not_testable(planned)
    if not steps:
        return
    runs = list(itertools.chain.from_iterable(step.cases for step in steps))
    left = {id(case) for case in runs}
    guessed = sum(plan.guessed for plan in planned if id(plan.case) in left)
    guess = f' (a guess for {guessed} of {counted(len(left), "case")})' if guessed else ''
    before = f', {counted(done, "run", "were")} measured before' if done else ''
    yield (f'  {counted(len(runs), "run")} of {counted(len(left), "case")} in {counted(len(steps), "session")}'
           f'{before}; about {duration(seconds)}{guess}')


def outcome(name: str, outcomes: Outcomes, seconds: float, estimate: float) -> Lines:
    """Yield what a campaign has measured, of the runs that it asked for."""
    measured = sum(not status.word for status in outcomes.values())
    runs = counted(len(outcomes), 'run')
    yield ''
    yield f'{measured} of {runs} measured in {duration(seconds)} (about {duration(estimate)} expected)', 'bold'
    yield from without_figure(outcomes)
    yield f'next: parity study compare {name} last'


def without_figure(outcomes: Outcomes) -> Lines:
    """Yield how many runs of each experiment have no figure, and why."""
    lost = [(key.experiment, status) for key, status in outcomes.items() if status.word]
    counts = Counter(lost)
    for (experiment, status), count in counts.items():
        runs = counted(count, 'run')
        yield f'  {experiment}: {runs} without a figure: {status}'


def listed(name: str, study: Study, cases: Mapping[str, Plans]) -> Lines:
    """Yield a study in brief: title, experiments, what cannot be tested and why, and the time that a system needs.

    ``cases``: of that system, by mode."""
    full = cases.get('full', ())
    able = {plan.case.experiment for plan in conditions.testable(full)}
    every = itertools.chain.from_iterable(cases.values())
    measured = {plan.case.experiment for plan in every if not plan.guessed}
    can = f'{len(able)} can run, {len(measured)} measured here' if cases else '--system says how many can run'
    yield f'{name}: {study.title}', 'bold'
    yield f'  {counted(len(study.experiments), "experiment")}, {can}'
    to_make = figures.to_make(study, name)
    if to_make:
        yield f'  {to_make}'
    unable = [plan for plan in full if plan.case.experiment not in able]
    for reason, plans in grouped(unable, lambda plan: plan.reason).items():
        experiments = dict.fromkeys(plan.case.experiment for plan in plans)
        yield f'  not testable here: {", ".join(experiments)}: {reason}'
    printed = [key for key, experiment in study.experiments.items() if not experiment.check]
    if cases and printed:
        yield f'  in print only: {", ".join(printed)}'
    for mode, planned in cases.items():
        ready = conditions.testable(planned)
        if ready:
            steps = campaign.steps(study, [plan.case for plan in ready], mode == 'quick')
            guess = ' (a guess where nothing was measured yet)' if any(plan.guessed for plan in ready) else ''
            yield f'  {mode}: {counted(len(ready), "case")}, {duration(conditions.seconds(steps, ready))}{guess}'


# ---- a study by itself

def shown(name: str, study: Study, cells: Cells,
          planned: Plans | None) -> Lines:
    """Yield a study: its question, each experiment in print and here, its findings, and what is dropped."""
    yield f'{name}: {study.title}', 'bold'
    yield study.source
    yield study.what
    to_make = figures.to_make(study, name)
    if to_make:
        yield to_make
    axes = [[name, ' '.join(axis.values), axis.what, f'here: {axis.here}'] for name, axis in study.axes.items()]
    yield from _headed('axes', columns(axes))
    counts, rows = compared.experiments(study)
    yield ''
    yield f'experiments: {counts}', 'bold'
    yield from columns(rows)
    for key, experiment in study.experiments.items():
        yield ''
        yield key, 'bold'
        yield from _experiment(experiment, [cell for cell in cells if cell.experiment == key],
                               [plan for plan in planned or () if plan.case.experiment == key])
    quoted = sum(bool(finding.quote) for finding in study.findings)
    ours = counted(len(study.findings) - quoted, 'claim')
    yield ''
    yield (f'findings: {quoted} sentences of the document, {ours} of ours; left out with the reason: '
           f'{len(study.dropped)}'), 'bold'
    for finding in study.findings:
        yield (f'  {finding.id}: {finding.sentence} ({finding.where}): {finding.kind} {finding.text}, '
               f'needs {finding.needs}')
    for heading, entries in (('confounders', study.confounders), ('dropped', study.dropped)):
        yield from _headed(heading, [f'  {entry.what}: {entry.why}' for entry in entries])


def _experiment(experiment: Experiment, cells: Cells, planned: Plans) -> Lines:
    runs = counted(sum(len(cell.values) for cell in cells), 'figure')
    yield f'  in print  {experiment.what} ({experiment.where}); {runs}'
    for cell in cells:
        for value, why in cell.flagged:
            shown_value = cell.text or f'{value:.10g} {cell.unit}'.rstrip()
            yield f'  flagged   {cell.name}: {shown_value}: {why}'
    settings = ' '.join(f'{name}={value}' for name, value in {**experiment.parameters, **experiment.set}.items())
    yield f'  here      {experiment.check or "nothing measures it"} {settings}'.rstrip()
    if experiment.quick:
        yield '  quick     ' + '; '.join([*experiment.quick.changes, f'{experiment.quick.repeats} repeats'])
    yield from (f'  differs   {text}' for text in experiment.differs)
    for reason, count in Counter(plan.reason for plan in planned).items():
        word = f'not testable here: {reason}' if reason else 'can run'
        yield f'  {count} of {counted(len(planned), "case")} {word}'
