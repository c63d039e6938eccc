"""Changes to this machine itself, each with its way back."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import kernel
import machine
import network
import process
import qemu
from errors import Ended
from model import STATE, Cluster
from slurm_conf import PLACE, SOCKET

MAPS = Path('/proc/sys/vm/max_map_count')
#: Guests of 1 GiB need that many under a load such as STREAM.
MAPS_WANTED = 1048576
MAPS_BEFORE = STATE / 'max_map_count'
CONF = STATE / 'slurm.conf'
NEEDED = ('slurmctld', 'slurmd', 'slurmdbd', 'sinfo', 'munged', 'mariadbd', 'mariadb-install-db', 'ip', 'tc',
          'nsenter', 'unshare', 'taskset', 'findmnt')


def check() -> None:
    """Refuse, before any change, a machine on which the cluster cannot work."""
    machine.check('ci/cluster', NEEDED, 'slurm-wlm slurmdbd slurm-wlm-mysql-plugin munge mariadb-server iproute2 '
                                        'util-linux')
    if os.path.lexists(PLACE) and not _ours():
        raise Ended(4, f'{PLACE} is there and not from ci/cluster: a Slurm is configured here already')
    if os.environ.get('SLURM_CONF', str(PLACE)) != str(PLACE):
        raise Ended(2, f'SLURM_CONF is {os.environ["SLURM_CONF"]}: clients here would ask another Slurm; unset it')


def make_state(cluster: Cluster) -> None:
    """Make the state folder, with the nodes' programs and folders for logs and records."""
    for folder in ('bin', 'log', 'pids', 'run', 'munge', 'head/slurmctld', 'head/mysql', 'mail', 'uml', 'etc',
                   'nodes'):
        (STATE / folder).mkdir(mode=0o755, parents=True)
    (STATE / 'mail').chmod(0o700)
    shutil.chown(STATE / 'head/mysql', 'mysql')
    for name in ('node', 'checkout', 'physical', 'guest', 'guest-init', 'uml', 'qemu'):
        shutil.copy(Path(__file__).parent / name, STATE / 'bin' / name)
    if cluster.backend in qemu.PROCESSORS:
        kernel.prepare(qemu.FILES)


def ensure(cluster: Cluster) -> None:
    """Serve this machine's clients: slurm.conf in its usual place, and a munged with the cluster's key."""
    if cluster.backend == 'uml' and int(MAPS.read_text()) < MAPS_WANTED:
        MAPS_BEFORE.write_text(MAPS.read_text())
        MAPS.write_text(str(MAPS_WANTED))
    if not process.alive('munged'):
        SOCKET.unlink(missing_ok=True)
        process.spawn('munged', ['munged', '--foreground', f'--key-file={STATE}/munge/key', f'--socket={SOCKET}',
                                 f'--pid-file={STATE}/munge/pid', f'--seed-file={STATE}/munge/seed', '--force'])
    if not _ours():
        PLACE.parent.mkdir(exist_ok=True)
        PLACE.symlink_to(CONF)


def clear(keep: Path | None = None) -> list[str]:
    """Take everything back but the folder `keep`; return the names of leftovers."""
    left = [f'process {pid}' for pid in process.end_all()]
    if Path(f'/sys/class/net/{network.LINK}').exists():
        subprocess.run(['ip', 'link', 'del', network.LINK], capture_output=True)
    if _ours():
        PLACE.unlink()
    if MAPS_BEFORE.exists() and int(MAPS.read_text()) == MAPS_WANTED:
        MAPS.write_text(MAPS_BEFORE.read_text())
    left += _clear_cgroups()
    for entry in STATE.iterdir() if STATE.exists() else ():
        if entry == keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()
    kept = keep is not None and keep.exists()
    if STATE.exists() and not kept:
        shutil.rmtree(STATE, ignore_errors=True)
    return left + ([str(STATE)] if STATE.exists() and not kept else [])


def _ours() -> bool:
    """Return True if slurm.conf is our link. After a reboot it leads nowhere, and clients say so at once."""
    return PLACE.is_symlink() and os.readlink(PLACE) == str(CONF)


def _clear_cgroups() -> list[str]:
    """Remove our cgroups, children before parents: the kernel removes only empty ones. Return the leftovers."""
    tops = [top for pattern in ('parity-cluster', '*/parity-cluster')
            for top in Path('/sys/fs/cgroup').glob(pattern)]
    for top in tops:
        process.wait(5, lambda top=top: _removed(top), f'{top}: processes still there')
    return [str(top) for top in tops if top.exists()]


def _removed(top: Path) -> bool:
    for folder, _, _ in os.walk(top, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            pass
    return not top.exists()
