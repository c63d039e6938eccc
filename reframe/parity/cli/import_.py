"""`parity import`: make nights of what ReFrame stored without parity, and judge the newest."""

from __future__ import annotations

from pathlib import Path

import typer

EARLIER = typer.Argument(..., metavar='DB|LOG|FOLDER', help='A results.db, a perflog, or a folder of perflogs.')
DRY_RUN = typer.Option(False, '--dry-run', help='Print what would be imported, and why the rest is left out.')
FORMAT = typer.Option('', '--format', metavar='TEXT',
                      help="Of perflogs without a header: the `format` of ReFrame's logging configuration.")


def run(file: str = EARLIER, dry_run: bool = DRY_RUN, form: str = FORMAT) -> int:
    """Make nights of what ReFrame stored without parity, and judge the newest of each system.

    \b
    parity import ~/reframe/reports/results.db
    parity import OLD/perflogs --dry-run

    Every morning the same command: it takes what is new, prints the verdict, and tells the news of incidents.

    Exit code: of the verdict; of --dry-run 0. 2 usage, 3 nothing can be imported."""
    from parity.base import errors
    from parity.judge.store import database, imported, perflogs
    if not file:
        raise errors.UsageError('name a results.db, a perflog, or a folder of perflogs')
    earlier = set(database.uuids())
    header = perflogs.of_format(form) if form else None
    taken = imported.run(Path(file), dry_run, header)
    for line in taken.sentences:
        print(f'parity: {line}', flush=True)
    if dry_run:
        return errors.OK
    from parity.nightly import morning
    return morning.judged(taken.systems, taken.sessions, earlier)
