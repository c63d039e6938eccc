"""Slurm: sbatch, scontrol, sacct, scancel."""

from __future__ import annotations

import datetime
import os
import pwd
import re
from contextlib import suppress
from dataclasses import replace
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
_NEVER = re.compile('(?:BadConstraints|Partition(?:Config|NodeLimit|TimeLimit)|DependencyNeverSatisfied|'
                    'InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed|ReservationDeleted)$|'
                    "Job's[ _](?:account|QOS)[ _]not[ _]permitted")
#: Slurm's own in place of a signal.
_NOT_STARTED = '53'
_NO_FOLDER = 'its folder, or that of its output, is not on the node'


#: The id of a job; of another cluster's, with its name (sbatch -M). A site's sbatch may print more around it.
_ID = re.compile(r'^ *([0-9]+(?:;[\w.-]+)?) *$', re.MULTILINE)


def submit(script: Path) -> str:
    """Submit ``script``, and return the job's id."""
    said = answer(['sbatch', '--parsable', script.name], script.parent)
    if not (found := _ID.findall(said)):
        raise SchedulerError(f'sbatch printed no id of a job: {" ".join(said.split())}; a wrapper must print what '
                             'sbatch --parsable prints')
    return found[-1]


def cancel(job: str) -> None:
    answer(_asked('scancel', job))


def _asked(program: str, job: str, *options: str) -> list[str]:
    """Return a command about a job, which is asked of the job's own cluster."""
    number, _, cluster = job.partition(';')
    return [program, *(['-M', cluster] if cluster else []), *options, number]


def folders() -> dict[str, str]:
    """Return the folder from which each job of this user was submitted, by id, of those that have not ended."""
    lines = answer(['squeue', '-h', '-u', str(os.getuid()), '-o', '%i|%Z']).splitlines()
    return dict(line.split('|', 1) for line in lines if '|' in line)


def states(job: str) -> list[JobState]:
    """Ask the controller, which forgets, else the accounting, for the job or the elements of its array.

    Forgotten also where only the accounting knows a job, and not its end: a killed controller lost the job."""
    try:
        said = answer(_asked('scontrol', job, '--oneliner', 'show', 'job'))
        # SubmitLine= (25.11) may have several lines
        return _blamed(job, [_controller(line) for line in said.splitlines() if line.startswith('JobId=')])
    except SchedulerError as err:
        unknown = 'Invalid job id' in str(err)
        fields = 'JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End'
        try:
            lines = answer(_asked('sacct', job, '-n', '-P', '-X', '-o', fields, '-j')).splitlines()
        except SchedulerError:
            if not unknown:
                raise
            lines = []
        told = [line.split('|') for line in lines if line.count('|') == fields.count(',')]
        found = [_state(name, word.split()[0], *said) for name, word, *said in told]
        if found and not (unknown and any(each.phase != 'ended' for each in found)):
            return _blamed(job, found)
        raise (Forgotten(str(err), err.exit_code) if unknown else err) from None


def _blamed(job: str, found: list[JobState]) -> list[JobState]:
    """Return the state of a single job with what `blame` adds to its reason."""
    if len(found) == 1 and found[0].word in BLAMED:
        more = blame(job, found[0].word, found[0].nodes)
        return [replace(found[0], reason='; '.join(filter(None, (found[0].reason, more))))]
    return found


def _controller(line: str) -> JobState:
    """Read a job by its own keys: its name comes before UserId; what else its user wrote comes behind them."""
    name = re.match(r'JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\S+))?', line)
    facts = dict(reversed(re.findall(r'(\w+)=(\S*)', line.partition(' UserId=')[2])))
    keys = ('ExitCode', 'Reason', 'NodeList', 'RunTime', 'SubmitTime', 'StartTime', 'EndTime')
    return _state(f'{name[2]}_{name[3]}' if name[2] else name[1], facts['JobState'],
                  *(facts.get(key, '') for key in keys))


