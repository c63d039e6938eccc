"""Packages whose folder holds another package than its hash says: what a binary cache served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from parity.base.errors import InfrastructureError
from parity.measure.software.spack import Spack


def recorded(folder: Path) -> str:
    """Return the hash that a package has in its own record; '' where it has no record."""
    try:
        spec = json.loads((folder / '.spack' / 'spec.json').read_text(encoding='utf-8'))['spec']
        return str(spec['nodes'][0]['hash'])
    except (OSError, ValueError, LookupError, TypeError):
        return ''


def refuse_others(command: Spack, place: Path, needed: Mapping[str, str]) -> None:
    """Raise InfrastructureError, with what to do, where a binary cache served another package than the lock names.

    Spack unpacks it, warns, ends well and counts the package as not installed. ``needed`` has 'name version' of a
    lock's packages, by their hashes."""
    others = []
    for line in command.ask(place, 'find', '--only-missing', '--format', '{hash} {prefix}').splitlines():
        number, _, folder = line.strip().partition(' ')
        served = recorded(Path(folder))
        if number in needed and served not in ('', number):
            others.append(f'{needed[number]}: the lock asks for /{number}, and a binary cache served /{served} '
                          f'under that hash ({folder}/.spack/spec.json)')
    if others:
        raise InfrastructureError(f'{"; ".join(others)}. Remove the entry from the cache, or the cache from the '
                                  f'configuration ({command.program} mirror list), then build again')
