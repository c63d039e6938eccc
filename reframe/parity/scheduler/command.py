"""A scheduler's command: its answer, or its own words and exit code."""

from __future__ import annotations

import subprocess
from pathlib import Path

from parity.scheduler.state import SchedulerError

#: A controller that does not answer: its clients wait for minutes.
SECONDS = 60


def answer(command: list[str], folder: Path | None = None) -> str:
    """What ``command`` prints. SchedulerError with what it complains of, and its exit code."""
    done = run(command, folder)
    if done.returncode:
        said = ' '.join((done.stderr or done.stdout).split()) or 'no reason given'
        raise SchedulerError(f'{command[0]}: {said}', done.returncode)
    return done.stdout


def run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess:
    """What becomes of ``command``. SchedulerError where it is not here, or does not end."""
    try:
        # what is no UTF-8 is replaced: qstat garbles every path with a letter beyond ASCII
        return subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=SECONDS,
                              stdin=subprocess.DEVNULL, cwd=folder)
    except FileNotFoundError:
        raise SchedulerError(f'{command[0]} is not here: this must be a machine that can submit jobs') from None
    except subprocess.TimeoutExpired:
        raise SchedulerError(f'{command[0]} did not answer within {SECONDS} s: is its controller up?') from None
