"""`parity incidents`: the incidents that are not over."""

from __future__ import annotations

import typer

SYSTEM = typer.Option('', '--system', help='The system of the incidents; all if not given.')


def run(system: str = SYSTEM) -> None:
    """List the incidents that are not over, and when a notice had each.

    \b
    parity incidents --system onebox
    parity show 17                              all about one
    """
    from parity.judge.store import incidents
    from parity.site import systems
    stored = [name for name in systems.asked(system) if system or incidents.numbers(name)]
    if not stored:
        print('no incident is stored')
    for name in stored:
        _print_open(name, '' if system else f'{name}: ')


def _print_open(system: str, head: str) -> None:
    from parity.base import times
    from parity.base.text import visible
    from parity.judge.report import incidents as words
    from parity.judge.store import incidents
    readable = incidents.of_system(system)
    still_open = [incident for incident in readable if not incident.closed]
    if not still_open:
        unread = ' that can be read' if len(readable) < len(incidents.numbers(system)) else ''
        print(f'{system}: no incident{unread} is open')
    for incident in still_open:
        notice = 'not told yet'
        if incident.notified_at:
            notice = f'told {times.minute(incident.notified_at)}'
        ack = f', acknowledged {incident.ack}' if incident.ack else ''
        since = words.since(incident)
        print(visible(f'{head}incident {incident.number}, {since}{ack}: {incident.title} ({notice})'))
