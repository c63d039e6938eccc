"""The verdict on one session: every planned cell gets exactly one word."""

from __future__ import annotations

import datetime
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile, islice, takewhile
from operator import itemgetter
from typing import Any

from parity.base import codes, errors, paths
from parity.base.codes import Code
from parity.base.errors import InfrastructureError, NothingMeasured
from parity.base.figures import counted, duration, several
from parity.base.reasons import Kind
from parity.base.text import node_name
from parity.judge.compare import pairs
from parity.judge.compare.pairs import PairState
from parity.judge.refs import accepted
from parity.judge.stats import bounds
from parity.judge.store import database, journals, record
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Incident
from parity.judge.store.plan_file import CELL, PLANNED, planned
from parity.judge.store.record import Key, Session
from parity.judge.verdict import acks, budget, incidents, learning, model
from parity.judge.verdict import cells as cellmaker
from parity.judge.verdict.model import TOO_OFTEN, WORDS, Cell, CodeCoverage, Coverage, Verdict
from parity.site import systems
from parity.site.identity import undistributed
from parity.site.plan import OWN, Plan, PlannedCase
from parity.site.systems import Retired, System

#: Cases that are named because they left processes running, and characters of each line.
_CASES, _CHARACTERS = 5, 200


def newest(session: str = '', system: str = '') -> Verdict:
    """Return the verdict on the newest session, of ``system`` where it is given, or on the one named.

    ``session``: the beginning of a uuid; a rerun is judged with its night. Raises UsageError for an unknown
    system, NothingMeasured for one without a session."""
    if system:
        last = database.newest(systems.read(system).name)
        if last is None:
            raise NothingMeasured(f'{paths.database()}: no session of {system} is stored; '
                                  f'run: {paths.nightly(system)}')
        uuid = last.uuid
    else:
        uuid = database.uuid(session)
    if session:
        uuid = database.night_of(uuid, database.uuids())
    return judged(database.read(uuid))


def not_older(verdict: Verdict, seconds: float, stated: str) -> Verdict:
    """Return the verdict, with a warning and exit code 3 at least where its system's newest session is too old.

    ``stated``: the limit as the user wrote it. An age below 0 is unknown, and too old, too."""
    known = database.newest(verdict.session.system)
    age = time.time() - known.end if known else verdict.session.age
    if 0 <= age <= seconds:
        return verdict
    told = f'is {duration(age)} old: older than {stated}' if age > 0 else 'ends in the future: its age is unknown'
    said = f'the newest session of {verdict.session.system} {told}'
    return verdict.model_copy(update={'warnings': [said, *verdict.warnings],
                                      'exit_code': verdict.exit_code or errors.MISSING})


@dataclass(frozen=True)
class _Contents:
    """A session by itself, without its history: another hand may have stored it in any form."""

    planned: Plan
    system: System
    cells: list[Cell]
    absent: dict[str, str]          # by feature, the program for whose want no environment offers it
    about: model.JudgedSession
    warnings: list[str]
    expired: list[str]              # waivers


def _read(session: Session) -> _Contents:
    """Return what the session tells; raises InfrastructureError where parity cannot read it."""
    if session.lost:
        raise InfrastructureError(f'{session.lost}; restore it, or judge another session (--session)')
    if not session.plan:
        raise InfrastructureError(f'session {session.uuid}: it has no plan, as ReFrame alone stored it; '
                                  'parity import FILE brings it in')
    try:
        planned = Plan(**session.plan)
        system = systems.read(planned.system)
        waived, expired = systems.waived(system, datetime.date.today())
        return _Contents(planned, system, _cells(planned, session, system, waived), _absent_programs(session),
                    _session(session, planned), [*_warnings(session), *_left_running(session)], expired)
    except database.MALFORMED as err:
        raise database.Unreadable(session.uuid, err) from err


