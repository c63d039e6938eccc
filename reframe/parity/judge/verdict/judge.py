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
from parity.judge.verdict.model import (
    TOO_OFTEN,
    WORDS,
    AlarmBudget,
    Cell,
    CodeCoverage,
    Coverage,
    JudgedSession,
    Verdict,
)
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
    system = verdict.session.system
    newest = database.newest(system)
    age = time.time() - newest.end if newest else verdict.session.age
    if 0 <= age <= seconds:
        return verdict
    if age > 0:
        problem = f'is {duration(age)} old: older than {stated}'
    else:
        problem = 'ends in the future: its age is unknown'
    warning = f'the newest session of {system} {problem}'
    code = verdict.exit_code or errors.MISSING
    return verdict.model_copy(update={'warnings': [warning, *verdict.warnings], 'exit_code': code})


@dataclass(frozen=True)
class _Contents:
    """A session by itself, without its history: another hand may have stored it in any form."""

    planned: Plan
    system: System
    cells: list[Cell]
    absent: dict[str, str]          # by feature, the program for whose want no environment offers it
    about: JudgedSession
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
        absent = _absent_programs(session)
        cells = _cells(planned, session, system, waived, absent)
        about = _session(session, planned)
        warnings = _warnings(session) + _left_running(session)
        return _Contents(planned, system, cells, absent, about, warnings, expired)
    except database.MALFORMED as err:
        raise database.Unreadable(session.uuid, err) from err


@dataclass(frozen=True)
class _ByHistory:
    """The cells as the nights before judge them, the whole budget, and warnings of cases."""

    cells: list[Cell]
    budget: AlarmBudget
    warnings: list[str]


@dataclass(frozen=True)
class _Incidents:
    """The incidents of the system when a session was judged; of an older night, as it was then."""

    incidents: list[Incident]
    acks_from: dict[int, datetime.date]     # from when their acknowledgements count, by number
    today: datetime.date


@dataclass(frozen=True)
class _Absent:
    """The cells that tonight's plan lacks, and warnings of the retired entries and of another selection.

    ``replaced``: planned cells without an environment; some of ``missing`` are the same, with theirs."""

    missing: list[Cell]
    retired: list[Cell]
    replaced: list[Cell]
    warnings: list[str]


def judged(session: Session) -> Verdict:
    """Return the verdict on a session; raises InfrastructureError where parity cannot read it."""
    contents = _read(session)
    uuid, planned, system = session.uuid, contents.planned, contents.system
    declared = pairs.read(system)
    expectations = budget.expectations(declared, planned.cases)
    by_history = _by_history(contents, session, expectations)
    shared = by_history.budget
    cells = list(map(cellmaker.with_power, by_history.cells))
    if any(cell.verdict == 'regressed' or cell.once for cell in cells):
        from parity.judge.verdict import cause
        cells = cause.with_causes(cells, system.name, uuid)
    known = _incidents_of(session, system.name)
    if known.incidents:
        cells = incidents.numbered(cells, known.incidents, uuid, session.start)
    outcomes = []
    if declared:
        states = _pairs(session, planned, system, cells, shared.rate)
        outcomes = incidents.numbered_pairs(states, known.incidents)
        outcomes = acks.applied_to_pairs(outcomes, system.name, known.today, known.acks_from)
    cells, ack_warnings = acks.applied(cells, system.name, known.today, known.acks_from, known.incidents)
    has_spack = 'spack' in planned.providers
    coverage = _coverage(cells, planned, contents.absent, has_spack)
    plan = session.plan or planned.model_dump()
    never_ran = _never_ran(known.incidents)
    absent = _absent(session, plan, system, cells, never_ran)
    missing = absent.missing
    if known.incidents:
        missing = incidents.numbered(missing, known.incidents, uuid, session.start)
    replaced = set(map(id, absent.replaced))
    cells = [*(cell for cell in cells if id(cell) not in replaced), *missing]
    slow_nodes = incidents.of_nodes(known.incidents, uuid)
    code = exit_code(cells, outcomes, slow_nodes)
    if planned.problems:
        code = errors.USAGE
    number_of = Counter(cell.verdict for cell in cells)
    counts = {word: number_of[word] for word in reversed(WORDS) if number_of[word]}
    warnings = [*contents.warnings, *_references(cells), *contents.expired, *absent.warnings,
                *by_history.warnings, *ack_warnings, *accepted.expired(system.name)]
    trust = _trust(cells, shared, session)
    gone = [cell for cell in absent.missing if cell.verdict == 'missing']
    next_command = _next(cells, session, system.name, gone)
    return Verdict(
        session=contents.about, coverage=coverage, trust=trust, budget=shared, cells=cells,
        retired=absent.retired, pairs=outcomes, incidents=known.incidents, counts=counts,
        warnings=warnings, next=next_command, exit_code=code)


