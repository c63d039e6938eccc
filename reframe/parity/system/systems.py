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
    """Every system, in the order ReFrame should try them: the catch-all `local` last."""
    found = sorted(f.parent.name for f in (paths.root() / 'systems').glob('*/system.yaml'))
    return [n for n in found if n != 'local'] + [n for n in found if n == 'local']


def read(name: str) -> System:
    """The system as its file states it. UsageError names file, line, key and what is valid."""
    file = paths.root() / 'systems' / name / 'system.yaml'
    if name not in names():
        raise UsageError(f'unknown system {name!r}; valid: {", ".join(names())}')
    system = yamlfile.read(file, System)
    if system.name != name:
        raise UsageError(f'{file}:1: name: {system.name!r} stands in folder {name!r}; they must agree')
    return system


def references(name: str) -> Path:
    """The folder of the accepted references of a system."""
    return paths.root() / 'systems' / name / 'references'


def reference_files(name: str) -> list[Path]:
    return sorted(references(name).glob('*.yaml'))


def guard_references(name: str) -> None:
    """Raises UsageError for a file that ReFrame, which expands every alias, must not read."""
    for file in reference_files(name):
        yamlfile.guard(file, file.read_text(encoding='utf-8', errors='replace'))


def required(system: System, providers: set[str]) -> set[str]:
    """The features of the codes that must be measured on ``system``. ``offered`` asks for what the providers that
    are there can offer; `distro` always can, so a machine without an MPI misses codes, and skips none."""
    if system.requires == 'offered':
        return {f for p in providers | {'distro'} for f in codes.offered_by(p)}
    return set(system.requires)


def waived(system: System, today: datetime.date) -> tuple[dict[str, str], list[str]]:
    """Waivers that hold today, by code, and a sentence for each that has expired."""
    holding = {w.code: f'waived until {w.until}: {w.reason}' for w in system.waivers if today <= w.until}
    expired = [f'the waiver of {w.code} expired on {w.until} ({w.reason})'
               for w in system.waivers if today > w.until]
    return holding, expired


def named(argv: list[str]) -> str:
    """The system that `reframe ARGV` is about: --system, else RFM_SYSTEM, else this host's. Raises UsageError,
    naming the valid ones, for a system that is not there."""
    name = stated(argv)
    return _of_host(socket.gethostname()) if name is None else read(name).name


def stated(argv: list[str]) -> str | None:
    """What --system of `reframe ARGV`, else RFM_SYSTEM, names, be it there or not; None: neither names one."""
    for option, following in zip_longest(argv, argv[1:], fillvalue=''):
        if option == '--system' or option.startswith('--system='):
            return (following if option == '--system' else option.removeprefix('--system=')).partition(':')[0]
    return os.environ.get('RFM_SYSTEM', '').partition(':')[0] or None


def _of_host(host: str) -> str:
    """The first system whose hostnames match, as ReFrame chooses."""
    fitting = [n for n in names() if any(re.match(pattern, host) for pattern in read(n).hostnames)]
    if not fitting:
        raise UsageError(f'no system has {host!r} among its hostnames; name one: --system {"|".join(names())}')
    return fitting[0]