def judged(session: Session) -> Verdict:
    """Return the verdict on a session; raises InfrastructureError where parity cannot read it."""
    contents = _read(session)
    uuid, planned, system = session.uuid, contents.planned, contents.system
    declared = pairs.read(system)
    cells, shared, longer = _by_history(contents, session, budget.expectations(declared, planned.cases))
    cells = list(map(cellmaker.with_power, cells))
    if any(cell.verdict == 'regressed' or cell.once for cell in cells):
        from parity.judge.verdict import cause
        cells = cause.with_causes(cells, system.name, uuid)
    known, acks_from = table.at(system.name, uuid, session.start)
    today = datetime.date.today()
    until = _next_night(session, system.name)
    if until:       # an older night is shown as it was then
        today = datetime.date.fromtimestamp(session.start)
        known = [table.as_of(incident, session.start, until) for incident in known]
        acks_from |= {incident.number: incident.acks_from for incident in known}
    if known:
        cells = incidents.numbered(cells, known, uuid, session.start)
    outcomes = []
    if declared:
        states = _pairs(session, planned, system, cells, shared.rate)
        outcomes = incidents.numbered_pairs(states, known)
        outcomes = acks.applied_to_pairs(outcomes, system.name, today, acks_from)
    cells, faults = acks.applied(cells, system.name, today, acks_from, known)
    coverage = _coverage(cells, planned, contents.absent, 'spack' in planned.providers)
    never_ran = {name for incident in known for name, fault in incident.left.items() if fault.word == 'missing'}
    missing, retired, again = _absent(session, session.plan or planned.model_dump(), system, cells, never_ran)
    cells = [*cells, *(incidents.numbered(missing, known, uuid, session.start) if known else missing)]
    code = exit_code(cells, outcomes, incidents.of_nodes(known, uuid))
    counts = Counter(cell.verdict for cell in cells)
    return Verdict(
        session=contents.about,
        coverage=coverage,
        trust=_trust(cells, shared, session),
        budget=shared,
        cells=cells,
        retired=retired,
        pairs=outcomes,
        incidents=known,
        counts={word: counts[word] for word in reversed(WORDS) if counts[word]},
        warnings=[*contents.warnings, *_references(cells), *contents.expired, *again, *longer, *faults,
                  *accepted.expired(system.name)],
        next=_next(cells, session, system.name, missing),
        exit_code=errors.USAGE if planned.problems else code)


def _by_history(contents: _Contents, session: Session, expectations: int
                ) -> tuple[list[Cell], model.AlarmBudget, list[str]]:
    """Return the cells as the nights before judge them, the whole budget, and warnings of cases.

    ``expectations``: figures that declared pairs speak of."""
    system, alarms = contents.system, contents.system.alarms
    bounded = sum(map(budget.guarded, contents.cells))
    share = partial(budget.of, alarms.a_month, bounded=bounded, pairs=expectations)
    cells, shared, warnings = _with_history(contents.cells, system, session, share)
    cells = [_not_missed(cell, system, session) for cell in cells]
    without_history = [cell for cell in cells if cell.history in ('', 'insufficient')]
    alone = sum(map(budget.guarded, without_history))
    shared = shared.model_copy(update={'bounds_alone': alone, 'nights': alarms.nights})
    return cells, shared, warnings


def _pairs(session: Session, planned: Plan, system: System, cells: list[Cell], rate: float) -> list[PairState]:
    """Return the declared pairs as they stand with the session; ``rate``: of their false alarms."""
    from parity.judge.compare import join, named  # they load polars
    from parity.judge.stats.interval import CONFIDENCE
    slow = [*named.of_system(system.name, session.start), *incidents.slow_nodes(cells, session.start)]
    return join.of_session(system, session.uuid, planned.cases, max(CONFIDENCE, 1 - 2 * rate), slow)


def _next_night(session: Session, system: str) -> float:
    """Return when the next session of the same selection began (Unix time); 0 for the newest one."""
    nights = dropwhile(lambda night: night.uuid != session.uuid, database.sessions(system))
    for night in islice(nights, 1, None):
        alike = night.selection == session.selection if session.selection else night.cases == session.cases
        if alike and not night.rerun_of:
            return night.start
    return 0.0


