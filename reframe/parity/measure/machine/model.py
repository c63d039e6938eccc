"""The machine as data, and its physical bounds, each with its source."""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from parity.base.limits import Limit
from parity.base.strict import Strict

#: The kernel's names of vector widths, and the feature that a check asks for.
_WIDTHS = {'avx512f': 'avx512', 'avx2': 'avx2', 'avx': 'avx', 'sse2': 'sse2',
           'sve': 'sve', 'asimd': 'neon', 'vsx': 'vsx'}
#: Groups of CPU numbers: the CPUs of each core, socket, NUMA node or cache.
CpuSets = tuple[tuple[int, ...], ...]


class Cache(Strict):
    """All caches of one level and size, and the usable CPUs that share each."""

    level: int
    size_bytes: int             # of each
    cpu_sets: CpuSets

    def section(self) -> dict[str, Any]:
        """Return ReFrame's section of these caches."""
        return {
            'type': f'L{self.level}',
            'size': self.size_bytes,
            'num_cpus': max(map(len, self.cpu_sets)),
            'cpusets': _masks(self.cpu_sets),
        }


class Clock(Strict):
    """The highest clock that a core can reach, never a nominal or present one."""

    hz: float
    source: str


class MemoryChannels(Strict):
    """Populated memory channels, all alike."""

    channels: int
    transfers_per_s: float
    bytes_per_transfer: int
    source: str

    def bandwidth(self) -> Limit:
        """Return the most that all channels carry together."""
        bytes_per_s = self.channels * self.transfers_per_s * self.bytes_per_transfer
        return Limit(value=bytes_per_s / 1e9, unit='GB/s', source=self.source, certain=True)


