"""PBS (OpenPBS, PBS Pro): qsub, qstat, qdel."""

from __future__ import annotations

import json
from pathlib import Path

from parity.errors import INFRASTRUCTURE
from parity.jobs.command import answer
from parity.jobs.state import SIGNAL, SchedulerError, State

_PENDING = set('QHWTM')
_RUNNING = set('RESUB')     # B: an array that has begun
#: Exit_status of a job that was ended by a signal: 256 and the signal's number.
_KILLED = 256


def submit(script: Path) -> str:
    """The id of the job that ``script`` has become."""
    return answer(['qsub', script.name], script.parent).strip()


def cancel(job: str) -> None:
    answer(['qdel', job])


def states(job: str) -> list[State]:
    """The job, or the elements of its array. SchedulerError where PBS has forgotten it."""
    try:
        return _read(answer(['qstat', '-x', '-t', '-f', '-F', 'json', job]))
    except SchedulerError:
        pass                            # a server that keeps no history refuses -x
    try:
        return _read(answer(['qstat', '-t', '-f', '-F', 'json', job]))
    except SchedulerError as err:
        raise SchedulerError(f'{err}; once a job has ended, its exit code is known only where the server keeps '
                             'a history (set server job_history_enable = True)', err.exit_code) from None


def _read(text: str) -> list[State]:
    try:
        jobs = json.loads(text).get('Jobs', {})
    except ValueError as err:
        raise SchedulerError(f'qstat printed no JSON: {err}') from None
    # of an array its elements tell; without any, it tells of itself
    elements = {name: job for name, job in jobs.items() if '[]' not in name}
    found = [_state(name, job) for name, job in (elements or jobs).items()]
    if not found:
        raise SchedulerError('qstat knows no such job')
    return found


def _state(name: str, job: dict) -> State:
    word, comment = job['job_state'], job.get('comment', '')
    phase = 'pending' if word in _PENDING else 'running' if word in _RUNNING else 'ended'
    used = job.get('resources_used', {})
    return State(name, phase, word, _exit_code(job) if phase == 'ended' else None, comment,
                 job.get('exec_host', ''), str(used.get('walltime', '')),
                 comment if phase == 'pending' and comment.startswith('Can Never Run') else '')


def _exit_code(job: dict) -> int:
    """Negative: PBS ended it (-29: its time was over); none: it was deleted before it ran."""
    status = job.get('Exit_status')
    if status is None or int(status) < 0:
        return INFRASTRUCTURE
    return SIGNAL + int(status) - _KILLED if int(status) > _KILLED else int(status)
