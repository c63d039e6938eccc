"""`parity software mirror` and `cache`: what a machine cut off from the network builds from."""

from __future__ import annotations

import shlex
from pathlib import Path

from parity.base.errors import UsageError
from parity.cli.build import facts
from parity.software.spackenv import build as builder
from parity.software.spackenv import bundle, manifest
from parity.system import systems


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
