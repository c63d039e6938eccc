"""A guest of User-mode Linux: a kernel that runs as processes of this machine, on this machine's files."""

from __future__ import annotations

import shutil
import subprocess
import tempfile

from model import GUEST_MIB, STATE, Node

#: Unused parts of its kernel, above all RAID speed trials, which would take 1 s of its start.
UNUSED = 'initcall_blacklist=raid6_select_algo,init_btrfs_fs,init_zswap'


#: In a working guest the first program ends by itself. If it is killed, no program can run.
KILLED = 'Attempted to kill init! exitcode=0x0000000b'


def why_none_boots() -> str | None:
    """Boot a guest until /bin/true; return None, or the reason why no program runs in it.

    Linux 6.1 as User-mode Linux cannot set the registers of a processor with AMX (PTRACE_SETREGSET: EFAULT).
    """
    with tempfile.TemporaryDirectory(prefix='parity-guest-') as place:
        words = [*_kernel(64, '/bin/true', f'{place}/', 'trial'), 'con0=null,fd:1']
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors='replace', timeout=20)
        except subprocess.TimeoutExpired:
            return None         # too slow to judge: `up` waits for its nodes
    said = done.stdout + done.stderr
    if KILLED not in said:
        return None
    told = [line for line in said.splitlines() if line.startswith('userspace - ')]
    return f'User-mode Linux runs no program here: {told[0] if told else KILLED}'


def guest(node: Node) -> list[str]:
    """Return the words that start a node; its console is on stdin."""
    place = STATE / 'uml' / node.name
    shutil.rmtree(place, ignore_errors=True)  # a former guest's; it would refuse to start
    place.mkdir(parents=True)
    nets = [f'vec{i}:transport=tap,ifname={link.port},depth=128,gro=1,mac={link.mac}'
            for i, link in enumerate(node.links)]
    return [*_kernel(GUEST_MIB, f'{STATE}/bin/guest-init', f'{place}/', node.name), UNUSED, *nets,
            'con0=fd:0,fd:1', f'node={node.name}']


def _kernel(mib: int, init: str, folder: str, name: str) -> list[str]:
    return ['env', 'TMPDIR=/dev/shm', 'linux.uml', f'mem={mib}M', 'root=/dev/root', 'rootfstype=hostfs',
            'rootflags=/', 'ro', f'init={init}', 'quiet', 'panic=-1', 'con=null', 'ssl=null', f'uml_dir={folder}',
            f'umid={name}']
