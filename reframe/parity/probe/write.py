"""The file that a person would have written, each value with its source beside it."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parity.base import codes, submission
from parity.base.figures import counted
from parity.probe.login import TODO, Cluster, Host, Node, Queue

#: The launcher of each batch system, and the command that lists its nodes.
_LAUNCHERS = {'slurm': 'srun', 'pbs': 'mpirun'}
_SOURCES = {'slurm': 'scontrol show node', 'pbs': 'pbsnodes -a'}
#: A comment begins here, or two blanks behind a longer line.
_COLUMN = 58
#: One case takes minutes; a queue that allows days would keep one that hangs for as long.
_CASE_SECONDS = 3600
#: Operators' words for the kinds of nodes.
_KINDS = {'physical': 'physical', 'baremetal': 'physical', 'virtual': 'virtual', 'vm': 'virtual'}
#: Compute capability by the name of the GPU (NVIDIA, "CUDA GPU Compute Capability"), and AMD's gfx names
#: (ROCm documentation, "Accelerator and GPU hardware specifications").
_ARCHES = {'v100': 'sm_70', 't4': 'sm_75', 'a100': 'sm_80', 'a30': 'sm_80', 'a40': 'sm_86', 'a10': 'sm_86',
           'l4': 'sm_89', 'l40': 'sm_89', 'l40s': 'sm_89', 'h100': 'sm_90', 'h200': 'sm_90', 'gh200': 'sm_90',
           'b200': 'sm_100', 'gb200': 'sm_100', 'mi50': 'gfx906', 'mi100': 'gfx908', 'mi210': 'gfx90a',
           'mi250': 'gfx90a', 'mi250x': 'gfx90a', 'mi300a': 'gfx942', 'mi300x': 'gfx942'}

#: A line of the file, and a comment behind it or alone.
Line = tuple[str, str]


class Like(NamedTuple):
    """Like nodes behind one queue: a partition of system.yaml. ``options`` tell them from the queue's others."""

    name: str
    queue: Queue
    nodes: tuple[Node, ...]
    options: tuple[str, ...] = ()
    mixed: str = ''                     # the kinds its jobs may get, where no option tells them apart


def system(name: str, cluster: Cluster, host: Host, today: datetime.date) -> str:
    """Return the text of systems/<name>/system.yaml."""
    likes, left = like_nodes(cluster)
    lines = [*_head(name, cluster, host, today)]
    for like in likes:
        lines += [*_partition(like, cluster), *_extras(like, cluster, host, first=like is likes[0])]
    lines += [('', f'left out: {queue} ({short([why])})') for queue, why in left.items()]
    return ''.join(map(_line, lines))


def _line(line: Line) -> str:
    text, comment = line
    if not comment:
        return f'{text}\n'
    width = _COLUMN if len(text) < _COLUMN else len(text) + 2
    return f'{text:<{width if text else 0}}# {comment}\n'


def _head(name: str, cluster: Cluster, host: Host, today: datetime.date) -> Iterator[Line]:
    yield '', f'Written by `parity probe {name}` on {host.name}, {today}, from the answers of'
    yield '', f'{cluster.version} and of this node. Complete the lines with {TODO};'
    yield '', f'`parity doctor --system {name}` lists what is missing.'
    yield from (('', f'{TODO} {note}') for note in cluster.notes)
    if cluster.licences:
        yield '', (f'{TODO} licences, which `access` may have to take (--licenses=NAME:1): '
                   f'{short(cluster.licences)}')
    yield f'name: {name}', ''
    yield f'descr: {quoted(cluster.name or name)}', ''
    yield f'hostnames: [{json.dumps(f"^{re.escape(host.name)}$")}]', f'{TODO} the other login nodes'
    modules = 'lmod' if 'LMOD_CMD' in os.environ else 'envmod' if 'MODULES_CMD' in os.environ else 'nomod'
    yield f'modules_system: {modules}', 'by LMOD_CMD and MODULES_CMD of this node'
    yield 'detect: false', 'a login node says nothing about compute nodes'
    listed = ', '.join(host.codes)
    yield f'requires: [{listed}]', 'must be measured, else missing: add those of Spack and modules'
    yield 'environments:', 'modules that bring codes; `parity software build` adds its own'
    yield (f'  - {{name: distro, codes: [{listed}]}}',
           f'{TODO} start on this node without a module: on the others, too?')
    built = ', '.join(codes.of_spack()[:2])
    yield f'# - {{name: site, modules: [gcc/13, openmpi/5], codes: [{built}]}}', ''
    yield 'partitions:', ''


