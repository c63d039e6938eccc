"""`parity ack` and `parity notify`: known faults, acknowledged until a day, and the notices about a system."""

from __future__ import annotations

import datetime
import getpass
import os

from parity.base import console
from parity.base.errors import InfrastructureError, UsageError
from parity.base.text import visible
from parity.nightly import notify
from parity.report import show
from parity.system import systems
from parity.verdict import acks


def add(wanted: str, until: str, why: str, by: str, system: str) -> None:
    """Write the acknowledgement of a cell into its system's acks.yaml. UsageError for what cannot be one."""
    if not wanted:
        raise UsageError('name the cell: parity ack CELL --until DATE --why TEXT; parity verdict names them')
    today = datetime.date.today()
    try:
        day = datetime.date.fromisoformat(until)
    except ValueError:
        later = today + datetime.timedelta(days=14)
        raise UsageError(f'--until {until!r}: must be a day such as {later}') from None
    if day < today:
        raise UsageError(f'--until {day}: that day is over; today is {today}')
    if len(why.strip()) < 3:
        raise UsageError(f'--why {why!r}: must say in three letters or more what is broken')
    if system:
        wanted = f'{wanted.partition("@")[0]}@{systems.read(system).name}:{wanted.partition(":")[2]}'
    _, name, cell = show.find(wanted)
    if cell.verdict == 'missing':
        raise UsageError(f'{name} is missing: {cell.reason}; what never ran cannot be acknowledged '
                         f'(where a code may be absent, name it in waivers of systems/{cell.system}/system.yaml)')
    word = cell.verdict if cell.verdict in acks.BAD else None
    by = by or os.environ.get('SUDO_USER') or getpass.getuser()
    level = acks.level(cell) if word else {}
    said = acks.Ack(cell=name, until=day, why=why, by=by, since=today, word=word, **level)
    file = acks.write(cell.system, said)
    note = '' if word else f'; it is {cell.verdict} now: whatever befalls it until then is taken as known'
    if said.value is not None:
        note = f'; known at {acks.level_shown(cell.unit, said.value, said.expected)}'
    print(visible(f'parity: {name}, acknowledged {said}{note}; {file}'))


def listing(system: str) -> None:
    """Print what is acknowledged on every system, or on one, and how those cells stand."""
    named = [systems.read(system).name] if system else systems.names()
    found = [ack for name in named for ack in acks.read(name)]
    newest = show.newest() if found else {}
    said = [] if found else ['nothing is acknowledged' + (f' on {system}' if system else '')]
    for ack in found:
        found_now = {cell.verdict for cell in acks.fitting(ack, newest)}
        words = ', '.join(sorted(found_now))
        stands = words or 'not measured in the newest sessions'
        if not ack.holds(datetime.date.today()):
            stands = f'EXPIRED: {words or "not measured"}'
        elif words and found_now <= acks.OVER:
            stands += ' again: it can go'
        level = ', at no level' if ack.value is None else f' at {acks.level_shown("", ack.value, ack.expected)}'
        said.append(f'{ack.cell}   {stands}   {ack} (since {ack.since}{level})')
    console.lines((visible(line), '') for line in said)


def sent(system: str) -> None:
    """Send a notice. UsageError where no command is named; InfrastructureError with why it was not sent."""
    _has_command(system)
    notifier = notify.prepared(system)
    if why := notifier.test():
        raise InfrastructureError(f'notice not sent: {visible(why)}')
    print(f'notice sent by {notifier.notify.command[0]}')


def told(system: str) -> None:
    """Print what is bad, what is acknowledged, and when that was told."""
    _has_command(system)
    known = notify.load(system)
    at = datetime.datetime.fromtimestamp(known.told_at)
    print(f'{system}: last notice {at:%Y-%m-%d %H:%M}' if known.told_at else f'{system}: nothing was told yet')
    for word, faults in (('', known.bad), ('acknowledged: ', known.acknowledged)):
        for name, fault in faults.items():
            since = datetime.datetime.fromtimestamp(fault.since).date()
            place = f', not measured again on {", ".join(fault.nodes)}' if fault.elsewhere else ''
            print(visible(f'  {word}{fault.word} since {since}{place}: {name}'
                          + ('' if word or known.told.get(name) == fault.word else ' (not told yet)')))


def _has_command(system: str) -> None:
    if systems.read(system).notify is None:
        raise UsageError(f'systems/{system}/system.yaml names no command; for instance '
                         'notify: {command: [sendmail, ME@example.org]}')
