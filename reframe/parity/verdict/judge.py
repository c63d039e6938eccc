"""The verdict on one session: every planned cell gets exactly one word."""

from __future__ import annotations

import datetime
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from parity import plan
from parity.base import errors, paths
from parity.base.errors import InfrastructureError, NothingMeasured
from parity.base.figures import duration
from parity.compare import expected
from parity.compare.model import Outcome
from parity.plan import Plan, PlannedCase
from parity.records import database, history, outset, runs
from parity.refs import lint
from parity.session import recovery
from parity.stats import bounds
from parity.stats.rules import DEFAULT, RATE, WHOLE_NIGHT
from parity.system import systems
from parity.verdict import absent, acks, coverage, join, longer
from parity.verdict import cells as cellmaker
from parity.verdict.attribution import cause
from parity.verdict.model import WORDS, Cell, Session, Verdict
from parity.verdict.names import names

#: Nights in a row after which a disturbed cell is no accident any more.
TOO_OFTEN = 3
#: Cases that are named because they left processes running, and characters that tell of those.
_SAID, _TOLD = 5, 200
JUDGED = {'ok', 'improved', 'regressed', 'impossible', 'wrong'}


def newest(session: str = '', system: str = '') -> Verdict:
    """The verdict on the newest stored session, or on the one whose uuid starts with ``session``.

    With ``system``: on the newest session of this system. Raises UsageError for a system that is not there,
    NothingMeasured for one without a session.
    """
    if system and (known := history.newest(systems.read(system).name)) is None:
        raise NothingMeasured(f'{paths.database()}: no session of {system} is stored; '
                              f'run: ci/nightly --system {system}')
    uuid = known.uuid if system else database.uuid(session)
    try:
        report = database.report(uuid)
    except ValueError as err:
        raise _unreadable(uuid, err) from None
    return judged(report, uuid)


def not_older(verdict: Verdict, seconds: float, stated: str) -> Verdict:
    """The verdict, with exit code 3 at least and a warning where the newest session of its system ended more
    than ``seconds`` ago; ``stated`` is how the user wrote them. An age below 0 is unknown: too old, too."""
    known = history.newest(verdict.session.system)
    age = time.time() - known.end if known else verdict.session.age
    if 0 <= age <= seconds:
        return verdict
    told = f'is {duration(age)} old: older than {stated}' if age > 0 else 'ends in the future: its age is unknown'
    said = f'the newest session of {verdict.session.system} {told}'
    code = verdict.exit_code or errors.MISSING
    return verdict.model_copy(update={'warnings': [said, *verdict.warnings], 'exit_code': code})


def judged(report: dict[str, Any], uuid: str = '') -> Verdict:
    """The verdict on a stored session; InfrastructureError where it is none that parity can read."""
    try:
        return of_report(report)
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        raise _unreadable(uuid or report.get('session_info', {}).get('uuid', ''), err) from err


def _unreadable(uuid: str, err: Exception) -> InfrastructureError:
    return InfrastructureError(f'{paths.database()}: session {uuid} is not one that parity can read '
                               f'({type(err).__name__}: {" ".join(str(err).split())[:120]})')


def of_report(report: dict[str, Any]) -> Verdict:
    """The verdict on a session as ReFrame reports it."""
    kept, uuid = outset.of_report(report), report['session_info']['uuid']
    planned = Plan(**kept['plan']) if kept else _reconstructed(report)
    system = systems.read(planned.system)
    waived, expired = systems.waived(system, datetime.date.today())
    found = runs.of_report(report)
    providers = set(planned.providers)
    demands = cellmaker.Demands(frozenset(systems.required(system, providers)), waived,
                                figures=_figures(planned, found))
    past = join.joined(_cells(planned, found, demands), planned.system, uuid)
    told = cause.told(past.cells, planned.system, uuid)
    cells, faults = acks.applied(told, planned.system, datetime.date.today())
    cover = coverage.of_cells(cells, planned, 'no check' if 'spack' in providers else 'no Spack')
    gone = absent.of_session(report, planned.model_dump(include={'cases'}), system)
    cells = [*cells, *gone.missing]
    counts = Counter(c.verdict for c in cells)
    pairs = expected.of_session(system, uuid, planned.cases)
    return Verdict(
        session=_session(report, planned, kept),
        coverage=cover,
        counts={w: counts[w] for w in reversed(WORDS) if counts[w]},
        trust=_trust(past),
        warnings=[*_warnings(report, kept), *_left_running(found), *expired, *gone.warnings,
                  *longer.warnings(system.name, uuid), *faults, *lint.expired(system.name)],
        next=_next(cells, planned.system, uuid, gone.missing),
        exit_code=errors.USAGE if planned.problems else exit_code(cells, pairs),
        cells=cells,
        retired=gone.retired,
        pairs=pairs,
    )


def exit_code(cells: list[Cell], pairs: Sequence[Outcome] = ()) -> int:
    """1 regressed, impossible or wrong; 4 infrastructure; 3 missing or nothing measured; 0 otherwise.

    What is acknowledged counts as nothing but measured.
    """
    words = {c.verdict for c in cells if not c.acknowledged} | {p.state for p in pairs if p.state == 'regressed'}
    if words & {'regressed', 'impossible', 'wrong'}:
        return errors.REGRESSED
    if 'failed' in words:
        return errors.INFRASTRUCTURE
    if 'missing' in words or too_often(cells) or not any(c.value is not None for c in cells):
        return errors.MISSING
    return errors.OK


def too_often(cells: list[Cell]) -> list[Cell]:
    """The cells that were disturbed in each of their last nights: nothing is known of them any more."""
    return [c for c in cells if c.disturbed_nights >= TOO_OFTEN]


