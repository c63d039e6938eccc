"""`parity unack`: take an acknowledgement back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

from parity.base.errors import UsageError
from parity.base.text import visible

if TYPE_CHECKING:
    from parity.judge.verdict.acks import Ack

CELL = typer.Argument(..., metavar='CELL|INCIDENT', help='The cell or the incident, as for parity show.')


class Acknowledged(NamedTuple):
    """The acknowledgements of a cell, or of an incident with all its cells."""

    name: str           # of the cell or the incident
    system: str
    acks: list[Ack]


def run(cell: str = CELL) -> None:
    """Take back the acknowledgement of a cell, or of an incident with all its cells.

    \b
    parity unack 17
    parity unack triad@onebox:virtual
    """
    from parity.judge.store import incidents as table
    from parity.judge.verdict import acks, incidents
    gone = _of_incident(int(cell)) if cell.isdecimal() else _of_cell(cell)
    ack = gone.acks[0]

    def write() -> None:
        acks.remove(gone.system, lambda stored: stored in gone.acks)

    if ack.incident in table.numbers(gone.system):
        cells = {one.cell for one in gone.acks if one.cell}
        incidents.acknowledged(ack.incident, cells, '', write)
    else:
        write()
    still = ''
    if ack.cell and ack.incident and any(left.incident == ack.incident for left in acks.read(gone.system)):
        still = f'; incident {ack.incident} still is, with its cells: parity unack {ack.incident}'
    print(visible(f'parity: {gone.name}, no longer acknowledged ({ack}){still}; {acks.path(gone.system)}'))


def _of_incident(number: int) -> Acknowledged:
    """Return the acknowledgements of an incident. UsageError where there is none."""
    from parity.judge.store import incidents
    from parity.judge.verdict import acks
    from parity.site import systems
    names = systems.names()
    with_incident = [name for name in names if number in incidents.numbers(name)]
    for name in with_incident or names:
        of_incident = [ack for ack in acks.read(name) if ack.incident == number]
        if of_incident:
            return Acknowledged(f'incident {number}', name, of_incident)
    raise UsageError(f'incident {incidents.read(str(number)).number} is not acknowledged; '
                     'parity ack --list lists what is')


def _of_cell(wanted: str) -> Acknowledged:
    """Return the acknowledgement of a cell. UsageError where none, or several, fit."""
    from parity.judge.report import show
    from parity.judge.verdict import acks
    from parity.site import systems
    by_name = {}
    for system in systems.names():
        for ack in acks.read(system):
            by_name[ack.name] = Acknowledged(ack.name, system, [ack])
    fits = show.fitting(wanted, by_name)
    if len(fits) == 1:
        return by_name[fits[0]]
    what = f'{wanted!r} fits {len(fits)} acknowledgements' if fits else f'{wanted!r} is not acknowledged'
    raise UsageError(f'{what}; valid: {", ".join(fits or by_name) or "none: nothing is acknowledged"}')
