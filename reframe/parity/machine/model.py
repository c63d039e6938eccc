"""The machine as data."""

from __future__ import annotations

from typing import Any, Literal

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


class Machine(Strict):
    """The part of a machine that this process may use. None: not known; see ``notes``."""

    hostname: str = 'unknown'
    architecture: str = 'unknown'
    microarchitecture: str | None = None        # archspec's name; may be a generation too old
    vendor: str | None = None
    family: str | None = None           # x86 only
    model_name: str | None = None
    simd: tuple[str, ...] = ()          # the kernel's flags, see cpuinfo.SIMD

    cpu_list: tuple[int, ...]           # affinity
    cpu_quota: float | None             # CPUs' worth of time (cgroup), None: no quota
    core_sets: CpuSets
    socket_sets: CpuSets
    numa_sets: CpuSets
    caches: tuple[Cache, ...]

    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    memory_channels: MemoryChannels | None

    kind: Literal['physical', 'virtual', 'unknown']
    backend: str | None = None          # of a virtual machine: kvm, uml, vmware ...
    container: str | None = None
    evidence: tuple[str, ...] = ()

    kernel: str | None = None
    governor: str | None = None
    mitigations: str | None = None
    clocksource: str | None = None
    clock: Clock | None
    notes: tuple[str, ...] = ()

    @property
    def cores(self) -> int:
        """Return how many processes can run at once on cores of their own, within affinity and quota."""
        count = len(self.core_sets)
        return count if self.cpu_quota is None else min(count, max(1, int(self.cpu_quota)))

    @property
    def _last_level(self) -> list[Cache]:
        return [cache for cache in self.caches if cache.level == max(c.level for c in self.caches)]

    @property
    def llc_bytes(self) -> int | None:
        """Return the sum of the last-level caches that the usable CPUs touch."""
        return sum(cache.size_bytes * len(cache.cpu_sets) for cache in self._last_level) or None

    @property
    def llc_one_bytes(self) -> int | None:
        """Return the largest single last-level cache, the most that one core alone can use."""
        return max((cache.size_bytes for cache in self._last_level), default=None)

    def features(self) -> list[str]:
        """Return the features that a partition offers: its kind (if known), ``cpu``, and vector sets."""
        kind = [] if self.kind == 'unknown' else [self.kind]
        return [*kind, 'cpu', *(_WIDTHS[name] for name in self.simd if name in _WIDTHS)]

    def processor(self) -> dict[str, Any]:
        """Return ReFrame's ``processor`` section of a partition, without unknown values."""
        threads, sockets = max(map(len, self.core_sets)), len(self.socket_sets)
        num_cpus = self.cores * threads
        stated = {
            'arch': self.microarchitecture, 'vendor': self.vendor, 'model': self.model_name,
            'platform': self.architecture, 'num_cpus': num_cpus,
            'num_cpus_per_core': threads, 'num_sockets': sockets or None,
            'num_cpus_per_socket': max(1, num_cpus // sockets) if sockets else None,
            'topology': {
                'numa_nodes': _masks(self.numa_sets), 'sockets': _masks(self.socket_sets),
                'cores': _masks(self.core_sets),
                'caches': [{'type': f'L{c.level}', 'size': c.size_bytes, 'num_cpus': max(map(len, c.cpu_sets)),
                            'cpusets': _masks(c.cpu_sets)} for c in self.caches]}}
        return {key: value for key, value in stated.items() if value is not None}


def _masks(sets: CpuSets) -> list[str]:
    """Return ReFrame's form of CPU sets: hexadecimal bit masks."""
    return [hex(sum(1 << cpu for cpu in members)) for members in sets]
