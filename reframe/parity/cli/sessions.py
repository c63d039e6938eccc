"""`parity sessions`: the stored sessions."""

from __future__ import annotations

import typer

SYSTEM = typer.Option('', '--system', help='Those of this system; all if not given.')
LAST = typer.Option(20, '--last', metavar='N', min=1, help='So many of the newest.')


def run(system: str = SYSTEM, last: int = LAST) -> None:
    """List the stored sessions, the newest last: when each began, how long it took, what it ran.

    \b
    parity sessions --system onebox --last 50
    parity verdict --session 5d5ec1ad           one of them, by its first letters

    Exit code: 0 printed, 2 usage, 3 nothing is stored."""
    from parity.base import console
    from parity.judge.report import sessions
    from parity.site import systems
    name = systems.read(system).name if system else ''
    console.lines((line, '') for line in sessions.lines(name, last))
