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
        complaint = ' '.join((done.stderr or done.stdout).split())
        raise SchedulerError(f'{command[0]}: {complaint or "no reason given"}', done.returncode)
    return done.stdout


def run(command: list[str], folder: Path | None = None, seconds: int = SECONDS) -> subprocess.CompletedProcess:
    """Run ``command``. SchedulerError where it is missing, or does not end within ``seconds``."""
    program = command[0]
    try:
        # other bytes than UTF-8 are replaced: qstat garbles every path with a letter beyond ASCII
        return subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=seconds,
                              stdin=subprocess.DEVNULL, cwd=folder)
    except (FileNotFoundError, PermissionError):        # or a folder of PATH may not be entered
        raise SchedulerError(f'{program} is not on PATH: run this on a machine that can submit jobs') from None
    except subprocess.TimeoutExpired as err:
        printed = (err.stderr or b'').decode(errors='replace')
        complaint = ' '.join(printed.split()) or 'check that its controller is up'
        raise SchedulerError(f'{program} did not answer within {seconds} s: {complaint}') from None


def controller() -> str:
    """Return the batch system whose controller answers here at once: Slurm, PBS, or '' for none."""
    if _answers(['scontrol', 'ping'], 'UP'):
        return 'Slurm'
    if _answers(['qstat', '-B'], 'Active'):
        return 'PBS'
    return ''


def _answers(command: list[str], sign: str) -> bool:
    """Return whether the command's output has the sign of a controller that is up."""
    try:
        return sign in run(command, seconds=_AT_ONCE).stdout
    except (SchedulerError, OSError):
        return False


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
    phases = {state.phase for state in states}
    if phases == {'ended'}:
        codes = [INFRASTRUCTURE if state.exit_code is None else state.exit_code for state in states]
        return 'ended', max(codes, default=OK)
    if 'running' in phases or 'ended' in phases:
        return 'running', None
    return 'pending', None


_TIME = re.compile(r'(?:(?P<days>\d+)-)?(?:(?:(?P<hours>\d+):)?(?P<minutes>\d+):)?(?P<seconds>\d+)')


def seconds(time: str) -> int | None:
    """Read `[days-][hours:]minutes:seconds`, or seconds, as both schedulers write a time; None for other text."""
    match = _TIME.fullmatch(time)
    if not match:
        return None
    part = {name: int(digits or 0) for name, digits in match.groupdict().items()}
    hours = part['days'] * 24 + part['hours']
    minutes = hours * 60 + part['minutes']
    return minutes * 60 + part['seconds']


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
    since = time.time()
    if before and before.waits == waits:
        if before.reason == reason:
            return
        since = before.since
    job.standing = Standing(waits, since, reason)
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
    if scheduler not in _WHERE:
        return access
    for option in options:
        where = _where(scheduler, option)
        access.where |= where
        if re.fullmatch(_EXCLUSIVE[scheduler], option):
            access.exclusive = option
        elif not where:
            access.node.append(option)
    return access


def _where(scheduler: str, option: str) -> dict[str, str]:
    """Return the value of an option for where a job runs or who pays, by parity's name; {} for another option."""
    values = {}
    for name, form in _WHERE[scheduler].items():
        match = re.fullmatch(rf'(?:{form})\s*([^\s=-]\S*)', option)
        if match:
            values[name] = match[1].strip('\'"')
    return values
