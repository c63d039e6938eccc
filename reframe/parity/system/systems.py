"""The systems that parity knows: one folder each below systems/."""

from __future__ import annotations

import datetime
import os
import re
import socket
from itertools import zip_longest
from pathlib import Path

from parity.base import codes, paths, yamlfile
from parity.base.errors import UsageError
from parity.system.schema import System

#: The environments of what `parity software build` has made for a system: its codes, those for GPUs.
SPACK = ('spack', 'spack-gpu')


def names() -> list[str]:
    """Return every system, in the order ReFrame should try them: the catch-all `local` last."""
    found = (f.parent.name for f in (paths.root() / 'systems').glob('*/system.yaml'))
    return sorted(found, key=lambda name: (name == 'local', name))


def read(name: str) -> System:
    """Return the system as its file states it. UsageError names file, line, key and what is valid."""
    file = paths.root() / 'systems' / name / 'system.yaml'
    if name not in names():
        raise UsageError(f'unknown system {name!r}; valid: {", ".join(names())}')
    system = yamlfile.read(file, System)
    if system.name != name:
        raise UsageError(f'{file}:1: name: {system.name!r} stands in folder {name!r}; they must agree')
    return system


def references(name: str) -> Path:
    """Return the folder of the accepted references of a system."""
    return paths.root() / 'systems' / name / 'references'


def reference_files(name: str) -> list[Path]:
    """Return the files with the accepted references of a system."""
    return sorted(references(name).glob('*.yaml'))


def guard_references(name: str) -> None:
    """Raise UsageError for a file that ReFrame, which expands every alias, must not read."""
    for file in reference_files(name):
        yamlfile.guard(file, file.read_text(encoding='utf-8', errors='replace'))


def required(system: System, providers: set[str]) -> set[str]:
    """Return the features of the codes that must be measured on ``system``.

    ``offered`` asks for all that the providers that are there can offer. `distro` always can: a machine without an
    MPI misses codes, and skips none."""
    if system.requires == 'offered':
        return {f for p in providers | {'distro'} for f in codes.offered_by(p)}
    return set(system.requires)


def waived(system: System, today: datetime.date) -> tuple[dict[str, str], list[str]]:
    """Return the waivers that hold today, by code, and a sentence for each that has expired."""
    holding = {w.code: f'waived until {w.until}: {w.reason}' for w in system.waivers if today <= w.until}
    expired = [f'the waiver of {w.code} expired on {w.until} ({w.reason})'
               for w in system.waivers if today > w.until]
    return holding, expired


def named(argv: list[str]) -> str:
    """Return the system of `reframe ARGV`: --system, else RFM_SYSTEM, else the first whose hostnames match.

    UsageError names the valid ones for a system that is not there."""
    if (name := stated(argv)) is not None:
        return read(name).name
    host = socket.gethostname()
    for name in names():
        if any(re.match(pattern, host) for pattern in read(name).hostnames):
            return name
    raise UsageError(f'no system has {host!r} among its hostnames; name one: --system {"|".join(names())}')


def stated(argv: list[str]) -> str | None:
    """Return what --system of `reframe ARGV`, else RFM_SYSTEM, names, be it there or not; None: neither does."""
    for option, following in zip_longest(argv, argv[1:], fillvalue=''):
        if option == '--system' or option.startswith('--system='):
            return (following if option == '--system' else option.removeprefix('--system=')).partition(':')[0]
    return os.environ.get('RFM_SYSTEM', '').partition(':')[0] or None
