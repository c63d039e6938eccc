"""The verdict on one session: every planned cell gets exactly one word."""

from __future__ import annotations

import datetime
import shlex
import time
from collections import Counter
from collections.abc import Sequence

from parity import plan
from parity.base import errors, paths
from parity.base.errors import InfrastructureError, NothingMeasured
from parity.base.figures import duration
from parity.compare import pairs
from parity.compare.model import Outcome
from parity.plan import Plan, PlannedCase
from parity.records import database, kept, outset, record
from parity.records.record import Key, Run
from parity.records.record import Session as Record
from parity.refs import lint
from parity.session import recovery
from parity.stats import bounds
from parity.stats.noise import DEFAULT, RATE, WHOLE_NIGHT
from parity.system import systems
from parity.system.schema import System
from parity.verdict import absent, acks, coverage, join
from parity.verdict import cells as cellmaker
from parity.verdict.model import WORDS, Cell, Session, Verdict, names

#: Nights in a row after which a disturbed cell is no accident any more.
TOO_OFTEN = 3
#: Cases that are named because they left processes running, and characters that tell of those.
_SAID, _TOLD = 5, 200
JUDGED = {'ok', 'improved', 'regressed', 'impossible', 'wrong'}


def newest(session: str = '', system: str = '') -> Verdict:
    """The verdict on the newest stored session, or on the one whose uuid starts with ``session``.

    With ``system``: on the newest session of this system. Raises UsageError for a system that is not there,
    NothingMeasured for one without a session."""
    if system and (known := kept.newest(systems.read(system).name)) is None:
        raise NothingMeasured(f'{paths.database()}: no session of {system} is stored; '
                              f'run: ci/nightly --system {system}')
    uuid = known.uuid if system else database.uuid(session)
    return judged(kept.read(uuid))


def not_older(verdict: Verdict, seconds: float, stated: str) -> Verdict:
    """The verdict, with exit code 3 at least and a warning where the newest session of its system ended more
    than ``seconds`` ago; ``stated`` is how the user wrote them. An age below 0 is unknown: too old, too."""
    known = kept.newest(verdict.session.system)
    age = time.time() - known.end if known else verdict.session.age
    if 0 <= age <= seconds:
        return verdict
    told = f'is {duration(age)} old: older than {stated}' if age > 0 else 'ends in the future: its age is unknown'
    said = f'the newest session of {verdict.session.system} {told}'
    code = verdict.exit_code or errors.MISSING
    return verdict.model_copy(update={'warnings': [said, *verdict.warnings], 'exit_code': code})


def judged(session: Record) -> Verdict:
    """The verdict on a session; InfrastructureError where parity cannot read its plan."""
    try:
        return _judged(session)
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        raise kept.Unreadable(session.uuid, err) from err


def _judged(session: Record) -> Verdict:
    uuid, found = session.uuid, session.attempts
    if session.lost:
        raise InfrastructureError(f'{session.lost}; restore it, or judge another session (--session)')
    planned = Plan(**session.plan) if session.plan else plan.of_command(outset.words(session.cmdline))
    system = systems.read(planned.system)
    waived, expired = systems.waived(system, datetime.date.today())
    providers = set(planned.providers)
    demands = cellmaker.Demands(frozenset(systems.required(system, providers)), waived,
                                figures=_figures(planned, found))
    past = join.joined(_cells(planned, found, demands), planned.system, uuid)
    told = _with_causes(past.cells, planned.system, uuid)
    cells, faults = acks.applied(told, planned.system, datetime.date.today())
    cover = coverage.of_cells(cells, planned, 'no check' if 'spack' in providers else 'no Spack')
    gone = absent.of_session(session, session.plan or planned.model_dump(), system)
    cells = [*cells, *gone.missing]
    counts = Counter(c.verdict for c in cells)
    outcomes = _pairs(system, uuid, planned.cases)
    return Verdict(
        session=_session(session, planned),
        coverage=cover,
        counts={w: counts[w] for w in reversed(WORDS) if counts[w]},
        trust=_trust(past),
        warnings=[*_warnings(session), *_left_running(session), *expired, *gone.warnings,
                  *_longer(system.name, uuid), *faults, *lint.expired(system.name)],
        next=_next(cells, planned.system, uuid, gone.missing),
        exit_code=errors.USAGE if planned.problems else exit_code(cells, outcomes),
        cells=cells,
        retired=gone.retired,
        pairs=outcomes,
    )


