"""What the virtual nodes are made of, and how many fit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from model import GUEST_MIB
from told import say

MIB = 2**20


def choose(wanted: int) -> tuple[str, int]:
    """The backend and the number of virtual nodes, said plainly where it is not what one would hope for."""
    if Path('/dev/kvm').exists():
        say('virtual nodes: KVM is not supported by ci/cluster: using User-mode Linux')
    if not shutil.which('linux.uml') or not Path('/usr/lib/uml/modules').is_dir():
        say('virtual nodes: none: no linux.uml here (Debian: user-mode-linux); no partition virtual')
        return 'none', 0
    if not Path('/dev/net/tun').exists():
        say('virtual nodes: none: no /dev/net/tun here; no partition virtual')
        return 'none', 0
    fit = _room() // GUEST_MIB
    count = wanted if wanted <= fit else min(2, wanted, fit)
    if count < wanted:
        say(f'virtual nodes: {count} of {wanted}: memory for more is short ({GUEST_MIB} MiB each)')
    return ('uml', count) if count else ('none', 0)


def _room() -> int:
    """MiB that guests may have together: half of what is free, in what /dev/shm still takes."""
    lines = dict(line.split(':') for line in Path('/proc/meminfo').read_text().splitlines())
    free = int(lines['MemAvailable'].split()[0]) // 1024
    shm = os.statvfs('/dev/shm')
    return min(free // 2, shm.f_bavail * shm.f_frsize // MIB)
