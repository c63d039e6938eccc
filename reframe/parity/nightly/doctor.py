"""`parity doctor`: the examination of all that the nightly run of a system needs, one finding for each thing.

The examinations stand in the order in which one rests on the other."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import Any

from parity.base import paths
from parity.base.codes import applications, check_of, features, leftovers, of_spack
from parity.base.errors import INFRASTRUCTURE, MISSING, USAGE, InfrastructureError, UsageError
from parity.base.figures import counted, figure, several
from parity.base.findings import Diagnosis, lacking, mistake, note, ok, refuse
from parity.judge.compare import pairs
from parity.judge.store import database
from parity.judge.verdict import acks
from parity.measure.probe import partitions
from parity.measure.probe.login import TODO
from parity.measure.rfm import planning
from parity.measure.scheduler import placement
from parity.measure.session import retain, runner
from parity.measure.software import (
    discover,
    earlier,
    environment,
    launcher,
    manifest,
    mixed,
    programs,
    remedies,
    spack,
)
from parity.nightly import guard, notify, versions
from parity.site import systems
from parity.site.plan import Plan, none_can_run
from parity.site.systems import SpackEnvironment, System

#: A night with every output kept takes less than so many bytes.
_ROOM = 2 << 30
#: File systems that no other node sees.
_LOCAL = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'tmpfs', 'overlay')


def findings(name: str, options: Sequence[str] = (), planned: Plan | None = None,
             guarded: Sequence[Diagnosis] = ()) -> Iterator[Diagnosis]:
    """Yield one finding after another, as it is found out. ``options``: those of ReFrame for the night, by default
    of a whole one. ``planned``: its plan, and ``guarded``: what its `guards` found, where that is known.

    This is the one list of what a night lacks: of `parity doctor` and of `ci/nightly --dry-run`."""
    yield python()
    yield from _no_codes()
    try:
        system = systems.read(name)
    except UsageError as err:
        yield from (mistake('system', line) for line in str(err).splitlines())
        yield note('system', 'the rest was not examined: correct system.yaml first')
        return
    file = systems.file_of(name)
    yield ok('system', f'{file}: valid, partitions {", ".join(p.name for p in system.partitions)}')
    left = [str(n) for n, line in enumerate(file.read_text().splitlines(), 1) if TODO in line and n > 2]
    if left:
        yield note('system', f'{counted(len(left), "line")} with {TODO}: {", ".join(left)}', f'edit {file}')
    options = options or ['--system', name]
    for examination in (_launchers, _software, results, _filesystems):
        yield from _examined(examination, system)
    try:
        planned = planned or planning.of_command(['-c', str(paths.root() / 'checks'), '-r', *options])
    except UsageError as err:
        yield mistake('settings', str(err))
        yield from _examined(partitions.examined, system, {part.name for part in system.partitions})
        return
    stopping = False
    for finding in guarded or guards(system, planned):
        stopping = stopping or finding.stops
        yield finding
    yield from _examined(_files, system)
    yield from _examined(_codes, system, planned)
    if not stopping:
        yield _hooks(options)
    yield from _examined(_timer, system)


def guards(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Yield what is looked at before each night: what may keep it from starting, and what deserves a warning."""
    found = [*_examined(partitions.examined, system, {case.partition for case in planned.cases}),
             *_examined(_plan, system, planned), *_examined(_notices, system)]
    yield from found
    if not any(finding.stops for finding in found):
        yield from _examined(_warnings, system, planned)


def _examined(examination: Callable[..., Iterator[Diagnosis]], system: System, *of: Any) -> Iterator[Diagnosis]:
    """Yield what an examination finds; that it cannot go on is a finding, too."""
    try:
        yield from examination(system, *of)
    except UsageError as err:
        yield from (mistake('system', line) for line in str(err).splitlines())
    except InfrastructureError as err:
        yield lacking('system', str(err), '', err.exit_code)


def python() -> Diagnosis:
    """Compare the packages with requirements.lock: with other versions parity was not tried."""
    lock = paths.root() / 'requirements.lock'
    fix = 'run ci/venv: it makes .venv anew'
    pins = re.findall(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)( *;)?', lock.read_text() if lock.exists() else '', re.M)
    tried = {name: [v for n, v, _ in pins if n == name] for name, *_ in pins}
    always = {name for name, _, condition in pins if not condition}     # others are for one Python or system only
    there = {name: version(name) for name in tried}
    other = sorted(f'{name} {there[name]}, not {" or ".join(versions)}' for name, versions in tried.items()
                   if there[name] and there[name] not in versions)
    if absent := sorted(name for name in always if not there[name]):
        return lacking('python', f'packages that are not installed: {", ".join(absent)}', fix, INFRASTRUCTURE,
                       stops=True)
    if not pins:
        return note('python', f'{lock} is not there: which packages were tried is not known')
    if other:
        return note('python', f'packages of other versions than requirements.lock: {", ".join(other)}', fix)
    return ok('python', f'{platform.python_version()}; {len(always)} packages as requirements.lock has them; '
                        f'ReFrame {version("ReFrame-HPC")}')


