"""`parity software`: build the codes, print the builds, bundle them for a machine without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from parity.base import errors
from parity.base.figures import counted
from parity.cli.common import JSON
from parity.cli.group import Group

if TYPE_CHECKING:
    from parity.measure.software import manifest
    from parity.site.systems import SpackEnvironment, System

app = typer.Typer(cls=Group, no_args_is_help=True,
                  help='Build the benchmark codes with Spack, as spack.yaml lists them.')
SYSTEM = typer.Option('local', '--system', help='The system of the builds.')
ONLY = typer.Argument(None, metavar='CODE', help='Codes or packages; by default all.')
ENVIRON = typer.Option([], '--environ', metavar='NAME', help='Only this environment of `spack:` in system.yaml.')
PARTITION = typer.Option('', '--partition', help='Only the environments for this partition.')


@app.command()
def build(only: list[str] = ONLY, system: str = SYSTEM, environ: list[str] = ENVIRON, partition: str = PARTITION):
    """Build the codes for a system from its locks, and start every binary once. Where no Spack is here, fetch
    Spack and its recipes at pinned versions."""
    from parity.measure.session import retain
    from parity.measure.software import build as builder
    from parity.site import systems
    stated = systems.read(system)
    used = retain.builds(system, stated.software.generations)
    builder.build_all(stated, facts(stated), only or (), used, environ or (), partition)


@app.command()
def status(system: str = SYSTEM, as_json: bool = JSON) -> int:
    """Print the builds: spec, DAG hash, compiler, MPI, target. Exit code 3 if one is missing, or is for another
    target than system.yaml states."""
    from parity.measure.software import manifest
    from parity.site import systems
    entries = systems.read(system).builds
    builds = {entry.name: manifest.read(system, entry.name) for entry in entries}
    there = {name: built for name, built in builds.items() if built}
    if not as_json:
        for entry in entries:
            _show(system, entry, builds)
    elif len(entries) == 1 and systems.SPACK in there:
        print(there[systems.SPACK].model_dump_json(indent=1))
    elif there:
        print(json.dumps({name: built.model_dump(mode='json') for name, built in there.items()}, indent=1))
    if not there:
        print(f'{system}: nothing is built; next: parity software build --system {system}')
    good = len(there) == len(builds) and all(map(manifest.whole, there.values()))
    for entry in entries:
        if entry.name in there and manifest.of_another_target(there[entry.name], entry):
            good = False
    return errors.OK if good else errors.MISSING


@app.command()
def prune(system: str = SYSTEM):
    """Remove the builds of `parity cause INCIDENT --packages` whose incident has its package, or is over. Spack
    removes the packages that only these need."""
    from parity.base import paths
    from parity.base.files import Lock
    from parity.judge.store import incidents
    from parity.measure.software import mixed
    from parity.site import systems
    systems.read(system)
    unanswered = set()
    for incident in incidents.of_system(system):
        has_package = incident.cause and incident.cause.package
        if not incident.closed and not has_package:
            unanswered.add(str(incident.number))
    with Lock(paths.results() / '.nightly.lock', 'parity software prune').held():
        count, size = mixed.prune(system, unanswered)
    removed = counted(count, 'build')
    left = counted(len(mixed.builds(system)), 'build', 'are')
    print(f'parity: {system}: {removed} of parity cause --packages removed: {size / 1e6:.0f} MB; {left} left')


def _show(system: str, entry: SpackEnvironment, builds: dict[str, manifest.Manifest | None]) -> None:
    """Print the build of an environment: a row a package; in front what tells it from the system's others."""
    from parity.measure.software import manifest
    built = builds[entry.name]
    several = len(builds) > 1
    if several:
        print(_described(entry, bool(built)))
    if not built:
        return
    if several:
        print(f'  {manifest.shared(built, list(filter(None, builds.values())))}')
    if built.tools:
        print('; '.join(f'{tool} {version}' for tool, version in built.tools.items()))
    for environ, view in built.views.items():
        if built.gpu or several:
            untried = '' if view.started else ' (no GPU driver at the build: none was started)'
            print(f'{environ}: {view.view}{untried}')
        for line in _table(view, with_blas=several):
            print(line)
    for doubt in manifest.doubts(system, built, entry):
        print(f'{system}: {entry.name}: {doubt}' if several else f'{system}: {doubt}')


def _described(entry: SpackEnvironment, is_built: bool) -> str:
    """Return what tells an environment from the system's others."""
    words = [entry.name, f'for {", ".join(entry.partitions) or "every partition"}']
    chosen = entry.model_dump(include={'target', 'compiler', 'mpi', 'blas'})
    words += [f'{key} {value}' for key, value in chosen.items() if value]
    if not is_built:
        words.append('nothing is built')
    return '; '.join(words)


def _table(view: manifest.View, with_blas: bool) -> list[str]:
    """Return a row for each package of a view: spec, hash, compiler, MPI, BLAS, target, state of its binaries."""
    from parity.base import text
    from parity.measure.software import manifest
    changed = set(manifest.changed(view))
    rows = []
    for package in view.packages.values():
        lacking = sorted(changed & set(package.binaries))
        state = f'missing or changed: {" ".join(lacking)}' if lacking else counted(len(package.binaries), 'binary')
        blas = [package.blas or '-'] if with_blas else []
        rows.append([package.spec, f'/{package.hash[:7]}', package.compiler, package.mpi or '-', *blas,
                     package.target, state])
    return text.columns(rows)


def facts(system: System) -> dict[str, Any]:
    """Return caches and memory, for the sizes of compiled-in arrays: detected here, or stated by the partition."""
    stated = system.partitions[0].extras.model_dump(exclude_none=True)
    if not system.detect:
        return stated
    from parity.base import paths
    from parity.measure import machine
    here = machine.load(paths.results() / 'cache' / 'machine.json')
    return {'llc_bytes': here.llc_bytes, 'memory_bytes': here.memory_bytes, **stated}


@app.command()
def mirror(directory: Path, only: list[str] = ONLY, system: str = SYSTEM, environ: list[str] = ENVIRON):
    """Make a bundle of Spack, recipes and sources, to build without a network: of all codes, or of those named."""
    from parity.measure.software import build as builder
    from parity.measure.software import spack
    from parity.site import systems
    target = directory.absolute()
    stated = systems.read(system)
    entries = builder.chosen(stated, environ or ())
    packages = builder.named_packages(system, only or (), entries)
    locked = [builder.locked(stated, facts(stated), entry) for entry in entries]
    program = locked[0][0]
    made = spack.bundle(program, system, [place for _, place in locked], target, packages)
    size = 0
    for file in target.rglob('*'):
        if file.is_file() and not file.is_symlink():
            size += file.stat().st_size
    print(f'parity: {target}: Spack {made.spack}, recipes, {len(made.sources)} sources, {size / 1e6:.0f} MB; '
          f'next, where no network is: {spack.VARIABLE}=COPY_OF_IT parity software build --system {system}')
