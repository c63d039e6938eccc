"""Build a system's environment from its lock, prove its binaries, write the manifest."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
    wanted = [entry for entry in entries if not only or _has_one(system.name, only, entry)]
    failed: dict[str, ParityError] = {}
    for entry in wanted:
        names = [name for name in only if _has_one(system.name, [name], entry)]
        try:
            build(system, facts, names, used, entry)
        except ParityError as err:
            if len(wanted) == 1:
                raise
            failed[entry.name] = err
            print(f'parity: {system.name}: {entry.name}: {err}', file=sys.stderr, flush=True)
    if failed:
        is_usage = all(isinstance(err, UsageError) for err in failed.values())
        kind = UsageError if is_usage else InfrastructureError
        raise kind(f'{system.name}: not built: {", ".join(failed)}, of {counted(len(wanted), "environment")}; '
                   'the same command goes on')


def chosen(system: System, environs: Collection[str] = (), partition: str = '') -> list[SpackEnvironment]:
    """Return the environments of these names, or for a partition; all without either. UsageError for an unknown
    name."""
    by_name = {entry.name: entry for entry in system.builds}
    for name in environs:
        if name not in by_name:
            raise UsageError(errors.unknown('environment of Spack', name, list(by_name)))
    partitions = [part.name for part in system.partitions]
    if partition and partition not in partitions:
        raise UsageError(errors.unknown('partition', partition, partitions))
    entries = [by_name[name] for name in environs] or system.builds
    return [entry for entry in entries if not partition or entry.is_for(partition)]


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
    names = [build.name for build in system.builds]
    where = systems.line(system.name, ('spack', names.index(entry.name), 'target'))
    target.demand(entry.target, where)
    why = target.refusal(entry.target, procfs.flags(procfs.Tree('/')))
    if why:
        partitions = [part.name for part in system.partitions if entry.is_for(part.name)]
        partition = partitions[0] if partitions else ''
        raise UsageError(f'{where}: {why}, and every binary is started once: build on a node that has it '
                         f'(parity jobs submit build --system {system.name} --partition {partition})')


def _build_alone(system: System, facts: dict[str, Any], wanted: set[str], some: bool,
                 used: Collection[Path], entry: SpackEnvironment) -> manifest.Manifest:
    """Build as `build` does, while no other process builds. ``some``: not all packages are wanted."""
    command, place = _written(system, facts, entry)
    before = manifest.read(system.name, entry.name)
    title = system.name if entry == environment.ONLY else f'{system.name}: {entry.name}'
    if before and some:
        wanted |= before.names & set(environment.packages(system.name, entry))
    if before and _is_done(before, place, wanted):
        manifest.done(system.name, entry.name)
        print(f'parity: {title}: nothing to build: the lock and what it built are unchanged')
        return before
    _demand_no_space(command.tree(place))
    start = time.monotonic()
    with _attempt(system, entry, before, title):
        built = _build(command, system, place, wanted, entry)
    _commit_lock(system, place, entry)
    # a session may still use the build before; packages stay Spack's
    kept = {place, *used, *manifest.in_use(system.name)}
    if before:
        kept.add(Path(before.view).parents[1])
    for other in place.parent.iterdir():
        if other not in kept:
            environment.remove(other)
    count = sum(len(view.packages) for view in built.views.values())
    print(f'parity: {title}: built {counted(count, "package")} in {time.monotonic() - start:.0f} s')
    return built


def _is_done(built: manifest.Manifest, place: Path, wanted: set[str]) -> bool:
    """Return whether a build has the wanted packages, of the inputs at ``place``, and is whole."""
    stamp = built.stamp.partition(' ')[0]
    return stamp == environment.stamp(place) and wanted <= built.names and manifest.whole(built)


def _demand_no_space(tree: str) -> None:
    """Refuse a folder to install into: Spack copes with a space in its path, and the compilers do not."""
    if any(letter.isspace() for letter in tree):
        raise UsageError(f'{tree}: packages cannot be built for a path with a space: install into another '
                         "(Spack's config:install_tree:root; for a Spack that parity brought, PARITY_RESULTS)")


@contextlib.contextmanager
def _attempt(system: System, entry: SpackEnvironment, before: manifest.Manifest | None, title: str
             ) -> Iterator[None]:
    """Note that a build is tried, and why it fails if it does."""
    began = manifest.now()
    manifest.attempted(system.name, entry.name, began)
    try:
        yield
    except ParityError as err:
        with contextlib.suppress(OSError):      # a full disk: go on to say what failed
            manifest.attempted(system.name, entry.name, began, str(err)[:400])
        if before:
            print(f'parity: {title}: in use: the build of {before.built or "before"}', file=sys.stderr)
        raise


def locked(system: System, facts: dict[str, Any],
           entry: SpackEnvironment = environment.ONLY) -> tuple[Spack, Path]:
    """Return a Spack, and the environment with its lock, to make a bundle from."""
    command, place = _written(system, facts, entry)
    _lock(command, system, place, entry)
    _commit_lock(system, place, entry)
    return command, place


def _packages_of(system: str, entry: SpackEnvironment) -> dict[str, str]:
    """Return the packages of an environment by their names and those of their codes."""
    by_name = {}
    packages = environment.packages(system, entry)
    for package in packages:
        for code in codes.of_package(package):
            by_name[code.room] = package
    by_name.update(zip(packages, packages, strict=True))
    return by_name


def _wanted(system: str, only: Sequence[str], entry: SpackEnvironment) -> set[str]:
    """Return the packages of these codes or packages; all without any. Raise UsageError for an unknown name."""
    if only:
        return named_packages(system, only, [entry])
    return set(_packages_of(system, entry).values())


def _written(system: System, facts: dict[str, Any], entry: SpackEnvironment) -> tuple[Spack, Path]:
    """Return a Spack, and the folder of the environment that it is to build."""
    if system.detect:       # before Spack is cloned
        environment.demand_packages(entry)
    command = spack.chosen()
    recipes = command.given()
    if recipes:
        print(f'parity: recipes: {recipes}, as this Spack is configured, instead of those that spack.yaml pins')
    place = environment.write(system, facts, recipes, entry)
    environment.fetch_recipes(place)
    return command, place


@dataclass(frozen=True)
class _Plan:
    """An installation: the ``chosen`` roots of the lock, the packages that they need, and those ``here`` already,
    by hash. ``is_part``: the lock has more roots."""

    chosen: list[str]
    is_part: bool
    needed: dict[str, str]
    here: set[str]

    def arguments(self) -> list[str]:
        """Return the roots as on a command line; none for all."""
        return [f'/{root}' for root in self.chosen] if self.is_part else []


def _plan(command: Spack, place: Path, wanted: set[str]) -> _Plan:
    lock = spack.locked(place)
    roots = _packages_by_root(lock)
    chosen = [root for root, package in roots.items() if package in wanted]
    needed = steps.packages(lock, chosen)
    here = needed.keys() & hashes_here(command, place)
    return _Plan(chosen, len(chosen) < len(roots), needed, here)


def _packages_by_root(lock: dict[str, Any]) -> dict[str, str]:
    """Return the packages of the roots of a lock, by their hashes."""
    return {root['hash']: lock['concrete_specs'][root['hash']]['name'] for root in lock['roots']}


def hashes_here(command: Spack, place: Path) -> set[str]:
    """Return the hashes of the packages that are installed."""
    return set(command.ask(place, 'find', '--format', '{hash}').split())


def _build(command: Spack, system: System, place: Path, wanted: set[str],
           entry: SpackEnvironment) -> manifest.Manifest:
    _lock(command, system, place, entry)
    _refuse_unfit(system, place)
    built = manifest.read(system.name, entry.name)
    if not built or place not in Path(built.view).parents or not manifest.whole(built):
        _remove_views(place)
    plan = _plan(command, place, wanted)
    if plan.here:
        needed = counted(len(plan.needed), 'package', 'are')
        print(f'parity: {len(plan.here)} of {needed} built already', flush=True)
    failure = _install(command, place, plan)
    if not failure:
        return _take_into_use(command, system, place, wanted, plan.is_part, entry)
    made = _made(command, place, wanted)
    if not made or (built and not built.names <= made):         # those in use are more
        raise failure
    command.run(place, 'env', 'view', 'regenerate')
    _take_into_use(command, system, place, made, True, entry)
    left = ', '.join(sorted(wanted - made))
    raise InfrastructureError(f'left: {left}; built: {", ".join(sorted(made))}; {failure}')


def _remove_views(place: Path) -> None:
    """Remove views that are not whole. Spack replaces the view of other packages at the end; it does not mend one,
    but makes it where there is none."""
    for name in ('view', 'view-gpu'):
        (place / name).unlink(missing_ok=True)
        shutil.rmtree(place / f'._{name}', ignore_errors=True)


def _install(command: Spack, place: Path, plan: _Plan) -> InfrastructureError | None:
    """Install, and return the failure if Spack fails: a part of the packages may be installed all the same."""
    failure = None
    cores = len(os.sched_getaffinity(0))
    try:
        command.run(place, 'install', f'-j{cores}', *plan.arguments(), steps=steps.Steps(plan.needed, plan.here))
    except InfrastructureError as err:
        failure = err
    installed.refuse_others(command, place, plan.needed)
    return failure


def _take_into_use(command: Spack, system: System, place: Path, wanted: set[str], is_part: bool,
                   entry: SpackEnvironment) -> manifest.Manifest:
    """Prove the binaries of the ``wanted`` packages, and write the manifest."""
    tools = command.tools(place)
    default = proven(place, tools, wanted)
    gpu = proven(place, tools, wanted, for_gpu=True)
    if entry.mpi:
        default = default.model_copy(update={'launcher': _launcher(command, place)})
    stamp = environment.stamp(place)
    if is_part:
        stamp = ' '.join([stamp, *sorted(wanted)])
    return manifest.write(system.name, stamp, default, gpu if gpu.packages else None, entry.name)


def _made(command: Spack, place: Path, wanted: set[str]) -> set[str]:
    """Return those of the ``wanted`` packages that are installed."""
    here = hashes_here(command, place)
    roots = _packages_by_root(spack.locked(place))
    return {package for root, package in roots.items() if root in here and package in wanted}


def _launcher(command: Spack, place: Path) -> str:
    """Return the folder of the mpirun of the MPI that a lock's packages are built with; '' where there is none."""
    specs = spack.locked(place)['concrete_specs']
    for number in sorted(_mpis(specs)):
        external = specs[number].get('external') or {}
        prefix = external.get('path') or command.ask(place, 'location', '--install-dir', f'/{number}')
        folder = Path(prefix, 'bin')
        if (folder / 'mpirun').exists():
            return str(folder)
    return ''


