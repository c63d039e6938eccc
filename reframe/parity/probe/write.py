"""The file that a person would have written, each value with its source beside it."""

from __future__ import annotations

import datetime
import getpass
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from parity.probe.ask import ASKS
from parity.probe.model import TODO, Cluster, Host, Like, Node, Queue

#: A comment begins here, or two blanks behind what is longer.
_COLUMN = 58


def system(name: str, cluster: Cluster, host: Host, today: datetime.date) -> str:
    """systems/<name>/system.yaml."""
    likes, left = like_nodes(cluster)
    lines = _head(name, cluster, host, today)
    for index, like in enumerate(likes):
        lines += partition_lines(like, cluster, host, first=index == 0)
    lines += [('', f'left out: {queue} ({short(why)})') for queue, why in left.items()]
    return ''.join(_line(*line) for line in lines)


def _line(text: str, comment: str = '') -> str:
    if not comment:
        return f'{text}\n'
    return f'{text:<{_COLUMN}}# {comment}\n' if text and len(text) < _COLUMN else \
        f'{text}{"  " if text else ""}# {comment}\n'


def _head(name: str, cluster: Cluster, host: Host, today: datetime.date) -> list[tuple]:
    lines = [('', f'Written by `parity probe {name}` on {host.name}, {today}, from what {cluster.version}'),
             ('', f'and this node tell. Lines with {TODO} want a person; `parity doctor --system {name}`'),
             ('', 'says what is left.')]
    lines += [('', f'{TODO} {note}') for note in cluster.notes]
    if cluster.licences:
        lines.append(('', f'{TODO} licences, which `access` may have to take (--licenses=NAME:1): '
                      + short(', '.join(cluster.licences))))
    mpi = ', '.join(host.mpi_modules[:1]) or 'gcc/13, openmpi/5'
    here = f'{TODO} start on this node without a module: on the others, too?'
    hosts = single(f'^{re.escape(host.name)}$')
    return [*lines, (f'name: {name}',), (f'descr: {quoted(cluster.name or name)}',),
            (f'hostnames: [{hosts}]', f'{TODO} the other login nodes'),
            (f'modules_system: {host.modules_system}', _of_modules(host)),
            ('detect: false', 'a login node says nothing about compute nodes'),
            ('requires: offered', 'what must be measured, or a list of codes'),
            ('environments:', 'modules that bring codes; `parity software build` adds its own'),
            (f'  - {{name: distro, codes: [{", ".join(host.codes)}]}}', here),
            (f'# - {{name: site, modules: [{mpi}], codes: [hpl, osu]}}',), ('partitions:',)]


def _of_modules(host: Host) -> str:
    if host.modules_system == 'nomod':
        return 'neither LMOD_CMD nor MODULES_CMD is set here'
    return 'with an MPI: ' + (short(', '.join(host.mpi_modules)) or 'none found')


#: One case takes minutes; a queue that allows days would keep one that hangs for as long.
_CASE_SECONDS = 3600


def partition_lines(like: Like, cluster: Cluster, host: Host, first: bool) -> list[tuple]:
    """The lines of one partition with their comments; the first says what all have in common."""
    one = min(like.nodes, key=lambda n: (n.cores, n.memory_bytes))
    called = f'; all are called {short(", ".join(_common(like)))}' if _common(like) else ''
    cores = f'{one.cores} core{"s" if one.cores > 1 else ""}'
    said = [(f'  - name: {like.name}',),
             (f'    descr: {len(like.nodes)} nodes of {cores}', f'for instance {like.nodes[0].name}{called}')]
    if like.mixed:
        said.append(('', f'{TODO} jobs may get unlike nodes, no option tells them apart: {like.mixed}'))
    said.append((f'    scheduler: {cluster.scheduler}',))
    if cluster.scheduler == 'slurm':
        said.append(('    sched_options: {use_nodes_option: true}', '--ntasks-per-node alone is a maximum'))
    return [*said, (f'    launcher: {cluster.launcher}', cluster.launcher_source), *_access(like, cluster),
            *_variables(cluster), _time(like), _features(like, one), *_devices(one, host), ('    extras:',),
            _nodes(like), (f'      cores: {one.cores}', f'{cluster.source}{_threads(one, cluster)}'),
            (f'      memory_bytes: {one.memory_bytes:_}',
             f'{one.memory_bytes / (1 << 30):.4g} GiB: {cluster.source}'),
            *_caches(one, host), _filesystems(host, first), *_limits(host, first)]


