"""PBS (OpenPBS, PBS Pro): qsub, qstat, qdel, pbsnodes."""

from __future__ import annotations

import getpass
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from parity.base import units
from parity.base.errors import INFRASTRUCTURE
from parity.measure.scheduler.command import (
    SIGNAL,
    Forgotten,
    JobState,
    SchedulerError,
    answer,
    run,
    seconds,
)
from parity.site.nodes import NodeState

_PENDING = set('QHWTM')
_RUNNING = set('RESUB')     # B: an array that has begun
#: Added to the number of a signal in Exit_status.
KILLED = 256
#: The queue of a reservation: advance, standing, or for maintenance.
RESERVATION = re.compile(r'[RSM]\d+')
#: `substate` of a deleted job.
DELETED = '91'
_ROUTED = '; a routing queue deletes a job that none of its queues takes'
_NO_HISTORY = ('; once a job has ended, its exit code is known only where the server keeps a history '
               '(set server job_history_enable = True)')
_HOLDS = {'u': 'its user', 'o': 'an operator', 's': 'PBS', 'p': 'a password that is wrong'}


def submit(script: Path) -> str:
    """Submit ``script``, and return the job's id."""
    return answer(['qsub', script.name], script.parent).strip()


def cancel(job: str) -> None:
    answer(['qdel', job])


def folders() -> dict[str, str]:
    """Return the folder from which each job of this user was submitted, by id, of those that have not ended."""
    jobs = answer(['qselect', '-u', getpass.getuser()]).split()
    found = records(run(['qstat', '-f', '-w', *jobs]).stdout if jobs else '')      # some may have ended just now
    return {name: re.sub(r'.*PBS_O_WORKDIR=([^,]*).*', r'\1', job.get('Variable_List', ''))
            for name, job in found.items()}


def states(job: str) -> list[JobState]:
    """Ask for the job, or the elements of its array. Forgotten where PBS does not know it. Asks for text (-w):
    a backslash, a letter beyond ASCII, `inf` or `.5` breaks the JSON of OpenPBS 23.06."""
    found = ''
    for history in (['-x'], []):    # a server that keeps none complains of -x, prints nothing, and exits with 0
        if 'Job Id:' in found:
            break
        try:
            found = answer(['qstat', *history, '-t', '-f', '-w', job])
        except SchedulerError as err:
            if 'Unknown Job Id' in str(err):
                raise Forgotten(f'{err}{_ROUTED if history else _NO_HISTORY}', err.exit_code) from None
            if not history or 'history' not in str(err):
                raise
    return read(found)


def read(text: str) -> list[JobState]:
    """Read the jobs that `qstat -f -w` prints: an array's elements, or the array where it has none yet."""
    jobs = records(text)
    elements = {name: job for name, job in jobs.items() if '[]' not in name}
    if not jobs:
        raise Forgotten('qstat knows no such job')
    return [state(name, job) for name, job in (elements or jobs).items()]


def records(text: str, title: str = 'Job Id: ') -> dict[str, dict[str, str]]:
    """Read attributes by name: a line `TITLE: NAME`, then `    attribute = value`; a tab continues a value."""
    blocks = re.split(f'^{title}', text.replace('\n\t', ''), flags=re.MULTILINE)[1:]
    return {block.partition('\n')[0].strip(): dict(re.findall(r'^    (\S+) = (.*?) *$', block, re.MULTILINE))
            for block in blocks}


def busy(job: dict[str, str]) -> list[str]:
    """Return the nodes of a running job: `exec_host` is HOST/SLOT*CPUS, joined by +."""
    parts = job.get('exec_host', '').split('+') if job['job_state'] in _RUNNING else []
    return [part.partition('/')[0] for part in parts if part]


def state(name: str, job: dict[str, str]) -> JobState:
    """Return the state of a job from its attributes."""
    word, comment = job['job_state'], job.get('comment', '')
    phase = 'pending' if word in _PENDING else 'running' if word in _RUNNING else 'ended'
    return JobState(name, phase, word, _exit_code(job) if phase == 'ended' else None, _reason(name, phase, job),
                 job.get('exec_host', ''), job.get('resources_used.walltime', ''),
                 comment if phase == 'pending' and comment.startswith('Can Never Run') else '',
                 _times(job) if phase != 'pending' else None)


def _times(job: dict[str, str]) -> tuple[float, float] | None:
    """Return the seconds that a job waited and ran, by the server's clock where PBS counted no run time."""
    submitted, began, ended = (_unix(job.get(key, '')) for key in ('ctime', 'stime', 'mtime'))
    if None in (submitted, ended):
        return None
    if 'exec_host' not in job or began is None:
        return ended - submitted, 0.0
    ran = seconds(job.get('resources_used.walltime', ''))
    return began - submitted, ended - began if ran is None else float(ran)


def _unix(text: str) -> float | None:
    """Read a time of PBS: `Sat Nov 21 18:15:06 2026`."""
    try:
        return time.mktime(time.strptime(text))
    except ValueError:
        return None


