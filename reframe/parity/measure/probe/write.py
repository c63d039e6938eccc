"""The file that a person would have written, each value with its source beside it."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import jinja2
from archspec import cpu

from parity.base import codes, submission
from parity.base.figures import counted
from parity.measure.probe.login import BatchSystem, Folder, Host, Node, Queue

#: The command that lists the nodes of each batch system.
_SOURCES = {'slurm': 'scontrol show node', 'pbs': 'pbsnodes -a'}
#: A comment begins here, or two blanks behind a longer line.
_COLUMN = 58
#: The most characters of a list in a comment.
_LONGEST = 100
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


#: Processors in archspec's words, by operators' words that are no names of archspec.
_TARGETS = {'snb': 'sandybridge', 'ivb': 'ivybridge', 'hsw': 'haswell', 'bdw': 'broadwell',
            'skl': 'skylake_avx512', 'skylake': 'skylake_avx512', 'skx': 'skylake_avx512', 'clx': 'cascadelake',
            'icx': 'icelake', 'spr': 'sapphirerapids', 'naples': 'zen', 'rome': 'zen2', 'milan': 'zen3',
            'genoa': 'zen4', 'bergamo': 'zen4', 'turin': 'zen5', 'altra': 'neoverse_n1', 'grace': 'neoverse_v2'}
#: Names of archspec that are no processor: a label such as arm or x86_64 says too little.
_GENERIC = frozenset(name for name, target in cpu.TARGETS.items() if target.vendor == 'generic')


class Like(NamedTuple):
    """Like nodes behind one queue: a partition of system.yaml. ``options`` tell them from the queue's others."""

    name: str
    queue: Queue
    nodes: tuple[Node, ...]
    options: tuple[str, ...] = ()
    mixed: str = ''                     # the kinds its jobs may get, where no option tells them apart

    @property
    def smallest(self) -> Node:
        return min(self.nodes, key=lambda node: (node.cores, node.memory_bytes))

    @property
    def common(self) -> list[str]:
        """The labels that all of its nodes have."""
        return sorted(_common(self.nodes))

    @property
    def target(self) -> str:
        """The processor of the nodes, as Spack calls it, by the labels that each has; '' for none or two."""
        processors = set()
        for label in self.common:
            for word in re.split('[=,]', label.lower()):
                short_word = word.replace('_', '')
                processors |= {word, _TARGETS.get(short_word, short_word)}
        processors &= cpu.TARGETS.keys() - _GENERIC
        return processors.pop() if len(processors) == 1 else ''

    @property
    def kind(self) -> str:
        """Return physical or virtual, as the operator calls the nodes; '' where that is not known."""
        kinds = {_KINDS[label] for label in self.common if label in _KINDS}
        return kinds.pop() if len(kinds) == 1 else ''

    @property
    def away(self) -> list[str]:
        """The nodes that are not up today; an outage is no property of the system."""
        return [f'{n.name} {n.state}'.strip() for n in self.nodes if not n.up]


def targets(likes: Iterable[Like]) -> dict[str, list[str]]:
    """Return the partitions of each processor, '' for an unknown one; {} where no label names any."""
    names: dict[str, list[str]] = defaultdict(list)
    for like in likes:
        names[like.target].append(like.name)
    return names if any(names) else {}


def system(name: str, cluster: BatchSystem, host: Host, today: datetime.date) -> str:
    """Return the text of system.yaml."""
    likes, left_out = like_nodes(cluster)
    is_slurm = cluster.scheduler == 'slurm'
    source = _SOURCES[cluster.scheduler]
    hostname = re.escape(host.name)
    user = getpass.getuser() if cluster.account else ''
    text = _template().render(
        name=name,
        cluster=cluster,
        host=host,
        today=today,
        likes=likes,
        left=left_out,
        targets=targets(likes),
        slurm=is_slurm,
        source=source,
        hostname=f'^{hostname}$',
        modules=_modules_system(),
        user=user,
        folders=_folders(host),
        others=_without_folder(host))
    lines = [_line(line) for line in text.splitlines()]
    return ''.join(lines)


def _folders(host: Host) -> dict[str, Folder]:
    """Return this user's folders that benchmarks may fill: the home only where there is no other."""
    beyond_home = {name: folder for name, folder in host.filesystems.items() if name != 'home'}
    return beyond_home or host.filesystems


def _without_folder(host: Host) -> str:
    """Return the end of a comment: the file systems without a folder of this user's."""
    return f'; no folder of yours is known on {short(host.unknown)}' if host.unknown else ''


