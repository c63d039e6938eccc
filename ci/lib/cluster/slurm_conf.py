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
# at least five times MessageTimeout: a shorter one drains nodes (KillTaskFailed)
UnkillableStepTimeout=100
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

#: What sites set, beside that. Each line has made parity fail somewhere.
SITE = """\
AccountingStorageEnforce=associations,limits,qos
PrivateData=jobs,nodes,usage,users
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
GresTypes=gpu
ResumeProgram=/etc/slurm/resume
SuspendProgram=/bin/true
ResumeTimeout=20
NodeName=nid[000003-000006] NodeAddr=192.0.2.1 CPUs=1 RealMemory=1200 Feature=cloud State=CLOUD
NodeName=old1 NodeAddr=192.0.2.1 CPUs=1 RealMemory=1200 State=DOWN Reason="fan is broken, RMA 12"
PartitionName=all Nodes=ALL PreemptMode=OFF
PartitionName=cloud Nodes=nid[000001-000006] PreemptMode=OFF SuspendTime=3600
PartitionName=spare Nodes=p1 PriorityTier=0 PreemptMode=CANCEL
PartitionName=urgent Nodes=p1 PriorityTier=10 PreemptMode=OFF
PartitionName=secret Nodes=p1 PreemptMode=OFF Hidden=YES
PartitionName=whole Nodes=p1 PreemptMode=OFF OverSubscribe=EXCLUSIVE
PartitionName=others Nodes=p1 PreemptMode=OFF AllowAccounts=others
PartitionName=noqos Nodes=p1 PreemptMode=OFF DenyQos=normal
PartitionName=elsewhere Nodes=p1 PreemptMode=OFF AllocNodes=p1
"""
#: Who may do what there (sacctmgr).
ACCOUNTS = ('add account staff,others', 'add qos night', 'modify qos night set MaxSubmitJobsPerUser=1',
            'add user daemon,root account=staff', 'modify user daemon,root set defaultaccount=staff qos+=night')
#: The GPUs of the physical nodes are plain files.
GRES = 'Name=gpu Type=a100 File=/run/slurm/gpu[0-3]\n'
RESUME = """\
#!/bin/sh
for node in $({prefix}/bin/scontrol show hostnames "$1"); do : >'{shared}'/.wake-$node; done
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
#: slurmdbd would make the database itself. With the client library of MariaDB 11.8.9 its next query fails then.
DATABASE = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
"""

def slurm_conf(cluster: Cluster) -> str:
    head = cluster.head().address  # numbers: this machine knows the name of no node
    lines = [COMMON, f'SlurmctldHost=head({head})', f'AccountingStorageHost={head}']
    for kind, feature in (('physical', 'physical,namespaces'), ('virtual', f'virtual,{cluster.backend}'),
                          ('cloud', 'cloud')):
        nodes = [node for node in cluster.computes() if node.kind == kind]
        names = ','.join(node.name for node in nodes)
        more = {'cloud': ' State=CLOUD', 'physical': ' Gres=gpu:a100:4'}.get(kind, '') if cluster.site else ''
        lines += [f'NodeName={n.name} NodeAddr={n.address} CPUs={n.cpus} RealMemory={MEMORY_MIB} '
                  f'Feature={feature}{more}' for n in nodes]
        if nodes and kind != 'cloud':
            default = 'YES' if kind == 'physical' else 'NO'
            mode = ' PreemptMode=OFF' if cluster.site else ''
            lines.append(f'PartitionName={kind} Nodes={names} Default={default} State=UP{mode}')
    return '\n'.join(lines) + '\n' + (SITE if cluster.site else '')


def cgroup_conf(node: Node) -> str:
    """Return cgroup.conf: guests' own kernels have cgroup v2; namespaces have this machine's version."""
    v2 = node.kind == 'virtual' or Path('/sys/fs/cgroup/cgroup.controllers').exists()
    return CGROUP.format(version='v2' if v2 else 'v1', systemd='IgnoreSystemd=yes\n' if v2 else '')
