"""A first systems/NAME/system.yaml, of what stored nights tell of a system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from parity.base import files
from parity.base.errors import InfrastructureError
from parity.site import systems

_HEAD = '''\
# What the imported nights tell of this system. docs/files.md has the keys that may be added: requires, retired,
# notify and more. A partition that is not here is not imported.
'''


def write(name: str, partitions: Mapping[str, str]) -> Path:
    """Write the file of a system that is not described yet. ``partitions``: the scheduler of each, or ''."""
    entries = [partition(part, scheduler) for part, scheduler in sorted(partitions.items())]
    stated = {'name': name, 'hostnames': [f'^{name}$'], 'requires': [], 'partitions': entries}
    text = _HEAD + yaml.safe_dump(stated, sort_keys=False)
    file = systems.file_of(name)
    try:
        return files.write(file, text)
    except OSError as err:
        raise InfrastructureError(f'{file}: {err.strerror}; name a folder that you may write: '
                                  'parity --site DIR') from None


def partition(name: str, scheduler: object) -> dict[str, str]:
    """Return the entry of a partition; ``scheduler``: as ReFrame stored it, or what system.yaml does not take."""
    known = isinstance(scheduler, str) and scheduler in systems.SCHEDULERS
    return {'name': name, 'scheduler': str(scheduler) if known else 'local', 'launcher': 'local'}
