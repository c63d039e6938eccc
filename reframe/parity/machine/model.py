"""The machine as data."""

from __future__ import annotations

from typing import Any, Literal

from parity.base.strict import Strict
from parity.machine.cpuinfo import WIDTHS

#: Groups of cpu numbers: the cpus of each core, socket, NUMA node or cache.
CpuSets = tuple[tuple[int, ...], ...]


class Cache(Strict):
    """Caches of one level and size, by the usable cpus that share each of them."""

    level: int
    size_bytes: int             # of each
    cpu_sets: CpuSets


class Clock(Strict):
    """The highest clock a core can reach. A nominal or present clock is not one."""

    hz: float
    source: str


class MemoryChannels(Strict):
    """Populated memory channels, all alike."""

    channels: int
    transfers_per_s: float
    bytes_per_transfer: int
    source: str


class Machine(Strict):
    """What this process may use of the machine it is on. None: not known; see ``notes``."""

    hostname: str = 'unknown'
    architecture: str = 'unknown'
    microarchitecture: str | None = None        # archspec's name; may be a generation too old
    vendor: str | None = None
    family: str | None = None           # x86 only
    model_name: str | None = None
    simd: tuple[str, ...] = ()          # kernel's flags, see cpuinfo.SIMD

    cpu_list: tuple[int, ...]           # affinity
    cpu_quota: float | None             # cpus' worth of time (cgroup), None: no quota
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
        """How many processes can run at once on cores of their own: affinity, cut to whole cpus of a quota."""
        count = len(self.core_sets)
        return count if self.cpu_quota is None else min(count, max(1, int(self.cpu_quota)))

    @property
    def threads_per_core(self) -> int:
        """Usable hardware threads of a core (the most, where cores differ)."""
        return max(len(members) for members in self.core_sets)

    @property
    def sockets(self) -> int | None:
        return len(self.socket_sets) or None

    @property
    def _last_level(self) -> list[Cache]:
        last = max((cache.level for cache in self.caches), default=None)
        return [cache for cache in self.caches if cache.level == last]

    @property
    def llc_bytes(self) -> int | None:
        """Sum of the last-level caches that the usable cpus touch."""
        return sum(cache.size_bytes * len(cache.cpu_sets) for cache in self._last_level) or None

    @property
    def llc_one_bytes(self) -> int | None:
        """The largest single last-level cache: what one core alone can use."""
        return max((cache.size_bytes for cache in self._last_level), default=None)

    def features(self) -> list[str]:
        """Names that a partition offers: its kind (if known), ``cpu``, and vector sets."""
        kind = [] if self.kind == 'unknown' else [self.kind]
        return [*kind, 'cpu', *(WIDTHS[name] for name in self.simd if name in WIDTHS)]

    def processor(self) -> dict[str, Any]:
        """ReFrame's ``processor`` of a partition, without what is unknown."""
        num_cpus = self.cores * self.threads_per_core
        known: dict[str, Any] = {
            'arch': self.microarchitecture, 'vendor': self.vendor, 'model': self.model_name,
            'platform': self.architecture, 'num_cpus': num_cpus,
            'num_cpus_per_core': self.threads_per_core, 'num_sockets': self.sockets,
            'num_cpus_per_socket': max(1, num_cpus // self.sockets) if self.sockets else None,
        }
        known = {key: value for key, value in known.items() if value is not None}
        caches = [{'type': f'L{c.level}', 'size': c.size_bytes, 'num_cpus': max(map(len, c.cpu_sets)),
                   'cpusets': _masks(c.cpu_sets)} for c in self.caches]
        return known | {'topology': {
            'numa_nodes': _masks(self.numa_sets), 'sockets': _masks(self.socket_sets),
            'cores': _masks(self.core_sets), 'caches': caches}}


def _masks(sets: CpuSets) -> list[str]:
    """ReFrame's form of cpu sets: hexadecimal bit masks."""
    return [hex(sum(1 << cpu for cpu in members)) for members in sets]
