"""`parity ack`: known faults, acknowledged until a day."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

import typer

from parity.base.errors import UsageError
from parity.base.figures import change, counted, figure, several
from parity.base.text import visible
from parity.cli.common import BY, SYSTEM_OF_CELL, day, on, person, reason

if TYPE_CHECKING:
    from parity.judge.store.incidents import Fault, Incident
    from parity.judge.verdict.acks import Ack
    from parity.judge.verdict.model import Cell

CELL = typer.Argument('', metavar='CELL|INCIDENT', help='The cell or the incident, as for parity show.')
UNTIL = typer.Option('', metavar='DATE', help='The last day on which it holds, such as 2026-12-01.')
WHY = typer.Option('', metavar='TEXT', help='What is broken, and what is done about it.')
LIST = typer.Option(False, '--list', help='List what is acknowledged, and how those cells stand.')
#: The length of the example that a message gives.
_EXAMPLE = datetime.timedelta(days=14)


def run(cell: str = CELL, until: str = UNTIL, why: str = WHY, by: str = BY, system: str = SYSTEM_OF_CELL,
        listed: bool = LIST) -> None:
    """Acknowledge a known fault until a day: it stays in the verdict, but does not set the exit code.

    \b
    parity ack 17 --until 2026-12-01 --why 'DIMM ordered'
    parity ack triad@onebox:virtual --until 2026-12-01 --why 'DIMM ordered'
    parity ack --list
    """
    if listed:
        _list(system)
        return
    if not cell:
        raise UsageError('name the cell or the incident: parity ack CELL|INCIDENT --until DATE --why TEXT; '
                         'parity verdict names them')
    today = datetime.date.today()
    last = day('--until', until, today + _EXAMPLE)
    if last < today:
        raise UsageError(f'--until {last}: that day is over; today is {today}')
    why, by = reason(why), person(by)
    if cell.isdecimal():
        from parity.judge.store import incidents
        _add_incident(incidents.read(cell), last, why, by)
    else:
        _add_cell(on(cell, system), last, why, by)


def _add_cell(wanted: str, until: datetime.date, why: str, by: str) -> None:
    """Write the acknowledgement of a cell into its system's acks.yaml."""
    from parity.judge.report import show
    from parity.judge.verdict import acks
    _, name, cell = show.find(wanted)
    if cell.verdict == 'missing':
        raise UsageError(f'{name} is missing: {cell.reason}; what never ran cannot be acknowledged '
                         f'(where a code may be absent, name it in waivers of systems/{cell.system}/system.yaml)')
    word = cell.verdict if cell.verdict in acks.BAD else None
    level = _level(cell) if word else {}
    ack = acks.Ack(cell=name, until=until, why=why, by=by, since=datetime.date.today(), word=word, **level)
    file = acks.write(cell.system, [ack])
    note = '' if word else f'; it is {cell.verdict} now: whatever befalls it until then is taken as known'
    if ack.value is not None:
        note = f'; known at {_level_shown(cell.unit, ack.value, ack.expected)}'
    print(visible(f'parity: {name}, acknowledged {ack}{note}; {file}'))


def _add_incident(incident: Incident, until: datetime.date, why: str, by: str) -> None:
    """Acknowledge the faults of an incident: its row and acks.yaml say the same."""
    from parity.judge.verdict import acks, incidents
    known = incidents.acknowledgeable(incident)
    if not known:
        why_not = 'is over' if incident.closed else 'cannot be acknowledged: nothing ran, or no night was stored'
        raise UsageError(f'incident {incident.number} {why_not}: {incident.title} '
                         '(parity incidents lists those that are open)')
    today = datetime.date.today()
    cells = [fault for fault in known.values() if fault.cell]
    said = [acks.Ack(incident=incident.number, cell=fault.cell or None, until=until, why=why, by=by, since=today,
                     word=fault.word, **_level(fault)) for fault in cells or [*known.values()][:1]]
    incidents.acknowledged(incident.number, known.keys(), str(said[0]), lambda: acks.write(incident.system, said))
    if cells:
        what = counted(len(said), 'cell')
    else:
        what = f'node {several(incident.nodes)}' if incident.nodes else f'pair {several([*known])}'
    print(visible(f'parity: incident {incident.number}, {what}, acknowledged '
                  f'{said[0]}; {acks.path(incident.system)}'))


def _level(cell: Cell | Fault) -> dict[str, float]:
    """Return what an acknowledgement stores of the cell's figure; {} where nothing judges one."""
    if cell.value is None or cell.expected is None or not math.isfinite(cell.value):
        return {}
    return {'value': float(f'{cell.value:.6g}'), 'expected': float(f'{cell.expected:.6g}')}


def _level_shown(unit: str, value: float, expected: float) -> str:
    """Return '84 Gflop/s (-16.0 % of 100 Gflop/s)'."""
    share = change(value, expected)
    return figure(value, unit) + (f' ({share} of {figure(expected, unit)})' if share else '')


def _list(system: str) -> None:
    """Print what is acknowledged on every system, or on one, and how that stands."""
    from parity.base import console
    from parity.judge.report import show
    from parity.judge.store import incidents
    from parity.judge.verdict import acks
    from parity.site import systems
    named = [systems.read(system).name] if system else systems.names()
    found = [(ack, name) for name in named for ack in acks.read(name)]
    newest = acks.by_name(show.newest()) if found else {}
    of_incidents = {name for ack, name in found if ack.incident}
    known = {each.number: each for name in of_incidents for each in incidents.of_system(name)}
    said = [] if found else ['nothing is acknowledged' + (f' on {system}' if system else '')]
    for ack, _ in found:
        level = ', at no level' if ack.value is None else f' at {_level_shown("", ack.value, ack.expected)}'
        stands = _standing(ack, newest.get(ack.cell, []), known.get(ack.incident))
        said.append(f'{ack.name}   {stands}   {ack} (since {ack.since}{level if ack.cell else ""})')
    console.lines((line, '') for line in said)


def _standing(ack: Ack, cells: list[Cell], incident: Incident | None) -> str:
    """Return how an acknowledged fault stands; ``incident``: None where none is stored."""
    from parity.judge.verdict import acks
    if ack.cell:
        now = ', '.join(sorted({cell.verdict for cell in cells}))
    else:
        now = incident.title if incident else 'not stored'
    if not ack.holds(datetime.date.today()):
        return f'EXPIRED: {now or "not measured"}'
    if incident and ack.since < incident.acks_from:
        return f'incident {incident.number} is {"over" if incident.closed else "back"}: it can go'
    if acks.well(cells):
        return f'{now}, and incident {incident.number} is open' if incident else f'{now} again: it can go'
    return now or 'not measured in the newest sessions'