def _with_history(cells: list[Cell], system: System, session: Session,
                  share: Callable[[int], model.AlarmBudget]) -> tuple[list[Cell], model.AlarmBudget, list[str]]:
    """Return the cells as the nights before judge them, the budget, and warnings of cases that take longer
    or repeat their figures."""
    known = database.sessions(system.name, last=bounds.FIRST + 1)
    beyond = any(cell.verdict == 'regressed' for cell in cells)      # the nights before say if it is the first
    if len(known) < 2 and not beyond:
        return cells, share(0), []
    if not beyond and (first := learning.of_first_nights(cells, session, known)) is not None:
        return first, share(0), []
    from parity.judge.verdict import (  # polars, which they load, doubles the time of a small verdict
        nights,
        replayed,
    )
    told = [*nights.longer(system.name, session.uuid), *replayed.warnings(system.name, session.uuid)]
    return *nights.with_history(cells, system.name, session.uuid, system.alarms, share), told


def _cells(planned: Plan, session: Session, system: System, waived: dict[str, str]) -> list[Cell]:
    """One cell for each metric of each planned case; repeats of a case are one case."""
    cases: dict[Key, PlannedCase] = {}
    for case in planned.cases:
        cases.setdefault((case.case, case.partition, case.environ), case)
    checks = {case.case: case.check for case in planned.cases}
    figures = {}      # of first attempts
    for (case, partition, _), (first, *_) in session.attempts.items():
        if first.status or first.disturbed:
            continue
        for metric, value in first.values().items():
            figures[partition, checks.get(case, case), metric] = value
    demands = cellmaker.Demands(systems.required(system), waived, _absent_programs(session), figures)
    cells = []
    for key, case in cases.items():
        cells += cellmaker.of_case(case, session.attempts.get(key, []), demands)
    return cells


def exit_code(cells: list[Cell], pairs: Sequence[PairState] = (), nodes: Sequence[Incident] = ()) -> int:
    """Return 1 regressed, impossible or wrong; 4 infrastructure; 3 missing or nothing measured; 0 otherwise.

    An acknowledged cell counts as measured, and as nothing else; an acknowledged pair as nothing. ``nodes``:
    incidents of slow nodes."""
    words = {c.verdict for c in cells if not c.acknowledged}
    words |= {p.state for p in pairs if p.state == 'regressed' and not p.acknowledged}
    if nodes or words & {'regressed', 'impossible', 'wrong'}:
        return errors.REGRESSED
    if 'failed' in words:
        return errors.INFRASTRUCTURE
    if 'missing' in words or too_often(cells) or not any(c.value is not None for c in cells):
        return errors.MISSING
    return errors.OK


def too_often(cells: list[Cell]) -> list[Cell]:
    """Return the cells that each of their last nights disturbed or left out: nobody knows their speed."""
    return [cell for cell in cells if cell.unknown]


def _warnings(session: Session) -> list[str]:
    warnings = []
    if session.interrupted:
        warnings.append('this session was killed; what had finished was recovered from the perflogs')
    if not session.plan:
        warnings.append('this session kept no plan: it was reconstructed from its command line')
    for problem in session.plan.get('problems', []):
        warnings.append(f'{problem["file"]}: {problem["what"]}')
    warnings += database.wrong_clocks(session)
    software = session.facts.get('software', {})
    builds = {}         # a sentence on a build, and the first environment that has it
    for environ, facts in software.items():
        if facts.get('newer_build'):
            builds.setdefault(facts['newer_build'], environ)
    warnings += [f'{environ}: {why}' for why, environ in builds.items()]
    warnings += [facts['lacking'] for facts in software.values() if facts.get('lacking')]
    return warnings + journals.warnings()


