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
#: The line above the attributes of a job begins so.
_TITLE = 'Job Id: '
_HOLDS = {'u': 'its user', 'o': 'an operator', 's': 'PBS', 'p': 'a password that is wrong'}


def submit(script: Path) -> str:
    """Submit ``script``, and return the job's id."""
    return answer(['qsub', script.name], script.parent).strip()


def cancel(job: str) -> None:
    answer(['qdel', job])


def folders() -> dict[str, str]:
    """Return the folder from which each job of this user was submitted, by id, of those that have not ended."""
    ids = answer(['qselect', '-u', getpass.getuser()]).split()
    if not ids:
        return {}
    printed = run(['qstat', '-f', '-w', *ids]).stdout      # some may have ended just now
    by_id = {}
    for name, job in records(printed).items():
        _, variable, rest = job.get('Variable_List', '').rpartition('PBS_O_WORKDIR=')
        if variable:
            by_id[name] = rest.partition(',')[0]
    return by_id


def states(job: str) -> list[JobState]:
    """Ask for the job, or the elements of its array. Forgotten where PBS does not know it. Asks for text (-w):
    a backslash, a letter beyond ASCII, `inf` or `.5` breaks the JSON of OpenPBS 23.06."""
    try:
        printed = answer(['qstat', '-x', '-t', '-f', '-w', job])
    except SchedulerError as err:
        if _is_unknown(err):
            raise Forgotten(f'{err}{_ROUTED}', err.exit_code) from None
        if 'history' not in str(err):
            raise
        printed = ''
    if _TITLE not in printed:       # a server without a history complains of -x, prints nothing, and exits with 0
        printed = _states_of_now(job)
    return read(printed)


def _states_of_now(job: str) -> str:
    """Ask a server that keeps no history."""
    try:
        return answer(['qstat', '-t', '-f', '-w', job])
    except SchedulerError as err:
        if _is_unknown(err):
            raise Forgotten(f'{err}{_NO_HISTORY}', err.exit_code) from None
        raise


def _is_unknown(err: SchedulerError) -> bool:
    return 'Unknown Job Id' in str(err)


def read(text: str) -> list[JobState]:
    """Read the jobs that `qstat -f -w` prints: an array's elements, or the array where it has none yet."""
    jobs = records(text)
    elements = {name: job for name, job in jobs.items() if '[]' not in name}
    if not jobs:
        raise Forgotten('qstat knows no such job')
    return [state(name, job) for name, job in (elements or jobs).items()]


def records(text: str, title: str = _TITLE) -> dict[str, dict[str, str]]:
    """Read attributes by name: a line `TITLE: NAME`, then `    attribute = value`; a tab continues a value."""
    blocks = re.split(f'^{title}', text.replace('\n\t', ''), flags=re.MULTILINE)
    by_name = {}
    for block in blocks[1:]:
        name = block.partition('\n')[0].strip()
        by_name[name] = dict(re.findall(r'^    (\S+) = (.*?) *$', block, re.MULTILINE))
    return by_name


def busy(job: dict[str, str]) -> list[str]:
    """Return the nodes of a running job: `exec_host` is HOST/SLOT*CPUS, joined by +."""
    if job['job_state'] not in _RUNNING:
        return []
    parts = job.get('exec_host', '').split('+')
    return [part.partition('/')[0] for part in parts if part]


def state(name: str, job: dict[str, str]) -> JobState:
    """Return the state of a job from its attributes."""
    word = job['job_state']
    phase = _phase(word)
    exit_code = _exit_code(job) if phase == 'ended' else None
    nodes = job.get('exec_host', '')
    elapsed = job.get('resources_used.walltime', '')
    times = None if phase == 'pending' else _times(job)
    return JobState(
        id=name,
        phase=phase,
        word=word,
        exit_code=exit_code,
        reason=_reason(name, phase, job),
        nodes=nodes,
        elapsed=elapsed,
        never=_never(phase, job),
        times=times)


def _never(phase: str, job: dict[str, str]) -> str:
    """Return why a waiting job never starts; '' for any other."""
    comment = job.get('comment', '')
    if phase == 'pending' and comment.startswith('Can Never Run'):
        return comment
    return ''


def _phase(word: str) -> str:
    if word in _PENDING:
        return 'pending'
    return 'running' if word in _RUNNING else 'ended'


def _times(job: dict[str, str]) -> tuple[float, float] | None:
    """Return the seconds that a job waited and ran, by the server's clock where PBS counted no run time."""
    submitted = _unix(job.get('ctime', ''))
    began = _unix(job.get('stime', ''))
    ended = _unix(job.get('mtime', ''))
    if submitted is None or ended is None:
        return None
    if 'exec_host' not in job or began is None:
        return ended - submitted, 0.0
    counted = seconds(job.get('resources_used.walltime', ''))
    ran = ended - began if counted is None else float(counted)
    return began - submitted, ran


