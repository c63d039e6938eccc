"""`parity node NAME`: one node, its history, and whether it is as fast as its peers now."""

from __future__ import annotations

import typer

from parity.base.errors import UsageError
from parity.cli.common import system_or_newest

NAME = typer.Argument(metavar='NAME', help='The node, as its scheduler names it.')
SYSTEM = typer.Option('', '--system', help='The system; by default that of the newest session.')
GATE = typer.Option(False, '--gate', help='Measure the node now, and print whether it is as fast as its peers.')
RESERVATION = typer.Option('', '--reservation', metavar='NAME',
                           help='With --gate: the reservation of Slurm in which to measure it.')


def run(name: str = NAME, system: str = SYSTEM, gate: bool = GATE, reservation: str = RESERVATION) -> int | None:
    """Print the state and the history of a node; --gate measures it now, as before its return to service.

    \b
    parity node c3 --gate; echo $?

    Exit code of --gate: 0 like its peers, 1 slower, 3 too few peers to say, 4 not measurable."""
    known = system_or_newest(system)
    if gate:
        from parity.measure.nodes import gate as gates
        return gates.gate(name, known, reservation)
    if reservation:
        raise UsageError('--reservation is only for --gate: add --gate, or leave it out')
    from parity.base import console
    from parity.judge.nodes import listing, words
    from parity.judge.store import changes, database
    from parity.measure.scheduler import nodes
    scheduled = nodes.of_system(known)
    listed, = listing.of_system(known, scheduled, name)
    nights = database.sessions(known.name)
    console.lines(words.of_node(known, listed, scheduled.unknown, changes.steps(nights, '')))
    return None
