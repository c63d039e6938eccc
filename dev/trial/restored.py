"""The results of a trial whose machine was lost: nights.csv and incidents.csv become stored sessions again.

A restored night has the figures that nights.csv keeps. It has no facts of nodes and no software, so it explains
no change. The product judges and records each night anew, in order. Incidents get the numbers that they had."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dev import clock
from dev.trial import rows
from dev.trial import site as trial
from dev.trial.rows import Row, Turn
from dev.trial.site import PAIRS, SINGLE, SYSTEM, Site
from parity.judge.store import database, plan_file, writing
from parity.judge.store.case_record import CaseRecord, MetricRecord
from parity.judge.store.incidents import Incident
from parity.judge.verdict import judge
from parity.measure.rfm import planning
from parity.nightly.notify import Notifier
from parity.site.plan import Plan, PlannedCase

#: Seconds from the begin of a night to that of its first and its second session, and to its reruns.
_BEGINS, _RERUN, _LASTS = (60.0, 600.0), 300.0, 60.0
_NO_FIGURE = 'nights.csv has no figure of this case'


@dataclass(frozen=True)
class Selected:
    """A session of each night: ReFrame's arguments, and their plan."""

    arguments: Sequence[str]
    plan: Plan


def rebuild(site: Site, count: int) -> None:
    """Make the results of the ``count`` nights that were lived from the CSV files, and keep them."""
    print(f'the results of {count} nights are lost: they are made from {rows.NIGHTS} and {rows.TURNS}', flush=True)
    both = []
    for selected in (PAIRS, SINGLE):
        arguments = trial.on_system(selected)
        both.append(Selected(arguments, kept(planning.of_command(arguments))))
    nights(both, rows.nights(site.folder), rows.turns(site.folder), count)
    for sentence in differences(site.incidents(), rows.turns(site.folder)):
        print(f'restored: {sentence}', flush=True)
    site.save()


def kept(plan: Plan) -> Plan:
    """Return a plan with the figures that nights.csv keeps: a night would lack the others."""
    cases = []
    for case in plan.cases:
        names = rows.FIGURES.get(case.check, ())
        metrics = [metric for metric in case.metrics if metric.name in names]
        cases.append(case.model_copy(update={'metrics': metrics}))
    return plan.model_copy(update={'cases': cases, 'checks': []})


def nights(both: Sequence[Selected], figures: Iterable[Row], turns: Sequence[Turn], count: int) -> None:
    """Store ``count`` nights by their rows, and judge and record each at its date."""
    by_day = defaultdict(list)
    for row in figures:
        by_day[row.night].append(row)
    notifier = Notifier(SYSTEM)
    for number in range(count):
        day = rows.day(number)
        _number_next(turn for turn in turns if turn.night == day)
        for session in night(both, by_day[day], trial.start(number)):
            with clock.at(trial.start(number + 1) - 1):
                notifier.recorded(judge.newest(session))
    _set_last(max((turn.number for turn in turns), default=0))


def store(selected: Selected, figures: Iterable[Row], start: float, rerun_of: str = '') -> str:
    """Store a session with the figures of a night's rows; return its uuid. ``rerun_of``: the session that it
    confirms. Of one that confirms none, a case without a figure has failed."""
    by_case = defaultdict(list)
    for row in figures:
        name, _, _ = row.series.rpartition('.')
        by_case[name, row.run].append(row)
    raw = []
    for case in selected.plan.cases:
        name = rows.short_name(case)
        runs = [by_case[key] for key in sorted(by_case) if key[0] == name]
        if not runs and not rerun_of:
            runs = [[]]
        raw += [_case(case, run, start) for run in runs]
    words = [*selected.arguments, *_extras(rerun_of)]
    report = writing.as_report({}, raw, start, start + _LASTS, cmdline=shlex.join(['reframe', *words]),
                               **plan_file.extras(words))
    report['parity_session'] = {'id': _short(report), 'plan': selected.plan.model_dump(mode='json'), 'facts': {},
                                'announcement': ''}
    return writing.store(report)


