"""Build a system's environment from its lock, prove its binaries, write the manifest."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from parity.base import codes, errors
from parity.base.codes import Code
from parity.base.errors import InfrastructureError, ParityError, UsageError
from parity.base.figures import counted
from parity.measure.machine import procfs
from parity.measure.software import blas, environment, installed, manifest, spack, steps, target
from parity.measure.software.blas import attempt
from parity.measure.software.programs import SECONDS, prepared, root_variables
from parity.measure.software.spack import Spack
from parity.site import systems
from parity.site.systems import SpackEnvironment, System


def build(system: System, facts: dict[str, Any], only: Sequence[str] = (),
          used: Collection[Path] = (), entry: SpackEnvironment = environment.ONLY) -> manifest.Manifest:
    """Concretize where there is no lock, install, check every binary, then take the build into use.

    ``only`` names codes or packages to build beside those in use; all of spack.yaml without it. Where nothing
    changed, do nothing. Where it fails, the build before stays in use. Raise UsageError without a compiler,
    for an unknown name and for a target that this machine does not run. Raise InfrastructureError where the build
    fails or a binary is missing. ``used``: builds that nights measured, which stay."""
    wanted = _wanted(system.name, only, entry)
    if entry.target:
        _demand_target(system, entry)
    with environment.lock(system.name):
        return _build_alone(system, facts, wanted, bool(only), used, entry)


def build_all(system: System, facts: dict[str, Any], only: Sequence[str] = (), used: Collection[Path] = (),
              environs: Collection[str] = (), partition: str = '') -> None:
    """Build the system's environments: those named in ``environs``, those for a ``partition``. Where one fails, go
    on with the others, then raise InfrastructureError with what is left; UsageError where nothing else failed."""
    entries = chosen(system, environs, partition)
    named_packages(system.name, only, entries)
    named = [entry for entry in entries if not only or _has_one(system.name, only, entry)]
    failed: dict[str, ParityError] = {}
    for entry in named:
        try:
            mine = [name for name in only if _has_one(system.name, [name], entry)]
            build(system, facts, mine, used, entry)
        except ParityError as err:
            if len(named) == 1:
                raise
            failed[entry.name] = err
            print(f'parity: {system.name}: {entry.name}: {err}', file=sys.stderr, flush=True)
    if failed:
        kind = UsageError if all(isinstance(err, UsageError) for err in failed.values()) else InfrastructureError
        count = counted(len(named), 'environment')
        raise kind(f'{system.name}: not built: {", ".join(failed)}, of {count}; the same command goes on')


def chosen(system: System, environs: Collection[str] = (), partition: str = '') -> list[SpackEnvironment]:
    """Return the environments of these names, or for a partition; all without either. UsageError for an unknown
    name."""
    known = {entry.name: entry for entry in system.builds}
    for name in environs:
        if name not in known:
            raise UsageError(errors.unknown('environment of Spack', name, list(known)))
    partitions = [each.name for each in system.partitions]
    if partition and partition not in partitions:
        raise UsageError(errors.unknown('partition', partition, partitions))
    found = [known[name] for name in environs] or system.builds
    return [entry for entry in found if not partition or entry.is_for(partition)]


def named_packages(system: str, only: Sequence[str], entries: Sequence[SpackEnvironment]) -> set[str]:
    """Return the packages of these codes or packages. UsageError for one that no environment has."""
    valid: dict[str, str] = {}
    for entry in entries:
        valid |= _packages_of(system, entry)
    for name in only:
        if name not in valid:
            raise UsageError(errors.unknown('package', name, [*valid]))
    return {valid[name] for name in only}


def _has_one(system: str, only: Sequence[str], entry: SpackEnvironment) -> bool:
    return any(name in _packages_of(system, entry) for name in only)


def _demand_target(system: System, entry: SpackEnvironment) -> None:
    """Raise UsageError for a target that Spack does not know, or whose programs do not start on this machine."""
    at = [each.name for each in system.builds].index(entry.name)
    where = systems.line(system.name, ('spack', at, 'target'))
    target.demand(entry.target, where)
    if why := target.refusal(entry.target, procfs.flags(procfs.Tree('/'))):
        partition = next((part.name for part in system.partitions if entry.is_for(part.name)), '')
        raise UsageError(f'{where}: {why}, and every binary is started once: build on a node that has it '
                         f'(parity jobs submit build --system {system.name} --partition {partition})')


def _build_alone(system: System, facts: dict[str, Any], wanted: set[str], some: bool,
                 used: Collection[Path], entry: SpackEnvironment) -> manifest.Manifest:
    command, place = _written(system, facts, entry)
    built = manifest.read(system.name, entry.name)
    title = system.name if entry == environment.ONLY else f'{system.name}: {entry.name}'
    if built and some:
        wanted |= built.names & set(environment.packages(system.name, entry))
    same = built and built.stamp.partition(' ')[0] == environment.stamp(place)
    if same and manifest.whole(built) and wanted <= built.names:
        manifest.done(system.name, entry.name)
        print(f'parity: {title}: nothing to build: the lock and what it built are unchanged')
        return built
    tree = command.tree(place)
    if any(letter.isspace() for letter in tree):        # Spack copes with a space; the compilers do not
        raise UsageError(f'{tree}: packages cannot be built for a path with a space: install into another '
                         "(Spack's config:install_tree:root; for a Spack that parity brought, PARITY_RESULTS)")
    began, start = manifest.now(), time.monotonic()
    manifest.attempted(system.name, entry.name, began)
    try:
        written = _build(command, system, place, wanted, entry)
    except ParityError as err:
        with contextlib.suppress(OSError):      # a full disk: go on to say what failed
            manifest.attempted(system.name, entry.name, began, str(err)[:400])
        if built:
            print(f'parity: {title}: in use: the build of {built.built or "before"}', file=sys.stderr)
        raise
    _commit_lock(system, place, entry)
    # a session may still use the build before; packages stay Spack's
    kept = {place, *used, *manifest.in_use(system.name), *([Path(built.view).parents[1]] if built else [])}
    for other in place.parent.iterdir():
        if other not in kept:
            environment.remove(other)
    count = sum(len(view.packages) for view in written.views.values())
    print(f'parity: {title}: built {counted(count, "package")} in {time.monotonic() - start:.0f} s')
    return written


def locked(system: System, facts: dict[str, Any],
           entry: SpackEnvironment = environment.ONLY) -> tuple[Spack, Path]:
    """Return a Spack, and the environment with its lock, to make a bundle from."""
    command, place = _written(system, facts, entry)
    _lock(command, system, place, entry)
    _commit_lock(system, place, entry)
    return command, place


def _packages_of(system: str, entry: SpackEnvironment) -> dict[str, str]:
    """Return the packages of an environment by their names and those of their codes."""
    packages = environment.packages(system, entry)
    found = {code.room: package for package in packages for code in codes.of_package(package)}
    return found | {package: package for package in packages}


def _wanted(system: str, only: Sequence[str], entry: SpackEnvironment) -> set[str]:
    """Return the packages of these codes or packages; all without any. Raise UsageError for an unknown name."""
    known = _packages_of(system, entry)
    for name in only:
        if name not in known:
            raise UsageError(errors.unknown('package', name, list(known)))
    return {known[name] for name in only} or set(known.values())


def _written(system: System, facts: dict[str, Any], entry: SpackEnvironment) -> tuple[Spack, Path]:
    if system.detect:       # before Spack is cloned
        environment.demand_packages(entry)
    command = spack.chosen()
    if own := command.given():
        print(f'parity: recipes: {own}, as this Spack is configured, instead of those that spack.yaml pins')
    place = environment.write(system, facts, own, entry)
    environment.fetch_recipes(place)
    return command, place


def _build(command: Spack, system: System, place: Path, wanted: set[str],
           entry: SpackEnvironment) -> manifest.Manifest:
    _lock(command, system, place, entry)
    _refuse_unfit(system, place)
    built = manifest.read(system.name, entry.name)
    # Spack replaces the view of other packages at the end. It does not mend one, but makes it where there is none
    good = built and place in Path(built.view).parents and manifest.whole(built)
    for name in () if good else ('view', 'view-gpu'):
        (place / name).unlink(missing_ok=True)
        shutil.rmtree(place / f'._{name}', ignore_errors=True)
    lock = spack.locked(place)
    roots = [root['hash'] for root in lock['roots']]
    chosen = [f'/{root}' for root in roots if lock['concrete_specs'][root]['name'] in wanted]
    needed = steps.packages(lock, [root.removeprefix('/') for root in chosen])
    here = needed.keys() & set(command.ask(place, 'find', '--format', '{hash}').split())
    if here:
        print(f'parity: {len(here)} of {counted(len(needed), "package", "are")} built already', flush=True)
    some = len(chosen) < len(roots)
    failure = None
    try:
        command.run(place, 'install', f'-j{len(os.sched_getaffinity(0))}', *(chosen if some else ()),
                    steps=steps.Steps(needed, here))
    except InfrastructureError as err:
        failure = err
    installed.refuse_others(command, place, needed)
    if failure:
        made = _made(command, place, wanted)
        if not made or built and not built.names <= made:       # those in use are more
            raise failure
        command.run(place, 'env', 'view', 'regenerate')
        left, wanted, some = sorted(wanted - made), made, True
    tools = command.tools(place)
    default, gpu = (proven(place, tools, wanted, for_gpu) for for_gpu in (False, True))
    if entry.mpi:
        default = default.model_copy(update={'launcher': _launcher(command, place)})
    stamp = ' '.join([environment.stamp(place), *(sorted(wanted) if some else ())])
    written = manifest.write(system.name, stamp, default, gpu if gpu.packages else None, entry.name)
    if failure:
        raise InfrastructureError(f'left: {", ".join(left)}; built: {", ".join(sorted(wanted))}; {failure}')
    return written


def _made(command: Spack, place: Path, wanted: set[str]) -> set[str]:
    """Return those of the ``wanted`` packages that are installed."""
    here = set(command.ask(place, 'find', '--format', '{hash}').split())
    lock = spack.locked(place)
    roots = {root['hash']: lock['concrete_specs'][root['hash']]['name'] for root in lock['roots']}
    return {name for number, name in roots.items() if number in here and name in wanted}


def _launcher(command: Spack, place: Path) -> str:
    """Return the folder of the mpirun of the MPI that a lock's packages are built with; '' where there is none."""
    specs = spack.locked(place)['concrete_specs']
    edges = (edge for spec in specs.values() for edge in spec.get('dependencies', ()))
    mpis = {edge['hash'] for edge in edges if 'mpi' in edge['parameters']['virtuals']}
    for number in sorted(mpis):
        stated = (specs[number].get('external') or {}).get('path')
        prefix = stated or command.ask(place, 'location', '--install-dir', f'/{number}')
        if Path(prefix, 'bin', 'mpirun').exists():
            return str(Path(prefix, 'bin'))
    return ''