def _incidents_of(session: Session, system: str) -> _Incidents:
    """Return the incidents of the system when the session was judged."""
    known, acks_from = table.at(system, session.uuid, session.start)
    until = _next_night(session, system)
    if not until:
        return _Incidents(known, acks_from, datetime.date.today())
    as_then = [table.as_of(incident, session.start, until) for incident in known]
    for incident in as_then:
        acks_from[incident.number] = incident.acks_from
    night = datetime.date.fromtimestamp(session.start)
    return _Incidents(as_then, acks_from, night)


def _never_ran(known: list[Incident]) -> set[str]:
    """Return the cells, by name, of the incidents that have them because they never ran."""
    never_ran = set()
    for incident in known:
        for name, fault in incident.left.items():
            if fault.word == 'missing':
                never_ran.add(name)
    return never_ran


def _by_history(contents: _Contents, session: Session, expectations: int) -> _ByHistory:
    """Return the cells as the nights before judge them. ``expectations``: figures that declared pairs speak of."""
    system, alarms = contents.system, contents.system.alarms
    bounded = sum(map(budget.guarded, contents.cells))
    share = partial(budget.of, alarms.a_month, bounded=bounded, pairs=expectations)
    by_history = _with_history(contents.cells, system, session, share)
    cells = [_not_missed(cell, system, session) for cell in by_history.cells]
    without_history = [cell for cell in cells if cell.history in ('', 'insufficient')]
    alone = sum(map(budget.guarded, without_history))
    update = {'bounds_alone': alone, 'nights': alarms.nights}
    shared = by_history.budget.model_copy(update=update)
    return _ByHistory(cells, shared, by_history.warnings)


def _pairs(session: Session, planned: Plan, system: System, cells: list[Cell], rate: float) -> list[PairState]:
    """Return the declared pairs as they stand with the session; ``rate``: of their false alarms."""
    from parity.judge.compare import join, named  # they load polars
    from parity.judge.stats.interval import CONFIDENCE
    slow_before = named.of_system(system.name, session.start)
    slow_tonight = incidents.slow_nodes(cells, session.start)
    slow = [*slow_before, *slow_tonight]
    confidence = max(CONFIDENCE, 1 - 2 * rate)
    return join.of_session(system, session.uuid, planned.cases, confidence, slow)


def _next_night(session: Session, system: str) -> float:
    """Return when the next session of the same selection began (Unix time); 0 for the newest one."""
    sessions = database.sessions(system)
    from_here = dropwhile(lambda night: night.uuid != session.uuid, sessions)
    for night in islice(from_here, 1, None):
        if session.selection:
            is_alike = night.selection == session.selection
        else:
            is_alike = night.cases == session.cases
        if is_alike and not night.rerun_of:
            return night.start
    return 0.0


def _with_history(cells: list[Cell], system: System, session: Session,
                  share: Callable[[int], AlarmBudget]) -> _ByHistory:
    """Return the cells as the nights before judge them, the budget, and warnings of cases that take longer
    or repeat their figures. ``share``: the budget where so many cells have a history that judges them."""
    learning_cells = _learning(cells, system, session)
    if learning_cells is not None:
        return _ByHistory(learning_cells, share(0), [])
    from parity.judge.verdict import (  # polars, which they load, doubles the time of a small verdict
        nights,
        replayed,
    )
    uuid = session.uuid
    longer = nights.longer(system.name, uuid)
    repeated = replayed.warnings(system.name, uuid)
    shared = nights.with_history(cells, system.name, uuid, system.alarms, share)
    return _ByHistory(cells, shared, [*longer, *repeated])


def _learning(cells: list[Cell], system: System, session: Session) -> list[Cell] | None:
    """Return the cells of a system's first nights; None where the nights before must judge them."""
    is_beyond = any(cell.verdict == 'regressed' for cell in cells)
    if is_beyond:
        return None         # the nights before say if it is the first
    sessions = database.sessions(system.name, last=bounds.FIRST + 1)
    if len(sessions) < 2:
        return cells
    return learning.of_first_nights(cells, session, sessions)


