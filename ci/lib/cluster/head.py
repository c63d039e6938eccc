"""The head node: MariaDB, slurmdbd and slurmctld in namespaces of their own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import network
import nodes
import process
import slurm_conf
from errors import Ended, say
from model import STATE, Cluster

#: Each needs the ones before it.
DAEMONS = ('mariadbd', 'slurmdbd', 'slurmctld')
FILES = STATE / 'head'
PORTS = {'mariadbd': 3306, 'slurmdbd': 6819}
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


def ensure_daemons(cluster: Cluster) -> None:
    for name in DAEMONS:
        ensure_daemon(name)
    for words in slurm_conf.ACCOUNTS if cluster.site else ():
        nodes.ask('sacctmgr', '-i', *words.split())


def ensure_daemon(name: str) -> None:
    # slurmctld listens before it reads its state
    ready = nodes.slurm_states if name == 'slurmctld' else lambda: _listens(name)
    try:
        if not process.alive(name):
            _spawn(name)
        process.wait(30, ready, f'{name} does not answer', name)
    except Ended as wrong:
        if name != 'slurmctld' or not re.search("fatal: .*(to recover|'-i')", str(wrong)):
            raise
        say('slurmctld was killed before it had saved its state: it starts without what is lost (-i)')
        _spawn(name, '-i')
        process.wait(30, ready, f'{name} does not answer', name)


def _spawn(name: str, *more: str) -> None:
    pid = process.alive('head')
    process.spawn(name, [*process.inside(pid, *process.NODE), *WORDS[name], *more], inner=True)


def _listens(name: str) -> bool:
    """Return True if something listens on the daemon's port in the head's network."""
    wanted = f':{PORTS[name]:04X}'
    pid = process.alive('head')
    lines = [line.split() for file in ('tcp', 'tcp6') for line in Path(f'/proc/{pid}/net/{file}').open()]
    return any(line[1].endswith(wanted) and line[3] == '0A' for line in lines[1:])