def _features(like: Like, one: Node) -> tuple:
    """cpu, gpu, and the kind, where the operator's own word for the nodes says it."""
    words = ['cpu', *(['gpu'] if one.gpus else [])]
    kinds = {'physical': 'physical', 'baremetal': 'physical', 'virtual': 'virtual', 'vm': 'virtual'}
    found = {kinds[label] for label in _common(like) if label in kinds}
    if len(found) == 1:
        return f'    features: [{", ".join([*words, *found])}]', 'physical or virtual: what the nodes are called'
    return f'    features: [{", ".join(words)}]', f'{TODO} add physical or virtual'


def _common(like: Like) -> list[str]:
    return sorted(set.intersection(*(set(n.labels) for n in like.nodes)))


def _access(like: Like, cluster: Cluster) -> list[tuple]:
    queue = like.queue
    if cluster.scheduler == 'pbs':
        options = [f'-q {queue.name}', "'-l place=scatter:excl'", *like.options, 'ompthreads=1']
        return [(f'    access: [{", ".join(options)}]', f'{TODO} -A ACCOUNT, where the site wants one')]
    options = [f'--partition={queue.name}', *([f'--account={cluster.account}'] if cluster.account else []),
               *([] if queue.exclusive else ['--exclusive']), *(f"'{o}'" if ':' in o else o for o in like.options),
               *(['--hint=nomultithread'] if like.nodes[0].threads > 1 else []),
               *(['--mem=0'] if queue.memory else [])]
    why = [f'account: sacctmgr, default of {getpass.getuser()}'] if cluster.account else []
    why += [f'--mem=0, as {queue.memory}'] if queue.memory else []
    return [(f'    access: [{", ".join(options)}]', '; '.join(why))]


def _variables(cluster: Cluster) -> list[tuple]:
    line = f'    env_vars: [[SLURM_MPI_TYPE, {cluster.mpi_type}]]', 'srun --mpi=list: ranks of one MPI job'
    return [line] if cluster.mpi_type else []


def _time(like: Like) -> tuple:
    longest = like.queue.longest
    time = min(longest or _CASE_SECONDS, _CASE_SECONDS)
    known = f'{_span(longest)} at most in {like.queue.name}' if longest else f'{like.queue.name} has no limit'
    return f'    time_limit: {_span(time)}', f'of one case; {known}'


