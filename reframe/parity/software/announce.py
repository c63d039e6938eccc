"""One line that says what software there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parity.software.model import Environ, SpackFound


def announcement(environs: Sequence[Environ], spack: SpackFound | None) -> str:
    """``software: distro (hpcc 1.5.0-3, Open MPI 4.1.4, OpenBLAS 0.3.21 as SkylakeX); no spack``."""
    parts = [f'{environ.name} ({_contents(environ.software)})' + _newer(environ.software) for environ in environs]
    if not any(environ.provider == 'spack' for environ in environs):
        parts.append(_no_build(spack))
    return 'software: ' + '; '.join(parts)


def _newer(software: dict[str, Any]) -> str:
    return f', {software["newer_build"]}' if software.get('newer_build') else ''


def _no_build(spack: SpackFound | None) -> str:
    return f'spack {spack.version} at {_home(spack.path)}: nothing built yet' if spack else 'no spack'


def _contents(software: dict[str, Any]) -> str:
    programs, mpi, blas = (software.get(key, {}) for key in ('programs', 'mpi', 'blas'))
    names = [f'{p["spec"]} /{p["hash"][:7]}' for p in software.get('packages', {}).values()]
    if 'hpcc' in programs:
        names.append(f'hpcc {programs["hpcc"]["package_version"] or programs["hpcc"]["version"] or "?"}')
    if mpi:
        names.append(f'{mpi["name"]} {mpi["version"] or "?"}')
    if blas:
        core = f'as {blas["core"]}' if blas.get('core') else None
        names.append(' '.join(filter(None, [blas['name'], blas['version'], core])))
    names += [f'{name} {programs[name]["version"] or "?"}' for name in ('iperf3', 'fio', 'cc') if name in programs]
    if not names and 'python3' in programs:
        names.append(f'only python {programs["python3"]["version"]}')
    return ', '.join(names) or 'nothing'


def _home(path: str) -> str:
    return path.removesuffix('/bin/spack')
