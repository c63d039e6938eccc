"""Recovery of killed sessions: their jobs and processes are ended, their finished cases stored. ReFrame writes its
results database when a session ends; a kill -9 leaves only the perflogs, one line a finished case. Those lines
become a session of their own in the database, marked `interrupted`. Planned cells that have no line are `missing`
there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity.base import paths
from parity.base.errors import UsageError
from parity.base.figures import counted
from parity.judge.store import database, journals, plan_file, writing
from parity.judge.store.journals import Journal
from parity.measure.rfm import store
from parity.measure.scheduler import pbs, slurm
from parity.measure.scheduler.command import SchedulerError
from parity.site import systems

#: A figure of a perflog's line (PERFVALUE of parity.measure.session.assemble).
_PERFVALUE = re.compile(r'(?P<name>[^=;]+)=(?P<value>\S+) \[(?P<unit>[^\]]*)\] '
                        r'ref=(?P<reference>[^,;]*),(?P<lower>[^,;]*),(?P<upper>[^;]*?)(?:;|$)')
#: The perflog's sign for an absent value.
_NOTHING = ('None', 'null', '')
PROC = Path('/proc')


def recover_all() -> list[str]:
    """Recover every killed session of this host; returns a sentence for each, also printed. A killed session of
    another host is left alone, with a warning."""
    sentences = []
    for journal in journals.left_behind():
        if journal.is_here:
            sentence = _recover(journal)
            sentences.append(sentence)
            print(f'parity: {sentence}', file=sys.stderr)
        else:
            print(f'parity: warning: {journal.left_alone()}', file=sys.stderr)
    return sentences


def take(name: str) -> str:
    """Recover the session ``name`` (or its beginning), of any host. UsageError for a session that is not there,
    InfrastructureError while its system is measured."""
    killed = journals.every()
    fitting = [journal for journal in killed if journal.id.startswith(name)]
    if len(fitting) != 1:
        valid = ', '.join(journal.id for journal in killed) or 'none was killed'
        raise UsageError(f'{paths.results() / "running"}: {counted(len(fitting), "session", "are")} named '
                         f'{name!r}; valid: {valid}')
    journal, = fitting
    sentence = _recover(journal)
    return sentence if journal.is_here else f'{sentence}; what it left running elsewhere is not ended'


def _recover(journal: Journal) -> str:
    """Store the session as far as it is found, remove its journal, and say so in a sentence."""
    with journal.lock().held(), paths.of_study(journal.study):
        queue = cancel_jobs(journal.system, journal.id)
        ended = end_processes(journal.id)
        if database.holds(journal.id):
            sentence = f'session {journal.id} was complete'
        else:
            cases = counted(_store(journal), 'finished case')
            sentence = f'session {journal.id} was killed: recovered {cases} from the perflogs'
        if queue.cancelled:
            sentence += f'; cancelled {counted(queue.cancelled, "job")} that it had left in the queue'
        if ended:
            sentence += f'; ended {counted(ended, "process")} that it had left running'
        if queue.silent:
            sentence += f'; the next run cancels the jobs that it may have left in the queue: {queue.silent}'
        if not (queue.silent and journal.is_here):
            journal.file.unlink(missing_ok=True)
    return sentence


def _store(journal: Journal) -> int:
    """Store the finished cases of a killed session, and return how many."""
    cases = cases_of(journal.id)
    ends = [case['job_completion_time_unix'] or 0 for case in cases]
    info = {**plan_file.extras(journal.command), 'interrupted': True, 'cmdline': shlex.join(journal.command)}
    writing.make_usable()
    writing.store(writing.as_report(journal.session, cases, journal.began, max([journal.began, *ends]), **info))
    return len(cases)


def cases_of(journal_id: str) -> list[dict[str, Any]]:
    """Return the finished cases of a session, as its perflogs tell them, in order of completion."""
    cases = []
    for log in sorted((paths.results() / 'perflogs').rglob('*.log*')):
        for line in log.read_text(errors='replace').splitlines():
            case = _case(line) if journal_id in line else None
            if case and case['parity']['journal'] == journal_id:
                cases.append(case)
    return sorted(cases, key=lambda case: case['job_completion_time_unix'] or 0)


def _case(line: str) -> dict[str, Any] | None:
    """A perflog's line as a case of ReFrame's report; None for a header or a line cut short."""
    fields = line.split('|', len(store.PERFLOG_COLUMNS) - 1)
    try:
        case: dict[str, Any] = dict(zip(store.PERFLOG_COLUMNS, fields, strict=True))
        case['parity'] = json.loads(case['parity'])
        case['job_completion_time_unix'] = _number(case['job_completion_time_unix'])
        case['perfvalues'] = _perfvalues(case['perfvalues'], f'{case["system"]}:{case["partition"]}')
    except (ValueError, TypeError):
        return None
    if not isinstance(case['parity'], dict) or 'journal' not in case['parity']:
        return None
    case['fixture'] = False
    case['fail_reason'] = None
    if case['fail_phase'] in _NOTHING:
        case['fail_phase'] = None
    case['job_nodelist'] = case['parity'].get('nodes', [])
    return case


def _perfvalues(text: str, place: str) -> dict[str, list]:
    """Read the figures of a perflog's line in the form of a report: value, reference, bounds, unit, result."""
    figures = {}
    for match in _PERFVALUE.finditer(text):
        numbers = [_number(match[part]) for part in ('value', 'reference', 'lower', 'upper')]
        figures[f'{place}:{match["name"]}'] = [*numbers, match['unit'], None]
    return figures


