"""`parity ack`, `incidents` and `notify`: known faults, acknowledged until a day, and the notices of a system."""

from __future__ import annotations

import datetime
import getpass
import math
import os

from parity.base import console, figures, times
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted, several
from parity.base.text import refuse_in_words, visible
from parity.judge.report import incidents as words
from parity.judge.report import show
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Fault, Incident
from parity.judge.verdict import acks, incidents
from parity.judge.verdict.model import Cell
from parity.nightly import notify
from parity.site import systems


def add(wanted: str, until: str, why: str, by: str, system: str) -> None:
    """Write the acknowledgement of a cell into its system's acks.yaml. UsageError for what cannot be one."""
    if not wanted:
        raise UsageError('name the cell or the incident: parity ack CELL|INCIDENT --until DATE --why TEXT; '
                         'parity verdict names them')
    today = datetime.date.today()
    last = day('--until', until, today + datetime.timedelta(days=14))
    if last < today:
        raise UsageError(f'--until {last}: that day is over; today is {today}')
    why, by = reason(why), person(by)
    if wanted.isdecimal():
        _add_incident(table.read(wanted), last, why, by)
        return
    _, name, cell = show.find(on(wanted, system))
    if cell.verdict == 'missing':
        raise UsageError(f'{name} is missing: {cell.reason}; what never ran cannot be acknowledged '
                         f'(where a code may be absent, name it in waivers of systems/{cell.system}/system.yaml)')
    word = cell.verdict if cell.verdict in acks.BAD else None
    level = _level(cell) if word else {}
    said = acks.Ack(cell=name, until=last, why=why, by=by, since=today, word=word, **level)
    file = acks.write(cell.system, [said])
    note = '' if word else f'; it is {cell.verdict} now: whatever befalls it until then is taken as known'
    if said.value is not None:
        note = f'; known at {_level_shown(cell.unit, said.value, said.expected)}'
    print(visible(f'parity: {name}, acknowledged {said}{note}; {file}'))


def _level(cell: Cell | Fault) -> dict[str, float]:
    """Return what an acknowledgement stores of the cell's figure; {} where nothing judges one."""
    if cell.value is None or cell.expected is None or not math.isfinite(cell.value):
        return {}
    return {'value': float(f'{cell.value:.6g}'), 'expected': float(f'{cell.expected:.6g}')}


def _level_shown(unit: str, value: float, expected: float) -> str:
    """Return '84 Gflop/s (-16.0 % of 100 Gflop/s)'."""
    change = figures.change(value, expected)
    return figures.figure(value, unit) + (f' ({change} of {figures.figure(expected, unit)})' if change else '')


