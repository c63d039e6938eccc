"""The known cause of a slower figure: where, in what part of the machine, and what changed before it.

A node is named only if all of tonight's figures with it are slow, and all without it are not. For that ci/nightly
measures a suspicious cell again, on the same nodes and on others. No node of a job on several nodes is to blame
alone. An unknown part of a cause stays empty."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, takewhile
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

import polars as pl

from parity.base import codes
from parity.base.figures import counted
from parity.records import database, history
from parity.records.record import Session
from parity.verdict.model import Attribution, Cell, Change, Subsystem, Where, names, several

#: Words of cells that are as fast as they should be.
FINE = ('ok', 'improved')
#: Sessions whose facts are compared.
SESSIONS = 40
_FIGURE = ('case', 'size', 'metric')
_COLUMNS = (*_FIGURE, 'partition', 'environ', 'session', 'rerun_of', 'start', 'value', 'better', 'low', 'high',
            'node')


def told(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """Return the cells, the slower ones with their cause.

    Raises InfrastructureError where the database cannot be read."""
    slower = [c for c in cells if c.verdict == 'regressed']
    found = of_cells(slower, cells, history.load(system), database.sessions(system, SESSIONS), session)
    causes = dict(zip(map(id, slower), found, strict=True))
    return [c.model_copy(update={'cause': causes[id(c)]}) if id(c) in causes else c for c in cells]


def of_cells(asked: list[Cell], cells: list[Cell], frame: pl.DataFrame, nights: list[Session],
             session: str) -> list[Attribution]:
    """Return the known cause of each asked cell; of one that is not slower, only what changed since it was good.

    ``cells``: all cells of ``session`` (a uuid). ``frame``: history.load of the system. ``nights``: its
    database.sessions, this one among them."""
    starts = [n.start for n in nights if n.uuid == session] or frame.filter(session=session)['start'].to_list()
    bad = starts[0] if starts else float('inf')
    wanted = pl.DataFrame({name: [getattr(c, name) for c in asked] for name in _FIGURE},
                          schema=dict.fromkeys(_FIGURE, pl.String))
    until = (pl.col('start') <= bad) | (pl.col('rerun_of') == session)
    usual = frame.filter(until, label='').select(_COLUMNS).join(wanted, on=_FIGURE, how='semi')
    alike = usual.partition_by(_FIGURE, as_dict=True)
    # many cells ask for the same
    subsystem = functools.cache(functools.partial(part, names(cells)))
    changed = functools.cache(functools.partial(changes, nights, bad))

    def of(cell: Cell) -> Attribution:
        found, where, moved = alike.get(tuple(getattr(cell, name) for name in _FIGURE)), Where(), Subsystem()
        rows = [] if found is None else found.to_dicts()
        own = [r for r in rows if (r['partition'], r['environ']) == (cell.partition, cell.environ)]
        good = last_good(own, session, bad)
        if cell.verdict == 'regressed':
            known = figures(rows, session, float('-inf') if good is None else good)
            where, moved = place(known, cell.partition), subsystem(cell.partition)
        if good is None:
            return Attribution(where=where, subsystem=moved)
        was, tonight = (frozenset().union(*(nodes_of(r) for r in own if r[key] == value))
                        for key, value in (('start', good), ('session', session)))
        nodes = {where.name} if where.kind == 'node' else tonight or set(cell.nodes)
        told = [change for change in changed(good, cell.environ) if change.concerns(nodes)]
        if was and nodes and not was & nodes:
            told.insert(0, Change(fact='nodes', old=' '.join(sorted(was)), new=' '.join(sorted(nodes)), since=bad))
        return Attribution(where=where, subsystem=moved, changes=told)

    return [of(cell) for cell in asked]


def last_good(own: Iterable[dict], session: str, start: float) -> float | None:
    """Return when the newest session before this one began in which the cell's median was not slow."""
    before = [r for r in own if r['start'] < start and session not in (r['session'], r['rerun_of'])]
    limit = edge(before, start)
    nights: dict[float, list[float]] = {}
    for row in before:
        if not row['rerun_of']:
            nights.setdefault(row['start'], []).append(row['value'])
    good = [began for began, values in nights.items()
            if limit is None or not beyond(median(values), limit, before[-1]['better'])]
    return max(good, default=None)


# ---- the facts that changed

#: Facts of no node in particular.
ANYWHERE = ''
#: Facts from programs/node.sh and watch.py, in the order in which a person looks for a cause.
NODE = ('kernel', 'virtualisation', 'processor', 'microcode', 'firmware', 'governor', 'clocksource', 'gpu_driver',
        'vulnerable', 'throttled', 'gpus', 'gpu_slowed')
