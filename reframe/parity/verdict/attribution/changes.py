"""The known cause of a slower figure, and the facts of nodes, software and tools that changed before it.

What is not known stays empty."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Literal

from parity.base.strict import Strict
from parity.records.record import Session

#: Nodes that are named one by one in a sentence.
_NAMED = 4
#: Facts of no node in particular.
ANYWHERE = ''
#: Facts from programs/node.sh and watch.py, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'microcode', 'firmware', 'governor', 'clocksource', 'gpu_driver',
        'vulnerable', 'throttled')
#: {(node, fact): when each session began, and the fact's text in it}
Known = dict[tuple[str, str], list[tuple[float, str]]]


class Change(Strict):
    """A fact that differs between the last good night and the bad one."""

    fact: str                        # kernel, microcode, mpi, nodes, ...
    old: str
    new: str
    nodes: list[str] = []            # where it changed; none: not a fact of a node
    since: float                     # when the first session began that had the new value (Unix time)

    def __str__(self) -> str:
        day = datetime.datetime.fromtimestamp(self.since).date()
        on = f' on {several(self.nodes)}' if self.nodes else ''
        return f'{self.fact} {self.old} -> {self.new}{on} since {day}'


class Where(Strict):
    """One node, one partition or everything; '' where that is not known. ``why`` is the evidence."""

    kind: Literal['node', 'partition', 'everything', ''] = ''
    name: str = ''
    why: str = ''

    def __str__(self) -> str:
        named = {'node': f'this node: {self.name}', 'partition': f'partition {self.name}',
                 'everything': 'everything', '': 'cannot be told'}[self.kind]
        return f'{named} ({self.why})' if self.why else named


class Subsystem(Strict):
    """The part of a machine that moves with the slower cells; '' where that is not known."""

    name: str = ''
    why: str = ''
    cells: list[str] = []            # the cells that support it, by name

    def __str__(self) -> str:
        return f'{self.name or "cannot be told"} ({self.why})' if self.why else self.name


class Attribution(Strict):
    """The cause of one slower figure: where, in what part of the machine, and what changed."""

    where: Where = Where()
    subsystem: Subsystem = Subsystem()
    changes: list[Change] = []

    def lines(self, changes: int | None = None) -> list[str]:
        """Return a line for each known part, with at most ``changes`` facts that changed."""
        told = [f'changed: {change}' for change in self.changes]
        left = len(told) - len(told[:changes])
        return list(filter(None, (f'where: {self.where}', f'part: {self.subsystem}' if str(self.subsystem) else '',
                                  *told[:changes], f'changed: {left} facts more' if left else '')))


def several(names: list[str]) -> str:
    """Return 'v1, v2, v3, v4 and 12 more'."""
    rest = len(names) - _NAMED
    return ', '.join(names[:_NAMED]) + (f' and {rest} more' if rest > 0 else '')


def known(nights: list[Session], bad: float, environ: str) -> Known:
    """Return the facts of each night up to the session begun at ``bad`` (Unix time).

    ``nights``: sessions of one system, oldest first. ``environ``: the environment whose software counts."""
    found: Known = {}
    for night in nights:
        if night.start <= bad:
            for node, name, text in _facts(night, environ):
                found.setdefault((node, name), []).append((night.start, text))
    return found


def since(told: Known, good: float) -> list[Change]:
    """Return every change since the session begun at ``good``, with all nodes that have it."""
    changed: dict[tuple, list[str]] = {}
    for (node, name), values in told.items():
        before = [text for start, text in values if start <= good]
        new = values[-1][1]
        if before and new != before[-1]:
            *_, (began, _) = takewhile(lambda value, new=new: value[1] == new, reversed(values))
            changed.setdefault((name, before[-1], new, began), []).append(node)
    return [Change(fact=name, old=old, new=new, since=began, nodes=sorted(nodes))
            for (name, old, new, began), nodes in changed.items()]


def on(changed: list[Change], nodes: set[str]) -> list[Change]:
    """Return the changes on any of ``nodes``, and those of no node in particular."""
    here = {ANYWHERE, *map(_short, nodes)}
    return [change.model_copy(update={'nodes': [n for n in change.nodes if n]})
            for change in changed if here & set(map(_short, change.nodes))]


def of_nodes(good: set[str], bad: set[str], since: float) -> list[Change]:
    """Return the change of nodes, where the bad figure shares none with the good one."""
    if not good or not bad or good & bad:
        return []
    return [Change(fact='nodes', old=' '.join(sorted(good)), new=' '.join(sorted(bad)), since=since)]


def _short(node: str) -> str:
    """A node's name without the domain, which only one of scheduler and node may know."""
    return node.partition('.')[0]


def _facts(session: Session, environ: str) -> Iterator[tuple[str, str, str]]:
    """(node or ANYWHERE, fact, text) of each known fact: an unknown one differs from nothing."""
    machine = session.facts.get('machine') or {}
    software = (session.facts.get('software') or {}).get(environ) or {}
    host = machine.get('hostname') or ANYWHERE
    nodes = {node: {name: said.get(name) for name in NODE} for node, said in session.nodes.items()}
    nodes.setdefault(host, {}).update(_given({**_machine(machine), 'throttled': session.throttled}))
    anywhere = {**dict(_software(software)), 'ReFrame': session.reframe, 'parity': session.facts.get('parity')}
    for node, facts in [*nodes.items(), (ANYWHERE, anywhere)]:
        yield from ((node, name, text) for name, text in _given(facts).items())


def _given(facts: dict[str, Any]) -> dict[str, str]:
    return {name: str(text) for name, text in facts.items() if text not in (None, '')}


def _machine(machine: dict[str, Any]) -> dict[str, Any]:
    """The machine that ReFrame ran on: the node itself where there is no scheduler."""
    size = machine.get('memory_bytes')
    return {
        'kernel': machine.get('kernel'), 'virtualisation': machine.get('backend'),
        'processor': machine.get('model_name'), 'governor': machine.get('governor'),
        'clocksource': machine.get('clocksource'), 'mitigations': machine.get('mitigations'),
        'cores': len(machine.get('core_sets') or ()) or None, 'cpu quota': machine.get('cpu_quota'),
        # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
        'memory': size and f'{size / 2**30:.1f} GiB'}


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, version) of an environment's software; a moved file is no change."""
    for name, program in (software.get('programs') or {}).items():
        version = program.get('package_version') or program.get('version')
        # python3's patches do not make other software (parity.software.model)
        yield name, program.get('version') if name == 'python3' else _version(version, program.get('sha256'))
    for name, package in (software.get('packages') or {}).items():
        if isinstance(package, dict):
            version = _version(package.get('spec'), package.get('hash'), 7)
            package = ' '.join(filter(None, (version, package.get('compiler'), package.get('mpi'))))
        yield name, str(package)
    for name in ('mpi', 'blas'):
        if said := software.get(name):
            yield name.upper(), ' '.join(str(said[k]) for k in ('name', 'version', 'core') if said.get(k))
    if modules := software.get('modules'):
        yield 'modules', ' '.join(modules)


def _version(version: str | None, digest: str | None, length: int = 8) -> str:
    return ' '.join(filter(None, (version, digest and f'/{digest[:length]}')))
