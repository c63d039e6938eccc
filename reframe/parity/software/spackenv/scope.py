"""A system's part of the environment: the distribution's packages as externals, and the codes of gpu.yaml."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field

from parity.base import codes, files, paths, yamlfile
from parity.base.errors import UsageError
from parity.base.strict import Strict

#: The programs that a build needs, and Debian's package that brings each.
NEEDED = {'gcc': 'gcc', 'g++': 'g++', 'gfortran': 'gfortran', 'mpicc': 'libopenmpi-dev', 'mpirun': 'openmpi-bin',
          'make': 'make', 'autoconf': 'autoconf', 'automake': 'automake', 'libtoolize': 'libtool', 'm4': 'm4',
          'patch': 'patch', 'pkgconf': 'pkgconf', 'file': 'file', 'perl': 'perl', 'cmake': 'cmake',
          'python3': 'python3'}
#: Libraries and macros, which are no programs: Spack's name, Debian's package that brings it.
_LIBRARIES = {'openblas': 'libopenblas-dev', 'zlib': 'zlib1g-dev', 'libunwind': 'libunwind-dev',
              'autoconf-archive': 'autoconf-archive'}
#: Tools whose version is the first number that `--version` prints: Spack's name, program.
_TOOLS = {'autoconf': 'autoconf', 'automake': 'automake', 'libtool': 'libtoolize', 'm4': 'm4',
          'gmake': 'make', 'perl': 'perl', 'pkgconf': 'pkgconf', 'cmake': 'cmake'}
#: Recipes ask for some packages by a name that others provide.
_PROVIDERS = {'mpi': 'openmpi', 'blas': 'openblas', 'lapack': 'openblas', 'zlib-api': 'zlib',
              'unwind': 'libunwind'}


def folder(system: str) -> Path:
    """Return the folder of a system's own files for Spack, which is a configuration scope."""
    return paths.root() / 'systems' / system / 'spack'


def write_externals(scope: Path, nvcc: str = '') -> Path:
    """Write packages.yaml into the scope (``nvcc``: CUDA's, if needed). UsageError names packages to install."""
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
    # /usr is not the prefix of every python3: a virtual environment's own stands first on PATH
    versions = {'openmpi': _version('mpirun'), 'python': _version('/usr/bin/python3'),
                **{package: _version(program) for package, program in _TOOLS.items()}, **libraries}
    return {**{language: {'require': ['gcc']} for language in compilers},
            'gcc': _external(f"gcc@{gcc} languages:='c,c++,fortran'", extra_attributes={'compilers': compilers}),
            **{package: _external(f'{package}@{version}') for package, version in versions.items()},
            **{virtual: {'require': [provider]} for virtual, provider in _PROVIDERS.items()}}


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
    """Return the distribution's own program: another one on PATH is not in /usr, the external's prefix."""
    return shutil.which(program, path='/usr/bin:/bin')


def _owned(package: str) -> str:
    """Return the upstream version of an installed package of the distribution; '' if it is not installed."""
    said = _says('dpkg-query', '-W', '-f', '${db:Status-Status} ${Version}', package) \
        if shutil.which('dpkg-query') else ''
    found = re.match(r'installed (?:\d+:)?([\d.]+)', said)
    return found[1].rstrip('.') if found else ''


#: The variant that makes a build one for GPUs, and the one that names their architecture.
_ARCHITECTURE = {'cuda': 'cuda_arch', 'rocm': 'amdgpu_target'}
#: The default view is without the builds for GPUs, so that a CPU check cannot pick one.
_BUILDS = [f'+{variant}' for variant in _ARCHITECTURE]


def gpu_packages() -> list[str]:
    """Return the packages whose GPU binaries parity knows, and so can miss."""
    return [code.spack_package for code in codes.every() if code.gpu]


def _spec(text: str) -> str:
    code, known = re.match(r'[\w-]*', text)[0], gpu_packages()
    if code not in known:
        raise ValueError(f'{text!r}: no GPU binaries are known of {code!r}; valid: {", ".join(known)}')
    if not re.match(r'[\w-]+@[\w.=]', text):
        raise ValueError(f'{text!r}: must name its version, as {code}@...')
    variants = [v for v in _ARCHITECTURE if re.search(rf'\+{v}\b', text)]
    if len(variants) != 1:
        raise ValueError(f'{text!r}: must be a build for GPUs; valid: +cuda or +rocm')
    if f' {_ARCHITECTURE[variants[0]]}=' not in text:
        raise ValueError(f'{text!r}: must name the architecture: {_ARCHITECTURE[variants[0]]}=...')
    return text


class Gpu(Strict):
    """gpu.yaml."""

    specs: list[Annotated[str, AfterValidator(_spec)]] = Field(min_length=1)


def gpu_specs(system: str) -> list[str]:
    """Return the system's GPU specs; none where it has no gpu.yaml. Raise UsageError for a wrong one."""
    file = folder(system) / 'gpu.yaml'
    return yamlfile.read(file, Gpu).specs if file.exists() else []


def add_gpu(manifest: dict[str, Any], wanted: list[str]) -> None:
    """Add GPU specs and their view. The other specs forbid GPUs: Spack would unify them with the GPU builds."""
    view = manifest['view']['default']
    manifest['specs'] = [*(f'{spec} ~cuda ~rocm' if spec.split('@')[0] in gpu_packages() else spec
                           for spec in manifest['specs']), *wanted]
    manifest['concretizer'] = {**manifest.get('concretizer', {}), 'unify': 'when_possible'}
    manifest['view'] = {'default': {**view, 'exclude': _BUILDS},
                        'gpu': {**view, 'root': f'{view["root"]}-gpu', 'select': _BUILDS}}


def is_gpu_build(parameters: dict[str, Any]) -> bool:
    """Return True if a concrete spec's variants make it a build for GPUs."""
    return any(parameters.get(variant) for variant in _ARCHITECTURE)


def gpu_driver() -> bool:
    """Return True if NVIDIA's or AMD's driver is loaded here: without one no GPU binary starts."""
    return any(map(os.path.exists, ('/dev/nvidiactl', '/dev/kfd')))


def nvcc(system: str) -> str:
    """Return the nvcc to build with, '' for none. UsageError where none is here: Spack would fetch 4 GB."""
    asked = [spec for spec in gpu_specs(system) if '+cuda' in spec]
    stated = folder(system) / 'packages.yaml'
    data = yamlfile.load(stated)[0] if asked and stated.exists() else None
    if not asked or (isinstance(data, dict) and 'cuda' in (data.get('packages') or {})):
        return ''
    if found := shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc'):
        return found
    raise UsageError(f'{folder(system) / "gpu.yaml"}: {asked[0]!r} needs CUDA, and no nvcc is on PATH or in '
                     '/usr/local/cuda: install the CUDA toolkit, or state where it is, as an external, in '
                     f'{stated}')
