"""The changes between stored sessions: facts of nodes and software, and the work that a case was given."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl

from parity.base import times
from parity.base.text import brief
from parity.judge.store import history
from parity.judge.store.incidents import Change
from parity.judge.store.record import MEMORY_SETTINGS, Session

#: Sessions whose facts are compared, up to the first slow night.
SESSIONS = 40
#: The names of a case's work, and the characters of a text in a change.
WORK, _BRIEF = ('partition', 'environ', 'case', 'size'), 40
#: The compilers that a page names beside a machine.
_COMPILERS = ('cc', 'nvcc', 'hipcc')
#: Facts of no node in particular.
ANYWHERE = ''
#: Facts from programs/node.sh and watch.py, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'memory', 'microcode', 'firmware', 'governor', 'clocksource',
        *MEMORY_SETTINGS, 'gpu_driver', 'vulnerable', 'throttled', 'gpus', 'gpu_slowed')
#: The same of the machine that ReFrame ran on, by their names in its facts.
_MACHINE = {'kernel': 'kernel', 'virtualisation': 'backend', 'processor': 'model_name', 'governor': 'governor',
            'clocksource': 'clocksource', 'mitigations': 'mitigations', 'cpu quota': 'cpu_quota',
            **{name: name for name in MEMORY_SETTINGS}}


class _Change(NamedTuple):
    """A fact that changed on some night, of any node."""

    fact: str
    old: str
    new: str
    began: float


class _Value(NamedTuple):
    """The text of a fact on a night, and when the night began."""

    start: float
    text: str


def between(nights: list[Session], bad: float, good: float, environ: str, first: float | None = None
            ) -> list[Change]:
    """Return each fact that changed after ``good`` up to ``first``, and that is not taken back at ``bad``.

    All are Unix times at which a night began; ``first`` is ``bad`` unless it is given. ``nights``: sessions of one
    system, oldest first. ``environ``: the environment whose software counts. A change names all nodes that have
    it; none where it is of no node in particular."""
    first = bad if first is None else first
    until_first = [night for night in nights if night.start <= first]
    later = [night for night in nights if first < night.start <= bad]
    compared = [*until_first[-SESSIONS:], *later[-SESSIONS:]]
    changed: dict[_Change, list[str]] = {}
    for (node, fact), values in _values(compared, environ).items():
        until_good = [value for value in values if value.start <= good]
        known = [value for value in values if value.start <= first]
        if not until_good:
            continue
        old, new = until_good[-1].text, known[-1].text
        if old in (new, values[-1].text):
            continue
        began = first
        for value in reversed(known):
            if value.text != new:
                break
            began = value.start
        change = _Change(fact, old, new, began)
        changed.setdefault(change, []).append(node)
    return _changes(changed)


def work(uuids: Iterable[str]) -> dict[tuple[str, ...], str]:
    """Return what the program was given in these sessions, as JSON, by session and the names in WORK."""
    has_value = pl.col('value').is_not_null()
    figures = history.rows(uuids).filter(has_value)
    facts = figures.select('session', *WORK, 'work_facts')
    of_cases = facts.unique(maintain_order=True, keep='first').collect()
    return {row[:-1]: row[-1] for row in of_cases.iter_rows()}


def of_work(old: str, new: str, since: float) -> list[Change]:
    """Return each fact of the work that both nights know, and that differs; ``old`` and ``new`` are of `work`."""
    before = _named(json.loads(old or '{}'))
    after = _named(json.loads(new or '{}'))
    changes = []
    for fact, values in after.items():
        if fact not in before:
            continue
        values_before = before[fact]
        for part in sorted(values_before.keys() | values.keys()):
            was = values_before.get(part, '')
            now = values.get(part, '')
            if was != now:
                name = f'{fact} {part}'.strip()
                was, now = _shortened(was, now)
                changes.append(Change(fact=name, old=was, new=now, since=since))
    return changes


def _named(work: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the texts of each fact of the work by name; a single text has the name ''."""
    texts = {}
    for fact, value in work.items():
        texts[fact] = {'': value} if isinstance(value, str) else value
    return texts


def _shortened(old: str, new: str) -> tuple[str, str]:
    """Return two texts in few words: long ones from the first word that differs."""
    old_words, new_words = old.split(), new.split()
    same = len(os.path.commonprefix([old_words, new_words]))
    is_long = max(len(old), len(new)) > _BRIEF
    if is_long and same > 1:
        old_words = ['…', *old_words[same - 1:]]
        new_words = ['…', *new_words[same - 1:]]
    return _in_brief(old_words), _in_brief(new_words)


def _in_brief(words: list[str]) -> str:
    return brief(' '.join(words), _BRIEF) or 'none'


def of_rows(rows: list[dict], good: float, first: float, given: Callable) -> list[Change]:
    """Return what the figures of two nights of a cell say of a change between them."""
    old = _of_night(rows, good)
    new = _of_night(rows, first)
    if old is None or new is None:
        return []
    changes = []
    if old['work'] != new['work']:
        cell = [new[name] for name in WORK]
        works = given((old['session'], new['session']))
        before = works.get((old['session'], *cell), '')
        after = works.get((new['session'], *cell), '')
        changes += of_work(before, after, first)
    for fact in ('unit', 'software'):
        was, now = old[fact], new[fact]
        if fact == 'software':      # a hash names nothing: then the software's own facts say what changed
            was = re.sub('^[0-9a-f+]*$', '', was)
            now = re.sub('^[0-9a-f+]*$', '', now)
        if was and now and was != now:      # an accepted value slows nothing
            changes.append(Change(fact=fact, old=was, new=now, since=first))
    return changes


