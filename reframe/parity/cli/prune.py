"""`parity prune`: remove old files of results/."""

from __future__ import annotations

import time
from contextlib import ExitStack

import typer

from parity.base.figures import counted

KEEP_DAYS = typer.Option(..., '--keep-days', metavar='N', min=1,
                         help='Remove older folders of stage and output, run reports and lines of perflogs.')
SESSIONS = typer.Option(None, '--sessions-days', metavar='N', min=1,
                        help='Remove older sessions, too; by default all are kept.')
DRY_RUN = typer.Option(False, '--dry-run', help='Print what would be removed, and remove nothing.')
_DAY = 86400


def run(keep_days: int = KEEP_DAYS, sessions_days: int = SESSIONS, dry_run: bool = DRY_RUN) -> None:
    """Remove old files of results/; the newest session of each system stays, and those of contracts."""
    from parity.base import paths
    from parity.base.files import Lock, lock_of
    from parity.measure.session import recovery, retain
    from parity.site import systems
    now = time.time()
    what = 'parity prune'
    locks = [Lock(paths.results() / '.nightly.lock', what)]
    locks += [lock_of(name, what) for name in systems.names()]
    pruned = None
    with ExitStack() as held:
        for lock in locks:
            lock.acquire()
            held.callback(lock.release)
        done = retain.prune_files(now - keep_days * _DAY, dry_run, recovery.recover_all)
        if sessions_days:
            pruned = retain.prune(now - sessions_days * _DAY, dry_run)
    verb = 'would be removed' if dry_run else 'removed'
    folders = counted(done.folders, 'folder')
    reports = counted(done.reports, 'run report')
    lines = counted(done.lines, 'line')
    print(f'parity: {verb}, older than {counted(keep_days, "day")}: {folders} of cases, {reports}, {lines} of '
          f'perflogs ({done.size / 1e6:.1f} MB)')
    if pruned is None:
        print('parity: all sessions are kept: they are the history (--sessions-days)')
        return
    print(f'parity: {verb}, older than {counted(sessions_days, "day")}: {counted(pruned.gone, "session")}')
    if pruned.of_contracts:
        print(f'parity: {counted(pruned.of_contracts, "older session")} of contracts stay: '
              'systems/*/contract.yaml is judged by them (parity contract status)')
