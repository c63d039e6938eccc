"""Submit again a job that a full queue refused, as long as it may wait."""

from __future__ import annotations

import re
import time

from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError
from reframe.utility import osext

from parity.scheduler.command import SchedulerError, note_standing, run

#: How long (seconds) a scheduler may take to end a cancelled job, before nobody waits for it.
CANCEL_WAIT = 10
#: How often (seconds) a full queue is tried again.
TRY_EVERY = 15.0
#: Answers of qsub and sbatch where a limit on the number of jobs, or on their total size, is reached.
_FULL = re.compile(r'would exceed .*limit|Maximum number of jobs .*already in|'
                   r'\b(?:QOS|Assoc)(?:Max|Grp)SubmitJob\w*')


class Patient:
    """Mixin before a backend of ReFrame's. Its ``give_up`` ends a job that the scheduler never took."""

    def tried(self, *words):
        """Run a scheduler's command; None, and a line in the log, where it is missing or does not end."""
        try:
            return run(list(words))
        except SchedulerError as err:
            self.log(str(err))
            return None

    def submit(self, job):
        first = job.submit_time or time.time()
        try:
            super().submit(job)
        except SpawnedProcessError as err:
            said = ' '.join((err.stderr or err.stdout or '').split()) or str(err)
            if not _FULL.search(said):
                raise JobSchedulerError(said) from None
            job._jobid, job.refused, job.tried = '', said, time.time()
            note_standing(job, True, said)
        else:
            job.refused_for = job.submit_time - first
            note_standing(job, True)
        job._submit_time = first

    def taken(self, jobs):
        """Submit refused jobs again, and return those of ``jobs`` that the scheduler has."""
        jobs = [job for job in jobs if job is not None]
        for job in jobs:
            if job.jobid == '' and not self.finished(job):
                self._try_again(job)
        return [job for job in jobs if job.jobid]

    def _try_again(self, job):
        now = time.time()
        if job.max_pending_time and now - job.submit_time >= job.max_pending_time:
            self.give_up(job, f'maximum pending time exceeded; {job.refused}')
        elif now - job.tried >= TRY_EVERY:
            try:
                with osext.change_dir(job.workdir):     # the script is named without its folder
                    self.submit(job)
            except JobSchedulerError as err:
                self.give_up(job, str(err))

    def cancel(self, job):
        if job.jobid:
            super().cancel(job)
        else:
            self.give_up(job)
