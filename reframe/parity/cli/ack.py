"""`parity ack` and `parity notify`: known faults, acknowledged until a day, and the notices about a system."""

from __future__ import annotations

import datetime
import getpass
import os

from parity.base import console
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted
from parity.base.text import visible
from parity.nightly import notify
from parity.records import incidents as table
from parity.records.incidents import Incident
from parity.records.outset import NAME
from parity.report import incidents as words
from parity.report import show
from parity.system import systems
from parity.verdict import acks, incidents


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
    level = acks.level(cell) if word else {}
    said = acks.Ack(cell=name, until=last, why=why, by=by, since=today, word=word, **level)
    file = acks.write(cell.system, [said])
    note = '' if word else f'; it is {cell.verdict} now: whatever befalls it until then is taken as known'
    if said.value is not None:
        note = f'; known at {acks.level_shown(cell.unit, said.value, said.expected)}'
    print(visible(f'parity: {name}, acknowledged {said}{note}; {file}'))


def day(option: str, text: str, example: datetime.date) -> datetime.date:
    """Return the day that an option gives. UsageError, with an example, for what is none."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f'{option} {text!r}: must be a day such as {example}') from None


def reason(why: str) -> str:
    """Return the text of --why. UsageError for one that says nothing."""
    if len(why.strip()) < 3:
        raise UsageError(f'--why {why!r}: must say in three letters or more what happened')
    return why


def person(by: str) -> str:
    """Return who speaks: --by, else the login name."""
    return by or os.environ.get('SUDO_USER') or getpass.getuser()


def on(wanted: str, system: str) -> str:
    """Return the name of a cell, on the system that --system gives."""
    name, _, rest = wanted.partition('@')
    return f'{name}@{systems.read(system).name}:{rest.partition(":")[2]}' if system else wanted


def _add_incident(incident: Incident, day: datetime.date, why: str, by: str) -> None:
    """Acknowledge the faults of an incident: its row and acks.yaml say the same."""
    left = incident.left or incident.faults
    known = {name: fault for name, fault in left.items() if fault.cell and fault.word in acks.BAD}
    if incident.closed or not known:
        why_not = 'is over' if incident.closed else 'has no cell that can be acknowledged: what never ran cannot'
        raise UsageError(f'incident {incident.number} {why_not}: {incident.title}')
    today = datetime.date.today()
    said = [acks.Ack(incident=incident.number, cell=fault.cell, until=day, why=why, by=by, since=today,
                     word=fault.word, **acks.level(fault)) for fault in known.values()]
    incidents.acknowledged(incident.number, known.keys(), str(said[0]), lambda: acks.write(incident.system, said))
    print(visible(f'parity: incident {incident.number}, {counted(len(said), "cell")}, acknowledged '
                  f'{said[0]}; {acks.path(incident.system)}'))


def take_back(wanted: str) -> None:
    """Take the acknowledgement of a cell, or of an incident, out of acks.yaml. UsageError where there is none."""
    if wanted.isdecimal():
        incident = table.read(wanted)
        known = [ack for ack in acks.read(incident.system) if ack.incident == incident.number]
        if not known:
            raise UsageError(f'incident {wanted} is not acknowledged; parity ack --list tells what is')
        system, named = incident.system, f'incident {wanted}'
    else:
        found = {ack.cell: ack for name in systems.names() for ack in acks.read(name)}
        fits = show.fitting(wanted, found)
        if len(fits) != 1:
            what = f'{wanted!r} fits {len(fits)} acknowledged cells' if fits else f'{wanted!r} is not acknowledged'
            raise UsageError(f'{what}; valid: {", ".join(fits or found) or "none: nothing is acknowledged"}')
        known = [found[fits[0]]]
        system, named = NAME.fullmatch(fits[0])['system'], fits[0]

    def write() -> None:
        acks.remove(system, lambda ack: ack in known)

    if known[0].incident:
        incidents.acknowledged(known[0].incident, {ack.cell for ack in known}, '', write)
    else:
        write()
    print(visible(f'parity: {named}, no longer acknowledged ({known[0]}); {acks.path(system)}'))


def listing(system: str) -> None:
    """Print what is acknowledged on every system, or on one, and how those cells stand."""
    named = [systems.read(system).name] if system else systems.names()
    found = [ack for name in named for ack in acks.read(name)]
    newest = acks.by_name(show.newest()) if found else {}
    said = [] if found else ['nothing is acknowledged' + (f' on {system}' if system else '')]
    for ack in found:
        found_now = {cell.verdict for cell in newest.get(ack.cell, ())}
        words = ', '.join(sorted(found_now))
        stands = words or 'not measured in the newest sessions'
        if not ack.holds(datetime.date.today()):
            stands = f'EXPIRED: {words or "not measured"}'
        elif words and found_now <= acks.OVER:
            stands += ' again: it can go'
        level = ', at no level' if ack.value is None else f' at {acks.level_shown("", ack.value, ack.expected)}'
        said.append(f'{ack.cell}   {stands}   {ack} (since {ack.since}{level})')
    console.lines((line, '') for line in said)


def sent(system: str) -> None:
    """Send a notice. UsageError where no command is named; InfrastructureError with why it was not sent."""
    _has_command(system)
    notifier = notify.prepared(system)
    if why := notifier.test():
        raise InfrastructureError(f'notice not sent: {visible(why)}')
    print(f'notice sent by {notifier.notify.command[0]}')


def told(system: str) -> None:
    """Print the incidents that are not over, and when a notice had each."""
    known = [each for each in table.of_system(systems.read(system).name) if not each.closed]
    print('' if known else f'{system}: no incident is open\n', end='')
    for each in known:
        when = datetime.datetime.fromtimestamp(each.told_at)
        at = f'told {when:%Y-%m-%d %H:%M}' if each.told_at else 'not told yet'
        ack = f', acknowledged {each.ack}' if each.ack else ''
        print(visible(f'incident {each.number}, {words.since(each)}{ack}: {each.title} ({at})'))


def _has_command(system: str) -> None:
    if systems.read(system).notify is None:
        raise UsageError(f'systems/{system}/system.yaml names no command; for instance '
                         'notify: {command: [sendmail, ME@example.org]}')
