"""The three questions put to the cells of a judged session."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import polars as pl

from parity.records import history, kept
from parity.records.record import Session
from parity.verdict.attribution import changes, where
from parity.verdict.attribution.changes import Attribution, Change, Subsystem, Where
from parity.verdict.model import Cell, names

#: Words that say that a cell is as fast as it should be.
FINE = ('ok', 'improved')
#: Sessions whose facts are compared.
SESSIONS = 40
#: Of cells that are low, but not said to be slower, so many are told: on a noisy night one of ten is low.
SUSPICIOUS = 100
_FIGURE = ('case', 'size', 'metric')
_COLUMNS = (*_FIGURE, 'partition', 'environ', 'session', 'rerun_of', 'start', 'value', 'better', 'low', 'high',
            'node')


def told(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """The cells; where one is slower, what is known of its cause stands in it, and in some suspicious ones, too.
    InfrastructureError where the database cannot be read."""
    asked = [c for c in cells if c.verdict == 'regressed']
    asked += [c for c in cells if c.suspicious and c.verdict != 'regressed'][:SUSPICIOUS]
    night = Night(cells, history.load(system), kept.sessions(system, SESSIONS), session, asked)
    causes = {id(c): night.of(c) for c in asked}
    return [c.model_copy(update={'cause': causes[id(c)]}) if id(c) in causes else c for c in cells]


class Night:
    """One judged session beside its history.

    ``cells``: all of the session with uuid ``session``. ``frame``: history.load of the system;
    ``nights``: kept.sessions of it, this one among them. ``asked``: those of the cells that will be asked of."""

    def __init__(self, cells: list[Cell], frame: pl.DataFrame, nights: list[Session], session: str,
                 asked: Iterable[Cell]):
        self.cells, self.nights, self.session = cells, nights, session
        night = next((n for n in nights if n.uuid == session), None)
        self.start = night.start if night else float('inf')
        known = [*asked, *(c for c in cells if c.verdict == 'regressed')]     # all slower ones tell a node
        wanted = pl.DataFrame({name: [getattr(c, name) for c in known] for name in _FIGURE}).unique()
        usual = frame.filter((pl.col('label') == '')
                             & ((pl.col('start') <= self.start) | (pl.col('rerun_of') == session)))
        usual = usual.select(_COLUMNS)
        wanted = usual.join(wanted.cast(pl.String), on=_FIGURE, how='semi')
        self._alike = wanted.partition_by(_FIGURE, as_dict=True)
        tonight = frame.filter((pl.col('session') == session) & (pl.col('node') != ''))
        self._ran: dict[tuple, list[frozenset[str]]] = {}
        for partition, case, node in tonight.select('partition', 'case', 'node').unique().rows():
            self._ran.setdefault((partition, case), []).append(frozenset(node.split(',')))
        # asked for every cell of a partition, answered once
        self._subsystem = functools.cache(self._subsystem_of)
        self._by_cells = functools.cache(self._node_of)
        self._known = functools.cache(lambda environ: changes.known(nights, self.start, environ))
        self._since = functools.cache(lambda good, environ: changes.since(self._known(environ), good))

    def of(self, cell: Cell) -> Attribution:
        """What is known of ``cell``; of one that is as it should be, only what changed since the figure before."""
        found = self._alike.get(tuple(getattr(cell, name) for name in _FIGURE))
        alike = [] if found is None else found.to_dicts()
        own = [r for r in alike if (r['partition'], r['environ']) == (cell.partition, cell.environ)]
        good = last_good(own, self.session, self.start)
        slower = cell.verdict == 'regressed'
        place = self._where(cell, alike, good) if slower or cell.suspicious else Where()
        return Attribution(where=place, subsystem=self._subsystem(cell.partition) if slower else Subsystem(),
                           changes=self._changes(cell, own, good, place))

    def _where(self, cell: Cell, alike: list[dict], good: float | None) -> Where:
        figures = where.figures(alike, self.session, float('-inf') if good is None else good)
        told = where.place(figures, cell.partition)
        if told.kind in ('node', 'everything') or cell.verdict != 'regressed':
            return told
        return self._by_cells(cell.partition, cell.subsystem) or told

    def _node_of(self, partition: str, subsystem: str) -> Where | None:
        """The one node that the slow cells of a partition and subsystem share: no rerun was slow without it."""
        alike = [c for c in self.cells if (c.partition, c.subsystem) == (partition, subsystem)]
        slower = {c.case for c in alike if c.verdict == 'regressed'}
        fine = {c.case for c in alike if c.verdict in FINE} - slower
        ran = self._ran
        slow = {c: ran[partition, c] for c in slower if (partition, c) in ran}
        for cell in (c for c in alike if c.verdict == 'regressed' and c.case in slow):
            slow[cell.case] = slow[cell.case] + self._slow_again(cell)
        return where.by_cells(slow, {c: ran[partition, c] for c in fine if (partition, c) in ran})

    def _slow_again(self, cell: Cell) -> list[frozenset[str]]:
        """The nodes of each of the cell's reruns of this night that was slow."""
        found = self._alike.get(tuple(getattr(cell, name) for name in _FIGURE))
        if found is None or not (found['rerun_of'] == self.session).any():
            return []
        own = (pl.col('partition') == cell.partition) & (pl.col('environ') == cell.environ)
        alike = found.filter(own).to_dicts()
        good = last_good(alike, self.session, self.start)
        figures = where.figures(alike, self.session, float('-inf') if good is None else good)
        return [f.nodes for f in figures if f.tonight and f.slow and f.nodes]

    def _subsystem_of(self, partition: str) -> Subsystem:
        return where.part({name: c.verdict == 'regressed' for name, c in names(self.cells).items()
                           if c.partition == partition and (c.verdict == 'regressed' or c.verdict in FINE)})

    def _changes(self, cell: Cell, own: list[dict], good: float | None, place: Where) -> list[Change]:
        if good is None:
            return []
        was = {node for r in own if r['start'] == good for node in r['node'].split(',') if node}
        tonight = {node for r in own if r['session'] == self.session for node in r['node'].split(',') if node}
        nodes = {place.name} if place.kind == 'node' else tonight or set(cell.nodes)
        known = changes.on(self._since(good, cell.environ), nodes)
        return [*changes.of_nodes(was, nodes, self.start), *known]


def last_good(own: Iterable[Mapping[str, Any]], session: str, start: float) -> float | None:
    """When the newest session before this one began in which the cell's median was not slow; None: in none."""
    before = [r for r in own if r['start'] < start and session not in (r['session'], r['rerun_of'])]
    level = where.level(before, start)
    by_session: dict[float, list[float]] = {}
    for row in before:
        if not row['rerun_of']:
            by_session.setdefault(row['start'], []).append(row['value'])
    good = [began for began, values in by_session.items() if level is None or not level.slow(median(values))]
    return max(good, default=None)