def _cells(planned: Plan, session: Session, system: System, waived: dict[str, str],
           absent: dict[str, str]) -> list[Cell]:
    """One cell for each metric of each planned case; repeats of a case are one case."""
    cases: dict[Key, PlannedCase] = {}
    checks = {}
    for case in planned.cases:
        key = case.case, case.partition, case.environ
        cases.setdefault(key, case)
        checks[case.case] = case.check
    figures = {}      # of first attempts
    for (case, partition, _), (first, *_) in session.attempts.items():
        if first.status or first.disturbed:
            continue
        check = checks.get(case, case)
        for metric, value in first.values().items():
            figures[partition, check, metric] = value
    required = systems.required(system)
    demands = cellmaker.Demands(required, waived, absent, figures)
    cells = []
    for key, case in cases.items():
        runs = session.attempts.get(key, [])
        cells += cellmaker.of_case(case, runs, demands)
    return cells


def exit_code(cells: list[Cell], pairs: Sequence[PairState] = (), nodes: Sequence[Incident] = ()) -> int:
    """Return 1 regressed, impossible or wrong; 4 infrastructure; 3 missing or nothing measured; 0 otherwise.

    An acknowledged cell counts as measured, and as nothing else; an acknowledged pair as nothing. ``nodes``:
    incidents of slow nodes."""
    words = {cell.verdict for cell in cells if not cell.acknowledged}
    for pair in pairs:
        if pair.state == 'regressed' and not pair.acknowledged:
            words.add('regressed')
    if nodes or words & {'regressed', 'impossible', 'wrong'}:
        return errors.REGRESSED
    if 'failed' in words:
        return errors.INFRASTRUCTURE
    has_figure = any(cell.value is not None for cell in cells)
    if 'missing' in words or too_often(cells) or not has_figure:
        return errors.MISSING
    return errors.OK


def too_often(cells: list[Cell]) -> list[Cell]:
    """Return the cells that each of their last nights disturbed or left out: nobody knows their speed."""
    return [cell for cell in cells if cell.unknown]


def _warnings(session: Session) -> list[str]:
    """Return the warnings on the session's end, plan, clock, software and nodes, and on journals."""
    warnings = []
    if session.interrupted:
        warnings.append('this session was killed; what had finished was recovered from the perflogs')
    if not session.plan:
        warnings.append('this session kept no plan: it was reconstructed from its command line')
    for problem in session.plan.get('problems', []):
        warnings.append(f'{problem["file"]}: {problem["what"]}')
    warnings += database.wrong_clocks(session)
    software = session.facts.get('software', {})
    first_environ: dict[str, str] = {}      # by the sentence on a build
    for environ, facts in software.items():
        sentence = facts.get('newer_build')
        if sentence:
            first_environ.setdefault(sentence, environ)
    warnings += [f'{environ}: {sentence}' for sentence, environ in first_environ.items()]
    warnings += [facts['lacking'] for facts in software.values() if facts.get('lacking')]
    warnings += _without_huge_pages(session)
    return warnings + journals.warnings()


def _without_huge_pages(session: Session) -> list[str]:
    """Return a line on the checks that asked for huge pages where the kernel gives none; none of no such check."""
    checks, nodes = set(), set()
    for run in session.runs:
        variables = run.work.get('variable', {})
        asked = 'hugetlb' in (variables.get('GLIBC_TUNABLES') or '')
        if asked and run.context.get('transparent_huge_pages') == 'never':
            checks.add(run.check)
            nodes.update(run.nodes)
    if not checks:
        return []
    where = several(sorted(nodes)) or 'this machine'
    asking = ' and '.join(sorted(checks))
    return [f'{where}: transparent_hugepage is never, and {asking} asked for huge pages: '
            'madvise gains up to a third (docs/software.md)']


