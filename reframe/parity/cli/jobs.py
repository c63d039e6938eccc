"""`parity jobs`: job scripts for Slurm and PBS, sent and followed."""

from __future__ import annotations

import time

import typer

from parity.base import errors
from parity.base.text import visible
from parity.cli.group import Group

app = typer.Typer(cls=Group, no_args_is_help=True, help='Write, send and follow jobs of Slurm and PBS.')
JOB = typer.Argument(help='build, nightly, campaign or workload.')
SYSTEM = typer.Option(..., '--system', help='The system that the job runs on.')
PARTITION = typer.Option([], '--partition', help='By default the first; a campaign takes several in turn.')
CHECK = typer.Option('', '--check', metavar='NAME', help='workload: run this case. campaign: run this check only.')
AFTER = typer.Option('', '--after', metavar='ID', help='Start only when this job has ended well.')
REPEATS = typer.Option(None, '--repeats', min=1, help='campaign: measure each case so often.')
NODES = typer.Option('', '--nodes', metavar='N,N', help='campaign: the numbers of nodes, such as 1,2,4.')
NAME = typer.Option('', '--name', help='campaign: a name, to begin another of the same checks.')
ID = typer.Argument(metavar='ID')


def _script(job, system, partitions, check, after, repeats, nodes, name, own=False):
    """Return what the job asks for, and its script."""
    from parity.measure.jobs import write
    counts = nodes.split(',') if nodes else []
    if not all(count.isdecimal() and int(count) for count in counts):
        raise errors.UsageError(f'--nodes {nodes!r}: must be numbers of nodes, such as 1,2,4')
    return write.script(job, system, partitions, check=check, after=after, repeats=repeats,
                        nodes=list(map(int, counts)) or None, name=name, own=own)


@app.command()
def render(job: str = JOB, system: str = SYSTEM, partition: list[str] = PARTITION, check: str = CHECK,
           after: str = AFTER, repeats: int = REPEATS, nodes: str = NODES, name: str = NAME):
    """Print the script of a job."""
    from parity.measure.probe import partitions
    from parity.site import systems
    for part in systems.read(system).partitions:
        if partition and part.name not in partition:
            continue
        for problem in partitions.problems(system, part):
            typer.echo(f'parity: warning: {problem}', err=True)
    _, script = _script(job, system, partition, check, after, repeats, nodes, name)
    typer.echo(script, nl=False)


@app.command()
def submit(job: str = JOB, system: str = SYSTEM, partition: list[str] = PARTITION, check: str = CHECK,
           after: str = AFTER, repeats: int = REPEATS, nodes: str = NODES, name: str = NAME):
    """Send a job with sbatch or qsub, and print its id."""
    request, script = _script(job, system, partition, check, after, repeats, nodes, name, own=True)
    from parity.measure.jobs import sent
    typer.echo(sent.submit(job, system, request, script).id)


@app.command('list')
def show():
    """List the jobs that were submitted from here, with their states."""
    from parity.measure.jobs import sent
    jobs = sent.everything()
    for job in jobs:
        print(f'{job.id:12} {job.job:9} {job.system:16} {job.at:%Y-%m-%d %H:%M}  {_state_of(job)}')
    if not jobs:
        print('no job was submitted from here')


def _state_of(job) -> str:
    """Return the phase of a job, the scheduler's words for it, and the exit code of one that ended."""
    from parity.measure.scheduler.command import SchedulerError, job_phase
    try:
        states = job.states()
        phase, code = job_phase(states)
    except SchedulerError as err:
        return f'not known: {err}'
    words = sorted({state.word for state in states})
    ended = '' if code is None else f', exit code {code}'
    return f'{phase}: {", ".join(words)}{ended}'


@app.command()
def status(job: str = ID):
    """Print a job's state, exit code, reason, nodes and time."""
    from parity.measure.jobs import sent
    stored = sent.find(job)
    for state in stored.states():
        print(_line(state))
    print(f'script: {stored.script}')


def _line(state) -> str:
    code = '' if state.exit_code is None else f'exit code {state.exit_code}'
    words = [state.id, state.word, code, state.reason, state.nodes, state.elapsed]
    return visible('  '.join(filter(None, words)))


@app.command()
def wait(job: str = ID):
    """Wait for a job's end. Exit code: the job's own; 128 + n for signal n; 4 if it was ended from outside."""
    from parity.measure.jobs import sent
    from parity.measure.scheduler.command import SchedulerError, job_phase
    stored = sent.find(job)
    pause = 0.5
    printed = set()
    while True:
        states = stored.states()
        for state in states:
            if (state.id, state.word) not in printed:
                printed.add((state.id, state.word))
                print(_line(state), flush=True)
        phase, code = job_phase(states)
        if phase == 'ended':
            return code
        for state in states:
            if state.never:
                raise SchedulerError(f'{state.id} can never start: {state.never}; parity jobs cancel {stored.id}')
        time.sleep(pause)
        pause = min(15.0, pause * 1.3)      # a young job is asked for often


@app.command()
def cancel(job: str = ID):
    """End a job, or take it out of the queue."""
    from parity.measure.jobs import sent
    sent.find(job).cancel()
