"""The session that this very ReFrame process runs: begun when its settings are read, closed at exit.

Before ReFrame touches anything the session takes the lock and recovers what a killed one left. Before the first
case starts it writes its plan (judge.store.plan_file) and a journal, results/running/<id>.json. A killed session
leaves the journal behind; the next one recovers what the perflogs hold (parity.measure.session.recovery)."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import runpy
import socket
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity.base import codes, errors, files, paths
from parity.base.errors import InfrastructureError, NothingMeasured, ParityError, UsageError
from parity.base.files import Lock
from parity.judge.store import database, plan_file, writing
from parity.measure.rfm import patches, planning
from parity.measure.scheduler.command import controller
from parity.measure.session import recovery
from parity.site.plan import Plan, none_can_run

#: Set in the processes that only plan: they read the same settings and run nothing.
PLANNING = 'PARITY_PLANNING'


@dataclass
class Current:
    """The session that runs; ``entered``: a case has begun."""

    id: str
    journal: Path
    began: float = field(default_factory=time.time)
    entered: bool = False
    contents: dict[str, Any] = field(default_factory=dict)


_lock: Lock | None = None
_current: Current | None = None


def begin(argv: list[str]) -> None:
    """Begin the session of `reframe ARGV` if that is a run; of a dry run, say at its end why it set nothing up. Do
    nothing for any other command. Raises InfrastructureError when another session measures on this system, or its
    results could not be kept, UsageError on a login node."""
    if PLANNING in os.environ:
        return
    if '--dry-run' in argv:
        from parity.measure.rfm import capture
        capture.install(_rehearse)
    elif planning.lists(argv):
        patches.tell_empty_lists(lambda: planning.why_none(argv))
    elif _lock is None and runs(argv):
        _begin_run(argv)


def _begin_run(argv: list[str]) -> None:
    """Take the lock, recover what a killed session left, and open the session once ReFrame has its cases."""
    global _lock
    _lock = lock_of(argv)
    database.demand_room()
    _lock.acquire()
    writing.make_usable()
    recovery.recover_all()
    import concurrent.futures.thread  # noqa: F401  polars needs it at exit, when Python loads it no more

    from parity.measure.rfm import capture
    capture.install(lambda planned, cases: errors.run(lambda: _open(planned, cases)))


def runs(argv: list[str]) -> bool:
    """Return whether `reframe ARGV` measures: -r or --run, by itself, shortened, or before other letters as in -vr
    and -rn."""
    if PLANNING in os.environ or '--dry-run' in argv:
        return False
    return any(word in ('--run', '--ru') or re.match(r'-[vqR]*r', word) for word in argv)


def lock_of(argv: list[str]) -> Lock:
    """Return the lock of the system that `reframe ARGV` measures: one run at a time."""
    system = system_of(argv)
    return files.lock_of(system, f'reframe on {system}')


def system_of(argv: list[str]) -> str:
    """Return the system that `reframe ARGV` measures. UsageError for an unknown one, and for this machine where it
    was not named and looks like a login node."""
    from parity.site import systems
    name = systems.named(argv)
    if systems.stated(argv) is None and systems.read(name).detect is True:
        batch = controller()
        if batch:
            raise UsageError(f'a live {batch} controller answers here: this looks like a login node, which a '
                             f'benchmark must not load; name the system (--system {name} to measure it anyway)')
    return name


def _rehearse(planned: dict[str, Any], cases: list[Any]) -> None:
    """Print at the end of a dry run why it set nothing up."""
    if cases:
        return
    reasons = [problem['what'] for problem in planned['problems']]
    why = none_can_run(Plan(**planned)) or f'nothing can run: {"; ".join(reasons)}'
    atexit.register(print, f'parity: {why}', file=sys.stderr)


def _open(planned: dict[str, Any], cases: list[Any]) -> None:
    """Begin the session of ``cases``; ``planned`` has those, too, that cannot run. UsageError where nothing is
    selected, NothingMeasured where no selected case can run: such a session would say nothing of the machine."""
    global _current
    from parity.site import systems
    system = planned['system']
    problems = [f'{problem["file"]}: {problem["what"]}' for problem in planned['problems']]
    if not planned['cases']:
        raise UsageError('\n'.join(problems))
    why = '' if cases else none_can_run(Plan(**planned))
    if why:
        raise NothingMeasured(f'{why}; run: parity doctor --system {system}')
    for problem in problems:
        print(f'parity: warning: {problem}', file=sys.stderr)
    systems.guard_references(system)
    number = uuid.uuid4().hex[:12]
    current = Current(number, paths.results() / 'running' / f'{number}.json')
    current.contents = _contents(number, planned, cases)
    plan_file.write(current.contents)
    patches.name_session(number)
    files.write(current.journal, _journal(current, system))
    atexit.register(_close, current, os.getpid(), system)
    _current = current


def _contents(number: str, planned: dict[str, Any], cases: list[Any]) -> dict[str, Any]:
    """Return the session as its plan's file has it: the plan, and the facts of the machine and its software."""
    facts = {}
    announcement = ''
    if cases:
        partition = cases[0].partition
        facts = _facts(partition)
        announcement = partition.extras.get('announcement', '')
    facts['brings_codes'] = _brings_codes(planned, facts.get('software', {}))
    return {'id': number, 'plan': planned, 'facts': facts, 'announcement': announcement}