def _partition(like: Like, cluster: Cluster) -> Iterator[Line]:
    """Yield the lines of a partition up to its `extras`."""
    one, queue = _smallest(like), like.queue
    common = sorted(set.intersection(*(set(n.labels) for n in like.nodes)))
    called = f'; all are called {short(common)}' if common else ''
    yield f'  - name: {like.name}', ''
    yield (f'    descr: {counted(len(like.nodes), "node")} of {counted(one.cores, "core")}',
           f'for instance {like.nodes[0].name}{called}')
    if like.mixed:
        yield '', f'{TODO} jobs may get unlike nodes, no option tells them apart: {like.mixed}'
    yield f'    scheduler: {cluster.scheduler}', ''
    if cluster.scheduler == 'slurm':
        yield '    sched_options: {use_nodes_option: true}', '--ntasks-per-node alone is a maximum'
    yield f'    launcher: {_LAUNCHERS[cluster.scheduler]}', ''
    yield _access(like, cluster)
    if cluster.mpi_type:
        yield (f'    env_vars: [[SLURM_MPI_TYPE, {cluster.mpi_type}]]', 'srun --mpi=list: ranks of one MPI job')
    known = f'{_span(queue.longest)} at most in {queue.name}' if queue.longest else f'{queue.name} has no limit'
    yield f'    time_limit: {_span(min(queue.longest or _CASE_SECONDS, _CASE_SECONDS))}', f'of one case; {known}'
    kinds = {_KINDS[label] for label in common if label in _KINDS}
    kinds = kinds if len(kinds) == 1 else set()
    yield (f'    features: [{", ".join(["cpu", *(["gpu"] if one.gpus else []), *kinds])}]',
           f'the operator calls these nodes {min(kinds)}' if kinds else f'{TODO} add physical or virtual')
    for kind, count in one.gpus[:1]:
        arch = next((_ARCHES[word] for word in re.split(r'[^a-z0-9]+', kind.lower()) if word in _ARCHES), '')
        told = f'{count} x {kind or "of unknown type"}'
        yield (f'    devices: [{{type: gpu, {f"arch: {arch}, " if arch else ""}num_devices: {count}}}]',
               told if arch else f'{TODO} arch, such as sm_80; {told}')


def _smallest(like: Like) -> Node:
    return min(like.nodes, key=lambda n: (n.cores, n.memory_bytes))


def _access(like: Like, cluster: Cluster) -> Line:
    queue = like.queue
    if cluster.scheduler == 'pbs':
        options = [f'-q {queue.name}', f"'{submission.SCATTER}'", *like.options, 'ompthreads=1']
        return f'    access: [{", ".join(options)}]', f'{TODO} -A ACCOUNT, where the site wants one'
    options = [f'--partition={queue.name}', *([f'--account={cluster.account}'] if cluster.account else []),
               *([] if queue.exclusive else ['--exclusive']), *(f"'{o}'" if ':' in o else o for o in like.options),
               *(['--hint=nomultithread'] if like.nodes[0].threads > 1 else []),
               *(['--mem=0'] if queue.memory else [])]
    why = [f'account: sacctmgr, default of {getpass.getuser()}'] if cluster.account else []
    why += [f'--mem=0, as {queue.memory}'] if queue.memory else []
    return f'    access: [{", ".join(options)}]', '; '.join(why)


