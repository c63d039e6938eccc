"""The answers of the batch system and of the login node itself. Nothing is submitted, nothing is changed."""

from __future__ import annotations

import contextlib
import getpass
import grp
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple

from parity.base.errors import InfrastructureError, UsageError
from parity.measure.machine.procfs import Tree
from parity.measure.scheduler import slurm
from parity.measure.scheduler.command import SchedulerError, answer, seconds
from parity.measure.scheduler.pbs import RESERVATION, PbsNode, hosts, left, records, size

#: Marks the comments that ask a person for something.
TODO = 'TODO'


class Node(NamedTuple):
    """A compute node. ``gpus`` is (type, number) pairs; ``labels`` are the operator's words."""

    name: str
    queues: tuple[str, ...]
    cores: int
    threads: int                        # hardware threads a core, as far as the batch system knows
    memory_bytes: int
    gpus: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ()
    up: bool = True
    state: str = ''                     # in the batch system's words


class Queue(NamedTuple):
    """A partition of Slurm or a queue of PBS. Times in seconds; None: without a limit."""

    name: str
    default: bool = False
    longest: int | None = None
    most_nodes: int | None = None
    closed: str = ''                    # why this user's jobs do not run in it
    exclusive: bool = False             # jobs have whole nodes without asking
    up: bool = True                     # whether it takes and starts jobs today
    memory: str = ''                    # of a job that asks for none, where that is not all
    rules: Mapping[str, str] = {}       # of Slurm: those of _RULES that it has
    reserved: bool = False              # a reservation of PBS: jobs wait until it begins


class BatchSystem(NamedTuple):
    """A batch system as its login node shows it. ``notes`` are for the file's head."""

    scheduler: str                      # slurm or pbs
    version: str
    name: str
    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    account: str = ''                   # this user's default
    accounts: tuple[str, ...] = ()      # all of this user's; () where none is known
    qos: Mapping[str, list[str]] = {}   # of Slurm: this user's by account, first that of a job that names none
    licences: tuple[str, ...] = ()
    mpi_type: str = ''                  # for srun, which does not know it
    notes: tuple[str, ...] = ()
    backend: str = ''                   # ReFrame's, where it is not named as the scheduler

    def nodes_of(self, queue: Queue) -> list[Node]:
        return [node for node in self.nodes if queue.name in node.queues]


class Folder(NamedTuple):
    """A folder of this user's on a shared file system. ``source``: what names it, and where the system is."""

    path: str
    source: str


class Link(NamedTuple):
    """A port for MPI traffic: its rate one way, in MB/s."""

    rate: float
    source: str


class Host(NamedTuple):
    """The login node itself."""

    name: str
    filesystems: dict[str, Folder]              # by our name for the folder
    unknown: list[str]                          # file systems on which no folder of this user's is known
    link: Link | None = None                    # of its fastest port
    codes: tuple[str, ...] = ()                 # that start on this node, from its own packages
    modules: tuple[tuple[str, str], ...] = ()   # that bring codes: the module, the code


def cluster() -> BatchSystem:
    """Ask Slurm, or else PBS. UsageError for neither, InfrastructureError for no answer."""
    try:
        if shutil.which('scontrol'):
            return slurm_cluster()
        if shutil.which('pbsnodes') and shutil.which('qstat'):
            return pbs_cluster()
    except SchedulerError as err:       # its exit code is the command's own
        raise InfrastructureError(str(err)) from None
    raise UsageError('neither Slurm (scontrol) nor PBS (pbsnodes, qstat) is on PATH: run this on a login node; '
                     'a machine without a batch system is the system `local`')


