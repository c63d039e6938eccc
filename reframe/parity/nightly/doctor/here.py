"""What this machine has for the night: Python's packages, Spack and its build, folders, a timer."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from string import Template

from parity.base import paths
from parity.base.errors import INFRASTRUCTURE, MISSING, InfrastructureError
from parity.nightly import guard
from parity.nightly.doctor import Finding, lacking, note, ok
from parity.records import database
from parity.session import current
from parity.software import discover, spack
from parity.software.spackenv import manifest
from parity.system.schema import System

_MEND = 'ci/venv makes .venv anew where its lock has changed'


def python() -> Iterator[Finding]:
    """The packages against requirements.lock: another version is another ReFrame than was tried."""
    lock = paths.root() / 'requirements.lock'
    always, pins = _pins(lock.read_text() if lock.exists() else '')
    there = {name: _version(name) for name in pins}
    absent = sorted(name for name in always if there[name] is None)
    other = sorted(f'{name} {version}, not {" or ".join(pins[name])}' for name, version in there.items()
                   if version is not None and version not in pins[name])
    if absent:
        yield lacking('python', f'packages that are not installed: {", ".join(absent)}', _MEND, INFRASTRUCTURE)
    elif not pins:
        yield note('python', f'{lock} is not there: which packages were tried is not known')
    elif other:
        yield note('python', f'packages of other versions than requirements.lock: {", ".join(other)}', _MEND)
    else:
        yield ok('python', f'{platform.python_version()}; {len(always)} packages as requirements.lock has them; '
                           f'ReFrame {_version("ReFrame-HPC")}')


def _pins(lock: str) -> tuple[set[str], dict[str, list[str]]]:
    """The packages that every Python needs, and the versions of all: some are for one Python or system only."""
    always, pins = set(), {}
    for name, version, condition in re.findall(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)( *;)?', lock, re.MULTILINE):
        pins.setdefault(name, []).append(version)
        if not condition:
            always.add(name)
    return always, pins


def _version(name: str) -> str | None:
    """Of what is installed: setuptools, once imported, puts its own copies of other packages on sys.path."""
    folders = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]
    found = next(iter(importlib.metadata.distributions(name=name, path=folders)), None)
    return found.version if found else None


def software(system: System) -> Iterator[Finding]:
    """Spack and what it has built; on this very machine, what starts of the rest."""
    made = manifest.read(system.name)
    build = f'parity software build --system {system.name}'
    if made is not None and not manifest.whole(made):
        changed = sorted({name for view in made.views.values() for name in manifest.changed(view)})
        yield lacking('build', f'not there, or not what was built: {", ".join(changed)}', build, MISSING)
    elif made is not None:
        binaries = sum(len(view.files) for view in made.views.values())
        yield ok('build', f'{len(made.packages)} packages, {binaries} binaries, as they were built')
    if made is not None and (newer := manifest.not_built(system.name, made)):
        yield note('build', newer, build)
    found, notes = spack.find(paths.root(), os.environ)
    yield from (note('spack', text) for text in notes)
    if found:
        yield ok('spack', f'{found.version}: {found.path}')
    elif made is None:
        yield note('spack', 'none here: nothing can be built', 'SPACK_ROOT names one; then ' + build)
    if made is None and found:
        yield note('build', 'nothing is built for this system', build)
        absent = [name for name in ('cc', 'c++', 'gfortran') if not shutil.which(name)]
        yield note('compilers', f'not here: {", ".join(absent)}', 'Debian and Ubuntu: apt install g++ gfortran') \
            if absent else ok('compilers', 'cc, c++, gfortran')
    if system.detect:
        yield from _starts(system)


def _starts(system: System) -> Iterator[Finding]:
    """Programs of this machine were started one by one when the environments were made."""
    cache = paths.results() / 'cache' / 'software.json'
    here = discover.discover(paths.root(), system.environments, cache, system.name)
    mpi = next((e.software['mpi'] for e in here.environs if 'mpi' in e.software), None)
    if mpi:
        yield ok('mpi', f'{mpi["name"]} {mpi["version"]} starts')
    yield from (note('software', text) for text in here.notes)


#: A night with every output kept takes less; below it is worth a word.
_ROOM = 2 << 30
#: File systems that no other node sees.
_OWN = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'tmpfs', 'overlay')


def folders(system: System) -> Iterator[Finding]:
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
        database.uuids()
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
