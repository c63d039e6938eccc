"""The device behind a directory: two file systems of one device, or of one server, are not two."""

from __future__ import annotations

import os
from pathlib import Path

_MOUNTS = Path('/proc/self/mountinfo')
_BLOCKS = Path('/sys/dev/block')


def of_directory(path: str) -> str:
    """Return what holds a directory: its server, its disk or its device; '' where that is not known here.

    A directory that is not made yet is on the device of the first one above that is."""
    place = Path(os.path.realpath(os.path.expandvars(path)))
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        number = place.stat().st_dev
    except OSError:
        return ''
    device = f'{os.major(number)}:{os.minor(number)}'
    source = _sources().get(device, '')
    server, colon, _ = source.partition(':')
    if colon and server:
        return f'server {server}'
    return f'disk {_disk(device)}'


def _sources() -> dict[str, str]:
    """Return the source of each mounted device, `server:/export` of one over a network."""
    sources: dict[str, str] = {}
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:
        return sources
    for line in lines:
        of_mount, _, of_system = line.partition(' - ')
        fields, more = of_mount.split(), of_system.split()
        if len(fields) > 2 and len(more) > 1:
            sources[fields[2]] = more[1]
    return sources


def _disk(device: str) -> str:
    """Return the disk that a partition is of; the device itself where it is none."""
    block = _BLOCKS / device
    if (block / 'partition').exists():
        return block.resolve().parent.name
    return device
