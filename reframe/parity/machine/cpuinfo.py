"""Files below /proc and /sys, where anything may be missing; the processors and what they share."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import warnings
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from parity.base import ranges
from parity.machine.model import Cache, CpuSets

T = TypeVar('T')


class Tree:
    """Files below ``root``; an unreadable file is None or empty, never an error. ``notes`` says what is unknown,
    ``evidence`` why the machine is physical or virtual."""

    def __init__(self, root: Path | str = '/'):
        self.root = Path(root)
        #: system calls and programs describe the real root only
        self.real = self.root.resolve() == Path('/')
        self.notes, self.evidence = [], []

    def unknown(self, note: str, value: T = None) -> T:
        """Note that something is not known, and return the value that stands for it."""
        self.notes.append(note)
        return value

    def see(self, evidence: str, proves: T) -> T:
        """Keep a piece of evidence, and return what it proves."""
        self.evidence.append(evidence)
        return proves

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
        return ranges.cpus(self.text(path) or '')

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
            return subprocess.run(command, capture_output=True, text=True, timeout=2).stdout if self.real else ''
        except (OSError, subprocess.SubprocessError):
            return ''


#: Instruction sets that matter to floating point, narrow to wide, as the kernel names them
#: on x86 (flags), ARM (Features) and POWER (cpu line).
SIMD = ('sse2', 'avx', 'avx2', 'fma', 'avx512f', 'asimd', 'sve', 'vsx')


def processors(tree: Tree) -> list[dict[str, str]]:
    """Return a dictionary for each processor. The first also has the fields that stand apart (ARM, POWER, UML)."""
    blocks = [pairs(block) for block in (tree.text('proc/cpuinfo') or '').split('\n\n')]
    each = [fields for fields in blocks if 'processor' in fields] or [{}]
    for fields in blocks:
        if 'processor' not in fields:
            each[0] = fields | each[0]
    return each if each[0] else []


def pairs(block: str) -> dict[str, str]:
    """Return the lines ``key: value``."""
    found = (line.partition(':') for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in found if colon}


def flags(tree: Tree, first: dict[str, str] | None = None) -> frozenset[str]:
    """Return the instruction set flags of the first processor."""
    if first is None:
        first = (processors(tree) or [{}])[0]
    # POWER has no flags line; VSX (2 x 128 bit) came with POWER7
    vsx = {'vsx'} if first.get('cpu', '').startswith(('POWER7', 'POWER8', 'POWER9', 'POWER10')) else set()
    return frozenset((first.get('flags') or first.get('Features') or '').split()) | vsx


def identity(tree: Tree, cpu: dict[str, str]) -> dict[str, Any]:
    """Return the names: architecture, vendor, family, model, microarchitecture and SIMD sets."""
    seen = flags(tree, cpu) or tree.unknown('instruction sets unknown: /proc/cpuinfo shows none', ())
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


def usable(tree: Tree, processors: list[dict[str, str]]) -> frozenset[int]:
    """Return the CPUs this process may run on."""
    if tree.real:
        return frozenset(os.sched_getaffinity(0))
    found = re.search(r'^Cpus_allowed_list:\s*(\S+)', tree.text('proc/self/status') or '', re.MULTILINE)
    online = tree.cpus(f'{CPU}/online') or frozenset(range(len(processors)))
    if not online:
        return tree.unknown('number of cpus unknown: taken as one', frozenset({0}))
    allowed = ranges.cpus(found[1] if found else '') & online
    return allowed or tree.unknown('cpu affinity unknown: all online cpus are taken as usable', online)


def cores(tree: Tree, cpus: frozenset[int], processors: list[dict[str, str]]) -> CpuSets:
    """Group the usable CPUs by physical core."""
    folders = [f'{CPU}/cpu{cpu}/topology' for cpu in cpus]
    siblings = [tree.cpus(f'{f}/core_cpus_list') or tree.cpus(f'{f}/thread_siblings_list') for f in folders]
    if all(siblings):
        return _ordered(siblings, cpus)
    places = defaultdict(set)
    for fields in processors:
        if fields.get('processor', '').isdecimal() and 'core id' in fields:
            places[fields.get('physical id'), fields['core id']].add(int(fields['processor']))
    if cpus <= set().union(*places.values()):
        return _ordered(places.values(), cpus)
    return tree.unknown('cores unknown: every cpu is taken as a core', _ordered([{cpu} for cpu in cpus], cpus))


def sockets(tree: Tree, cpus: frozenset[int], processors: list[dict[str, str]]) -> CpuSets:
    """Group the usable CPUs by socket; empty where unknown."""
    in_cpuinfo = {fields.get('processor'): fields.get('physical id') for fields in processors}
    found = defaultdict(set)
    for cpu in cpus:
        found[tree.text(f'{CPU}/cpu{cpu}/topology/physical_package_id') or in_cpuinfo.get(str(cpu))].add(cpu)
    if {None, '-1'} & set(found):                       # some ARM firmware gives -1
        return tree.unknown('sockets unknown: no physical_package_id', ())
    return _ordered(found.values(), cpus)


def numa_nodes(tree: Tree, cpus: frozenset[int]) -> CpuSets:
    """Group the usable CPUs by NUMA node; empty where unknown."""
    folder = 'sys/devices/system/node'
    found = _ordered((tree.cpus(f'{folder}/{node}/cpulist') for node in tree.names(folder, 'node')), cpus)
    return found or tree.unknown('NUMA nodes unknown: no /sys/devices/system/node', ())


def caches(tree: Tree, cpus: frozenset[int], first: dict[str, str], sockets: CpuSets) -> tuple[Cache, ...]:
    """Return the data and unified caches that the usable CPUs touch, by level and size."""
    found = defaultdict(list)
    for cpu in cpus:
        for index in tree.names(f'{CPU}/cpu{cpu}/cache', 'index'):
            folder = f'{CPU}/cpu{cpu}/cache/{index}'
            level, size = tree.number(f'{folder}/level'), _bytes(tree.text(f'{folder}/size'))
            if level and size and tree.text(f'{folder}/type') != 'Instruction':
                # without a list of sharers the cache is this CPU's own
                found[level, size].append(tree.cpus(f'{folder}/shared_cpu_list') or {cpu})
    # on Intel 'cache size' is a socket's last level (Linux, cacheinfo.c), on AMD it is not
    size = _bytes(first.get('cache size'))
    if not found and first.get('vendor_id') == 'GenuineIntel' and size and sockets:
        found[3, size] = map(set, sockets)
        tree.unknown("caches other than the last level unknown: no /sys; that one from /proc/cpuinfo 'cache size'")
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
