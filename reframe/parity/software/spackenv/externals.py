"""The distribution's compiler, MPI, BLAS and build tools as Spack's externals: only the codes are built."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from parity.base import files
from parity.base.errors import UsageError

#: What must be there, and Debian's package that brings it.
NEEDED = {'gcc': 'gcc', 'g++': 'g++', 'gfortran': 'gfortran', 'mpicc': 'libopenmpi-dev', 'mpirun': 'openmpi-bin',
          'make': 'make', 'autoconf': 'autoconf', 'automake': 'automake', 'libtoolize': 'libtool', 'm4': 'm4',
          'patch': 'patch', 'pkgconf': 'pkgconf', 'file': 'file', 'perl': 'perl', 'cmake': 'cmake',
          'python3': 'python3'}
#: Libraries and macros, which are no programs: Spack's name, Debian's package that brings it.
_LIBRARIES = {'openblas': 'libopenblas-dev', 'zlib': 'zlib1g-dev', 'libunwind': 'libunwind-dev',
              'autoconf-archive': 'autoconf-archive'}
#: Tools of which the version is the first number that `--version` prints; Spack's name, program.
_TOOLS = {'autoconf': 'autoconf', 'automake': 'automake', 'libtool': 'libtoolize', 'm4': 'm4',
          'gmake': 'make', 'perl': 'perl', 'pkgconf': 'pkgconf', 'cmake': 'cmake'}
#: What a recipe asks for by what it provides.
_PROVIDERS = {'mpi': 'openmpi', 'blas': 'openblas', 'lapack': 'openblas', 'zlib-api': 'zlib',
              'unwind': 'libunwind'}


def write(scope: Path, nvcc: str = '') -> Path:
    """Write packages.yaml into the scope (``nvcc``: CUDA's, if needed). UsageError naming packages to install."""
    missing = sorted({package for program, package in NEEDED.items() if not _here(program)})
    libraries = {name: _owned(package) for name, package in _LIBRARIES.items()}
    missing += [_LIBRARIES[name] for name, version in libraries.items() if not version]
    if missing:
        raise UsageError('to build the codes, these are needed from the distribution: '
                         f'apt install {" ".join(missing)}')
    packages = _packages(libraries) | ({'cuda': _cuda(nvcc)} if nvcc else {})
    files.update(scope / 'packages.yaml', yaml.safe_dump({'packages': packages}, sort_keys=False))
    return scope


def _packages(libraries: dict[str, str]) -> dict[str, Any]:
    gcc = _says(_here('gcc'), '-dumpfullversion')
    compilers = {language: _here(program)
                 for language, program in (('c', 'gcc'), ('cxx', 'g++'), ('fortran', 'gfortran'))}
    found: dict[str, Any] = {language: {'require': ['gcc']} for language in compilers}
    found['gcc'] = _external(f"gcc@{gcc} languages:='c,c++,fortran'", extra_attributes={'compilers': compilers})
    found['openmpi'] = _external(f'openmpi@{_version("mpirun")}')
    # /usr is not the prefix of every python3: a virtual environment's own stands first on PATH
    found['python'] = _external(f'python@{_version("/usr/bin/python3")}')
    found |= {package: _external(f'{package}@{_version(program)}') for package, program in _TOOLS.items()}
    found |= {package: _external(f'{package}@{version}') for package, version in libraries.items()}
    return found | {virtual: {'require': [provider]} for virtual, provider in _PROVIDERS.items()}


def _cuda(nvcc: str) -> dict[str, Any]:
    return _external(f'cuda@{_version(nvcc)}', prefix=str(Path(nvcc).resolve().parents[1]))


def _external(spec: str, **attributes: Any) -> dict[str, Any]:
    return {'externals': [{'spec': spec, 'prefix': '/usr', **attributes}], 'buildable': False}


def _says(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()


def _version(program: str) -> str:
    said = _says(_here(program), '--version')
    found = re.search(r'\bv?(\d+(?:\.\d+)+)', said)
    if not found or (program == 'mpirun' and 'Open MPI' not in said and 'OpenRTE' not in said):
        raise UsageError(f'{_here(program)} --version prints {said.splitlines()[:1]}: not the version of '
                         f'{NEEDED.get(program, program)}')
    return found[1]


def _here(program: str) -> str | None:
    """The distribution's own: what stands before it on PATH is not what /usr, the external's prefix, has."""
    return shutil.which(program, path='/usr/bin:/bin')


def _owned(package: str) -> str:
    """The upstream version of an installed package of the distribution; '' if it is not installed."""
    said = _says('dpkg-query', '-W', '-f', '${db:Status-Status} ${Version}', package) \
        if shutil.which('dpkg-query') else ''
    found = re.match(r'installed (?:\d+:)?([\d.]+)', said)
    return found[1].rstrip('.') if found else ''
