"""The jobs that were submitted from here: results/jobs/<id>.json, the script and the output beside it."""

from __future__ import annotations

import datetime
import fcntl
import time
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from parity.base import errors, paths
from parity.base.strict import Strict
from parity.jobs.request import Covered, Request
from parity.scheduler import pbs, slurm
from parity.scheduler.command import Forgotten, SchedulerError, State, together

SCHEDULERS: dict[str, ModuleType] = {'slurm': slurm, 'pbs': pbs}
#: Seconds between two questions about a job: it is asked for often while it is young.
_FIRST, _LAST = 0.5, 15.0


class Sent(Strict):
    """A job as it was submitted."""

    id: str
    scheduler: str
    job: str
    system: str
    script: str
    at: datetime.datetime
    covered: Covered | None = None

    def states(self) -> list[State]:
        """Return the states of its elements. SchedulerError where its scheduler does not answer."""
        return SCHEDULERS[self.scheduler].states(self.id)


def folder() -> Path:
    return paths.results() / 'jobs'


def submit(job: str, system: str, request: Request, script: str) -> Sent:
    """Send the script from results/jobs. UsageError for no scheduler, or a second campaign of the same cases."""
    scheduler = SCHEDULERS.get(request.scheduler)
    if scheduler is None:
        raise errors.UsageError(f'{system} has no scheduler to submit to; '
                                f'parity jobs render {job} --system {system} | bash runs it here')
    if request.after:
        try:        # Slurm takes a dependency on a job that it never heard of for met
            scheduler.states(request.after)
        except SchedulerError as err:
            raise SchedulerError(f'--after {request.after}: {err}', err.exit_code) from None
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / '.submit.lock').open('a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if request.covered:
            _demand_alone(system, request)
        now = datetime.datetime.now().astimezone()
        file = folder() / f'{request.name}-{now:%Y%m%d-%H%M%S-%f}.sh'
        file.write_text(script)
        try:
            name = scheduler.submit(file)
        except errors.ParityError:
            file.unlink()
            raise
        sent = Sent(id=name, scheduler=request.scheduler, job=job, system=system, script=str(file), at=now,
                    covered=request.covered)
        (folder() / f'{name}.json').write_text(sent.model_dump_json(indent=1) + '\n')
        return sent


def _demand_alone(system: str, request: Request) -> None:
    """Refuse a second campaign of the same cases before the first is known to have ended.

    A campaign that names no cases was sent by an older parity: it may have measured any.
    """
    for earlier in everything():
        if (earlier.job, earlier.system) != ('campaign', system) or earlier.id == request.after \
                or earlier.covered and not earlier.covered.overlaps(request.covered):
            continue
        try:
            phase, _ = together(earlier.states())
        except Forgotten:
            continue
        except SchedulerError as err:
            raise errors.InfrastructureError(f'campaign {earlier.id} measures the same on {system}, and whether '
                                             f'it has ended is not known: {err}') from None
        if phase != 'ended':
            raise errors.UsageError(
                f'campaign {earlier.id} measures the same on {system}, and is {phase}: wait for it (parity jobs '
                f'wait {earlier.id}), or end it (parity jobs cancel {earlier.id}); another one has a --name')


def everything() -> list[Sent]:
    """Return all jobs, the oldest first. UsageError names a file that is no record of one."""
    found = []
    for file in folder().glob('*.json'):
        try:
            found.append(Sent.model_validate_json(file.read_text()))
        except (OSError, ValidationError) as err:
            raise errors.UsageError(f'{file}: is no record of a job ({type(err).__name__}); remove it') from None
    return sorted(found, key=lambda sent: sent.at)


def find(name: str) -> Sent:
    """Return the job of that id, for PBS with or without the server's name. UsageError if none was sent here."""
    known = everything()
    found = [s for s in known if name in (s.id, s.id.partition('.')[0], s.id.partition('[')[0])]
    if not found:
        ids = ', '.join(s.id for s in known[-5:]) or 'none'
        raise errors.UsageError(f'no job {name!r} was submitted from here (results/jobs); the last ones: {ids}')
    return found[-1]


def show() -> None:
    """Print every job that was submitted from here, a line each."""
    jobs = everything()
    for job in jobs:
        try:
            states = job.states()
            phase, code = together(states)
            said = f'{phase}: {", ".join(sorted({s.word for s in states}))}'
            said += '' if code is None else f', exit code {code}'
        except SchedulerError as err:
            said = f'not known: {err}'
        print(f'{job.id:12} {job.job:9} {job.system:16} {job.at:%Y-%m-%d %H:%M}  {said}')
    if not jobs:
        print('no job was submitted from here')


def status(name: str) -> None:
    """Print how a job stands, one line for each element of an array."""
    job = find(name)
    print('\n'.join([*map(_line, job.states()), f'script: {job.script}']))


def _line(state: State) -> str:
    code = '' if state.exit_code is None else f'exit code {state.exit_code}'
    return '  '.join(filter(None, (state.id, state.word, code, state.reason, state.nodes, state.elapsed)))


def wait(name: str) -> int:
    """Wait for a job's end and print what changes. Return the highest exit code of its elements."""
    job, pause, told = find(name), _FIRST, set()
    while True:
        states = job.states()
        for state in states:
            if (state.id, state.word) not in told:
                told.add((state.id, state.word))
                print(_line(state), flush=True)
        phase, code = together(states)
        if phase == 'ended':
            return errors.OK if code is None else code
        if never := [s for s in states if s.never]:
            raise SchedulerError(f'{never[0].id} can never start: {never[0].never}; parity jobs cancel {job.id}')
        time.sleep(pause)
        pause = min(_LAST, pause * 1.3)


def cancel(name: str) -> None:
    """End a job, or take it out of the queue."""
    job = find(name)
    SCHEDULERS[job.scheduler].cancel(job.id)