def _number(text: str) -> float | None:
    return None if text in _NOTHING else float(text)


@dataclass(frozen=True)
class Queue:
    """The jobs of a session that were cancelled, and '' or why the scheduler does not tell them."""

    cancelled: int = 0
    silent: str = ''


def cancel_jobs(system: str, session_id: str) -> Queue:
    """Cancel the jobs of the session that have not ended; a later job of the same case would share their folder.

    A job is the session's if its script, which lies in its folder, says so. A scheduler whose commands are not
    here is not asked."""
    try:
        schedulers = {part.scheduler for part in systems.read(system).partitions}
    except UsageError:      # the system is gone
        return Queue()
    cancelled = 0
    silent = ''
    for module, command, backends in ((slurm, 'squeue', {'slurm', 'squeue'}), (pbs, 'qselect', {'pbs', 'pbspro'})):
        if not schedulers & backends or not shutil.which(command):
            continue
        try:
            for job, folder in module.folders().items():
                if f'PARITY_SESSION={session_id}\n' in _text(Path(folder, 'rfm_job.sh')):
                    module.cancel(job)
                    cancelled += 1
        except SchedulerError as err:
            silent = str(err)
    return Queue(cancelled, silent)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors='replace')
    except OSError:
        return ''


def processes_of(session_id: str) -> list[int]:
    """Return the processes whose environment says that they belong to the session; none where /proc is that of
    another pid namespace, where its numbers are those of other processes."""
    own = PROC / 'self'
    if not own.is_symlink() or os.readlink(own) != str(os.getpid()):
        return []
    pids = []
    for folder in PROC.iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            variables = _text(folder / 'environ').split('\0')
            if f'PARITY_SESSION={session_id}' in variables:
                pids.append(int(folder.name))
    return pids


#: Seconds that processes have to end by themselves.
_GRACE = 3.0


def end_processes(session_id: str) -> int:
    """End every process of the session: SIGTERM, and SIGKILL after the grace. Returns their number."""
    ended: set[int] = set()
    began = time.monotonic()
    while pids := processes_of(session_id):
        waited = time.monotonic() - began
        if waited > 2 * _GRACE:
            break
        for pid in pids:
            if waited > _GRACE:
                _signal(pid, signal.SIGKILL)
            elif pid not in ended:
                _signal(pid, signal.SIGTERM)
        ended.update(pids)
        time.sleep(0.1)
    return len(ended)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
