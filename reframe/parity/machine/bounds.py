"""Physical bounds of the machine, each with its source, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from parity.base.errors import UsageError
from parity.base.limits import UNITS, Limit
from parity.machine.flops import flops_per_cycle
from parity.machine.model import Machine

#: Overrides that are no bounds themselves but what a peak is computed from.
_CLOCK_UNITS = {'Hz': 1.0, 'MHz': 1e6, 'GHz': 1e9}
_PARTS = ('clock', 'flops_per_cycle')
#: A reference clock is true to a fraction of a percent: so far may a measured rate exceed a peak.
_CLOCK_TOLERANCE = 0.01


class Bounds(NamedTuple):
    """Bounds by name, and why others are absent."""

    limits: dict[str, Limit]
    notes: list[str]


def limits(machine: Machine, overrides: Mapping[str, Any] | None = None,
           measured_fma_gflops_core: float | None = None) -> dict[str, Limit]:
    """``bounds`` without the notes."""
    return bounds(machine, overrides, measured_fma_gflops_core).limits


def bounds(machine: Machine, overrides: Mapping[str, Any] | None = None,
           measured_fma_gflops_core: float | None = None) -> Bounds:
    """peak_flops (all usable cores), peak_flops_core in Gflop/s, memory_bandwidth in GB/s.

    ``overrides`` is ``limits:`` of system.yaml, name -> {value, unit, source}; it wins and is
    certain, as the operator states it. Beyond bounds it may give ``clock`` and
    ``flops_per_cycle``. A malformed one raises UsageError. ``measured_fma_gflops_core`` is the rate
    of one core in a multiply-add loop: a peak below it is void.
    """
    stated = {name: _stated(name, entry) for name, entry in (overrides or {}).items()}
    found, notes = _peaks(machine, stated)
    if machine.memory_channels:
        m = machine.memory_channels
        found['memory_bandwidth'] = Limit(
            value=m.channels * m.transfers_per_s * m.bytes_per_transfer / 1e9, unit='GB/s',
            source=m.source, certain=True)
    found |= {name: limit for name, limit in stated.items() if name not in _PARTS}
    if measured_fma_gflops_core is not None:
        notes += _void(found, measured_fma_gflops_core)
    return Bounds(found, notes)


def _peaks(machine: Machine, stated: dict[str, Limit]) -> tuple[dict[str, Limit], list[str]]:
    clock, flops = stated.get('clock'), stated.get('flops_per_cycle')
    if clock is None and machine.clock:
        clock = Limit(value=machine.clock.hz, unit='Hz', source=machine.clock.source, certain=True)
    if flops is None:
        row = flops_per_cycle(machine.microarchitecture, machine.vendor, machine.family, machine.simd,
                              physical=machine.kind == 'physical')
        flops = row and Limit(value=row.value, unit='flop/cycle', source=row.source, certain=row.certain)
    missing = [name for name, value in (('maximum clock', clock), ('flop per cycle', flops)) if value is None]
    if clock is None or flops is None:
        return {}, [f'no peak_flops: {" and ".join(missing)} unknown']
    core = clock.value * _CLOCK_UNITS[clock.unit] * flops.value / 1e9
    source = f'{clock.value * _CLOCK_UNITS[clock.unit] / 1e9:.4g} GHz ({clock.source}) x ' \
             f'{flops.value:g} flop/cycle ({flops.source})'
    certain, cores = clock.certain and flops.certain, _cores(machine)
    return {
        'peak_flops_core': Limit(value=core, unit='Gflop/s', source=source, certain=certain),
        'peak_flops': Limit(value=core * cores, unit='Gflop/s', source=f'{cores} cores x {source}',
                            certain=certain),
    }, []


def _cores(machine: Machine) -> int:
    """The most cores that can work at once. A guest's threads may be cores of the host, whatever
    topology it is shown; a quota of 2.5 cpus may be used on three of them."""
    cores = len(machine.core_sets if machine.kind == 'physical' else machine.cpu_list)
    return cores if machine.cpu_quota is None else min(cores, max(1, math.ceil(machine.cpu_quota)))


def _void(found: dict[str, Limit], measured: float) -> list[str]:
    """Remove peaks that a measurement refutes: a clock or a table is wrong, we cannot know which."""
    peaks = [found[name] for name in ('peak_flops_core', 'peak_flops') if name in found]
    refuted = [peak for peak in peaks if measured > peak.value * (1 + _CLOCK_TOLERANCE)]
    if not refuted:
        return []
    for name in ('peak_flops_core', 'peak_flops'):
        found.pop(name, None)
    return [f'no peak_flops: {refuted[0].value:.4g} Gflop/s ({refuted[0].source}) is below the '
            f'measured {measured:.4g} Gflop/s of one core']


def _stated(name: str, entry: Any) -> Limit:
    """One entry of ``limits:`` in system.yaml."""
    allowed = UNITS.get(name)
    try:
        limit = Limit(**{'certain': True, **entry})
    except (TypeError, ValueError) as error:
        raise UsageError(f'limits: {name}: give value, unit and source: {error}') from error
    if not limit.source.strip():
        raise UsageError(f'limits: {name}: a number without a source is not a limit')
    if allowed and limit.unit not in allowed:
        raise UsageError(f'limits: {name}: unit {limit.unit!r} is not one of {", ".join(allowed)}')
    return limit
