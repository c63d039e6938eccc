"""Slurm: sbatch, scontrol, sacct, scancel."""

from __future__ import annotations

import datetime
from pathlib import Path

from parity.base.errors import INFRASTRUCTURE
from parity.scheduler.command import SIGNAL, Forgotten, SchedulerError, State, answer, seconds

_PENDING = {'PENDING', 'REQUEUED', 'REQUEUE_HOLD', 'REQUEUE_FED', 'SPECIAL_EXIT', 'RESV_DEL_HOLD'}
_RUNNING = {'RUNNING', 'COMPLETING', 'CONFIGURING', 'SUSPENDED', 'STOPPED', 'SIGNALING', 'STAGE_OUT', 'RESIZING'}
#: Reasons that no waiting mends (squeue(1), JOB REASON CODES).
_NEVER = {'BadConstraints', 'PartitionNodeLimit', 'PartitionTimeLimit', 'DependencyNeverSatisfied',
          'InvalidAccount', 'InvalidQOS', 'AccountNotAllowed', 'QOSNotAllowed', 'ReservationDeleted'}
#: Slurm's own in place of a signal: the job's folder, or the file for its output, is not on the node.
_NOT_STARTED = '53'


def submit(script: Path) -> str:
    """The id of the job that ``script`` has become."""
    return answer(['sbatch', '--parsable', script.name], script.parent).strip().partition(';')[0]


def cancel(job: str) -> None:
    answer(['scancel', job])


def states(job: str) -> list[State]:
    """The job, or the elements of its array: of the controller, which forgets, else of the accounting."""
    try:
        lines = answer(['scontrol', '--oneliner', 'show', 'job', job]).splitlines()
        return [_controller(line) for line in lines if line]
    except SchedulerError as err:
        unknown = 'Invalid job id' in str(err)
        try:
            if told := _accounting(job):
                return told
        except SchedulerError:
            if not unknown:
                raise
        raise (Forgotten(str(err), err.exit_code) if unknown else err) from None


def _controller(line: str) -> State:
    # values may hold spaces (a job's name); those that are read here do not
    facts = dict(word.partition('=')[::2] for word in line.split())
    name = f'{facts["ArrayJobId"]}_{facts["ArrayTaskId"]}' if 'ArrayTaskId' in facts else facts['JobId']
    keys = ('ExitCode', 'Reason', 'NodeList', 'RunTime', 'SubmitTime', 'StartTime', 'EndTime')
    said = [facts.get(key, '') for key in keys]
    return _state(name, facts['JobState'], *said)


def _accounting(job: str) -> list[State]:
    fields = 'JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End'
    lines = answer(['sacct', '-n', '-P', '-X', '-j', job, '-o', fields]).splitlines()
    told = (line.split('|') for line in lines if line.count('|') == fields.count(','))
    return [_state(name, word.split()[0], *said) for name, word, *said in told]


def _state(name: str, word: str, code: str, reason: str, nodes: str, elapsed: str, *at: str) -> State:
    """``at``: when it was submitted, when it began, and when it ended."""
    phase = 'pending' if word in _PENDING else 'running' if word in _RUNNING else 'ended'
    reason, nodes = ('' if text in ('None', '(null)', 'None assigned') else text for text in (reason, nodes))
    return State(name, phase, word, _exit_code(word, code) if phase == 'ended' else None, reason, nodes, elapsed,
                 f'{reason}: no waiting mends it' if phase == 'pending' and reason in _NEVER else '',
                 _times(elapsed, *at) if phase != 'pending' else None)


def _times(elapsed: str, submitted: str, began: str, ended: str) -> tuple[float, float] | None:
    """Seconds that a job waited and ran; one that was cancelled in the queue may have no start."""
    ran, (since, until) = seconds(elapsed), (_unix(submitted), _unix(began) or _unix(ended))
    return None if None in (ran, since, until) else (until - since, float(ran))


def _unix(text: str) -> float | None:
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:      # Unknown, None, or in a form that a person has chosen (SLURM_TIME_FORMAT)
        return None


def _exit_code(word: str, code: str) -> int:
    """``code`` is `exit:signal`; a job that was ended by something else than itself was not well."""
    own, _, signal = code.partition(':')
    signal = signal if signal.isdecimal() and signal != _NOT_STARTED else 0
    return int(own or 0) or (SIGNAL + int(signal) if int(signal) else 0 if word == 'COMPLETED' else INFRASTRUCTURE)
