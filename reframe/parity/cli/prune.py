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
    now, what = time.time(), 'parity prune'
    with ExitStack() as held:
        for lock in (Lock(paths.results() / '.nightly.lock', what),
                     *(lock_of(name, what) for name in systems.names())):
            lock.acquire()
            held.callback(lock.release)
        done = retain.prune_files(now - keep_days * _DAY, dry_run, recovery.recover_all)
        pruned = retain.prune(now - sessions_days * _DAY, dry_run) if sessions_days else retain.Pruned(0)
    verb = 'would be removed' if dry_run else 'removed'
    print(f'parity: {verb}, older than {counted(keep_days, "day")}: {counted(done.folders, "folder")} of '
          f'cases, {counted(done.reports, "run report")}, {counted(done.lines, "line")} of perflogs '
          f'({done.size / 1e6:.1f} MB)')
    if sessions_days:
        print(f'parity: {verb}, older than {counted(sessions_days, "day")}: {counted(pruned.gone, "session")}')
        if pruned.of_contracts:
            print(f'parity: {counted(pruned.of_contracts, "older session")} of contracts stay: '
                  'systems/*/contract.yaml is judged by them (parity contract status)')
    else:
        print('parity: all sessions are kept: they are the history (--sessions-days)')
