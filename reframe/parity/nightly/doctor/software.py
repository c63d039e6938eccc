"""What codes are built and started with: Spack and its build, compilers, the MPI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from parity.base import paths
from parity.base.errors import MISSING
from parity.nightly.doctor.model import Finding, lacking, note, ok
from parity.software import discover, spack
from parity.software.spackenv import manifest
from parity.system.schema import System


def findings(system: System) -> Iterator[Finding]:
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