def _mpis(specs: dict[str, Any]) -> set[str]:
    """Return the hashes of the packages of a lock that others take for their MPI."""
    numbers = set()
    for spec in specs.values():
        for edge in spec.get('dependencies', ()):
            if 'mpi' in edge['parameters']['virtuals']:
                numbers.add(edge['hash'])
    return numbers


def _refuse_unfit(system: System, place: Path) -> None:
    """Raise UsageError where something that the lock needs is not here, or it was made without its compilers."""
    lock = place / 'spack.lock'
    specs = spack.locked(place)['concrete_specs']
    absent = _absent_externals(specs)
    if absent:
        raise UsageError(f'{lock}: names what is not on this machine: {", ".join(absent)}: go to '
                         f'a node that has it, or correct systems/{system.name}/spack/packages.yaml')
    if not any(spec['name'] == 'compiler-wrapper' for spec in specs.values()):
        raise UsageError(f'{lock}: made while its compilers did not run: correct them in '
                         f'systems/{system.name}/spack/packages.yaml, then spack clean -m (Spack remembers that '
                         'they did not)')


def _absent_externals(specs: dict[str, Any]) -> list[str]:
    """Return the externals of a lock that are not on this machine, each with a path: `gcc@13.2.0 (/opt/gcc)`."""
    absent = set()
    for number, spec in specs.items():
        external = spec.get('external') or {}
        attributes = external.get('extra_attributes') or {}
        compilers = attributes.get('compilers') or {}
        # the prefix of a compiler may be /usr, which is there without it
        programs = [compilers[language] for language in _provided(specs, number) if language in compilers]
        for path in (external.get('path'), *programs):
            if path and not os.path.exists(path):
                absent.add(f'{spec["name"]}@{spec["version"]} ({path})')
                break
    return sorted(absent)


