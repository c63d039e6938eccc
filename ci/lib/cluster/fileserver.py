"""The file server (diod, 9P) through which guests of User-mode Linux reach the shared folder.

hostfs would be simpler, but every file that a guest's user creates through it belongs to root.
"""

from __future__ import annotations

import shutil

import process
from errors import say
from model import STATE, Cluster

PORT = 5640
ETC = STATE / 'etc/head/parity-cluster/etc'
#: diod refuses a client whose name it cannot find.
SERVE = 'mount -n --bind "$1/hosts" /etc/hosts && mount -n --bind "$1/nsswitch.conf" /etc/nsswitch.conf && ' \
        'exec diod -f -n -c /dev/null -L stderr -l "$2" -e "$3"'


def how(backend: str) -> str:
    """Return how guests reach the shared folder: virtio (QEMU's own server), 9p, or hostfs without diod."""
    if backend != 'uml':
        return 'none' if backend == 'none' else 'virtio'
    if shutil.which('diod', path=process.ENVIRON['PATH']) and shutil.which('insmod', path=process.ENVIRON['PATH']):
        return '9p'
    say('virtual nodes: no diod or no insmod here (Debian: diod, kmod): only jobs of root can write the shared '
        'folder there')
    return 'hostfs'


def ensure(cluster: Cluster) -> None:
    """Start the server if it does not run. Guests of a former server have lost their folder: end them."""
    if cluster.files != '9p' or not cluster.virtual_nodes or process.alive('files'):
        return
    for node in cluster.computes():
        if node.kind == 'virtual':
            process.end(node.name)
    where = process.inside(process.alive('switch'), 'net')
    process.spawn('files', [*where, 'unshare', '--mount', '--', 'sh', '-c', SERVE, 'sh', str(ETC),
                            f'{cluster.files_address}:{PORT}', cluster.shared])
