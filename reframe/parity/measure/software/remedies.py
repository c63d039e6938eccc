"""Commands that bring the codes which have no program on a machine."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping

from parity.base import codes, paths
from parity.measure.software import environment, programs
from parity.measure.software.spack import VARIABLE
from parity.site.systems import System

#: ci/quickstart sets this variable when it has just tried to install what lacks: no use to try it again.
TRIED = 'PARITY_QUICKSTART'
#: ci/quickstart makes this file in .venv when the host of Spack does not answer. It holds for a day.
_REFUSED, _REFUSED_SECONDS = 'parity-no-spack', 86400
WITHOUT_ROOT = 'without root: docs/without-root.md'
MEND = 'mend or replace it: software, above, says why'
AS_ROOT = f'as root: ci/quickstart; {WITHOUT_ROOT}'


def for_codes(system: System, absent: Mapping[str, str], lacking: Iterable[str]) -> dict[str, list[str]]:
    """Return what brings each of the ``lacking`` codes (features): remedy -> codes.

    ``absent``: the codes that lack a program of the distribution, with the reason."""
    by_spack = codes.of_spack()
    building = ''       # to find it starts compilers and the package manager
    remedies: dict[str, list[str]] = {}
    for code in lacking:
        if code in by_spack and code not in absent:
            building = building or spack(system)
            remedy = building
        elif system.detect and absent.get(code, '').endswith(programs.NO_START):
            remedy = MEND
        elif system.detect:
            remedy = AS_ROOT
        else:
            remedy = f'add an environment with modules that bring them to systems/{system.name}/system.yaml'
        remedies.setdefault(remedy, []).append(code)
    return remedies


def spack(system: System) -> str:
    """Return what brings the codes that Spack builds."""
    build = f'parity software build --system {system.name}' if can_build(system) else AS_ROOT
    return f'{build}; {codes.without_github(system.name)}'


def can_build(system: System) -> bool:
    """Return whether all is here that Spack takes from this machine's distribution."""
    return not system.detect or not environment.missing(system.builds)


def next_step(system: System, absent: Collection[str], lacking: Collection[str], here: Collection[str]) -> str:
    """Return the one command that brings most of the ``lacking`` codes (features); '' where none lacks.

    ``absent``: the codes that lack a program of the distribution. ``here``: the programs that start.
    A command that ci/quickstart has just tried is not named, nor one that needs a host that does not answer."""
    if not lacking:
        return ''
    if not system.detect:
        return f'parity software build --system {system.name} (or modules: docs/software.md)'
    is_tried = TRIED in os.environ
    is_root = os.geteuid() == 0
    of_distribution = [code for code in lacking if code in absent]
    packages = _packages(of_distribution, here)
    if packages:
        return 'ci/quickstart (installs what lacks as root)' if is_root and not is_tried else _install(packages)
    look = f'parity doctor --system {system.name} (says why each code lacks)'
    if len(of_distribution) == len(lacking):
        return look
    is_buildable = can_build(system)
    # with a bundle ci/quickstart installs as root what the builds need
    if _spack_is_out_of_reach() and VARIABLE not in os.environ and (is_buildable or is_root):
        return codes.without_github(system.name)
    if is_buildable:
        return look if is_tried else f'parity software build --system {system.name}'
    return _install(environment.missing(system.builds)) if is_tried and is_root else AS_ROOT


def _install(packages: Iterable[str]) -> str:
    return f'as root: apt-get install {" ".join(packages)}; {WITHOUT_ROOT}'


def _packages(lacking: Collection[str], here: Collection[str]) -> list[str]:
    """Return Debian's packages of the programs that the codes (features) need and that are not ``here``, but for
    those that are installed: they bring none."""
    needs = programs.features()
    known = programs.programs()
    packages: dict[str, None] = {}
    for feature in lacking:
        for program in needs[feature]:
            if program in known and program not in here:
                packages |= dict.fromkeys(known[program].package.split())
    return [package for package in packages if not environment.owned(package)]


def _spack_is_out_of_reach() -> bool:
    """Return whether the host of Spack did not answer ci/quickstart within the last day."""
    try:
        asked = (paths.root() / '.venv' / _REFUSED).stat().st_mtime
    except OSError:
        return False
    return time.time() - asked < _REFUSED_SECONDS
