"""`parity notify`: what was told of a system, and whether its command works."""

from __future__ import annotations

import datetime

from parity.base.errors import InfrastructureError, UsageError
from parity.base.text import visible
from parity.nightly import notify
from parity.nightly.notify import state
from parity.system import systems


def test(system: str) -> None:
    """Send a notice. UsageError where no command is named; InfrastructureError with why it was not sent."""
    notifier = notify.prepared(system)
    if notifier.notify is None:
        raise _none(system)
    if why := notifier.test():
        raise InfrastructureError(f'notice not sent: {visible(why)}')
    print(f'notice sent by {notifier.notify.command[0]}')


def show(system: str) -> None:
    """Print what is bad, what is acknowledged, and when that was told."""
    if systems.read(system).notify is None:
        raise _none(system)
    known = state.load(system)
    at = datetime.datetime.fromtimestamp(known.told_at)
    print(f'{system}: last notice {at:%Y-%m-%d %H:%M}' if known.told_at else f'{system}: nothing was told yet')
    for word, faults in (('', known.bad), ('acknowledged: ', known.acknowledged)):
        for name, fault in faults.items():
            since = datetime.datetime.fromtimestamp(fault.since).date()
            place = f', not measured again on {", ".join(fault.nodes)}' if fault.elsewhere else ''
            print(visible(f'  {word}{fault.word} since {since}{place}: {name}'
                          + ('' if word or known.told.get(name) == fault.word else ' (not told yet)')))


def _none(system: str) -> UsageError:
    return UsageError(f'systems/{system}/system.yaml names no command; for instance '
                      'notify: {command: [sendmail, ME@example.org]}')
