"""Slurm: sbatch, scontrol, sacct, scancel."""

from __future__ import annotations

import datetime
import os
import pwd
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from parity.base.errors import INFRASTRUCTURE, OK
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

#: CONFIGURING: a node boots for the job.
PENDING = {'PENDING', 'CONFIGURING', 'EXPEDITING', 'REQUEUED', 'REQUEUE_HOLD', 'REQUEUE_FED', 'SPECIAL_EXIT',
           'RESV_DEL_HOLD'}
#: Words that end a job. A job with a word that nobody here knows has not ended.
ENDED = {'COMPLETED', 'FAILED', 'TIMEOUT', 'DEADLINE', 'OUT_OF_MEMORY', 'NODE_FAIL', 'BOOT_FAIL', 'PREEMPTED',
         'CANCELLED', 'REVOKED'}
#: Ends of which an administrator or a node is the cause.
BLAMED = {'CANCELLED', 'NODE_FAIL', 'BOOT_FAIL'}
#: Reasons that no waiting mends (squeue(1), JOB REASON CODES); a site's accounts and QOS stand in whole sentences.
_NEVER = re.compile(r'''
    (?: BadConstraints | PartitionConfig | PartitionNodeLimit | PartitionTimeLimit | DependencyNeverSatisfied
      | InvalidAccount | InvalidQOS | AccountNotAllowed | QOSNotAllowed | ReservationDeleted ) $
    | Job's[ _] (?:account|QOS) [ _]not[ _]permitted''', re.VERBOSE)
#: Slurm's own in place of a signal.
_NOT_STARTED = '53'
_NO_FOLDER = 'its folder, or that of its output, is not on the node'


#: The id of a job; of another cluster's, with its name (sbatch -M). A site's sbatch may print more around it.
_ID = re.compile(r'^ *([0-9]+(?:;[\w.-]+)?) *$', re.MULTILINE)


def submit(script: Path) -> str:
    """Submit ``script``, and return the job's id."""
    printed = answer(['sbatch', '--parsable', script.name], script.parent)
    ids = _ID.findall(printed)
    if not ids:
        raise SchedulerError(f'sbatch printed no id of a job: {" ".join(printed.split())}; a wrapper must print '
                             'what sbatch --parsable prints')
    return ids[-1]


def cancel(job: str) -> None:
    answer(_about('scancel', job))


def _about(program: str, job: str, *options: str) -> list[str]:
    """Return a command about a job, which is asked of the job's own cluster."""
    number, _, cluster = job.partition(';')
    if cluster:
        options = ('-M', cluster, *options)
    return [program, *options, number]


def folders() -> dict[str, str]:
    """Return the folder from which each job of this user was submitted, by id, of those that have not ended."""
    lines = answer(['squeue', '-h', '-u', str(os.getuid()), '-o', '%i|%Z']).splitlines()
    return dict(line.split('|', 1) for line in lines if '|' in line)


@dataclass(frozen=True)
class _Record:
    """A job as Slurm prints it. The fields are those of sacct, in this order."""

    name: str
    word: str
    exit_code: str
    reason: str
    nodes: str
    elapsed: str
    submitted: str
    began: str
    ended: str


#: The fields of a _Record by sacct's names.
_SACCT_FIELDS = ('JobID', 'State', 'ExitCode', 'Reason', 'NodeList', 'Elapsed', 'Submit', 'Start', 'End')
#: The same by those of scontrol, from the exit code on.
_SCONTROL_FIELDS = ('ExitCode', 'Reason', 'NodeList', 'RunTime', 'SubmitTime', 'StartTime', 'EndTime')


def states(job: str) -> list[JobState]:
    """Ask the controller, which forgets, else the accounting, for the job or the elements of its array.

    Forgotten also where only the accounting knows a job, and not its end: a killed controller lost the job."""
    try:
        printed = answer(_about('scontrol', job, '--oneliner', 'show', 'job'))
    except SchedulerError as err:
        return _blamed(job, _accounted(job, err))
    # SubmitLine= (25.11) may have several lines
    lines = [line for line in printed.splitlines() if line.startswith('JobId=')]
    return _blamed(job, [_state(_of_controller(line)) for line in lines])


