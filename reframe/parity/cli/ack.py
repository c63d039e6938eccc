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
    is_bad = cell.verdict in acks.BAD
    word = cell.verdict if is_bad else None
    level = _level(cell) if is_bad else {}
    ack = acks.Ack(cell=name, until=until, why=why, by=by, since=datetime.date.today(), word=word, **level)
    file = acks.write(cell.system, [ack])
    note = ''
    if ack.value is not None:
        note = f'; known at {_level_shown(cell.unit, ack.value, ack.expected)}'
    elif not is_bad:
        note = f'; it is {cell.verdict} now: any fault until then counts as acknowledged'
    print(visible(f'parity: {name}, acknowledged {ack}{note}; {file}'))


def _add_incident(incident: Incident, until: datetime.date, why: str, by: str) -> None:
    """Acknowledge the faults of an incident: its row and acks.yaml say the same."""
    from parity.judge.verdict import acks, incidents
    faults = incidents.acknowledgeable(incident)
    if not faults:
        why_not = 'is over' if incident.closed else 'cannot be acknowledged: nothing ran, or no night was stored'
        raise UsageError(f'incident {incident.number} {why_not}: {incident.title} '
                         '(parity incidents lists those that are open)')
    of_cells = [fault for fault in faults.values() if fault.cell]
    entries = []
    for fault in of_cells or list(faults.values())[:1]:
        entries.append(acks.Ack(incident=incident.number, cell=fault.cell or None, until=until, why=why, by=by,
                                since=datetime.date.today(), word=fault.word, **_level(fault)))
    text = str(entries[0])
    incidents.acknowledged(incident.number, faults.keys(), text, lambda: acks.write(incident.system, entries))
    if of_cells:
        what = counted(len(entries), 'cell')
    elif incident.nodes:
        what = f'node {several(incident.nodes)}'
    else:
        what = f'pair {several(list(faults))}'
    file = acks.path(incident.system)
    print(visible(f'parity: incident {incident.number}, {what}, acknowledged {text}; {file}'))


def _level(cell: Cell | Fault) -> dict[str, float]:
    """Return what an acknowledgement stores of the cell's figure; {} where nothing judges one."""
    if cell.value is None or cell.expected is None or not math.isfinite(cell.value):
        return {}
    return {'value': float(f'{cell.value:.6g}'), 'expected': float(f'{cell.expected:.6g}')}


def _level_shown(unit: str, value: float, expected: float) -> str:
    """Return '84 Gflop/s (-16.0 % of 100 Gflop/s)'."""
    share = change(value, expected)
    level = figure(value, unit)
    return f'{level} ({share} of {figure(expected, unit)})' if share else level


def _list(system: str) -> None:
    """Print what is acknowledged on every system, or on one, and how that stands."""
    from parity.base import console
    from parity.judge.report import show
    from parity.judge.store import incidents
    from parity.judge.verdict import acks
    from parity.site import systems
    listed: list[Ack] = []
    stored: dict[int, Incident] = {}
    for name in systems.asked(system):
        of_system = acks.read(name)
        listed += of_system
        if any(ack.incident for ack in of_system):
            stored |= {incident.number: incident for incident in incidents.of_system(name)}
    if not listed:
        console.say('nothing is acknowledged' + (f' on {system}' if system else ''))
        return
    newest = acks.by_name(show.newest())
    lines = []
    for ack in listed:
        stands = _standing(ack, newest.get(ack.cell, []), stored.get(ack.incident))
        lines.append(f'{ack.name}   {stands}   {ack} (since {ack.since}{_level_listed(ack)})')
    console.lines(lines)


def _level_listed(ack: Ack) -> str:
    """Return the level of an acknowledged cell; '' of an incident without cells."""
    if not ack.cell:
        return ''
    if ack.value is None:
        return ', at no level'
    return f' at {_level_shown("", ack.value, ack.expected)}'


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
