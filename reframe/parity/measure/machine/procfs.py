"""Facts from /proc and /sys, where anything may be missing: processors, memory, control groups, hypervisor."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from parity.base.text import cpus as cpus_in
from parity.measure.machine.model import Cache, CpuSets, MemoryChannels

T = TypeVar('T')


class Tree:
    """Files below ``root``; an unreadable one is None or empty, never an error. ``notes`` says what is unknown."""

    def __init__(self, root: Path | str = '/'):
        self.root = Path(root)
        #: system calls and programs describe the real root only
        self.real = self.root.resolve() == Path('/')
        self.notes = []

    def unknown(self, note: str, value: T = None) -> T:
        """Note that something is not known, and return the value that stands for it."""
        self.notes.append(note)
        return value

    def text(self, path: str) -> str | None:
        """Return the file's text without surrounding white space; None where it cannot be read."""
        try:
            return (self.root / path).read_text(errors='replace').strip().strip('\0')
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """Return the file's one whole number."""
        try:
            return int(self.text(path) or '')
        except ValueError:
            return None

    def cpus(self, path: str) -> frozenset[int]:
        """Return the CPUs of a file such as ``0-3,8``."""
        return cpus_in(self.text(path) or '')

    def listing(self, path: str) -> list[str]:
        """Return all names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.root / path))
        except OSError:
            return []

    def names(self, path: str, prefix: str = '') -> list[str]:
        """Return the names in a folder that are ``prefix`` and a number, in the order of the numbers."""
        by_number = {}
        for name in self.listing(path):
            number = name.removeprefix(prefix)
            if name.startswith(prefix) and number.isdecimal():
                by_number[name] = int(number)
        return sorted(by_number, key=by_number.get)

    def printed(self, *command: str) -> str:
        """Return what a program prints about the real root; empty where it fails."""
        if not self.real:
            return ''
        environment = {**os.environ, 'LC_ALL': 'C'}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=2, env=environment)
        except (OSError, subprocess.SubprocessError):
            return ''
        return done.stdout


#: Instruction sets that matter to floating point, narrow to wide, as the kernel names them
#: on x86 (flags), ARM (Features) and POWER (cpu line).
SIMD = ('sse2', 'avx', 'avx2', 'fma', 'avx512f', 'asimd', 'sve', 'vsx')


def processor(tree: Tree) -> dict[str, str]:
    """Return the first processor's lines of /proc/cpuinfo, and those that stand apart (ARM, POWER, UML)."""
    lines = re.findall(r'^([^:\n]*?)[ \t]*:[ \t]*(.*)$', tree.text('proc/cpuinfo') or '', re.MULTILINE)
    return dict(reversed(lines))


def flags(tree: Tree) -> frozenset[str]:
    """Return the instruction set flags of the first processor."""
    first = processor(tree)
    line = first.get('flags') or first.get('Features') or ''
    words = set(line.split())
    # POWER has no flags line; VSX (2 x 128 bit) came with POWER7
    if first.get('cpu', '').startswith(('POWER7', 'POWER8', 'POWER9', 'POWER10')):
        words.add('vsx')
    return frozenset(words)


def identity(tree: Tree) -> dict[str, Any]:
    """Return the names: architecture, vendor, family, model, microarchitecture and SIMD sets."""
    cpu = processor(tree)
    words = flags(tree)
    if not words:
        tree.unknown('instruction sets unknown: /proc/cpuinfo shows none')
    architecture = tree.text('proc/sys/kernel/arch')
    if tree.real:
        architecture = architecture or platform.machine()
    return {
        'architecture': architecture or 'unknown',
        'vendor': cpu.get('vendor_id') or cpu.get('CPU implementer'),
        'family': cpu.get('cpu family'),
        'model_name': cpu.get('model name') or cpu.get('cpu') or cpu.get('Processor'),
        'simd': tuple(name for name in SIMD if name in words),
        'microarchitecture': _microarchitecture(tree),
    }