def _no_codes() -> Iterator[Diagnosis]:
    """Name each folder below checks/ that looks like a code's and has no check, and say how to remove it."""
    for left in leftovers():
        folder = paths.named(left.folder)
        check = check_of(left.folder).name
        no_code = f'{folder} is no code and is left out'
        remove = f'rm -r {shlex.quote(folder)}'
        if left.using:
            yield note('checks', f'{no_code}: it has {several([*left.using])}, but no {check} that uses parity',
                       f'name the check {check}; or {remove}')
        elif left.holds:
            yield note('checks', f'{no_code}: it has {several([*left.holds])}, but no {check}',
                       f'add {check}; or {remove}')
        else:
            yield note('checks', f'{no_code}: it holds nothing but what Python compiled', remove)


def demand_packages() -> None:
    """Warn of packages of other versions than requirements.lock. Raise Refused where one is absent."""
    found = python()
    refuse([found])
    if found.word == 'note' and found.fix:
        print(f'parity: warning: {found}', file=sys.stderr)


def version(name: str) -> str:
    """Return the version of an installed package, or ''. sys.path may hold copies that setuptools brought."""
    folders = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]
    return next((found.version for found in importlib.metadata.distributions(name=name, path=folders)), '')


def _software(system: System) -> Iterator[Diagnosis]:
    """Examine Spack and what it has built; on this very machine, what starts of the rest."""
    build = f'parity software build --system {system.name}'
    made = {entry.name: manifest.read(system.name, entry.name) for entry in system.builds}
    for entry in system.builds:
        if built := made[entry.name]:
            yield from _of_build(system, entry, built, build)
    absent = [name for name, built in made.items() if built is None]
    some = len(absent) < len(made)
    if some:
        yield from _earlier(system, [Path(built.view) for built in made.values() if built])
        yield from (note('build', f'{name}: nothing is built', f'{build} --environ {name}') for name in absent)
    found, notes = spack.find(paths.root(), os.environ)
    yield from (note('spack', text) for text in notes)
    if found:
        yield ok('spack', f'{found.version}: {found.path}')
        if not some:
            yield note('build', 'nothing is built for this system', build)
    elif not some:
        yield note('spack', 'none here', f'set SPACK_ROOT to a Spack, or {remedies.spack(system)}')
    if here := _here(system):
        yield from _mpis(system, here)
        yield from (note('software', text) for text in here.notes)
        yield from _versions(system, here)
    else:
        yield from (note('software', why, 'the nodes may have other modules: cases whose modules do not load fail')
                    for why in discover.not_loaded(system))
    if system.modules_system != 'nomod' and 'purge' not in ' '.join(system.module_commands) \
            and (loaded := discover.taken_along(os.environ)):
        yield note('software', f'jobs take along what this shell has loaded, a timer has none: {" ".join(loaded)}',
                   'module purge here, or in each partition: prepare_cmds: [module purge]')


def _of_build(system: System, entry: SpackEnvironment, built: manifest.Manifest,
              build: str) -> Iterator[Diagnosis]:
    """Examine the build in use of an environment."""
    title = '' if built.name == systems.SPACK else f'{built.name}: '
    changed = sorted({name for view in built.views.values() for name in manifest.changed(view)})
    if changed:
        yield lacking('build', f'{title}not there, or not what was built: {", ".join(changed)}', build, MISSING)
    else:
        binaries = sum(len(view.files) for view in built.views.values())
        count = counted(len(built.packages), 'package')
        yield ok('build', f'{title}{count}, {counted(binaries, "binary")}, as they were built')
    yield from (note('build', f'{title}{doubt}', build) for doubt in manifest.doubts(system.name, built, entry))


