"""Physical bounds of the machine, each with its source, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from parity.base.errors import UsageError
from parity.base.strict import UNITS, Limit
from parity.machine.model import Machine

#: Overrides that are no bounds themselves but what a peak is computed from.
_CLOCK_UNITS = {'Hz': 1.0, 'MHz': 1e6, 'GHz': 1e9}
_PARTS = ('clock', 'flops_per_cycle')


def limits(machine: Machine, overrides: Mapping[str, Any] | None = None) -> dict[str, Limit]:
    """``bounds`` without the notes."""
    return bounds(machine, overrides)[0]


def bounds(machine: Machine,
           overrides: Mapping[str, Any] | None = None) -> tuple[dict[str, Limit], list[str]]:
    """The bounds, and why others are absent. ``overrides`` is ``limits:`` of system.yaml, with ``clock`` and
    ``flops_per_cycle`` beside the bounds; it wins and is certain. UsageError for a malformed one."""
    stated = {name: _stated(name, entry) for name, entry in (overrides or {}).items()}
    found, notes = _peaks(machine, stated)
    if m := machine.memory_channels:
        found['memory_bandwidth'] = Limit(value=m.channels * m.transfers_per_s * m.bytes_per_transfer / 1e9,
                                          unit='GB/s', source=m.source, certain=True)
    return found | {name: limit for name, limit in stated.items() if name not in _PARTS}, notes


def _peaks(machine: Machine, stated: dict[str, Limit]) -> tuple[dict[str, Limit], list[str]]:
    clock, flops = stated.get('clock'), stated.get('flops_per_cycle')
    if clock is None and machine.clock:
        clock = Limit(value=machine.clock.hz, unit='Hz', source=machine.clock.source, certain=True)
    if flops is None:
        row = flops_per_cycle(machine.microarchitecture, machine.vendor, machine.family, machine.simd,
                              physical=machine.kind == 'physical')
        flops = row and Limit(value=row.value, unit='flop/cycle', source=row.source, certain=row.certain)
    missing = [name for name, value in (('maximum clock', clock), ('flop per cycle', flops)) if value is None]
    if missing:
        return {}, [f'no peak_flops: {" and ".join(missing)} unknown']
    hz, cores = clock.value * _CLOCK_UNITS[clock.unit], _cores(machine)
    core = Limit(value=hz * flops.value / 1e9, unit='Gflop/s', certain=clock.certain and flops.certain,
                 source=f'{hz / 1e9:.4g} GHz ({clock.source}) x {flops.value:g} flop/cycle ({flops.source})')
    whole = {'value': core.value * cores, 'source': f'{cores} cores x {core.source}'}
    return {'peak_flops_core': core, 'peak_flops': core.model_copy(update=whole)}, []


def _cores(machine: Machine) -> int:
    """The most cores that can work at once: a guest's threads may be cores; a quota of 2.5 is three cores."""
    cores = len(machine.core_sets if machine.kind == 'physical' else machine.cpu_list)
    return cores if machine.cpu_quota is None else min(cores, max(1, math.ceil(machine.cpu_quota)))


def _stated(name: str, entry: Any) -> Limit:
    """One entry of ``limits:`` in system.yaml."""
    try:
        limit = Limit(**{'certain': True, **entry})
    except (TypeError, ValueError) as error:
        raise UsageError(f'limits: {name}: give value, unit and source: {error}') from error
    if not limit.source.strip():
        raise UsageError(f'limits: {name}: a number without a source is not a limit')
    if limit.unit not in (allowed := UNITS.get(name, (limit.unit,))):
        raise UsageError(f'limits: {name}: unit {limit.unit!r} is not one of {", ".join(allowed)}')
    return limit


class Flops(NamedTuple):
    """flop / cycle / core and the source."""

    value: int
    source: str
    certain: bool = True
    family: str | None = None       # CPU family that proves the name (archspec goes by flags only)


_INTEL = 'Intel 64 and IA-32 Optimization Reference Manual (248966)'
_ARM = 'Arm Software Optimization Guide'