#: The same of the machine that ReFrame ran on, by their names in its facts.
_MACHINE = {'kernel': 'kernel', 'virtualisation': 'backend', 'processor': 'model_name', 'governor': 'governor',
            'clocksource': 'clocksource', 'mitigations': 'mitigations', 'cpu quota': 'cpu_quota'}


def changes(nights: list[Session], bad: float, good: float, environ: str) -> list[Change]:
    """Return each fact of the session begun at ``bad`` that was another one up to ``good`` (Unix times).

    ``nights``: sessions of one system, oldest first. ``environ``: the environment whose software counts. A change
    names all nodes that have it; none where it is of no node in particular."""
    changed: dict[tuple, list[str]] = {}
    for (node, fact), values in _values((night for night in nights if night.start <= bad), environ).items():
        before = [text for start, text in values if start <= good]
        new = values[-1][1]
        if before and new != before[-1]:
            *_, (began, _) = takewhile(lambda value, new=new: value[1] == new, reversed(values))
            changed.setdefault((fact, before[-1], new, began), []).append(node)
    return _changes(changed)


def steps(nights: Iterable[Session], environ: str) -> list[Change]:
    """Return every change between two nights, the oldest first; the arguments are those of `changes`."""
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
    machine = session.facts.get('machine') or {}        # the node itself where there is no scheduler
    software = (session.facts.get('software') or {}).get(environ) or {}
    size = machine.get('memory_bytes')
    host = {**{fact: machine.get(name) for fact, name in _MACHINE.items()},
            'cores': len(machine.get('core_sets') or ()),
            # the kernel's own share differs from kernel to kernel: not by a tenth of a GiB
            'memory': size and f'{size / 2**30:.1f} GiB', 'throttled': session.throttled}
    anywhere = {**dict(_software(software)), 'ReFrame': session.reframe, 'parity': session.facts.get('parity')}
    found = {(node, fact): said.get(fact) for node, said in session.nodes.items() for fact in NODE}
    found |= {(machine.get('hostname') or ANYWHERE, fact): text for fact, text in host.items() if text}
    found |= {(ANYWHERE, fact): text for fact, text in anywhere.items()}
    return {key: str(text) for key, text in found.items() if text not in (None, '')}


def _software(software: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, version) of an environment's software; a moved file is no change."""
    for name, program in (software.get('programs') or {}).items():
        version = program.get('package_version') or program.get('version')
        # python3's patches do not make other software (parity.software.programs)
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


#: Fewer good figures than these tell no spread.
ENOUGH = 6
#: A drop is clear of the noise beyond so many standard deviations, and beyond this share of the median
#: (on the series of the study of 2012 this found 84 % of 5 % slowdowns in a night, once confirmed by a rerun).
_SIGMAS, _SHARE = 4.0, 0.03


def edge(rows: Iterable[Mapping[str, Any]], good: float) -> float | None:
    """Return the value beyond which a cell is slow; None where nothing tells it.

    ``rows``: the cell's figures, oldest first. The newest accepted band decides; without one, median and spread of
    the figures up to ``good`` (Unix time). The spread is max(1.4826 MAD, 0.7413 IQR): robust estimates of a
    normal's standard deviation (Rousseeuw and Croux, 1993)."""
    rows = list(rows)
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return bands[-1]['low' if bands[-1]['better'] == 'higher' else 'high']
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first))
    room = max(_SIGMAS * spread, _SHARE * abs(middle))
    return middle - room if rows[0]['better'] == 'higher' else middle + room


def beyond(value: float, edge: float, better: str) -> bool:
    """Return whether ``value`` is on the bad side of the edge."""
    return value < edge if better == 'higher' else value > edge


class Figure(NamedTuple):
    """One figure of the cell, or of the same case elsewhere."""

    partition: str
    nodes: frozenset[str]
    start: float                     # of its session, Unix time
    tonight: bool
    slow: bool


def figures(rows: Iterable[Mapping[str, Any]], session: str, good: float) -> list[Figure]:
    """Return the figures of one case, size and metric that are known to be slow or not, oldest first.

    ``rows``: from parity.records.history.load, of all partitions and environments; reruns of ``session`` count
    as tonight's. ``good``: when the last good night of the cell began."""
    groups: dict[tuple, list] = {}
    for row in rows:
        groups.setdefault((row['partition'], row['environ']), []).append(row)
    found = [Figure(row['partition'], nodes_of(row), row['start'], session in (row['session'], row['rerun_of']),
                    beyond(row['value'], limit, row['better']))
             for own in groups.values() if (limit := edge(own, good)) is not None for row in own]
    return sorted(found, key=lambda f: f.start)