def _mpis(system: System, here: discover.Software) -> Iterator[Diagnosis]:
    """Bind ranks by each mpirun of this machine, as a check does, and look where they may run."""
    modules = {entry.name: entry.modules for entry in system.environments}
    seen = set()
    for environ in here.environs:
        if 'mpi' not in environ.software:
            continue
        mpi, mpirun = environ.software['mpi'], environ.software['programs']['mpirun']['path']
        if mpirun in seen:
            continue
        seen.add(mpirun)
        env = dict(os.environ)
        if loaded := modules.get(environ.name):
            env = discover.load_modules(loaded, os.environ, system.module_commands)[0] or env
        yield _bound(mpi, mpirun, {**env, **programs.root_variables()})


def _versions(system: System, here: discover.Software) -> Iterator[Diagnosis]:
    """Say of which programs the output will be read, and of which nobody knows."""
    modules = {entry.name: entry.modules for entry in system.environments}
    for environ in here.environs:
        env = dict(os.environ)
        if loaded := modules.get(environ.name):
            env = discover.load_modules(loaded, os.environ, system.module_commands)[0] or env
        programs_offered = list(versions.offered(environ, env))
        read = [str(program) for program in programs_offered if program.version and program.was_tried]
        if read:
            yield ok('versions', f'{environ.name}: {", ".join(read)}: their output is read')
        for program in programs_offered:
            if program.version and not program.was_tried:
                first, last = program.tried
                yield note('versions', f'{environ.name}: {program}: not tried, {first} to {last} were: it is read '
                                       'where its figures confirm one another, else its cases fail')
        silent = [str(program) for program in programs_offered if not program.version]
        if silent:
            yield note('versions', f'{environ.name}: not read of {", ".join(silent)}: no option prints it quickly')


def _bound(mpi: dict[str, str | None], mpirun: str, env: dict[str, str]) -> Diagnosis:
    name = launcher.described(mpi)
    by = ' or '.join(f'{variable}=core' for variable in placement.BOUND_BY.get(mpi['name'] or '', ()))
    why = launcher.unbound(mpirun, env)
    if not why:
        return ok('mpi', f'{name} binds each rank to a core{f" ({by})" if by else ""}: {mpirun}')
    valid = f'valid: an mpirun that follows {by}' if by else \
        f'valid: the mpirun of {", ".join(placement.BOUND_BY)}'
    return lacking('mpi', f'{name} does not bind ranks to a core each: {why}', f'{mpirun}; {valid}',
                   INFRASTRUCTURE)


def _earlier(system: System, views: list[Path]) -> Iterator[Diagnosis]:
    """Say which builds are kept for `parity cause`, which are gone, and the space that only these take."""
    builds = retain.builds(system.name, system.software.generations)
    in_use = [view.parents[1] for view in views]
    known = {build: build / 'view' / 'bin' for build in builds if build not in in_use}
    here = [build for build, old in known.items() if environment.view_is_there(old)]
    if kept := [*here, *(halves := mixed.builds(system.name))]:
        yield ok('build', f'{counted(len(here), "build")} of earlier nights, of {system.software.generations}, '
                          f'and {len(halves)} of --packages kept for parity cause: '
                          f'{figure(earlier.bytes_of(kept, in_use), "B")} beside the one in use')
    yield from (note('build', earlier.gone_view(old, build)) for build, old in known.items() if build not in here)


def _here(system: System) -> discover.Software | None:
    """Return the software of this machine, whose programs are started; None where it is not the system."""
    cache = paths.results() / 'cache' / 'software.json'
    return discover.discover(paths.root(), system.environments, cache, system.name,
                             system.module_commands, system.builds) if system.detect else None


