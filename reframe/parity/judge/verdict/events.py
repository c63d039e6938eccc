"""The events of a cell: what happened since the night before, by the names of parity.judge.stats.rule.EVENTS.

Another value is accepted. A person began a level (parity level). The program was given other work: the cell learns
anew. Other software ran. A node has other hardware under its name. Maintenance changed another of its facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from parity.base.text import node_name
from parity.judge.refs import levels
from parity.judge.stats.bounds import FIRST
from parity.judge.store import changes, database, history
from parity.judge.store.record import MEMORY_SETTINGS, Session
from parity.judge.verdict import acks
from parity.judge.verdict.model import Cell, Change, names

#: Facts of a node, by the events that their change is.
_KINDS = dict.fromkeys(('processor', 'microcode', 'memory', 'cores'), 'hardware') | dict.fromkeys(
    ('kernel', 'virtualisation', 'firmware', 'governor', 'clocksource', *MEMORY_SETTINGS, 'gpu_driver',
     'vulnerable', 'mitigations', 'cpu quota', 'MPI'), 'maintenance')


class OtherWork(NamedTuple):
    """The changes that made a cell learn anew last, and whether no value has been accepted since."""

    changes: list[Change]
    unaccepted: bool
    restarts: int                    # this one, and those before it that left no time to learn


def of_nights(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> tuple[pl.Series, dict[int, OtherWork]]:
    """Return the event of each row, '' for none; and the newest other work of a cell, by its place in ``cells``.

    ``rows``: a night of a cell each, in order: cell, night (Unix time), label, session, node, software, reference,
    unit, work."""
    row, software, reference = pl.col('row'), pl.col('software'), pl.col('reference')
    rows = rows.with_row_index('row')
    rows = rows.with_columns(since=_before('night'), of=_before('session'), was=_before('unit'))
    software_before = _before('software')
    has_software = (software_before != '') & (software != '')
    is_other_software = has_software & (software != software_before)
    is_other_reference = reference.ne_missing(_before('reference'))
    has_night_before = _before('label').is_not_null()
    is_accepted = is_other_reference & reference.is_not_null() & has_night_before
    work = _other_work(rows, cells)
    by_hand = _by_hand(rows, cells, system)
    nodes = rows.select('row', 'cell', 'node', 'since', 'night').drop_nulls('since')
    moved = _of_nodes(nodes, cells, system)
    other_work = pl.when(row.is_in([*work])).then(pl.lit('work'))
    new_level = pl.when(row.is_in(by_hand)).then(pl.lit('level'))
    accepted = pl.when(is_accepted).then(pl.lit('accepted'))
    other_software = pl.when(is_other_software).then(pl.lit('software'))
    of_nodes = row.replace_strict(moved, default='', return_dtype=pl.String)
    first_event = pl.coalesce(other_work, new_level, accepted, other_software, of_nodes)
    event = rows.select(event=first_event.cast(history.TEXT))['event']
    accepted_rows = rows.filter(is_accepted).group_by('cell')
    last_accepted = dict(accepted_rows.agg(row.max()).iter_rows())
    return event, _anew(work, rows['cell'], last_accepted)


def _before(column: str) -> pl.Expr:
    """Return what the night before of the same cell has; null on a cell's first night."""
    cell = pl.col('cell')
    same_cell = cell == cell.shift()
    return pl.when(same_cell).then(pl.col(column).shift())


def _anew(work: dict[int, list[Change]], cell_of: pl.Series, last_accepted: dict[int, int]
          ) -> dict[int, OtherWork]:
    """Return the newest other work of each cell. ``work``: its changes, by row. ``last_accepted``: the row of the
    newest accepted value, by cell."""
    anew: dict[int, OtherWork] = {}
    newest: dict[int, int] = {}      # the row of the last restart, by cell
    for row in sorted(work):
        cell = cell_of[row]
        restarts = 1
        if cell in newest and row - newest[cell] <= FIRST:       # too soon to have learned
            restarts = anew[cell].restarts + 1
        unaccepted = last_accepted.get(cell, -1) < row
        anew[cell] = OtherWork(work[row], unaccepted, restarts)
        newest[cell] = row
    return anew


