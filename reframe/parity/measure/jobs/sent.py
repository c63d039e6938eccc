"""The jobs that were submitted from here: results/jobs/<id>.json, the script and the output beside it."""

from __future__ import annotations

import datetime
import fcntl
from pathlib import Path
from types import ModuleType

from pydantic import BaseModel, ValidationError

from parity.base import errors, files, paths
from parity.measure.jobs.request import Request
from parity.measure.scheduler import pbs, slurm
from parity.measure.scheduler.command import Forgotten, JobState, SchedulerError, job_phase

SCHEDULERS: dict[str, ModuleType] = {'slurm': slurm, 'pbs': pbs}


class Sent(BaseModel):
    """A job as it was submitted. Records of older versions have other keys, too."""

    id: str
    scheduler: str
    job: str
    system: str
    script: str
    at: datetime.datetime
    campaign: str = ''      # its --name

    def names(self) -> set[str]:
        """Return its id, whole and without its server, its cluster, or the mark of an array."""
        return {self.id, *(self.id.partition(mark)[0] for mark in '.[;')}

    def states(self) -> list[JobState]:
        """Return the states of its elements. SchedulerError where its scheduler does not answer."""
        return SCHEDULERS[self.scheduler].states(self.id)

    def cancel(self) -> None:
        SCHEDULERS[self.scheduler].cancel(self.id)


def folder() -> Path:
    return paths.results() / 'jobs'


def submit(job: str, system: str, request: Request, script: str) -> Sent:
    """Send the script from results/jobs. UsageError for no scheduler, or a second campaign of the same cases."""
    scheduler = SCHEDULERS.get(request.scheduler)
    if scheduler is None:
        instead = _without_scheduler(job, system, request)
        raise errors.UsageError(f'{system} has no scheduler to submit to; {instead}')
    if request.after:
        _demand_job(scheduler, request.after)
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / '.submit.lock').open('a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if job == 'campaign':
            _demand_alone(system, request)
        now = datetime.datetime.now().astimezone()
        file = folder() / f'{request.name}-{now:%Y%m%d-%H%M%S-%f}.sh'
        files.write(file, script)
        try:
            name = scheduler.submit(file)
        except errors.ParityError:
            file.unlink()
            raise
        sent = Sent(id=name, scheduler=request.scheduler, job=job, system=system, script=str(file), at=now,
                    campaign=request.campaign)
        files.write(folder() / f'{name}.json', sent.model_dump_json(indent=1) + '\n')
        return sent


def _without_scheduler(job: str, system: str, request: Request) -> str:
    """Return how a job runs where there is no scheduler."""
    if request.campaign.startswith(('study-', 'cause-')):
        return 'without --submit it runs here'
    return f'parity jobs render {job} --system {system} | bash runs it here'


def _demand_job(scheduler: ModuleType, name: str) -> None:
    """Refuse a job that the scheduler never heard of: Slurm takes a dependency on it for met."""
    try:
        scheduler.states(name)
    except SchedulerError as err:
        raise SchedulerError(f'--after {name}: {err}', err.exit_code) from None


def _demand_alone(system: str, request: Request) -> None:
    """Refuse a second campaign of a system and name before the first is known to have ended."""
    for earlier in everything():
        is_same = (earlier.job, earlier.system, earlier.campaign) == ('campaign', system, request.campaign)
        if not is_same or earlier.id == request.after:
            continue
        try:
            phase, _ = job_phase(earlier.states())
        except Forgotten:
            continue
        except SchedulerError as err:
            raise errors.InfrastructureError(f'campaign {earlier.id} measures {system}, and may not have ended '
                                             f'({err}): try again when the scheduler answers') from None
        if phase != 'ended':
            raise errors.UsageError(
                f'campaign {earlier.id} measures {system}, and is {phase}: wait for it (parity jobs wait '
                f'{earlier.id}), or end it (parity jobs cancel {earlier.id}); start a second one with --name')


def everything() -> list[Sent]:
    """Return all jobs, the oldest first. UsageError names a file that is no record of one."""
    jobs = []
    for file in folder().glob('*.json'):
        try:
            jobs.append(Sent.model_validate_json(file.read_text()))
        except (OSError, ValidationError) as err:
            raise errors.UsageError(f'{file}: is no record of a job ({type(err).__name__}); remove it') from None
    return sorted(jobs, key=lambda sent: sent.at)


def find(name: str) -> Sent:
    """Return the job of that id; its server or cluster may be left out. UsageError if none was sent here."""
    jobs = everything()
    named = [job for job in jobs if name in job.names()]
    if not named:
        ids = [job.id for job in jobs[-5:]]
        raise errors.UsageError(f'no job {name!r} was submitted from here (results/jobs); the last ones: '
                                f'{", ".join(ids) or "none"}')
    return named[-1]
