"""ReFrame's backends `slurm` and `squeue`, with what they lack: how long a job waited, and how long it ran."""

from __future__ import annotations

from reframe.core.backends import _schedulers
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler

from parity import scheduled
from parity.jobs import slurm
from parity.jobs.state import SchedulerError


class _Told:
    """What both backends lack."""

    def poll(self, *jobs):
        super().poll(*jobs)
        for job in filter(None, jobs):
            if self.finished(job) and not getattr(job, 'over', False):
                job.over = True
                scheduled.note_times(job, _times(job.jobid))


class Slurm(_Told, SlurmJobScheduler):
    """Stands in ReFrame's table for its own."""


class Squeue(_Told, SqueueJobScheduler):
    """Likewise, for a site without accounting."""


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
