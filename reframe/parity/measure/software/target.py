"""The processors that a build is for, by the names of archspec, which Spack and ReFrame use, too."""

from __future__ import annotations

import platform
from collections.abc import Collection

from archspec import cpu
from archspec.cpu.schema import TARGETS_JSON

from parity.base import errors
from parity.base.errors import UsageError

#: Features that no compiler uses unless a program asks for them. A hypervisor may hide some.
_NEVER_NEEDED = frozenset(('cldemote', 'clzero', 'flush_l1d', 'movdir64b', 'movdiri', 'pku', 'rdrand', 'rdseed',
                           'serialize', 'sse4a', 'waitpkg'))


def demand(name: str, where: str) -> None:
    """Raise UsageError, with ``where`` it is stated, for a processor that archspec does not know."""
    if name not in cpu.TARGETS:
        raise UsageError(f'{where}: {errors.unknown("target", name, sorted(cpu.TARGETS))}')


def features(name: str) -> list[str]:
    """Return what /proc/cpuinfo must list where a program for this processor runs; [] for an unknown one."""
    if name not in cpu.TARGETS:
        return []
    target = cpu.TARGETS[name]
    shown = {feature for feature in target.features if _is_shown(feature, target.family.name)}
    return sorted(shown - _NEVER_NEEDED)


def _is_shown(feature: str, family: str) -> bool:
    """Return whether Linux lists a feature by this name: archspec's aliases it lists by another, or not at all."""
    alias = TARGETS_JSON['feature_aliases'].get(feature)
    if alias is None:
        return True
    return 'any_of' not in alias and family not in alias.get('families', ())


def refusal(name: str, flags: Collection[str]) -> str:
    """Return why a processor with these ``flags`` runs no program for the target ``name``; '' where it does."""
    if not flags or name not in cpu.TARGETS:
        return ''
    here = platform.machine()
    if cpu.TARGETS[name].family.name != here:
        return f'built for {name}, this machine is {here}'
    lacking = [feature for feature in features(name) if feature not in flags]
    return f'built for {name}, this processor lacks {" ".join(lacking[:4])}' if lacking else ''


def here() -> str:
    """Return the processor of this machine."""
    return cpu.host().name
