"""Nodes put together: like nodes behind one queue are a partition of system.yaml. Sites show the same nodes
through many queues, and different nodes through one; each kind is taken once, through the queue that shows most of
it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from parity.probe.model import Like, Node, Queue

#: What the name of a partition must not have.
_NO_NAME = r'[^A-Za-z0-9_-]'
#: Memories that differ by less are those of like nodes: a kernel keeps a little more on one than on another.
_MEMORY = 0.1
#: Generations of processors, in the words that operators give nodes: what tells nodes of one size apart.
_PROCESSORS = re.compile(
    r'(sandy|ivy)_?bridge|snb|ivb|haswell|hsw|broadwell|bdw|(sky|cascade|cooper|ice)_?lake|skl|skx|clx|icx|icl'
    r'|(sapphire|granite|emerald)_?rapids|spr|emr|gnr|knl|naples|rome|milan(-?x)?|genoa(-?x)?|bergamo|turin|zen[1-6]'
    r'|power(8|9|10)|thunderx2?|a64fx|grace|graviton\d|ampere|altra|intel|amd|arm')


def of(nodes: Iterable[Node], queues: Iterable[Queue],
       asks: Mapping[str, str]) -> tuple[list[Like], dict[str, str]]:
    """The partitions worth measuring, and why each other queue was left out; ``asks`` gives the options for
    nodes."""
    members: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
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
