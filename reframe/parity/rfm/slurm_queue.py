"""ReFrame's backends `slurm` and `squeue`, with what they lack. How long a job waited and ran, why it waits, and a
queue that is full for now (parity.scheduler.command)."""

from __future__ import annotations

import re
import time

from reframe.core.backends import _schedulers
from reframe.core.exceptions import JobSchedulerError
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler, slurm_state_pending

from parity.rfm.patient import CANCEL_WAIT, Patient
from parity.scheduler import command, scheduled, slurm
from parity.scheduler.command import SchedulerError


class _Told(Patient):
    """What both backends lack."""

    def poll(self, *jobs):
        jobs = self.taken(jobs)
        super().poll(*jobs)
        for job in jobs:
            if self.finished(job):
                self._over(job)
            elif job.state:
                pending = slurm_state_pending(job.state) and 'COMPLETING' not in job.state
                command.note_standing(job, pending, job.standing.reason if pending and job.standing.waits else '')

    def _over(self, job, times=None):
        if not getattr(job, 'over', False):
            job.over = True
            scheduled.note_times(job, times or _times(job.jobid))

    def give_up(self, job, why=''):
        """End a job that Slurm never took."""
        job._state, job._nodespec = 'CANCELLED', ''
        job._exception = JobSchedulerError(why) if why else None
        self._over(job, (time.time() - job.submit_time, 0.0))

    def cancel_many(self, jobs):
        """Take jobs back; ReFrame does not end with what scancel answers."""
        for job in jobs:
            job._is_cancelling, job.cancelled_at = True, time.time()
        try:
            done = command.run(['scancel', *(job.jobid for job in jobs)])
            self.log(done.stderr.strip())
        except SchedulerError as err:
            self.log(str(err))

    def wait(self, job):
        while job.is_cancelling and not self.finished(job):
            time.sleep(1)
            self.poll(job)
            if time.time() - job.cancelled_at >= CANCEL_WAIT:
                job._state, job._nodespec = 'CANCELLED', job._nodespec or ''
        super().wait(job)

    def _cancel_if_blocked(self, jobs, reasons=None):
        """ReFrame asks why jobs wait, and takes back those that are blocked; the reasons are kept."""
        waits = [job for job in jobs if slurm_state_pending(job.state)]
        if reasons is None and waits:
            reasons = _reasons(self._squeue.split(), [job.jobid for job in waits])
        for job in waits if reasons else ():
            command.note_standing(job, True, ', '.join(reasons.get(job.jobid, [])))
        if reasons:
            super()._cancel_if_blocked(jobs, reasons)


class Slurm(_Told, SlurmJobScheduler):
    """Stands in ReFrame's table for its own."""


class Squeue(_Told, SqueueJobScheduler):
    """Likewise, for a site without accounting."""


def _reasons(squeue: list[str], ids: list[str]) -> dict[str, list[str]]:
    """Why jobs wait, in Slurm's words (squeue(1), JOB REASON CODES): those of each element of an array."""
    try:
        lines = command.run([*squeue, '-h', '-j', ','.join(ids), '-o', '%i|%r']).stdout.splitlines()
    except SchedulerError:
        return {}
    found: dict[str, list[str]] = {}
    for name, _, reason in (line.partition('|') for line in lines):
        found.setdefault(re.split('[_+]', name)[0], []).append(reason)
    return found


def _times(jobid: str) -> tuple[float, float] | None:
    """Seconds that a job waited and ran; None where neither controller nor accounting tells."""
    try:
        known = [state.times for state in slurm.states(jobid) if state.times]
    except SchedulerError:
        return None
    return max(known, key=lambda times: times[1], default=None)


def install() -> None:
    """Let `scheduler: slurm` and `scheduler: squeue` be these."""
    _schedulers.update(slurm=(Slurm, None), squeue=(Squeue, None))
