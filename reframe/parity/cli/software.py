"""`parity software`: build the codes, say what is built, bundle it for a machine without a network."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from parity.base.errors import MISSING, OK, UsageError
from parity.software.spackenv import build as builder
from parity.software.spackenv import bundle, manifest
from parity.system import systems
from parity.system.schema import System


def build(name: str) -> None:
    """Build for the system; InfrastructureError or UsageError with one line if it cannot be."""
    system = systems.read(name)
    builder.build(system, facts(system))


def status(name: str, as_json: bool) -> int:
    """Print the manifest; the exit code says whether everything it names is there."""
    systems.read(name)
    built = manifest.read(name)
    if built is None:
        print(f'{name}: nothing is built; next: parity software build --system {name}')
        return MISSING
    if as_json:
        print(built.model_dump_json(indent=1))
    if built.tools and not as_json:
        print('; '.join(f'{tool} {version}' for tool, version in built.tools.items()))
    for environ, view in built.views.items() if not as_json else ():
        if built.gpu:
            untried = '' if view.started else ' (no GPU driver at the build: none was started)'
            print(f'{environ}: {view.view}{untried}')
        _list(view)
    if (newer := manifest.not_built(name, built)) and not as_json:
        print(f'{name}: {newer}')
    return OK if manifest.whole(built) else MISSING


def _list(view: manifest.View) -> None:
    changed = set(manifest.changed(view))
    width = max((len(package.spec) for package in view.packages.values()), default=0)
    for package in view.packages.values():
        lacking = sorted(changed & set(package.binaries))
        state = f'missing or changed: {" ".join(lacking)}' if lacking else f'{len(package.binaries)} binaries'
        print(f'{package.spec:{width}} /{package.hash[:7]}   {package.compiler:12} {package.mpi or "-":16} '
              f'{package.target:12} {state}')


def facts(system: System) -> dict[str, Any]:
    """Caches and memory that compiled-in arrays are sized for: detected here, or stated by the partition."""
    stated = system.partitions[0].extras.model_dump(exclude_none=True)
    if not system.detect:
        return stated
    from parity import machine
    from parity.base import paths
    here = machine.load(paths.results() / 'cache' / 'machine.json')
    return {'llc_bytes': here.llc_bytes, 'memory_bytes': here.memory_bytes, **stated}


def mirror(directory: str, name: str) -> None:
    """Make the bundle in the folder; UsageError or InfrastructureError with one line if it cannot be."""
    target, system = Path(directory).absolute(), systems.read(name)
    command, place = builder.locked(system, facts(system))
    made = bundle.make(command, name, place, target)
    size = sum(file.stat().st_size for file in target.rglob('*') if file.is_file() and not file.is_symlink())
    print(f'parity: {target}: Spack {made.spack}, recipes, {len(made.sources)} sources, {size / 1e6:.0f} MB; '
          f'next, where no network is: {bundle.VARIABLE}=COPY_OF_IT parity software build --system {name}')


def cache(directory: str, name: str) -> None:
    """Put what is built into a build cache: a folder, or a bundle; UsageError where nothing is built."""
    target = Path(directory).absolute()
    systems.read(name)
    if (built := manifest.read(name)) is None:
        raise UsageError(f'{name}: nothing is built; next: parity software build --system {name}')
    in_bundle = (target / 'bundle.json').exists()
    target = target / 'binaries' if in_bundle else target
    bundle.push(builder.find(), builder.used(built), target)
    how = 'builds from the bundle install it' if in_bundle else \
        f'spack mirror add --unsigned parity {shlex.quote(str(target))}, then build there'
    print(f'parity: {target}: the binaries of {name}; next: {how}')
