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
    named = [systems.read(system).name] if system else systems.names()
    stored = [name for name in named if system or incidents.numbers(name)]
    if not stored:
        print('no incident is stored')
    for name in stored:
        _print_open(name, '' if system else f'{name}: ')


def _print_open(system: str, head: str) -> None:
    from parity.base import times
    from parity.base.text import visible
    from parity.judge.report import incidents as words
    from parity.judge.store import incidents
    every = incidents.of_system(system)
    known = [each for each in every if not each.closed]
    unread = ' that can be read' * (len(every) < len(incidents.numbers(system)))
    if not known:
        print(f'{system}: no incident{unread} is open')
    for each in known:
        at = f'told {times.minute(each.notified_at)}' if each.notified_at else 'not told yet'
        ack = f', acknowledged {each.ack}' if each.ack else ''
        print(visible(f'{head}incident {each.number}, {words.since(each)}{ack}: {each.title} ({at})'))
