"""The known cause of a slower figure: where, in what part of the machine, and what changed before it.

A node is named only if all of tonight's figures with it are slow, and all without it are not. No node of a job on
several nodes is to blame alone. A code says which part of the machine its cells show (CODE, parts).
subsystems.yaml says which parts explain a night. An unknown part of a cause stays empty."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any, NamedTuple

import polars as pl
from pydantic import Field

from parity.base import codes, yamlfile
from parity.base.strict import Strict
from parity.records import database, history
from parity.records.record import Session
from parity.verdict.model import Attribution, Cell, Change, Subsystem, Where, names, several

#: Words of cells that are as fast as they should be.
FINE = ('ok', 'improved')
#: Sessions whose facts are compared.
SESSIONS = 40
#: Low cells that are not said to be slower, so many at most: on a noisy night one of ten is low.
SUSPICIOUS = 100
_FIGURE = ('case', 'size', 'metric')
_COLUMNS = (*_FIGURE, 'partition', 'environ', 'session', 'rerun_of', 'start', 'value', 'better', 'low', 'high',
            'node')


def told(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """Return the cells, the slower and some suspicious ones with their cause.

    Raises InfrastructureError where the database cannot be read."""
    asked = [c for c in cells if c.verdict == 'regressed']
    asked += [c for c in cells if c.suspicious and c.verdict != 'regressed'][:SUSPICIOUS]
    night = Night(cells, history.load(system), database.sessions(system, SESSIONS), session, asked)
    causes = {id(c): night.of(c) for c in asked}
    return [c.model_copy(update={'cause': causes[id(c)]}) if id(c) in causes else c for c in cells]


class Night:
    """One judged session beside its history.

    ``cells``: all cells of ``session`` (a uuid). ``frame``: history.load of the system. ``nights``: its
    database.sessions, this one among them. ``asked``: the cells whose cause is wanted."""

    def __init__(self, cells: list[Cell], frame: pl.DataFrame, nights: list[Session], session: str,
                 asked: Iterable[Cell]):
        self.cells, self.session = cells, session
        starts = [n.start for n in nights if n.uuid == session] or frame.filter(session=session)['start'].to_list()
        self.start = starts[0] if starts else float('inf')
        slower = [c for c in cells if c.verdict == 'regressed']
        wanted = pl.DataFrame({name: [getattr(c, name) for c in (*asked, *slower)] for name in _FIGURE},
                              schema=dict.fromkeys(_FIGURE, pl.String))
        until = (pl.col('start') <= self.start) | (pl.col('rerun_of') == session)
        usual = frame.filter(until, label='').select(_COLUMNS).join(wanted, on=_FIGURE, how='semi')
        self._alike = usual.partition_by(_FIGURE, as_dict=True)
        tonight = frame.filter((pl.col('session') == session) & (pl.col('node') != ''))
        self._ran: dict[tuple, list[frozenset[str]]] = {}
        for row in tonight.unique(('partition', 'case', 'node')).iter_rows(named=True):
            self._ran.setdefault((row['partition'], row['case']), []).append(nodes_of(row))
        # every cell of a partition asks: answered once
        self._subsystem = functools.cache(self._subsystem_of)
        self._by_cells = functools.cache(self._node_of)
        self._known = functools.cache(lambda environ: known(nights, self.start, environ))
        self._since = functools.cache(lambda good, environ: since(self._known(environ), good))

    def of(self, cell: Cell) -> Attribution:
        """Return the known cause of ``cell``; of one that is not slow, only what changed since its last figure."""
        alike, own, good = self._figures(cell)
        slower = cell.verdict == 'regressed'
        place = self._where(cell, alike, good) if slower or cell.suspicious else Where()
        return Attribution(where=place, subsystem=self._subsystem(cell.partition) if slower else Subsystem(),
                           changes=self._changes(cell, own, good, place))

    def _figures(self, cell: Cell) -> tuple[list[dict], list[dict], float | None]:
        """The figures of the case everywhere, those of the cell, and when its last good night began."""
        found = self._alike.get(tuple(getattr(cell, name) for name in _FIGURE))
        alike = [] if found is None else found.to_dicts()
        own = [r for r in alike if (r['partition'], r['environ']) == (cell.partition, cell.environ)]
        return alike, own, last_good(own, self.session, self.start)

    def _slow_or_not(self, rows: list[dict], good: float | None) -> list[Figure]:
        return figures(rows, self.session, float('-inf') if good is None else good)

    def _where(self, cell: Cell, alike: list[dict], good: float | None) -> Where:
        told = place(self._slow_or_not(alike, good), cell.partition)
        if told.kind in ('node', 'everything') or cell.verdict != 'regressed':
            return told
        return self._by_cells(cell.partition, cell.subsystem) or told

    def _node_of(self, partition: str, subsystem: str) -> Where | None:
        """The one node that all slow cases of a partition and subsystem ran on, and no other case.

        One slow case tells nothing of its node. A rerun that was slow without the node clears it."""
        here = [c for c in self.cells if (c.partition, c.subsystem) == (partition, subsystem)
                and (partition, c.case) in self._ran]
        slower = [c for c in here if c.verdict == 'regressed']
        slow = {c.case for c in slower}
        fine = {c.case for c in here if c.verdict in FINE} - slow
        runs = [nodes for case in slow for nodes in self._ran[partition, case]]
        runs += [nodes for cell in slower for nodes in self._slow_again(cell)]
        elsewhere = frozenset().union(*(nodes for case in fine for nodes in self._ran[partition, case]))
        suspects = frozenset.intersection(*runs) - elsewhere if runs else ()
        if len(slow) < 2 or not elsewhere or len(suspects) != 1:
            return None
        return Where(kind='node', name=min(suspects),
                     why=f'{len(slow)} slow cases ran there, {len(fine)} elsewhere are not slow')

    def _slow_again(self, cell: Cell) -> list[frozenset[str]]:
        """The nodes of each slow run of tonight, where the cell was run again."""
        _, own, good = self._figures(cell)
        if not any(row['rerun_of'] == self.session for row in own):
            return []
        return [f.nodes for f in self._slow_or_not(own, good) if f.tonight and f.slow and f.nodes]

    def _subsystem_of(self, partition: str) -> Subsystem:
        return part({name: c.verdict == 'regressed' for name, c in names(self.cells).items()
                           if c.partition == partition and c.verdict in ('regressed', *FINE)})

    def _changes(self, cell: Cell, own: list[dict], good: float | None, place: Where) -> list[Change]:
        if good is None:
            return []
        was = frozenset().union(*(nodes_of(r) for r in own if r['start'] == good))
        tonight = frozenset().union(*(nodes_of(r) for r in own if r['session'] == self.session))
        nodes = {place.name} if place.kind == 'node' else tonight or set(cell.nodes)
        return [*of_nodes(was, nodes, self.start), *on(self._since(good, cell.environ), nodes)]


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
        'vulnerable', 'throttled')
#: {(node, fact): when each session began, and the fact's text in it}
Known = dict[tuple[str, str], list[tuple[float, str]]]


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
#: No series is quieter than this share of its median: timers, and files of one second, show no spread at all.
_FLOOR = 0.005


def edge(rows: Iterable[Mapping[str, Any]], good: float) -> float | None:
    """Return the value beyond which a cell is slow; None where nothing tells it.

    ``rows``: the cell's figures, oldest first. The newest accepted band decides; without one, median and spread of
    the figures up to ``good`` (Unix time). The spread is max(1.4826 MAD, 0.7413 IQR, 0.5 %): robust estimates of
    a normal's standard deviation (Rousseeuw and Croux, 1993)."""
    rows = list(rows)
    bands = [r for r in rows if r['low'] is not None or r['high'] is not None]
    if bands:
        return bands[-1]['low' if bands[-1]['better'] == 'higher' else 'high']
    values = [r['value'] for r in rows if r['start'] <= good]
    if len(values) < ENOUGH:
        return None
    middle = median(values)
    first, _, third = quantiles(values, n=4, method='inclusive')
    spread = max(1.4826 * median(abs(v - middle) for v in values), 0.7413 * (third - first), _FLOOR * abs(middle))
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
    """The node, if its figures are slow tonight and those without it were not since its own became so."""
    with_it = [f for f in own if node in f.nodes]
    fine_until = max((f.start for f in with_it if not f.slow), default=float('-inf'))
    since = min((f.start for f in with_it if f.start > fine_until), default=float('inf'))
    others = [f for f in own if f.nodes and node not in f.nodes and f.start >= since]
    if not others or any(f.slow for f in others) or not all(f.slow for f in with_it if f.tonight):
        return None
    return Where(kind='node', name=node, why=f'not slow on {several(_all_nodes(others))}')


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
        return Where(why=f'{sum(f.slow for f in own)} of {len(own)} figures of this night are slow')
    if fine:
        return Where(kind='partition', name=', '.join(slow), why=f'not slow on {", ".join(fine)}')
    if len(slow) > 1:
        return Where(kind='everything', name=', '.join(slow), why=f'slow on {", ".join(slow)}')
    if len(nodes) > 1:
        return Where(kind='partition', name=partition,
                     why=f'slow on {several(nodes)}; no other partition was measured')
    return Where(why=f'only {several(nodes) or "an unknown node"} was measured')


