"""`parity prune` and `parity merge`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from parity.base import paths
from parity.base.errors import UsageError
from parity.base.files import Lock, lock_of
from parity.session import recovery, retain
from parity.system import systems

_DAY = 86400


def prune(keep_days: int, sessions_days: int | None, dry_run: bool) -> None:
    """Remove what is older; InfrastructureError while something measures."""
    now = time.time()
    with ExitStack() as held:
        _nobody_measures(held)
        done = retain.prune_files(now - keep_days * _DAY, dry_run, recovery.recover_all)
        gone = retain.prune(now - sessions_days * _DAY, dry_run) if sessions_days else 0
    verb = 'would be removed' if dry_run else 'removed'
    print(f'parity: {verb}, older than {keep_days} days: {done.folders} folders of cases, {done.reports} run '
          f'reports, {done.lines} lines of perflogs ({done.size / 1e6:.1f} MB)')
    print(f'parity: {verb}, older than {sessions_days} days: {gone} sessions' if sessions_days
          else 'parity: all sessions are kept: they are the history (--sessions-days)')


def _nobody_measures(held: ExitStack) -> None:
    what = 'parity prune'
    for lock in (Lock(paths.results() / '.nightly.lock', what),
                 *(lock_of(name, what) for name in systems.names())):
        lock.acquire()
        held.callback(lock.release)


def merge(databases: list[str], recover: str) -> None:
    """Recover the session ``recover``; add the sessions of each database, all or none of it."""
    if not databases and not recover:
        raise UsageError('merge what? Name a results.db, or a session that was left behind: --recover ID')
    if recover:
        print(f'parity: {recovery.take(recover)}')
    for name in databases:
        added, known = retain.merge(Path(name))
        told = ', '.join(f'{count} of {system}' for system, count in sorted(added.items())) or 'none'
        print(f'parity: {name}: sessions added: {told}; {known} were here already')