def _references(cells: list[Cell]) -> list[str]:
    """Return a line for each cell whose check has another reference of its own than before: nobody accepted it."""
    changed = [cell for cell in cells if cell.new_reference]
    lines = []
    for cell in changed:
        change = cell.new_reference
        lines.append(f"{model.name(cell, cells)}: the check's own reference changed from {change.old} to "
                     f'{change.new} {cell.unit} on {change.when[:10]}')
    return lines


def _absent_programs(session: Session) -> dict[str, str]:
    """Return, by feature, the program for whose want no environment of the session offers it: `no mpirun`."""
    absent = {}
    for software in session.facts.get('software', {}).values():
        absent.update(software.get('absent', {}))
    return absent


def _left_running(session: Session) -> list[str]:
    """A line for each case that left processes running, which watch.py ended; the first ones only."""
    by_case: dict[str, set[str]] = {}
    for run in session.runs:
        for process in run.watched.get('left') or ():
            case = f'{run.case} on {run.partition}'
            by_case.setdefault(case, set()).add(f'{process["command"]} ({process["pid"]})')
    lines = []
    for case, processes in by_case.items():
        named = ', '.join(sorted(processes))
        lines.append(f'{case} left processes running, which were ended: {named[:_CHARACTERS]}')
    rest = len(lines) - _CASES
    if rest > 0:
        return [*lines[:_CASES], f'{counted(rest, "more case")} left processes running']
    return lines


def _session(session: Session, planned: Plan) -> model.JudgedSession:
    facts = dict(session.facts)
    loads = [run.load for run in session.runs if run.load[1]]
    if loads:
        facts['before'], facts['after'] = loads[0][0], loads[-1][1]
        facts['steal_share'] = steal_share(facts['before'], facts['after'])
    ran, waited = record.ran_and_waited(session.runs)
    return model.JudgedSession(
        uuid=session.uuid,
        system=planned.system,
        start=_local(session.start),
        end=_local(session.end),
        elapsed=session.elapsed,
        age=time.time() - session.end,
        run_time=ran,
        wait_time=waited,
        interrupted=session.interrupted,
        cmdline=session.cmdline,
        reframe=session.reframe,
        software=session.announcement,
        facts=facts)


def _local(unix: float) -> str:
    return datetime.datetime.fromtimestamp(unix).astimezone().isoformat(timespec='seconds')