# a first verdict loads no polars: that would double its time

def _with_causes(cells: list[Cell], system: str, uuid: str) -> list[Cell]:
    if not any(c.verdict == 'regressed' for c in cells):
        return cells
    from parity.verdict.attribution import cause
    return cause.told(cells, system, uuid)


def _pairs(system: System, uuid: str, planned: list[PlannedCase]) -> list[Outcome]:
    if not pairs.read(system):
        return []
    from parity.compare import expected
    return expected.of_session(system, uuid, planned)


def _longer(system: str, uuid: str) -> list[str]:
    if database.uuids() == [uuid]:
        return []
    from parity.verdict import absent
    return absent.warnings(system, uuid)


def exit_code(cells: list[Cell], pairs: Sequence[Outcome] = ()) -> int:
    """1 regressed, impossible or wrong; 4 infrastructure; 3 missing or nothing measured; 0 otherwise. What is
    acknowledged counts as nothing but measured."""
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


def _warnings(session: Record) -> list[str]:
    said = []
    if session.interrupted:
        said.append('this session was killed; what had finished was recovered from the perflogs')
    if not session.plan:
        said.append('this session kept no plan: it was reconstructed from its command line')
    said += [f'{p["file"]}: {p["what"]}' for p in session.plan.get('problems', [])]
    said += database.wrong_clocks(session)
    newer = (of.get('newer_build') for of in session.facts.get('software', {}).values())
    said += [f'spack: {why}' for why in dict.fromkeys(newer) if why]
    return said + recovery.warnings()


def _left_running(session: Record) -> list[str]:
    """A line for each case that left processes running, which watch.py ended; the first ones only."""
    by_case: dict[str, set[str]] = {}
    for run in session.runs:
        for left in run.watched.get('left') or ():
            by_case.setdefault(f'{run.case} on {run.partition}', set()).add(f'{left["command"]} ({left["pid"]})')
    said = [f'{case} left processes running, which were ended: {", ".join(sorted(names))[:_TOLD]}'
            for case, names in by_case.items()]
    return said[:_SAID] + ([f'{len(said) - _SAID} more cases left processes running'] if len(said) > _SAID else [])


def _cells(planned: Plan, found: dict[Key, list[Run]], demands) -> list[Cell]:
    """One cell for each metric of each planned case; repeats of a case are one case."""
    cases: dict[Key, PlannedCase] = {}
    for case in planned.cases:
        cases.setdefault((case.case, case.partition, case.environ), case)
    return [cell for key, case in cases.items()
            for cell in cellmaker.of_case(case, found.get(key, []), demands)]


def _figures(planned: Plan, found: dict[Key, list[Run]]) -> dict[tuple[str, str, str], float]:
    """The figures of first attempts by partition, check and metric."""
    checks = {case.case: case.check for case in planned.cases}
    return {(partition, checks.get(case, case), metric): value
            for (case, partition, _), attempts in found.items()
            for metric, value in attempts[0].values().items()
            if not attempts[0].status and not attempts[0].disturbed}


def _session(session: Record, planned: Plan) -> Session:
    facts = dict(session.facts)
    loads = [run.load for run in session.runs if run.load[1]]
    if loads:
        facts['before'], facts['after'] = loads[0][0], loads[-1][1]
        from parity import machine
        facts['steal_share'] = machine.steal_share(facts['before'], facts['after'])
    ran, waited = record.ran_and_waited(session.runs)
    return Session(
        uuid=session.uuid, system=planned.system, start=_clock(session.start), end=_clock(session.end),
        elapsed=session.elapsed, age=time.time() - session.end, run_time=ran, wait_time=waited,
        interrupted=session.interrupted, cmdline=session.cmdline, reframe=session.reframe,
        software=session.announcement, facts=facts)


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
