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
        found = (n for n in self.listing(path) if n.startswith(prefix) and n[len(prefix):].isdecimal())
        return sorted(found, key=lambda n: int(n[len(prefix):]))

    def printed(self, *command: str) -> str:
        """Return what a program prints about the real root; empty where it fails."""
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=2,
                                  env={**os.environ, 'LC_ALL': 'C'}).stdout if self.real else ''
        except (OSError, subprocess.SubprocessError):
            return ''


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
    # POWER has no flags line; VSX (2 x 128 bit) came with POWER7
    vsx = {'vsx'} if first.get('cpu', '').startswith(('POWER7', 'POWER8', 'POWER9', 'POWER10')) else set()
    return frozenset((first.get('flags') or first.get('Features') or '').split()) | vsx


def identity(tree: Tree) -> dict[str, Any]:
    """Return the names: architecture, vendor, family, model, microarchitecture and SIMD sets."""
    cpu = processor(tree)
    seen = flags(tree) or tree.unknown('instruction sets unknown: /proc/cpuinfo shows none', ())
    return {
        'architecture': tree.text('proc/sys/kernel/arch') or tree.real and platform.machine() or 'unknown',
        'vendor': cpu.get('vendor_id') or cpu.get('CPU implementer'),
        'family': cpu.get('cpu family'),
        'model_name': cpu.get('model name') or cpu.get('cpu') or cpu.get('Processor'),
        'simd': tuple(name for name in SIMD if name in seen),
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
    return frozenset(os.sched_getaffinity(0)) if tree.real else tree.cpus(f'{CPU}/online') or frozenset({0})


def cores(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by physical core."""
    folders = [f'{CPU}/cpu{cpu}/topology' for cpu in cpus]
    siblings = [tree.cpus(f'{f}/core_cpus_list') or tree.cpus(f'{f}/thread_siblings_list') for f in folders]
    if all(siblings):
        return _ordered(siblings, cpus)
    return tree.unknown('cores unknown: every cpu is taken as a core', _ordered([{cpu} for cpu in cpus], cpus))


def sockets(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by socket; empty where unknown."""
    found = defaultdict(set)
    for cpu in cpus:
        found[tree.text(f'{CPU}/cpu{cpu}/topology/physical_package_id')].add(cpu)
    if {None, '-1'} & set(found):                       # some ARM firmware gives -1
        return tree.unknown('sockets unknown: no physical_package_id', ())
    return _ordered(found.values(), cpus)


def numa_nodes(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by NUMA node; empty where unknown."""
    folder = 'sys/devices/system/node'
    found = _ordered((tree.cpus(f'{folder}/{node}/cpulist') for node in tree.names(folder, 'node')), cpus)
    return found or tree.unknown('NUMA nodes unknown: no /sys/devices/system/node', ())


def caches(tree: Tree, cpus: frozenset[int]) -> tuple[Cache, ...]:
    """Return the data and unified caches that the usable CPUs touch, by level and size."""
    found = defaultdict(list)
    for cpu in cpus:
        for index in tree.names(f'{CPU}/cpu{cpu}/cache', 'index'):
            folder = f'{CPU}/cpu{cpu}/cache/{index}'
            level, size = tree.number(f'{folder}/level'), _bytes(tree.text(f'{folder}/size'))
            if level and size and tree.text(f'{folder}/type') != 'Instruction':
                # without a list of sharers the cache is this CPU's own
                found[level, size].append(tree.cpus(f'{folder}/shared_cpu_list') or {cpu})
    if not found and len(cpus) == 1:    # the C library knows sizes, not how many caches there are
        sizes = re.findall(r'^LEVEL([123])_D?CACHE_SIZE\s+(\d+)$', tree.printed('getconf', '-a'), re.MULTILINE)
        found |= {(int(level), int(size)): [cpus] for level, size in sizes if int(size)}
    if not found:
        return tree.unknown('caches unknown: no /sys/devices/system/cpu/*/cache', ())
    return tuple(Cache(level=level, size_bytes=size, cpu_sets=_ordered(sets, cpus))
                 for (level, size), sets in sorted(found.items()))


def _bytes(text: str | None) -> int | None:
    """Return ``48K`` or ``48 KB`` in bytes: the kernel has no other unit for a cache."""
    found = re.fullmatch(r'(\d+)(?:K| KB)', text or '')
    return int(found[1]) << 10 if found else None


def _ordered(sets: Iterable[set[int]], cpus: frozenset[int]) -> CpuSets:
    """Return the usable part of each set, once."""
    return tuple(sorted({tuple(sorted(members & cpus)) for members in sets} - {()}))


def memory(tree: Tree) -> dict[str, int | None]:
    """Return the bytes of memory in all and available now, within the cgroup's limit."""
    # /proc/meminfo says kB and means KiB (proc(5))
    lines = re.findall(r'^([^:\n]+):\s*(\d+)( kB$)?', tree.text('proc/meminfo') or '', re.MULTILINE)
    fields = {key: int(number) * (1024 if unit else 1) for key, number, unit in lines}
    total, available = fields.get('MemTotal'), fields.get('MemAvailable')
    if limit := memory_limit(tree):
        total, available = min(total or limit[0], limit[0]), min(available or limit[1], limit[1])
    if not total:
        tree.unknown('memory unknown: neither /proc/meminfo nor a cgroup limit')
    return {'memory_bytes': total, 'memory_available_bytes': available}


def reading(root: Path | str = '/') -> dict[str, Any]:
    """Return cheap facts; an unreadable value is None. ``steal_jiffies`` is time a hypervisor gave to others
    (proc(5), /proc/stat, 8th column); ``clock_mhz_*`` is the clock now, not the highest."""
    tree = Tree(root)
    found = re.match(r'cpu +(\d+(?: \d+){7})', tree.text('proc/stat') or '', re.ASCII)
    counts = [int(word) for word in found[1].split()] if found else []
    load = re.match(r'\d+\.\d+', tree.text('proc/loadavg') or '')
    clocks = re.findall(r'^cpu MHz\s*: (\d+\.\d+)$', tree.text('proc/cpuinfo') or '', re.MULTILINE)
    return {
        'time_s': time.time(),
        'load_1min': float(load[0]) if load else None,
        'steal_jiffies': counts[7] if counts else None,
        'total_jiffies': sum(counts) if counts else None,
        'clock_mhz_min': min(map(float, clocks), default=None),
        'clock_mhz_max': max(map(float, clocks), default=None),
        'memory_available_bytes': memory(tree)['memory_available_bytes'],
    }


#: v1 writes 'no limit' as the largest multiple of the page size: anything above 2^60 bytes is none.
_NO_LIMIT = 1 << 60


def _groups(tree: Tree, controller: str) -> list[tuple[str, bool]]:
    """Return the folders of this process's cgroup and its ancestors for a controller; True where one is of v2."""
    # controller -> path; the name of cgroup v2 is empty
    lines = [line.split(':', 2) for line in (tree.text('proc/self/cgroup') or '').splitlines()]
    own = {name: line[2] for line in lines if len(line) == 3 for name in line[1].split(',')}
    found = []
    mounts = re.findall(r'^\S+ \S+ \S+ (\S+) (\S+) .*- (cgroup2?) \S+ (\S+)$',     # proc(5), mountinfo
                        tree.text('proc/self/mountinfo') or '', re.MULTILINE)
    for inside, mount, version, controllers in mounts:
        v2 = version == 'cgroup2'
        if not v2 and controller not in controllers.split(','):
            continue
        path = own.get('' if v2 else controller, '/')
        # In a container the mount shows only a part of the hierarchy: its root stands for `inside`.
        if inside != '/' and (path == inside or path.startswith(inside + '/')):
            path = path[len(inside):]
        folder = PurePosixPath('/', path.lstrip('/'))
        folders = [f'{mount}{step}'.strip('/') for step in (folder, *folder.parents)]
        found += [(folder, v2) for folder in folders if os.path.exists(tree.root / folder)]
    return found


def cpu_quota(tree: Tree) -> float | None:
    """Return the CPUs' worth of time that may be used: the smallest quota / period on the way up."""
    quotas = []
    for folder, v2 in _groups(tree, 'cpu'):
        files = ['cpu.max'] if v2 else ['cpu.cfs_quota_us', 'cpu.cfs_period_us']
        words = ' '.join(tree.text(f'{folder}/{file}') or '' for file in files)
        if (found := re.fullmatch(r'(\d+) (\d+)', words)) and int(found[2]):        # 'max' and -1 are no quota
            quotas.append(int(found[1]) / int(found[2]))
    return min(quotas, default=None)


def memory_limit(tree: Tree) -> tuple[int, int] | None:
    """Return the tightest memory limit, and the bytes left below it."""
    limits = []
    for folder, v2 in _groups(tree, 'memory'):
        maximum, usage, inactive = ('memory.max', 'memory.current', 'inactive_file') if v2 else (
            'memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file')
        limit = tree.number(f'{folder}/{maximum}')
        if limit is not None and limit < _NO_LIMIT:
            # the page cache counts as used, and is given back when memory is asked for
            cached = re.search(rf'^{inactive} (\d+)$', tree.text(f'{folder}/memory.stat') or '', re.MULTILINE)
            used = (tree.number(f'{folder}/{usage}') or 0) - (int(cached[1]) if cached else 0)
            limits.append((limit, max(0, limit - max(0, used))))
    return (min(limit for limit, _ in limits), min(left for _, left in limits)) if limits else None


#: A container's own mark below /, and its name.
_CONTAINERS = {'.dockerenv': 'docker', 'run/.containerenv': 'podman', '.singularity.d': 'apptainer'}


def kind(tree: Tree) -> dict[str, Any]:
    """Return the fields kind, backend, container and evidence. The kernel and processors of a container are the
    host's."""
    backend, evidence = _hypervisor(tree)
    kind = 'physical' if backend == 'none' else 'virtual' if backend else tree.unknown(
        'physical or virtual: unknown, as neither systemd-detect-virt nor /proc/cpuinfo tells', 'unknown')
    container = next((name for mark, name in _CONTAINERS.items() if os.path.exists(tree.root / mark)),
                     tree.text('run/systemd/container'))
    return {'kind': kind, 'backend': None if backend == 'none' else backend, 'container': container,
            'evidence': evidence}


def _hypervisor(tree: Tree) -> tuple[str | None, tuple[str, ...]]:
    """Return the hypervisor's name, `none` or None for unknown, and what tells it, as programs/node.sh does."""
    cpu = processor(tree)
    if 'User Mode Linux' in (cpu.get('vendor_id'), cpu.get('model name')):      # it shows the host's flags
        return 'uml', ("/proc/cpuinfo: 'User Mode Linux'",)
    if said := tree.printed('systemd-detect-virt', '--vm').strip():
        return said, (f'systemd-detect-virt --vm: {said}',)
    if found := re.search(r'^Hypervisor vendor: *(\S+)', tree.printed('lscpu'), re.MULTILINE):
        return found[1].lower(), (f'lscpu: {found[0]}',)
    if not cpu.get('flags'):            # only x86 has a flag
        return None, ()
    flagged = 'hypervisor' in cpu['flags'].split()
    return ('unknown' if flagged else 'none'), (f'/proc/cpuinfo: {"" if flagged else "no "}flag hypervisor',)


#: A locator that names processor and channel: 'P0 CHANNEL A', 'CPU1_CH3', 'P0_Node1_Channel2_Dimm0'.
_CHANNEL = re.compile(r'\b(?:P|CPU|PROC)[ _]?(\d+)[ _](?:[^|]*[ _])?(?:CHANNEL|CH)[ _]?([A-Z]|\d+)(?![A-Z])',
                      re.IGNORECASE)


def channels(tree: Tree, kind: str) -> MemoryChannels | None:
    """Ask dmidecode, as root on a physical machine; None wherever there is a doubt."""
    program = shutil.which('dmidecode', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    able = program and kind == 'physical' and tree.real and os.geteuid() == 0
    return parse_dmi(tree, tree.printed(program, '-t', '17')) if able else None


def parse_dmi(tree: Tree, text: str) -> MemoryChannels | None:
    """Read ``dmidecode -t 17``, if every module is DDR of one rate and 64 bits and says its place."""
    slots = [dict(re.findall(r'^\s*([^:\n]+): *(.+)$', block, re.M)) for block in re.split(r'\n(?=Handle )', text)]
    modules = [slot for slot in slots if re.match(r'[1-9]', slot.get('Size', ''))]
    places = [_CHANNEL.search(f"{m.get('Bank Locator', '')} | {m.get('Locator', '')}") for m in modules]
    kinds = {(m.get('Type', ''), m.get('Data Width'), m.get('Configured Memory Speed')) for m in modules}
    name, width, speed = kinds.pop() if len(kinds) == 1 else ('', None, None)
    rate = re.fullmatch(r'(\d+) M(?:T/s|Hz)', speed or '')
    if not all(places) or not rate or width != '64 bits' or not name.startswith('DDR'):
        return tree.unknown('memory channels unknown: dmidecode does not state place and rate of like DDR modules')
    count = len({place.groups() for place in places})
    return MemoryChannels(channels=count, transfers_per_s=int(rate[1]) * 1e6, bytes_per_transfer=8,
                          source=f'dmidecode: {count} channels of {name}-{rate[1]}')
