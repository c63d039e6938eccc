"""The output of PBS: `pbsnodes -a`, `qstat -Q -f`, `qstat -B -f`."""

from __future__ import annotations

import re

from parity.probe.model import Node, Queue
from parity.scheduler.command import seconds
from parity.scheduler.pbs import PbsNode, hosts, left, records, size

#: Resources that every node has, and that say nothing about its kind.
_COMMON = {'arch', 'host', 'vnode', 'mem', 'ncpus', 'ngpus', 'vmem', 'Qlist', 'hbmem', 'naccelerators',
           'accelerator_memory', 'hpmem', 'nmics'}


def nodes(text: str, queues: str) -> list[Node]:
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


def queues(text: str, default: str, groups: set[str], user: str) -> list[Queue]:
    """Read the queues of `qstat -Q -f` that run jobs (routing queues only hand them on)."""
    return [Queue(name, default=name == default, longest=seconds(record.get('resources_max.walltime', '')),
                  most_nodes=int(most) if (most := record.get('resources_max.nodect', '')).isdecimal() else None,
                  closed=_closed(record, groups, user))
            for name, record in records(text, 'Queue: ').items() if record.get('queue_type') == 'Execution']


def _closed(record: dict[str, str], groups: set[str], user: str) -> str:
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


def server(text: str) -> dict[str, str]:
    """Read the attributes of `qstat -B -f`, and the server's name as `name`."""
    return next(({'name': name, **record} for name, record in records(text, 'Server: ').items()), {})