def _refuse_unfit(system: System, place: Path) -> None:
    """Raise UsageError where something that the lock needs is not here, or it was made without its compilers."""
    specs = spack.locked(place)['concrete_specs']
    if absent := _absent_externals(specs):
        raise UsageError(f'{place / "spack.lock"}: names what is not on this machine: {", ".join(absent)}: go to '
                         f'a node that has it, or correct systems/{system.name}/spack/packages.yaml')
    if not any(spec['name'] == 'compiler-wrapper' for spec in specs.values()):
        raise UsageError(f'{place / "spack.lock"}: made while its compilers did not run: correct them in '
                         f'systems/{system.name}/spack/packages.yaml, then spack clean -m (Spack remembers that '
                         'they did not)')


def _absent_externals(specs: dict[str, Any]) -> list[str]:
    """Return the externals of a lock that are not on this machine, each with a path: `gcc@13.2.0 (/opt/gcc)`."""
    absent = set()
    for number, spec in specs.items():
        external = spec.get('external') or {}
        compilers = (external.get('extra_attributes') or {}).get('compilers') or {}
        # the prefix of a compiler may be /usr, which is there without it
        programs = [compilers[language] for language in _provided(specs, number) if language in compilers]
        gone = [path for path in (external.get('path'), *programs) if path and not os.path.exists(path)]
        if gone:
            absent.add(f'{spec["name"]}@{spec["version"]} ({gone[0]})')
    return sorted(absent)