def _microarchitecture(tree: Tree) -> str | None:
    if not tree.real or not os.access('/proc/cpuinfo', os.R_OK):
        return tree.unknown('microarchitecture unknown: archspec reads /proc/cpuinfo of this machine only')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')     # archspec warns about the content of the note below
            import archspec.cpu
            return archspec.cpu.host().name
    except Exception as error:                  # archspec raises many kinds on odd machines
        return tree.unknown(f'microarchitecture unknown: archspec: {error}')


CPU = 'sys/devices/system/cpu'


def usable(tree: Tree) -> frozenset[int]:
    """Return the CPUs this process may run on."""
    if tree.real:
        return frozenset(os.sched_getaffinity(0))
    return tree.cpus(f'{CPU}/online') or frozenset({0})


def cores(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by physical core."""
    siblings = [_siblings(tree, cpu) for cpu in cpus]
    if all(siblings):
        return _ordered(siblings, cpus)
    alone = [{cpu} for cpu in cpus]
    return tree.unknown('cores unknown: every cpu is taken as a core', _ordered(alone, cpus))


def _siblings(tree: Tree, cpu: int) -> frozenset[int]:
    """Return all CPUs of the core that a CPU belongs to."""
    folder = f'{CPU}/cpu{cpu}/topology'
    return tree.cpus(f'{folder}/core_cpus_list') or tree.cpus(f'{folder}/thread_siblings_list')


def sockets(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by socket; empty where unknown."""
    by_socket = defaultdict(set)
    for cpu in cpus:
        socket = tree.text(f'{CPU}/cpu{cpu}/topology/physical_package_id')
        by_socket[socket].add(cpu)
    if None in by_socket or '-1' in by_socket:          # some ARM firmware gives -1
        return tree.unknown('sockets unknown: no physical_package_id', ())
    return _ordered(by_socket.values(), cpus)


def numa_nodes(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by NUMA node; empty where unknown."""
    folder = 'sys/devices/system/node'
    nodes = tree.names(folder, 'node')
    cpu_sets = _ordered((tree.cpus(f'{folder}/{node}/cpulist') for node in nodes), cpus)
    return cpu_sets or tree.unknown('NUMA nodes unknown: no /sys/devices/system/node', ())


def caches(tree: Tree, cpus: frozenset[int]) -> tuple[Cache, ...]:
    """Return the data and unified caches that the usable CPUs touch, by level and size."""
    sharers = _cache_sharers(tree, cpus)
    if not sharers and len(cpus) == 1:
        sharers = {size: [cpus] for size in _c_library_caches(tree)}
    if not sharers:
        return tree.unknown('caches unknown: no /sys/devices/system/cpu/*/cache', ())
    return tuple(Cache(level=level, size_bytes=size, cpu_sets=_ordered(sets, cpus))
                 for (level, size), sets in sorted(sharers.items()))


def _cache_sharers(tree: Tree, cpus: frozenset[int]) -> dict[tuple[int, int], list[set[int]]]:
    """Return the CPUs that share each cache, by the cache's level and size in bytes."""
    sharers = defaultdict(list)
    for cpu in cpus:
        folder = f'{CPU}/cpu{cpu}/cache'
        for index in tree.names(folder, 'index'):
            level = tree.number(f'{folder}/{index}/level')
            size = _bytes(tree.text(f'{folder}/{index}/size'))
            kind = tree.text(f'{folder}/{index}/type')
            if not level or not size or kind == 'Instruction':
                continue
            shared = tree.cpus(f'{folder}/{index}/shared_cpu_list')
            sharers[level, size].append(shared or {cpu})    # without a list of sharers it is this CPU's own
    return sharers


def _c_library_caches(tree: Tree) -> list[tuple[int, int]]:
    """Return level and size of the caches as the C library states them: it does not say how many there are."""
    lines = re.findall(r'^LEVEL([123])_D?CACHE_SIZE\s+(\d+)$', tree.printed('getconf', '-a'), re.MULTILINE)
    sizes = [(int(level), int(size)) for level, size in lines]
    return [(level, size) for level, size in sizes if size]


def _bytes(text: str | None) -> int | None:
    """Return ``48K`` or ``48 KB`` in bytes: the kernel has no other unit for a cache."""
    size = re.fullmatch(r'(\d+)(?:K| KB)', text or '')
    return int(size[1]) << 10 if size else None


def _ordered(sets: Iterable[set[int]], cpus: frozenset[int]) -> CpuSets:
    """Return the usable part of each set, once."""
    parts = {tuple(sorted(members & cpus)) for members in sets}
    parts.discard(())
    return tuple(sorted(parts))


def memory(tree: Tree) -> dict[str, int | None]:
    """Return the bytes of memory in all and available now, within the cgroup's limit."""
    fields = _meminfo(tree)
    total = fields.get('MemTotal')
    available = fields.get('MemAvailable')
    cgroup = memory_limit(tree)
    if cgroup:
        total = min(total or cgroup.limit, cgroup.limit)
        available = min(available or cgroup.left, cgroup.left)
    if not total:
        tree.unknown('memory unknown: neither /proc/meminfo nor a cgroup limit')
    return {'memory_bytes': total, 'memory_available_bytes': available}


def _meminfo(tree: Tree) -> dict[str, int]:
    """Return the fields of /proc/meminfo, in bytes: it says kB and means KiB (proc(5))."""
    text = tree.text('proc/meminfo') or ''
    fields = {}
    for name, number, unit in re.findall(r'^([^:\n]+):\s*(\d+)( kB$)?', text, re.MULTILINE):
        fields[name] = int(number) * 1024 if unit else int(number)
    return fields


def reading(root: Path | str = '/') -> dict[str, Any]:
    """Return cheap facts; an unreadable value is None. ``steal_jiffies`` is time a hypervisor gave to others
    (proc(5), /proc/stat, 8th column); ``clock_mhz_*`` is the clock now, not the highest."""
    tree = Tree(root)
    load = re.match(r'\d+\.\d+', tree.text('proc/loadavg') or '')
    jiffies = _jiffies(tree)
    clocks = _clocks_mhz(tree)
    available = memory(tree)['memory_available_bytes']
    return {
        'time_s': time.time(),
        'load_1min': float(load[0]) if load else None,
        'steal_jiffies': jiffies[7] if jiffies else None,
        'total_jiffies': sum(jiffies) if jiffies else None,
        'clock_mhz_min': min(clocks, default=None),
        'clock_mhz_max': max(clocks, default=None),
        'memory_available_bytes': available,
    }


def _jiffies(tree: Tree) -> list[int]:
    """Return the first eight times of all CPUs together (proc(5), /proc/stat); [] where they cannot be read."""
    times = re.match(r'cpu +(\d+(?: \d+){7})', tree.text('proc/stat') or '', re.ASCII)
    return [int(word) for word in times[1].split()] if times else []


def _clocks_mhz(tree: Tree) -> list[float]:
    """Return the clock of each CPU at this moment, where the kernel tells it."""
    text = tree.text('proc/cpuinfo') or ''
    return [float(mhz) for mhz in re.findall(r'^cpu MHz\s*: (\d+\.\d+)$', text, re.MULTILINE)]


#: v1 writes 'no limit' as the largest multiple of the page size: anything above 2^60 bytes is none.
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Cgroup:
    """The folder of a control group, below the root; ``v2`` where it is of cgroup v2."""

    folder: str
    v2: bool

    def file(self, name: str) -> str:
        return f'{self.folder}/{name}'


#: A mount of a hierarchy in mountinfo (proc(5)): its folder inside the hierarchy, where it is, its kind, and its
#: controllers among the options.
_MOUNT = re.compile(r'^\S+ \S+ \S+ (?P<inside>\S+) (?P<mount>\S+) .*- '
                    r'(?P<kind>cgroup2?) \S+ (?P<options>\S+)$', re.MULTILINE)


def _cgroups(tree: Tree, controller: str) -> list[Cgroup]:
    """Return this process's control group and those above it, for a controller."""
    paths = _cgroup_paths(tree)
    cgroups = []
    for mount in _MOUNT.finditer(tree.text('proc/self/mountinfo') or ''):
        v2 = mount['kind'] == 'cgroup2'
        if not v2 and controller not in mount['options'].split(','):
            continue
        path = paths.get('' if v2 else controller, '/')
        # In a container the mount shows only a part of the hierarchy: its root stands for `inside`.
        inside = mount['inside']
        if inside != '/' and f'{path}/'.startswith(f'{inside}/'):
            path = path[len(inside):]
        own = PurePosixPath('/', path.lstrip('/'))
        for step in (own, *own.parents):
            folder = f'{mount["mount"]}{step}'.strip('/')
            if os.path.exists(tree.root / folder):
                cgroups.append(Cgroup(folder, v2))
    return cgroups


def _cgroup_paths(tree: Tree) -> dict[str, str]:
    """Return the path of this process's control group by controller; the name of cgroup v2 is empty."""
    paths = {}
    for line in (tree.text('proc/self/cgroup') or '').splitlines():
        fields = line.split(':', 2)
        if len(fields) == 3:
            _, controllers, path = fields
            paths.update(dict.fromkeys(controllers.split(','), path))
    return paths


def cpu_quota(tree: Tree) -> float | None:
    """Return the CPUs' worth of time that may be used: the smallest quota / period on the way up."""
    quotas = []
    for cgroup in _cgroups(tree, 'cpu'):
        files = ['cpu.max'] if cgroup.v2 else ['cpu.cfs_quota_us', 'cpu.cfs_period_us']
        words = ' '.join(tree.text(cgroup.file(name)) or '' for name in files)
        numbers = re.fullmatch(r'(\d+) (\d+)', words)       # 'max' and -1 are no quota
        if numbers and int(numbers[2]):
            quotas.append(int(numbers[1]) / int(numbers[2]))
    return min(quotas, default=None)


@dataclass(frozen=True)
class MemoryLimit:
    """The bytes that a process may use, and those that are left."""

    limit: int
    left: int


def memory_limit(tree: Tree) -> MemoryLimit | None:
    """Return the tightest memory limit on the way up, and the fewest bytes that are left below one."""
    limits = []
    for cgroup in _cgroups(tree, 'memory'):
        limit = tree.number(cgroup.file('memory.max' if cgroup.v2 else 'memory.limit_in_bytes'))
        if limit is None or limit >= _NO_LIMIT:
            continue
        used = max(0, _memory_used(tree, cgroup))
        limits.append(MemoryLimit(limit, max(0, limit - used)))
    if not limits:
        return None
    return MemoryLimit(min(entry.limit for entry in limits), min(entry.left for entry in limits))


def _memory_used(tree: Tree, cgroup: Cgroup) -> int:
    """Return the bytes that a control group uses, without the page cache that it gives back when asked."""
    used = tree.number(cgroup.file('memory.current' if cgroup.v2 else 'memory.usage_in_bytes')) or 0
    inactive = 'inactive_file' if cgroup.v2 else 'total_inactive_file'
    stat = tree.text(cgroup.file('memory.stat')) or ''
    cached = re.search(rf'^{inactive} (\d+)$', stat, re.MULTILINE)
    return used - int(cached[1]) if cached else used


#: A container's own mark below /, and its name.
_CONTAINERS = {'.dockerenv': 'docker', 'run/.containerenv': 'podman', '.singularity.d': 'apptainer'}


def kind(tree: Tree) -> dict[str, Any]:
    """Return the fields kind, backend, container and evidence. The kernel and processors of a container are the
    host's."""
    backend, evidence = _hypervisor(tree)
    if not backend:
        kind = tree.unknown('physical or virtual: unknown, as neither systemd-detect-virt nor /proc/cpuinfo tells',
                            'unknown')
    elif backend == 'none':
        kind = 'physical'
        backend = None
    else:
        kind = 'virtual'
    return {'kind': kind, 'backend': backend, 'container': _container(tree), 'evidence': evidence}


def _container(tree: Tree) -> str | None:
    for mark, name in _CONTAINERS.items():
        if os.path.exists(tree.root / mark):
            return name
    return tree.text('run/systemd/container')


def _hypervisor(tree: Tree) -> tuple[str | None, tuple[str, ...]]:
    """Return the hypervisor's name, `none` or None for unknown, and what tells it, as programs/node.sh does."""
    cpu = processor(tree)
    if 'User Mode Linux' in (cpu.get('vendor_id'), cpu.get('model name')):      # it shows the host's flags
        return 'uml', ("/proc/cpuinfo: 'User Mode Linux'",)
    detected = tree.printed('systemd-detect-virt', '--vm').strip()
    if detected:
        return detected, (f'systemd-detect-virt --vm: {detected}',)
    vendor = re.search(r'^Hypervisor vendor: *(\S+)', tree.printed('lscpu'), re.MULTILINE)
    if vendor:
        return vendor[1].lower(), (f'lscpu: {vendor[0]}',)
    if not cpu.get('flags'):            # only x86 has a flag
        return None, ()
    if 'hypervisor' in cpu['flags'].split():
        return 'unknown', ('/proc/cpuinfo: flag hypervisor',)
    return 'none', ('/proc/cpuinfo: no flag hypervisor',)


#: A locator that names processor and channel: 'P0 CHANNEL A', 'CPU1_CH3', 'P0_Node1_Channel2_Dimm0'.
_CHANNEL = re.compile(r'\b(?:P|CPU|PROC)[ _]?(\d+)[ _](?:[^|]*[ _])?(?:CHANNEL|CH)[ _]?([A-Z]|\d+)(?![A-Z])',
                      re.IGNORECASE)


def channels(tree: Tree, kind: str) -> MemoryChannels | None:
    """Ask dmidecode, as root on a physical machine; None wherever there is a doubt."""
    if kind != 'physical' or not tree.real or os.geteuid() != 0:
        return None
    program = shutil.which('dmidecode', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if not program:
        return None
    return parse_dmi(tree, tree.printed(program, '-t', '17'))


def parse_dmi(tree: Tree, text: str) -> MemoryChannels | None:
    """Read ``dmidecode -t 17``, if every module is DDR of one rate and 64 bits and says its place."""
    modules = _dmi_modules(text)
    places = [_CHANNEL.search(f'{module.get("Bank Locator", "")} | {module.get("Locator", "")}')
              for module in modules]
    kinds = {(module.get('Type', ''), module.get('Data Width'), module.get('Configured Memory Speed'))
             for module in modules}
    doubt = 'memory channels unknown: dmidecode does not state place and rate of like DDR modules'
    if not all(places) or len(kinds) != 1:
        return tree.unknown(doubt)
    name, width, speed = kinds.pop()
    rate = re.fullmatch(r'(\d+) M(?:T/s|Hz)', speed or '')
    if not rate or width != '64 bits' or not name.startswith('DDR'):
        return tree.unknown(doubt)
    count = len({place.groups() for place in places})
    return MemoryChannels(
        channels=count,
        transfers_per_s=int(rate[1]) * 1e6,
        bytes_per_transfer=8,
        source=f'dmidecode: {count} channels of {name}-{rate[1]}')


def _dmi_modules(text: str) -> list[dict[str, str]]:
    """Return the fields of each slot that holds a memory module."""
    modules = []
    for block in re.split(r'\n(?=Handle )', text):
        slot = dict(re.findall(r'^\s*([^:\n]+): *(.+)$', block, re.MULTILINE))
        if re.match(r'[1-9]', slot.get('Size', '')):
            modules.append(slot)
    return modules
