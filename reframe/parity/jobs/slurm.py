"""Slurm: sbatch, scontrol, sacct, scancel."""

from __future__ import annotations

from pathlib import Path

from parity.errors import INFRASTRUCTURE
from parity.jobs.command import answer
from parity.jobs.state import SIGNAL, SchedulerError, State

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
        told = _accounting(job)
        if not told:
            raise err from None
        return told


def _controller(line: str) -> State:
    # values may hold spaces (a job's name); those that are read here do not
    facts = dict(word.partition('=')[::2] for word in line.split())
    name = f'{facts["ArrayJobId"]}_{facts["ArrayTaskId"]}' if 'ArrayTaskId' in facts else facts['JobId']
    said = [facts.get(key, '') for key in ('ExitCode', 'Reason', 'NodeList', 'RunTime')]
    return _state(name, facts['JobState'], *said)


def _accounting(job: str) -> list[State]:
    fields = 'JobID,State,ExitCode,Reason,NodeList,Elapsed'
    lines = answer(['sacct', '-n', '-P', '-X', '-j', job, '-o', fields]).splitlines()
    return [_state(name, word.split()[0], code, reason, nodes, elapsed)
            for name, word, code, reason, nodes, elapsed in (line.split('|') for line in lines if line)]


def _state(name: str, word: str, code: str, reason: str, nodes: str, elapsed: str) -> State:
    phase = 'pending' if word in _PENDING else 'running' if word in _RUNNING else 'ended'
    reason, nodes = ('' if text in ('None', '(null)', 'None assigned') else text for text in (reason, nodes))
    return State(name, phase, word, _exit_code(word, code) if phase == 'ended' else None, reason, nodes, elapsed,
                 f'{reason}: no waiting mends it' if phase == 'pending' and reason in _NEVER else '')


def _exit_code(word: str, code: str) -> int:
    """``code`` is `exit:signal`; a job that was ended by something else than itself was not well."""
    own, _, signal = code.partition(':')
    signal = signal if signal.isdecimal() and signal != _NOT_STARTED else 0
    return int(own or 0) or (SIGNAL + int(signal) if int(signal) else 0 if word == 'COMPLETED' else INFRASTRUCTURE)
