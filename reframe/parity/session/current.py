"""The session that this very ReFrame process runs: begun when its settings are read, closed at exit.

Before ReFrame touches anything the session takes the lock and recovers what a killed one left;
before ReFrame sets up its runtime the session writes its plan into a journal,
results/running/<id>.json. A session that is killed leaves the journal behind; the next one finds it
and recovers what the perflogs hold (parity.session.recovery).
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from parity.base import lock, paths, version
from parity.base.errors import ParityError, told
from parity.base.lock import Lock
from parity.records import database
from parity.rfm import store
from parity.session import owner, recovery

#: Set in the processes that only plan: they read the same settings and run nothing.
PLANNING = 'PARITY_PLANNING'


@dataclass
class Current:
    id: str
    journal: Path
    session: dict[str, Any]           # the plan, and later the facts of the machine
    began: float = field(default_factory=time.time)
    entered: bool = False


_lock: Lock | None = None
_current: Current | None = None


def begin(argv: list[str]) -> None:
    """Begin the session of `reframe ARGV` if that is a run; does nothing for any other command.

    Raises InfrastructureError when another session measures on this system.
    """
    global _lock
    if _lock is None and PLANNING not in os.environ and _runs(argv):
        _lock = lock_of(argv)
        _lock.acquire()
        database.discard_unmade()
        recovery.recover_all()
        _plan_before_runtime(argv)


def _plan_before_runtime(argv: list[str]) -> None:
    """Have ReFrame make the plan when it has read its settings: while it reads them, it has changed the
    working directory to theirs, and a relative -c would mean something else."""
    from reframe.core import runtime
    original = runtime.init_runtime

    def planned_first(*args, **kwargs):
        runtime.init_runtime = original
        told(lambda: _open(argv))
        return original(*args, **kwargs)

    runtime.init_runtime = planned_first


def _runs(argv: list[str]) -> bool:
    """-r or --run, alone or in a cluster such as -vr."""
    return any(a == '--run' or re.fullmatch(r'-[vq]*r[vq]*', a) for a in argv) and '--dry-run' not in argv


def lock_of(argv: list[str]) -> Lock:
    """The lock of the system that `reframe ARGV` measures: one run at a time."""
    from parity.system import systems
    system = systems.named(argv)
    return lock.of_system(system, f'reframe on {system}')


def _open(argv: list[str]) -> None:
    global _current
    from parity import plan
    from parity.system import systems
    planned = plan.of_command(argv)
    for problem in planned.problems:
        print(f'parity: warning: {problem}', file=sys.stderr)
    systems.guard_references(planned.system)
    current = Current(uuid.uuid4().hex[:12], Path(), {})
    current.session = {'id': current.id, 'plan': planned.model_dump(mode='json'), 'facts': {}, 'announcement': ''}
    current.journal = _write_journal(current, planned.system)
    atexit.register(_close, current, os.getpid())
    _current = current


def enter(check) -> Current:
    """The running session, for ``check``, a case that is being set up.

    The session's first case carries the plan and the facts of the machine into ReFrame's database.
    """
    if _current is None:  # -r was spelt in a way that _runs does not know
        _open(sys.argv[1:])
    if not _current.entered:
        _current.entered = True
        extras = check.current_partition.extras
        _current.session |= {'facts': _facts(check), 'announcement': extras.get('announcement', '')}
        check.parity_session = _current.session
    return _current


def _facts(check) -> dict:
    """What is known of the partition's machine, its limits, its software and of parity, for the report."""
    extras = check.current_partition.extras
    return {
        'parity': version.text(),
        'machine': extras.get('machine', {}),
        'limits': extras.get('limits', {}),
        'software': {e.name: e.extras.get('software', {}) for e in check.current_partition.environs},
        'filesystems': extras.get('filesystems', {}),
    }


def _write_journal(current: Current, system: str) -> Path:
    file = paths.results() / 'running' / f'{current.id}.json'
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix('.new')
    new.write_text(json.dumps({
        'id': current.id, **asdict(owner.current()), 'time_start_unix': current.began, 'system': system,
        'argv': sys.argv, 'session': current.session,
    }))
    os.replace(new, file)
    return file


def _close(current: Current, pid: int) -> None:
    """At exit: ReFrame has stored the session; one in which nothing started is stored here, all missing.

    If neither can be done (a full disk), the journal stays, and the next run recovers from it.
    """
    if os.getpid() != pid:
        return
    try:
        if not database.holds(current.id):
            if current.entered:
                return
            store.store(store.as_report(current.session, [], current.began, time.time(),
                                        cmdline=' '.join(sys.argv)))
        current.journal.unlink(missing_ok=True)
    except (ParityError, OSError) as err:
        print(f'parity: {err}: the next run recovers this session', file=sys.stderr)
