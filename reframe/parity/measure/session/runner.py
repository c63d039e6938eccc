"""ReFrame as a process: alone on results/, followed to its end, stopped in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from parity.base import paths, reasons
from parity.base.errors import UsageError
from parity.base.files import Lock
from parity.judge.store import database, journals, writing
from parity.measure.session import current, progress, recovery

#: Seconds between two looks at whether a session has ended.
_PAUSE = 0.5
#: Seconds that ReFrame gets to end its jobs and to store the session once it was told to stop.
GRACE_SECONDS = 60
#: Seconds that it gets to act on a Ctrl-C.
_HEARD_SECONDS = 10
#: Seconds for the rest of its output: a process that ReFrame left behind may hold that open.
REST_SECONDS = 5.0
#: Why a run was stopped, if its operator stopped it.
INTERRUPTED = ('interrupted', 'told to stop (SIGTERM)')


def lock_results(what: str, options: list[str], study: str = '') -> Lock:
    """Return the lock that ``what`` holds on results/ until it releases it, or its process ends; killed sessions
    are recovered. ``options`` are ReFrame's, and name the system. A session of ``study`` whose run was killed may
    end first.

    Raises InfrastructureError where there is no room, or another run measures."""
    in_use = current.lock_of(options)
    database.demand_room()
    lock = Lock(paths.results() / '.nightly.lock', what)
    lock.acquire()
    if in_use.held_elsewhere() and journals.measures(study):
        print(f'parity: a session of {study} is still running: waiting for its end', flush=True)
        while in_use.held_elsewhere():
            time.sleep(_PAUSE)
    in_use.acquire()    # a run of ours or of somebody else is refused here, in one line
    in_use.release()
    writing.make_usable()
    recovery.recover_all()
    return lock


def _command(arguments: list[str]) -> list[str]:
    return [os.path.join(os.path.dirname(sys.executable), 'reframe'), *arguments]


def _environ(**defaults: str) -> dict[str, str]:
    return {'RFM_CONFIG_FILES': str(paths.root() / 'reframe' / 'settings.py'), **defaults, **os.environ}


def rehearse(arguments: list[str]) -> None:
    """Run `reframe --dry-run`: every hook before the job. UsageError with ReFrame's words if one fails.

    Its asynchronous policy would wait a tenth of a second for each job, though none runs."""
    command = _command([*arguments, '--exec-policy=serial'])
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**_environ(), 'RFM_COLORIZE': 'n'})
    if done.returncode:
        raise UsageError('reframe --dry-run fails: ' + '; '.join(reasons.of_reframe(done.stdout)))


class _Stopped(Exception):
    """The arrival of a SIGTERM."""


def reframe(arguments: list[str], limit_seconds: float | None = None, step: str = '', shown: bool = True,
            **variables: str) -> str:
    """Run ReFrame to its end or to the limit; return '' or why it was stopped. ``step`` heads its progress, unless
    its output is not ``shown``; ``variables``: of its environment."""
    process = _start(_command(arguments), variables)
    following = progress.follow(process, arguments, step, shown)
    previous = signal.signal(signal.SIGTERM, _stop)
    why = ''
    try:
        process.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        why = f'time limit of {limit_seconds / 3600:g} h reached'
        _end(process)
    except KeyboardInterrupt:       # it reaches ReFrame by itself: one process group
        why = INTERRUPTED[0]
        _end(process, _HEARD_SECONDS)
    except _Stopped:
        why = INTERRUPTED[1]
        _end(process)
    finally:
        signal.signal(signal.SIGTERM, previous)
        following.join(REST_SECONDS)
    if process.returncode < 0 and not why:
        why = f'ReFrame was killed by {signal.Signals(-process.returncode).name}'
    return why


def _start(command: list[str], variables: Mapping[str, str]) -> subprocess.Popen:
    """Start ReFrame with its output ours to read: in colours on a terminal only."""
    is_terminal = sys.stdout.isatty()
    environ = {**_environ(RFM_COLORIZE='y' if is_terminal else 'n'), **variables}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding='utf-8',
                            errors='replace', stderr=subprocess.STDOUT if is_terminal else None, env=environ)


def _stop(*_) -> None:
    raise _Stopped


def _end(process: subprocess.Popen, patience: float = 0.0) -> None:
    """Let ReFrame take back its jobs and store the session; kill it where it does not come to that."""
    if _ends_within(process, patience):
        return
    process.terminate()
    if not _ends_within(process, GRACE_SECONDS):
        process.kill()
        _ends_within(process, None)


def _ends_within(process: subprocess.Popen, seconds: float | None) -> bool:
    """Wait for the end of the process; False where it lives on, or the operator loses patience."""
    try:
        process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt, _Stopped):
        return False
    return True
