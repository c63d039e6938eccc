"""A guest of User-mode Linux: a kernel that runs as processes of this machine, on this machine's own files."""

from __future__ import annotations

import shutil

from model import GUEST_MIB, STATE, Node

#: Parts of its kernel that no node uses and that take 1 s of its start: RAID speed trials above all.
UNUSED = 'initcall_blacklist=raid6_select_algo,init_btrfs_fs,init_zswap'


def guest(node: Node) -> list[str]:
    """The words that start a node; its console is on stdin."""
    place = STATE / 'uml' / node.name
    shutil.rmtree(place, ignore_errors=True)  # a former guest's; it would refuse to start
    place.mkdir(parents=True)
    net = f'vec0:transport=tap,ifname={node.name},depth=128,gro=1,mac={node.mac}'
    return ['env', 'TMPDIR=/dev/shm', 'linux.uml', f'mem={GUEST_MIB}M', 'root=/dev/root', 'rootfstype=hostfs',
            'rootflags=/', 'ro', f'init={STATE}/bin/guest-init', 'quiet', UNUSED, 'panic=-1', net,
            'con=null', 'con0=fd:0,fd:1', 'ssl=null', f'uml_dir={place}/', f'umid={node.name}',
            f'node={node.name}']
