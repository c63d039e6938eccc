"""A system's GPU codes: systems/<name>/spack/gpu.yaml, and the view of their own that they get."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from parity.base import codes, paths, yamlfile
from parity.base.errors import UsageError
from parity.base.strict import Strict

#: The variant that makes a build one for GPUs, and the one that names their architecture.
_ARCHITECTURE = {'cuda': 'cuda_arch', 'rocm': 'amdgpu_target'}
#: In the default view are all builds but those for GPUs, so that a CPU check cannot pick one.
_BUILDS = [f'+{variant}' for variant in _ARCHITECTURE]
#: What a loaded driver makes: NVIDIA's, AMD's.
_DRIVERS = ('/dev/nvidiactl', '/dev/kfd')


def packages() -> list[str]:
    """The packages whose GPU binaries parity knows, and so can miss."""
    return [code.spack_package for code in codes.every() if code.gpu]


def _spec(text: str) -> str:
    code, known = re.match(r'[\w-]*', text)[0], packages()
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


def file_of(system: str) -> Path:
    return paths.root() / 'systems' / system / 'spack' / 'gpu.yaml'


def specs(system: str) -> list[str]:
    """The system's GPU specs; none where it has no gpu.yaml. UsageError for a wrong one."""
    file = file_of(system)
    return yamlfile.read(file, Gpu).specs if file.exists() else []


def add(manifest: dict[str, Any], wanted: list[str]) -> None:
    """Add GPU specs and their view; a spec without ~cuda ~rocm would get the build for GPUs, too."""
    view = manifest['view']['default']
    manifest['specs'] = [*(f'{spec} ~cuda ~rocm' if spec.split('@')[0] in packages() else spec
                           for spec in manifest['specs']), *wanted]
    manifest['concretizer'] = {**manifest.get('concretizer', {}), 'unify': 'when_possible'}
    manifest['view'] = {'default': {**view, 'exclude': _BUILDS},
                        'gpu': {**view, 'root': f'{view["root"]}-gpu', 'select': _BUILDS}}


def is_build(parameters: dict[str, Any]) -> bool:
    """Return whether a concrete spec's variants make it a build for GPUs."""
    return any(parameters.get(variant) for variant in _ARCHITECTURE)


def driver() -> bool:
    """Return whether a GPU's driver is loaded here: without one no GPU binary starts."""
    return any(os.path.exists(device) for device in _DRIVERS)


def _packages(file: Path) -> dict[str, Any]:
    data, _ = yamlfile.load(file)
    return (data.get('packages') if isinstance(data, dict) else None) or {}


def toolkit(system: str) -> str:
    """The nvcc to build with, '' for none. UsageError where none is here or stated: Spack would fetch 4 GB."""
    asked = [spec for spec in specs(system) if '+cuda' in spec]
    stated = file_of(system).with_name('packages.yaml')
    if not asked or (stated.exists() and 'cuda' in _packages(stated)):
        return ''
    if found := shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc'):
        return found
    raise UsageError(f'{file_of(system)}: {asked[0]!r} needs CUDA, and no nvcc is on PATH or in /usr/local/cuda: '
                     f'install the CUDA toolkit, or state where it is, as an external, in {stated}')
