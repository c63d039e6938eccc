"""What is known of the cause of a slower figure; what is not known stays empty."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Literal

from parity.base.strict import Strict
from parity.records.record import Session

#: Nodes that are named one by one in a sentence.
_NAMED = 4


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
    """One node, one partition or everything; '' where that cannot be told. ``why`` is the evidence."""

    kind: Literal['node', 'partition', 'everything', ''] = ''
    name: str = ''
    why: str = ''

    def __str__(self) -> str:
        named = {'node': f'this node: {self.name}', 'partition': f'partition {self.name}',
                 'everything': 'everything', '': 'cannot be told'}[self.kind]
        return f'{named} ({self.why})' if self.why else named


class Subsystem(Strict):
    """What part of a machine moves with the cells that are slower; '' where none can be told."""

    name: str = ''
    why: str = ''
    cells: list[str] = []            # those that support it, as parity.records.history.cell_id prints them

    def __str__(self) -> str:
        return f'{self.name or "cannot be told"} ({self.why})' if self.why else self.name


class Attribution(Strict):
    """Where, in what part of the machine, and what changed."""

    where: Where = Where()
    subsystem: Subsystem = Subsystem()
    changes: list[Change] = []

    def lines(self, changes: int | None = None) -> list[str]:
        """What is known, a line each, with no more than so many changes; what is not known has none."""
        told = [f'changed: {change}' for change in self.changes]
        left = len(told) - len(told[:changes])
        return list(filter(None, (f'where: {self.where}', f'part: {self.subsystem}' if str(self.subsystem) else '',
                                  *told[:changes], f'changed: {left} facts more' if left else '')))


def several(names: list[str]) -> str:
    """'v1, v2, v3, v4 and 12 more'."""
    rest = len(names) - _NAMED
    return ', '.join(names[:_NAMED]) + (f' and {rest} more' if rest > 0 else '')


Known = list[tuple[float, str]]      # when a session began, and the fact's text in it


def known(nights: list[Session], bad: float, environ: str) -> dict[tuple[str, str], Known]:
    """What was known of each node and fact when, up to the session begun at ``bad`` (Unix time). ``nights``:
    sessions of one system, oldest first; those before the last good one tell of nodes that did not run in it."""
    found: dict[tuple[str, str], Known] = {}
    for night in nights:
        if night.start <= bad:
            for node, said in _facts(night, environ).items():
                for name, text in said.items():
                    found.setdefault((node, name), []).append((night.start, text))
    return found


def since(told: dict[tuple[str, str], Known], good: float) -> list[Change]:
    """All that changed since the session begun at ``good``, with the nodes on which it did."""
    changed: dict[tuple, list[str]] = {}
    for (node, name), values in told.items():
        if step := _step(values, good):
            changed.setdefault((name, *step), []).append(node)
    return [Change(fact=name, old=old, new=new, since=began, nodes=sorted(where))
            for (name, old, new, began), where in changed.items()]


def on(changed: list[Change], nodes: set[str]) -> list[Change]:
    """Those of the changes that concern the nodes, or no node in particular. ``nodes``: those of the bad figure.
    Where a fact changed elsewhere, too, those nodes are named with them."""
    here = {ANYWHERE, *map(_short, nodes)}
    return [change.model_copy(update={'nodes': [n for n in change.nodes if n]})
            for change in changed if here & set(map(_short, change.nodes))]


def _step(values: Known, good: float) -> tuple[str, str, float] | None:
    """(old, new, since) where the last known text is another than the one known at the good night."""
    before = [text for start, text in values if start <= good]
    if not before or values[-1][0] <= good or values[-1][1] == before[-1]:
        return None
    new = values[-1][1]
    since = values[-1][0]
    for start, text in reversed(values):
        if text != new:
            break
        since = start
    return before[-1], new, since


def of_nodes(good: set[str], bad: set[str], since: float) -> list[Change]:
    """The node list itself, where the bad figure was taken on nodes that share none with the good one."""
    if not good or not bad or good & bad:
        return []
    return [Change(fact='nodes', old=' '.join(sorted(good)), new=' '.join(sorted(bad)), since=since)]


def _short(node: str) -> str:
    """A scheduler and the node itself may say its name with and without the domain."""
    return node.partition('.')[0]


#: Facts of no node in particular.
ANYWHERE = ''
#: What programs/node.sh and watch.py say, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'microcode', 'firmware', 'governor', 'clocksource', 'gpu_driver',
        'vulnerable', 'throttled')


def _facts(session: Session, environ: str) -> dict[str, dict[str, str]]:
    """{node or ANYWHERE: {fact: text}} of what is known; ``environ``: whose software counts. What is unknown has
    no entry: it can differ from nothing."""
    found = {node: _known({name: said.get(name) for name in NODE}) for node, said in session.nodes.items()}
    machine = session.facts.get('machine') or {}
    if here := _machine(machine) | _known({'throttled': session.throttled}):
        found.setdefault(machine.get('hostname') or ANYWHERE, {}).update(here)
    software = (session.facts.get('software') or {}).get(environ) or {}
    found[ANYWHERE] = found.get(ANYWHERE, {}) | _known({
        **dict(_software(software)), 'ReFrame': session.reframe, 'parity': session.facts.get('parity')})
    return found


def _known(facts: dict[str, Any]) -> dict[str, str]:
    return {name: str(text) for name, text in facts.items() if text not in (None, '')}


def _machine(machine: dict[str, Any]) -> dict[str, str]:
    """Of the machine that ReFrame ran on: the node itself where no scheduler is."""
    gib = machine.get('memory_bytes')
    return _known({
        'kernel': machine.get('kernel'), 'virtualisation': machine.get('backend'),
        'processor': machine.get('model_name'), 'governor': machine.get('governor'),
        'clocksource': machine.get('clocksource'), 'mitigations': machine.get('mitigations'),
        'cores': len(machine.get('core_sets') or ()) or None, 'cpu quota': machine.get('cpu_quota'),
        # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
        'memory': gib and f'{gib / 2**30:.1f} GiB'})


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What an environment runs; where its files lie does not count."""
    for name, program in (software.get('programs') or {}).items():
        if name == 'python3':       # its patches do not make other software (parity.software.model)
            yield name, program.get('version') or ''
        else:
            yield name, _told(program.get('package_version') or program.get('version'), program.get('sha256'))
    for name, package in (software.get('packages') or {}).items():
        yield name, _package(package) if isinstance(package, dict) else str(package)
    for name in ('mpi', 'blas'):
        if said := software.get(name):
            yield name.upper(), ' '.join(str(said[k]) for k in ('name', 'version', 'core') if said.get(k))
    if modules := software.get('modules'):
        yield 'modules', ' '.join(modules)


def _package(package: dict[str, Any]) -> str:
    return _told(package.get('spec'), package.get('hash'), 7) + ''.join(
        f' {package[key]}' for key in ('compiler', 'mpi') if package.get(key))


def _told(version: str | None, digest: str | None, length: int = 8) -> str:
    return ' '.join(filter(None, (version, f'/{digest[:length]}' if digest else '')))
