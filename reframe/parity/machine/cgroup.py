"""Processor and memory limits that cgroups (v1, v2) set on this process."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from parity.machine.tree import Tree

#: v1 writes 'no limit' as the largest multiple of the page size: anything above 2^60 bytes is none.
_NO_LIMIT = 1 << 60


class Group(NamedTuple):
    """A folder with a controller's files; ``v2`` tells which names they have."""

    folder: str
    v2: bool


def groups(tree: Tree, controller: str) -> list[Group]:
    """This process's cgroup of one controller and its ancestors, as far as they can be seen."""
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
        found += [Group(folder, v2) for folder in folders if tree.exists(folder)]
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
    if not limits:
        return None
    return min(limit for limit, _ in limits), min(left for _, left in limits)


def _reclaimable(stat: str, v2: bool) -> int:
    name = 'inactive_file' if v2 else 'total_inactive_file'
    for line in stat.splitlines():
        key, _, value = line.partition(' ')
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _own(tree: Tree) -> dict[str, str]:
    """Controller -> path of this process; the key of cgroup v2 is ''."""
    paths = {}
    for line in (tree.text('proc/self/cgroup') or '').splitlines():
        _, _, rest = line.partition(':')
        controllers, _, path = rest.partition(':')
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
