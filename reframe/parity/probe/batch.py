"""The answers of the batch system to a login node. Nothing is submitted, nothing is changed."""

from __future__ import annotations

import contextlib
import getpass
import grp
import os
import re
import shutil

from parity.base.errors import InfrastructureError, UsageError
from parity.probe.model import Cluster, Node, Queue
from parity.scheduler.command import SchedulerError, answer, seconds
from parity.scheduler.pbs import PbsNode, hosts, left, records, size

#: How a job asks each batch system for nodes of a kind.
ASKS = {'slurm': {'label': '--constraint={}', 'gpu': '--gres=gpu:{}:{}', 'any gpu': '--gres=gpu:{1}'},
        'pbs': {'label': '{}', 'gpu': 'ngpus={1}', 'any gpu': 'ngpus={1}'}}


def cluster() -> Cluster:
    """Ask Slurm, or else PBS. UsageError for neither, InfrastructureError for no answer."""
    refused = []
    for commands, asked in ((('scontrol',), slurm_cluster), (('pbsnodes', 'qstat'), pbs_cluster)):
        if all(map(shutil.which, commands)):
            try:
                return asked()
            except SchedulerError as err:       # its exit code is the command's own
                refused.append(str(err))
    if refused:
        raise InfrastructureError('; '.join(refused))
    raise UsageError('neither Slurm (scontrol) nor PBS (pbsnodes, qstat) is on PATH: run this on a login node; '
                     'a machine without a batch system is the system `local`')


def slurm_cluster() -> Cluster:
    """Ask Slurm. SchedulerError where it does not answer."""
    nodes = slurm_nodes(answer(['scontrol', '--oneliner', 'show', 'node']))
    shown = configured(answer(['scontrol', 'show', 'config']))
    default, own = accounts(maybe('sacctmgr', '-nP', 'show', 'user', getpass.getuser(), 'withassoc',
                                  'format=defaultaccount,account'))
    queues = slurm_queues(answer(['scontrol', '--oneliner', 'show', 'partition']), _groups(), own)
    known = licences(maybe('scontrol', '--oneliner', 'show', 'licenses'))
    plugins, mpi, notes = maybe('srun', '--mpi=list'), shown.get('MpiDefault', ''), []
    if 'slurmdbd' not in shown.get('AccountingStorageType', ''):
        notes.append("Slurm keeps no accounting here (AccountingStorageType), and ReFrame's backend slurm needs "
                     'sacct; scheduler: squeue does not, and reads no exit code')
    if 'associations' in shown.get('AccountingStorageEnforce', '') and not default:
        notes.append('Slurm wants an account (AccountingStorageEnforce) and sacctmgr shows none of yours: '
                     'add --account=NAME to each access')
    if not plugins:
        notes.append('srun --mpi=list does not answer: launcher and env_vars are a guess')
    return Cluster(
        'slurm', f'Slurm {shown.get("SLURM_VERSION", "")}'.strip(), shown.get('ClusterName', ''), tuple(nodes),
        tuple(queues), 'scontrol show node', default, tuple(sorted(own)), tuple(known), 'srun',
        f'scontrol show config: MpiDefault={mpi or "none"}', mpi_type(plugins, mpi), tuple(notes))


def pbs_cluster() -> Cluster:
    """Ask PBS. SchedulerError where it does not answer."""
    shown = answer(['qstat', '-Q', '-f'])
    servers = records(answer(['qstat', '-B', '-f']), 'Server: ')
    server = next(({'name': name, **record} for name, record in servers.items()), {})
    nodes = pbs_nodes(answer(['pbsnodes', '-a']), shown)
    queues = pbs_queues(shown, server.get('default_queue', ''), _groups(), getpass.getuser())
    notes = () if server.get('job_history_enable') == 'True' else (
        'PBS keeps no history of jobs (qmgr -c "set server job_history_enable = True"): '
        'how a job ended is then not known',)
    return Cluster('pbs', f'PBS {server.get("pbs_version", "")}'.strip(), server.get('name', ''), tuple(nodes),
                   tuple(queues), 'pbsnodes -a', launcher='mpirun',
                   launcher_source='PBS has no launcher of its own', notes=notes)


