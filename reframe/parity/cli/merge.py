"""`parity merge`: sessions of other results databases, and of a run that was killed."""

from __future__ import annotations

from pathlib import Path

import typer

from parity.base.errors import UsageError

DATABASES = typer.Argument(None, metavar='[DB...]', help='results.db of other machines.')
RECOVER = typer.Option('', '--recover', metavar='ID',
                       help='Store what this session, killed before its end, had finished.')


def run(databases: list[str] = DATABASES, recover: str = RECOVER) -> None:
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