def _reconstructed(report: dict[str, Any]) -> Plan:
    return plan.of_command(shlex.split(report['session_info']['cmdline'])[1:])


def _warnings(report: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    said = []
    if report['session_info'].get('interrupted'):
        said.append('this session was killed; what had finished was recovered from the perflogs')
    if not kept:
        said.append('this session kept no plan: it was reconstructed from its command line')
    said += [f'{p["file"]}: {p["what"]}' for p in kept.get('plan', {}).get('problems', [])]
    said += database.wrong_clocks(report['session_info'])
    newer = (of.get('newer_build') for of in kept.get('facts', {}).get('software', {}).values())
    said += [f'spack: {why}' for why in dict.fromkeys(newer) if why]
    return said + recovery.warnings()


def _left_running(found: dict[runs.Key, list[runs.Run]]) -> list[str]:
    """A line for each case that left processes running, which watch.py ended; the first ones only."""
    by_case: dict[str, set[str]] = {}
    for (case, partition, _), attempts in found.items():
        for left in (left for run in attempts for left in (run.record.get('watched') or {}).get('left') or ()):
            by_case.setdefault(f'{case} on {partition}', set()).add(f'{left["command"]} ({left["pid"]})')
    said = [f'{case} left processes running, which were ended: {", ".join(sorted(names))[:_TOLD]}'
            for case, names in by_case.items()]
    return said[:_SAID] + ([f'{len(said) - _SAID} more cases left processes running'] if len(said) > _SAID else [])


def _cells(planned: Plan, found: dict[runs.Key, list[runs.Run]], demands) -> list[Cell]:
    """One cell for each metric of each planned case; repeats of a case are one case."""
    cases: dict[runs.Key, PlannedCase] = {}
    for case in planned.cases:
        cases.setdefault((case.case, case.partition, case.environ), case)
    return [cell for key, case in cases.items()
            for cell in cellmaker.of_case(case, found.get(key, []), demands)]


def _figures(planned: Plan, found: dict[runs.Key, list[runs.Run]]) -> dict[tuple[str, str, str], float]:
    """The figures of first attempts by partition, check and metric."""
    checks = {case.case: case.check for case in planned.cases}
    return {(partition, checks.get(case, case), metric): value
            for (case, partition, _), attempts in found.items()
            for metric, value in attempts[0].values().items()
            if not attempts[0].status and not attempts[0].disturbed}


def _session(report: dict[str, Any], planned: Plan, kept: dict[str, Any]) -> Session:
    info = report['session_info']
    raws = [raw for run in report['runs'] for raw in run['testcases']]
    facts = dict(kept.get('facts', {}))
    records = [r['parity'] for r in raws if (r.get('parity') or {}).get('after')]
    if records:
        facts['before'], facts['after'] = records[0]['before'], records[-1]['after']
        from parity import machine
        facts['steal_share'] = machine.steal_share(facts['before'], facts['after'])
    ran, waited = runs.ran_and_waited(raws)
    return Session(
        uuid=info['uuid'], system=planned.system, start=_clock(info['time_start_unix']),
        end=_clock(info['time_end_unix']), elapsed=info['time_elapsed'],
        age=time.time() - info['time_end_unix'],
        run_time=ran, wait_time=waited,
        interrupted=bool(info.get('interrupted')), cmdline=info.get('cmdline', ''),
        reframe=info.get('version', ''), software=kept.get('announcement', ''), facts=facts)


def _clock(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix).astimezone().isoformat(timespec='seconds')


def _trust(past: join.Joined) -> str:
    """How many cells were judged, by what, and at which rate of false alarms."""
    bounded = [c.reference is not None and c.verdict in JUDGED for c in past.cells]
    judged = sum(has or c.history not in ('', 'insufficient') for has, c in zip(bounded, past.cells, strict=True))
    often = len(too_often(past.cells))
    said = f'{often} disturbed for {TOO_OFTEN} nights in a row or more; ' if often else ''
    said += f'{judged} of {len(past.cells)} judged'
    said += f': {sum(bounded)}' if judged > sum(bounded) > 0 else ''
    said += ' against accepted bounds' if any(bounded) else ': no reference has been accepted for these cells'
    if past.judged:
        said += (f'; {past.judged} against their last nights: at most {1000 * RATE:g} false alarm per 1000 '
                 f'cell-nights, {WHOLE_NIGHT:g} in all (docs/regression.md)')
    if past.short:
        said += f'; {past.short} histories too short for that ({DEFAULT.least + DEFAULT.last} nights)'
    return said


def _next(cells: list[Cell], system: str, uuid: str, gone: list[Cell]) -> str:
    bad = {name: c for name, c in names(cells).items() if c.verdict in acks.BAD and not c.acknowledged}
    if bad:
        worst = min(bad, key=lambda name: WORDS.index(bad[name].verdict))
        return f'parity show {shlex.quote(worst)}{_of(uuid)}'
    if any(c.verdict == 'missing' and not c.environ for c in cells):
        return 'ci/quickstart (installs what is missing)'
    if gone:
        return (f'bring {gone[0].check} back, or name it below retired: in systems/{system}/system.yaml '
                '(docs/nightly.md)')
    if any(c.verdict == 'missing' for c in cells):
        return 'ci/nightly (runs what never ran)'
    if any(c.verdict in ('unreferenced', 'ok') and c.reference is None for c in cells):
        return f'parity refs propose --system {system} (after {bounds.FEWEST} nights)'
    return 'parity verdict --all'


def _of(uuid: str) -> str:
    """What names a session that is not the newest one."""
    newest = database.newest()
    return f' --session {uuid[:8]}' if newest and newest != uuid else ''