#: By archspec's name: the most that any processor of that name does (some Xeons have one AVX-512
#: FMA unit, some laptops narrower pipes). What is not here has no bound.
TABLE: dict[str, Flops] = {
    'nehalem': Flops(4, f'{_INTEL}: 128-bit add and multiply'),
    'westmere': Flops(4, f'{_INTEL}: 128-bit add and multiply'),
    'sandybridge': Flops(8, f'{_INTEL}: 256-bit add and multiply'),
    'ivybridge': Flops(8, f'{_INTEL}: 256-bit add and multiply'),
    'haswell': Flops(16, f'{_INTEL}: 2 FMA x 256 bit'),
    'broadwell': Flops(16, f'{_INTEL}: 2 FMA x 256 bit'),
    'skylake': Flops(16, f'{_INTEL}: 2 FMA x 256 bit'),
    'mic_knl': Flops(32, f'{_INTEL}: 2 VPU x 512 bit'),
    'skylake_avx512': Flops(32, f'{_INTEL}: 2 FMA x 512 bit, ports 0+1 and 5'),
    'cascadelake': Flops(32, f'{_INTEL}: as Skylake server'),
    'icelake': Flops(32, f'{_INTEL}: as Skylake server'),
    'sapphirerapids': Flops(32, f'{_INTEL}: 2 FMA x 512 bit; AMX has no double precision'),
    'alderlake': Flops(16, f'{_INTEL}: 2 FMA x 256 bit (P cores)'),
    'zen': Flops(8, 'AMD Family 17h Optimization Guide (55723): 2 FMA x 128 bit', family='23'),
    'zen2': Flops(16, 'AMD Family 17h Models 30h+ Optimization Guide (56305): 2 FMA x 256 bit', family='23'),
    'zen3': Flops(16, 'AMD Family 19h Optimization Guide (56665): 2 FMA x 256 bit', family='25'),
    'zen4': Flops(16, 'AMD Zen4 Optimization Guide (57647): 2 FMA x 256 bit, 512 in two passes', family='25'),
    'zen5': Flops(32, 'AMD Zen5 Optimization Guide (58455): 2 FMA x 512 bit', family='26'),
    'a64fx': Flops(32, 'Fujitsu A64FX Microarchitecture Manual: 2 SVE FMA x 512 bit'),
    'thunderx2': Flops(8, 'WikiChip, Vulcan: 2 FMA x 128 bit'),
    'neoverse_n1': Flops(8, f'{_ARM}, Neoverse N1: 2 FMA x 128 bit'),
    'neoverse_n2': Flops(8, f'{_ARM}, Neoverse N2: 2 FMA x 128 bit'),
    'neoverse_v1': Flops(16, f'{_ARM}, Neoverse V1: 2 SVE x 256 bit or 4 NEON x 128 bit'),
    'neoverse_v2': Flops(16, f'{_ARM}, Neoverse V2: 4 x 128 bit'),
    # twice that on a fused SMT8 core, which looks the same once threads are switched off
    'power9le': Flops(8, 'IBM POWER9 Processor User Manual: 2 FMA x 128 bit, SMT4 core', certain=False),
}

#: By flags: the most that any processor of these vendors does that shows them. It holds where the name does not:
#: a hypervisor may mask flags and show an older model, but vectors whose flag is masked cannot be used.
_VENDORS, _BY_FLAGS = ('GenuineIntel', 'AuthenticAMD'), {'avx512f': 32, 'fma': 16}


def flops_per_cycle(microarchitecture: str | None, vendor: str | None, family: str | None,
                    simd: tuple[str, ...], physical: bool) -> Flops | None:
    """The bound for a core, or None where no source gives one."""
    row = TABLE.get(microarchitecture or '')
    if physical and row and row.family in (None, family):
        return row
    for flag, value in _BY_FLAGS.items():
        if vendor in _VENDORS and flag in simd:
            return Flops(value, f'the most that any {vendor} processor with {flag} does')
    return None
