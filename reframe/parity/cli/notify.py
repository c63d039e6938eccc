"""`parity notify --test`: try the command that sends notices."""

from __future__ import annotations

import typer

from parity.base.errors import InfrastructureError, UsageError
from parity.cli import incidents

SYSTEM = typer.Option('local', '--system', help='The system of the incidents.')
TEST = typer.Option(False, '--test', help='Send a test notice by the command of `notify` in system.yaml.')


def run(system: str = SYSTEM, test: bool = TEST) -> None:
    """Send a test notice with --test. Without it: what `parity incidents` lists, by its former name."""
    if not test:
        incidents.run(system)
        return
    from parity.base.text import visible
    from parity.nightly import notify
    from parity.site import systems
    if systems.read(system).notify is None:
        raise UsageError(f'systems/{system}/system.yaml names no command; for instance '
                         'notify: {command: [sendmail, ME@example.org]}')
    notifier = notify.prepared(system)
    why = notifier.test()
    if why:
        raise InfrastructureError(f'notice not sent: {visible(why)}: correct `notify` of system.yaml, or its '
                                  'command')
    print(f'notice sent by {notifier.notify.command[0]}')