def _span(seconds: int) -> str:
    parts = ((seconds // 86400, 'd'), (seconds // 3600 % 24, 'h'), (seconds // 60 % 60, 'm'), (seconds % 60, 's'))
    return ''.join(f'{count}{unit}' for count, unit in parts if count)


def _devices(one: Node, host: Host) -> list[tuple]:
    if not one.gpus:
        return []
    kind, count = one.gpus[0]
    arch, source = host.arches.get(kind, ('', ''))
    told, known = f'{count} x {kind or "of a type that is not told"}', f'arch: {arch}, ' if arch else ''
    return [(f'    devices: [{{type: gpu, {known}num_devices: {count}}}]',
             f'{told}: {source}' if arch else f'{TODO} arch, such as sm_80; {told}')]


def _nodes(like: Like) -> tuple:
    """As many as are configured: an outage of today is no property of the system."""
    count = min(len(like.nodes), like.queue.most_nodes or len(like.nodes))
    limit = f', {like.queue.most_nodes} a job' if like.queue.most_nodes else ''
    away = [f'{n.name} {n.state}'.strip() for n in like.nodes if not n.up]
    missed = f'{TODO} fewer, if these do not come back: {short(", ".join(away))}; ' if away else ''
    return f'      nodes: {count}', f'{missed}that one job may have; ' \
                                    f'{len(like.nodes) - len(away)} of {len(like.nodes)} are up{limit}'


def _threads(one: Node, cluster: Cluster) -> str:
    if cluster.scheduler == 'pbs':
        return ': ncpus; hardware threads are counted as cores where the site has them on'
    return f', {one.threads} threads each' if one.threads > 1 else ''


def _caches(one: Node, host: Host) -> list[tuple]:
    if host.llc_bytes and host.cores == one.cores:
        return [(f'      llc_bytes: {host.llc_bytes:_}', f'{TODO} check: of this node, which has as many cores')]
    return [('      # llc_bytes:', f'{TODO} last-level caches of a node together: lscpu -B there')]


def _filesystems(host: Host, first: bool) -> tuple:
    if not first:
        return ('      filesystems: *filesystems',)
    named = [f for f in host.filesystems if f.name != 'home'] or host.filesystems
    others = f'; none of yours is known on {short(", ".join(host.unknown))}' if host.unknown else ''
    if not named:
        return ('      filesystems: &filesystems {scratch: $PARITY_RESULTS/scratch}',
                f'{TODO} a folder of yours that all nodes see' + (others or '; none is mounted here'))
    paths = ', '.join(f'{f.name}: {quoted(f.path)}' for f in named)
    return f'      filesystems: &filesystems {{{paths}}}', '; '.join(f.source for f in named) + others


def _limits(host: Host, first: bool) -> list[tuple]:
    if host.link is None:
        example = '      # limits: {link_bandwidth: {value: 25000, unit: MB/s, source: ...}}'
        return [(example, f'{TODO} {host.no_link}')] if first else []
    if not first:
        return [('      limits: *limits',)]
    return [('      limits: &limits', f'{TODO} certain: true, once the nodes are known to have such a port'),
            (f'        link_bandwidth: {{value: {host.link.rate:g}, unit: MB/s, certain: false, source: '
             f'{single("login node, " + host.link.source)}}}',)]


def short(text: str, most: int = 100) -> str:
    """A list cut where it grows too long for a comment."""
    return text if len(text) <= most else text[:most].rpartition(', ')[0] + ', ...'


def single(text: str) -> str:
    """Text in YAML's single quotes."""
    return "'" + text.replace("'", "''") + "'"


def quoted(text: str) -> str:
    """Text as YAML takes it, in quotes where it needs them."""
    return text if re.fullmatch(r'[A-Za-z/$][\w/.$-]*', text) else single(text)


#: What the name of a partition must not have.
_NO_NAME = r'[^A-Za-z0-9_-]'
#: Memories that differ by less are those of like nodes: a kernel keeps a little more on one than on another.
_MEMORY = 0.1
#: Generations of processors, in the words that operators give nodes: what tells nodes of one size apart.
_PROCESSORS = re.compile(
    r'(sandy|ivy)_?bridge|snb|ivb|haswell|hsw|broadwell|bdw|(sky|cascade|cooper|ice)_?lake|skl|skx|clx|icx|icl'
    r'|(sapphire|granite|emerald)_?rapids|spr|emr|gnr|knl|naples|rome|milan(-?x)?|genoa(-?x)?|bergamo|turin|zen[1-6]'
    r'|power(8|9|10)|thunderx2?|a64fx|grace|graviton\d|ampere|altra|intel|amd|arm')


def like_nodes(cluster: Cluster) -> tuple[list[Like], dict[str, str]]:
    """The partitions worth measuring, and why each other queue was left out."""
    queues, asks = cluster.queues, ASKS[cluster.scheduler]
    members: dict[str, list[Node]] = defaultdict(list)
    for node in cluster.nodes:
        for name in node.queues:
            members[name].append(node)
    left = {q.name: q.closed for q in queues if q.closed}
    left |= {q.name: 'it has no nodes' for q in queues if not members[q.name]}
    found = [like for q in queues if q.name not in left for like in _kinds(q, members[q.name], asks)]
    count = Counter(like.queue.name for like in found)
    found.sort(key=lambda k: (-len(k.nodes), count[k.queue.name], not k.queue.default,
                              -(k.queue.longest or 1 << 40), k.name))
    taken, covered = [], {}
    for like in found:
        new = {n.name for n in like.nodes} - set(covered)
        if new:
            taken.append(like)
            covered |= dict.fromkeys(new, like.name)
    used = {like.queue.name for like in taken}
    order = [q.name for q in queues]
    for name in sorted(set(order) - set(left) - used, key=order.index):
        left[name] = 'its nodes are those of ' + ', '.join(dict.fromkeys(covered[n.name] for n in members[name]))
    return sorted(taken, key=lambda k: (order.index(k.queue.name), k.name)), left


def _kinds(queue: Queue, nodes: list[Node], asks: Mapping[str, str]) -> list[Like]:
    """The kinds of a queue's nodes that its jobs can ask for; what they cannot is one, and says what jobs get."""
    kinds: dict[tuple, list[Node]] = defaultdict(list)
    for node in sorted(nodes, key=lambda n: n.memory_bytes):
        kinds[_kind(node, kinds)].append(node)
    base = re.sub(_NO_NAME, '-', queue.name)
    if len(kinds) == 1:
        return [Like(base, queue, tuple(nodes), _gpus(nodes, asks))]
    found, rest = [], []
    for members in kinds.values():
        others = list(set(nodes) - set(members))
        own = members[0].gpus and not set(members[0].gpus) & {g for n in others for g in n.gpus}
        word = '' if own else _tells(members, others)
        if own or word:
            told = members[0].gpus[0][0] or 'gpu' if own else word.partition('=')[2] or word
            options = (*([asks['label'].format(word)] if word else []), *_gpus(members, asks))
            found.append(Like(f'{base}-{re.sub(_NO_NAME, "-", told)}', queue, tuple(members), options))
        else:
            rest.append(members)
    if rest:
        told = [_told(members) for members in (rest if len(rest) > 1 else kinds.values())]
        found.append(Like(base, queue, tuple(n for members in rest for n in members), mixed='; '.join(told)))
    return found


def _kind(node: Node, known: Iterable[tuple]) -> tuple:
    """What makes nodes alike. Nodes come in the order of their memory: one near to a known kind's is the same."""
    processor = tuple(w for w in node.labels if _PROCESSORS.fullmatch(w.rpartition('=')[2].lower()))
    fixed = (node.cores, node.gpus, processor)
    return next((k for k in known if k[:3] == fixed and node.memory_bytes <= k[3] * (1 + _MEMORY)),
                (*fixed, node.memory_bytes))


def _tells(members: list[Node], others: list[Node]) -> str:
    """A label that all of ``members`` have and none of the others; the shortest is what a person would take."""
    common = set.intersection(*(set(n.labels) for n in members)) - {w for n in others for w in n.labels}
    known = [w for w in common if _PROCESSORS.fullmatch(w.rpartition('=')[2].lower())]
    return min(known or common, key=lambda w: (len(w), w), default='')


def _gpus(members: list[Node], asks: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(asks['gpu' if kind else 'any gpu'].format(kind, count) for kind, count in members[0].gpus)


def _told(members: list[Node]) -> str:
    one = members[0]
    gpus = ''.join(f', {count} {kind or "GPUs"}' for kind, count in one.gpus)
    return f'{len(members)} of {one.cores} cores, {one.memory_bytes / (1 << 30):.4g} GiB{gpus}'