def _references(cells: list[Cell]) -> list[str]:
    """Return a line for each cell whose check has another reference of its own than before: nobody accepted it."""
    changed = [cell for cell in cells if cell.new_reference]
    lines = []
    for cell in changed:
        name = model.name(cell, cells)
        change = cell.new_reference
        day = change.when[:10]
        lines.append(f"{name}: the check's own reference changed from {change.old} to {change.new} {cell.unit} "
                     f'on {day}')
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
            processes = by_case.setdefault(f'{run.case} on {run.partition}', set())
            processes.add(f'{process["command"]} ({process["pid"]})')
    lines = []
    for case, processes in by_case.items():
        names = ', '.join(sorted(processes))
        shown = names[:_CHARACTERS]
        lines.append(f'{case} left processes running, which were ended: {shown}')
    rest = len(lines) - _CASES
    if rest <= 0:
        return lines
    more = counted(rest, 'more case')
    return [*lines[:_CASES], f'{more} left processes running']


def _session(session: Session, planned: Plan) -> JudgedSession:
    facts = dict(session.facts)
    loads = [run.load for run in session.runs if run.load[1]]
    if loads:
        before, _ = loads[0]
        _, after = loads[-1]
        share = steal_share(before, after)
        facts |= {'before': before, 'after': after, 'steal_share': share}
    ran, waited = record.ran_and_waited(session.runs)
    start, end = _local(session.start), _local(session.end)
    age = time.time() - session.end
    return JudgedSession(
        uuid=session.uuid, system=planned.system, start=start, end=end, elapsed=session.elapsed, age=age,
        run_time=ran, wait_time=waited, interrupted=session.interrupted, cmdline=session.cmdline,
        reframe=session.reframe, software=session.announcement, facts=facts)


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
    is_same_boot = total > 0 and 0 <= steal <= total        # counters that went backwards belong to two boots
    return steal / total if is_same_boot else None


def _trust(cells: list[Cell], shared: AlarmBudget, session: Session) -> str:
    """Return the line with the number of judged cells, their judges, and the budget of false alarms."""
    parts = []
    unknown = Counter('left out' if cell.verdict == 'skipped' else 'disturbed' for cell in too_often(cells))
    for word, count in unknown.items():
        parts.append(f'{count} {word} for {TOO_OFTEN} nights in a row or more')
    ended = 0
    for runs in session.attempts.values():
        ended += any(run.exitcode for run in runs)
    if ended:
        cases = counted(ended, 'case')
        parts.append(f'{cases} passed with an exit code other than 0')
    parts.append(_judged_by_bounds(cells))
    with_history = [cell for cell in cells if cell.history != '']
    short = sum(cell.history == 'insufficient' for cell in with_history)
    by_history = len(with_history) - short
    if by_history:
        parts.append(f'{by_history} against their last nights')
    by_chance = budget.sentence(shared)
    if by_chance:
        parts.append(by_chance)
    if short:
        histories = counted(short, 'history')
        parts.append(f'{histories} too short for that ({bounds.FIRST + 1} nights)')
    return '; '.join(parts)


def _judged_by_bounds(cells: list[Cell]) -> str:
    """Return the number of judged cells, and how many of these have accepted bounds."""
    judged = [cell for cell in cells if cell.is_judged]
    bounded = sum(cell.reference is not None for cell in judged)
    count = f'{len(judged)} of {len(cells)} judged'
    if bounded:
        some = f': {bounded}' if bounded < len(judged) else ''
        return f'{count}{some} against accepted bounds'
    if all(cell.reference is None for cell in cells):
        return f'{count}: no reference has been accepted for these cells'
    return count


def _next(cells: list[Cell], of_session: Session, system: str, gone: list[Cell]) -> str:
    """The next command; ``gone``: the missing cells that the plan lacks."""
    uuid = of_session.uuid
    bad = [cell for cell in cells if cell.verdict in acks.BAD and not cell.acknowledged]
    if bad:
        worst = min(bad, key=lambda cell: WORDS.index(cell.verdict))
        return _show(worst, cells, uuid)
    missing = [cell for cell in cells if cell.verdict == 'missing']
    if any(cell.kind is Kind.NO_PROGRAM for cell in missing):
        return f'parity doctor --system {system} (names what each code needs)'
    if gone:
        return (f'bring {gone[0].check} back, or name it below retired: in systems/{system}/system.yaml '
                '(docs/nightly.md)')
    if missing and paths.checkout():
        return 'ci/nightly (runs what never ran)'
    brings = of_session.facts.get('brings_codes', '')
    if brings and not any(cell.judged_by for cell in cells):
        return brings
    whole = database.wider(uuid)
    if whole:
        return f'parity verdict --session {whole[:8]} (the last one with more cases; this one is {uuid[:8]})'
    for cell in cells:
        is_open = cell.verdict in ('unreferenced', 'ok', 'blind')
        if is_open and cell.reference is None and not cell.label:
            return f'parity refs propose --system {system} (after {bounds.FEWEST} nights)'
    return 'parity verdict --all'


