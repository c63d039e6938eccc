"""The journals of sessions that were begun: results/running/ID.json, removed when the session is stored.

A session holds its system's lock until its process ends. So one whose lock is free was killed. Where locks do not
work between the hosts that share the results, this is certain on the session's own host only."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parity.base import paths
from parity.base.files import Lock, lock_of

_KEYS = {'id': str, 'pid': int, 'time_start_unix': float, 'argv': list, 'session': dict}


@dataclass(frozen=True)
class Journal:
    """A session that was begun: by which process and command, when (Unix time), with which plan and facts."""

    file: Path
    id: str
    pid: int
    began: float
    command: list[str]
    session: dict[str, Any]
    system: str
    host: str
    study: str

    @property
    def is_here(self) -> bool:
        """Return whether it was begun on this host."""
        return self.host == socket.gethostname()

    def lock(self) -> Lock:
        """Return the lock that the session held while it ran."""
        return lock_of(self.system, f'recovery of session {self.id}')

    def left_alone(self) -> str:
        """Say why a session of another host is not recovered here."""
        return (f'session {self.id}, begun by process {self.pid} on {self.host}, is left alone: it may '
                f'still run there. If it was killed: parity merge --recover {self.id}')


def every() -> list[Journal]:
    """Return the journals in their folder. A file that another hand wrote is moved aside, with a warning."""
    folder = paths.results() / 'running'
    journals = []
    for file in sorted(folder.glob('*.json')):
        try:
            journals.append(_read(file))
        except FileNotFoundError:   # its session has just ended
            pass
        except OSError as err:
            print(f'parity: warning: {file}: {err.strerror}: its session is left alone', file=sys.stderr)
        except ValueError:
            print(f'parity: warning: {file} is no journal of a session: moved to {file.name}.bad', file=sys.stderr)
            with suppress(OSError):
                file.rename(file.with_name(f'{file.name}.bad'))
    return journals


def _read(file: Path) -> Journal:
    """Read a journal; ValueError where it is none."""
    state = json.loads(file.read_text())
    if not isinstance(state, dict):
        raise ValueError
    for key, kind in _KEYS.items():
        if not isinstance(state.get(key), kind):
            raise ValueError
    host = state.get('host', 'an unknown host')     # an older journal names none
    return Journal(
        file=file,
        id=state['id'],
        pid=state['pid'],
        began=state['time_start_unix'],
        command=state['argv'],
        session=state['session'],
        system=state.get('system', 'unknown'),
        host=host,
        study=state.get('study', ''))


def left_behind() -> list[Journal]:
    """Return those of killed sessions. One whose system is being measured is left to the run that measures it."""
    return [journal for journal in every() if not journal.lock().held_elsewhere()]


def warnings() -> list[str]:
    """Return a sentence for each session that was begun, and neither runs nor is in the database."""
    sentences = []
    for journal in left_behind():
        if journal.is_here:
            sentences.append(f'session {journal.id} was killed: the next run recovers it')
        else:
            sentences.append(journal.left_alone())
    return sentences


def measures(study: str) -> bool:
    """Return whether a session of the study (not '') was begun, and has not ended or was not recovered."""
    return bool(study) and any(journal.study == study for journal in every())