def _provided(specs: dict[str, Any], number: str) -> set[str]:
    """Return what the packages of a lock need package ``number`` for: {'c', 'fortran'}, {'mpi'}."""
    virtuals = set()
    for spec in specs.values():
        for edge in spec.get('dependencies', ()):
            if edge['hash'] == number:
                virtuals.update(edge['parameters']['virtuals'])
    return virtuals


def _lock(command: Spack, system: System, place: Path, entry: SpackEnvironment) -> None:
    """Make the lock anew when its inputs change, but never a committed one."""
    if environment.committed_lock(system.name, entry.name).exists():
        _refuse_old(command, system, place, entry)
        _refuse_target(system, place, entry)
        return
    made_from = place / 'spack.lock.inputs'
    inputs = environment.inputs(place)
    if made_from.exists() and made_from.read_text() == inputs:
        return
    command.run(place, 'concretize', '--force')
    _refuse_unfit(system, place)
    made_from.write_text(inputs)


def _roots(place: Path) -> dict[str, str]:
    """Return the specs that the lock was made for, and the hash of each."""
    return {root['spec']: root['hash'] for root in spack.locked(place)['roots']}


def _refuse_target(system: System, place: Path, entry: SpackEnvironment) -> None:
    """Raise UsageError where a committed lock is for another target than the environment."""
    if not entry.target:
        return
    lock = environment.committed_lock(system.name, entry.name)
    for package in manifest.concrete(place).values():
        if package.target != entry.target:
            raise UsageError(f'{lock}: {package.spec} is for {package.target}, and the environment {entry.name} '
                             f'for {entry.target}. Make a new one: rm {shlex.quote(str(lock))} && '
                             f'parity software build --system {system.name} --environ {entry.name}')


