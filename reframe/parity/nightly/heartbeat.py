"""results/heartbeat/SYSTEM.json: when the last ci/nightly of a system began and how it ended, for a monitor."""

from __future__ import annotations

import datetime
import json
import os
import re
import socket
import sys

from parity.base import files, paths
from parity.base.errors import InfrastructureError, ParityError
from parity.base.files import Lock
from parity.site import systems

#: Options of a run that measures nothing: it has no heartbeat.
REHEARSALS = frozenset({'-h', '--help', '--dry-run'})


class Heartbeat:
    """The file of a run, written when it begins, when its session is stored and when it ends.

    A run that dies leaves `end` null. A run that is refused because another one measures leaves that one's file
    alone. The file is unknown.json if no option names a system and the system files cannot be read."""

    def __init__(self, arguments: list[str]):
        system = _system_of(arguments)
        self._record = {'system': system, 'start': _now(), 'end': None, 'exit_code': None, 'session': None,
                        'host': socket.gethostname(), 'pid': os.getpid()}
        folder = paths.results() / 'heartbeat'
        self._file = folder / f'{system}.json'
        self._lock = Lock(folder / f'.{system}.lock', 'ci/nightly')
        self._ours = False

    def write(self, **news: str | int) -> None:
        """Replace the file in one step, unless another run of the system holds it. A failure stops no run.

        A run that is being refused holds the file for a moment only: each write tries again to take it."""
        self._record |= news
        try:
            if not self._ours:
                self._lock.acquire()
                self._ours = True
            files.write(self._file, json.dumps(self._record) + '\n')
        except InfrastructureError:
            return
        except OSError as err:
            print(f'parity: {self._file}: {err.strerror}: the heartbeat is out of date', file=sys.stderr)

    def end(self, code: int) -> None:
        """Say how the run ended."""
        self.write(end=_now(), exit_code=code)


def _system_of(arguments: list[str]) -> str:
    """Return the system that a run measures; where the system files cannot be read, the one that is stated."""
    try:
        return systems.named(arguments)
    except ParityError:
        name = systems.stated(arguments) or ''
        return name if re.fullmatch(r'[A-Za-z0-9_-]+', name) else 'unknown'


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')

