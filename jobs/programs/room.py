"""Make a storage job's own folder on a file system with enough space. Needs only python3, 3.9 or later.

    folder=$(python3 room.py FILESYSTEM BYTES FILES) || exit 2
    trap 'rm -rf -- "$folder"' EXIT

Refuses, before it writes, a job that would not fit with 5 % to spare. It compares the free bytes, the free inodes
and, if `quota` is installed, this user's quota. Writes the type of the file system to room.json.

It removes what killed jobs of this user left. The file `owner` of a folder has the id and start of its process.
The host, boot and space of process ids where that process is gone remove it at once. Any other host waits until
7 days after that job began, since it might live.
Exit codes: 0, or 2 with the reason.
"""

import contextlib
import json
import math
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import time
import uuid

OWN = re.compile('parity-(job|file(s|copy|set))-')      # how folders of jobs begin; two are of earlier versions
AGE = 7 * 86400                         # s
SPARE = 1.05


class Refused(Exception):
    """The reason why there can be no such folder."""


def main(filesystem, size, files):
    size, files = int(size), int(files)
    if not os.path.isdir(filesystem):
        raise Refused(f'{filesystem}: not a directory')
    sweep(filesystem)
    free(filesystem, size, files)
    quota(filesystem, size, files)
    folder = os.path.join(filesystem, f'parity-job-{uuid.uuid4()}')
    os.mkdir(folder, 0o700)
    note_owner(folder, os.getppid())    # the script, which removes it
    with open('room.json', 'w') as out:
        json.dump({'filesystem': kind(filesystem)}, out)
    print(folder)


def machine():
    """Name where a process id means one process: host, boot, space of process ids; '' when not known."""
    with contextlib.suppress(OSError), open('/proc/sys/kernel/random/boot_id') as boot:
        return f'{platform.node()} {boot.read().strip()} {os.readlink("/proc/self/ns/pid")}'
    return ''


def process(pid):
    """A process by its id and its start, since ids are used again; '' when there is none."""
    with contextlib.suppress(OSError), open(f'/proc/{pid}/stat', errors='replace') as state:
        return f'{pid} {state.read().rpartition(")")[2].split()[19]}'
    return ''


def note_owner(folder, pid):
    """Note the process that a folder belongs to."""
    with open(os.path.join(folder, 'owner'), 'w') as owner:
        owner.write(f'{machine()}\n{process(pid)}\n')


def stale(tree):
    """Return whether a folder of this user belongs to a job that is over."""
    with contextlib.suppress(OSError):
        state = os.lstat(tree)
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return False
        where, who = owner(tree)
        if where and who and where == machine():
            return process(who.split()[0]) != who
        return time.time() - state.st_ctime > AGE
    return False                                        # another job may have removed it by now


def owner(tree):
    """The machine and the process that note_owner noted; '' for what is not there."""
    with contextlib.suppress(OSError), open(os.path.join(tree, 'owner'), errors='replace') as file:
        where, who, *_ = [*file.read().split('\n'), '']
        return where, who
    return '', ''


def sweep(place):
    """Remove what killed jobs left; name what cannot be removed."""
    def tell(_, path, error):
        if not isinstance(error[1], FileNotFoundError):
            print(f'{path}: {error[1]}', file=sys.stderr)

    for name in os.listdir(place):
        tree = os.path.join(place, name)
        if OWN.match(name) and stale(tree):
            shutil.rmtree(tree, onerror=tell)


def free(filesystem, size, files):
    """Refuse a job for which there are not enough bytes or inodes."""
    state = os.statvfs(filesystem)
    inodes = state.f_favail if state.f_files else math.inf          # 0: a file system that counts none
    demand_free(filesystem, size, shutil.disk_usage(filesystem).free, 'bytes')
    demand_free(filesystem, files, inodes, 'inodes')


def demand_free(filesystem, need, available, unit):
    need = SPARE * need
    if need > available:
        raise Refused(f'not enough space: needs {math.ceil(need)} {unit}, {available} free on {filesystem}')


def quota(filesystem, size, files):
    """Refuse a job that exceeds this user's quota; pass if no quota can be read."""
    command = ['quota', '-u', '-w', '-p', '-v', '-f', mount(filesystem)[0]]
    try:
        printed = subprocess.run(command, timeout=30, capture_output=True, text=True).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    # file system, blocks of 1 KiB, soft limit, hard limit, grace, files, soft limit, hard limit, grace
    row = re.search(r'^\s*\S+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s*$',
                    printed, re.M)
    if row:
        blocks, soft_blocks, hard_blocks, inodes, soft_inodes, hard_inodes = map(int, row.groups())
        demand_quota(filesystem, size / 1024, blocks, (soft_blocks, hard_blocks), 'KiB')
        demand_quota(filesystem, files, inodes, (soft_inodes, hard_inodes), 'files')


def demand_quota(filesystem, need, used, limits, unit):
    """Refuse what exceeds a limit; 0 is none."""
    bound = min(filter(None, limits), default=math.inf)
    if used + SPARE * need > bound:
        raise Refused(f'quota of {bound} {unit} on {filesystem}: {used} used, needs {math.ceil(need)} more')


def kind(filesystem):
    return mount(filesystem)[1]


def mount(filesystem):
    """Return (mount point, type, device) of the file system that holds the folder."""
    place = os.path.realpath(filesystem)
    deepest = '', 'unknown', 'unknown'
    with contextlib.suppress(OSError), open('/proc/mounts', errors='surrogateescape') as mounts:
        for line in mounts:
            device, point, name = line.split(' ')[:3]
            point = re.sub(r'\\([0-7]{3})', lambda code: chr(int(code[1], 8)), point)
            holds = f'{place}/'.startswith(point.rstrip('/') + '/')
            if holds and len(point) >= len(deepest[0]):
                deepest = point, name, device
    return deepest


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except (Refused, OSError, ValueError, TypeError) as error:
        print(f'room.py: {error}', file=sys.stderr)
        sys.exit(2)