def _extras(like: Like, cluster: Cluster, host: Host, first: bool) -> Iterator[Line]:
    """Yield the lines of a partition's `extras`; those of the first partition hold what all have in common."""
    one, most, total = _smallest(like), like.queue.most_nodes, len(like.nodes)
    # as many nodes as are configured: an outage of today is no property of the system
    away = [f'{n.name} {n.state}'.strip() for n in like.nodes if not n.up]
    missed = f'{TODO} fewer, if these do not come back: {short(away)}; ' if away else ''
    yield '    extras:', ''
    limit = f', {most} a job' if most else ''
    yield (f'      nodes: {min(total, most or total)}',
           f'{missed}that one job may have; {total - len(away)} of {total} are up{limit}')
    threads = f', {one.threads} threads each' if one.threads > 1 else ''
    if cluster.scheduler == 'pbs':
        threads = ': ncpus; hardware threads are counted as cores where the site has them on'
    yield f'      cores: {one.cores}', f'{_SOURCES[cluster.scheduler]}{threads}'
    yield f'      memory_bytes: {one.memory_bytes:_}', f'{_gib(one)}: {_SOURCES[cluster.scheduler]}'
    yield '      # llc_bytes:', f'{TODO} last-level caches of a node together: lscpu -B there'
    if not first:
        yield '      filesystems: *filesystems', ''
        yield from [('      limits: *limits', '')] if host.link else ()
        return
    named = {name: found for name, found in host.filesystems.items() if name != 'home'} or host.filesystems
    others = f'; no folder of yours is known on {short(host.unknown)}' if host.unknown else ''
    if named:
        paths = ', '.join(f'{name}: {quoted(path)}' for name, (path, _) in named.items())
        yield (f'      filesystems: &filesystems {{{paths}}}',
               '; '.join(source for _, source in named.values()) + others)
    else:
        yield ('      filesystems: &filesystems {scratch: $PARITY_RESULTS/scratch}',
               f'{TODO} a folder of yours that all nodes see{others or "; none is mounted here"}')
    if host.link:
        rate, source = host.link
        yield '      limits: &limits', f'{TODO} certain: true, once the nodes are known to have such a port'
        yield (f'        link_bandwidth: {{value: {rate:g}, unit: MB/s, certain: false, source: '
               f'{json.dumps(f"login node, {source}")}}}', '')
    else:
        yield ('      # limits: {link_bandwidth: {value: 25000, unit: MB/s, source: ...}}',
               f'{TODO} this node has no active InfiniBand port and no hsn interface')


