"""Physical bounds of the machine, each with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from parity.base.strict import Limit
from parity.machine.model import Machine

_HZ = {'Hz': 1.0, 'MHz': 1e6, 'GHz': 1e9}
#: Statements of the operator that are no bounds, but that a peak is computed from.
_PARTS = ('clock', 'flops_per_cycle')


def bounds(machine: Machine, limits: Mapping[str, Any]) -> tuple[dict[str, Limit], list[str]]:
    """Return the bounds, and why others are absent. ``limits`` of system.yaml win over what was detected."""
    stated = {name: Limit(**entry) for name, entry in limits.items()}
    found, notes = _peaks(machine, stated)
    if m := machine.memory_channels:
        found['memory_bandwidth'] = Limit(value=m.channels * m.transfers_per_s * m.bytes_per_transfer / 1e9,
                                          unit='GB/s', source=m.source, certain=True)
    return found | {name: limit for name, limit in stated.items() if name not in _PARTS}, notes


def _peaks(machine: Machine, stated: dict[str, Limit]) -> tuple[dict[str, Limit], list[str]]:
    clock, flops = stated.get('clock'), stated.get('flops_per_cycle') or _flops_per_cycle(machine)
    if clock is None and machine.clock:
        clock = Limit(value=machine.clock.hz, unit='Hz', source=machine.clock.source, certain=True)
    missing = [name for name, value in (('maximum clock', clock), ('flop per cycle', flops)) if value is None]
    if missing:
        return {}, [f'no peak_flops: {" and ".join(missing)} unknown']
    # the most cores that can work at once: a guest's threads may be cores; a quota of 2.5 is three cores
    cores = len(machine.core_sets if machine.kind == 'physical' else machine.cpu_list)
    if machine.cpu_quota is not None:
        cores = min(cores, max(1, math.ceil(machine.cpu_quota)))
    hz = clock.value * _HZ[clock.unit]
    core = Limit(value=hz * flops.value / 1e9, unit='Gflop/s', certain=clock.certain and flops.certain,
                 source=f'{hz / 1e9:.4g} GHz ({clock.source}) x {flops.value:g} flop/cycle ({flops.source})')
    whole = {'value': core.value * cores, 'source': f'{cores} cores x {core.source}'}
    return {'peak_flops_core': core, 'peak_flops': core.model_copy(update=whole)}, []


class Flops(NamedTuple):
    """Double-precision operations per cycle and core, and the source."""

    value: int
    source: str
    family: str | None = None       # CPU family that proves the name (archspec goes by flags only)
    certain: bool = True


_INTEL = 'Intel 64 and IA-32 Optimization Reference Manual (248966)'
_ARM = 'Arm Software Optimization Guide'

#: By archspec's names: the most that any processor of that name does (some Xeons have one AVX-512
#: FMA unit, some laptops narrower pipes). Other processors have no bound.
_ROWS = {
    'nehalem westmere': Flops(4, f'{_INTEL}: 128-bit add and multiply'),
    'sandybridge ivybridge': Flops(8, f'{_INTEL}: 256-bit add and multiply'),
    'haswell broadwell skylake': Flops(16, f'{_INTEL}: 2 FMA x 256 bit'),
    'mic_knl': Flops(32, f'{_INTEL}: 2 VPU x 512 bit'),
    'skylake_avx512': Flops(32, f'{_INTEL}: 2 FMA x 512 bit, ports 0+1 and 5'),
    'cascadelake icelake': Flops(32, f'{_INTEL}: as Skylake server'),
    'sapphirerapids': Flops(32, f'{_INTEL}: 2 FMA x 512 bit; AMX has no double precision'),
    'alderlake': Flops(16, f'{_INTEL}: 2 FMA x 256 bit (P cores)'),
    'zen': Flops(8, 'AMD Family 17h Optimization Guide (55723): 2 FMA x 128 bit', '23'),
    'zen2': Flops(16, 'AMD Family 17h Models 30h+ Optimization Guide (56305): 2 FMA x 256 bit', '23'),
    'zen3': Flops(16, 'AMD Family 19h Optimization Guide (56665): 2 FMA x 256 bit', '25'),
    'zen4': Flops(16, 'AMD Zen4 Optimization Guide (57647): 2 FMA x 256 bit, 512 in two passes', '25'),
    'zen5': Flops(32, 'AMD Zen5 Optimization Guide (58455): 2 FMA x 512 bit', '26'),
    'a64fx': Flops(32, 'Fujitsu A64FX Microarchitecture Manual: 2 SVE FMA x 512 bit'),
    'thunderx2': Flops(8, 'WikiChip, Vulcan: 2 FMA x 128 bit'),
    'neoverse_n1': Flops(8, f'{_ARM}, Neoverse N1: 2 FMA x 128 bit'),
    'neoverse_n2': Flops(8, f'{_ARM}, Neoverse N2: 2 FMA x 128 bit'),
    'neoverse_v1': Flops(16, f'{_ARM}, Neoverse V1: 2 SVE x 256 bit or 4 NEON x 128 bit'),
    'neoverse_v2': Flops(16, f'{_ARM}, Neoverse V2: 4 x 128 bit'),
    # twice that on a fused SMT8 core, which looks the same once threads are switched off
    'power9le': Flops(8, 'IBM POWER9 Processor User Manual: 2 FMA x 128 bit, SMT4 core', certain=False),
}
_TABLE = {name: row for names, row in _ROWS.items() for name in names.split()}
#: By flags: the most that any processor of these vendors does with them. A hypervisor may mask flags and show an
#: older model, but vectors whose flag is masked cannot be used.
_VENDORS, _BY_FLAGS = ('GenuineIntel', 'AuthenticAMD'), {'avx512f': 32, 'fma': 16}


def _flops_per_cycle(machine: Machine) -> Flops | None:
    """Return the bound for a core, or None where no source gives one."""
    row = _TABLE.get(machine.microarchitecture or '')
    if machine.kind == 'physical' and row and row.family in (None, machine.family):
        return row
    flag = next((flag for flag in _BY_FLAGS if machine.vendor in _VENDORS and flag in machine.simd), None)
    return flag and Flops(_BY_FLAGS[flag], f'the most that any {machine.vendor} processor with {flag} does')
