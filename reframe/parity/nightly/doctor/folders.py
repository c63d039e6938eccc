"""Where results and files go, who measures now, and what starts the night."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Template

from parity.base import paths
from parity.base.errors import INFRASTRUCTURE, InfrastructureError
from parity.nightly import guard
from parity.nightly.doctor.model import Finding, lacking, note, ok
from parity.session import current
from parity.system.schema import System

#: A night with every output kept takes less; below it is worth a word.
_ROOM = 2 << 30
#: File systems that no other node sees.
_OWN = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'tmpfs', 'overlay')


def findings(system: System) -> Iterator[Finding]:
    yield from _results(system)
    yield from _filesystems(system)
    try:
        lock = current.lock_of(['--system', system.name])
        lock.acquire()
        lock.release()
    except InfrastructureError as err:
        yield note('running', str(err))
    yield _timer(system)


def _results(system: System) -> Iterator[Finding]:
    folder = paths.results()
    try:
        guard.folders()
    except InfrastructureError as err:
        yield lacking('results', str(err), 'PARITY_RESULTS names another folder', INFRASTRUCTURE)
        return
    free, kind = shutil.disk_usage(folder).free, _kind(folder)
    yield ok('results', f'{folder}: {free / (1 << 30):.1f} GiB free') if free > _ROOM else \
        note('results', f'{folder}: {free / (1 << 20):.0f} MiB free', 'parity prune --keep-days 30')
    if not system.detect and kind in _OWN:
        yield note('results', f'{folder} is on {kind}: jobs run there, so every node must see it',
                   'PARITY_RESULTS names a folder on a shared file system')


def _filesystems(system: System) -> Iterator[Finding]:
    """The named file systems of the partitions, as far as this machine sees them."""
    named: dict[str, str] = {}
    for part in system.partitions:
        named |= {Template(path).safe_substitute({**os.environ, 'PARITY_RESULTS': str(paths.results())}): name
                  for name, path in part.extras.filesystems.items()}
    for path, name in named.items():
        there = next(p for p in (Path(path), *Path(path).parents) if p.exists())
        what = f'{name}: {path}'
        if '$' in path:
            yield note('file system', f'{what}: the variable is not set here', 'write the path out')
        elif os.access(there, os.W_OK | os.X_OK):
            yield ok('file system', what)
        elif system.detect is True:
            yield lacking('file system', f'{what}: {there} cannot be written', 'name another: filesystems in '
                          f'systems/{system.name}/system.yaml', INFRASTRUCTURE)
        else:
            yield note('file system', f'{what}: {there} cannot be written from here: the nodes may see another')


def _kind(folder: Path) -> str:
    """The type of the file system that holds ``folder``, as /proc/mounts has it."""
    mounts = [line.split(' ')[1:3] for line in Path('/proc/mounts').read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda m: len(m[0]), default=('', ''))[1]


def _timer(system: System) -> Finding:
    """A crontab of this user's, or a timer of systemd's, that names ci/nightly or parity."""
    asked = (['crontab', '-l'], ['systemctl', '--user', 'list-timers', '--all', '--no-legend'],
             ['systemctl', 'list-timers', '--all', '--no-legend'], ['scrontab', '-l'])
    for command in asked:
        if shutil.which(command[0]):
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
            lines = [line for line in done.stdout.splitlines() if not line.lstrip().startswith('#')]
            if any('ci/nightly' in line or 'parity' in line for line in lines):
                return ok('timer', f'{" ".join(command)} names it')
    return note('timer', 'nothing starts the night by itself',
                f'docs/nightly.md; by hand: ci/nightly --system {system.name}')