def _show(cell: Cell, cells: list[Cell], uuid: str) -> str:
    """Return the command that shows a bad cell of a session, or its incident."""
    if cell.incident:
        return f'parity show {cell.incident}'
    is_newest = database.last() in ('', uuid)
    session = '' if is_newest else f' --session {uuid[:8]}'
    name = shlex.quote(model.name(cell, cells))
    return f'parity show {name}{session}'


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
    coverages: list[CodeCoverage] = []
    lacking: list[Code] = []
    for code in codes.measured():
        able = {code.feature, code.stand_in}
        is_selected = not able.isdisjoint(needing)
        is_loaded = not able.isdisjoint(loaded)
        is_broken = bool(broken) and paths.named(code.file) in broken
        if not (is_selected or is_loaded or is_broken):
            continue
        coverage = _of_code(code, cells, needing)
        if coverage is None and not code.optional:     # nobody asked for an application that is not here
            reason = model.NOT_SELECTED
            if is_selected:
                reason = absent.get(code.feature, 'no check' if spack else 'no Spack')
            elif is_broken:
                reason = 'no check'
            coverage = CodeCoverage(code=code.name, measured=False, lacking=is_selected, reason=reason)
        if coverage is None:
            continue
        coverages.append(coverage)
        if coverage.lacking:
            lacking.append(code)
    measured = sum(coverage.measured for coverage in coverages)
    total = sum(coverage.reason != model.NOT_SELECTED for coverage in coverages)
    line = _line(coverages, measured, total, _ours(cells, plan))
    if any(code.feature in absent for code in lacking):
        line += f'; parity doctor --system {plan.system} says what they need'
    if any(code.spack and code.feature not in absent for code in lacking):
        line += f'; {codes.without_github(plan.system)}'
    return Coverage(line=line, codes=coverages, measured=measured, total=total, cells=len(cells))


def _of_code(code: Code, cells: list[Cell], needing: dict[str, set[str]]) -> CodeCoverage | None:
    """Return whether a code was measured; None where none of its cases could run."""
    cases = needing.get(code.feature, ())
    own = [cell for cell in cells if cell.case in cases]
    if any(cell.value is not None for cell in own):
        return CodeCoverage(code=code.name, measured=True, by=code.name)
    standing = []
    cases = needing.get(code.stand_in, ())
    for cell in cells:
        if cell.case in cases and cell.metric.startswith(code.stands_for):
            standing.append(cell)
    labels = [cell.label for cell in standing if cell.value is not None]
    if labels:
        cached = f'{code.stand_in} only {labels[0]}' if all(labels) else ''
        return CodeCoverage(code=code.name, measured=not cached, by=code.stand_in, reason=cached)
    planned = own or standing
    is_offered = any(cell.environ for cell in planned)
    is_required = any(cell.verdict != 'skipped' for cell in planned)
    if not is_offered and not is_required:
        return None
    word = planned[0].verdict
    return CodeCoverage(code=code.name, measured=False, reason=word, lacking=not is_offered)


def _ours(cells: list[Cell], plan: Plan) -> list[str]:
    """Return the codes of parity's own that have a figure."""
    file_of = {case.case: case.file for case in plan.cases}
    measured = {file_of.get(cell.case) for cell in cells if cell.value is not None}
    ours = []
    for code in codes.every():
        is_foreign = code.spack or code.package or code.profiles
        if is_foreign:
            continue
        file = paths.named(code.file)
        if file in measured:
            ours.append(code.name)
    return ours


def _line(coverages: list[CodeCoverage], measured: int, total: int, ours: list[str]) -> str:
    """Return '3 of 13 codes (A stands in for B C; no Spack: D E F; parity's own: G)'; no count of no code."""
    groups: dict[str, list[str]] = {}
    for code in coverages:
        if not code.measured:
            groups.setdefault(f'{code.reason}: ', []).append(code.code)
        elif code.by != code.code:
            groups.setdefault(f'{code.by} stands in for ', []).append(code.code)
    if ours:
        groups["parity's own: "] = ours
    parts = []
    for why, names in groups.items():
        parts.append(why + ' '.join(names))
    text = '; '.join(parts)
    if not total:
        return text
    count = f'{measured} of {counted(total, "code")}'
    return f'{count} ({text})' if text else count