def _of_night(rows: list[dict], start: float) -> dict | None:
    """Return the first of the rows of the night that began at ``start``."""
    return next((row for row in rows if row['start'] == start), None)


def steps(nights: Iterable[Session], environ: str) -> list[Change]:
    """Return every change between two nights, the oldest first; the arguments are those of `between`."""
    changed: dict[_Change, list[str]] = {}
    for (node, fact), values in _values(nights, environ).items():
        for old, new in pairwise(values):
            if new.text != old.text:
                change = _Change(fact, old.text, new.text, new.start)
                changed.setdefault(change, []).append(node)
    changes = _changes(changed)
    return sorted(changes, key=lambda change: change.since)


def _values(nights: Iterable[Session], environ: str) -> dict[tuple[str, str], list[_Value]]:
    """Return the values of each fact, by node and fact."""
    values: dict[tuple[str, str], list[_Value]] = {}
    for night in nights:
        for key, text in _facts(night, environ).items():
            value = _Value(night.start, text)
            values.setdefault(key, []).append(value)
    return values


def _changes(changed: dict[_Change, list[str]]) -> list[Change]:
    changes = []
    for change, nodes in changed.items():
        names = sorted(filter(None, nodes))
        changes.append(Change(fact=change.fact, old=change.old, new=change.new, since=change.began, nodes=names))
    return changes


def _facts(session: Session, environ: str) -> dict[tuple[str, str], str]:
    """Return the known facts by (node or ANYWHERE, fact): an unknown one differs from nothing."""
    facts = {}
    for node, of_node in of_nodes(session).items():
        for fact, text in of_node.items():
            facts[node, fact] = text
    environments = session.facts.get('software') or {}
    software = environments.get(environ) or {}
    for fact, version in _software(software):
        facts[ANYWHERE, fact] = version
    facts[ANYWHERE, 'ReFrame'] = session.reframe
    facts[ANYWHERE, 'parity'] = session.facts.get('parity')
    return {key: str(text) for key, text in facts.items() if text not in (None, '')}


def of_nodes(session: Session) -> dict[str, dict[str, str]]:
    """Return the facts of each node, and of ReFrame's machine, which is the node without a scheduler."""
    nodes = {}
    for node, facts in session.nodes.items():
        nodes[node] = {fact: facts[fact] for fact in NODE if fact in facts}
    machine = session.facts.get('machine') or {}
    hostname = machine.get('hostname') or ANYWHERE
    host = nodes.setdefault(hostname, {})
    for fact, name in _MACHINE.items():
        value = machine.get(name)
        if value:
            host[fact] = value
    core_sets = machine.get('core_sets')
    if core_sets:
        host['cores'] = len(core_sets)
    memory_bytes = machine.get('memory_bytes')
    if memory_bytes:
        # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
        host['memory'] = f'{memory_bytes / 2**30:.1f} GiB'
    if session.throttled:
        host['throttled'] = session.throttled
    return nodes


def machine(session: Session) -> dict[str, list[str]]:
    """Return what measured, as a page has it beside a machine in print."""
    environments = session.facts.get('software') or {}
    compilers = []
    libraries: dict[str, list[str]] = {'BLAS': [], 'MPI': []}
    for software in environments.values():
        for name, program in software['programs'].items():
            if name in _COMPILERS and program.get('version'):
                compilers.append(f'{name} {program["version"]}')
        for kind, names in libraries.items():
            library = software.get(kind.lower())
            if library:
                version = library.get('version') or ''
                names.append(f'{library["name"]} {version}')
    nodes = of_nodes(session).values()
    parity = session.facts.get('parity') or ''
    return {
        'processor': _of_all(nodes, 'processor'),
        'memory': _of_all(nodes, 'memory'),
        'kernel': _of_all(nodes, 'kernel', 'virtualisation'),
        'compiler': compilers,
        **libraries,
        'date': [times.day(session.start)],
        'parity': [str(parity)],
        'ReFrame': [session.reframe]}


def _of_all(nodes: Iterable[dict[str, str]], *facts: str) -> list[str]:
    values = []
    for node in nodes:
        for fact in facts:
            value = node.get(fact)
            if value:
                values.append(str(value))
    return values


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, version) of an environment's software; a moved file is no change."""
    programs = software.get('programs') or {}
    for name, program in programs.items():
        version = program.get('version')
        # python3's patches do not make other software (parity.measure.software.programs)
        if name != 'python3':
            version = _version(program.get('package_version') or version, program.get('sha256'))
        yield name, version
    packages = software.get('packages') or {}
    for name, package in packages.items():
        if isinstance(package, dict):
            version = _version(package.get('spec'), package.get('hash'), 7)
            words = [version, package.get('compiler'), package.get('mpi')]
            package = ' '.join(filter(None, words))
        yield name, str(package)
    for name in ('mpi', 'blas'):
        library = software.get(name)
        if library:
            values = [library.get(key) for key in ('name', 'version', 'core')]
            words = [str(value) for value in values if value]
            yield name.upper(), ' '.join(words)
    modules = software.get('modules')
    if modules:
        yield 'modules', ' '.join(modules)


def _version(version: str | None, digest: str | None, length: int = 8) -> str:
    words = [version]
    if digest:
        words.append(f'/{digest[:length]}')
    return ' '.join(filter(None, words))
