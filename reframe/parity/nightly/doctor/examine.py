"""The examinations of a system and of this machine, in the order in which one rests on the other."""

from __future__ import annotations

import datetime
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

from parity import plan
from parity.base import paths
from parity.base.codes import features, offered_by
from parity.base.errors import INFRASTRUCTURE, MISSING, USAGE, InfrastructureError, UsageError
from parity.compare import pairs
from parity.nightly import guard
from parity.nightly.doctor import Finding, lacking, note, ok, queue
from parity.plan import Plan
from parity.probe.model import TODO
from parity.records import database
from parity.session import current
from parity.software import discover, spack
from parity.software.spackenv import manifest
from parity.system import systems
from parity.system.schema import System
from parity.verdict import acks

#: A night with every output kept takes less than so many bytes.
_ROOM = 2 << 30
#: File systems that no other node sees.
_OWN = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'tmpfs', 'overlay')


def findings(name: str) -> Iterator[Finding]:
    """Yield one finding after another, as it is found out."""
    yield python()
    try:
        system = systems.read(name)
    except UsageError as err:
        yield from (lacking('system', line, '', USAGE) for line in str(err).splitlines())
        yield note('system', 'the rest was not examined: it rests on system.yaml')
        return
    file = paths.root() / 'systems' / name / 'system.yaml'
    yield ok('system', f'{file}: valid, partitions {", ".join(p.name for p in system.partitions)}')
    left = [str(n) for n, line in enumerate(file.read_text().splitlines(), 1) if TODO in line and n > 2]
    if left:
        yield note('system', f'{len(left)} lines with {TODO}: {", ".join(left)}', f'edit {file}')
    for examination in (queue.findings, _software, _plan, results, _filesystems, _running, _timer):
        try:
            yield from examination(system)
        except (UsageError, InfrastructureError) as err:
            yield lacking('system', str(err), '', err.exit_code)


def python() -> Finding:
    """Compare the packages with requirements.lock: with other versions parity was not tried."""
    lock = paths.root() / 'requirements.lock'
    mend = 'ci/venv makes .venv anew where its lock has changed'
    pins = re.findall(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)( *;)?', lock.read_text() if lock.exists() else '', re.M)
    tried = {name: [v for n, v, _ in pins if n == name] for name, *_ in pins}
    always = {name for name, _, condition in pins if not condition}     # others are for one Python or system only
    there = {name: version(name) for name in tried}
    other = sorted(f'{name} {there[name]}, not {" or ".join(versions)}' for name, versions in tried.items()
                   if there[name] and there[name] not in versions)
    if absent := sorted(name for name in always if not there[name]):
        return lacking('python', f'packages that are not installed: {", ".join(absent)}', mend, INFRASTRUCTURE)
    if not pins:
        return note('python', f'{lock} is not there: which packages were tried is not known')
    if other:
        return note('python', f'packages of other versions than requirements.lock: {", ".join(other)}', mend)
    return ok('python', f'{platform.python_version()}; {len(always)} packages as requirements.lock has them; '
                        f'ReFrame {version("ReFrame-HPC")}')


def version(name: str) -> str:
    """Return the version of an installed package, or ''. sys.path may hold copies that setuptools brought."""
    folders = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]
    return next((found.version for found in importlib.metadata.distributions(name=name, path=folders)), '')


def _software(system: System) -> Iterator[Finding]:
    """Examine Spack and what it has built; on this very machine, what starts of the rest."""
    made = manifest.read(system.name)
    build = f'parity software build --system {system.name}'
    if made is not None:
        if changed := sorted({name for view in made.views.values() for name in manifest.changed(view)}):
            yield lacking('build', f'not there, or not what was built: {", ".join(changed)}', build, MISSING)
        else:
            binaries = sum(len(view.files) for view in made.views.values())
            yield ok('build', f'{len(made.packages)} packages, {binaries} binaries, as they were built')
        if newer := manifest.not_built(system.name, made):
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
    if system.detect:       # discover starts the programs of this machine
        cache = paths.results() / 'cache' / 'software.json'
        here = discover.discover(paths.root(), system.environments, cache, system.name)
        if mpi := next((e.software['mpi'] for e in here.environs if 'mpi' in e.software), None):
            yield ok('mpi', f'{mpi["name"]} {mpi["version"]} starts')
        yield from (note('software', text) for text in here.notes)


def _plan(system: System) -> Iterator[Finding]:
    """Have ReFrame read the settings and every check, as the nightly does; nothing is run."""
    options = ['--system', system.name]
    try:
        planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', *options])
    except UsageError as err:
        yield lacking('settings', str(err), '', USAGE)
        return
    try:
        guard.everything(planned, options)
        yield ok('settings', f'ReFrame reads them: {len(planned.checks)} checks, {len(planned.cases)} cases, '
                             f'{sum(len(c.metrics) for c in planned.cases)} cells')
        yield from _files(system)
    except UsageError as err:
        yield from (lacking('files', line, '', USAGE) for line in str(err).splitlines())
    yield from _codes(system, planned)


