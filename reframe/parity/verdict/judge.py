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
from parity.system.systems import System
from parity.verdict import absent, acks, coverage
from parity.verdict import cells as cellmaker
from parity.verdict.model import WORDS, Cell, Session, Verdict, names

#: Nights in a row after which a disturbed cell is no accident any more.
TOO_OFTEN = 3
#: Cases that are named because they left processes running, and characters of each line.
_CASES, _CHARACTERS = 5, 200
JUDGED = {'ok', 'improved', 'regressed', 'impossible', 'wrong'}


def newest(session: str = '', system: str = '') -> Verdict:
    """Return the verdict on the newest session, of ``system`` where it is given, or on the one named.

    ``session``: the beginning of a uuid. Raises UsageError for an unknown system, NothingMeasured for one
    without a session."""
    if system and (known := kept.newest(systems.read(system).name)) is None:
        raise NothingMeasured(f'{paths.database()}: no session of {system} is stored; '
                              f'run: ci/nightly --system {system}')
    return judged(kept.read(known.uuid if system else database.uuid(session)))


def not_older(verdict: Verdict, seconds: float, stated: str) -> Verdict:
    """Return the verdict, with a warning and exit code 3 at least where its system's newest session is too old.

    ``stated``: the limit as the user wrote it. An age below 0 is unknown, and too old, too."""
    known = kept.newest(verdict.session.system)
    age = time.time() - known.end if known else verdict.session.age
    if 0 <= age <= seconds:
        return verdict
    told = f'is {duration(age)} old: older than {stated}' if age > 0 else 'ends in the future: its age is unknown'
    said = f'the newest session of {verdict.session.system} {told}'
    return verdict.model_copy(update={'warnings': [said, *verdict.warnings],
                                      'exit_code': verdict.exit_code or errors.MISSING})


def judged(session: Record) -> Verdict:
    """Return the verdict on a session; raises InfrastructureError where parity cannot read its plan."""
    try:
        return _judged(session)
    except (KeyError, TypeError, AttributeError, ValueError) as err:
        raise kept.Unreadable(session.uuid, err) from err


def _judged(session: Record) -> Verdict:
    uuid, today = session.uuid, datetime.date.today()
    if session.lost:
        raise InfrastructureError(f'{session.lost}; restore it, or judge another session (--session)')
    planned = Plan(**session.plan) if session.plan else plan.of_command(outset.words(session.cmdline))
    system, spack = systems.read(planned.system), 'spack' in planned.providers
    waived, expired = systems.waived(system, today)
    cells = _with_causes(cellmaker.with_history(_cells(planned, session, system, waived), system.name, uuid),
                         system.name, uuid)
    cells, faults = acks.applied(cells, system.name, today)
    cover = coverage.of_cells(cells, planned, 'no check' if spack else 'no Spack')
    trust = _trust(cells)
    gone = absent.of_session(session, session.plan or planned.model_dump(), system)
    cells = [*cells, *gone.missing]
    counts = Counter(c.verdict for c in cells)
    outcomes = _pairs(system, uuid, planned)
    return Verdict(
        session=_session(session, planned), coverage=cover, trust=trust, cells=cells, retired=gone.retired,
        pairs=outcomes, counts={word: counts[word] for word in reversed(WORDS) if counts[word]},
        warnings=[*_warnings(session), *_left_running(session), *expired, *gone.warnings,
                  *_longer(system.name, uuid), *faults, *lint.expired(system.name)],
        next=_next(cells, system.name, uuid, gone.missing),
        exit_code=errors.USAGE if planned.problems else exit_code(cells, outcomes))


def _cells(planned: Plan, session: Record, system: System, waived: dict[str, str]) -> list[Cell]:
    """One cell for each metric of each planned case; repeats of a case are one case."""
    found = session.attempts
    demands = cellmaker.Demands(systems.required(system, set(planned.providers)), waived, _figures(planned, found))
    cases: dict[Key, PlannedCase] = {}
    for case in planned.cases:
        cases.setdefault((case.case, case.partition, case.environ), case)
    return [cell for key, case in cases.items()
            for cell in cellmaker.of_case(case, found.get(key, []), demands)]


def _figures(planned: Plan, found: dict[Key, list[Run]]) -> dict[tuple[str, str, str], float]:
    """The figures of first attempts by partition, check and metric."""
    checks = {case.case: case.check for case in planned.cases}
    return {(partition, checks.get(case, case), metric): value
            for (case, partition, _), (first, *_) in found.items() if not first.status and not first.disturbed
            for metric, value in first.values().items()}


# The next three import when they are needed: a first verdict loads no polars, which would double its time.

def _with_causes(cells: list[Cell], system: str, uuid: str) -> list[Cell]:
    if not any(c.verdict == 'regressed' for c in cells):
        return cells
    from parity.verdict.attribution import cause
    return cause.told(cells, system, uuid)


