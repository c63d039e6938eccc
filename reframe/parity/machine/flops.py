"""Double-precision flop a core can do in a cycle: fused multiply-adds, counted as two.

Vectors of ``width`` bits on ``pipes`` pipes give width / 64 x 2 x pipes. Separate adders beside the
FMA pipes (AMD since Zen 2, Intel since Golden Cove) are not counted: dense linear algebra, which
is what the bound is for, cannot feed them; a kernel of additions alone stays below the FMA rate.
"""

from __future__ import annotations

from typing import NamedTuple


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

#: By vendor and flags: the most that any processor of the vendor does that shows these flags. It
#: holds where the name does not: a hypervisor may mask flags and show an older model, but vectors
#: whose flag is masked cannot be used.
BY_FLAGS: dict[str, dict[str, int]] = {
    'GenuineIntel': {'avx512f': 32, 'fma': 16},
    'AuthenticAMD': {'avx512f': 32, 'fma': 16},
}


def flops_per_cycle(microarchitecture: str | None, vendor: str | None, family: str | None,
                    simd: tuple[str, ...], physical: bool) -> Flops | None:
    """The bound for a core, or None where no source gives one."""
    row = TABLE.get(microarchitecture or '')
    if physical and row and row.family in (None, family):
        return row
    for flag, value in BY_FLAGS.get(vendor or '', {}).items():
        if flag in simd:
            return Flops(value, f'the most that any {vendor} processor with {flag} does')
    return None
