"""Slurm as it prints itself: `scontrol --oneliner show node|partition|config|licenses`, `srun --mpi=list`."""

from __future__ import annotations

import re

from parity.probe.model import Node, Queue
from parity.scheduler.command import seconds

_MIB = 1 << 20
#: States in which a node takes jobs, now or when those that it has are done (sinfo(1), NODE STATE CODES).
_TAKES = {'IDLE', 'ALLOCATED', 'MIXED', 'COMPLETING', 'PLANNED', 'RESERVED', 'CLOUD', 'POWERED_DOWN',
          'POWERING_UP', 'POWERING_DOWN', 'POWERED_UP', 'DYNAMIC_NORM'}
#: MPI plugins in the order of our liking: what the MPIs of today are built with.
_PLUGINS = ('pmix', 'cray_shasta', 'pmi2')


def _records(text: str, first: str) -> list[dict[str, str]]:
    """Lines of KEY=VALUE. Free text (Reason, Comment) comes last: of a key given twice the first counts."""
    return [dict(reversed(re.findall(r'(?:^|\s)([A-Z][A-Za-z_/]*)=(\S*)', line)))
            for line in text.splitlines() if line.startswith(f'{first}=')]


def nodes(text: str) -> list[Node]:
    """The nodes of `scontrol --oneliner show node`."""
    return [_node(record) for record in _records(text, 'NodeName') if record.get('Partitions')]


def _node(record: dict[str, str]) -> Node:
    cpus = int(record['CPUTot'])
    usable = int(record.get('CPUEfctv', cpus))          # less than all where the site keeps cores for itself
    real = int(record['Sockets']) * int(record['CoresPerSocket'])
    memory = int(record['RealMemory']) - int(record.get('MemSpecLimit', 0))
    labels = tuple(sorted(set(record.get('AvailableFeatures', '').split(',')) - {'', '(null)'}))
    state = set(record['State'].upper().split('+'))
    return Node(record['NodeName'], tuple(record['Partitions'].split(',')),
                cores=max(1, real * usable // cpus), threads=int(record['ThreadsPerCore']),
                memory_bytes=memory * _MIB, gpus=gpus(record.get('Gres', '')),
                labels=labels, up=state <= _TAKES,
                state=record['State'].lower())


def gpus(gres: str) -> tuple[tuple[str, int], ...]:
    """``gpu:a100:4(S:0-1),lscratch:300`` as (('a100', 4),); a type that is not told is ''."""
    found = re.findall(r'(?:^|,)gpu:(?:([A-Za-z][\w.-]*):)?(\d+)', gres)
    return tuple(sorted((kind, int(count)) for kind, count in found if int(count)))


def queues(text: str, groups: set[str], accounts: set[str]) -> list[Queue]:
    """The partitions of `scontrol --oneliner show partition`, and why a user of these groups cannot use one."""
    return [_queue(record, groups, accounts) for record in _records(text, 'PartitionName')]


def _queue(record: dict[str, str], groups: set[str], accounts: set[str]) -> Queue:
    most = record.get('MaxNodes', '')
    return Queue(record['PartitionName'], default=record.get('Default') == 'YES',
                 longest=seconds(record.get('MaxTime', '')), most_nodes=int(most) if most.isdecimal() else None,
                 closed=_closed(record, groups, accounts), up=record.get('State') == 'UP',
                 exclusive=record.get('OverSubscribe') == 'EXCLUSIVE', memory=_less(record))


def _closed(record: dict[str, str], groups: set[str], accounts: set[str]) -> str:
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


def _less(record: dict[str, str]) -> str:
    """The default memory of a job, where it is not the node's."""
    return next((f'{key}={record[key]}' for key in ('DefMemPerCPU', 'DefMemPerNode')
                 if record.get(key, 'UNLIMITED') not in ('UNLIMITED', '0')), '')


def configured(text: str) -> dict[str, str]:
    """The lines KEY = VALUE of `scontrol show config`."""
    return dict(re.findall(r'^(\w+)\s+= (.*?)\s*$', text, re.MULTILINE))


def licences(text: str) -> list[str]:
    """`name:total` of `scontrol --oneliner show licenses`."""
    return [f'{r["LicenseName"]}:{r["Total"]}' for r in _records(text, 'LicenseName')]


def mpi_type(listed: str, default: str) -> str:
    """The plugin that srun must be told of; '' where its default starts ranks of one MPI job."""
    if default.startswith(_PLUGINS):
        return ''
    offered = set(re.findall(r'\b[a-z]\w+', listed.partition('...')[2]))
    return next((plugin for plugin in _PLUGINS if plugin in offered), '')


def accounts(text: str) -> tuple[str, set[str]]:
    """Default account and all of `sacctmgr -nP show user NAME withassoc format=defaultaccount,account`."""
    rows = [line.split('|') for line in text.splitlines() if '|' in line]
    return (rows[0][0] if rows else ''), {account for _, account, *_ in rows if account}