def _unix(text: str) -> float | None:
    """Read a time of PBS: `Sat Nov 21 18:15:06 2026`."""
    try:
        return time.mktime(time.strptime(text))
    except ValueError:
        return None


def _reason(name: str, phase: str, job: dict[str, str]) -> str:
    """Return PBS's comment, or a reason of our own for a job that is held, or that never had a host."""
    comment = job.get('comment', '')
    if job['job_state'] == 'H':
        return _waits_for(job) or _held(job) or comment
    if phase == 'pending' and job.get('queue_type') == 'R':
        return f'in the routing queue {job["queue"]}: none of its queues takes it'
    if phase == 'ended' and 'exec_host' not in job:
        # an element may have run: PBS forgets it with its deleted array, or without a history
        deleted = 'deleted, or its end is not known' if '[' in name else 'deleted before it ran'
        why = comment or _waits_for(job) or _of_a_reservation(job)
        return f'{deleted}; {why}' if why else deleted
    return comment


def _waits_for(job: dict[str, str]) -> str:
    return f'waits for {job["depend"]}' if 'depend' in job else ''


def _held(job: dict[str, str]) -> str:
    """Return who holds a job; the comment of a job that PBS does not hold is older."""
    types = job.get('Hold_Types', '')
    holders = [_HOLDS[letter] for letter in types if letter in _HOLDS]
    if not holders:
        return ''
    held = f'held by {" and ".join(holders)}'
    comment = job.get('comment', '')
    return f'{held}: {comment}' if comment and 's' in types else held


def _of_a_reservation(job: dict[str, str]) -> str:
    queue = job.get('queue', '')
    return f'{queue} is a reservation, and ends its jobs' if RESERVATION.fullmatch(queue) else ''


def _exit_code(job: dict[str, str]) -> int:
    """Return the job's own, or 4: PBS ended it (negative; -29: its time was over), it was deleted, or never ran. A
    lost element of an array has no host, and the Exit_status of another element."""
    status = int(job.get('Exit_status', -1))
    deleted = status == 0 and job.get('substate') == DELETED
    if status < 0 or deleted or 'exec_host' not in job:
        return INFRASTRUCTURE
    if status > KILLED:
        return SIGNAL + status - KILLED
    return status


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

    def as_state(self) -> NodeState:
        return NodeState(
            name=self.name,
            state=','.join(sorted(self.states)),
            takes=self.is_available,
            queues=(self.queue,) if self.queue else (),
            reason=self.comment)

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
    by_name: dict[str, PbsNode] = {}
    for block in re.split(r'\n(?=\S)', text.strip('\n')):
        facts = dict(re.findall(r'^ +(\S+) = (.*)$', block, re.MULTILINE))
        if 'state' in facts:
            node = _host(block.split()[0], facts)
            by_name.setdefault(node.name, node)
    return list(by_name.values())


def _host(vnode: str, facts: dict[str, str]) -> PbsNode:
    prefix = 'resources_available.'
    resources = {name.removeprefix(prefix): value for name, value in facts.items() if name.startswith(prefix)}
    name = resources.get('host', vnode)
    states = facts['state'].replace(' ', '').split(',')
    queue = facts.get('queue', '')
    comment = facts.get('comment', '')
    reserved = re.findall(r'(\w+)\.', facts.get('resv', ''))
    return PbsNode(
        name=name,
        states=frozenset(states),
        queue=queue,
        resources=resources,
        comment=comment,
        reserved=tuple(reserved))


def nodes() -> list[NodeState]:
    """Ask for all hosts."""
    printed = answer(['pbsnodes', '-a'])
    return [node.as_state() for node in hosts(printed)]


def down(text: str) -> dict[str, str]:
    """Return the hosts of `pbsnodes` that the server cannot reach, with its comment or their state."""
    why = {}
    for node in hosts(text):
        if node.states & _UNREACHABLE:
            why[node.name] = node.comment.removeprefix('node down: ') or ', '.join(sorted(node.states))
    return why


def left(nodes: list[PbsNode], queue: str, wanted: dict[str, str]) -> list[PbsNode]:
    """Return the nodes that can run a job of ``queue`` asking for ``wanted`` on each. A queue with nodes of its
    own uses no others."""
    of_queue = [node for node in nodes if queue and queue in (node.queue, *node.reserved)]
    if not of_queue:
        of_queue = [node for node in nodes if not node.queue]
    return [node for node in of_queue if _offers_all(node, wanted)]


def _offers_all(node: PbsNode, wanted: dict[str, str]) -> bool:
    """Return whether a node has all that a job asks of each of its nodes."""
    for name, value in wanted.items():
        if name not in _OF_THE_JOB and not _offers(node.resources.get(name, ''), value):
            return False
    return True


def _offers(have: str, want: str) -> bool:
    have_size, want_size = size(have), size(want)
    if have_size is None or want_size is None:
        return want.lower() in have.lower().split(',')
    return have_size >= want_size


def size(text: str) -> int | None:
    """Return ``527672492kb`` in bytes, or a number; None for a word."""
    return units.size(text.strip())
