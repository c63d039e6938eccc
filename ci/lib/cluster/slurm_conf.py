"""Slurm's configuration: one slurm.conf for all, this machine's clients included."""

from __future__ import annotations

from pathlib import Path

from model import MEMORY_MIB, STATE, Cluster, Node

#: Clients look here. SLURM_CONF would do, but a stale one makes them hang.
PLACE = Path('/etc/slurm/slurm.conf')
SOCKET = STATE / 'munge/socket'

COMMON = f"""\
# Made by ci/cluster up; gone with ci/cluster down.
ClusterName=onebox
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={SOCKET}
StateSaveLocation={STATE}/head/slurmctld
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmdParameters=config_overrides
MpiDefault=pmix
# without cgroups a job that exceeds its --mem lives on, and a killed one leaves processes
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobAcctGatherFrequency=task=10
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# start jobs at once, and notice a dead node within half a minute
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SlurmdTimeout=15
SlurmctldTimeout=30
MessageTimeout=20
ReturnToService=2
# an srun that no longer answers ends its job; so does one that a restarted controller takes for running
InactiveLimit=30
KillWait=3
UnkillableStepTimeout=10
# a job whose node died must fail visibly, not queue again in silence
JobRequeue=0
# whoever follows jobs may ask late
MinJobAge=600
# the limits of the submitting shell must not reach the node
PropagateResourceLimits=NONE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStoragePass={SOCKET}
MailProg=/bin/true
# all nodes share this machine's cores: a measurement takes the one licence
Licenses=machine:1
"""

CGROUP = """\
CgroupPlugin=cgroup/{version}
{systemd}ConstrainCores=no
ConstrainRAMSpace=yes
ConstrainDevices=no
"""

SLURMDBD = f"""\
AuthType=auth/munge
AuthInfo=socket={SOCKET}
DbdHost=head
SlurmUser=root
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass={{password}}
"""

def slurm_conf(cluster: Cluster) -> str:
    head = cluster.head().address  # numbers: this machine knows the name of no node
    lines = [COMMON, f'SlurmctldHost=head({head})', f'AccountingStorageHost={head}']
    for kind, feature in (('physical', 'physical,namespaces'), ('virtual', f'virtual,{cluster.backend}')):
        nodes = [node for node in cluster.computes() if node.kind == kind]
        names = ','.join(node.name for node in nodes)
        lines += [f'NodeName={n.name} NodeAddr={n.address} CPUs={n.cpus} RealMemory={MEMORY_MIB} Feature={feature}'
                  for n in nodes]
        if nodes:
            default = 'YES' if kind == 'physical' else 'NO'
            lines.append(f'PartitionName={kind} Nodes={names} Default={default} State=UP')
    return '\n'.join(lines) + '\n'


def cgroup_conf(node: Node) -> str:
    """Return cgroup.conf: guests' own kernels have cgroup v2; namespaces have this machine's version."""
    v2 = node.kind == 'virtual' or Path('/sys/fs/cgroup/cgroup.controllers').exists()
    return CGROUP.format(version='v2' if v2 else 'v1', systemd='IgnoreSystemd=yes\n' if v2 else '')
