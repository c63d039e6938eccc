"""The cause of each slower cell of a judged session, beside the nights before it."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from statistics import median

import polars as pl

from parity.records import history, kept
from parity.records.record import Session
from parity.verdict.attribution import changes, where
from parity.verdict.attribution.changes import Attribution, Change, Subsystem, Where
from parity.verdict.model import Cell, names

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
    night = Night(cells, history.load(system), kept.sessions(system, SESSIONS), session, asked)
    causes = {id(c): night.of(c) for c in asked}
    return [c.model_copy(update={'cause': causes[id(c)]}) if id(c) in causes else c for c in cells]


class Night:
    """One judged session beside its history.

    ``cells``: all cells of ``session`` (a uuid). ``frame``: history.load of the system. ``nights``: its
    kept.sessions, this one among them. ``asked``: the cells whose cause is wanted."""

    def __init__(self, cells: list[Cell], frame: pl.DataFrame, nights: list[Session], session: str,
                 asked: Iterable[Cell]):
        self.cells, self.session = cells, session
        starts = [n.start for n in nights if n.uuid == session] or frame.filter(session=session)['start'].to_list()
        self.start = starts[0] if starts else float('inf')
        slower = [c for c in cells if c.verdict == 'regressed']
        wanted = pl.DataFrame({name: [getattr(c, name) for c in (*asked, *slower)] for name in _FIGURE},
                              schema=dict.fromkeys(_FIGURE, pl.String))
        known = (pl.col('start') <= self.start) | (pl.col('rerun_of') == session)
        usual = frame.filter(known, label='').select(_COLUMNS).join(wanted, on=_FIGURE, how='semi')
        self._alike = usual.partition_by(_FIGURE, as_dict=True)
        tonight = frame.filter((pl.col('session') == session) & (pl.col('node') != ''))
        self._ran: dict[tuple, list[frozenset[str]]] = {}
        for row in tonight.unique(('partition', 'case', 'node')).iter_rows(named=True):
            self._ran.setdefault((row['partition'], row['case']), []).append(where.nodes_of(row))
        # every cell of a partition asks: answered once
        self._subsystem = functools.cache(self._subsystem_of)
        self._by_cells = functools.cache(self._node_of)
        self._known = functools.cache(lambda environ: changes.known(nights, self.start, environ))
        self._since = functools.cache(lambda good, environ: changes.since(self._known(environ), good))

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

    def _slow_or_not(self, rows: list[dict], good: float | None) -> list[where.Figure]:
        return where.figures(rows, self.session, float('-inf') if good is None else good)

    def _where(self, cell: Cell, alike: list[dict], good: float | None) -> Where:
        told = where.place(self._slow_or_not(alike, good), cell.partition)
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
        return where.part({name: c.verdict == 'regressed' for name, c in names(self.cells).items()
                           if c.partition == partition and c.verdict in ('regressed', *FINE)})

    def _changes(self, cell: Cell, own: list[dict], good: float | None, place: Where) -> list[Change]:
        if good is None:
            return []
        was = frozenset().union(*(where.nodes_of(r) for r in own if r['start'] == good))
        tonight = frozenset().union(*(where.nodes_of(r) for r in own if r['session'] == self.session))
        nodes = {place.name} if place.kind == 'node' else tonight or set(cell.nodes)
        return [*changes.of_nodes(was, nodes, self.start), *changes.on(self._since(good, cell.environ), nodes)]


def last_good(own: Iterable[dict], session: str, start: float) -> float | None:
    """Return when the newest session before this one began in which the cell's median was not slow."""
    before = [r for r in own if r['start'] < start and session not in (r['session'], r['rerun_of'])]
    edge = where.edge(before, start)
    nights: dict[float, list[float]] = {}
    for row in before:
        if not row['rerun_of']:
            nights.setdefault(row['start'], []).append(row['value'])
    good = [began for began, values in nights.items()
            if edge is None or not where.beyond(median(values), edge, before[-1]['better'])]
    return max(good, default=None)
