"""Files that replace this machine's own in the nodes: names, Slurm's configuration, keys, mounts."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
from pathlib import Path

import network
import slurm_conf
import uml
from model import STATE, Cluster, Node

CHECKOUT = Path(__file__).resolve().parents[3]

#: MPI uses only the node's own link. Ranks of nodes that share a core yield to one another. They stay where
#: taskset put the node: hwloc would put every node's first rank on core 0.
OPENMPI = """\
pml = ob1
btl = tcp,self
btl_tcp_if_include = eth0
oob_tcp_if_include = eth0
mpi_yield_when_idle = 1
hwloc_base_binding_policy = none
"""
#: Mounts over this machine's own folders, made once the node's /run is there. With these source names, `mount -a`
#: does not take a mount of this machine for one of these.
TABLE = """\
parity-tmp /tmp tmpfs mode=1777
parity-tmp /var/tmp tmpfs mode=1777
parity-tmp /dev/shm tmpfs mode=1777
"""
OVER = {'hosts': '/etc/hosts', 'nsswitch.conf': '/etc/nsswitch.conf', 'slurm': '/etc/slurm',
        'openmpi-mca-params.conf': '/etc/openmpi/openmpi-mca-params.conf'}
#: File systems that a guest's kernel does not mount by itself.
GUEST_TABLE = """\
sysfs /sys sysfs defaults
cgroup2 /sys/fs/cgroup cgroup2 defaults
devpts /dev/pts devpts gid=5,mode=620,x-mount.mkdir
parity-shm /dev/shm tmpfs x-mount.mkdir
"""


def write(cluster: Cluster) -> None:
    password = os.urandom(16).hex()
    key = os.urandom(1024)
    _secret(STATE / 'munge/key', key)
    (STATE / 'slurm.conf').write_text(slurm_conf.slurm_conf(cluster))
    (STATE / 'fstab.guest').write_text(GUEST_TABLE)
    _devices()
    for node in cluster.all():
        _facts(cluster, node)
        _run(cluster, node, key)
    _secret(_etc('head') / 'slurm/slurmdbd.conf', slurm_conf.SLURMDBD.format(password=password).encode())
    _secret(STATE / 'init.sql', slurm_conf.DATABASE.format(password=password).encode())
    shutil.chown(STATE / 'init.sql', 'mysql')


def _etc(name: str) -> Path:
    """Return the folder of a node's files, in its future /run."""
    return STATE / 'etc' / name / 'parity-cluster/etc'


def _run(cluster: Cluster, node: Node, key: bytes) -> None:
    """Write a node's /run, which it copies at its start."""
    run, etc = STATE / 'etc' / node.name, _etc(node.name)
    own = run / 'parity-cluster'
    for folder in (run / 'slurm/spool', run / 'lock', etc / 'slurm', own / 'munge', own / 'shared', own / 'head',
                   own / 'checkout', own / 'slurm'):
        folder.mkdir(parents=True)
    (own / 'mail').mkdir(mode=0o700)
    _secret(own / 'munge/key', key)
    (etc / 'slurm/slurm.conf').write_text(slurm_conf.slurm_conf(cluster))
    (etc / 'slurm/cgroup.conf').write_text(slurm_conf.cgroup_conf(node))
    if cluster.site:
        (etc / 'slurm/gres.conf').write_text(slurm_conf.GRES if node.kind == 'physical' else '')
        for number in range(4):
            (run / f'slurm/gpu{number}').touch()
        resume = etc / 'slurm/resume'
        resume.write_text(slurm_conf.RESUME.format(prefix=cluster.slurm or '/usr', shared=cluster.shared))
        resume.chmod(0o755)
    (etc / 'hosts').write_text(_hosts(cluster))
    (etc / 'nsswitch.conf').write_text(nsswitch())
    (etc / 'openmpi-mca-params.conf').write_text(OPENMPI)
    over = [f'{STATE}/etc/{name} {place} none bind\n' for name, place in OVER.items() if Path(place).exists()]
    (etc / 'fstab').write_text(TABLE + ''.join(over))


def _facts(cluster: Cluster, node: Node) -> None:
    """Write the facts that a node's own start script reads."""
    modules = uml.Linux(Path(cluster.uml)).modules if cluster.uml else ''
    facts = {'backend': cluster.backend, 'checkout': str(CHECKOUT), 'slurm': cluster.slurm,
             'shared': cluster.shared, 'modules': str(modules),
             'files': cluster.files, 'server': cluster.files_address, 'address': node.address,
             'cloud': 'yes' if node.kind == 'cloud' else '', 'second': '', 'second_rate': '', 'second_burst': ''}
    for link, name in zip(node.links, ('', 'second_'), strict=False):
        burst = network.burst(link.rate) if link.rate else ''
        facts |= {f'{name}rate': link.rate or '', f'{name}burst': str(burst)}
        facts['second' if name else 'address'] = link.address
    lines = [f'{name}={shlex.quote(value)}\n' for name, value in facts.items()]
    (STATE / 'nodes' / node.name).write_text(''.join(lines))


def _devices() -> None:
    """Make the links in /dev that programs expect and a kernel alone does not make."""
    (STATE / 'dev').mkdir()
    for name, to in (('fd', '/proc/self/fd'), ('stdin', 'fd/0'), ('stdout', 'fd/1'), ('stderr', 'fd/2')):
        (STATE / 'dev' / name).symlink_to(to)


def _hosts(cluster: Cluster) -> str:
    names = [f'{node.address} {node.name}' for node in cluster.all()]
    return '\n'.join(['127.0.0.1 localhost', *names, f'{cluster.host} {socket.gethostname()}']) + '\n'


def nsswitch() -> str:
    """Return this machine's nsswitch.conf, with host names from the file only: nodes have no name server."""
    lines = Path('/etc/nsswitch.conf').read_text().splitlines()
    kept = [line for line in lines if not line.startswith('hosts:')]
    return '\n'.join([*kept, 'hosts: files']) + '\n'


def _secret(path: Path, what: bytes) -> None:
    """Write a file that only root may read, from the first moment."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as out:
        out.write(what)
