"""Files that replace this machine's own in the nodes: names, PBS's configuration, mounts."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from model import MEMORY_MIB, STATE, Node
from node_files import CHECKOUT, OPENMPI, TABLE, nsswitch
from record import HEAD, Pbs

#: A node's own PBS_HOME. It outlives the node's processes.
HOME = STATE / 'home'
CONF = STATE / 'pbs.conf'
CONFIGURATION = f"""\
PBS_EXEC={{installed}}
PBS_HOME={HOME}
PBS_SERVER={HEAD}
PBS_LEAF_NAME={{name}}
PBS_START_SERVER={{serves}}
PBS_START_SCHED={{serves}}
PBS_START_COMM={{serves}}
PBS_START_MOM={{runs}}
PBS_CORE_LIMIT=unlimited
PBS_SCP=/bin/false
"""
#: Outputs are copied, not sent, since all nodes see the same files. System users run no jobs.
MOM = f"""\
$clienthost {HEAD}
$usecp *:/ /
$restrict_user_maxsysid 999
"""
#: Ended jobs keep their exit codes, root may act, a job may submit jobs (nightly), cycles are short.
SERVER = """\
set server job_history_enable = True
set server acl_roots = root@*
set server flatuid = True
set server scheduler_iteration = 10
"""
NODE = """\
create node {name}
set node {name} resources_available.ncpus = {cpus}
set node {name} resources_available.mem = {memory}mb
"""
OVER = {'hosts': '/etc/hosts', 'nsswitch.conf': '/etc/nsswitch.conf', 'profile.d': '/etc/profile.d',
        'pbs.conf': '/etc/pbs.conf', 'openmpi-mca-params.conf': '/etc/openmpi/openmpi-mca-params.conf'}


def write(pbs: Pbs) -> None:
    for node in pbs.all():
        facts = {'shared': pbs.shared, 'checkout': str(CHECKOUT), 'address': node.address,
                 'installed': pbs.installed}
        (STATE / 'nodes' / node.name).write_text(''.join(f'{k}={shlex.quote(v)}\n' for k, v in facts.items()))
        _run(pbs, node)


def _run(pbs: Pbs, node: Node) -> None:
    """Write a node's /run, which it copies at its start."""
    run = STATE / 'etc' / node.name
    own = run / STATE.name
    etc = own / 'etc'
    for folder in (etc, own / 'shared', own / 'checkout', own / 'home', run / 'lock', run / 'postgresql'):
        folder.mkdir(parents=True)
    (run / 'postgresql').chmod(0o1777)
    serves = int(node.kind == 'head')
    conf = CONFIGURATION.format(installed=pbs.installed, name=node.name, serves=serves, runs=1 - serves)
    for file in (own / 'pbs.conf', etc / 'pbs.conf'):
        file.write_text(conf)
    (own / 'mom').write_text(MOM)
    (own / 'qmgr').write_text(SERVER + ''.join(
        NODE.format(name=n.name, cpus=n.cpus, memory=MEMORY_MIB) for n in pbs.computes()))
    (etc / 'hosts').write_text('127.0.0.1 localhost\n' + ''.join(f'{n.address} {n.name}\n' for n in pbs.all()))
    (etc / 'nsswitch.conf').write_text(nsswitch())
    (etc / 'openmpi-mca-params.conf').write_text(OPENMPI)
    # as OpenPBS's packages do: a job's login shell begins without a PATH
    shutil.copytree('/etc/profile.d', etc / 'profile.d')
    (etc / 'profile.d/parity-pbs.sh').write_text(
        f'export PBS_CONF_FILE={CONF} PATH="$PATH:"{shlex.quote(pbs.installed)}/bin\n')
    over = [f'{STATE}/etc/{name} {place} none bind\n' for name, place in OVER.items() if Path(place).exists()]
    (etc / 'fstab').write_text(TABLE + ''.join(over))
