"""results/heartbeat/SYSTEM.json: when the last ci/nightly of a system began and how it ended, for a monitor."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import sys
import time

from parity.base import errors, files, paths
from parity.base.errors import InfrastructureError, ParityError
from parity.base.files import Lock
from parity.system import systems

#: The file of a run whose system is not known: no option names one, and the system files cannot be read.
UNKNOWN = 'unknown'
#: A refused run holds the file for a moment. The run that measures waits so long for it.
_WAIT_SECONDS = 10.0
#: Options of a run that measures nothing: it has no heartbeat.
REHEARSALS = frozenset({'-h', '--help', '--dry-run'})


class Heartbeat:
    """The file of a run, written when it begins, when its session is stored and when it ends.

    A run that dies leaves `end` null. A run that is refused because another one measures leaves that one's file
    alone."""

    def __init__(self, arguments: list[str]):
        try:
            system = systems.named(arguments)
        except ParityError:
            name = systems.stated(arguments) or ''
            system = name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else UNKNOWN
        self._said = {'system': system, 'start': _now(), 'end': None, 'exit_code': None, 'session': None,
                      'host': socket.gethostname(), 'pid': os.getpid()}
        self._file = paths.results() / 'heartbeat' / f'{system}.json'
        self._lock, self._ours = Lock(self._file.with_name(f'.{system}.lock'), 'ci/nightly'), False

    def begin(self) -> None:
        """Say that the run has begun, unless another run of the system holds the file."""
        try:
            self._lock.acquire()
        except InfrastructureError:
            return
        self._ours = True
        self._write()

    def measures(self) -> None:
        """Take the file for the run that measures: a run that holds it is being refused."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while not self._ours and time.monotonic() < deadline:
            self.begin()
            time.sleep(0 if self._ours else 0.05)

    def stored(self, session: str) -> None:
        """Name the session by its uuid."""
        self._write(session=session)

    def end(self, code: int) -> None:
        """Say how the run ended."""
        if why := self._write(end=_now(), exit_code=code):
            print(f'parity: {self._file}: {why}: the heartbeat does not tell this end', file=sys.stderr)

    def _write(self, **news: str | int) -> str:
        """Replace the file in one step; return '' or why that failed, which stops no run."""
        self._said |= news
        try:
            if self._ours:
                files.write(self._file, json.dumps(self._said) + '\n')
        except OSError as err:
            return err.strerror or str(err)
        return ''


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def refused(code: int, arguments: list[str]) -> None:
    """Tell of a run with these arguments that was refused with this exit code before it could begin."""
    if not REHEARSALS & set(arguments):
        beat = Heartbeat(arguments)
        beat.begin()
        beat.end(code)


if __name__ == '__main__':
    errors.told(lambda: refused(int(sys.argv[1]), sys.argv[2:]))