def _provided(specs: dict[str, Any], number: str) -> set[str]:
    """Return what the packages of a lock need package ``number`` for: {'c', 'fortran'}, {'mpi'}."""
    edges = [edge for spec in specs.values() for edge in spec.get('dependencies', ()) if edge['hash'] == number]
    return {virtual for edge in edges for virtual in edge['parameters']['virtuals']}


def _lock(command: Spack, system: System, place: Path, entry: SpackEnvironment) -> None:
    """Make the lock anew when its inputs change, but never a committed one."""
    made_from = place / 'spack.lock.inputs'
    now = environment.inputs(place)
    if environment.committed_lock(system.name, entry.name).exists():
        _refuse_old(command, system, place, entry)
        return _refuse_target(system, place, entry)
    if made_from.exists() and made_from.read_text() == now:
        return
    command.run(place, 'concretize', '--force')
    _refuse_unfit(system, place)
    made_from.write_text(now)


def _roots(place: Path) -> dict[str, str]:
    """Return the specs that the lock was made for, and the hash of each."""
    return {root['spec']: root['hash'] for root in spack.locked(place)['roots']}


def _refuse_target(system: System, place: Path, entry: SpackEnvironment) -> None:
    """Raise UsageError where a committed lock is for another target than the environment."""
    lock = environment.committed_lock(system.name, entry.name)
    for package in manifest.concrete(place).values():
        if entry.target and package.target != entry.target:
            raise UsageError(f'{lock}: {package.spec} is for {package.target}, and the environment {entry.name} '
                             f'for {entry.target}. Make a new one: rm {shlex.quote(str(lock))} && '
                             f'parity software build --system {system.name} --environ {entry.name}')