# ---- the cells that tonight's plan lacks, and the nights before had

#: A planned cell, by the names in PLANNED.
Row = dict[str, str]
_cell, _order = itemgetter(*CELL), itemgetter('subsystem', 'check', 'case', 'partition', 'environ', 'metric')
#: A planned cell without its environment.
_figure = itemgetter('check', 'case', 'partition', 'size', 'metric')


def _absent(session: Session, plan: dict[str, Any], system: System, cells: list[Cell], never_ran: set[str]
            ) -> _Absent:
    """Return the missing cells, the retired ones, and warnings: each retired entry that is planned again, and
    cells that ended with the selection of the nights before.

    The nights before have the same selection and size, but for cells whose incident is open: ``never_ran``, by
    name. Nothing lacks in a session that ci/nightly did not begin, nor in the confirmation of another."""
    before, other = [], None
    if session.selection:
        before = _before(session, system.name, never_ran)
        other = _other_selection(session, system.name)
    elif session.is_imported:
        from parity.judge.verdict import vanished  # it loads polars
        before = vanished.expected(session, system.name)
    absent = _Absent([], [], [], [])
    if not before and not system.retired and not other:
        return absent
    tonight = [dict(zip(PLANNED, row, strict=True)) for row in planned(plan)]
    absent.warnings.extend(_retired_but_measured(session, system, cells, tonight))
    here = set(map(_cell, tonight))
    sizes = {OWN, *(row['size'] for row in tonight)}
    lacking = []
    for row, night in before:
        if _cell(row) in here:
            continue
        if row['size'] in sizes or incidents.row_name(row, system.name) in never_ran:
            lacking.append((row, night))
    lacking.sort(key=lambda pair: _order(pair[0]))
    holding = _holding(system, session)
    not_offered = {_figure(vars(cell)): cell for cell in cells if not cell.environ}
    for row, night in lacking:
        planned_tonight = not_offered.get(_figure(row))
        if any(_retires(entry, row) for entry in holding):
            cell = _absent_cell(row, night, session, system.name, 'skipped')
            absent.retired.append(cell)
        elif planned_tonight:
            cell = _not_offered_cell(row, night, planned_tonight)
            absent.missing.append(cell)
            absent.replaced.append(planned_tonight)
        else:
            cell = _absent_cell(row, night, session, system.name, 'missing')
            absent.missing.append(cell)
    if other:
        here.update(_cell(row) for row, _ in lacking)
        absent.warnings.extend(_ended(other, here, holding))
    return absent


def _retired_but_measured(session: Session, system: System, cells: list[Cell], tonight: list[Row]) -> list[str]:
    """Return a warning for each retired entry whose cells were not all skipped tonight, or whose nodes ran a job.

    ``tonight``: the planned cells of the session."""
    if not system.retired:
        return []
    not_skipped = {_cell(vars(cell)) for cell in cells if cell.verdict != 'skipped'}
    rows = [row for row in tonight if _cell(row) in not_skipped]
    warnings = []
    for place, entry in enumerate(system.retired):
        if entry.nodes:
            continue
        if any(_retires(entry, row) for row in rows):
            warnings.append(_again(place, system))
    if any(entry.nodes for entry in system.retired):
        from parity.judge.nodes import listing  # it loads polars
        ran_on = {node for run in session.runs for node in run.nodes}
        warnings += listing.retired_again(system, session.start, ran_on)
    return warnings


def _absent_cell(row: Row, night: Session, session: Session, system: str, word: model.Word) -> Cell:
    """Return a cell that the session lacks. ``night``: the last one that had the cell."""
    day = datetime.date.fromtimestamp(night.start)
    case = row['case'], row['partition'], row['environ']
    kind = Kind.NONE
    if not night.is_imported:
        what = 'not in this plan; planned last'
    elif case in session.attempts:
        what, kind = 'its test ran without it; it had a figure last', Kind.NO_FIGURE
    else:
        what = 'it did not run; it ran last'
    reason = f'{what} on {day} (session {night.uuid[:8]})'
    return Cell(**row, system=system, verdict=word, reason=reason, kind=kind)


