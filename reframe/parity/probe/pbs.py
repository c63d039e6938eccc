"""PBS as it prints itself: `pbsnodes -a`, `qstat -Q -f`, `qstat -B -f`."""

from __future__ import annotations

import re

from parity.probe.model import Node, Queue

#: States in which a node takes jobs, now or when those that it has have ended.
_TAKES = {'free', 'busy', 'job-busy', 'job-exclusive', 'resv-exclusive', 'provisioning', 'wait-provisioning'}
_BYTES = {'': 1, 'b': 1, 'kb': 1 << 10, 'mb': 1 << 20, 'gb': 1 << 30, 'tb': 1 << 40, 'pb': 1 << 50}
#: Resources that every node has, and that say nothing of its kind.
_COMMON = {'arch', 'host', 'vnode', 'mem', 'ncpus', 'ngpus', 'vmem', 'Qlist', 'hbmem', 'naccelerators',
           'accelerator_memory', 'hpmem', 'nmics'}


def _records(text: str, title: str = '') -> dict[str, dict[str, str]]:
    """A name at the start of a line (after ``title``), then indented lines `attribute = value`.

    A long value goes on in lines that begin with a tab.
    """
    blocks = re.split(r'^(?=\S)', re.sub(r'\n\t', '', text), flags=re.MULTILINE)
    found = {}
    for block in blocks:
        name, _, rest = block.partition('\n')
        if name.startswith(title):
            found[name.removeprefix(title).strip()] = dict(re.findall(r'^ +(\S+) = (.*?) *$', rest, re.MULTILINE))
    return found


def nodes(text: str, queues: str) -> list[Node]:
    """The hosts of `pbsnodes -a`, with the queues of `qstat -Q -f` that they serve."""
    found: dict[str, dict[str, str]] = {}
    for name, record in _records(text).items():
        if 'state' in record:
            found.setdefault(record.get('resources_available.host', name), record)
    apart = {record['queue'] for record in found.values() if 'queue' in record}
    chunks = {name: _chunk(record) for name, record in _records(queues, 'Queue: ').items()}
    return [_node(host, record, tuple(q for q, chunk in chunks.items() if _serves(record, q, chunk, apart)))
            for host, record in found.items()]


def _chunk(queue: dict[str, str]) -> dict[str, str]:
    """What a queue asks of each node for all of its jobs, without amounts."""
    return {key.partition('.')[2]: value for key, value in queue.items()
            if key.startswith('default_chunk.') and size(value) is None}


def _serves(node: dict[str, str], queue: str, chunk: dict[str, str], apart: set[str]) -> bool:
    """Nodes set apart for a queue (attribute, or the customary resource Qlist) serve it, and it has no others."""
    if 'queue' in node or queue in apart:
        return node.get('queue') == queue
    listed = node.get('resources_available.Qlist')
    if listed is not None and queue not in listed.split(','):
        return False
    return all(value in node.get(f'resources_available.{key}', '').split(',') for key, value in chunk.items())


def _node(host: str, record: dict[str, str], queues: tuple[str, ...]) -> Node:
    have = {key.removeprefix('resources_available.'): value for key, value in record.items()}
    count = int(have['ngpus']) if have.get('ngpus', '').isdecimal() else 0
    kind = next((value for key, value in have.items() if re.search(r'gpu_?(type|model|name)', key, re.I)), '')
    labels = tuple(sorted(f'{key.partition(".")[2]}={value}' for key, value in record.items()
                          if key.startswith('resources_available.') and key.partition('.')[2] not in _COMMON
                          and re.fullmatch(r'[\w.-]+', value) and not value.isdecimal()))
    return Node(host, queues, cores=int(have.get('ncpus') or record.get('pcpus') or 1), threads=1,
                memory_bytes=size(have.get('mem', '')) or 0, gpus=((kind.lower(), count),) if count else (),
                labels=labels, up=set(record['state'].replace(' ', '').split(',')) <= _TAKES)


def size(text: str) -> int | None:
    """``527672492kb`` in bytes; None for what is no size."""
    found = re.fullmatch(r'(\d+)([kmgtp]?b|)', text.strip().lower())
    return int(found[1]) * _BYTES[found[2]] if found else None


def queues(text: str, default: str, groups: set[str], user: str) -> list[Queue]:
    """The queues of `qstat -Q -f` that run jobs (routing queues only hand them on)."""
    return [_queue(name, record, default, groups, user)
            for name, record in _records(text, 'Queue: ').items() if record.get('queue_type') == 'Execution']


def _queue(name: str, record: dict[str, str], default: str, groups: set[str], user: str) -> Queue:
    most = record.get('resources_max.nodect', '')
    return Queue(name, default=name == default, longest=seconds(record.get('resources_max.walltime', '')),
                 most_nodes=int(most) if most.isdecimal() else None, closed=_closed(record, groups, user))


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


def seconds(time: str) -> int | None:
    """``48:00:00`` or a number of seconds; None where there is no limit."""
    if not re.fullmatch(r'\d+(:\d+){0,2}', time):
        return None
    total = 0
    for part in time.split(':'):
        total = total * 60 + int(part)
    return total


def server(text: str) -> dict[str, str]:
    """The attributes of `qstat -B -f`, and the server's name as `name`."""
    return next(({'name': name, **record} for name, record in _records(text, 'Server: ').items()), {})
