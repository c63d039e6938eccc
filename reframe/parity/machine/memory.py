"""Memory and its channels, the limits of cgroups, and the state of the machine at an instant."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path, PurePosixPath
from typing import Any

from parity.machine.cpuinfo import Tree, pairs, processors
from parity.machine.model import MemoryChannels

#: A locator that names processor and channel: 'P0 CHANNEL A', 'CPU1_CH3', 'P0_Node1_Channel2_Dimm0'.
_CHANNEL = re.compile(r'\b(?:P|CPU|PROC)[ _]?(\d+)[ _](?:[^|]*[ _])?(?:CHANNEL|CH)[ _]?([A-Z]|\d+)(?![A-Z])',
                      re.IGNORECASE)


def memory(tree: Tree) -> tuple[dict, list[str]]:
    """Bytes there are and bytes available now, within the cgroup's limit."""
    # /proc/meminfo says kB and means KiB (proc(5))
    lines = re.findall(r'^([^:\n]+):\s*(\d+)( kB$)?', tree.text('proc/meminfo') or '', re.MULTILINE)
    fields = {key: int(number) * (1024 if unit else 1) for key, number, unit in lines}
    total, available = fields.get('MemTotal'), fields.get('MemAvailable')
    limit = memory_limit(tree)
    if limit:
        total = min(total or limit[0], limit[0])
        available = min(available or limit[1], limit[1])
    notes = [] if total else ['memory unknown: neither /proc/meminfo nor a cgroup limit']
    return {'memory_bytes': total, 'memory_available_bytes': available}, notes