def _extras(rerun_of: str) -> list[str]:
    if rerun_of:
        return ['--session-extras', f'{plan_file.RERUN_OF}={rerun_of}']
    return plan_file.NIGHT


def _short(report: dict[str, Any]) -> str:
    """Return the id that parity gives a session, of its uuid."""
    return report['session_info']['uuid'].replace('-', '')[:12]


def _case(case: PlannedCase, run: list[Row], start: float) -> dict[str, Any]:
    """Return a case of ReFrame's report with the figures of a run; without figures it has failed."""
    record = CaseRecord(subsystem=case.subsystem, size=case.size, needs=case.needs)
    record.metrics = {metric.name: MetricRecord(metric.unit, metric.better) for metric in case.metrics}
    values = {}
    for row in run:
        metric = row.series.rpartition('.')[2]
        values[f'{case.system}:{case.partition}:{metric}'] = [row.value, 0, None, None, row.unit, 'pass']
        if row.disturbed:
            record.disturbed = 'as nights.csv says'
    ended = {'result': 'pass', 'fail_phase': None, 'fail_reason': None}
    if not run:
        record.refuse('failed', _NO_FIGURE)
        ended = {'result': 'fail', 'fail_phase': 'run', 'fail_reason': _NO_FIGURE}
    nodes = run[0].node.split() if run else []
    return {'name': case.case, 'display_name': case.case, 'unique_name': case.unique_name, 'system': case.system,
            'partition': case.partition, 'environ': case.environ, 'fixture': False, 'scheduler': 'slurm',
            'jobid': '', 'job_nodelist': nodes, 'job_submit_time': start,
            'job_completion_time_unix': start + _LASTS, 'outputdir': '', 'stagedir': '', 'env_vars': {},
            'perfvalues': values, 'parity': record.as_json(), **ended}


def night(both: Sequence[Selected], figures: Sequence[Row], start: float) -> list[str]:
    """Store the sessions of a night, with their reruns; return those that are judged."""
    sessions = []
    for selected, begin in zip(both, _BEGINS, strict=True):
        names = {rows.short_name(case) for case in selected.plan.cases}
        of_session = [row for row in figures if row.series.rpartition('.')[0] in names]
        own = [row for row in of_session if row.kind == 'run']
        again = [row for row in of_session if row.kind == 'rerun']
        session = store(selected, own, start + begin)
        if again:
            store(selected, again, start + begin + _RERUN, session)
        sessions.append(session)
    return sessions


def _number_next(turns: Iterable[Turn]) -> None:
    """Let the next new incident have the first number of these turns' new ones."""
    numbers = [turn.number for turn in turns if turn.event == 'new']
    if numbers:
        _set_last(min(numbers) - 1)


def _set_last(number: int) -> None:
    """Let the numbers of incidents go on after a number. SQLite never goes back behind one that is in use."""
    if not database.query("SELECT 1 FROM sqlite_master WHERE name = 'parity_incidents'"):
        return
    with database.writing() as conn:
        conn.execute("DELETE FROM sqlite_sequence WHERE name = 'parity_incidents'")
        conn.execute("INSERT INTO sqlite_sequence VALUES ('parity_incidents', ?)", (number,))


def differences(incidents: Iterable[Incident], turns: Iterable[Turn]) -> list[str]:
    """Return a sentence for each incident that began in another night than the turns have."""
    begun = {turn.number: turn for turn in turns if turn.event == 'new'}
    restored = {incident.number: incident for incident in incidents}
    sentences = []
    for number in sorted(begun.keys() | restored.keys()):
        if number not in restored:
            sentences.append(f'incident {number} ({begun[number].title}) is in incidents.csv alone')
        elif number not in begun:
            sentences.append(f'incident {number} ({restored[number].title}) is not in incidents.csv')
    return sentences