def _template() -> jinja2.Template:
    """Return the template with what does not depend on the site."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False)
    environment.filters |= {
        'environ': _environ_name,
        'short': short,
        'quoted': quoted,
        'json': json.dumps,
        'span': _span,
        'gib': _gib,
        'arch': _arch,
    }
    environment.globals |= {
        'counted': counted,
        'scatter': submission.SCATTER,
        'built': _built(),
        'CASE_SECONDS': _CASE_SECONDS,
    }
    return environment.get_template('system.yaml.j2')


def _built() -> tuple[str, ...]:
    """Return two codes that Spack builds, as examples of what a module may bring."""
    return codes.of_spack()[:2]


def _modules_system() -> str:
    """Return ReFrame's word for the module system of this shell."""
    if 'LMOD_CMD' in os.environ:
        return 'lmod'
    return 'envmod' if 'MODULES_CMD' in os.environ else 'nomod'


def _line(line: str) -> str:
    """Return a line with its comment, the text behind `## `, in the column of comments."""
    text, _, comment = line.partition('## ')
    text = text.rstrip()
    if not comment:
        return f'{text}\n'
    width = 0
    if text:
        width = _COLUMN if len(text) < _COLUMN else len(text) + 2
    return f'{text:<{width}}# {comment}\n'


def _arch(gpu: str) -> str:
    """Return the architecture of a GPU by the words of its name; '' for an unknown one."""
    for word in re.split(r'[^a-z0-9]+', gpu.lower()):
        if word in _ARCHES:
            return _ARCHES[word]
    return ''


def _span(seconds: int) -> str:
    """Return seconds as a time of system.yaml, such as 1d12h."""
    text = ''
    for unit, length in (('d', 86400), ('h', 3600), ('m', 60), ('s', 1)):
        count, seconds = divmod(seconds, length)
        if count:
            text += f'{count}{unit}'
    return text


def _environ_name(module: str) -> str:
    """Return a name for the environment of a module, of the characters that ReFrame takes."""
    return re.sub(r'[^A-Za-z0-9_-]+', '-', module).strip('-')


def _gib(node: Node) -> str:
    return f'{node.memory_bytes / (1 << 30):.4g} GiB'


def short(words: Iterable[str]) -> str:
    """Join a list, cut where it grows too long for a comment."""
    text = ', '.join(words)
    if len(text) <= _LONGEST:
        return text
    whole_words = text[:_LONGEST].rpartition(', ')[0]
    return f'{whole_words}, ...'


def quoted(text: str) -> str:
    """Return text for YAML, in quotes where it needs them."""
    if re.fullmatch(r'[A-Za-z/$][\w/.$-]*', text):
        return text
    return json.dumps(text)


#: Characters that a partition's name cannot have.
_NO_NAME = r'[^A-Za-z0-9_-]'
#: Seconds of a queue without a limit, to rank it by.
_NO_LIMIT = 1 << 40
#: Like nodes differ less in memory: a kernel keeps a little more on one than on another.
_MEMORY = 0.1
#: Generations of processors, in operators' words: they tell nodes of one size apart.
_PROCESSORS = re.compile(r'''
      (sandy|ivy)_?bridge | snb | ivb | haswell | hsw | broadwell | bdw
    | (sky|cascade|cooper|ice)_?lake | skl | skx | clx | icx | icl
    | (sapphire|granite|emerald)_?rapids | spr | emr | gnr | knl
    | naples | rome | milan(-?x)? | genoa(-?x)? | bergamo | turin | zen[1-6]
    | power(8|9|10) | thunderx2? | a64fx | grace | graviton\d | ampere | altra
    | intel | amd | arm''', re.VERBOSE)


def like_nodes(cluster: BatchSystem) -> tuple[list[Like], dict[str, str]]:
    """Return the partitions worth measuring, and why each other queue was left out."""
    members = {queue.name: cluster.nodes_of(queue) for queue in cluster.queues}
    left = {}
    candidates = []
    for queue in cluster.queues:
        nodes = members[queue.name]
        why = _useless(queue, nodes)
        if why:
            left[queue.name] = why
        else:
            candidates += _kinds(queue, nodes, cluster.scheduler == 'slurm')
    taken, of_node = _without_doubles(candidates)
    queues_taken = {like.queue.name for like in taken}
    for name, nodes in members.items():
        if name not in left and name not in queues_taken:
            same = dict.fromkeys(of_node[node.name] for node in nodes)
            left[name] = f'its nodes are those of {", ".join(same)}'
    order = list(members)
    return sorted(taken, key=lambda like: (order.index(like.queue.name), like.name)), left


def _useless(queue: Queue, nodes: list[Node]) -> str:
    """Return why a queue is left out whatever its nodes are; '' where it may be measured."""
    if not nodes:
        return 'it has no nodes'
    if queue.reserved and not queue.closed:
        return 'a reservation'
    return queue.closed


def _without_doubles(candidates: list[Like]) -> tuple[list[Like], dict[str, str]]:
    """Return the partitions that bring nodes which no better one has, and the partition of each node."""
    kinds_of = Counter(like.queue.name for like in candidates)
    taken: list[Like] = []
    of_node: dict[str, str] = {}
    for like in sorted(candidates, key=lambda like: _rank(like, kinds_of[like.queue.name])):
        new = {node.name for node in like.nodes} - of_node.keys()
        if new:
            taken.append(like)
            of_node |= dict.fromkeys(new, like.name)
    return taken, of_node


