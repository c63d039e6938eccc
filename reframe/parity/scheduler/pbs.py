"""PBS (OpenPBS, PBS Pro): qsub, qstat, qdel."""

from __future__ import annotations

import re
import time
from pathlib import Path

from parity.base.errors import INFRASTRUCTURE
from parity.scheduler.command import SIGNAL, Forgotten, SchedulerError, State, answer, seconds

_PENDING = set('QHWTM')
_RUNNING = set('RESUB')     # B: an array that has begun
#: Exit_status of a job that was ended by a signal: 256 and the signal's number.
KILLED = 256
#: `substate` of a job that was deleted.
DELETED = '91'
_HOLDS = {'u': 'its user', 'o': 'an operator', 's': 'PBS', 'p': 'a password that is wrong'}


def submit(script: Path) -> str:
    """The id of the job that ``script`` has become."""
    return answer(['qsub', script.name], script.parent).strip()


def cancel(job: str) -> None:
    answer(['qdel', job])


def states(job: str) -> list[State]:
    """The job, or the elements of its array. SchedulerError where PBS has forgotten it.

    Asked for text with a line for each attribute (-w): the JSON of OpenPBS 23.06 is none where a path holds a
    backslash or a letter beyond ASCII, or an account is `inf` and a variable `.5`.
    """
    try:
        found = answer(['qstat', '-x', '-t', '-f', '-w', job])
    except SchedulerError as err:
        if 'Unknown Job Id' in str(err):
            raise Forgotten(str(err), err.exit_code) from None
        if 'history' not in str(err):
            raise
        found = ''
    # a server that keeps no history complains of -x, prints nothing, and exits with 0
    return read(found) if 'Job Id:' in found else _without_history(job)


def _without_history(job: str) -> list[State]:
    try:
        return read(answer(['qstat', '-t', '-f', '-w', job]))
    except SchedulerError as err:
        if 'Unknown Job Id' not in str(err):
            raise
        raise Forgotten(f'{err}; once a job has ended, its exit code is known only where the server keeps '
                        'a history (set server job_history_enable = True)', err.exit_code) from None


def read(text: str) -> list[State]:
    """The jobs that `qstat -f -w` tells of."""
    jobs = records(text)
    # of an array its elements tell; without any, it tells of itself
    elements = {name: job for name, job in jobs.items() if '[]' not in name}
    found = [state(name, job) for name, job in (elements or jobs).items()]
    if not found:
        raise Forgotten('qstat knows no such job')
    return found


def records(text: str) -> dict[str, dict[str, str]]:
    """The attributes of each job: `Job Id: NAME`, then lines `    attribute = value`."""
    jobs = {}
    for block in re.split(r'^Job Id: ', text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition('\n')
        jobs[name.strip()] = dict(re.findall(r'^    (\S+) = (.*)$', rest, re.MULTILINE))
    return jobs


def busy(job: dict[str, str]) -> list[str]:
    """The nodes of a job that runs: `exec_host` is HOST/SLOT*CPUS, joined by +."""
    parts = job.get('exec_host', '').split('+') if job['job_state'] in _RUNNING else []
    return [part.partition('/')[0] for part in parts if part]


def state(name: str, job: dict[str, str]) -> State:
    """How a job stands, from its attributes."""
    word, comment = job['job_state'], job.get('comment', '')
    phase = 'pending' if word in _PENDING else 'running' if word in _RUNNING else 'ended'
    return State(name, phase, word, _exit_code(job) if phase == 'ended' else None, _reason(name, phase, job),
                 job.get('exec_host', ''), job.get('resources_used.walltime', ''),
                 comment if phase == 'pending' and comment.startswith('Can Never Run') else '',
                 _times(job) if phase != 'pending' else None)


def _times(job: dict[str, str]) -> tuple[float, float] | None:
    """Seconds that a job waited and ran. Where PBS counted no run time, the server's clock tells."""
    submitted, began, ended = (_unix(job.get(key, '')) for key in ('ctime', 'stime', 'mtime'))
    if None in (submitted, ended):
        return None
    if 'exec_host' not in job or began is None:
        return ended - submitted, 0.0
    ran = seconds(job.get('resources_used.walltime', ''))
    return began - submitted, ended - began if ran is None else ran


def _unix(text: str) -> float | None:
    """A time as PBS writes it: `Sat Nov 21 18:15:06 2026`."""
    try:
        return time.mktime(time.strptime(text))
    except ValueError:
        return None


def _reason(name: str, phase: str, job: dict[str, str]) -> str:
    """PBS's own comment, or what it leaves unsaid of a job that is held, or that never had a host."""
    comment = job.get('comment', '')
    after = f'waits for {job["depend"]}' if 'depend' in job else ''
    if job['job_state'] == 'H':
        held = ' and '.join(_HOLDS[letter] for letter in job.get('Hold_Types', '') if letter in _HOLDS)
        return after or (f'held by {held}' if held else comment)
    if phase == 'ended' and 'exec_host' not in job:
        # an element may have run: with its array deleted, or without a history, PBS keeps nothing of it
        what = 'deleted, or its end is not known' if '[' in name else 'deleted before it ran'
        return '; '.join(filter(None, (what, comment or after)))
    return comment


def _exit_code(job: dict[str, str]) -> int:
    """The job's own, or 4: PBS ended it (negative; -29: its time was over), it was deleted, or never ran.

    An element of an array that PBS has kept nothing of has no host, and the Exit_status of another element.
    """
    status = int(job.get('Exit_status', -1))
    if status < 0 or 'exec_host' not in job or (status == 0 and job.get('substate') == DELETED):
        return INFRASTRUCTURE
    return SIGNAL + status - KILLED if status > KILLED else status
