"""Does a program start? A file that is there proves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: Seconds until a program that does not answer counts as not starting.
TIMEOUT = 10.0


class Outcome(NamedTuple):
    """What a short run showed. ``why`` says what went wrong, in words, or is empty."""

    ok: bool
    why: str
    out: str = ''
    err: str = ''


def attempt(command: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = TIMEOUT,
            cwd: str = '') -> Outcome:
    """Run ``command`` without input, in a temporary folder unless ``cwd`` names one."""
    try:
        with contextlib.nullcontext(cwd) if cwd else tempfile.TemporaryDirectory(
                prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
            return _run(command, env, timeout, folder)
    except OSError as error:            # no such file, not executable, wrong format, no /tmp
        return Outcome(False, error.strerror or str(error))


def _run(command: Sequence[str], env: Mapping[str, str] | None, timeout: float, cwd: str) -> Outcome:
    # a session of its own: mpirun's children must go with it
    process = subprocess.Popen(command, env=None if env is None else dict(env), cwd=cwd,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, errors='replace', start_new_session=True)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return Outcome(False, f'no answer within {timeout:g} s')
    except BaseException:               # Ctrl-C does not reach another session by itself
        _end(process)
        raise
    if process.returncode == 0:
        return Outcome(True, '', out, err)
    how = f'signal {-process.returncode}' if process.returncode < 0 else f'exit code {process.returncode}'
    return Outcome(False, f'{how}{_complaint(err.strip() or out)}', out, err)


def _end(process: subprocess.Popen) -> None:
    """Kill the program with its children, and do not wait for pipes that an orphan may hold."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def _complaint(text: str) -> str:
    """The first line that says something: mpirun frames its messages with dashes."""
    lines = [line.strip() for line in text.splitlines() if line.strip(' -*=')]
    return f': {lines[0][:160]}' if lines else ''