def _pairs(system: System, uuid: str, planned: Plan) -> list[Outcome]:
    if not pairs.read(system):
        return []
    from parity.compare import join
    return join.of_session(system, uuid, planned.cases)


def _longer(system: str, uuid: str) -> list[str]:
    if database.uuids() == [uuid]:
        return []
    from parity.verdict import nights
    return nights.longer(system, uuid)


def exit_code(cells: list[Cell], pairs: Sequence[Outcome] = ()) -> int:
    """Return 1 regressed, impossible or wrong; 4 infrastructure; 3 missing or nothing measured; 0 otherwise.

    An acknowledged cell counts as measured, and as nothing else."""
    words = {c.verdict for c in cells if not c.acknowledged} | {p.state for p in pairs if p.state == 'regressed'}
    if words & {'regressed', 'impossible', 'wrong'}:
        return errors.REGRESSED
    if 'failed' in words:
        return errors.INFRASTRUCTURE
    if 'missing' in words or too_often(cells) or not any(c.value is not None for c in cells):
        return errors.MISSING
    return errors.OK


def too_often(cells: list[Cell]) -> list[Cell]:
    """Return the cells that were disturbed in each of their last nights: nobody knows their speed any more."""
    return [c for c in cells if c.disturbed_nights >= TOO_OFTEN]


def _warnings(session: Record) -> list[str]:
    newer = (of.get('newer_build') for of in session.facts.get('software', {}).values())
    return [*(['this session was killed; what had finished was recovered from the perflogs']
              if session.interrupted else []),
            *([] if session.plan else ['this session kept no plan: it was reconstructed from its command line']),
            *(f'{p["file"]}: {p["what"]}' for p in session.plan.get('problems', [])),
            *database.wrong_clocks(session), *(f'spack: {why}' for why in dict.fromkeys(newer) if why),
            *recovery.warnings()]


def _left_running(session: Record) -> list[str]:
    """A line for each case that left processes running, which watch.py ended; the first ones only."""
    by_case: dict[str, set[str]] = {}
    for run in session.runs:
        for left in run.watched.get('left') or ():
            by_case.setdefault(f'{run.case} on {run.partition}', set()).add(f'{left["command"]} ({left["pid"]})')
    said = [f'{case} left processes running, which were ended: {", ".join(sorted(names))[:_CHARACTERS]}'
            for case, names in by_case.items()]
    rest = len(said) - _CASES
    return said[:_CASES] + ([f'{rest} more cases left processes running'] if rest > 0 else [])


def _session(session: Record, planned: Plan) -> Session:
    facts = dict(session.facts)
    loads = [run.load for run in session.runs if run.load[1]]
    if loads:
        from parity import machine
        facts['before'], facts['after'] = loads[0][0], loads[-1][1]
        facts['steal_share'] = machine.steal_share(facts['before'], facts['after'])
    start, end = (datetime.datetime.fromtimestamp(unix).astimezone().isoformat(timespec='seconds')
                  for unix in (session.start, session.end))
    ran, waited = record.ran_and_waited(session.runs)
    return Session(
        uuid=session.uuid, system=planned.system, start=start, end=end, elapsed=session.elapsed,
        age=time.time() - session.end, run_time=ran, wait_time=waited, interrupted=session.interrupted,
        cmdline=session.cmdline, reframe=session.reframe, software=session.announcement, facts=facts)


def _trust(cells: list[Cell]) -> str:
    """Return the line with the number of judged cells, their judges, and the rate of false alarms."""
    by_history = sum(c.history not in ('', 'insufficient') for c in cells)
    short = sum(c.history == 'insufficient' for c in cells)
    bounded = [c.reference is not None and c.verdict in JUDGED for c in cells]
    judged = sum(has or c.history not in ('', 'insufficient') for has, c in zip(bounded, cells, strict=True))
    often = len(too_often(cells))
    said = f'{often} disturbed for {TOO_OFTEN} nights in a row or more; ' if often else ''
    said += f'{judged} of {len(cells)} judged'
    said += f': {sum(bounded)}' if judged > sum(bounded) > 0 else ''
    said += ' against accepted bounds' if any(bounded) else ': no reference has been accepted for these cells'
    if by_history:
        said += (f'; {by_history} against their last nights: at most {1000 * RATE:g} false alarm per 1000 '
                 f'cell-nights, {WHOLE_NIGHT:g} in all (docs/regression.md)')
    if short:
        said += f'; {short} histories too short for that ({DEFAULT.least + DEFAULT.last} nights)'
    return said


def _next(cells: list[Cell], system: str, uuid: str, gone: list[Cell]) -> str:
    """The next command; ``gone``: the missing cells that the plan lacks."""
    bad = {name: c for name, c in names(cells).items() if c.verdict in acks.BAD and not c.acknowledged}
    if bad:
        worst = min(bad, key=lambda name: WORDS.index(bad[name].verdict))
        session = '' if database.newest() in ('', uuid) else f' --session {uuid[:8]}'
        return f'parity show {shlex.quote(worst)}{session}'
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
