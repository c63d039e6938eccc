"""What Spack has built for a system: the environment that its manifest makes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parity.software import blas
from parity.software.model import Environ
from parity.software.programs import root_variables
from parity.software.spackenv import manifest

#: Features that a package's binaries make, where they are not called as the package.
_FEATURES = {'ior': ('ior', 'mdtest'), 'osu-micro-benchmarks': ('osu',), 'intel-mpi-benchmarks': ('imb',)}


#: Of the GPU view: a check for CPUs must never find its code there.
_GPU_FEATURES = {'babelstream': ('babelstream-gpu',), 'osu-micro-benchmarks': ('osu-gpu',)}


def environ(built: manifest.View, env: Mapping[str, str], flags: frozenset[str],
            name: str = 'spack', newer: str = '') -> tuple[Environ, list[str]]:
    """A view's environment and notes on it; a package with a changed binary is not offered. ``newer`` is what to
    say of a newer build that has not succeeded."""
    stale = set(manifest.changed(built))
    whole = {package: p for package, p in built.packages.items() if not stale & set(p.binaries)}
    notes = [f'{name}: {", ".join(sorted(stale))}: not what was built: not offered (parity software build)'] \
        if stale else []
    notes += [f'{name}: {newer}'] if newer else []
    math, env_vars = _math(Path(built.view, 'xhpl'), env, flags, notes) if 'hpl' in whole else ({}, {})
    identities = {package: _identity(p) for package, p in whole.items()}
    facts: dict[str, Any] = {'view': built.view, 'tools': built.tools, 'packages': identities}
    if newer:
        facts['newer_build'] = newer
    if math:
        facts['blas'] = math
    offered = {package: _offered(name, package) for package in whole}
    return Environ(name=name, provider='spack', env_vars={**root_variables(), **env_vars}, software=facts,
                   features=[name for features in offered.values() for name in features],
                   parts={name: [package] for package, features in offered.items() for name in features}), notes


def _offered(name: str, package: str) -> tuple[str, ...]:
    return _FEATURES.get(package, (package,)) if name == 'spack' else _GPU_FEATURES.get(package, ())


def package_of(feature: str, name: str = 'spack') -> str:
    """The package whose binaries offer the feature in the environment ``name``; the feature itself if unknown."""
    known = _FEATURES if name == 'spack' else _GPU_FEATURES
    return next((package for package, features in known.items() if feature in features), feature)


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
