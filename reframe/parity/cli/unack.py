"""`parity unack`: take an acknowledgement back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from parity.base.errors import UsageError
from parity.base.text import visible

if TYPE_CHECKING:
    from parity.judge.verdict.acks import Ack

CELL = typer.Argument(..., metavar='CELL|INCIDENT', help='The cell or the incident, as for parity show.')


def run(cell: str = CELL) -> None:
    """Take back the acknowledgement of a cell, or of an incident with all its cells.

    \b
    parity unack 17
    parity unack triad@onebox:virtual
    """
    from parity.judge.store import incidents as table
    from parity.judge.verdict import acks, incidents
    if cell.isdecimal():
        name, system, gone = f'incident {cell}', *_of_incident(int(cell))
    else:
        name, system, gone = _of_cell(cell)
    ack = gone[0]

    def write() -> None:
        acks.remove(system, lambda each: each in gone)

    if ack.incident in table.numbers(system):
        incidents.acknowledged(ack.incident, {each.cell for each in gone if each.cell}, '', write)
    else:
        write()
    left = ack.cell and ack.incident in {each.incident for each in acks.read(system)} - {None}
    still = f'; incident {ack.incident} still is, with its cells: parity unack {ack.incident}' if left else ''
    print(visible(f'parity: {name}, no longer acknowledged ({ack}){still}; {acks.path(system)}'))


def _of_incident(number: int) -> tuple[str, list[Ack]]:
    """Return the system and the acknowledgements of an incident. UsageError where there is none."""
    from parity.judge.store import incidents
    from parity.judge.verdict import acks
    from parity.site import systems
    every = systems.names()
    own = [name for name in every if number in incidents.numbers(name)] or every
    known = [(name, ack) for name in own for ack in acks.read(name) if ack.incident == number]
    if not known:
        raise UsageError(f'incident {incidents.read(str(number)).number} is not acknowledged; '
                         'parity ack --list tells what is')
    return known[0][0], [ack for _, ack in known]


def _of_cell(wanted: str) -> tuple[str, str, list[Ack]]:
    """Return the name, the system and the acknowledgement of a cell. UsageError where none, or several, fit."""
    from parity.judge.report import show
    from parity.judge.verdict import acks
    from parity.site import systems
    known = {ack.name: (name, ack) for name in systems.names() for ack in acks.read(name)}
    fits = show.fitting(wanted, known)
    if len(fits) != 1:
        what = f'{wanted!r} fits {len(fits)} acknowledgements' if fits else f'{wanted!r} is not acknowledged'
        raise UsageError(f'{what}; valid: {", ".join(fits or known) or "none: nothing is acknowledged"}')
    system, ack = known[fits[0]]
    return fits[0], system, [ack]
