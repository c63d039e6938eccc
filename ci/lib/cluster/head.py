"""The head node: MariaDB, slurmdbd and slurmctld in namespaces of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import network
import process
from errors import Ended
from model import STATE, Cluster

#: Each needs the ones before it.
DAEMONS = ('mariadbd', 'slurmdbd', 'slurmctld')
FILES = STATE / 'head'
PORTS = {'mariadbd': 3306, 'slurmdbd': 6819, 'slurmctld': 6817}
MARIADB = ['--no-defaults', '--user=mysql', f'--datadir={FILES}/mysql', '--innodb-log-file-size=8M',
           # the files live no longer than the cluster does
           '--innodb-flush-log-at-trx-commit=0', '--innodb-doublewrite=0']
INSTALL = ['mariadb-install-db', *MARIADB, '--skip-test-db']
WORDS = {
    'mariadbd': ['mariadbd', *MARIADB, '--bind-address=127.0.0.1', '--skip-name-resolve',
                 f'--socket={FILES}/mysql/socket', f'--pid-file={FILES}/mysql/pid',
                 f'--init-file={FILES}/mysql/init.sql', '--innodb-buffer-pool-size=64M', '--performance-schema=0'],
    'slurmdbd': ['slurmdbd', '-D'],
    'slurmctld': ['slurmctld', '-D'],
}


def ensure_node(cluster: Cluster) -> None:
    if process.alive('head'):
        return
    for name in DAEMONS:
        process.end(name)
    pid = process.spawn('head', process.new_node('physical', 'head'), inner=True)
    network.plug_namespace(cluster.head(), pid)
    process.wait(10, lambda: Path(f'/proc/{pid}/root{STATE}/ready').exists(), 'head did not start', 'head')


def ensure_database() -> None:
    """Make MariaDB's own folder, once."""
    if (FILES / 'mysql/init.sql').exists():
        return
    with process.log('mariadbd').open('ab') as out:
        if subprocess.run(INSTALL, stdout=out, stderr=out, cwd='/', env=process.ENVIRON).returncode:
            raise Ended(4, f'MariaDB made no database: {process.log("mariadbd")}')
    (STATE / 'init.sql').rename(FILES / 'mysql/init.sql')


def ensure_daemons() -> None:
    for name in DAEMONS:
        ensure_daemon(name)


def ensure_daemon(name: str) -> None:
    if not process.alive(name):
        pid = process.alive('head')
        process.spawn(name, [*process.inside(pid, *process.NODE), *WORDS[name]], inner=True)
    process.wait(30, lambda: _listens(name), f'{name} does not answer', name)


def _listens(name: str) -> bool:
    """Return True if something listens on the daemon's port in the head's network."""
    wanted = f':{PORTS[name]:04X}'
    pid = process.alive('head')
    lines = [line.split() for file in ('tcp', 'tcp6') for line in Path(f'/proc/{pid}/net/{file}').open()]
    return any(line[1].endswith(wanted) and line[3] == '0A' for line in lines[1:])
