"""ReFrame's backends `slurm` and `squeue` with additions.

They tell how long a job waited and ran, and why it waits. A full queue is tried again (parity.rfm.patient)."""

from __future__ import annotations

import re
import time

from reframe.core.exceptions import JobSchedulerError
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler, slurm_state_pending

from parity.rfm.patient import CANCEL_WAIT, Patient
from parity.scheduler import command, scheduled, slurm
from parity.scheduler.command import SchedulerError


class _Told(Patient):
    """The additions to both backends."""

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
        """Cancel jobs; a complaint of scancel does not end ReFrame."""
        for job in jobs:
            job._is_cancelling, job.cancelled_at = True, time.time()
        if done := self.tried('scancel', *(job.jobid for job in jobs)):
            self.log(done.stderr.strip())

    def wait(self, job):
        while job.is_cancelling and not self.finished(job):
            time.sleep(1)
            self.poll(job)
            if time.time() - job.cancelled_at >= CANCEL_WAIT:
                job._state, job._nodespec = 'CANCELLED', job._nodespec or ''
        super().wait(job)

    def _cancel_if_blocked(self, jobs, reasons=None):
        """Keep the reasons (squeue(1), JOB REASON CODES) for which ReFrame asks to cancel blocked jobs."""
        waits = [job for job in jobs if slurm_state_pending(job.state)]
        if reasons is None and waits:
            ids, reasons = ','.join(job.jobid for job in waits), {}
            done = self.tried(*self._squeue.split(), '-h', '-j', ids, '-o', '%i|%r')
            for name, _, reason in (line.partition('|') for line in done.stdout.splitlines()) if done else ():
                reasons.setdefault(re.split('[_+]', name)[0], []).append(reason)     # of each element of an array
        for job in waits if reasons else ():
            command.note_standing(job, True, ', '.join(reasons.get(job.jobid, [])))
        if reasons:
            super()._cancel_if_blocked(jobs, reasons)


class Slurm(_Told, SlurmJobScheduler):
    """The backend for a site with accounting."""


class Squeue(_Told, SqueueJobScheduler):
    """The backend for a site without accounting."""


def _times(jobid: str) -> tuple[float, float] | None:
    """Ask how many seconds a job waited and ran; None where neither controller nor accounting tells."""
    try:
        return max((s.times for s in slurm.states(jobid) if s.times), key=lambda times: times[1], default=None)
    except SchedulerError:
        return None
