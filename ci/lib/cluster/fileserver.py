"""The shared folder of guests of User-mode Linux: a file server (diod, 9P) on the cluster's own network.

hostfs would be simpler, but whatever a guest's user creates through it belongs to root.
"""

from __future__ import annotations

import shutil

import process
from model import STATE, Cluster
from told import say

PORT = 5640
ETC = STATE / 'etc/head/parity-cluster/etc'
#: diod turns down a client whose name it cannot find.
SERVE = 'mount -n --bind "$1/hosts" /etc/hosts && mount -n --bind "$1/nsswitch.conf" /etc/nsswitch.conf && ' \
        'exec diod -f -n -c /dev/null -L stderr -l "$2" -e "$3"'


def how(backend: str) -> str:
    """By what guests share the folder: QEMU's own server; 9p, or hostfs where there is no diod."""
    if backend != 'uml':
        return 'none' if backend == 'none' else 'virtio'
    if shutil.which('diod', path=process.ENVIRON['PATH']) and shutil.which('insmod', path=process.ENVIRON['PATH']):
        return '9p'
    say('virtual nodes: no diod or no insmod here (Debian: diod, kmod): only jobs of root can write the shared '
        'folder there')
    return 'hostfs'


def ensure(cluster: Cluster) -> None:
    """Guests of a former server have lost their folder for good: they start again."""
    if cluster.files != '9p' or not cluster.virtual_nodes or process.alive('files'):
        return
    for node in cluster.computes():
        if node.kind == 'virtual':
            process.end(node.name)
    where = process.inside(process.alive('switch'), 'net')
    process.spawn('files', [*where, 'unshare', '--mount', '--', 'sh', '-c', SERVE, 'sh', str(ETC),
                            f'{cluster.files_address}:{PORT}', cluster.shared])