def _accounted(job: str, refusal: SchedulerError) -> list[JobState]:
    """Ask the accounting for a job, where the controller refused to tell."""
    is_unknown = 'Invalid job id' in str(refusal)
    try:
        printed = answer(_about('sacct', job, '-n', '-P', '-X', '-o', ','.join(_SACCT_FIELDS), '-j'))
    except SchedulerError:
        if not is_unknown:
            raise
        printed = ''
    states = []
    for line in printed.splitlines():
        fields = line.split('|')
        if len(fields) == len(_SACCT_FIELDS):
            states.append(_state(_Record(*fields)))
    if states and not is_unknown:
        return states
    if states and all(state.phase == 'ended' for state in states):
        return states
    if is_unknown:
        raise Forgotten(str(refusal), refusal.exit_code)
    raise refusal


def _blamed(job: str, states: list[JobState]) -> list[JobState]:
    """Return the state of a single job with what `blame` adds to its reason."""
    if len(states) != 1 or states[0].word not in BLAMED:
        return states
    state = states[0]
    reasons = [state.reason, blame(job, state.word, state.nodes)]
    return [replace(state, reason='; '.join(filter(None, reasons)))]


def _of_controller(line: str) -> _Record:
    """Read a job by its own keys: its name comes before UserId; what else its user wrote comes behind them."""
    match = re.match(r'JobId=(?P<id>\d+)(?: ArrayJobId=(?P<array>\d+) ArrayTaskId=(?P<task>\S+))?', line)
    name = f'{match["array"]}_{match["task"]}' if match['array'] else match['id']
    pairs = re.findall(r'(\w+)=(\S*)', line.partition(' UserId=')[2])
    facts = dict(reversed(pairs))       # of a key given twice the first counts
    return _Record(name, facts['JobState'], *(facts.get(field, '') for field in _SCONTROL_FIELDS))


def _state(record: _Record) -> JobState:
    """Return the state of a job."""
    word = record.word.split()[0]       # sacct: CANCELLED by 1000
    phase = _phase(word)
    exit_code = _exit_code(word, record.exit_code) if phase == 'ended' else None
    reason = _stated(record.reason)
    if record.exit_code == f'0:{_NOT_STARTED}':
        reason = _NO_FOLDER
    is_hopeless = phase == 'pending' and never_starts(reason)
    times = None if phase == 'pending' else _times(record)
    return JobState(
        id=record.name,
        phase=phase,
        word=word,
        exit_code=exit_code,
        reason=reason,
        nodes=_stated(record.nodes),
        elapsed=record.elapsed,
        never=f'{reason}: no waiting mends it' if is_hopeless else '',
        times=times)


def _phase(word: str) -> str:
    if word in PENDING:
        return 'pending'
    return 'ended' if word in ENDED else 'running'


def _stated(text: str) -> str:
    """Return a field of Slurm; '' where it says that there is nothing."""
    return '' if text in ('None', '(null)', 'None assigned') else text


def _times(record: _Record) -> tuple[float, float] | None:
    """Return the seconds that a job waited and ran. One that was cancelled in the queue may have no start."""
    submitted = _unix(record.submitted)
    left_the_queue = _unix(record.began) or _unix(record.ended)
    ran = seconds(record.elapsed)
    if submitted is None or left_the_queue is None or ran is None:
        return None
    return left_the_queue - submitted, float(ran)


def never_starts(reason: str) -> bool:
    return bool(_NEVER.match(reason))


def blame(job: str, word: str, names: str) -> str:
    """Return who cancelled a job, if another user did, and why its nodes take no jobs."""
    reasons = []
    with suppress(SchedulerError):
        if word == 'CANCELLED':
            reasons += _cancelled_by(job)
        if names:
            printed = answer(['scontrol', '-a', '--oneliner', 'show', 'node', names])
            for node in nodes(printed):
                if node.reason and not node.takes:
                    reasons.append(f'{node.name} is {node.state}: {node.reason}')
    return '; '.join(reasons)