def _state(name: str, word: str, code: str, reason: str, nodes: str, elapsed: str, *at: str) -> JobState:
    """Return the state of a job; ``at`` are the times of its submission, start and end."""
    phase = 'pending' if word in PENDING else 'ended' if word in ENDED else 'running'
    reason = _NO_FOLDER if code == f'0:{_NOT_STARTED}' else reason
    reason, nodes = ('' if text in ('None', '(null)', 'None assigned') else text for text in (reason, nodes))
    never = f'{reason}: no waiting mends it' if phase == 'pending' and never_starts(reason) else ''
    # a job that was cancelled in the queue may have no start
    ran, (submitted, began, ended) = seconds(elapsed), map(_unix, at)
    known = phase != 'pending' and None not in (ran, submitted, began or ended)
    times = ((began or ended) - submitted, float(ran)) if known else None
    ended_with = _exit_code(word, code) if phase == 'ended' else None
    return JobState(name, phase, word, ended_with, reason, nodes, elapsed, never, times)


def never_starts(reason: str) -> bool:
    return bool(_NEVER.match(reason))


def blame(job: str, word: str, names: str) -> str:
    """Return who cancelled a job, if another user did, and why its nodes take no jobs."""
    found = []
    with suppress(SchedulerError):
        if word == 'CANCELLED':
            said = run(_asked('sacct', job, '-n', '-X', '-P', '-o', 'State', '-j')).stdout
            found += [f'by {_user(int(uid))}' for uid in re.findall(r'CANCELLED by (\d+)', said)[:1]
                      if int(uid) != os.getuid()]
        if names:
            shown = nodes(answer(['scontrol', '-a', '--oneliner', 'show', 'node', names]))
            found += [f'{node.name} is {node.state}: {node.reason}' for node in shown
                      if not node.takes and node.reason]
    return '; '.join(found)


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
    own, _, signal = code.partition(':')
    signal = int(signal) if signal.isdecimal() and signal != _NOT_STARTED else 0
    own = int(own or 0) - (SIGNAL if int(own or 0) > SIGNAL else 0)
    if word not in ('COMPLETED', 'FAILED'):
        return INFRASTRUCTURE
    return own or (SIGNAL + signal if signal else OK if word == 'COMPLETED' else INFRASTRUCTURE)


def kept_code(job: str) -> int | None:
    """Return the exit code as the controller keeps it: the accounting before 25.11 keeps 11 of 139."""
    with suppress(SchedulerError):
        told = answer(_asked('scontrol', job, '--oneliner', 'show', 'job')).partition(' UserId=')[2]
        return int(found[1]) if (found := re.search(r' ExitCode=(\d+):', told)) else None
    return None


#: States in which a node takes jobs, now or when its jobs are done (sinfo(1), NODE STATE CODES).
TAKES = {'IDLE', 'ALLOCATED', 'MIXED', 'COMPLETING', 'PLANNED', 'RESERVED', 'CLOUD', 'POWERED_DOWN',
         'POWERING_UP', 'POWERING_DOWN', 'POWERED_UP', 'DYNAMIC_NORM', 'BLOCKED'}
#: The reason of a state comes last in a line, with who gave it and when (not where slurm.conf gave it), or before
#: other text of an administrator's.
_REASON = re.compile(r'\sReason=(.*?)(?: \[(\S*)@(\S+)\])? *(?:$|\s(?:Comment|Extra|InstanceId|ReservationName)=)')


def takes(state: str) -> bool:
    """Return whether a node takes jobs, now or later; one that boots answers nobody yet."""
    words = set(state.upper().split('+'))
    return words - ({'NOT_RESPONDING'} if 'POWERING_UP' in words else set()) <= TAKES


def records(text: str, first: str) -> list[dict[str, str]]:
    """Read lines of KEY=VALUE. Free text (Reason, Comment) comes last: of a key given twice the first counts."""
    return [dict(reversed(re.findall(r'(?:^|\s)([A-Z][A-Za-z_/]*)=(\S*)', line)))
            for line in text.splitlines() if line.startswith(f'{first}=')]


def nodes(text: str = '') -> list[NodeState]:
    """Read the nodes of `scontrol --oneliner show node`, which is asked for where no text is given."""
    text, found = text or answer(['scontrol', '-a', '--oneliner', 'show', 'node']), []
    lines = [line for line in text.splitlines() if line.startswith('NodeName=')]
    for line, record in zip(lines, records(text, 'NodeName'), strict=True):
        said = _REASON.search(line)
        reason, by, when = said.groups('') if said else ('', '', '')
        found.append(NodeState(record['NodeName'], record['State'].lower(), takes(record['State']),
                               tuple(record.get('Partitions', '').split(',')), reason, by, _unix(when)))
    return found