def channels(tree: Tree, kind: str) -> tuple[MemoryChannels | None, list[str]]:
    """From dmidecode, for root on a physical machine; None wherever there is a doubt."""
    program = shutil.which('dmidecode', path=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')
    if kind != 'physical' or not tree.real or os.geteuid() != 0 or not program:
        return None, []
    try:
        done = subprocess.run([program, '-t', '17'], capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.SubprocessError) as error:
        return None, [f'memory channels unknown: dmidecode: {error}']
    return parse_dmi(done.stdout)


def parse_dmi(text: str) -> tuple[MemoryChannels | None, list[str]]:
    """Channels out of ``dmidecode -t 17``, if every module is DDR of one rate and 64 bits and says its place."""
    slots = map(pairs, re.split(r'\n(?=Handle )', text))
    modules = [slot for slot in slots if re.match(r'[1-9]', slot.get('Size', ''))]
    places = [_CHANNEL.search(f"{m.get('Bank Locator', '')} | {m.get('Locator', '')}") for m in modules]
    rates = {m.get('Configured Memory Speed') or m.get('Configured Clock Speed') for m in modules}
    rate = re.fullmatch(r'(\d+) M(?:T/s|Hz)', rates.pop() or '') if len(rates) == 1 else None
    if not modules or not all(places) or not rate:
        return None, ['memory channels unknown: dmidecode does not state channel and rate of every module']
    kinds = {m.get('Type', '') for m in modules}
    widths = {m.get('Data Width') for m in modules}
    if widths != {'64 bits'} or len(kinds) != 1 or not min(kinds).startswith('DDR'):
        return None, ['memory channels unknown: modules differ, or are not DDR of 64 bits']
    count = len({place.groups() for place in places if place})
    return MemoryChannels(channels=count, transfers_per_s=int(rate[1]) * 1e6, bytes_per_transfer=8,
                          source=f'dmidecode: {count} channels of {kinds.pop()}-{rate[1]}'), []


def reading(root: Path | str = '/') -> dict[str, Any]:
    """Cheap facts; a value that cannot be read is None. ``steal_jiffies`` is time a hypervisor gave to others
    (proc(5), /proc/stat, 8th column); ``clock_mhz_*`` is what cores ran at, not what they can reach."""
    tree = Tree(root)
    steal, total = _jiffies(tree)
    clocks = [mhz for mhz in (_float(fields.get('cpu MHz')) for fields in processors(tree)) if mhz is not None]
    return {
        'time_s': time.time(),
        'load_1min': _float((tree.text('proc/loadavg') or '').partition(' ')[0]),
        'steal_jiffies': steal,
        'total_jiffies': total,
        'clock_mhz_min': min(clocks, default=None),
        'clock_mhz_max': max(clocks, default=None),
        'memory_available_bytes': memory(tree)[0]['memory_available_bytes'],
    }


def steal_share(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Part (0 to 1) of all cpu time between two readings that a hypervisor took away."""
    values = [r.get(key) for key in ('steal_jiffies', 'total_jiffies') for r in (before, after)]
    if None in values:
        return None
    steal, total = values[1] - values[0], values[3] - values[2]
    # counters that went backwards belong to two boots
    return steal / total if total > 0 and 0 <= steal <= total else None


def _jiffies(tree: Tree) -> tuple[int | None, int | None]:
    line = (tree.text('proc/stat') or '').partition('\n')[0].split()
    if len(line) < 9 or line[0] != 'cpu' or not all(word.isdecimal() for word in line[1:9]):
        return None, None
    counts = [int(word) for word in line[1:9]]
    return counts[7], sum(counts)


def _float(text: str | None) -> float | None:
    try:
        return float(text or '')
    except ValueError:
        return None


#: v1 writes 'no limit' as the largest multiple of the page size: anything above 2^60 bytes is none.
_NO_LIMIT = 1 << 60


def groups(tree: Tree, controller: str) -> list[tuple[str, bool]]:
    """The folders of this process's cgroup of one controller and of its ancestors, and whether each is of v2."""
    own = _own(tree)
    found = []
    for mount, inside, v2, controllers in _mounts(tree):
        if not v2 and controller not in controllers:
            continue
        path = own.get('' if v2 else controller, '/')
        # In a container the mount shows only a part of the hierarchy: its root stands for `inside`.
        if inside != '/' and (path == inside or path.startswith(inside + '/')):
            path = path[len(inside):] or '/'
        own_folder = PurePosixPath('/', path.lstrip('/'))
        folders = [f'{mount}{step}'.strip('/') for step in (own_folder, *own_folder.parents)]
        found += [(folder, v2) for folder in folders if tree.exists(folder)]
    return found


def cpu_quota(tree: Tree) -> float | None:
    """Processors' worth of time that may be used: the smallest quota / period on the way up."""
    quotas = []
    for folder, v2 in groups(tree, 'cpu'):
        if v2:
            quota, _, period = (tree.text(f'{folder}/cpu.max') or 'max').partition(' ')
        else:
            quota = tree.text(f'{folder}/cpu.cfs_quota_us') or 'max'
            period = tree.text(f'{folder}/cpu.cfs_period_us') or ''
        if quota.isdecimal() and period.isdecimal() and int(period):      # 'max' and -1 are no quota
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit(tree: Tree) -> tuple[int, int] | None:
    """The tightest memory limit and what is left below it, in bytes."""
    limits = []
    for folder, v2 in groups(tree, 'memory'):
        limit = tree.number(f'{folder}/' + ('memory.max' if v2 else 'memory.limit_in_bytes'))
        if limit is None or limit >= _NO_LIMIT:
            continue
        used = tree.number(f'{folder}/' + ('memory.current' if v2 else 'memory.usage_in_bytes')) or 0
        # the page cache counts as used, and is given back when memory is asked for
        used -= _reclaimable(tree.text(f'{folder}/memory.stat') or '', v2)
        limits.append((limit, max(0, limit - max(0, used))))
    return (min(limit for limit, _ in limits), min(left for _, left in limits)) if limits else None


def _reclaimable(stat: str, v2: bool) -> int:
    found = re.search(rf'^{"" if v2 else "total_"}inactive_file (\d+)$', stat, re.MULTILINE)
    return int(found[1]) if found else 0


def _own(tree: Tree) -> dict[str, str]:
    """Controller -> path of this process; the key of cgroup v2 is ''."""
    paths = {}
    for line in (tree.text('proc/self/cgroup') or '').splitlines():
        _, controllers, path = [*line.split(':', 2), '', ''][:3]
        for controller in controllers.split(','):
            paths[controller] = path
    return paths


def _mounts(tree: Tree) -> list[tuple[str, str, bool, set[str]]]:
    """Mount point, path shown there, is it v2, controllers: from mountinfo (see proc(5))."""
    mounts = []
    for line in (tree.text('proc/self/mountinfo') or '').splitlines():
        fields, _, super_fields = (part.split() for part in line.partition(' - '))
        if len(fields) > 4 and len(super_fields) > 2 and super_fields[0] in ('cgroup', 'cgroup2'):
            v2, controllers = super_fields[0] == 'cgroup2', set(super_fields[2].split(','))
            mounts.append((fields[4], fields[3], v2, controllers))
    return mounts
