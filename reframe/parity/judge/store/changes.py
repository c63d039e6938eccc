"""The changes between stored sessions: facts of nodes and software, and the work that a case was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, takewhile
from typing import Any

import polars as pl

from parity.base import times
from parity.base.text import brief
from parity.judge.store import history
from parity.judge.store.incidents import Change
from parity.judge.store.record import Session

#: Sessions whose facts are compared, up to the first slow night.
SESSIONS = 40
#: The names of a case's work, and the characters of a text in a change.
WORK, _BRIEF = ('partition', 'environ', 'case', 'size'), 40
#: Facts of no node in particular.
ANYWHERE = ''
#: Facts from programs/node.sh and watch.py, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'memory', 'microcode', 'firmware', 'governor', 'clocksource',
        'gpu_driver', 'vulnerable', 'throttled', 'gpus', 'gpu_slowed')
#: The same of the machine that ReFrame ran on, by their names in its facts.
_MACHINE = {'kernel': 'kernel', 'virtualisation': 'backend', 'processor': 'model_name', 'governor': 'governor',
            'clocksource': 'clocksource', 'mitigations': 'mitigations', 'cpu quota': 'cpu_quota'}


def between(nights: list[Session], bad: float, good: float, environ: str, first: float | None = None
            ) -> list[Change]:
    """Return each fact that changed after ``good`` up to ``first``, and that is not taken back at ``bad``.

    All are Unix times at which a night began; ``first`` is ``bad`` unless it is given. ``nights``: sessions of one
    system, oldest first. ``environ``: the environment whose software counts. A change names all nodes that have
    it; none where it is of no node in particular."""
    first = bad if first is None else first
    changed: dict[tuple, list[str]] = {}
    until = [night for night in nights if night.start <= first][-SESSIONS:]
    later = [night for night in nights if first < night.start <= bad][-SESSIONS:]
    for (node, fact), values in _values([*until, *later], environ).items():
        known = [value for value in values if value[0] <= first]
        before, new = [text for start, text in known if start <= good], known[-1:]
        if before and before[-1] not in (new[0][1], values[-1][1]):
            *_, (began, _) = takewhile(lambda value, new=new: value[1] == new[0][1], reversed(known))
            changed.setdefault((fact, before[-1], new[0][1], began), []).append(node)
    return _changes(changed)


def work(uuids: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Return what the program was given in these sessions, as JSON, by session and the names in WORK."""
    rows = history.rows(uuids).filter(pl.col('value').is_not_null()).select('session', *WORK, 'work_facts')
    return {row[:-1]: row[-1] for row in rows.unique(maintain_order=True, keep='first').collect().iter_rows()}


def of_work(old: str, new: str, since: float) -> list[Change]:
    """Return each fact of the work that both nights know, and that differs; ``old`` and ``new`` are of `work`."""
    was, now = json.loads(old or '{}'), json.loads(new or '{}')
    found = []
    for fact in (fact for fact in now if fact in was and was[fact] != now[fact]):
        both = was[fact], now[fact]
        named = [(fact, *both)] if isinstance(now[fact], str) else [
            (f'{fact} {name}', *(each.get(name, '') for each in both)) for name in sorted({**both[0], **both[1]})]
        found += [Change(fact=name, old=shown[0], new=shown[1], since=since)
                  for name, *texts in named if texts[0] != texts[1] and (shown := _shortened(*texts))]
    return found


def _shortened(old: str, new: str) -> list[str]:
    """Return two texts in few words: long ones from the first word that differs."""
    words = old.split(), new.split()
    same = next((i for i, (was, now) in enumerate(zip(*words, strict=False)) if was != now), min(map(len, words)))
    if max(len(old), len(new)) > _BRIEF and same > 1:
        words = tuple(['…', *each[same - 1:]] for each in words)
    return [brief(' '.join(each), _BRIEF) or 'none' for each in words]