class Rule(Strict):
    name: str
    down: list[str]
    support: list[str] = Field(alias='with')
    fine: list[str]


class Table(Strict):
    rules: list[Rule]


@functools.cache
def table() -> Table:
    return yamlfile.read(Path(__file__).with_name('subsystems.yaml'), Table)


def group_of(name: str) -> str:
    """Return the group of the cell with this name; '' where it has none."""
    before = name.partition('@')[0]
    return next((part for code in codes.every() for part, patterns in code.parts.items()
                 if any(re.match(pattern, before) for pattern in patterns)), '')


def part(cells: Mapping[str, bool]) -> Subsystem:
    """Return the part that the judged cells of one partition tell together; ``cells``: {name: slower?}."""
    judged: set[str] = set()
    down: dict[str, list[str]] = {}
    for name, slower in cells.items():
        if group := group_of(name):
            judged.add(group)
            if slower:
                down.setdefault(group, []).append(name)
    for rule in table().rules:
        fine = [group for group in rule.fine if group in judged]
        if down.keys() >= set(rule.down) and fine and not down.keys() & set(fine):
            moved = [group for group in (*rule.down, *rule.support) if group in down]
            return Subsystem(name=rule.name, cells=[cell for group in moved for cell in down[group]],
                             why=f'{" and ".join(moved)} slower, {" and ".join(fine)} not')
    if not down:
        return Subsystem()
    rest = 'these move together in no way that is known' if judged > down.keys() else \
        'nothing else was judged'
    return Subsystem(why=f'slower: {", ".join(down)}; {rest}')
