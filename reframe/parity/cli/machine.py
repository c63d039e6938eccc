"""`parity facts`: what this machine is, and the software found on it."""

from __future__ import annotations

import yaml

from parity import machine
from parity.base import paths
from parity.software import discover
from parity.system import systems


def facts(brief: bool) -> None:
    """The software found here and, unless ``brief``, the machine and its limits with their source."""
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
