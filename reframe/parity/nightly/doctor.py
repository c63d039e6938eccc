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
from parity.site import contract, systems
from parity.site.plan import Plan, none_can_run
from parity.site.systems import SpackEnvironment, System

#: A night with every output kept takes less than so many bytes.
_ROOM = 2 << 30
#: A line of requirements.lock: name, version, and whether a condition follows.
_PIN = re.compile(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)( *;)?', re.M)
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
    yield from _system_file(system)
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
    yield from _examined(_contract, system, planned)
    yield from _examined(_codes, system, planned)
    if not stopping:
        yield _hooks(options)
    yield from _examined(_timer, system)


def _system_file(system: System) -> Iterator[Diagnosis]:
    """Examine what a person has to fill in. The first two lines of a probed file explain the marks."""
    file = systems.file_of(system.name)
    yield ok('system', f'{file}: valid, partitions {", ".join(part.name for part in system.partitions)}')
    numbered = enumerate(file.read_text().splitlines(), 1)
    to_fill_in = [str(number) for number, line in numbered if TODO in line and number > 2]
    if to_fill_in:
        count = counted(len(to_fill_in), 'line')
        yield note('system', f'{count} with {TODO}: {", ".join(to_fill_in)}', f'edit {file}')


def guards(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Yield what is looked at before each night: what may keep it from starting, and what deserves a warning."""
    measured = {case.partition for case in planned.cases}
    stopping = False
    for finding in (*_examined(partitions.examined, system, measured),
                    *_examined(_plan, system, planned), *_examined(_notices, system)):
        stopping = stopping or finding.stops
        yield finding
    if not stopping:
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
    pins = _PIN.findall(lock.read_text()) if lock.exists() else []
    if not pins:
        return note('python', f'{lock} is not there: which packages were tried is not known')
    fix = 'run ci/venv: it makes .venv anew'
    tried: dict[str, list[str]] = {}
    always = set()
    for name, pinned, condition in pins:
        tried.setdefault(name, []).append(pinned)
        if not condition:           # others are for one Python or system only
            always.add(name)
    absent, other = [], []
    for name, versions_tried in sorted(tried.items()):
        installed = version(name)
        if not installed and name in always:
            absent.append(name)
        elif installed and installed not in versions_tried:
            other.append(f'{name} {installed}, not {" or ".join(versions_tried)}')
    if absent:
        return lacking('python', f'packages that are not installed: {", ".join(absent)}', fix, INFRASTRUCTURE,
                       stops=True)
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
    for package in importlib.metadata.distributions(name=name, path=folders):
        return package.version
    return ''


def _software(system: System) -> Iterator[Diagnosis]:
    """Examine Spack and what it has built; on this very machine, what starts of the rest."""
    build = f'parity software build --system {system.name}'
    built = {}
    for entry in system.builds:
        made = manifest.read(system.name, entry.name)
        if made:
            built[entry.name] = made
            yield from _of_build(system, entry, made, build)
    if built:
        yield from _earlier(system, [Path(made.view) for made in built.values()])
        for entry in system.builds:
            if entry.name not in built:
                yield note('build', f'{entry.name}: nothing is built', f'{build} --environ {entry.name}')
    yield from _spack(system, bool(built), build)
    here = _here(system)
    if here:
        yield from _mpis(system, here)
        yield from (note('software', text) for text in here.notes)
        yield from _versions(system, here)
    else:
        for why in discover.not_loaded(system):
            yield note('software', why, 'the nodes may have other modules: cases whose modules do not load fail')
    yield from _loaded_modules(system)


def _spack(system: System, something_built: bool, build: str) -> Iterator[Diagnosis]:
    """Examine Spack, which a system with all its builds no longer needs."""
    program, notes = spack.find(paths.root(), os.environ)
    yield from (note('spack', text) for text in notes)
    if program:
        yield ok('spack', f'{program.version}: {program.path}')
        if not something_built:
            yield note('build', 'nothing is built for this system', build)
    elif not something_built:
        yield note('spack', 'none here', f'set SPACK_ROOT to a Spack, or {remedies.spack(system)}')


def _loaded_modules(system: System) -> Iterator[Diagnosis]:
    if system.modules_system == 'nomod' or 'purge' in ' '.join(system.module_commands):
        return
    loaded = discover.taken_along(os.environ)
    if loaded:
        yield note('software', f'jobs take along what this shell has loaded, a timer has none: {" ".join(loaded)}',
                   'module purge here, or in each partition: prepare_cmds: [module purge]')


def _of_build(system: System, entry: SpackEnvironment, built: manifest.Manifest,
              build: str) -> Iterator[Diagnosis]:
    """Examine the build in use of an environment."""
    title = '' if built.name == systems.SPACK else f'{built.name}: '
    changed = set()
    for view in built.views.values():
        changed.update(manifest.changed(view))
    if changed:
        names = ', '.join(sorted(changed))
        yield lacking('build', f'{title}not there, or not what was built: {names}', build, MISSING)
    else:
        packages = counted(len(built.packages), 'package')
        binaries = counted(sum(len(view.files) for view in built.views.values()), 'binary')
        yield ok('build', f'{title}{packages}, {binaries}, as they were built')
    for doubt in manifest.doubts(system.name, built, entry):
        yield note('build', f'{title}{doubt}', build)


def _variables(system: System, environ: programs.Environ) -> dict[str, str]:
    """Return the variables of this process with the modules of an environment loaded, where they load."""
    here = dict(os.environ)
    modules = next((entry.modules for entry in system.environments if entry.name == environ.name), [])
    if not modules:
        return here
    loaded = discover.load_modules(modules, here, system.module_commands)
    return loaded.env or here


def _mpis(system: System, here: discover.Software) -> Iterator[Diagnosis]:
    """Bind ranks by each mpirun of this machine, as a check does, and look where they may run."""
    seen = set()
    for environ in here.environs:
        if 'mpi' not in environ.software:
            continue
        mpirun = environ.software['programs']['mpirun']['path']
        if mpirun in seen:
            continue
        seen.add(mpirun)
        env = {**_variables(system, environ), **programs.root_variables()}
        yield _bound(environ.software['mpi'], mpirun, env)


def _versions(system: System, here: discover.Software) -> Iterator[Diagnosis]:
    """Say of which programs the output will be read, and of which nobody knows."""
    for environ in here.environs:
        tried, untried, silent = [], [], []
        for program in versions.offered(environ, _variables(system, environ)):
            if not program.version:
                silent.append(str(program))
            elif program.was_tried:
                tried.append(str(program))
            else:
                untried.append(program)
        if tried:
            yield ok('versions', f'{environ.name}: {", ".join(tried)}: their output is read')
        for program in untried:
            first, last = program.tried
            yield note('versions', f'{environ.name}: {program}: not tried, {first} to {last} were: it is read '
                                   'where its figures confirm one another, else its cases fail')
        if silent:
            yield note('versions', f'{environ.name}: not read of {", ".join(silent)}: no option prints it quickly')


def _bound(mpi: dict[str, str | None], mpirun: str, env: dict[str, str]) -> Diagnosis:
    name = launcher.described(mpi)
    variables = placement.BOUND_BY.get(mpi['name'] or '', ())
    by = ' or '.join(f'{variable}=core' for variable in variables)
    why = launcher.unbound(mpirun, env)
    if why:
        valid = f'an mpirun that follows {by}' if by else f'the mpirun of {", ".join(placement.BOUND_BY)}'
        return lacking('mpi', f'{name} does not bind ranks to a core each: {why}', f'{mpirun}; valid: {valid}',
                       INFRASTRUCTURE)
    how = f' ({by})' if by else ''
    return ok('mpi', f'{name} binds each rank to a core{how}: {mpirun}')


def _earlier(system: System, views: list[Path]) -> Iterator[Diagnosis]:
    """Say which builds are kept for `parity cause`, which are gone, and the space that only these take."""
    in_use = [view.parents[1] for view in views]
    whole, gone = [], []
    for build in retain.builds(system.name, system.software.generations):
        if build in in_use:
            continue
        binaries = build / 'view' / 'bin'
        if environment.view_is_there(binaries):
            whole.append(build)
        else:
            gone.append(earlier.gone_view(binaries, build))
    halves = mixed.builds(system.name)
    if whole or halves:
        space = figure(earlier.bytes_of([*whole, *halves], in_use), 'B')
        yield ok('build', f'{counted(len(whole), "build")} of earlier nights, of {system.software.generations}, '
                          f'and {len(halves)} of --packages kept for parity cause: {space} beside the one in use')
    yield from (note('build', why) for why in gone)


def _here(system: System) -> discover.Software | None:
    """Return the software of this machine, whose programs are started; None where it is not the system."""
    if not system.detect:
        return None
    cache = paths.results() / 'cache' / 'software.json'
    return discover.discover(paths.root(), system.environments, cache, system.name,
                             system.module_commands, system.builds)


def _plan(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Examine the checks as ReFrame reads them, and what names them."""
    wrong = guard.problems(planned)
    yield from (mistake('files', line) for line in wrong)
    why = none_can_run(planned)
    if why:
        yield lacking('codes', why, '', MISSING, stops=True)
    if not wrong:
        cells = sum(len(case.metrics) for case in planned.cases)
        yield ok('settings', f'ReFrame reads them: {len(planned.checks)} checks, {len(planned.cases)} cases, '
                             f'{cells} cells')


def _warnings(_: System, planned: Plan) -> Iterator[Diagnosis]:
    """Yield what keeps no night from running. UsageError for a file that cannot be read."""
    yield from (note('files', warning) for warning in guard.warnings(planned))


def _notices(system: System) -> Iterator[Diagnosis]:
    """Look whether the commands for news can have their secrets. UsageError where one cannot."""
    notifier = notify.prepared(system.name)
    commands = {'notify': notifier.notify, 'on_incident': notifier.on_incident}
    stated = [key for key, command in commands.items() if command]
    if stated:
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
    accepted = [file.name for file in systems.reference_files(system.name)]
    if accepted:
        yield ok('references', f'{", ".join(accepted)}: valid')
    else:
        yield note('references', 'none is accepted: everything will be `unreferenced`',
                   'after some nights: parity refs propose')
    declared = pairs.read(system)
    if declared:
        yield ok('pairs', f'{len(declared)} declared, valid')
    acknowledged = acks.read(system.name)
    today = datetime.date.today()
    over = [ack.name for ack in acknowledged if not ack.holds(today)]
    if over:
        yield note('acks', f'over: {", ".join(over)}', 'parity ack --list')
    elif acknowledged:
        yield ok('acks', f'{counted(len(acknowledged), "known fault")}, valid')


def _contract(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Look whether the clauses of a contract name checks, parameters and metrics that are there."""
    if contract.file_of(system.name).exists():
        promises = contract.read(system)
        contract.demand(system, promises, planned, {})
        yield ok('contract', f'{counted(len(promises.clauses), "clause")}, valid')


def _codes(system: System, planned: Plan) -> Iterator[Diagnosis]:
    """Examine each code on each partition: offered, missing although required, waived, or not asked for."""
    without = _partitions_without(planned)
    lacking_programs = _absent(_here(system))
    required = systems.required(system)
    waived, expired = systems.waived(system, datetime.date.today())
    offered = [code for code, partitions in without.items() if not partitions]
    yield ok('codes', f'{len(offered)} of {len(without)} that checks need are offered: '
                      f'{" ".join(offered) or "none"}')
    not_offered = {code: partitions for code, partitions in without.items() if partitions}

    def named(codes: list[str]) -> str:
        return _by_reason(codes, lacking_programs, not_offered, len(system.partitions))

    for fix, codes in remedies.for_codes(system, lacking_programs, [*not_offered]).items():
        missing = [code for code in codes if code in required and code not in waived]
        if missing:
            yield lacking('codes', f'required, and no environment offers them: {named(missing)}', fix, MISSING)
        others = [code for code in codes if code not in required and code not in applications()]
        if others:
            yield note('codes', f'not required, skipped: {named(others)}', fix)
    yield from (note('codes', f'{code}: {why}') for code, why in waived.items())
    yield from (note('codes', text, f'systems/{system.name}/system.yaml: waivers') for text in expired)


def _partitions_without(planned: Plan) -> dict[str, set[str]]:
    """Return the codes that checks need, each with the partitions on which no environment offers it."""
    without: dict[str, set[str]] = {}
    for code in features():
        for case in planned.cases:
            if code in case.needs:
                partitions = without.setdefault(code, set())
                if not case.environ:
                    partitions.add(case.partition)
    return without


def _absent(here: discover.Software | None) -> dict[str, str]:
    """Return the codes whose programs this machine lacks, each with what is absent."""
    absent: dict[str, str] = {}
    if here:
        for environ in here.environs:
            absent |= environ.software.get('absent', {})
    return absent


def _by_reason(codes: list[str], absent: dict[str, str], without: dict[str, set[str]], total: int) -> str:
    """Return the codes by what they lack: `no mpirun: A B; no build by Spack: C D`. ``total``: partitions."""
    groups: dict[str, list[str]] = {}
    for code in sorted(codes, key=lambda code: code not in absent):
        why = absent.get(code, '')
        if not why and code in of_spack():
            why = 'no build by Spack'
        partitions = without[code]
        title = code if len(partitions) == total else f'{code} ({", ".join(sorted(partitions))})'
        groups.setdefault(f'{why}: ' if why else '', []).append(title)
    return '; '.join(f'{why}{" ".join(titles)}' for why, titles in groups.items())


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
    if free > _ROOM:
        yield ok('results', f'{folder}: {free / (1 << 30):.1f} GiB free')
    else:
        yield note('results', f'{folder}: {free / (1 << 20):.0f} MiB free', 'parity prune --keep-days 30')
    if system.detect:
        return
    kind = filesystem(folder)
    if kind in _LOCAL:
        yield note('results', f'{folder} is on {kind}: jobs run there, so every node must see it',
                   'set PARITY_RESULTS to a folder on a shared one')


def filesystem(folder: Path) -> str:
    """Return the type of the file system that holds ``folder``, as /proc/mounts has it: the deepest mount."""
    deepest, kind_of_deepest = '', ''
    for line in Path('/proc/mounts').read_text().splitlines():
        _, point, kind, *_ = line.split(' ')
        if folder.is_relative_to(point) and len(point) > len(deepest):
            deepest, kind_of_deepest = point, kind
    return kind_of_deepest


def _filesystems(system: System) -> Iterator[Diagnosis]:
    """Examine the file systems that the partitions name, as far as this machine sees them."""
    variables = {**os.environ, 'PARITY_RESULTS': str(paths.results())}
    names: dict[str, str] = {}
    for part in system.partitions:
        for name, stated in part.extras.filesystems.items():
            names[Template(stated).safe_substitute(variables)] = name
    for path, name in names.items():
        nearest = next(place for place in (Path(path), *Path(path).parents) if place.exists())
        what = f'{name}: {path}'
        if '$' in path:
            yield note('file system', f'{what}: the variable is not set here', 'write the path out')
        elif os.access(nearest, os.W_OK | os.X_OK):
            yield ok('file system', what)
        elif system.detect is True:
            yield lacking('file system', f'{what}: {nearest} cannot be written', 'name another: filesystems in '
                          f'systems/{system.name}/system.yaml', INFRASTRUCTURE)
        else:
            yield note('file system', f'{what}: {nearest} cannot be written from here: the nodes may see another')


def _timer(system: System) -> Iterator[Diagnosis]:
    """Look for ci/nightly or parity in this user's crontab and in the timers of systemd."""
    for listing in ('crontab -l', 'systemctl --user list-timers --all --no-legend',
                    'systemctl list-timers --all --no-legend', 'scrontab -l'):
        command = listing.split()
        if not shutil.which(command[0]):
            continue
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        if re.search(r'^(?![ \t]*#).*(ci/nightly|parity)', done.stdout, re.M):
            yield ok('timer', f'{listing} names it')
            return
    yield note('timer', 'nothing starts the night by itself',
               f'docs/nightly.md; by hand: ci/nightly --system {system.name}')


def _launchers(system: System) -> Iterator[Diagnosis]:
    launchers = {part.launcher for part in system.partitions}
    for program in sorted(launchers - {'local', 'ssh'}):
        path = shutil.which(program.partition('-')[0])
        if path:
            yield ok('launcher', f'{program}: {path}')
        elif system.detect:
            yield note('launcher', f'{program} is not on PATH: no MPI program is measured', remedies.AS_ROOT)
        else:
            yield note('launcher', f'{program} is not on PATH here: modules of an environment must bring it')
