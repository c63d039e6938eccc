"""The three questions put to one cell of a judged session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

import polars as pl

from parity.attribution import changes, slow, subsystem, where
from parity.attribution.model import Attribution, Where
from parity.history.facts import SessionFacts
from parity.verdict.model import Cell
from parity.verdict.names import names

#: Words that say that a cell is as fast as it should be.
FINE = ('ok', 'improved')


def of_cell(cell: Cell, cells: list[Cell], frame: pl.DataFrame, nights: list[SessionFacts],
            session: str) -> Attribution:
    """What is known of ``cell``, one of ``cells`` of the session with uuid ``session``.

    ``frame``: parity.history.load of the system. ``nights``: parity.history.sessions of it, this one among
    them; of a cell that is as it should be, only what changed since the figure before is told.
    """
    alike = frame.filter((pl.col('case') == cell.case) & (pl.col('size') == cell.size) & ~pl.col('unusual')
                         & (pl.col('metric') == cell.metric) & (pl.col('label') == '')).to_dicts()
    own = [r for r in alike if (r['partition'], r['environ']) == (cell.partition, cell.environ)]
    night = next((n for n in nights if n.uuid == session), None)
    start = night.start if night else float('inf')
    alike, own = ([r for r in rows if r['start'] <= start or r['rerun_of'] == session] for rows in (alike, own))
    good = last_good(own, session, start)
    found = where.figures(alike, session, float('-inf') if good is None else good)
    place = _where(cell, cells, frame, found, session) if cell.verdict == 'regressed' else Where()
    return Attribution(
        where=place,
        subsystem=subsystem.of(_judged(cell, cells)) if cell.verdict == 'regressed' else subsystem.Subsystem(),
        changes=_changes(cell, own, nights, good, start, place, session))


def last_good(own: Iterable[Mapping[str, Any]], session: str, start: float) -> float | None:
    """When the newest session before this one began in which the cell's median was not slow; None: in none."""
    before = [r for r in own if r['start'] < start and session not in (r['session'], r['rerun_of'])]
    level = slow.level(before, start)
    by_session: dict[float, list[float]] = {}
    for row in before:
        if not row['rerun_of']:
            by_session.setdefault(row['start'], []).append(row['value'])
    good = [began for began, values in by_session.items() if level is None or not level.slow(median(values))]
    return max(good, default=None)


def _where(cell: Cell, cells: list[Cell], frame: pl.DataFrame, found: list[where.Figure], session: str) -> Where:
    told = where.of(found, cell.partition)
    if told.kind in ('node', 'everything'):
        return told
    alike = [c for c in cells if (c.partition, c.subsystem) == (cell.partition, cell.subsystem)]
    tonight = frame.filter((pl.col('session') == session) & (pl.col('partition') == cell.partition)
                           & (pl.col('node') != ''))
    ran: dict[str, list[frozenset[str]]] = {}
    for case, node in tonight.select('case', 'node').unique().rows():
        ran.setdefault(case, []).append(frozenset(node.split(',')))
    slower = {c.case for c in alike if c.verdict == 'regressed'}
    fine = {c.case for c in alike if c.verdict in FINE} - slower
    return where.by_cells({c: ran[c] for c in slower & set(ran)}, {c: ran[c] for c in fine & set(ran)}) or told


def _judged(cell: Cell, cells: list[Cell]) -> dict[str, bool]:
    return {name: c.verdict == 'regressed' for name, c in names(cells).items()
            if c.partition == cell.partition and c.verdict in ('regressed', *FINE)}


def _changes(cell: Cell, own: list[dict], nights: list[SessionFacts], good: float | None, start: float,
             place: Where, session: str) -> list:
    if good is None:
        return []
    was = {node for r in own if r['start'] == good for node in r['node'].split(',') if node}
    tonight = {node for r in own if r['session'] == session for node in r['node'].split(',') if node}
    nodes = {place.name} if place.kind == 'node' else tonight or set(cell.nodes)
    known = changes.between(nights, good, start, cell.environ, nodes)
    return [*changes.of_nodes(was, nodes, start), *known]