def of_rows(own: list[dict], good: float, first: float, given: Callable) -> list[Change]:
    """Return what the figures of two nights of a cell say of a change between them."""
    old, new = (next((r for r in own if r['start'] == start), None) for start in (good, first))
    if old is None or new is None:
        return []
    found = []
    if old['work'] != new['work']:
        key = [new[name] for name in WORK]
        known = given((old['session'], new['session']))
        found = of_work(*(known.get((row['session'], *key), '') for row in (old, new)), first)
    # an accepted value slows nothing; a hash names nothing: then the software's own facts say what changed
    texts = {'unit': str, 'software': lambda text: '' if re.fullmatch('[0-9a-f+]*', text) else text}
    return found + [Change(fact=fact, old=was, new=now, since=first) for fact, text in texts.items()
                    if (was := text(old[fact])) != (now := text(new[fact])) and was and now]


def steps(nights: Iterable[Session], environ: str) -> list[Change]:
    """Return every change between two nights, the oldest first; the arguments are those of `between`."""
    changed: dict[tuple, list[str]] = {}
    for (node, fact), values in _values(nights, environ).items():
        for (_, old), (began, new) in pairwise(values):
            if new != old:
                changed.setdefault((fact, old, new, began), []).append(node)
    return sorted(_changes(changed), key=lambda change: change.since)


def _values(nights: Iterable[Session], environ: str) -> dict[tuple[str, str], list[tuple[float, str]]]:
    """Return when each night began, and its text, by node and fact."""
    known: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for night in nights:
        for key, text in _facts(night, environ).items():
            known.setdefault(key, []).append((night.start, text))
    return known


def _changes(changed: dict[tuple, list[str]]) -> list[Change]:
    return [Change(fact=fact, old=old, new=new, since=began, nodes=sorted(filter(None, nodes)))
            for (fact, old, new, began), nodes in changed.items()]


def _facts(session: Session, environ: str) -> dict[tuple[str, str], str]:
    """Return the known facts by (node or ANYWHERE, fact): an unknown one differs from nothing."""
    software = (session.facts.get('software') or {}).get(environ) or {}
    anywhere = {**dict(_software(software)), 'ReFrame': session.reframe, 'parity': session.facts.get('parity')}
    found = {(node, fact): text for node, said in of_nodes(session).items() for fact, text in said.items()}
    found |= {(ANYWHERE, fact): text for fact, text in anywhere.items()}
    return {key: str(text) for key, text in found.items() if text not in (None, '')}


def of_nodes(session: Session) -> dict[str, dict[str, str]]:
    """Return the facts of each node, and of ReFrame's machine, which is the node without a scheduler."""
    machine = session.facts.get('machine') or {}
    size = machine.get('memory_bytes')
    host = {**{fact: machine.get(name) for fact, name in _MACHINE.items()},
            'cores': len(machine.get('core_sets') or ()),
            # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
            'memory': size and f'{size / 2**30:.1f} GiB', 'throttled': session.throttled}
    found = {node: {fact: said[fact] for fact in NODE if fact in said} for node, said in session.nodes.items()}
    name = machine.get('hostname') or ANYWHERE
    return {**found, name: {**found.get(name, {}), **{fact: text for fact, text in host.items() if text}}}


def machine(session: Session) -> dict[str, list[str]]:
    """Return what measured, as a page has it beside a machine in print."""
    def values(*facts: str) -> list[str]:
        return [str(node[fact]) for node in of_nodes(session).values() for fact in facts if node.get(fact)]

    provided = (session.facts.get('software') or {}).values()
    return {
        'processor': values('processor'), 'memory': values('memory'), 'kernel': values('kernel', 'virtualisation'),
        'compiler': [f'{name} {program["version"]}' for of in provided for name, program in of['programs'].items()
                     if name in ('cc', 'nvcc', 'hipcc') and program.get('version')],
        **{key: [f'{library["name"]} {library.get("version") or ""}' for of in provided
                 if (library := of.get(key.lower()))] for key in ('BLAS', 'MPI')},
        'date': [times.day(session.start)],
        'parity': [str(session.facts.get('parity') or '')], 'ReFrame': [session.reframe]}


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, version) of an environment's software; a moved file is no change."""
    for name, program in (software.get('programs') or {}).items():
        version = program.get('package_version') or program.get('version')
        # python3's patches do not make other software (parity.measure.software.programs)
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