def steal_share(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Return the part (0 to 1) of all CPU time between two readings that a hypervisor took away."""
    spent = []
    for counter in ('steal_jiffies', 'total_jiffies'):
        start, end = before.get(counter), after.get(counter)
        if start is None or end is None:
            return None
        spent.append(end - start)
    steal, total = spent
    # counters that went backwards belong to two boots
    return steal / total if total > 0 and 0 <= steal <= total else None


def _trust(cells: list[Cell], shared: model.AlarmBudget, session: Session) -> str:
    """Return the line with the number of judged cells, their judges, and the budget of false alarms."""
    judged = [cell for cell in cells if cell.is_judged]
    bounded = sum(cell.reference is not None for cell in judged)
    short = sum(cell.history == 'insufficient' for cell in cells)
    by_history = sum(cell.history != '' for cell in cells) - short
    parts = []
    unknown = Counter('left out' if cell.verdict == 'skipped' else 'disturbed' for cell in too_often(cells))
    for word, count in unknown.items():
        parts.append(f'{count} {word} for {TOO_OFTEN} nights in a row or more')
    ended = sum(any(run.exitcode for run in runs) for runs in session.attempts.values())
    if ended:
        parts.append(f'{counted(ended, "case")} passed with an exit code other than 0')
    count = f'{len(judged)} of {len(cells)} judged'
    if bounded:
        some = f': {bounded}' if bounded < len(judged) else ''
        count += f'{some} against accepted bounds'
    elif all(cell.reference is None for cell in cells):
        count += ': no reference has been accepted for these cells'
    parts.append(count)
    if by_history:
        parts.append(f'{by_history} against their last nights')
    by_chance = budget.sentence(shared)
    if by_chance:
        parts.append(by_chance)
    if short:
        parts.append(f'{counted(short, "history")} too short for that ({bounds.FIRST + 1} nights)')
    return '; '.join(parts)


def _next(cells: list[Cell], of_session: Session, system: str, gone: list[Cell]) -> str:
    """The next command; ``gone``: the missing cells that the plan lacks."""
    uuid = of_session.uuid
    bad = (c for c in cells if c.verdict in acks.BAD and not c.acknowledged)
    if worst := min(bad, key=lambda c: WORDS.index(c.verdict), default=None):
        if worst.incident:
            return f'parity show {worst.incident}'
        session = '' if database.last() in ('', uuid) else f' --session {uuid[:8]}'
        return f'parity show {shlex.quote(model.name(worst, cells))}{session}'
    if any(c.verdict == 'missing' and not c.environ for c in cells):
        return f'parity doctor --system {system} (names what each code needs)'
    if gone:
        return (f'bring {gone[0].check} back, or name it below retired: in systems/{system}/system.yaml '
                '(docs/nightly.md)')
    if any(c.verdict == 'missing' for c in cells) and paths.checkout():
        return 'ci/nightly (runs what never ran)'
    brings = of_session.facts.get('brings_codes', '')
    if brings and not any(cell.judged_by for cell in cells):
        return brings
    if whole := database.wider(uuid):
        return f'parity verdict --session {whole[:8]} (the last one with more cases; this one is {uuid[:8]})'
    if any(c.verdict in ('unreferenced', 'ok', 'blind') and c.reference is None and not c.label for c in cells):
        return f'parity refs propose --system {system} (after {bounds.FEWEST} nights)'
    return 'parity verdict --all'


# ---- the codes that were measured

def _coverage(cells: list[Cell], plan: Plan, absent: dict[str, str], spack: bool) -> Coverage:
    """Return the coverage of the codes whose checks were loaded. Those that were not selected do not count.

    ``absent``: by feature, why no environment offers it. A session of other checks asks for no code."""
    needing: dict[str, set[str]] = {}        # the cases that need a feature
    for case in plan.cases:
        for feature in case.needs:
            needing.setdefault(feature, set()).add(case.case)
    loaded = {feature for check in plan.checks for feature in check.needs}
    broken = {problem.file for problem in plan.problems}
    found: list[CodeCoverage] = []
    for code in codes.measured():
        able = {code.feature, code.stand_in}
        selected, damaged = bool(able & needing.keys()), paths.named(code.file) in broken
        if not selected and not able & loaded and not damaged:
            continue
        if ran := _of_code(code, cells, needing):
            found.append(ran)
        elif not code.optional:     # nobody asked for an application that is not here
            why = model.NOT_SELECTED
            if selected:
                why = absent.get(code.feature, 'no check' if spack else 'no Spack')
            elif damaged:
                why = 'no check'
            found.append(CodeCoverage(code=code.name, measured=False, lacking=selected, reason=why))
    measured = sum(c.measured for c in found)
    total = sum(c.reason != model.NOT_SELECTED for c in found)
    lacking = {c.code for c in found if c.lacking}
    line = _line(found, measured, total, _ours(cells, plan))
    if any(code.name in lacking and code.feature in absent for code in codes.measured()):
        line += f'; parity doctor --system {plan.system} says what they need'
    if any(code.name in lacking and code.spack and code.feature not in absent for code in codes.measured()):
        line += f'; {codes.without_github(plan.system)}'
    return Coverage(line=line, codes=found, measured=measured, total=total, cells=len(cells))


def _of_code(code: Code, cells: list[Cell], needing: dict[str, set[str]]) -> CodeCoverage | None:
    """Return whether a code was measured; None where none of its cases could run."""
    cases = needing.get(code.feature, ())
    own = [cell for cell in cells if cell.case in cases]
    if any(cell.value is not None for cell in own):
        return CodeCoverage(code=code.name, measured=True, by=code.name)
    cases = needing.get(code.stand_in, ())
    standing = [cell for cell in cells if cell.case in cases and cell.metric.startswith(code.stands_for)]
    labels = [cell.label for cell in standing if cell.value is not None]
    if labels:
        cached = f'{code.stand_in} only {labels[0]}' if all(labels) else ''
        return CodeCoverage(code=code.name, measured=not cached, by=code.stand_in, reason=cached)
    planned = own or standing
    offered = any(cell.environ for cell in planned)
    if offered or any(cell.verdict != 'skipped' for cell in planned):       # the system requires it
        return CodeCoverage(code=code.name, measured=False, reason=planned[0].verdict, lacking=not offered)
    return None


def _ours(cells: list[Cell], plan: Plan) -> list[str]:
    """Return the codes of parity's own that have a figure."""
    file = {case.case: case.file for case in plan.cases}
    files = {file.get(cell.case) for cell in cells if cell.value is not None}
    ours = []
    for code in codes.every():
        foreign = code.spack or code.package or code.profiles
        if not foreign and paths.named(code.file) in files:
            ours.append(code.name)
    return ours


def _line(found: list[CodeCoverage], measured: int, total: int, ours: list[str]) -> str:
    """Return '3 of 13 codes (A stands in for B C; no Spack: D E F; parity's own: G)'; no count of no code."""
    named: dict[str, list[str]] = {}
    for code in found:
        if not code.measured:
            named.setdefault(f'{code.reason}: ', []).append(code.code)
        elif code.by != code.code:
            named.setdefault(f'{code.by} stands in for ', []).append(code.code)
    if ours:
        named["parity's own: "] = ours
    parts = '; '.join(why + ' '.join(names) for why, names in named.items())
    if not total:
        return parts
    count = f'{measured} of {counted(total, "code")}'
    return f'{count} ({parts})' if parts else count


# ---- the cells that tonight's plan lacks, and the nights before had

#: A planned cell, by the names in PLANNED.
Row = dict[str, str]
_cell, _order = itemgetter(*CELL), itemgetter('subsystem', 'check', 'case', 'partition', 'environ', 'metric')


def _absent(session: Session, plan: dict[str, Any], system: System, cells: list[Cell], never_ran: set[str]
            ) -> tuple[list[Cell], list[Cell], list[str]]:
    """Return the missing cells, the retired ones, and warnings: each retired entry that is planned again, and
    cells that ended with the selection of the nights before.

    The nights before have the same selection and size, but for cells whose incident is open: ``never_ran``, by
    name. Nothing lacks in a session that ci/nightly did not begin, nor in the confirmation of another."""
    before = []
    if session.selection:
        before = _before(session, system.name, never_ran)
    elif session.is_imported:
        from parity.judge.verdict import vanished  # it loads polars
        before = vanished.expected(session, system.name)
    other = _other_selection(session, system.name) if session.selection else None
    missing, gone = [], []
    if not before and not system.retired and not other:
        return missing, gone, []
    tonight = [dict(zip(PLANNED, row, strict=True)) for row in planned(plan)]
    measured = {tuple(getattr(cell, name) for name in CELL) for cell in cells if cell.verdict != 'skipped'}
    warnings = [_again(i, system) for i, entry in enumerate(system.retired)
                if not entry.nodes and any(_retires(entry, row) and _cell(row) in measured for row in tonight)]
    if any(entry.nodes for entry in system.retired):
        from parity.judge.nodes import listing  # it loads polars
        ran_on = {node for run in session.runs for node in run.nodes}
        warnings += listing.retired_again(system, session.start, ran_on)
    sizes, here = {OWN, *(row['size'] for row in tonight)}, set(map(_cell, tonight))
    lacking = [(row, night) for row, night in before if _cell(row) not in here
               and (row['size'] in sizes or incidents.row_name(row, system.name) in never_ran)]
    holding = _holding(system, session)
    for row, night in sorted(lacking, key=lambda each: _order(each[0])):
        retired = any(_retires(entry, row) for entry in holding)
        day = datetime.date.fromtimestamp(night.start)
        what, kind = 'not in this plan; planned last', Kind.NONE
        if night.is_imported:
            what = 'it did not run; it ran last'
            if (row['case'], row['partition'], row['environ']) in session.attempts:
                what, kind = 'its test ran without it; it had a figure last', Kind.NO_FIGURE
        reason = f'{what} on {day} (session {night.uuid[:8]})'
        word = 'skipped' if retired else 'missing'
        (gone if retired else missing).append(
            Cell(**row, system=system.name, verdict=word, reason=reason, kind=kind))
    if other:
        from parity.judge.store import history  # it loads polars
        known = here.union(_cell(row) for row, _ in lacking)
        ended = [row for row in history.planned(other.uuid).to_dicts()
                 if _cell(row) not in known and not any(_retires(entry, row) for entry in holding)]
        warnings += _ended(ended, other)
    return missing, gone, warnings


def _ended(rows: list[Row], night: Session) -> list[str]:
    """Return the warning that names cells of the night before which another selection leaves out."""
    if not rows:
        return []
    day = datetime.date.fromtimestamp(night.start)
    names = sorted({f'{row["check"]} on {row["partition"]}+{row["environ"]}' for row in rows})
    ends = 'ends' if len(rows) == 1 else 'end'
    return [f'the selection changed: {counted(len(rows), "cell")} of {day} (session {night.uuid[:8]}) '
            f'{ends} with it, told once: {several(names)}']


def _holding(system: System, session: Session) -> list[Retired]:
    """Return the retired entries that hold on the night of the session."""
    return [entry for entry in system.retired if entry.since <= datetime.date.fromtimestamp(session.start)]


def _not_missed(cell: Cell, system: System, session: Session) -> Cell:
    """Return the cell; nobody waits for a retired one that is left out."""
    if cell.skipped_nights and any(_retires(entry, vars(cell)) for entry in _holding(system, session)):
        return cell.model_copy(update={'skipped_nights': 0})
    return cell


def _other_selection(session: Session, system: str) -> Session | None:
    """Return the night before, where it is of another selection and none before the session is of its own."""
    nights = list(takewhile(lambda night: night.uuid != session.uuid, database.sessions(system)))
    nights = [night for night in nights if night.selection and night.planned]
    if not nights or any(night.selection == session.selection for night in nights):
        return None
    return nights[-1]


def _before(session: Session, system: str, never_ran: set[str]) -> list[tuple[Row, Session]]:
    """Return the cells of the nights before, each with the newest night that planned it: those of the same
    selection, and of any selection those that ``never_ran``, by name."""
    last: dict[tuple[str, bool], Session] = {}       # by its plan, and whether its selection is the same
    for night in takewhile(lambda night: night.uuid != session.uuid, database.sessions(system)):
        same = night.selection == session.selection
        if night.planned and (same or never_ran and night.selection):
            last[night.planned, same] = night
    if all(plan == session.planned for plan, _ in last):
        return []
    from parity.judge.store import history  # it loads polars
    found: dict[tuple, tuple[Row, Session]] = {}
    for (_, same), night in sorted(last.items(), key=lambda each: each[1].start):
        for row in history.planned(night.uuid).to_dicts():
            if same or incidents.row_name(row, system) in never_ran:
                found[_cell(row)] = row, night
    return list(found.values())


def _retires(entry: Retired, row: Row) -> bool:
    """Return whether the entry names the cell, by its node (reframe --distribute), by its check or by its case;
    spaces do not count."""
    if entry.nodes:
        return node_name(undistributed(row['case'])[1]) in entry.nodes
    if entry.partition not in ('', row['partition']) or entry.environ not in ('', row['environ']):
        return False
    case = row['case'].replace(' ', '')
    return entry.check.replace(' ', '') in ('', row['check'], case)


def _again(place: int, system: System) -> str:
    return (f'{systems.line(system.name, ("retired", place))}: retired: {system.retired[place]} is planned again: '
            'take the entry out, or its next absence is not told')
