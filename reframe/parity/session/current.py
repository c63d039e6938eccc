"""The session that this very ReFrame process runs: opened by its first case, closed at exit.

While it runs there is a journal, results/running/<id>.json, with the plan that was known before
the run. A session that is killed leaves it behind; the next one finds it and recovers what the
perflogs hold (parity.session.recovery).
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from parity import paths
from parity.session import database, process, recovery
from parity.session.lock import Lock


@dataclass
class Current:
    id: str
    journal: Path
    lock: Lock


_current: Current | None = None


def enter(check) -> Current:
    """The running session; ``check``, a case that is being set up, opens it if it is the first.

    The first case carries the plan and the facts of the machine into the results database.
    Raises InfrastructureError when another session measures on this system.
    """
    global _current
    if _current is None:
        _current = _open(check)
    return _current


def _open(check) -> Current:
    from parity import plan
    system = check.current_system.name
    lock = Lock(paths.results() / f'.session-{system}.lock', f'reframe on {system}')
    lock.acquire()
    recovery.recover_all()
    current = Current(uuid.uuid4().hex[:12], Path(), lock)
    check.parity_session = {
        'id': current.id,
        'plan': plan.of_command(sys.argv[1:]).model_dump(mode='json'),
        'facts': _facts(check),
        'providers': sorted({e.extras.get('provider', '') for e in check.current_partition.environs}),
        'announcement': check.current_partition.extras.get('announcement', ''),
    }
    current.journal = _write_journal(current.id, system, check.parity_session)
    atexit.register(_close, current, os.getpid())
    return current


def _facts(check) -> dict:
    """What is known of the partition's machine, its limits and its software, for the report."""
    extras = check.current_partition.extras
    return {
        'machine': extras.get('machine', {}),
        'limits': extras.get('limits', {}),
        'software': check.current_environ.extras.get('software', {}),
        'filesystems': extras.get('filesystems', {}),
    }


def _write_journal(session_id: str, system: str, session: dict) -> Path:
    file = paths.results() / 'running' / f'{session_id}.json'
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix('.new')
    new.write_text(json.dumps({
        'id': session_id, 'pid': os.getpid(), 'started': process.start_time(os.getpid()),
        'time_start_unix': time.time(), 'system': system, 'argv': sys.argv, 'session': session,
    }))
    os.replace(new, file)
    return file


def _close(current: Current, pid: int) -> None:
    """At exit ReFrame has stored the session; if it could not, the journal stays to recover from."""
    if os.getpid() == pid and database.holds(current.id):
        current.journal.unlink(missing_ok=True)