def _reason(name: str, phase: str, job: dict[str, str]) -> str:
    """Return PBS's comment, or a reason of our own for a job that is held, or that never had a host."""
    comment = job.get('comment', '')
    after = f'waits for {job["depend"]}' if 'depend' in job else ''
    if job['job_state'] == 'H':
        held = ' and '.join(_HOLDS[letter] for letter in job.get('Hold_Types', '') if letter in _HOLDS)
        why = f': {comment}' if 's' in job['Hold_Types'] and comment else ''       # others find an older comment
        return after or (f'held by {held}{why}' if held else comment)
    if phase == 'pending' and job.get('queue_type') == 'R':
        return f'in the routing queue {job["queue"]}: none of its queues takes it'
    if phase == 'ended' and 'exec_host' not in job:
        # an element may have run: PBS forgets it with its deleted array, or without a history
        what = 'deleted, or its end is not known' if '[' in name else 'deleted before it ran'
        queue = job.get('queue', '')
        ends = f'{queue} is a reservation, and ends its jobs' if RESERVATION.fullmatch(queue) else ''
        return '; '.join(filter(None, (what, comment or after or ends)))
    return comment


def _exit_code(job: dict[str, str]) -> int:
    """Return the job's own, or 4: PBS ended it (negative; -29: its time was over), it was deleted, or never ran. A
    lost element of an array has no host, and the Exit_status of another element."""
    status = int(job.get('Exit_status', -1))
    if status < 0 or 'exec_host' not in job or (status == 0 and job.get('substate') == DELETED):
        return INFRASTRUCTURE
    return SIGNAL + status - KILLED if status > KILLED else status


#: States in which a node takes jobs, now or when its jobs have ended.
_AVAILABLE = {'free', 'busy', 'job-busy', 'job-exclusive', 'resv-exclusive'}
#: States in which the server hears nothing from a node's daemon.
_UNREACHABLE = {'down', 'state-unknown', 'unresolvable'}
#: Resources of a chunk that are no property of a node.
_OF_THE_JOB = ('mpiprocs', 'ompthreads', 'mpiexec')


@dataclass(frozen=True)
class PbsNode:
    """A host; ``queue`` is the only one that it serves, or ''; ``reserved`` are queues of reservations."""

    name: str
    states: frozenset[str]
    queue: str = ''
    resources: dict[str, str] = field(default_factory=dict, compare=False)
    comment: str = field(default='', compare=False)
    reserved: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        return self.states <= _AVAILABLE

    def is_avail(self) -> bool:
        """Answer ReFrame 4.9."""
        return self.is_available

    def in_state(self, state: str) -> bool:
        """Return whether it is in all of these states (`a+b`); `idle`, ReFrame's default, is PBS's `free`."""
        return _states(state) <= self.states

    def in_statex(self, state: str) -> bool:
        return _states(state) == self.states


def _states(text: str) -> frozenset[str]:
    return frozenset('free' if word == 'idle' else word for word in text.lower().split('+'))


def hosts(text: str) -> list[PbsNode]:
    """Read the hosts that `pbsnodes -a` prints: a name, then lines `     attribute = value`."""
    found: dict[str, PbsNode] = {}
    for block in re.split(r'\n(?=\S)', text.strip('\n')):
        facts = dict(re.findall(r'^ +(\S+) = (.*)$', block, re.MULTILINE))
        if 'state' in facts:
            resources = {key.partition('.')[2]: value for key, value in facts.items()
                         if key.startswith('resources_available.')}
            name = resources.get('host', block.split()[0])
            found.setdefault(name, PbsNode(name, frozenset(facts['state'].replace(' ', '').split(',')),
                                           facts.get('queue', ''), resources, facts.get('comment', ''),
                                           tuple(re.findall(r'(\w+)\.', facts.get('resv', '')))))
    return list(found.values())


def nodes(text: str = '') -> list[NodeState]:
    """Read the hosts of `pbsnodes -a`, which is asked for where no text is given."""
    return [NodeState(node.name, ','.join(sorted(node.states)), node.is_available,
                      (node.queue,) if node.queue else (), node.comment)
            for node in hosts(text or answer(['pbsnodes', '-a']))]


def down(text: str) -> dict[str, str]:
    """Return the hosts of `pbsnodes` that the server cannot reach, with its comment or their state."""
    return {node.name: node.comment.removeprefix('node down: ') or ', '.join(sorted(node.states))
            for node in hosts(text) if node.states & _UNREACHABLE}


def left(nodes: list[PbsNode], queue: str, wanted: dict[str, str]) -> list[PbsNode]:
    """Return the nodes that can run a job of ``queue`` asking for ``wanted`` on each. A queue with nodes of its
    own uses no others."""
    own = [node for node in nodes if queue and queue in (node.queue, *node.reserved)] \
        or [n for n in nodes if not n.queue]
    asked = {name: want for name, want in wanted.items() if name not in _OF_THE_JOB}
    return [node for node in own if all(_offers(node.resources.get(name, ''), asked[name]) for name in asked)]


def _offers(have: str, want: str) -> bool:
    sizes = size(have), size(want)
    return sizes[0] >= sizes[1] if None not in sizes else want.lower() in have.lower().split(',')


def size(text: str) -> int | None:
    """Return ``527672492kb`` in bytes, or a number; None for a word."""
    return units.size(text.strip())
