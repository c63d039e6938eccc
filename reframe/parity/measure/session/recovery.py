"""Recovery of killed sessions: their jobs and processes are ended, their finished cases stored. ReFrame writes its
results database when a session ends; a kill -9 leaves only the perflogs, one line a finished case. Those lines
become a session of their own in the database, marked `interrupted`. Planned cells that have no line are `missing`
there.

A session holds its system's lock until its process ends. So one whose lock is free was killed. Where locks do not
work between the hosts that share the results, this is certain on the session's own host only."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from parity.base import paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted
from parity.base.files import Lock, lock_of
from parity.judge.store import database, plan_file
from parity.measure.rfm import store
from parity.measure.scheduler import pbs, slurm
from parity.measure.scheduler.command import SchedulerError
from parity.site import systems

_PERFVALUE = re.compile(r'([^=;]+)=(\S+) \[([^\]]*)\] ref=([^,;]*),([^,;]*),([^;]*?)(?:;|$)')
#: The perflog's sign for an absent value.
_NOTHING = ('None', 'null', '')
_KEYS = {'id': str, 'pid': int, 'time_start_unix': float, 'argv': list, 'session': dict}
PROC = Path('/proc')


def make_usable() -> None:
    """Remove a database whose tables a full disk or a kill did not let ReFrame make; give it its version if only
    that lacks.

    Raises InfrastructureError for a file that could not take the session of a run, and holds something."""
    file = paths.database()
    if file.is_symlink():
        raise InfrastructureError(f'{file}: lies behind a link: none below results/ is followed; '
                                  'set PARITY_RESULTS to another folder')
    if not file.is_file():
        return
    tables = {name for name, in database.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if lacking := sorted({'sessions', 'testcases'} - tables):
        if any(database.query(f'SELECT 1 FROM "{name}" LIMIT 1') for name in tables):
            raise InfrastructureError(f'{file}: lacks the table {lacking[0]} and is not empty: no session can be '
                                      'stored there; move it away')
        file.unlink()
    elif not (said := database.query('SELECT schema_version FROM metadata')):
        store.make_database()
    elif said[0][0] != store.version():
        raise InfrastructureError(f'{file}: has tables of version {said[0][0]}, this ReFrame stores version '
                                  f'{store.version()}; move it away, or measure with the ReFrame that made it')


def recover_all() -> list[str]:
    """Recover every killed session of this host; returns a sentence for each, also printed. A killed session of
    another host is left alone, with a warning."""
    told = []
    for state in _left_behind():
        if here := _is_here(state):
            told.append(_recover(state))
        print(f'parity: {told[-1] if here else f"warning: {_unknown(state)}"}', file=sys.stderr)
    return told


def take(name: str) -> str:
    """Recover the session ``name`` (or its beginning), of any host. UsageError for a session that is not there,
    InfrastructureError while its system is measured."""
    known = _journals()
    fitting = [state for state in known if state['id'].startswith(name)]
    if len(fitting) != 1:
        raise UsageError(f'{paths.results() / "running"}: {counted(len(fitting), "session", "are")} named '
                         f'{name!r}; valid: {", ".join(state["id"] for state in known) or "none was killed"}')
    state, = fitting
    said = _recover(state)
    return said if _is_here(state) else f'{said}; what it left running elsewhere is not ended'


def measures(study: str) -> bool:
    """Return whether a session of the study (not '') was begun, and has not ended or was not recovered."""
    return bool(study) and any(state['study'] == study for state in _journals())


def _journals() -> list[dict[str, Any]]:
    """The journals in their folder. A file that another hand wrote is moved aside, with a warning."""
    found = []
    for journal in sorted((paths.results() / 'running').glob('*.json')):
        try:
            state = json.loads(journal.read_text())
            if not isinstance(state, dict) or not all(isinstance(state.get(k), t) for k, t in _KEYS.items()):
                raise ValueError
            # an older journal names no host
            found.append({'system': 'unknown', 'host': 'an unknown host', 'study': '', **state, 'file': journal})
        except FileNotFoundError:   # its session has just ended
            pass
        except OSError as err:
            print(f'parity: warning: {journal}: {err.strerror}: its session is left alone', file=sys.stderr)
        except ValueError:
            print(f'parity: warning: {journal} is no journal of a session: moved to {journal.name}.bad',
                  file=sys.stderr)
            with contextlib.suppress(OSError):
                journal.rename(journal.with_name(f'{journal.name}.bad'))
    return found


def _lock(state: dict[str, Any]) -> Lock:
    """The lock that the session held while it ran."""
    return lock_of(state['system'], f'recovery of session {state["id"]}')


def _left_behind() -> list[dict[str, Any]]:
    """Journals of killed sessions. One whose system is being measured is recovered by the run that measures it."""
    return [state for state in _journals() if not _lock(state).held_elsewhere()]


def _is_here(state: dict[str, Any]) -> bool:
    return state['host'] == socket.gethostname()


def warnings() -> list[str]:
    """A sentence for each session that was begun, and neither runs nor is in the database."""
    return [f'session {state["id"]} was killed: the next run recovers it'
            if _is_here(state) else _unknown(state) for state in _left_behind()]


def _unknown(state: dict[str, Any]) -> str:
    return (f'session {state["id"]}, begun by process {state["pid"]} on {state["host"]}, is left alone: it may '
            f'still run there. If it was killed: parity merge --recover {state["id"]}')


def _recover(state: dict[str, Any]) -> str:
    """Store the session as far as it is found, remove its journal, and say so in a sentence."""
    with _lock(state).held(), paths.of_study(state['study']):
        cancelled, silent = cancel_jobs(state['system'], state['id'])
        left = f'; cancelled {counted(cancelled, "job")} that it had left in the queue' if cancelled else ''
        ended = end_processes(state['id'])
        left += f'; ended {counted(ended, "process")} that it had left running' if ended else ''
        left += f'; the next run cancels the jobs that it may have left in the queue: {silent}' if silent else ''
        if database.holds(state['id']):
            said = f'session {state["id"]} was complete{left}'
        else:
            cases = cases_of(state['id'])
            make_usable()
            began, command = state['time_start_unix'], shlex.join(state['argv'])
            end = max([began, *(case['job_completion_time_unix'] or 0 for case in cases)])
            info = {**plan_file.extras(state['argv']), 'interrupted': True, 'cmdline': command}
            store.store(store.as_report(state['session'], cases, began, end, **info))
            said = (f'session {state["id"]} was killed: recovered {counted(len(cases), "finished case")} '
                    f'from the perflogs{left}')
        if not (silent and _is_here(state)):
            state['file'].unlink(missing_ok=True)
    return said


def cases_of(journal_id: str) -> list[dict[str, Any]]:
    """Return the finished cases of a session, as its perflogs tell them, in order of completion."""
    cases = []
    for log in sorted((paths.results() / 'perflogs').rglob('*.log*')):
        for line in log.read_text(errors='replace').splitlines():
            if journal_id in line and (case := _case(line)) and case['parity']['journal'] == journal_id:
                cases.append(case)
    return sorted(cases, key=lambda c: c['job_completion_time_unix'] or 0)


def _case(line: str) -> dict[str, Any] | None:
    """A perflog's line as a case of ReFrame's report; None for a header or a line cut short."""
    fields = line.split('|', len(store.PERFLOG_COLUMNS) - 1)
    try:
        case: dict[str, Any] = dict(zip(store.PERFLOG_COLUMNS, fields, strict=True))
        place = f'{case["system"]}:{case["partition"]}'
        case |= {'parity': json.loads(case['parity']),
                 'job_completion_time_unix': _number(case['job_completion_time_unix']),
                 'perfvalues': {f'{place}:{name}': [*map(_number, (value, ref, low, up)), unit, None]
                                for name, value, unit, ref, low, up in _PERFVALUE.findall(case['perfvalues'])},
                 'fixture': False, 'fail_reason': None,
                 'fail_phase': None if case['fail_phase'] in _NOTHING else case['fail_phase']}
    except (ValueError, TypeError):
        return None
    if not (isinstance(case['parity'], dict) and 'journal' in case['parity']):
        return None
    return {**case, 'job_nodelist': case['parity'].get('nodes', [])}


def _number(text: str) -> float | None:
    return None if text in _NOTHING else float(text)


def cancel_jobs(system: str, session_id: str) -> tuple[int, str]:
    """Cancel the jobs of the session that have not ended; a later job of the same case would share their folder.

    Returns their number, and '' or why the scheduler does not tell them. A job is the session's if its script,
    which lies in its folder, says so. A scheduler whose commands are not here is not asked."""
    try:
        kinds = {each.scheduler for each in systems.read(system).partitions}
    except UsageError:      # the system is gone
        return 0, ''
    count, silent = 0, ''
    for module, command, backends in ((slurm, 'squeue', {'slurm', 'squeue'}), (pbs, 'qselect', {'pbs', 'pbspro'})):
        try:
            for job, folder in module.folders().items() if kinds & backends and shutil.which(command) else ():
                if f'PARITY_SESSION={session_id}\n' in _text(Path(folder, 'rfm_job.sh')):
                    module.cancel(job)
                    count += 1
        except SchedulerError as err:
            silent = str(err)
    return count, silent


def _text(file: Path) -> str:
    try:
        return file.read_text(errors='replace')
    except OSError:
        return ''


def processes_of(session_id: str) -> list[int]:
    """Return the processes whose environment says that they belong to the session; none where /proc is that of
    another pid namespace, where its numbers are those of other processes."""
    if not (PROC / 'self').is_symlink() or os.readlink(PROC / 'self') != str(os.getpid()):
        return []
    return [pid for each in PROC.iterdir() if each.name.isdigit() and (pid := int(each.name)) != os.getpid()
            and f'PARITY_SESSION={session_id}' in _text(each / 'environ').split('\0')]


#: Seconds that processes have to end by themselves.
_GRACE = 3.0


def end_processes(session_id: str) -> int:
    """End every process of the session: SIGTERM, and SIGKILL after the grace. Returns their number."""
    seen: set[int] = set()
    deadline = time.monotonic() + _GRACE
    while (pids := processes_of(session_id)) and (now := time.monotonic()) <= deadline + _GRACE:
        for pid in pids:
            if pid not in seen or now > deadline:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if now > deadline else signal.SIGTERM)
        seen.update(pids)
        time.sleep(0.1)
    return len(seen)