def _refuse_old(command: Spack, system: System, place: Path, entry: SpackEnvironment) -> None:
    """Raise UsageError where the committed lock is for other specs. Spack changes only the copy at ``place``."""
    lock, before = environment.committed_lock(system.name, entry.name), _roots(place)
    command.run(place, 'concretize')
    after = _roots(place)
    if before == after:
        return
    asked, stale = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    raise UsageError(f'{lock}: is not of the specs of spack.yaml, gpu.yaml and system.yaml: it lacks '
                     f'{", ".join(asked) or "none"} and has {", ".join(stale) or "none"} instead. '
                     f'Make a new one: rm {shlex.quote(str(lock))} && '
                     f'parity software build --system {system.name}')


def _commit_lock(system: System, place: Path, entry: SpackEnvironment) -> None:
    """Copy a site's new lock to where it is committed; that of `local` is this machine's own."""
    lock = environment.committed_lock(system.name, entry.name)
    if not system.detect and not lock.exists():
        print(f'parity: {lock}: new; commit it')
        lock.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(place / 'spack.lock', lock)


#: A library starts if it can be loaded, with all that it needs.
_LOAD = (sys.executable, '-c', 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)')


def proven(place: Path, tools: dict[str, str], wanted: set[str], for_gpu: bool = False) -> manifest.View:
    """Return a view of the ``wanted`` packages at ``place``. Raise InfrastructureError for binaries that are not
    there or do not start. Without a driver, those for GPUs are not started."""
    packages = {name: p for name, p in manifest.concrete(place, for_gpu).items() if name in wanted}
    bin_ = place / ('view-gpu' if for_gpu else 'view') / 'bin'
    start = not for_gpu or environment.gpu_driver()
    if packages and not start:
        print(f'parity: no GPU driver here: of {", ".join(packages)} for GPUs it is only checked that the '
              'binaries are there, not that they start', flush=True)
    bad = problems(bin_, {name: code for package, built in packages.items() for code in codes.of_package(package)
                          for name in code.binaries_of(built.parameters)}, start)
    if bad:
        name, why = next(iter(bad.items()))
        others = f' (so for {len(bad) - 1} more: {" ".join(list(bad)[1:6])} ...)' if len(bad) > 1 else ''
        raise InfrastructureError(f'{bin_ / name}: {why}{others}')
    _demand_blas(bin_, packages)
    return manifest.view(bin_, packages, tools, start)


def _demand_blas(folder: Path, packages: dict[str, manifest.Package]) -> None:
    """Raise InfrastructureError for a program that loads another BLAS than its lock names: a comparison of the two
    would lie."""
    for name, package in packages.items():
        using = [code for code in codes.of_package(name) if code.blas and package.blas]
        for binary in (binary for code in using for binary in code.binaries_of(package.parameters)):
            if why := blas.another(package.blas, str(folder / binary), os.environ):
                raise InfrastructureError(f'{folder / binary}: {why}')


def problems(folder: Path, wanted: dict[str, Code], start: bool = True) -> dict[str, str]:
    """Return the binaries that cannot be used, each with the reason."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        reasons = pool.map(lambda name: problem(folder / name, wanted[name], start), wanted)
        return {name: why for name, why in zip(wanted, reasons, strict=True) if why}


def problem(program: Path, code: Code, start: bool = True) -> str:
    """Return '' if the program is there and, with ``start``, runs for half a second or ends without an error."""
    if not os.access(program, os.X_OK):
        return 'is not there: its recipe, or a binary cache, said "installed" without it'
    if not start:
        return ''
    with prepared(code) as work:
        command = [*(_LOAD if program.suffix == '.so' else ()), str(program), *code.smoke_args]
        ran = attempt(command, {**os.environ, **root_variables()}, SECONDS, work)
    return '' if ran.ok or not ran.ended else f'does not start: {ran.why}'