def nodes_of(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(filter(None, row['node'].split(',')))


def place(found: list[Figure], partition: str) -> Where:
    """Return where tonight's slow figures in ``partition`` come from."""
    own = [f for f in found if f.partition == partition]
    slow = [f for f in own if f.tonight and f.slow]
    if not slow:
        return Where(why='no figure of this night is known to be slow')
    apart = [where for node in _all_nodes(slow) if (where := _apart(node, own))]
    return apart[0] if len(apart) == 1 else _partitions(found, partition)


def _all_nodes(figures: Iterable[Figure]) -> list[str]:
    return sorted(frozenset().union(*(f.nodes for f in figures)))


def _apart(node: str, own: list[Figure]) -> Where | None:
    """The node, if its figures are slow tonight and most of those without it were not since its own became so."""
    with_it = [f for f in own if node in f.nodes]
    fine_until = max((f.start for f in with_it if not f.slow), default=float('-inf'))
    since = min((f.start for f in with_it if f.start > fine_until), default=float('inf'))
    others = [f for f in own if f.nodes and node not in f.nodes and f.start >= since]
    slow = sum(f.slow for f in others)
    if 2 * slow >= len(others) or not all(f.slow for f in with_it if f.tonight):
        return None
    where = several(_all_nodes(others))
    return Where(kind='node', name=node, why=f'slow in {slow} of {len(others)} figures on {where}' if slow
                 else f'not slow on {where}')


def _partitions(found: list[Figure], partition: str) -> Where:
    """All nodes alike: this partition, or every one that measured the same."""
    tonight: dict[str, list[Figure]] = {}
    for figure in found:
        if figure.tonight:
            tonight.setdefault(figure.partition, []).append(figure)
    slow = sorted(name for name, own in tonight.items() if fmean(f.slow for f in own) > 0.5)
    fine = sorted(tonight.keys() - set(slow))
    own, nodes = tonight[partition], _all_nodes(tonight[partition])
    if partition in fine:
        return Where(why=f'{sum(f.slow for f in own)} of {counted(len(own), "figure")} of this night are slow')
    if fine:
        return Where(kind='partition', name=', '.join(slow), why=f'not slow on {", ".join(fine)}')
    if len(slow) > 1:
        return Where(kind='everything', name=', '.join(slow), why=f'slow on {", ".join(slow)}')
    if len(nodes) > 1:
        return Where(kind='partition', name=partition,
                     why=f'slow on {several(nodes)}; no other partition was measured')
    return Where(why=f'only {several(nodes) or "an unknown node"} was measured')


#: A part of a machine; the groups that each have a slower cell; those whose slower cells support it; and those of
#: which one was judged and none is slower. A group is a part that a code names for its cells (CODE, parts). The
#: first rule that fits counts.
RULES = (
    ('memory', ['memory'], ['memory-bound codes', 'within a node'], ['compute', 'network']),
    ('compute clock', ['compute'], ['memory-bound codes'], ['memory']),
    ('compute and memory alike', ['compute', 'memory'], ['memory-bound codes', 'within a node'],
     ['network', 'storage']),
    ('network', ['network'], [], ['compute', 'memory', 'memory-bound codes', 'within a node']),
    ('storage', ['storage'], [], ['compute', 'memory', 'memory-bound codes', 'network']),
)


def group_of(name: str) -> str:
    """Return the group of the cell with this name; '' where it has none."""
    before = name.partition('@')[0]
    return next((part for code in codes.every() for part, patterns in code.parts.items()
                 if any(re.match(pattern, before) for pattern in patterns)), '')


def part(cells: Mapping[str, Cell], partition: str) -> Subsystem:
    """Return the part that the judged cells of one partition tell together; ``cells``: all, by name."""
    judged: set[str] = set()
    down: dict[str, list[str]] = {}
    for name, cell in cells.items():
        slower = cell.verdict == 'regressed'
        if cell.partition == partition and (slower or cell.verdict in FINE) and (group := group_of(name)):
            judged.add(group)
            if slower:
                down.setdefault(group, []).append(name)
    for found, needed, support, others in RULES:
        fine = [group for group in others if group in judged]
        if down.keys() >= set(needed) and fine and not down.keys() & set(fine):
            moved = [group for group in (*needed, *support) if group in down]
            return Subsystem(name=found, cells=[cell for group in moved for cell in down[group]],
                             why=f'{" and ".join(moved)} slower, {" and ".join(fine)} not')
    if not down:
        return Subsystem()
    rest = 'these move together in no way that is known' if judged > down.keys() else 'nothing else was judged'
    return Subsystem(why=f'slower: {", ".join(down)}; {rest}')
