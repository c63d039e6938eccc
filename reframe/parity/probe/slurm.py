"""The output of Slurm: `scontrol --oneliner show node|partition|config|licenses`, `srun --mpi=list`."""

from __future__ import annotations

import re

from parity.probe.model import Node, Queue
from parity.scheduler.command import seconds

#: States in which a node takes jobs, now or when its jobs are done (sinfo(1), NODE STATE CODES).
_TAKES = {'IDLE', 'ALLOCATED', 'MIXED', 'COMPLETING', 'PLANNED', 'RESERVED', 'CLOUD', 'POWERED_DOWN',
          'POWERING_UP', 'POWERING_DOWN', 'POWERED_UP', 'DYNAMIC_NORM'}
#: MPI plugins in our order: today's MPIs are built with the first.
_PLUGINS = ('pmix', 'cray_shasta', 'pmi2')


def _records(text: str, first: str) -> list[dict[str, str]]:
    """Read lines of KEY=VALUE. Free text (Reason, Comment) comes last: of a key given twice the first counts."""
    return [dict(reversed(re.findall(r'(?:^|\s)([A-Z][A-Za-z_/]*)=(\S*)', line)))
            for line in text.splitlines() if line.startswith(f'{first}=')]


def nodes(text: str) -> list[Node]:
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


def queues(text: str, groups: set[str], accounts: set[str]) -> list[Queue]:
    """Read the partitions of `scontrol --oneliner show partition`, and why this user cannot use one."""
    return [Queue(r['PartitionName'], default=r.get('Default') == 'YES', longest=seconds(r.get('MaxTime', '')),
                  most_nodes=int(most) if (most := r.get('MaxNodes', '')).isdecimal() else None,
                  closed=_closed(r, groups, accounts), up=r.get('State') == 'UP',
                  exclusive=r.get('OverSubscribe') == 'EXCLUSIVE',
                  memory=next((f'{key}={r[key]}' for key in ('DefMemPerCPU', 'DefMemPerNode')
                               if r.get(key, 'UNLIMITED') not in ('UNLIMITED', '0')), ''))
            for r in _records(text, 'PartitionName')]


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
