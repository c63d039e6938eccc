"""`parity nodes`: the nodes of a system."""

from __future__ import annotations

import typer

from parity.cli.common import system_or_newest

SYSTEM = typer.Option('', '--system', help='The system; by default that of the newest session.')


def run(system: str = SYSTEM) -> None:
    """List the nodes: last measured, speed beside their peers by part, state, incidents."""
    from parity.base import console
    from parity.judge.nodes import listing, words
    from parity.judge.store import changes, database
    from parity.measure.scheduler import nodes
    known = system_or_newest(system)
    scheduled = nodes.of_system(known)
    nights = database.sessions(known.name, changes.SESSIONS)
    console.lines(words.lines(known, listing.of_system(known, scheduled), scheduled, changes.steps(nights, '')))
