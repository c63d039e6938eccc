"""Which processors we may use, and the cores, sockets, NUMA nodes and caches they belong to."""

from __future__ import annotations

import os
import re
import subprocess

from parity.base import ranges
from parity.machine.cpuinfo import Tree
from parity.machine.model import Cache, CpuSets

_CPU = 'sys/devices/system/cpu'
_UNITS = {'': 1, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}


def usable(tree: Tree, processors: list[dict[str, str]]) -> tuple[frozenset[int], list[str]]:
    """The cpus this process may run on."""
    if tree.real:
        return frozenset(os.sched_getaffinity(0)), []
    found = re.search(r'^Cpus_allowed_list:\s*(\S+)', tree.text('proc/self/status') or '', re.MULTILINE)
    allowed = ranges.cpus(found[1] if found else '')
    online = tree.cpus(f'{_CPU}/online') or frozenset(range(len(processors)))
    if allowed & online:
        return allowed & online, []
    if online:
        return online, ['cpu affinity unknown: all online cpus are taken as usable']
    return frozenset({0}), ['number of cpus unknown: taken as one']


def cores(tree: Tree, cpus: frozenset[int], processors: list[dict[str, str]]) -> tuple[CpuSets, list[str]]:
    """Usable cpus grouped by physical core."""
    found = set()
    for cpu in cpus:
        folder = f'{_CPU}/cpu{cpu}/topology'
        siblings = tree.cpus(f'{folder}/core_cpus_list') or tree.cpus(f'{folder}/thread_siblings_list')
        if not siblings:
            return _cores_of_cpuinfo(cpus, processors)
        found.add(siblings & cpus)
    return _ordered(found), []


def _cores_of_cpuinfo(cpus: frozenset[int], processors: list[dict[str, str]]) -> tuple[CpuSets, list[str]]:
    found: dict[tuple, set[int]] = {}
    for fields in processors:
        if fields.get('processor', '').isdecimal() and 'core id' in fields:
            where = fields.get('physical id'), fields['core id']
            found.setdefault(where, set()).add(int(fields['processor']))
    sets = {frozenset(members & cpus) for members in found.values()} - {frozenset()}
    if set().union(*sets) == cpus:
        return _ordered(sets), []
    return _ordered({frozenset({cpu}) for cpu in cpus}), ['cores unknown: every cpu is taken as a core']


def sockets(tree: Tree, cpus: frozenset[int], processors: list[dict[str, str]]) -> tuple[CpuSets, list[str]]:
    """Usable cpus grouped by socket; empty where unknown."""
    in_cpuinfo = {fields.get('processor'): fields.get('physical id') for fields in processors}
    found: dict[str, set[int]] = {}
    for cpu in cpus:
        socket = tree.text(f'{_CPU}/cpu{cpu}/topology/physical_package_id') or in_cpuinfo.get(str(cpu))
        if socket is None or socket == '-1':            # some ARM firmware gives -1
            return (), ['sockets unknown: no physical_package_id']
        found.setdefault(socket, set()).add(cpu)
    return _ordered(map(frozenset, found.values())), []


def numa_nodes(tree: Tree, cpus: frozenset[int]) -> tuple[CpuSets, list[str]]:
    """Usable cpus grouped by NUMA node; empty where unknown."""
    folder = 'sys/devices/system/node'
    found = {tree.cpus(f'{folder}/{node}/cpulist') & cpus for node in tree.names(folder, 'node')}
    found.discard(frozenset())
    return _ordered(found), [] if found else ['NUMA nodes unknown: no /sys/devices/system/node']


def caches(tree: Tree, cpus: frozenset[int],
           processors: list[dict[str, str]]) -> tuple[tuple[Cache, ...], list[str]]:
    """Data and unified caches that the usable cpus touch, by level and size."""
    found: dict[tuple[int, int], set[frozenset[int]]] = {}
    for cpu in cpus:
        for index in tree.names(f'{_CPU}/cpu{cpu}/cache', 'index'):
            folder = f'{_CPU}/cpu{cpu}/cache/{index}'
            level, size = tree.number(f'{folder}/level'), _bytes(tree.text(f'{folder}/size'))
            if level and size and tree.text(f'{folder}/type') != 'Instruction':
                # without a list of sharers the cache is this cpu's own
                shared = tree.cpus(f'{folder}/shared_cpu_list') or frozenset({cpu})
                found.setdefault((level, size), set()).add(shared & cpus)
    if found:
        return tuple(Cache(level=level, size_bytes=size, cpu_sets=_ordered(sets))
                     for (level, size), sets in sorted(found.items())), []
    return _intel_last_level(tree, cpus, processors) or _caches_of_one_cpu(tree, cpus)


def _intel_last_level(tree: Tree, cpus: frozenset[int], processors: list[dict[str, str]]):
    """The 'cache size' of /proc/cpuinfo: on Intel a socket's last level (Linux, cacheinfo.c), on AMD not."""
    first = processors[0] if processors else {}
    size, places = _bytes((first.get('cache size') or '').replace(' KB', 'K')), sockets(tree, cpus, processors)[0]
    if first.get('vendor_id') != 'GenuineIntel' or not size or not places:
        return None
    return (Cache(level=3, size_bytes=size, cpu_sets=places),), [
        "caches other than the last level unknown: no /sys; that one from /proc/cpuinfo 'cache size'"]


def _caches_of_one_cpu(tree: Tree, cpus: frozenset[int]) -> tuple[tuple[Cache, ...], list[str]]:
    """Without /sys the C library knows the sizes, not how many there are: enough where there is one cpu only."""
    if not tree.real or len(cpus) != 1:
        return (), ['caches unknown: no /sys/devices/system/cpu/*/cache']
    found = []
    for level, name in ((1, 'LEVEL1_DCACHE_SIZE'), (2, 'LEVEL2_CACHE_SIZE'), (3, 'LEVEL3_CACHE_SIZE')):
        try:
            text = subprocess.run(['getconf', name], capture_output=True, text=True, timeout=2).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            break
        if text.isdecimal() and int(text):
            found.append(Cache(level=level, size_bytes=int(text), cpu_sets=(tuple(cpus),)))
    return tuple(found), [] if found else ['caches unknown: neither /sys nor getconf says']


def _bytes(text: str | None) -> int | None:
    """``48K`` in bytes."""
    found = re.fullmatch(r'(\d+)([KMG]?)', text or '')
    return int(found[1]) * _UNITS[found[2]] if found else None


def _ordered(sets) -> CpuSets:
    return tuple(sorted(tuple(sorted(members)) for members in sets))