def _plan(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Examine the checks as ReFrame reads them, and what names them."""
    wrong = guard.problems(planned)
    yield from (mistake('files', line) for line in wrong)
    if why := none_can_run(planned):
        yield lacking('codes', why, '', MISSING, stops=True)
    if not wrong:
        yield ok('settings', f'ReFrame reads them: {len(planned.checks)} checks, {len(planned.cases)} cases, '
                             f'{sum(len(c.metrics) for c in planned.cases)} cells')


def _warnings(_: System, planned: Plan) -> Iterator[Diagnosis]:
    """Yield what keeps no night from running. UsageError for a file that cannot be read."""
    yield from (note('files', warning) for warning in guard.warnings(planned))


def _notices(system: System) -> Iterator[Diagnosis]:
    """Look whether the commands for news can have their secrets. UsageError where one cannot."""
    notifier = notify.prepared(system.name)
    named = {'notify': notifier.notify, 'on_incident': notifier.on_incident}
    if stated := [key for key, command in named.items() if command]:
        yield ok('notices', f'{", ".join(stated)}: valid')


def _hooks(options: Sequence[str]) -> Diagnosis:
    """Have ReFrame do everything before the jobs. A night runs all the same: a case whose hook fails has
    no figure."""
    try:
        runner.rehearse(['-c', str(paths.root() / 'checks'), '--dry-run', *options])
    except UsageError as err:
        return lacking('hooks', str(err), '', USAGE)
    return ok('hooks', 'reframe --dry-run: every check can be set up')


def _files(system: System) -> Iterator[Diagnosis]:
    if accepted := [file.name for file in systems.reference_files(system.name)]:
        yield ok('references', f'{", ".join(accepted)}: valid')
    else:
        yield note('references', 'none is accepted: everything will be `unreferenced`',
                   'after some nights: parity refs propose')
    if declared := pairs.read(system):
        yield ok('pairs', f'{len(declared)} declared, valid')
    if known := acks.read(system.name):
        over = [ack.name for ack in known if not ack.holds(datetime.date.today())]
        yield note('acks', f'over: {", ".join(over)}', 'parity ack --list') if over \
            else ok('acks', f'{counted(len(known), "known fault")}, valid')


def _codes(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Examine each code on each partition: offered, missing although required, waived, or not asked for."""
    without = {code: {c.partition for c in planned.cases if code in c.needs and not c.environ}
               for code in features() if any(code in c.needs for c in planned.cases)}
    here = _here(system)
    absent = {code: why for environ in (here.environs if here else ())
              for code, why in environ.software.get('absent', {}).items()}

    def named(codes: list[str]) -> str:
        """Return the codes by what they lack: `no mpirun: A B; no build by Spack: C D`."""
        groups: dict[str, list[str]] = {}
        for code in sorted(codes, key=lambda code: code not in absent):
            why = absent.get(code, 'no build by Spack' if code in of_spack() else '')
            some = '' if len(without[code]) == len(system.partitions) else f' ({", ".join(sorted(without[code]))})'
            groups.setdefault(why and f'{why}: ', []).append(code + some)
        return '; '.join(why + ' '.join(several) for why, several in groups.items())

    required = systems.required(system)
    waived, expired = systems.waived(system, datetime.date.today())
    offered = [code for code, partitions in without.items() if not partitions]
    yield ok('codes', f'{len(offered)} of {len(without)} that checks need are offered: '
                      f'{" ".join(offered) or "none"}')
    for fix, codes in remedies.for_codes(system, absent, [code for code in without if without[code]]).items():
        if missing := [code for code in codes if code in required and code not in waived]:
            yield lacking('codes', f'required, and no environment offers them: {named(missing)}', fix, MISSING)
        if others := [code for code in codes if code not in required and code not in applications()]:
            yield note('codes', f'not required, skipped: {named(others)}', fix)
    yield from (note('codes', f'{code}: {why}') for code, why in waived.items())
    yield from (note('codes', text, f'systems/{system.name}/system.yaml: waivers') for text in expired)


def results(system: System) -> Iterator[Diagnosis]:
    """Examine the folder of results: its database, its room, and whether the nodes can see it."""
    folder = paths.results()
    try:
        database.demand_room()
        database.uuids()
    except InfrastructureError as err:
        yield lacking('results', str(err), 'set PARITY_RESULTS to another folder', INFRASTRUCTURE, stops=True)
        return
    free = shutil.disk_usage(folder).free
    yield ok('results', f'{folder}: {free / (1 << 30):.1f} GiB free') if free > _ROOM else \
        note('results', f'{folder}: {free / (1 << 20):.0f} MiB free', 'parity prune --keep-days 30')
    if not system.detect and (kind := filesystem(folder)) in _LOCAL:
        yield note('results', f'{folder} is on {kind}: jobs run there, so every node must see it',
                   'set PARITY_RESULTS to a folder on a shared one')


def filesystem(folder: Path) -> str:
    """Return the type of the file system that holds ``folder``, as /proc/mounts has it."""
    mounts = [line.split(' ')[1:3] for line in Path('/proc/mounts').read_text().splitlines()]
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda m: len(m[0]), default=('', ''))[1]


def _filesystems(system: System) -> Iterator[Diagnosis]:
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


def _timer(system: System) -> Iterator[Diagnosis]:
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


def _launchers(system: System) -> Iterator[Diagnosis]:
    for program in sorted({p.launcher for p in system.partitions} - {'local', 'ssh'}):
        if path := shutil.which(program.partition('-')[0]):
            yield ok('launcher', f'{program}: {path}')
        elif system.detect:
            yield note('launcher', f'{program} is not on PATH: no MPI program is measured', remedies.AS_ROOT)
        else:
            yield note('launcher', f'{program} is not on PATH here: modules of an environment must bring it')
