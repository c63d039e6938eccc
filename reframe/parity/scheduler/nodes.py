"""The nodes of a PBS, as `pbsnodes -a` tells of them, and which of them a job's options leave."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: States in which a node takes jobs, now or when those that it has have ended.
_AVAILABLE = {'free', 'busy', 'job-busy', 'job-exclusive'}
#: States in which the server has no word of a node's own daemon.
_UNREACHABLE = {'down', 'state-unknown', 'unresolvable'}
#: What a chunk asks for that is no property of a node.
_OF_THE_JOB = ('mpiprocs', 'ompthreads', 'mpiexec')
_BYTES = {'b': 1, 'kb': 1 << 10, 'mb': 1 << 20, 'gb': 1 << 30, 'tb': 1 << 40, 'pb': 1 << 50}


@dataclass(frozen=True)
class PbsNode:
    """A host; ``queue`` is the one that it is set apart for, ''."""

    name: str
    states: frozenset[str]
    queue: str = ''
    resources: dict[str, str] = field(default_factory=dict, compare=False)
    comment: str = field(default='', compare=False)

    @property
    def is_available(self) -> bool:
        return self.states <= _AVAILABLE

    def in_state(self, state: str) -> bool:
        """Whether it is in all of these states (`a+b`); `idle`, ReFrame's default, is PBS's `free`."""
        return _states(state) <= self.states

    def in_statex(self, state: str) -> bool:
        return _states(state) == self.states


def _states(text: str) -> frozenset[str]:
    return frozenset('free' if word == 'idle' else word for word in text.lower().split('+'))


def read(text: str) -> list[PbsNode]:
    """The hosts that `pbsnodes -a` prints: a name, then lines `     attribute = value`."""
    found: dict[str, PbsNode] = {}
    for block in re.split(r'\n(?=\S)', text.strip('\n')):
        facts = dict(re.findall(r'^ +(\S+) = (.*)$', block, re.MULTILINE))
        if 'state' not in facts:
            continue
        resources = {key.partition('.')[2]: value for key, value in facts.items()
                     if key.startswith('resources_available.')}
        name = resources.get('host', block.split()[0])
        states = frozenset(facts['state'].replace(' ', '').split(','))
        found.setdefault(name, PbsNode(name, states, facts.get('queue', ''), resources, facts.get('comment', '')))
    return list(found.values())


def down(text: str) -> dict[str, str]:
    """Of the hosts that `pbsnodes` prints, those that the server cannot reach, with its comment or their state."""
    return {node.name: node.comment.removeprefix('node down: ') or ', '.join(sorted(node.states))
            for node in read(text) if node.states & _UNREACHABLE}


def left(nodes: list[PbsNode], queue: str, wanted: dict[str, str]) -> list[PbsNode]:
    """Those on which a job of ``queue`` that asks for ``wanted`` of each node can run.

    Nodes that are set apart for a queue serve it alone, and it has no others.
    """
    own = [node for node in nodes if queue and node.queue == queue] or [n for n in nodes if not n.queue]
    return [node for node in own if all(_offers(node, *want) for want in wanted.items())]


def _offers(node: PbsNode, name: str, want: str) -> bool:
    if name in _OF_THE_JOB:
        return True
    have = node.resources.get(name, '')
    sizes = _size(have), _size(want)
    if None not in sizes:
        return sizes[0] >= sizes[1]
    return want.lower() in have.lower().split(',')


def _size(text: str) -> int | None:
    """A number, or a size in bytes; None for a word."""
    found = re.fullmatch(r'(\d+)([kmgtp]?b)?', text.lower())
    return int(found[1]) * _BYTES[found[2] or 'b'] if found else None