def _not_offered_cell(row: Row, night: Session, planned_tonight: Cell) -> Cell:
    """Return a cell that no environment offers tonight, as a waiver allows or not. ``night``: the last one that
    had the cell. ``planned_tonight``: the same without its environment."""
    is_waived = planned_tonight.kind is Kind.WAIVED
    word: model.Word = 'skipped' if is_waived else 'missing'
    day = datetime.date.fromtimestamp(night.start)
    reason = f'{planned_tonight.reason}; it ran last on {day} (session {night.uuid[:8]})'
    return planned_tonight.model_copy(update={'environ': row['environ'], 'verdict': word, 'reason': reason})


def _ended(night: Session, here: set[tuple], holding: list[Retired]) -> list[str]:
    """Return the warning that names cells of the night before which another selection leaves out.

    ``here``: the cells that tonight has, or misses. ``holding``: the retired entries."""
    from parity.judge.store import history  # it loads polars
    rows = []
    for row in history.planned(night.uuid)[night.uuid]:
        is_retired = any(_retires(entry, row) for entry in holding)
        if _cell(row) not in here and not is_retired:
            rows.append(row)
    if not rows:
        return []
    names = {f'{row["check"]} on {row["partition"]}+{row["environ"]}' for row in rows}
    day = datetime.date.fromtimestamp(night.start)
    count = counted(len(rows), 'cell')
    ends = 'ends' if len(rows) == 1 else 'end'
    listed = several(sorted(names))
    return [f'the selection changed: {count} of {day} (session {night.uuid[:8]}) {ends} with it, told once: '
            f'{listed}']


def _holding(system: System, session: Session) -> list[Retired]:
    """Return the retired entries that hold on the night of the session."""
    night = datetime.date.fromtimestamp(session.start)
    return [entry for entry in system.retired if entry.since <= night]


def _not_missed(cell: Cell, system: System, session: Session) -> Cell:
    """Return the cell; nobody waits for a retired one that is left out."""
    if not cell.skipped_nights:
        return cell
    row = vars(cell)
    is_retired = any(_retires(entry, row) for entry in _holding(system, session))
    return cell.model_copy(update={'skipped_nights': 0}) if is_retired else cell


def _other_selection(session: Session, system: str) -> Session | None:
    """Return the night before, where it is of another selection and none before the session is of its own."""
    newest = None
    for night in takewhile(lambda night: night.uuid != session.uuid, database.sessions(system)):
        if not night.selection or not night.planned:
            continue
        if night.selection == session.selection:
            return None
        newest = night
    return newest


def _before(session: Session, system: str, never_ran: set[str]) -> list[tuple[Row, Session]]:
    """Return the cells of the nights before, each with the newest night that planned it: those of the same
    selection, and of any selection those that ``never_ran``, by name."""
    last: dict[tuple[str, bool], Session] = {}       # by its plan, and whether its selection is the same
    for night in takewhile(lambda night: night.uuid != session.uuid, database.sessions(system)):
        is_same = night.selection == session.selection
        counts = is_same or never_ran and night.selection
        if night.planned and counts:
            last[night.planned, is_same] = night
    if all(plan == session.planned for plan, _ in last):
        return []
    from parity.judge.store import history  # it loads polars
    oldest_first = sorted(last.items(), key=lambda item: item[1].start)
    cells_of = history.planned(*(night.uuid for _, night in oldest_first))
    newest: dict[tuple, tuple[Row, Session]] = {}
    for (_, is_same), night in oldest_first:
        for row in cells_of[night.uuid]:
            if is_same or incidents.row_name(row, system) in never_ran:
                newest[_cell(row)] = row, night
    return list(newest.values())


def _retires(entry: Retired, row: Row) -> bool:
    """Return whether the entry names the cell, by its node (reframe --distribute), by its check or by its case;
    spaces do not count."""
    if entry.nodes:
        _, node = undistributed(row['case'])
        return node_name(node) in entry.nodes
    if entry.partition not in ('', row['partition']):
        return False
    if entry.environ not in ('', row['environ']):
        return False
    check = entry.check.replace(' ', '')
    case = row['case'].replace(' ', '')
    return check in ('', row['check'], case)


def _again(place: int, system: System) -> str:
    return (f'{systems.line(system.name, ("retired", place))}: retired: {system.retired[place]} is planned again: '
            'take the entry out, or its next absence is not told')
