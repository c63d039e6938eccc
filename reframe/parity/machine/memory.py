"""Memory and its channels, the limits of cgroups, and the state of the machine at an instant."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path, PurePosixPath
from typing import Any

from parity.machine.cpuinfo import Tree, pairs
from parity.machine.model import MemoryChannels

#: A locator that names processor and channel: 'P0 CHANNEL A', 'CPU1_CH3', 'P0_Node1_Channel2_Dimm0'.
_CHANNEL = re.compile(r'\b(?:P|CPU|PROC)[ _]?(\d+)[ _](?:[^|]*[ _])?(?:CHANNEL|CH)[ _]?([A-Z]|\d+)(?![A-Z])',
                      re.IGNORECASE)


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


def channels(tree: Tree, kind: str) -> MemoryChannels | None:
    """Ask dmidecode, as root on a physical machine; None wherever there is a doubt."""
    program = shutil.which('dmidecode', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    able = program and kind == 'physical' and tree.real and os.geteuid() == 0
    return parse_dmi(tree, tree.printed(program, '-t', '17')) if able else None


def parse_dmi(tree: Tree, text: str) -> MemoryChannels | None:
    """Read ``dmidecode -t 17``, if every module is DDR of one rate and 64 bits and says its place."""
    slots = map(pairs, re.split(r'\n(?=Handle )', text))
    modules = [slot for slot in slots if re.match(r'[1-9]', slot.get('Size', ''))]
    places = [_CHANNEL.search(f"{m.get('Bank Locator', '')} | {m.get('Locator', '')}") for m in modules]
    rates = {m.get('Configured Memory Speed') or m.get('Configured Clock Speed') or '' for m in modules}
    rate = re.fullmatch(r'(\d+) M(?:T/s|Hz)', min(rates)) if len(rates) == 1 else None
    if not all(places) or not rate:
        return tree.unknown('memory channels unknown: dmidecode does not state channel and rate of every module')
    kinds = {(m.get('Type', ''), m.get('Data Width')) for m in modules}
    name, width = kinds.pop()
    if kinds or width != '64 bits' or not name.startswith('DDR'):
        return tree.unknown('memory channels unknown: modules differ, or are not DDR of 64 bits')
    count = len({place.groups() for place in places})
    return MemoryChannels(channels=count, transfers_per_s=int(rate[1]) * 1e6, bytes_per_transfer=8,
                          source=f'dmidecode: {count} channels of {name}-{rate[1]}')


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


def steal_share(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Return the part (0 to 1) of all CPU time between two readings that a hypervisor took away."""
    values = [r.get(key) for key in ('steal_jiffies', 'total_jiffies') for r in (before, after)]
    if None in values:
        return None
    steal, total = values[1] - values[0], values[3] - values[2]
    # counters that went backwards belong to two boots
    return steal / total if total > 0 and 0 <= steal <= total else None


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