def day(option: str, text: str, example: datetime.date) -> datetime.date:
    """Return the day that an option gives. UsageError, with an example, for what is none."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f'{option} {text!r}: must be a day such as {example}') from None


def reason(why: str) -> str:
    """Return the text of --why. UsageError for one that says nothing, or has what nobody sees."""
    if len(why.strip()) < 3:
        raise UsageError(f'--why {why!r}: must say in three letters or more what happened')
    refuse_in_words([why])
    return why


def person(by: str) -> str:
    """Return who speaks: --by, else the login name. UsageError for a name with what nobody sees."""
    refuse_in_words([by])
    return by or os.environ.get('SUDO_USER') or getpass.getuser()


def on(wanted: str, system: str) -> str:
    """Return the name of a cell, on the system that --system gives."""
    name, _, rest = wanted.partition('@')
    return f'{name}@{systems.read(system).name}:{rest.partition(":")[2]}' if system else wanted


def _add_incident(incident: Incident, day: datetime.date, why: str, by: str) -> None:
    """Acknowledge the faults of an incident: its row and acks.yaml say the same."""
    known = incidents.acknowledgeable(incident)
    if not known:
        why_not = 'is over' if incident.closed else 'cannot be acknowledged: nothing ran, or no night was stored'
        raise UsageError(f'incident {incident.number} {why_not}: {incident.title} '
                         '(parity incidents lists those that are open)')
    today = datetime.date.today()
    cells = [fault for fault in known.values() if fault.cell]
    said = [acks.Ack(incident=incident.number, cell=fault.cell or None, until=day, why=why, by=by, since=today,
                     word=fault.word, **_level(fault)) for fault in cells or [*known.values()][:1]]
    incidents.acknowledged(incident.number, known.keys(), str(said[0]), lambda: acks.write(incident.system, said))
    if cells:
        what = counted(len(said), 'cell')
    else:
        what = f'node {several(incident.nodes)}' if incident.nodes else f'pair {several([*known])}'
    print(visible(f'parity: incident {incident.number}, {what}, acknowledged '
                  f'{said[0]}; {acks.path(incident.system)}'))


def take_back(wanted: str) -> None:
    """Take the acknowledgement of a cell, or of an incident, out of acks.yaml. UsageError where there is none."""
    if wanted.isdecimal():
        number, every = int(wanted), systems.names()
        own = [name for name in every if number in table.numbers(name)] or every
        known = [(ack, name) for name in own for ack in acks.read(name) if ack.incident == number]
        named = f'incident {wanted}'
        if not known:
            raise UsageError(f'incident {table.read(wanted).number} is not acknowledged; '
                             'parity ack --list tells what is')
    else:
        found = {ack.name: (ack, name) for name in systems.names() for ack in acks.read(name)}
        fits = show.fitting(wanted, found)
        if len(fits) != 1:
            what = f'{wanted!r} fits {len(fits)} acknowledgements' if fits else f'{wanted!r} is not acknowledged'
            raise UsageError(f'{what}; valid: {", ".join(fits or found) or "none: nothing is acknowledged"}')
        named, known = fits[0], [found[fits[0]]]
    (ack, system), gone = known[0], [each for each, _ in known]

    def write() -> None:
        acks.remove(system, lambda each: each in gone)

    if ack.incident in table.numbers(system):
        incidents.acknowledged(ack.incident, {each.cell for each in gone if each.cell}, '', write)
    else:
        write()
    left = ack.cell and ack.incident in {each.incident for each in acks.read(system)} - {None}
    still = f'; incident {ack.incident} still is, with its cells: parity unack {ack.incident}' if left else ''
    print(visible(f'parity: {named}, no longer acknowledged ({ack}){still}; {acks.path(system)}'))


def listing(system: str) -> None:
    """Print what is acknowledged on every system, or on one, and how that stands."""
    named = [systems.read(system).name] if system else systems.names()
    found = [(ack, name) for name in named for ack in acks.read(name)]
    newest = acks.by_name(show.newest()) if found else {}
    of_incidents = {name for ack, name in found if ack.incident}
    known = {each.number: each for name in of_incidents for each in table.of_system(name)}
    said = [] if found else ['nothing is acknowledged' + (f' on {system}' if system else '')]
    for ack, _ in found:
        level = ', at no level' if ack.value is None else f' at {_level_shown("", ack.value, ack.expected)}'
        stands = _standing(ack, newest.get(ack.cell, []), known.get(ack.incident))
        said.append(f'{ack.name}   {stands}   {ack} (since {ack.since}{level if ack.cell else ""})')
    console.lines((line, '') for line in said)


def _standing(ack: acks.Ack, cells: list[Cell], of: Incident | None) -> str:
    """Return how an acknowledged fault stands; ``of``: its incident, None where none is stored."""
    now = ', '.join(sorted({cell.verdict for cell in cells})) if ack.cell else of.title if of else 'not stored'
    if not ack.holds(datetime.date.today()):
        return f'EXPIRED: {now or "not measured"}'
    if of and ack.since < of.acks_from:
        return f'incident {of.number} is {"over" if of.closed else "back"}: it can go'
    if acks.well(cells):
        return f'{now}, and incident {of.number} is open' if of else f'{now} again: it can go'
    return now or 'not measured in the newest sessions'


def sent(system: str) -> None:
    """Send a notice. UsageError where no command is named; InfrastructureError with why it was not sent."""
    if systems.read(system).notify is None:
        raise UsageError(f'systems/{system}/system.yaml names no command; for instance '
                         'notify: {command: [sendmail, ME@example.org]}')
    notifier = notify.prepared(system)
    if why := notifier.test():
        raise InfrastructureError(f'notice not sent: {visible(why)}: correct `notify` of system.yaml, or its '
                                  'command')
    print(f'notice sent by {notifier.notify.command[0]}')


def print_open(system: str) -> None:
    """Print the incidents that are not over, of one system or of all, and when a notice had each."""
    named = [systems.read(system).name] if system else systems.names()
    stored = [name for name in named if system or table.numbers(name)]
    if not stored:
        print('no incident is stored')
    for name in stored:
        _print_open(name, '' if system else f'{name}: ')


def _print_open(system: str, head: str) -> None:
    every = table.of_system(system)
    known = [each for each in every if not each.closed]
    unread = ' that can be read' * (len(every) < len(table.numbers(system)))
    if not known:
        print(f'{system}: no incident{unread} is open')
    for each in known:
        at = f'told {times.minute(each.notified_at)}' if each.notified_at else 'not told yet'
        ack = f', acknowledged {each.ack}' if each.ack else ''
        print(visible(f'{head}incident {each.number}, {words.since(each)}{ack}: {each.title} ({at})'))