def _cancelled_by(job: str) -> list[str]:
    """Return the other user who cancelled a job, if one did."""
    printed = run(_about('sacct', job, '-n', '-X', '-P', '-o', 'State', '-j')).stdout
    match = re.search(r'CANCELLED by (\d+)', printed)
    if not match or int(match[1]) == os.getuid():
        return []
    return [f'by {_user(int(match[1]))}']


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f'user {uid}'


def _unix(text: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:      # Unknown, None, or in a form that a person has chosen (SLURM_TIME_FORMAT)
        return None


def _exit_code(word: str, code: str) -> int:
    """Read `exit:signal` of a job that ended by itself; any other end is infrastructure, whatever the code says.

    The accounting before 25.11 keeps 11 of 139, so 128 is taken off everywhere: one job has one code."""
    if word not in ('COMPLETED', 'FAILED'):
        return INFRASTRUCTURE
    own, _, signal = code.partition(':')
    own = int(own or 0)
    if own > SIGNAL:
        own -= SIGNAL
    if own:
        return own
    if signal.isdecimal() and int(signal) and signal != _NOT_STARTED:
        return SIGNAL + int(signal)
    return OK if word == 'COMPLETED' else INFRASTRUCTURE


def kept_code(job: str) -> int | None:
    """Return the exit code as the controller keeps it: the accounting before 25.11 keeps 11 of 139."""
    try:
        printed = answer(_about('scontrol', job, '--oneliner', 'show', 'job'))
    except SchedulerError:
        return None
    match = re.search(r' ExitCode=(\d+):', printed.partition(' UserId=')[2])
    return int(match[1]) if match else None


#: States in which a node takes jobs, now or when its jobs are done (sinfo(1), NODE STATE CODES).
TAKES = {'IDLE', 'ALLOCATED', 'MIXED', 'COMPLETING', 'PLANNED', 'RESERVED', 'CLOUD', 'POWERED_DOWN',
         'POWERING_UP', 'POWERING_DOWN', 'POWERED_UP', 'DYNAMIC_NORM', 'BLOCKED'}
#: The reason of a state comes last in a line, with who gave it and when (not where slurm.conf gave it), or before
#: other text of an administrator's.
_REASON = re.compile(r'\sReason=(.*?)(?: \[(\S*)@(\S+)\])? *(?:$|\s(?:Comment|Extra|InstanceId|ReservationName)=)')


def takes(state: str) -> bool:
    """Return whether a node takes jobs, now or later; one that boots answers nobody yet."""
    words = set(state.upper().split('+'))
    if 'POWERING_UP' in words:
        words.discard('NOT_RESPONDING')
    return words <= TAKES


def records(text: str, first: str) -> list[dict[str, str]]:
    """Read lines of KEY=VALUE. Free text (Reason, Comment) comes last: of a key given twice the first counts."""
    lines = []
    for line in text.splitlines():
        if line.startswith(f'{first}='):
            pairs = re.findall(r'(?:^|\s)([A-Z][A-Za-z_/]*)=(\S*)', line)
            lines.append(dict(reversed(pairs)))
    return lines


def nodes(text: str = '') -> list[NodeState]:
    """Read the nodes of `scontrol --oneliner show node`, which is asked for where no text is given."""
    text = text or answer(['scontrol', '-a', '--oneliner', 'show', 'node'])
    return [_node(line) for line in text.splitlines() if line.startswith('NodeName=')]


def _node(line: str) -> NodeState:
    record, = records(line, 'NodeName')
    state = record['State']
    queues = record.get('Partitions', '').split(',')
    reason, by, since = '', '', ''
    if match := _REASON.search(line):
        reason, by, since = match.groups('')
    return NodeState(
        name=record['NodeName'],
        state=state.lower(),
        takes=takes(state),
        queues=tuple(queues),
        reason=reason,
        by=by,
        since=_unix(since))
