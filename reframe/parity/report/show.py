"""How the commands print."""

from __future__ import annotations

import sys

from rich.text import Text

from parity.base.console import Console
from parity.verdict import terminal
from parity.verdict.model import Verdict


def as_json(verdict: Verdict) -> None:
    """The verdict as JSON on standard output."""
    sys.stdout.write(verdict.model_dump_json(indent=1) + '\n')


def as_text(verdict: Verdict, everything: bool = False) -> None:
    """The verdict as a person reads it; colours only on a terminal, lines never cut."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    for text, style in terminal.lines(verdict, everything):
        console.print(Text(text, style=style))


def facts(brief: bool) -> None:
    """The software found here and, unless ``brief``, the machine and its limits with their source."""
    import yaml

    from parity import machine
    from parity.base import paths
    from parity.software import discover
    from parity.system import systems
    system = systems.read('local')
    cache = paths.results() / 'cache'
    found = discover.discover(paths.root(), system.environments, cache / 'software.json', system.name)
    print(found.announcement)
    for note in found.notes:
        print(f'note: {note}')
    if brief:
        return
    here = machine.load(cache / 'machine.json')
    bounds = machine.bounds(here, system.partitions[0].extras.model_dump()['limits'])
    told = {'machine': here.model_dump(mode='json'),
            'limits': {k: v.model_dump() for k, v in bounds.limits.items()}, 'no_limit': list(bounds.notes),
            'environments': {e.name: {'features': list(e.features), **e.software} for e in found.environs}}
    print(yaml.safe_dump(told, sort_keys=False, allow_unicode=True), end='')