def _span(seconds: int) -> str:
    parts = ((seconds // 86400, 'd'), (seconds // 3600 % 24, 'h'), (seconds // 60 % 60, 'm'), (seconds % 60, 's'))
    return ''.join(f'{count}{unit}' for count, unit in parts if count)


def _gib(node: Node) -> str:
    return f'{node.memory_bytes / (1 << 30):.4g} GiB'


def short(words: Iterable[str], most: int = 100) -> str:
    """Join a list, cut where it grows too long for a comment."""
    text = ', '.join(words)
    return text if len(text) <= most else text[:most].rpartition(', ')[0] + ', ...'


def quoted(text: str) -> str:
    """Return text for YAML, in quotes where it needs them."""
    return text if re.fullmatch(r'[A-Za-z/$][\w/.$-]*', text) else json.dumps(text)


#: Characters that a partition's name cannot have.
_NO_NAME = r'[^A-Za-z0-9_-]'
#: Like nodes differ less in memory: a kernel keeps a little more on one than on another.
_MEMORY = 0.1
#: Generations of processors, in operators' words: they tell nodes of one size apart.
_PROCESSORS = re.compile(
    r'(sandy|ivy)_?bridge|snb|ivb|haswell|hsw|broadwell|bdw|(sky|cascade|cooper|ice)_?lake|skl|skx|clx|icx|icl'
    r'|(sapphire|granite|emerald)_?rapids|spr|emr|gnr|knl|naples|rome|milan(-?x)?|genoa(-?x)?|bergamo|turin|zen[1-6]'
    r'|power(8|9|10)|thunderx2?|a64fx|grace|graviton\d|ampere|altra|intel|amd|arm')


def like_nodes(cluster: Cluster) -> tuple[list[Like], dict[str, str]]:
    """Return the partitions worth measuring, and why each other queue was left out."""
    queues, slurm = cluster.queues, cluster.scheduler == 'slurm'
    members = {q.name: [node for node in cluster.nodes if q.name in node.queues] for q in queues}
    left = {q.name: q.closed for q in queues if q.closed}
    left |= {name: 'it has no nodes' for name, nodes in members.items() if not nodes}
    found = [like for q in queues if q.name not in left for like in _kinds(q, members[q.name], slurm)]
    count = Counter(like.queue.name for like in found)
    found.sort(key=lambda k: (-len(k.nodes), count[k.queue.name], not k.queue.default,
                              -(k.queue.longest or 1 << 40), k.name))
    taken, covered = [], {}
    for like in found:
        if new := {n.name for n in like.nodes} - set(covered):
            taken.append(like)
            covered |= dict.fromkeys(new, like.name)
    order = list(members)
    for name in order:
        if name not in left and name not in {like.queue.name for like in taken}:
            same = dict.fromkeys(covered[n.name] for n in members[name])
            left[name] = f'its nodes are those of {", ".join(same)}'
    return sorted(taken, key=lambda k: (order.index(k.queue.name), k.name)), left


def _kinds(queue: Queue, nodes: list[Node], slurm: bool) -> list[Like]:
    """Return the kinds of a queue's nodes that its jobs can ask for, and the other nodes together as one kind."""
    kinds: dict[tuple, list[Node]] = {}
    for node in sorted(nodes, key=lambda n: n.memory_bytes):
        fixed = node.cores, node.gpus, *filter(_names_processor, node.labels)
        near = next((k for k in kinds if k[0] == fixed and node.memory_bytes <= k[1] * (1 + _MEMORY)), None)
        kinds.setdefault(near or (fixed, node.memory_bytes), []).append(node)
    base = re.sub(_NO_NAME, '-', queue.name)
    if len(kinds) == 1:
        return [Like(base, queue, tuple(nodes), _gpus(nodes, slurm))]
    found, rest = [], []
    for members in kinds.values():
        others = list(set(nodes) - set(members))
        own = members[0].gpus and not set(members[0].gpus) & {g for n in others for g in n.gpus}
        word = '' if own else _tells(members, others)
        if own or word:
            told = members[0].gpus[0][0] or 'gpu' if own else word.partition('=')[2] or word
            options = (*([f'--constraint={word}' if slurm else word] if word else []), *_gpus(members, slurm))
            found.append(Like(f'{base}-{re.sub(_NO_NAME, "-", told)}', queue, tuple(members), options))
        else:
            rest.append(members)
    if rest:
        told = '; '.join(f'{len(kind)} of {kind[0].cores} cores, {_gib(kind[0])}'
                         + ''.join(f', {count} {gpu or "GPUs"}' for gpu, count in kind[0].gpus)
                         for kind in (rest if len(rest) > 1 else kinds.values()))
        found.append(Like(base, queue, tuple(n for members in rest for n in members), mixed=told))
    return found


def _names_processor(label: str) -> bool:
    return bool(_PROCESSORS.fullmatch(label.rpartition('=')[2].lower()))


def _tells(members: list[Node], others: list[Node]) -> str:
    """Return a label that all of ``members`` have and none of the others: a processor's, or else the shortest."""
    common = set.intersection(*(set(n.labels) for n in members)) - {w for n in others for w in n.labels}
    return min(common, key=lambda w: (not _names_processor(w), len(w), w), default='')


def _gpus(members: list[Node], slurm: bool) -> tuple[str, ...]:
    return tuple(f'--gres=gpu:{kind and kind + ":"}{count}' if slurm else f'ngpus={count}'
                 for kind, count in members[0].gpus)