def maybe(*command: str) -> str:
    """Return the output of a command that a site may lack; '' where it fails."""
    try:
        return answer(list(command))
    except SchedulerError:
        return ''


def _groups() -> set[str]:
    found = set()
    for number in {*os.getgroups(), os.getegid()}:
        with contextlib.suppress(KeyError):
            found.add(grp.getgrgid(number).gr_name)
    return found


#: States in which a node takes jobs, now or when its jobs are done (sinfo(1), NODE STATE CODES).
_TAKES = {'IDLE', 'ALLOCATED', 'MIXED', 'COMPLETING', 'PLANNED', 'RESERVED', 'CLOUD', 'POWERED_DOWN',
          'POWERING_UP', 'POWERING_DOWN', 'POWERED_UP', 'DYNAMIC_NORM'}
#: MPI plugins in our order: today's MPIs are built with the first.
_PLUGINS = ('pmix', 'cray_shasta', 'pmi2')


def _records(text: str, first: str) -> list[dict[str, str]]:
    """Read lines of KEY=VALUE. Free text (Reason, Comment) comes last: of a key given twice the first counts."""
    return [dict(reversed(re.findall(r'(?:^|\s)([A-Z][A-Za-z_/]*)=(\S*)', line)))
            for line in text.splitlines() if line.startswith(f'{first}=')]


def slurm_nodes(text: str) -> list[Node]:
    """Read the nodes of `scontrol --oneliner show node`."""
    return [Node(r['NodeName'], tuple(r['Partitions'].split(',')), _cores(r), threads=int(r['ThreadsPerCore']),
                 memory_bytes=int(r['RealMemory']) - int(r.get('MemSpecLimit', 0)) << 20,
                 gpus=gpus(r.get('Gres', '')),
                 labels=tuple(sorted(set(r.get('AvailableFeatures', '').split(',')) - {'', '(null)'})),
                 up=set(r['State'].upper().split('+')) <= _TAKES, state=r['State'].lower())
            for r in _records(text, 'NodeName') if r.get('Partitions')]


