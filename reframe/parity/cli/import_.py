"""`parity import`: make history of what ReFrame stored before parity was there."""

from __future__ import annotations

from pathlib import Path

import typer

EARLIER = typer.Argument(..., metavar='DB|LOG|FOLDER', help='A results.db, a perflog, or a folder of perflogs.')
DRY_RUN = typer.Option(False, '--dry-run', help='Print what would be imported, and why the rest is left out.')


def run(file: str = EARLIER, dry_run: bool = DRY_RUN) -> None:
    """Make history of what ReFrame stored before parity was there.

    \b
    parity import OLD/results.db --dry-run
    parity import OLD/perflogs
    """
    from parity.judge.store import imported
    for line in imported.run(Path(file), dry_run):
        print(f'parity: {line}')
