"""`parity sessions`, `parity prune`, `parity merge` and `parity import`: the sessions and files that are kept."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import typer

from parity.base.errors import UsageError
from parity.base.figures import counted

app = typer.Typer()
_DAY = 86400
OF_SYSTEM = typer.Option('', '--system', help='Those of this system; all if not given.')
LAST = typer.Option(20, '--last', metavar='N', min=1, help='So many of the newest.')
KEEP_DAYS = typer.Option(..., '--keep-days', metavar='N', min=1,
                    help='Remove older folders of stage and output, run reports and lines of perflogs.')
SESSIONS = typer.Option(None, '--sessions-days', metavar='N', min=1,
                        help='Remove older sessions, too; by default all are kept.')
DRY_RUN = typer.Option(False, '--dry-run', help='Print what would be removed, and remove nothing.')
DATABASES = typer.Argument(None, metavar='[DB...]', help='results.db of other machines.')
EARLIER = typer.Argument(..., metavar='DB|LOG|FOLDER', help='A results.db, a perflog, or a folder of perflogs.')
TRY = typer.Option(False, '--dry-run', help='Print what would be imported, and why the rest is left out.')
RECOVER = typer.Option('', '--recover', metavar='ID',
                       help='Store what this session, killed before its end, had finished.')


@app.command('sessions')
def listed(system: str = OF_SYSTEM, last: int = LAST):
    """List the stored sessions, the newest last: when each began, how long it took, what it ran.

    \b
    parity sessions --system onebox --last 50
    parity verdict --session 5d5ec1ad           one of them, by its first letters

    Exit code: 0 printed, 2 usage, 3 nothing is stored."""
    from parity.base import console
    from parity.judge.report import sessions
    from parity.site import systems
    name = systems.read(system).name if system else ''
    console.lines((line, '') for line in sessions.lines(name, last))


@app.command()
def prune(keep_days: int = KEEP_DAYS, sessions_days: int = SESSIONS, dry_run: bool = DRY_RUN):
    """Remove old files of results/; the newest session of each system stays."""
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
        gone = retain.prune(now - sessions_days * _DAY, dry_run) if sessions_days else 0
    verb = 'would be removed' if dry_run else 'removed'
    print(f'parity: {verb}, older than {counted(keep_days, "day")}: {counted(done["folders"], "folder")} of '
          f'cases, {counted(done["reports"], "run report")}, {counted(done["lines"], "line")} of perflogs '
          f'({done["size"] / 1e6:.1f} MB)')
    sessions = f'{verb}, older than {counted(sessions_days or 0, "day")}: {counted(gone, "session")}'
    kept = 'all sessions are kept: they are the history (--sessions-days)'
    print(f'parity: {sessions if sessions_days else kept}')


@app.command()
def merge(databases: list[str] = DATABASES, recover: str = RECOVER):
    """Add the sessions of other results databases to this one; those that are here already are left out."""
    if not databases and not recover:
        raise UsageError('name a results.db to merge, or a session that was killed: --recover ID')
    if recover:
        from parity.measure.session import recovery
        print(f'parity: {recovery.take(recover)}')
    from parity.judge.store import merging
    for name in databases or ():
        added, known = merging.merge(Path(name))
        told = ', '.join(f'{count} of {system}' for system, count in sorted(added.items())) or 'none'
        print(f'parity: {name}: sessions added: {told}; {known} were here already')


@app.command('import')
def take(file: str = EARLIER, dry_run: bool = TRY):
    """Make history of what ReFrame stored before parity was there.

    \b
    parity import OLD/results.db --dry-run
    parity import OLD/perflogs
    """
    from parity.judge.store import imported
    for said in imported.run(Path(file), dry_run):
        print(f'parity: {said}')