def _cores(record: dict[str, str]) -> int:
    """Return a node's cores without those that the site keeps for itself."""
    cpus, real = int(record['CPUTot']), int(record['Sockets']) * int(record['CoresPerSocket'])
    return max(1, real * int(record.get('CPUEfctv', cpus)) // cpus)


def gpus(gres: str) -> tuple[tuple[str, int], ...]:
    """Read ``gpu:a100:4(S:0-1),lscratch:300`` as (('a100', 4),); a GPU without a type is ''."""
    found = re.findall(r'(?:^|,)gpu:(?:([A-Za-z][\w.-]*):)?(\d+)', gres)
    return tuple(sorted((kind, int(count)) for kind, count in found if int(count)))


def slurm_queues(text: str, groups: set[str], accounts: set[str]) -> list[Queue]:
    """Read the partitions of `scontrol --oneliner show partition`, and why this user cannot use one."""
    return [Queue(r['PartitionName'], default=r.get('Default') == 'YES', longest=seconds(r.get('MaxTime', '')),
                  most_nodes=int(most) if (most := r.get('MaxNodes', '')).isdecimal() else None,
                  closed=_slurm_closed(r, groups, accounts), up=r.get('State') == 'UP',
                  exclusive=r.get('OverSubscribe') == 'EXCLUSIVE',
                  memory=next((f'{key}={r[key]}' for key in ('DefMemPerCPU', 'DefMemPerNode')
                               if r.get(key, 'UNLIMITED') not in ('UNLIMITED', '0')), ''))
            for r in _records(text, 'PartitionName')]


def _slurm_closed(record: dict[str, str], groups: set[str], accounts: set[str]) -> str:
    # DOWN and DRAIN are of today: parity doctor says so
    for key, value in (('State', 'INACTIVE'), ('RootOnly', 'YES'), ('ReqResv', 'YES')):
        if record.get(key) == value:
            return f'{key}={value}'
    for key, own in (('AllowGroups', groups), ('AllowAccounts', accounts)):
        allowed = record.get(key, 'ALL')
        if allowed != 'ALL' and own and not own & set(allowed.split(',')):
            return f'{key}={allowed}'
    denied = record.get('DenyAccounts', '')
    return f'DenyAccounts={denied}' if accounts and accounts <= set(denied.split(',')) else ''


def configured(text: str) -> dict[str, str]:
    """Read the lines KEY = VALUE of `scontrol show config`."""
    return dict(re.findall(r'^(\w+)\s+= (.*?)\s*$', text, re.MULTILINE))


def licences(text: str) -> list[str]:
    """Read `name:total` from `scontrol --oneliner show licenses`."""
    return [f'{r["LicenseName"]}:{r["Total"]}' for r in _records(text, 'LicenseName')]


def mpi_type(listed: str, default: str) -> str:
    """Return the plugin that srun must be given; '' where its default starts ranks of one MPI job."""
    offered = set(re.findall(r'\b[a-z]\w+', listed.partition('...')[2]))
    return '' if default.startswith(_PLUGINS) else next((plugin for plugin in _PLUGINS if plugin in offered), '')


def accounts(text: str) -> tuple[str, set[str]]:
    """Read the default account and all others of `sacctmgr -nP ... format=defaultaccount,account`."""
    rows = [line.split('|') for line in text.splitlines() if '|' in line]
    return (rows[0][0] if rows else ''), {account for _, account, *_ in rows if account}


#: Resources that every node has, and that say nothing about its kind.
_COMMON = {'arch', 'host', 'vnode', 'mem', 'ncpus', 'ngpus', 'vmem', 'Qlist', 'hbmem', 'naccelerators',
           'accelerator_memory', 'hpmem', 'nmics'}


def pbs_nodes(text: str, queues: str) -> list[Node]:
    """Read the hosts of `pbsnodes -a`, with the queues of `qstat -Q -f` that they serve."""
    found = hosts(text)
    served: dict[str, list[str]] = {host.name: [] for host in found}
    for queue, record in records(queues, 'Queue: ').items():
        # a queue asks this of each node for all of its jobs, amounts aside
        chunk = {key.partition('.')[2]: value for key, value in record.items()
                 if key.startswith('default_chunk.') and size(value) is None}
        for host in left(found, queue, chunk):
            if queue in host.resources.get('Qlist', queue).split(','):      # customary, without a default_chunk
                served[host.name].append(queue)
    return [_node(host, tuple(served[host.name])) for host in found]


def _node(host: PbsNode, queues: tuple[str, ...]) -> Node:
    have = host.resources
    count = int(have['ngpus']) if have.get('ngpus', '').isdecimal() else 0
    kind = next((value for key, value in have.items() if re.search(r'gpu_?(type|model|name)', key, re.I)), '')
    labels = tuple(sorted(f'{key}={value}' for key, value in have.items()
                          if key not in _COMMON and re.fullmatch(r'[\w.-]+', value) and not value.isdecimal()))
    return Node(host.name, queues, cores=int(have.get('ncpus') or 1), threads=1,
                memory_bytes=size(have.get('mem', '')) or 0, gpus=((kind.lower(), count),) if count else (),
                labels=labels, up=host.is_available, state=','.join(sorted(host.states)))


def pbs_queues(text: str, default: str, groups: set[str], user: str) -> list[Queue]:
    """Read the queues of `qstat -Q -f` that run jobs (routing queues only hand them on)."""
    return [Queue(name, default=name == default, longest=seconds(record.get('resources_max.walltime', '')),
                  most_nodes=int(most) if (most := record.get('resources_max.nodect', '')).isdecimal() else None,
                  closed=_pbs_closed(record, groups, user))
            for name, record in records(text, 'Queue: ').items() if record.get('queue_type') == 'Execution']


def _pbs_closed(record: dict[str, str], groups: set[str], user: str) -> str:
    for key in ('enabled', 'started'):
        if record.get(key) != 'True':
            return f'{key} = {record.get(key)}'
    if record.get('from_route_only') == 'True':
        return 'from_route_only = True'
    for kind, own in (('group', groups), ('user', {user})):
        allowed = {entry.strip().partition('@')[0] for entry in record.get(f'acl_{kind}s', '').split(',')}
        if record.get(f'acl_{kind}_enable') == 'True' and not own & allowed:
            return f'acl_{kind}s'
    return ''
