"""Make a storage job's own folder on a file system with enough space. Needs only python3, 3.9 or later.

    folder=$(python3 room.py FILESYSTEM BYTES FILES) || exit 2
    trap 'rm -rf -- "$folder"' EXIT

Refuses, before it writes, a job that would not fit with 5 % to spare. It compares the free bytes, the free inodes
and, if `quota` is installed, this user's quota. Removes this user's folders of killed jobs: their process on this
host is gone, or they belong to another host and are older than two days. Writes the type of the file system to
room.json.
Exit codes: 0, or 2 with the reason.
"""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time

PREFIX = 'parity-job-'
DAYS = 2
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
    folder = os.path.join(filesystem, f'{PREFIX}{os.uname().nodename}-{os.getppid()}')
    os.mkdir(folder, 0o700)
    with open('room.json', 'w') as out:
        json.dump({'filesystem': kind(filesystem)}, out)
    print(folder)


def sweep(filesystem):
    """Remove folders of this user's killed jobs; name and leave those that cannot be removed."""
    for entry in os.scandir(filesystem):
        if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) and left(entry):
            shutil.rmtree(entry.path, onerror=lambda _, path, error: print(f'{path}: {error[1]}', file=sys.stderr))


def left(entry):
    """Return True if the job that made the folder is gone."""
    try:
        state = entry.stat(follow_symlinks=False)
    except FileNotFoundError:       # another job that starts now removes it as well
        return False
    host, _, pid = entry.name[len(PREFIX):].rpartition('-')
    if state.st_uid != os.geteuid() or not pid.isdecimal():
        return False
    here = host == os.uname().nodename
    return not os.path.exists(f'/proc/{pid}') if here else time.time() - state.st_mtime > DAYS * 86400


def free(filesystem, size, files):
    state, there = os.statvfs(filesystem), shutil.disk_usage(filesystem).free
    inodes = state.f_favail if state.f_files else math.inf          # 0: a file system that counts none
    for need, have, unit in ((size, there, 'bytes'), (files, inodes, 'inodes')):
        if SPARE * need > have:
            raise Refused(f'not enough space: needs {math.ceil(SPARE * need)} {unit}, {have} free on {filesystem}')


def quota(filesystem, size, files):
    """Refuse a job that exceeds this user's quota; pass if no quota can be read."""
    try:
        said = subprocess.run(['quota', '-u', '-w', '-p', '-v', '-f', mount(filesystem)[0]], timeout=30,
                              capture_output=True, text=True).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    # file system, blocks of 1 KiB, soft limit, hard limit, grace, files, soft limit, hard limit, grace
    row = re.search(r'^\s*\S+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\*?\s+(\d+)\s+(\d+)\s+\d+\s*$', said, re.M)
    if row:
        blocks, soft, hard, held, few, most = map(int, row.groups())
        for need, used, limits, unit in ((size / 1024, blocks, (soft, hard), 'KiB'),
                                         (files, held, (few, most), 'files')):
            bound = min(filter(None, limits), default=math.inf)
            if used + SPARE * need > bound:
                raise Refused(f'quota of {bound} {unit} on {filesystem}: {used} used, needs '
                              f'{math.ceil(need)} more')


def kind(filesystem):
    return mount(filesystem)[1]


def mount(filesystem):
    """Return (mount point, type, device) of the file system that holds the folder."""
    place, best, found = os.path.realpath(filesystem), '', ('unknown', 'unknown')
    with contextlib.suppress(OSError), open('/proc/mounts', errors='surrogateescape') as mounts:
        for line in mounts:
            device, point, name = line.split(' ')[:3]
            point = re.sub(r'\\([0-7]{3})', lambda code: chr(int(code[1], 8)), point)
            if f'{place}/'.startswith(point.rstrip('/') + '/') and len(point) >= len(best):
                best, found = point, (name, device)
    return (best, *found)


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except (Refused, OSError, ValueError, TypeError) as error:
        print(f'room.py: {error}', file=sys.stderr)
        sys.exit(2)