def slurm_cluster() -> BatchSystem:
    """Ask Slurm. SchedulerError where it does not answer."""
    config = configured(answer(['scontrol', 'show', 'config']))
    own = accounts(maybe('sacctmgr', '-nP', 'show', 'user', getpass.getuser(), 'withassoc',
                         'format=defaultaccount,account,qos,defaultqos'))
    partitions = answer(['scontrol', '-a', '--oneliner', 'show', 'partition'])     # -a: hidden ones, too
    nodes, notes = _nodes_shown()
    nodes += unseen(partitions, nodes)
    is_accounted = 'slurmdbd' in config.get('AccountingStorageType', '')
    if not is_accounted:
        notes.append("Slurm keeps no accounting here (AccountingStorageType): ReFrame's backend is squeue, and "
                     'ended jobs are known for MinJobAge only')
    if 'associations' in config.get('AccountingStorageEnforce', '') and not own.default:
        notes.append('Slurm wants an account (AccountingStorageEnforce) and sacctmgr shows none of yours: '
                     'add --account=NAME to each access')
    plugins = maybe('srun', '--mpi=list')
    if not plugins:
        notes.append('srun --mpi=list does not answer: launcher and env_vars are a guess')
    return BatchSystem(
        scheduler='slurm',
        version=f'Slurm {config.get("SLURM_VERSION", "")}'.strip(),
        name=config.get('ClusterName', ''),
        nodes=tuple(nodes),
        queues=tuple(slurm_queues(partitions, _groups(), own.qos)),
        account=own.default,
        accounts=tuple(sorted(own.qos)),
        qos=own.qos,
        licences=tuple(licences(maybe('scontrol', '--oneliner', 'show', 'licenses'))),
        mpi_type=mpi_type(plugins, config.get('MpiDefault', '')),
        notes=tuple(notes),
        backend='' if is_accounted else 'squeue')


def _nodes_shown() -> tuple[list[Node], list[str]]:
    """Return the nodes that Slurm shows this user, and a note where it shows none."""
    try:
        printed = answer(['scontrol', '-a', '--oneliner', 'show', 'node'])
    except SchedulerError as err:
        if 'denied' not in str(err):
            raise
        return [], ['Slurm shows you no nodes (PrivateData): cores, memory and states are guesses by the size '
                    'of each partition']
    return slurm_nodes(printed), []


def pbs_cluster() -> BatchSystem:
    """Ask PBS. SchedulerError where it does not answer."""
    queues = answer(['qstat', '-Q', '-f'])
    servers = records(answer(['qstat', '-B', '-f']), 'Server: ')
    name, server = next(iter(servers.items()), ('', {}))
    default = server.get('default_queue', '')
    notes = []
    if server.get('job_history_enable') != 'True':
        notes.append('PBS keeps no history of jobs (qmgr -c "set server job_history_enable = True"): '
                     'how a job ended is then not known')
    return BatchSystem(
        scheduler='pbs',
        version=f'PBS {server.get("pbs_version", "")}'.strip(),
        name=name,
        nodes=tuple(pbs_nodes(answer(['pbsnodes', '-a']), queues)),
        queues=tuple(pbs_queues(queues, default, _groups(), getpass.getuser())),
        notes=tuple(notes))


def maybe(*command: str) -> str:
    """Return the output of a command that a site may lack; '' where it fails."""
    try:
        return answer(list(command))
    except SchedulerError:
        return ''


def _groups() -> set[str]:
    """Return the names of this user's groups."""
    names = set()
    for number in {*os.getgroups(), os.getegid()}:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return names


#: MPI plugins in our order: today's MPIs are built with the first.
_PLUGINS = ('pmix', 'cray_shasta', 'pmi2')


def slurm_nodes(text: str) -> list[Node]:
    """Read the nodes of `scontrol --oneliner show node`."""
    return [_slurm_node(record) for record in slurm.records(text, 'NodeName') if record.get('Partitions')]


def _slurm_node(record: dict[str, str]) -> Node:
    queues = record['Partitions'].split(',')
    threads = int(record['ThreadsPerCore'])
    mib_for_system = int(record.get('MemSpecLimit', 0))
    mib_for_jobs = int(record['RealMemory']) - mib_for_system
    gres = record.get('Gres', '')
    state = record['State']
    return Node(
        name=record['NodeName'],
        queues=tuple(queues),
        cores=_cores(record),
        threads=threads,
        memory_bytes=mib_for_jobs << 20,
        gpus=gpus(gres),
        labels=_features(record),
        up=slurm.takes(state),
        state=state.lower())


