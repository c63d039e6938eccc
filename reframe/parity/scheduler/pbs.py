"""PBS (OpenPBS, PBS Pro): qsub, qstat, qdel, pbsnodes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from parity.base.errors import INFRASTRUCTURE
from parity.scheduler.command import SIGNAL, Forgotten, SchedulerError, State, answer, seconds

_PENDING = set('QHWTM')
_RUNNING = set('RESUB')     # B: an array that has begun
#: Exit_status of a job that was ended by a signal: 256 and the signal's number.
KILLED = 256
#: `substate` of a job that was deleted.
DELETED = '91'
_NO_HISTORY = ('; once a job has ended, its exit code is known only where the server keeps a history '
               '(set server job_history_enable = True)')
_HOLDS = {'u': 'its user', 'o': 'an operator', 's': 'PBS', 'p': 'a password that is wrong'}


def submit(script: Path) -> str:
    """The id of the job that ``script`` has become."""
    return answer(['qsub', script.name], script.parent).strip()


def cancel(job: str) -> None:
    answer(['qdel', job])


def states(job: str) -> list[State]:
    """The job, or the elements of its array. SchedulerError where PBS has forgotten it. Text with a line for each
    attribute (-w): the JSON of OpenPBS 23.06 is broken by a backslash, a letter beyond ASCII, `inf` or `.5`."""
    found = ''
    for history in (['-x'], []):    # a server that keeps none complains of -x, prints nothing, and exits with 0
        if 'Job Id:' in found:
            break
        try:
            found = answer(['qstat', *history, '-t', '-f', '-w', job])
        except SchedulerError as err:
            if 'Unknown Job Id' in str(err):
                raise Forgotten(f'{err}{"" if history else _NO_HISTORY}', err.exit_code) from None
            if not history or 'history' not in str(err):
                raise
    return read(found)


def read(text: str) -> list[State]:
    """The jobs that `qstat -f -w` tells of."""
    jobs = records(text)
    # of an array its elements tell; without any, it tells of itself
    elements = {name: job for name, job in jobs.items() if '[]' not in name}
    found = [state(name, job) for name, job in (elements or jobs).items()]
    if not found:
        raise Forgotten('qstat knows no such job')
    return found


def records(text: str, title: str = 'Job Id: ') -> dict[str, dict[str, str]]:
    """Attributes by name: a line `TITLE: NAME`, then lines `    attribute = value`; a tab continues a value."""
    found = {}
    for block in re.split(f'^{title}', text.replace('\n\t', ''), flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition('\n')
        found[name.strip()] = dict(re.findall(r'^    (\S+) = (.*?) *$', rest, re.MULTILINE))
    return found


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
    return began - submitted, ended - began if ran is None else float(ran)


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
    """The job's own, or 4: PBS ended it (negative; -29: its time was over), it was deleted, or never ran. An
    element of an array that PBS has kept nothing of has no host, and the Exit_status of another element."""
    status = int(job.get('Exit_status', -1))
    if status < 0 or 'exec_host' not in job or (status == 0 and job.get('substate') == DELETED):
        return INFRASTRUCTURE
    return SIGNAL + status - KILLED if status > KILLED else status


#: States in which a node takes jobs, now or when those that it has have ended.
_AVAILABLE = {'free', 'busy', 'job-busy', 'job-exclusive'}
#: States in which the server has no word of a node's own daemon.
_UNREACHABLE = {'down', 'state-unknown', 'unresolvable'}
#: What a chunk asks for that is no property of a node.
_OF_THE_JOB = ('mpiprocs', 'ompthreads', 'mpiexec')
_BYTES = {'b': 1, 'kb': 1 << 10, 'mb': 1 << 20, 'gb': 1 << 30, 'tb': 1 << 40, 'pb': 1 << 50}


@dataclass(frozen=True)
class PbsNode:
    """A host; ``queue`` is the one that it is set apart for, ''."""

    name: str
    states: frozenset[str]
    queue: str = ''
    resources: dict[str, str] = field(default_factory=dict, compare=False)
    comment: str = field(default='', compare=False)

    @property
    def is_available(self) -> bool:
        return self.states <= _AVAILABLE

    def in_state(self, state: str) -> bool:
        """Whether it is in all of these states (`a+b`); `idle`, ReFrame's default, is PBS's `free`."""
        return _states(state) <= self.states

    def in_statex(self, state: str) -> bool:
        return _states(state) == self.states


def _states(text: str) -> frozenset[str]:
    return frozenset('free' if word == 'idle' else word for word in text.lower().split('+'))


def hosts(text: str) -> list[PbsNode]:
    """The hosts that `pbsnodes -a` prints: a name, then lines `     attribute = value`."""
    found: dict[str, PbsNode] = {}
    for block in re.split(r'\n(?=\S)', text.strip('\n')):
        facts = dict(re.findall(r'^ +(\S+) = (.*)$', block, re.MULTILINE))
        if 'state' not in facts:
            continue
        resources = {key.partition('.')[2]: value for key, value in facts.items()
                     if key.startswith('resources_available.')}
        name = resources.get('host', block.split()[0])
        states = frozenset(facts['state'].replace(' ', '').split(','))
        found.setdefault(name, PbsNode(name, states, facts.get('queue', ''), resources, facts.get('comment', '')))
    return list(found.values())


def down(text: str) -> dict[str, str]:
    """Of the hosts that `pbsnodes` prints, those that the server cannot reach, with its comment or their state."""
    return {node.name: node.comment.removeprefix('node down: ') or ', '.join(sorted(node.states))
            for node in hosts(text) if node.states & _UNREACHABLE}


def left(nodes: list[PbsNode], queue: str, wanted: dict[str, str]) -> list[PbsNode]:
    """Those on which a job of ``queue`` can run that asks for ``wanted`` of each; a queue's own nodes serve it
    alone."""
    own = [node for node in nodes if queue and node.queue == queue] or [n for n in nodes if not n.queue]
    return [node for node in own if all(_offers(node, *want) for want in wanted.items())]


def _offers(node: PbsNode, name: str, want: str) -> bool:
    if name in _OF_THE_JOB:
        return True
    have = node.resources.get(name, '')
    sizes = size(have), size(want)
    if None not in sizes:
        return sizes[0] >= sizes[1]
    return want.lower() in have.lower().split(',')


def size(text: str) -> int | None:
    """``527672492kb`` in bytes, or a number; None for a word."""
    found = re.fullmatch(r'(\d+)([kmgtp]?b)?', text.strip().lower())
    return int(found[1]) * _BYTES[found[2] or 'b'] if found else None
