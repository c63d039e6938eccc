"""What Spack has built for a system: the environment that its manifest makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.software import blas
from parity.software.model import Environ
from parity.software.programs import root_variables
from parity.spackenv import manifest

#: Feature that a package's binaries make.
_FEATURES = {'npb': 'npb', 'hpl': 'hpl', 'stream': 'stream', 'ior': 'ior', 'osu-micro-benchmarks': 'osu'}


def environ(built: manifest.Manifest, env: Mapping[str, str], flags: frozenset[str]) -> tuple[Environ, list[str]]:
    """The environment `spack` and notes on it; a package with a changed binary is not offered."""
    stale = set(manifest.changed(built))
    whole = {name: p for name, p in built.packages.items() if not stale & set(p.binaries)}
    notes = [f'spack: {", ".join(sorted(stale))}: not what was built: not offered (parity software build)'] \
        if stale else []
    math, env_vars = _math(Path(built.view, 'xhpl'), env, flags, notes) if 'hpl' in whole else ({}, {})
    facts: dict[str, Any] = {'view': built.view, 'packages': {name: _identity(p) for name, p in whole.items()}}
    if math:
        facts['blas'] = math
    return Environ(name='spack', provider='spack', env_vars={**root_variables(), **env_vars}, software=facts,
                   features=[_FEATURES[name] for name in whole if name in _FEATURES]), notes


def _identity(package: manifest.Package) -> dict[str, str]:
    return {key: getattr(package, key) for key in ('spec', 'hash', 'compiler', 'mpi', 'blas', 'target')}


def _math(program: Path, env: Mapping[str, str], flags: frozenset[str],
          notes: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The BLAS that HPL loads, and the kernels to name where it does not know the processor."""
    found = blas.library(blas.loaded(os.path.realpath(program), env))
    if not found or found[0] != 'OpenBLAS':
        return ({'name': found[0], 'library': found[1]} if found else {}), {}
    choice = blas.choose(found[1], flags, env)
    if choice.note:
        notes.append(f'spack: {choice.note}')
    env_vars = {'OPENBLAS_NUM_THREADS': '1'} | ({'OPENBLAS_CORETYPE': choice.coretype} if choice.coretype else {})
    return {'name': found[0], 'version': choice.version, 'library': found[1], 'core': choice.used}, env_vars