def _refuse_old(command: Spack, system: System, place: Path, entry: SpackEnvironment) -> None:
    """Raise UsageError where the committed lock is for other specs. Spack changes only the copy at ``place``."""
    before = _roots(place)
    command.run(place, 'concretize')
    after = _roots(place)
    if before == after:
        return
    lock = environment.committed_lock(system.name, entry.name)
    lacking = ', '.join(sorted(after.keys() - before.keys())) or 'none'
    stale = ', '.join(sorted(before.keys() - after.keys())) or 'none'
    raise UsageError(f'{lock}: is not of the specs of spack.yaml, gpu.yaml and system.yaml: it lacks '
                     f'{lacking} and has {stale} instead. Make a new one: rm {shlex.quote(str(lock))} && '
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
    roots = manifest.concrete(place, for_gpu)
    packages = {name: package for name, package in roots.items() if name in wanted}
    folder = place / ('view-gpu' if for_gpu else 'view') / 'bin'
    starts = not for_gpu or environment.gpu_driver()
    if packages and not starts:
        print(f'parity: no GPU driver here: of {", ".join(packages)} for GPUs it is only checked that the '
              'binaries are there, not that they start', flush=True)
    binaries = {}
    for name, package in packages.items():
        for code in codes.of_package(name):
            binaries.update(dict.fromkeys(code.binaries_of(package.parameters), code))
    bad = problems(folder, binaries, starts)
    if bad:
        first, *others = bad
        more = f' (so for {len(others)} more: {" ".join(others[:5])} ...)' if others else ''
        raise InfrastructureError(f'{folder / first}: {bad[first]}{more}')
    _demand_blas(folder, packages)
    return manifest.view(folder, packages, tools, starts)


def _demand_blas(folder: Path, packages: dict[str, manifest.Package]) -> None:
    """Raise InfrastructureError for a program that loads another BLAS than its lock names: a comparison of the two
    would lie."""
    for name, package in packages.items():
        for code in codes.of_package(name):
            binaries = code.binaries_of(package.parameters) if code.blas and package.blas else []
            for binary in binaries:
                why = blas.another(package.blas, str(folder / binary), os.environ)
                if why:
                    raise InfrastructureError(f'{folder / binary}: {why}')


def problems(folder: Path, wanted: dict[str, Code], start: bool = True) -> dict[str, str]:
    """Return the binaries that cannot be used, each with the reason."""
    def of_binary(name: str) -> str:
        return problem(folder / name, wanted[name], start)

    with ThreadPoolExecutor(max_workers=2) as pool:
        reasons = dict(zip(wanted, pool.map(of_binary, wanted), strict=True))
    return {name: why for name, why in reasons.items() if why}


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