def _rank(like: Like, kinds: int) -> tuple:
    """Return the place of a partition whose queue has so many ``kinds`` of nodes; the smallest comes first.

    A queue of one kind comes before one of many kinds that shows up to twice as many of its nodes."""
    nodes_of_each_kind = len(like.nodes) / (1 + like.mixed.count(';'))
    if kinds == 1 and not like.mixed:
        nodes_of_each_kind *= 2
    longest = like.queue.longest or _NO_LIMIT
    return -nodes_of_each_kind, kinds, not like.queue.default, -longest, like.name


def _kinds(queue: Queue, nodes: list[Node], slurm: bool) -> list[Like]:
    """Return the kinds of a queue's nodes that its jobs can ask for, and the other nodes together as one kind."""
    kinds = _by_hardware(nodes)
    base = re.sub(_NO_NAME, '-', queue.name)
    if len(kinds) == 1:
        return [Like(base, queue, tuple(nodes), _gpus(nodes, slurm))]
    likes = []
    rest = []
    for members in kinds:
        others = list(set(nodes) - set(members))
        sign = _sign(members, others, slurm)
        if sign:
            name = f'{base}-{re.sub(_NO_NAME, "-", sign.word)}'
            options = (*sign.options, *_gpus(members, slurm))
            likes.append(Like(name, queue, tuple(members), options))
        else:
            rest.append(members)
    if rest:
        mixed = '; '.join(map(_hardware, rest if len(rest) > 1 else kinds))
        likes.append(Like(base, queue, tuple(chain(*rest)), mixed=mixed))
    return likes


class Sign(NamedTuple):
    """A sign that some nodes of a queue have alone: a word for it, and the options that ask for such nodes."""

    word: str
    options: tuple[str, ...] = ()


def _sign(members: list[Node], others: list[Node], slurm: bool) -> Sign | None:
    """Return a sign of the ``members``: their GPUs, which a job asks for anyway, or a label; None for neither."""
    gpus = members[0].gpus
    if gpus and set(gpus).isdisjoint(chain(*(node.gpus for node in others))):
        kind, _ = gpus[0]
        return Sign(kind or 'gpu')
    label = _tells(members, others)
    if not label:
        return None
    option = f'--constraint={label}' if slurm else label
    return Sign(label.partition('=')[2] or label, (option,))


def _by_hardware(nodes: list[Node]) -> list[list[Node]]:
    """Return the nodes by cores, GPUs, kind and processor; those of one kind differ little in memory."""
    kinds: list[list[Node]] = []
    for node in sorted(nodes, key=lambda node: node.memory_bytes):
        for kind in kinds:
            first = kind[0]
            most_memory = first.memory_bytes * (1 + _MEMORY)
            if _sort(first) == _sort(node) and node.memory_bytes <= most_memory:
                kind.append(node)
                break
        else:
            kinds.append([node])
    return kinds


def _sort(node: Node) -> tuple:
    """Return what two nodes of one kind have in common, memory apart."""
    processors = tuple(label for label in node.labels if _names_processor(label))
    return node.cores, node.gpus, _kind(node), processors


def _hardware(kind: list[Node]) -> str:
    """Return `4 of 16 cores, 64 GiB, 2 a100`."""
    first = kind[0]
    words = [f'{len(kind)} of {first.cores} cores', _gib(first)]
    words += [f'{count} {gpu or "GPUs"}' for gpu, count in first.gpus]
    return ', '.join(words)


def _kind(node: Node) -> str:
    """Return physical, virtual or cloud, by the operator's words or Slurm's state; '' where neither says it. Of a
    node that Slurm does not show only the name is known."""
    if not node.state:
        return re.sub(r'\d.*', '', node.name)
    words = {*node.labels, *node.state.split('+')}
    if 'cloud' in words:
        return 'cloud'
    for word in sorted(words):
        if word in _KINDS:
            return _KINDS[word]
    return ''


def _names_processor(label: str) -> bool:
    word = label.rpartition('=')[2]
    return bool(_PROCESSORS.fullmatch(word.lower()))


def _tells(members: list[Node], others: list[Node]) -> str:
    """Return a label that all of ``members`` have and none of the others: a processor's, or else the shortest."""
    own = _common(members).difference(*(node.labels for node in others))
    return min(own, key=lambda label: (not _names_processor(label), len(label), label), default='')


def _common(nodes: Iterable[Node]) -> set[str]:
    """Return the labels that all of the nodes have."""
    return set.intersection(*(set(node.labels) for node in nodes))


def _gpus(members: list[Node], slurm: bool) -> tuple[str, ...]:
    """Return the options that ask for all GPUs of a node."""
    options = []
    for kind, count in members[0].gpus:
        if not slurm:
            options.append(f'ngpus={count}')
        elif kind:
            options.append(f'--gres=gpu:{kind}:{count}')
        else:
            options.append(f'--gres=gpu:{count}')
    return tuple(options)