def _features(record: dict[str, str]) -> tuple[str, ...]:
    """Return the operator's words for a node."""
    words = record.get('AvailableFeatures', '').split(',')
    return tuple(sorted(set(words) - {'', '(null)'}))


def _cores(record: dict[str, str]) -> int:
    """Return a node's cores without those that the site keeps for itself."""
    cores = int(record['Sockets']) * int(record['CoresPerSocket'])
    cpus = int(record['CPUTot'])
    for_jobs = int(record.get('CPUEfctv', cpus))
    return max(1, cores * for_jobs // cpus)


def gpus(gres: str) -> tuple[tuple[str, int], ...]:
    """Read ``gpu:a100:4(S:0-1),lscratch:300`` as (('a100', 4),); a GPU without a type is ''."""
    kinds = []
    for kind, count in re.findall(r'(?:^|,)gpu:(?:([A-Za-z][\w.-]*):)?(\d+)', gres):
        if int(count):
            kinds.append((kind, int(count)))
    return tuple(sorted(kinds))


def unseen(partitions: str, seen: list[Node]) -> list[Node]:
    """Return the nodes of partitions that Slurm does not show: all where the user may not see nodes, else in old
    versions the cloud nodes that are powered down. Each has its share of the smallest partition that it is in."""
    by_size = sorted(slurm.records(partitions, 'PartitionName'), key=_total_nodes)
    names_seen = {node.name for node in seen}
    state = 'cloud+powered_down' if seen else ''
    nodes: dict[str, Node] = {}
    for record in by_size:
        queue = record['PartitionName']
        shown = sum(queue in node.queues for node in seen)
        if _total_nodes(record) <= shown:
            continue
        names = maybe('scontrol', 'show', 'hostnames', record.get('Nodes', '')).split()
        for name in set(names) - names_seen:
            node = nodes.get(name) or _share(name, record, state)
            nodes[name] = node._replace(queues=(*node.queues, queue))
    return [nodes[name] for name in sorted(nodes)]


def _total_nodes(partition: dict[str, str]) -> int:
    return int(partition.get('TotalNodes', 0))


def _share(name: str, partition: dict[str, str], state: str) -> Node:
    """Return a node with its share of a partition's cores and memory, still without queues."""
    total = _total_nodes(partition)
    cores = max(1, int(partition.get('TotalCPUs', 0)) // total)
    memory_bytes = int(_mib(partition) / total) << 20
    return Node(name, (), cores, 1, memory_bytes, state=state)


def _mib(partition: dict[str, str]) -> float:
    """Return a partition's memory in MiB by its TRES; 0 where it states none."""
    stated = re.search(r'\bmem=(\d+(?:\.\d+)?)([MGTP])', partition.get('TRES', ''))
    if not stated:
        return 0.0
    number, unit = stated.groups()
    return float(number) * 1024 ** 'MGTP'.index(unit)


def slurm_queues(text: str, groups: set[str], qos: Mapping[str, list[str]]) -> list[Queue]:
    """Read the partitions of `scontrol --oneliner show partition`, and why this user cannot use one. ``qos``: of
    `accounts`."""
    return [_slurm_queue(record, groups, qos) for record in slurm.records(text, 'PartitionName')]


def _slurm_queue(record: dict[str, str], groups: set[str], qos: Mapping[str, list[str]]) -> Queue:
    is_default = record.get('Default') == 'YES'
    is_up = record.get('State') == 'UP'
    longest = record.get('MaxTime', '')
    most_nodes = record.get('MaxNodes', '')
    return Queue(
        name=record['PartitionName'],
        default=is_default,
        longest=seconds(longest),
        most_nodes=int(most_nodes) if most_nodes.isdecimal() else None,
        closed=_slurm_closed(record, groups, qos),
        exclusive=_gives_whole_nodes(record),
        up=is_up,
        memory=_default_memory(record),
        rules=_rules(record))


def _gives_whole_nodes(record: Mapping[str, str]) -> bool:
    """Return whether a job has its nodes for itself without asking."""
    if record.get('Exclusive') == 'NODE':
        return True
    return 'EXCLUSIVE' in record.get('OverSubscribe', '')


def _default_memory(record: Mapping[str, str]) -> str:
    """Return the memory of a job that asks for none, as the partition states it; '' where that is all."""
    for key in ('DefMemPerCPU', 'DefMemPerNode'):
        if record.get(key, 'UNLIMITED') not in ('UNLIMITED', '0'):
            return f'{key}={record[key]}'
    return ''


#: The rules of a partition about a job's account and QOS.
_RULES = ('AllowAccounts', 'DenyAccounts', 'AllowQos', 'DenyQos')


def _rules(record: Mapping[str, str]) -> dict[str, str]:
    return {key: record[key] for key in _RULES if record.get(key, 'ALL') != 'ALL'}


def refused(rules: Mapping[str, str], accounts: Iterable[str], qos: Iterable[str]) -> str:
    """Return the rule that refuses a job with any of these accounts, or any of these QOS; '' for none."""
    for key, rule in rules.items():
        own = set(accounts if key.endswith('Accounts') else qos)
        named = set(rule.split(','))
        refuses = not own & named if key.startswith('Allow') else own <= named
        if own and refuses:
            return f'{key}={rule}'
    return ''


def _slurm_closed(record: dict[str, str], groups: set[str], qos: Mapping[str, list[str]]) -> str:
    """Return the setting that keeps this user's jobs out of a partition; '' for none."""
    # DOWN and DRAIN are of today: parity doctor says so
    for key, value in (('State', 'INACTIVE'), ('RootOnly', 'YES'), ('ReqResv', 'YES')):
        if record.get(key) == value:
            return f'{key}={value}'
    allowed = record.get('AllowGroups', 'ALL')
    if allowed != 'ALL' and not groups & set(allowed.split(',')):
        return f'AllowGroups={allowed}'
    hosts = record.get('AllocNodes', 'ALL')
    here = platform.node()
    if hosts != 'ALL' and here not in maybe('scontrol', 'show', 'hostnames', hosts).split():
        return f'AllocNodes={hosts}, not {here}'
    every_qos = set(chain(*qos.values()))
    return refused(_rules(record), qos, every_qos)


def configured(text: str) -> dict[str, str]:
    """Read the lines KEY = VALUE of `scontrol show config`."""
    return dict(re.findall(r'^(\w+)\s+= (.*?)\s*$', text, re.MULTILINE))


def licences(text: str) -> list[str]:
    """Read `name:total` from `scontrol --oneliner show licenses`."""
    records = slurm.records(text, 'LicenseName')
    return [f'{record["LicenseName"]}:{record["Total"]}' for record in records]


def mpi_type(listed: str, default: str) -> str:
    """Return the plugin that srun must be given; '' where its default starts ranks of one MPI job."""
    if default.startswith(_PLUGINS):
        return ''
    offered = re.findall(r'\b[a-z]\w+', listed.partition('...')[2])
    for plugin in _PLUGINS:
        if plugin in offered:
            return plugin
    return ''


class Accounts(NamedTuple):
    """This user's accounts: the default one or '', and the QOS of each, first that of a job that names none."""

    default: str
    qos: dict[str, list[str]]


def accounts(text: str) -> Accounts:
    """Read `sacctmgr -nP ... format=defaultaccount,account,qos,defaultqos`."""
    default_account = ''
    qos_of = {}
    for line in text.splitlines():
        if '|' not in line:
            continue
        default, account, qos, default_qos, *_ = [*line.split('|'), '', '']
        default_account = default_account or default
        if account:
            first = default_qos or 'normal'
            names = list(filter(None, qos.split(',')))
            qos_of[account] = [name for name in names if name == first] + [name for name in names if name != first]
    return Accounts(default_account, qos_of)


#: Resources that every node has, and that say nothing about its kind.
_COMMON = {'arch', 'host', 'vnode', 'mem', 'ncpus', 'ngpus', 'vmem', 'Qlist', 'hbmem', 'naccelerators',
           'accelerator_memory', 'hpmem', 'nmics'}


def pbs_nodes(text: str, queues: str) -> list[Node]:
    """Read the hosts of `pbsnodes -a`, with the queues of `qstat -Q -f` that they serve."""
    all_hosts = hosts(text)
    shown = records(queues, 'Queue: ')
    queues_of: dict[str, list[str]] = {host.name: [] for host in all_hosts}
    for queue, record in shown.items():
        # a routing queue serves whatever its destinations serve
        for name in _destinations(record) or [queue]:
            for host in _serving(all_hosts, name, shown.get(name, {})):
                if queue not in queues_of[host.name]:
                    queues_of[host.name].append(queue)
    return [_node(host, tuple(queues_of[host.name])) for host in all_hosts]


def _serving(all_hosts: list[PbsNode], name: str, queue: Mapping[str, str]) -> list[PbsNode]:
    """Return the hosts that run a queue's jobs. Where it states no default_chunk, `Qlist` customarily tells."""
    able = left(all_hosts, name, _chunk(queue))
    return [host for host in able if name in host.resources.get('Qlist', name).split(',')]


def _chunk(queue: Mapping[str, str]) -> dict[str, str]:
    """Return what a queue asks of each node for all of its jobs, amounts aside."""
    chunk = {}
    for key, value in queue.items():
        if key.startswith('default_chunk.') and size(value) is None:
            chunk[key.partition('.')[2]] = value
    return chunk


def _node(host: PbsNode, queues: tuple[str, ...]) -> Node:
    resources = host.resources
    cores = int(resources.get('ncpus') or 1)
    memory_bytes = size(resources.get('mem', '')) or 0
    labels = [f'{key}={value}' for key, value in resources.items() if _is_label(key, value)]
    states = sorted(host.states)
    return Node(
        name=host.name,
        queues=queues,
        cores=cores,
        threads=1,
        memory_bytes=memory_bytes,
        gpus=_pbs_gpus(resources),
        labels=tuple(sorted(labels)),
        up=host.is_available,
        state=','.join(states))


def _pbs_gpus(resources: dict[str, str]) -> tuple[tuple[str, int], ...]:
    count = resources.get('ngpus', '')
    if not count.isdecimal() or not int(count):
        return ()
    for key, value in resources.items():
        if re.search(r'gpu_?(type|model|name)', key, re.IGNORECASE):
            return (value.lower(), int(count)),
    return ('', int(count)),


def _is_label(key: str, value: str) -> bool:
    """Return whether a resource tells kinds of nodes apart: a word, and no amount."""
    if key in _COMMON or value.isdecimal():
        return False
    return bool(re.fullmatch(r'[\w.-]+', value))


def pbs_queues(text: str, default: str, groups: set[str], user: str) -> list[Queue]:
    """Read the queues of `qstat -Q -f`. A routing queue gives what the largest of its destinations gives."""
    shown = records(text, 'Queue: ')
    queues = []
    for name, record in shown.items():
        ends = [record]
        if record.get('queue_type') == 'Route':
            ends = [shown[end] for end in _destinations(record) if end in shown]
        if not ends:
            continue
        reserved = bool(RESERVATION.fullmatch(name))
        queues.append(Queue(
            name=name,
            default=name == default,
            longest=_most(seconds(end.get('resources_max.walltime', '')) for end in ends),
            most_nodes=_most(size(end.get('resources_max.nodect', '')) for end in ends),
            closed=_pbs_closed(record, groups, user, reserved),
            reserved=reserved))
    return queues


def _destinations(record: Mapping[str, str]) -> list[str]:
    """Return the queues to which a routing queue hands jobs on."""
    return _names(record.get('route_destinations', ''))


def _names(listed: str) -> list[str]:
    """Return the names of a list of PBS, without the servers behind them."""
    return [entry.strip().partition('@')[0] for entry in listed.split(',') if entry]


def _most(limits: Iterable[int | None]) -> int | None:
    """Return the widest of some limits; None is without a limit."""
    stated = list(limits)
    return None if None in stated else max(stated)


def _pbs_closed(record: dict[str, str], groups: set[str], user: str, reserved: bool) -> str:
    """Return the setting that keeps this user's jobs out of a queue; '' for none."""
    if record.get('enabled') != 'True':
        return f'enabled = {record.get("enabled")}'
    if record.get('started') != 'True' and not reserved:
        return f'started = {record.get("started")}'
    if record.get('from_route_only') == 'True':
        return 'from_route_only = True'
    if record.get('acl_group_enable') == 'True' and not groups & set(_names(record.get('acl_groups', ''))):
        return 'acl_groups'
    if record.get('acl_user_enable') == 'True' and user not in _names(record.get('acl_users', '')):
        return 'acl_users'
    return ''


#: File systems that every node of a cluster may see (the third field of /proc/mounts).
_SHARED = re.compile(r'lustre|gpfs|beegfs|nfs[34]?|ceph|wekafs|panfs|pvfs2|orangefs|glusterfs|quobyte|vast'
                     r'|fuse\.(glusterfs|dfuse|ceph|juicefs)')
#: Variables with a folder of the user's own, and our name for it.
_VARIABLES = {'SCRATCH': 'scratch', 'WORK': 'work', 'HOME': 'home'}


def filesystems(mounts: str, env: Mapping[str, str],
                writable: Callable[[str], bool]) -> tuple[dict[str, Folder], list[str]]:
    """Return this user's folders on the shared file systems of /proc/mounts, and the mount points without one."""
    shared = dict(_shared(mounts))
    folders = {}
    taken = set()
    for variable, name in _VARIABLES.items():
        path = os.path.normpath(env.get(variable, ''))
        points = [point for point in shared if PurePath(path).is_relative_to(point)]
        if points and writable(path):
            point = max(points, key=len)
            folders[name] = Folder(path, f'${variable}, {shared[point]} at {point}')
            taken.add(point)
    return folders, [f'{kind} at {point}' for point, kind in shared.items() if point not in taken]


def _shared(mounts: str) -> Iterator[tuple[str, str]]:
    """Yield mount point and kind of the shared file systems; those that are read-only hold software."""
    for line in mounts.splitlines():
        _, point, kind, options, *_ = [*line.split(' '), '', '', '', '']
        if _SHARED.fullmatch(kind) and 'ro' not in options.split(','):
            yield re.sub(r'\\(\d{3})', _octal, point), kind


def _octal(match: re.Match) -> str:
    r"""Return the character that /proc/mounts writes as \040."""
    return chr(int(match[1], 8))


def link(root: Tree) -> Link | None:
    """Return the rate of the fastest active port for MPI traffic on this node in MB/s, and its source."""
    return max([*_infiniband(root), *_slingshot(root)], default=None)


#: MB/s in one Gb/s.
_MEGABYTES = 125


def _infiniband(root: Tree) -> Iterator[Link]:
    devices = 'sys/class/infiniband'
    for device in root.listing(devices):
        for port in root.names(f'{devices}/{device}/ports'):
            folder = f'{devices}/{device}/ports/{port}'
            rate = root.text(f'{folder}/rate') or ''
            state = root.text(f'{folder}/state') or ''
            layer = root.text(f'{folder}/link_layer')
            gigabits = re.match(r'([\d.]+) Gb/sec', rate)
            if gigabits and 'ACTIVE' in state:
                words = f'{rate}, {layer}' if layer else rate
                yield Link(float(gigabits[1]) * _MEGABYTES, f'{device} port {port}: {words}')


def _slingshot(root: Tree) -> Iterator[Link]:
    """Yield the ports of HPE Slingshot."""
    for name in root.names('sys/class/net', 'hsn'):
        speed = root.number(f'sys/class/net/{name}/speed') or 0
        if speed > 0:
            yield Link(speed / 8, f'{name}: {speed} Mb/s')
