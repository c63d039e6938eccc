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
        """How it stands; SchedulerError where its scheduler does not tell."""
        return SCHEDULERS[self.scheduler].states(self.id)

    def cancel(self) -> None:
        SCHEDULERS[self.scheduler].cancel(self.id)


def folder() -> Path:
    return paths.results() / 'jobs'


def submit(job: str, system: str, request: Request, script: str) -> Sent:
    """Send the script from results/jobs. UsageError for no scheduler, or a second campaign of the same cases."""
    if request.scheduler not in SCHEDULERS:
        raise errors.UsageError(f'{system} has no scheduler to submit to; '
                                f'parity jobs render {job} --system {system} | bash runs it here')
    if request.after:
        try:        # Slurm takes a dependency on a job that it never heard of for met
            SCHEDULERS[request.scheduler].states(request.after)
        except SchedulerError as err:
            raise SchedulerError(f'--after {request.after}: {err}', err.exit_code) from None
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / '.submit.lock').open('a') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if request.covered:
            _demand_alone(system, request)
        return _send(job, system, request, script)


def _demand_alone(system: str, request: Request) -> None:
    """Refuse a second campaign of the same cases before the first is known to have ended."""
    for earlier in everything():
        if not _same(earlier, system, request):
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


def _same(earlier: Sent, system: str, request: Request) -> bool:
    """True for a campaign with some of the same cases; one that names none was sent by an older parity."""
    return ((earlier.job, earlier.system) == ('campaign', system) and earlier.id != request.after
            and (earlier.covered is None or earlier.covered.overlaps(request.covered)))


def _send(job: str, system: str, request: Request, script: str) -> Sent:
    now = datetime.datetime.now().astimezone()
    file = folder() / f'{request.name}-{now:%Y%m%d-%H%M%S-%f}.sh'
    file.write_text(script)
    try:
        name = SCHEDULERS[request.scheduler].submit(file)
    except errors.ParityError:
        file.unlink()
        raise
    sent = Sent(id=name, scheduler=request.scheduler, job=job, system=system, script=str(file), at=now,
                covered=request.covered)
    (folder() / f'{name}.json').write_text(sent.model_dump_json(indent=1) + '\n')
    return sent


def everything() -> list[Sent]:
    """The oldest first."""
    return sorted((_read(file) for file in folder().glob('*.json')), key=lambda sent: sent.at)


def _read(file: Path) -> Sent:
    try:
        return Sent.model_validate_json(file.read_text())
    except (OSError, ValidationError) as err:
        raise errors.UsageError(f'{file}: is no record of a job ({err.__class__.__name__}); remove it') from None


def find(name: str) -> Sent:
    """The job of that id; PBS's may be given without the server's name. UsageError for one not sent from here."""
    known = everything()
    found = [s for s in known if name in (s.id, s.id.partition('.')[0], s.id.partition('[')[0])]
    if not found:
        ids = ', '.join(s.id for s in known[-5:]) or 'none'
        raise errors.UsageError(f'no job {name!r} was submitted from here (results/jobs); the last ones: {ids}')
    return found[-1]


#: How often a job is asked for (seconds): often while it is young, and never so that a controller minds.
_FIRST, _LAST = 0.5, 15.0


def show() -> None:
    """Every job that was submitted from here, a line each."""
    for job in everything():
        try:
            states = job.states()
            phase, code = together(states)
            words = sorted({s.word for s in states})
            said = f'{phase}: {", ".join(words)}' + (f', exit code {code}' if code is not None else '')
        except SchedulerError as err:
            said = f'not known: {err}'
        print(f'{job.id:12} {job.job:9} {job.system:16} {job.at:%Y-%m-%d %H:%M}  {said}')
    if not everything():
        print('no job was submitted from here')


def status(name: str) -> None:
    """How a job stands, one line for each element of an array."""
    job = find(name)
    print('\n'.join([*map(_line, job.states()), f'script: {job.script}']))


def _line(state: State) -> str:
    code = '' if state.exit_code is None else f'exit code {state.exit_code}'
    return '  '.join(filter(None, (state.id, state.word, code, state.reason, state.nodes, state.elapsed)))


def wait(name: str) -> int:
    """Wait for a job's end, telling what changes; returns the highest exit code of its elements."""
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
    find(name).cancel()
