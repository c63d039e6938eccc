"""A scheduler's commands, and the state of a job, in one form for Slurm and PBS."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from parity.base import files
from parity.base.errors import INFRASTRUCTURE, OK, ParityError

#: ReFrame's backends, and the batch system that they ask.
KINDS = {'slurm': 'slurm', 'squeue': 'slurm', 'pbs': 'pbs', 'pbspro': 'pbs'}
#: The clients of a controller that does not answer wait for minutes.
SECONDS = 60
#: Whoever only asks whether there is one waits so long.
_AT_ONCE = 5
#: Added to the number of the signal that ended a job, as in a shell.
SIGNAL = 128


class SchedulerError(ParityError):
    """The scheduler refused, or does not answer: its own words and exit code."""

    def __init__(self, what: str, code: int = INFRASTRUCTURE):
        super().__init__(what)
        self.exit_code = code or INFRASTRUCTURE


class Forgotten(SchedulerError):
    """The scheduler answers, and does not know the job (any more)."""


def answer(command: list[str], folder: Path | None = None) -> str:
    """Return the output of ``command``. SchedulerError with its complaint and exit code."""
    done = run(command, folder)
    if done.returncode:
        said = ' '.join((done.stderr or done.stdout).split()) or 'no reason given'
        raise SchedulerError(f'{command[0]}: {said}', done.returncode)
    return done.stdout


def run(command: list[str], folder: Path | None = None, seconds: int = SECONDS) -> subprocess.CompletedProcess:
    """Run ``command``. SchedulerError where it is missing, or does not end within ``seconds``."""
    try:
        # other bytes than UTF-8 are replaced: qstat garbles every path with a letter beyond ASCII
        return subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=seconds,
                              stdin=subprocess.DEVNULL, cwd=folder)
    except (FileNotFoundError, PermissionError):        # or a folder of PATH may not be entered
        raise SchedulerError(f'{command[0]} is not on PATH: run this on a machine that can submit jobs') from None
    except subprocess.TimeoutExpired as err:
        said = ' '.join((err.stderr or b'').decode(errors='replace').split())
        raise SchedulerError(f'{command[0]} did not answer within {seconds} s: '
                             f'{said or "check that its controller is up"}') from None


def controller() -> str:
    """Return the batch system whose controller answers here at once: Slurm, PBS, or '' for none."""
    for name, asked, sign in (('Slurm', ['scontrol', 'ping'], 'UP'), ('PBS', ['qstat', '-B'], 'Active')):
        with contextlib.suppress(SchedulerError, OSError):
            if sign in run(asked, seconds=_AT_ONCE).stdout:
                return name
    return ''


@dataclass(frozen=True)
class JobState:
    """A job or an element of an array. ``word`` is the scheduler's own; ``never`` is why it can never start."""

    id: str
    phase: str                          # pending, running, ended
    word: str
    exit_code: int | None = None
    reason: str = ''
    nodes: str = ''
    elapsed: str = ''
    never: str = ''
    times: tuple[float, float] | None = None    # seconds in the queue, and seconds of run time


def job_phase(states: list[JobState]) -> tuple[str, int | None]:
    """Return the phase of a job from its elements, and the highest exit code once all have ended."""
    phases = {s.phase for s in states}
    if phases != {'ended'}:
        return ('running' if 'running' in phases or 'ended' in phases else 'pending'), None
    return 'ended', max((s.exit_code if s.exit_code is not None else INFRASTRUCTURE for s in states), default=OK)


def seconds(time: str) -> int | None:
    """Read `[days-][hours:]minutes:seconds`, or seconds, as both schedulers write a time; None for other text."""
    found = re.fullmatch(r'(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)', time)
    days, hours, minutes, rest = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest if found else None


#: In a job's stage directory while the scheduler has the job.
FILE = 'queue.json'


@dataclass(frozen=True)
class Standing:
    """A job's state: whether it waits, and since when (Unix time)."""

    waits: bool
    since: float
    reason: str = ''


def note_standing(job, waits: bool, reason: str = '') -> None:
    """Write down whether a job waits, where that has changed. A full disk is no reason to end it."""
    before = getattr(job, 'standing', None)
    if before and (before.waits, before.reason) == (waits, reason):
        return
    job.standing = Standing(waits, before.since if before and before.waits == waits else time.time(), reason)
    with contextlib.suppress(OSError):
        files.write(Path(job.workdir, FILE), json.dumps(asdict(job.standing)))


def read_standing(folder: Path) -> Standing | None:
    """Read the standing in a stage directory; None where no scheduler has told any."""
    try:
        return Standing(**json.loads((folder / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


#: Each scheduler's options for where a job runs and who pays, before their value, by parity's name.
_WHERE = {
    'slurm': {'queue': '--partition[ =]|-p', 'account': '--account[ =]|-A', 'qos': '--qos[ =]|-q',
              'reservation': '--reservation[ =]'},
    'pbs': {'queue': '-q', 'account': '-A', 'project': '-P'},
}
_EXCLUSIVE = {'slurm': r'--exclusive(=\S+)?', 'pbs': r'-l\s*place=(\S+)'}


@dataclass
class Access:
    """``where`` is for every job; ``node`` only for a job on the measured node."""

    where: dict[str, str] = field(default_factory=dict)
    exclusive: str = ''                 # as the site writes it
    node: list[str] = field(default_factory=list)


def read(scheduler: str, options: list[str]) -> Access:
    """Sort the options of a partition's `access` for ``scheduler`` (slurm, pbs; anything else has none)."""
    access = Access()
    for option in options if scheduler in _WHERE else ():
        said = {name: found[1].strip('\'"') for name, form in _WHERE[scheduler].items()
                if (found := re.fullmatch(rf'(?:{form})\s*([^\s=-]\S*)', option))}
        access.where |= said
        if re.fullmatch(_EXCLUSIVE[scheduler], option):
            access.exclusive = option
        elif not said:
            access.node.append(option)
    return access
