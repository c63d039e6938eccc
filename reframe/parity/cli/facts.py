"""`parity facts`: this machine, its limits and its software."""

from __future__ import annotations

import typer

BRIEF = typer.Option(False, '--brief', help='Print only the line about the software.')


def run(brief: bool = BRIEF) -> None:
    """Print what this machine is, its limits with their source, and the software found on it."""
    import yaml

    from parity.base import paths
    from parity.measure import machine
    from parity.measure.software import discover
    from parity.site import systems
    system = systems.read('local')
    cache = paths.results() / 'cache'
    found = discover.discover(paths.root(), system.environments, cache / 'software.json', system.name,
                              system.module_commands, system.builds)
    print(found.announcement)
    for note in found.notes:
        print(f'note: {note}')
    if brief:
        return
    here = machine.load(cache / 'machine.json')
    limits, unlimited = machine.bounds(here, system.partitions[0].extras.model_dump()['limits'])
    environments = {}
    for environ in found.environs:
        environments[environ.name] = {'features': list(environ.features), **environ.software}
    told = {'machine': here.model_dump(mode='json'),
            'limits': {name: limit.model_dump() for name, limit in limits.items()}, 'no_limit': unlimited,
            'environments': environments}
    print(yaml.safe_dump(told, sort_keys=False, allow_unicode=True), end='')