def _other_work(nights: pl.DataFrame, cells: Sequence[Cell]) -> dict[int, list[Change]]:
    """Return what changed in the work, by row. What is other work on most nights of a cell says nothing."""
    is_other = (pl.col('work') != _before('work')).fill_null(False)
    is_rare = 2 * is_other.sum().over('cell') < pl.len().over('cell')
    is_other_unit = pl.col('unit') != pl.col('was')
    rows = nights.filter(is_other & is_rare | is_other_unit)
    if rows.is_empty():
        return {}
    works = changes.work({*rows['session'], *rows['of']})
    work_changes = {}
    for row in rows.iter_rows(named=True):
        cell = cells[row['cell']]
        key = [getattr(cell, name) for name in changes.WORK]
        old = works.get((row['of'], *key), '')
        new = works.get((row['session'], *key), '')
        night = row['night']
        differences = changes.of_work(old, new, night)
        old_unit, new_unit = row['was'], row['unit']
        if old_unit and new_unit and new_unit != old_unit:
            differences.append(Change(fact='unit', old=old_unit, new=new_unit, since=night))
        if differences:
            work_changes[row['row']] = differences
    return work_changes


def _by_hand(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> list[int]:
    """Return the row of the first night of each level that a person began; none for a cell's very first night."""
    listed = levels.read(system)
    if not listed:
        return []
    by_name = acks.by_name(names(cells))
    place = {id(cell): number for number, cell in enumerate(cells)}
    later = rows.filter(pl.col('since').is_not_null())
    first_rows = []
    for level in listed:
        is_since = pl.col('label') >= str(level.since)
        for cell in by_name.get(level.cell, ()):
            is_cell = pl.col('cell') == place[id(cell)]
            nights = later.filter(is_cell, is_since)
            first_rows += nights['row'].head(1).to_list()
    return first_rows


def _of_nodes(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> dict[int, str]:
    """Return hardware or maintenance, by row, where a node changed since the cell's night before. The same change
    counts once, on whatever node."""
    moved = list(_moved(database.sessions(system)))
    if not moved:
        return {}
    types = {'place': pl.String, 'when': pl.Float64, 'kind': pl.String, 'what': pl.String}
    moves = pl.DataFrame(moved, types, orient='row')
    environ_places = [f'+{cell.environ}' for cell in cells]
    columns = {'cell': range(len(cells)), 'environ': environ_places}
    cell_type = {'cell': rows.schema['cell']}
    environs = pl.DataFrame(columns, schema_overrides=cell_type)
    nodes = pl.col('node').cast(pl.String).str.split(',')
    with_environ = rows.join(environs, on='cell')
    placed = with_environ.with_columns(place=pl.concat_list(nodes, 'environ'))
    placed = placed.explode('place', empty_as_null=True)
    when = pl.col('when')
    since_last_night = (when > pl.col('since')) & (when <= pl.col('night'))
    moved_rows = placed.join(moves, on='place').filter(since_last_night)
    is_first = pl.struct('cell', 'what').is_first_distinct()
    first_moves = moved_rows.sort('row').filter(is_first)
    kind = pl.col('kind').min()         # hardware before maintenance
    kinds = first_moves.group_by('row').agg(kind)
    return dict(kinds.iter_rows())


def _moved(nights: Sequence[Session]) -> Iterator[tuple[str, float, str, str]]:
    """Yield node (or + and environment), time, event and words of each fact that changed, the oldest first."""
    latest: dict[str, dict[str, str]] = {}       # the facts of a place, as the nights so far had them
    for night in nights:
        for place, facts in _places(night).items():
            before = latest.setdefault(place, {})
            if before == facts:
                continue
            for fact, text in facts.items():
                old = before.get(fact)
                is_other = text and old and old != text
                if fact in _KINDS and is_other:
                    yield place, night.start, _KINDS[fact], f'{fact} {old} -> {text}'
            before.update(facts)


def _places(night: Session) -> dict[str, dict[str, str]]:
    """Return the facts of each node, and of each environment by + and its name."""
    places = {}
    for node, facts in changes.of_nodes(night).items():
        places[node_name(node)] = facts
    software = night.facts.get('software') or {}
    for environ, about in software.items():
        mpi = about.get('mpi') or {}
        version = [str(mpi[key]) for key in ('name', 'version') if mpi.get(key)]
        places[f'+{environ}'] = {'MPI': ' '.join(version)}
    return places