class Machine(Strict):
    """The part of a machine that this process may use. None: not known; see ``notes``."""

    hostname: str = 'unknown'
    architecture: str = 'unknown'
    microarchitecture: str | None = None        # archspec's name; may be a generation too old
    vendor: str | None = None
    family: str | None = None           # x86 only
    model_name: str | None = None
    simd: tuple[str, ...] = ()          # the kernel's flags, see procfs.SIMD

    cpu_list: tuple[int, ...]           # affinity
    cpu_quota: float | None             # CPUs' worth of time (cgroup), None: no quota
    core_sets: CpuSets
    socket_sets: CpuSets
    numa_sets: CpuSets
    caches: tuple[Cache, ...]

    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_channels: MemoryChannels | None = None

    kind: Literal['physical', 'virtual', 'unknown']
    backend: str | None = None          # of a virtual machine: kvm, uml, vmware ...
    container: str | None = None
    evidence: tuple[str, ...] = ()

    kernel: str | None = None
    governor: str | None = None
    mitigations: str | None = None
    clocksource: str | None = None
    transparent_huge_pages: str | None = None   # always, madvise or never
    huge_pages: str | None = None               # that are reserved, of the usual size
    numa_balancing: str | None = None           # 0: off
    clock: Clock | None
    notes: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """Return how many processes can run at once on cores of their own, within affinity and quota."""
        count = len(self.core_sets)
        return count if self.cpu_quota is None else min(count, max(1, int(self.cpu_quota)))

    @property
    def _last_level(self) -> list[Cache]:
        last = max((cache.level for cache in self.caches), default=0)
        return [cache for cache in self.caches if cache.level == last]

    @property
    def llc_bytes(self) -> int | None:
        """Return the sum of the last-level caches that the usable CPUs touch."""
        total = sum(cache.size_bytes * len(cache.cpu_sets) for cache in self._last_level)
        return total or None

    @property
    def llc_one_bytes(self) -> int | None:
        """Return the largest single last-level cache, the most that one core alone can use."""
        return max((cache.size_bytes for cache in self._last_level), default=None)

    def features(self) -> list[str]:
        """Return the features that a partition offers: its kind (if known), ``cpu``, and vector sets."""
        features = ['cpu']
        if self.kind != 'unknown':
            features.insert(0, self.kind)
        features += [_WIDTHS[name] for name in self.simd if name in _WIDTHS]
        return features

    def processor(self) -> dict[str, Any]:
        """Return ReFrame's ``processor`` section of a partition, without unknown values."""
        threads = max(map(len, self.core_sets))
        num_cpus = self.cores * threads
        section = {
            'arch': self.microarchitecture,
            'vendor': self.vendor,
            'model': self.model_name,
            'platform': self.architecture,
            'num_cpus': num_cpus,
            'num_cpus_per_core': threads,
        }
        sockets = len(self.socket_sets)
        if sockets:
            section['num_sockets'] = sockets
            section['num_cpus_per_socket'] = max(1, num_cpus // sockets)
        section['topology'] = self._topology()
        return {key: value for key, value in section.items() if value is not None}

    def _topology(self) -> dict[str, Any]:
        return {
            'numa_nodes': _masks(self.numa_sets),
            'sockets': _masks(self.socket_sets),
            'cores': _masks(self.core_sets),
            'caches': [cache.section() for cache in self.caches],
        }


def _masks(sets: CpuSets) -> list[str]:
    """Return ReFrame's form of CPU sets: hexadecimal bit masks."""
    masks = []
    for members in sets:
        mask = sum(1 << cpu for cpu in members)
        masks.append(hex(mask))
    return masks


_HZ = {'Hz': 1.0, 'MHz': 1e6, 'GHz': 1e9}
#: Statements of the operator that are no bounds, but that a peak is computed from.
_PARTS = ('clock', 'flops_per_cycle')


def bounds(machine: Machine, limits: Mapping[str, Any]) -> tuple[dict[str, Limit], list[str]]:
    """Return the bounds, and why others are absent. ``limits`` of system.yaml win over what was detected."""
    stated = {name: Limit(**entry) for name, entry in limits.items()}
    found, notes = _peaks(machine, stated)
    if machine.memory_channels:
        found['memory_bandwidth'] = machine.memory_channels.bandwidth()
    for name, limit in stated.items():
        if name not in _PARTS:
            found[name] = limit
    return found, notes


def _peaks(machine: Machine, stated: dict[str, Limit]) -> tuple[dict[str, Limit], list[str]]:
    clock = stated.get('clock')
    if clock is None and machine.clock:
        clock = Limit(value=machine.clock.hz, unit='Hz', source=machine.clock.source, certain=True)
    flops = stated.get('flops_per_cycle') or _flops_per_cycle(machine)
    missing = []
    if clock is None:
        missing.append('maximum clock')
    if flops is None:
        missing.append('flop per cycle')
    if missing:
        return {}, [f'no peak_flops: {" and ".join(missing)} unknown']

    hz = clock.value * _HZ[clock.unit]
    core = Limit(
        value=hz * flops.value / 1e9,
        unit='Gflop/s',
        certain=clock.certain and flops.certain,
        source=f'{hz / 1e9:.4g} GHz ({clock.source}) x {flops.value:g} flop/cycle ({flops.source})')
    cores = _most_cores(machine)
    whole = core.model_copy(update={'value': core.value * cores, 'source': f'{cores} cores x {core.source}'})
    return {'peak_flops_core': core, 'peak_flops': whole}, []


def _most_cores(machine: Machine) -> int:
    """Return the most cores that can work at once: a guest's threads may be cores, a quota of 2.5 is three."""
    cpu_sets = machine.core_sets if machine.kind == 'physical' else machine.cpu_list
    if machine.cpu_quota is None:
        return len(cpu_sets)
    most = max(1, math.ceil(machine.cpu_quota))
    return min(len(cpu_sets), most)


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
_TABLE: dict[str, Flops] = {}
for _names, _row in _ROWS.items():
    _TABLE.update(dict.fromkeys(_names.split(), _row))
#: By flags: the most that any processor of these vendors does with them. A hypervisor may mask flags and show an
#: older model, but vectors whose flag is masked cannot be used.
_VENDORS, _BY_FLAGS = ('GenuineIntel', 'AuthenticAMD'), {'avx512f': 32, 'fma': 16}


def _flops_per_cycle(machine: Machine) -> Flops | None:
    """Return the bound for a core, or None where no source gives one."""
    row = _TABLE.get(machine.microarchitecture or '')
    if machine.kind == 'physical' and row and row.family in (None, machine.family):
        return row
    if machine.vendor not in _VENDORS:
        return None
    for flag, flops in _BY_FLAGS.items():
        if flag in machine.simd:
            return Flops(flops, f'the most that any {machine.vendor} processor with {flag} does')
    return None