def _files(system: System) -> Iterator[Finding]:
    if accepted := [file.name for file in systems.reference_files(system.name)]:
        yield ok('references', f'{", ".join(accepted)}: valid')
    else:
        yield note('references', 'none is accepted: everything will be `unreferenced`',
                   'after some nights: parity refs propose')
    if declared := pairs.read(system):
        yield ok('pairs', f'{len(declared)} declared, valid')
    if known := acks.read(system.name):
        over = [ack.cell for ack in known if not ack.holds(datetime.date.today())]
        yield note('acks', f'over: {", ".join(over)}', 'parity ack --list') if over \
            else ok('acks', f'{len(known)} known faults, valid')


def _codes(system: System, planned: Plan) -> Iterator[Finding]:
    """Examine each code on each partition: offered, missing although required, waived, or not asked for."""
    without = {code: {c.partition for c in planned.cases if code in c.needs and not c.environ}
               for code in features() if any(code in c.needs for c in planned.cases)}

    def named(codes: list[str]) -> str:
        return ' '.join(code if len(without[code]) == len(system.partitions)
                        else f'{code} ({", ".join(sorted(without[code]))})' for code in codes)

    def build(codes: list[str]) -> str:
        return f'parity software build --system {system.name}' if set(codes) & set(offered_by('spack')) \
            else f'systems/{system.name}/system.yaml: environments with modules that bring them'

    required = systems.required(system, set(planned.providers))
    waived, expired = systems.waived(system, datetime.date.today())
    offered = [code for code, partitions in without.items() if not partitions]
    yield ok('codes', f'{len(offered)} of {len(without)} that checks need are offered: '
                      f'{" ".join(offered) or "none"}')
    missing = [code for code in without if without[code] and code in required and code not in waived]
    if missing:
        yield lacking('codes', f'required, and no environment offers them: {named(missing)}', build(missing),
                      MISSING)
    if others := [code for code in without if without[code] and code not in required]:
        yield note('codes', f'not required, skipped: {named(others)}', build(others))
    yield from (note('codes', f'{code}: {why}') for code, why in waived.items())
    yield from (note('codes', text, f'systems/{system.name}/system.yaml: waivers') for text in expired)


def results(system: System) -> Iterator[Finding]:
    """Examine the folder of results: its database, its room, and whether the nodes can see it."""
    folder = paths.results()
    try:
        guard.folders()
        database.uuids()
    except InfrastructureError as err:
        yield lacking('results', str(err), 'PARITY_RESULTS names another folder', INFRASTRUCTURE)
        return
    free = shutil.disk_usage(folder).free
    yield ok('results', f'{folder}: {free / (1 << 30):.1f} GiB free') if free > _ROOM else \
        note('results', f'{folder}: {free / (1 << 20):.0f} MiB free', 'parity prune --keep-days 30')
    if not system.detect and (kind := filesystem(folder)) in _OWN:
        yield note('results', f'{folder} is on {kind}: jobs run there, so every node must see it',
                   'PARITY_RESULTS names a folder on a shared file system')


def filesystem(folder: Path) -> str:
    """Return the type of the file system that holds ``folder``, as /proc/mounts has it."""
    mounts = [line.split(' ')[1:3] for line in Path('/proc/mounts').read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda m: len(m[0]), default=('', ''))[1]


def _filesystems(system: System) -> Iterator[Finding]:
    """Examine the file systems that the partitions name, as far as this machine sees them."""
    variables = {**os.environ, 'PARITY_RESULTS': str(paths.results())}
    named = {Template(path).safe_substitute(variables): name
             for part in system.partitions for name, path in part.extras.filesystems.items()}
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


def _running(system: System) -> Iterator[Finding]:
    lock = current.lock_of(['--system', system.name])
    try:
        lock.acquire()
        lock.release()
    except InfrastructureError as err:
        yield note('running', str(err))


def _timer(system: System) -> Iterator[Finding]:
    """Look for ci/nightly or parity in this user's crontab and in the timers of systemd."""
    for asked in ('crontab -l', 'systemctl --user list-timers --all --no-legend',
                  'systemctl list-timers --all --no-legend', 'scrontab -l'):
        command = asked.split()
        if shutil.which(command[0]):
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
            if re.search(r'^(?![ \t]*#).*(ci/nightly|parity)', done.stdout, re.M):
                yield ok('timer', f'{asked} names it')
                return
    yield note('timer', 'nothing starts the night by itself',
               f'docs/nightly.md; by hand: ci/nightly --system {system.name}')