def _journal(current: Current, system: str) -> str:
    """Return the journal of a session: what the next one needs if this one is killed."""
    return json.dumps({
        'id': current.id,
        'host': socket.gethostname(),
        'pid': os.getpid(),
        'system': system,
        'time_start_unix': current.began,
        'argv': sys.argv,
        'session': {'id': current.id},
        'study': os.environ.get(paths.STUDY, ''),
    })


def enter() -> Current:
    """Return the running session, which a case enters that is being set up."""
    if _current is None:
        raise InfrastructureError('this run has no session of parity: write -r as an argument of its own')
    _current.entered = True
    return _current


def add_metrics(case: str, partition: str, environ: str, metrics: list[dict[str, str]]) -> None:
    """Add metrics to the plan of a case that only its run makes known."""
    for planned in _current.contents['plan']['cases']:
        if (planned['case'], planned['partition'], planned['environ']) != (case, partition, environ):
            continue
        names = {metric['name'] for metric in planned['metrics']}
        more = [{**metric, 'left_out': ''} for metric in metrics if metric['name'] not in names]
        if more:
            planned['metrics'] = [*planned['metrics'], *more]
            plan_file.write(_current.contents)


def _facts(partition) -> dict[str, Any]:
    """Return the facts of the partition's machine, its limits, its software and parity, for the report."""
    facts = {
        'parity': paths.version(),
        'software': {environ.name: environ.extras.get('software', {}) for environ in partition.environs},
    }
    for name in ('machine', 'limits', 'filesystems'):
        facts[name] = partition.extras.get(name, {})
    return facts


def _brings_codes(planned: dict[str, Any], software: dict[str, Any]) -> str:
    """Return the command that brings what selected cases need and is not here; '' where nothing lacks."""
    from parity.measure.software import remedies
    from parity.site import systems
    needed = set()
    for case in planned['cases']:
        if not case['environ']:
            needed.update(case['needs'])
    installable = {*codes.features(), *codes.TOOLS.values()} - codes.applications()
    absent = set()
    here = set()
    for facts in software.values():
        absent.update(facts.get('absent', {}))
        here.update(facts.get('programs', {}))
    return remedies.next_step(systems.read(planned['system']), absent, sorted(needed & installable), here)


def _close(current: Current, pid: int, system: str) -> None:
    """End the session at exit, and print its verdict. ci/nightly prints it itself; a study is not judged.

    If the session can be stored nowhere (a full disk), the journal stays, and the next run recovers from it."""
    if os.getpid() != pid:
        return
    try:
        _demand_stored(current)
        current.journal.unlink(missing_ok=True)
    except (ParityError, OSError) as err:
        print(f'parity: {err}: the next run recovers this session', file=sys.stderr)
        return
    if paths.STUDY not in os.environ and not any(word.startswith('parity_') for word in sys.argv):
        print(flush=True)
        sys.argv = ['parity.judge.report', system]
        with contextlib.suppress(SystemExit):       # ReFrame's exit code stays
            runpy.run_module('parity.judge.report', run_name='__main__')


def _demand_stored(current: Current) -> None:
    """Have the session in the database: ReFrame stores one in which a case has begun, parity any other."""
    if database.holds(current.id):
        return
    if current.entered:
        raise InfrastructureError(f'{paths.database()}: ReFrame did not store the session')
    session = {'id': current.id}
    writing.store(writing.as_report(session, [], current.began, time.time(), cmdline=' '.join(sys.argv)))
