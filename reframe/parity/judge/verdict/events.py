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
from parity.judge.store import changes, database
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
    same_cell = pl.col('cell') == pl.col('cell').shift()

    def before(column: str) -> pl.Expr:
        return pl.when(same_cell).then(pl.col(column).shift())

    rows = rows.with_row_index('row').with_columns(since=before('night'), of=before('session'), was=before('unit'))
    both_named = (before('software') != '') & (pl.col('software') != '')
    software = both_named & (pl.col('software') != before('software'))
    another = pl.col('reference').ne_missing(before('reference'))
    accepted = another & pl.col('reference').is_not_null() & before('label').is_not_null()
    other = (pl.col('work') != before('work')).fill_null(False)
    few = 2 * other.sum().over('cell') < pl.len().over('cell')     # what is other work on most nights says nothing
    asked = rows.filter(other & few | (pl.col('unit') != pl.col('was')))
    work = _other_work(asked, cells) if len(asked) else {}
    by_hand = _by_hand(rows, cells, system)
    nodes = rows.select('row', 'cell', 'node', 'since', 'night').drop_nulls('since')
    moved = _of_nodes(nodes, cells, system)
    event = pl.coalesce(
        pl.when(pl.col('row').is_in([*work])).then(pl.lit('work')),
        pl.when(pl.col('row').is_in(by_hand)).then(pl.lit('level')),
        pl.when(accepted).then(pl.lit('accepted')),
        pl.when(software).then(pl.lit('software')),
        pl.col('row').replace_strict(moved, default='', return_dtype=pl.String))
    last_accepted = rows.filter(accepted).group_by('cell').agg(pl.col('row').max())
    anew = _anew(work, rows['cell'], dict(last_accepted.iter_rows()))
    return rows.select(event=event)['event'], anew


def _anew(work: dict[int, list[Change]], cell_of: pl.Series, last_accepted: dict[int, int]
          ) -> dict[int, OtherWork]:
    """Return the newest other work of each cell. ``work``: its changes, by row. ``last_accepted``: the row of the
    newest accepted value, by cell."""
    anew: dict[int, OtherWork] = {}
    newest: dict[int, int] = {}      # the row of the last restart, by cell
    for row, new in sorted(work.items()):
        cell = cell_of[row]
        learned = cell not in newest or row - newest[cell] > FIRST
        restarts = 1 if learned else anew[cell].restarts + 1
        anew[cell] = OtherWork(new, last_accepted.get(cell, -1) < row, restarts)
        newest[cell] = row
    return anew


def _other_work(rows: pl.DataFrame, cells: Sequence[Cell]) -> dict[int, list[Change]]:
    """Return what changed in the work, by row."""
    works = changes.work({*rows['session'], *rows['of']})
    found = {}
    for row in rows.iter_rows(named=True):
        cell = cells[row['cell']]
        key = [getattr(cell, name) for name in changes.WORK]
        old = works.get((row['of'], *key), '')
        new = works.get((row['session'], *key), '')
        differences = changes.of_work(old, new, row['night'])
        if row['unit'] != row['was'] and row['unit'] and row['was']:
            differences.append(Change(fact='unit', old=row['was'], new=row['unit'], since=row['night']))
        if differences:
            found[row['row']] = differences
    return found


def _by_hand(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> list[int]:
    """Return the row of the first night of each level that a person began; none for a cell's very first night."""
    listed = levels.read(system)
    if not listed:
        return []
    named = acks.by_name(names(cells))
    place = {id(cell): number for number, cell in enumerate(cells)}
    first_rows = []
    for level in listed:
        for cell in named.get(level.cell, ()):
            of_cell = rows.filter(pl.col('cell') == place[id(cell)], pl.col('label') >= str(level.since))
            first_rows += of_cell.filter(pl.col('since').is_not_null())['row'].to_list()[:1]
    return first_rows


def _of_nodes(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> dict[int, str]:
    """Return hardware or maintenance, by row, where a node changed since the cell's night before. The same change
    counts once, on whatever node."""
    moved = list(_moved(database.sessions(system)))
    if not moved:
        return {}
    types = {'place': pl.String, 'when': pl.Float64, 'kind': pl.String, 'what': pl.String}
    moves = pl.DataFrame(moved, types, orient='row')
    environs = pl.DataFrame({'cell': range(len(cells)), 'environ': [f'+{cell.environ}' for cell in cells]},
                            schema_overrides={'cell': rows.schema['cell']})
    nodes = pl.col('node').cast(pl.String).str.split(',')
    placed = rows.join(environs, on='cell').with_columns(place=pl.concat_list(nodes, 'environ'))
    placed = placed.explode('place', empty_as_null=True).join(moves, on='place')
    since_last_night = (pl.col('when') > pl.col('since')) & (pl.col('when') <= pl.col('night'))
    found = placed.filter(since_last_night).sort('row')
    found = found.filter(pl.struct('cell', 'what').is_first_distinct())
    return dict(found.group_by('row').agg(pl.col('kind').min()).iter_rows())       # hardware before maintenance


def _moved(nights: Sequence[Session]) -> Iterator[tuple[str, float, str, str]]:
    """Yield node (or + and environment), time, event and words of each fact that changed, the oldest first."""
    known: dict[str, dict[str, str]] = {}
    for night in nights:
        places = {node_name(node): facts for node, facts in changes.of_nodes(night).items()}
        for environ, software in (night.facts.get('software') or {}).items():
            mpi = software.get('mpi') or {}
            version = [str(mpi[key]) for key in ('name', 'version') if mpi.get(key)]
            places[f'+{environ}'] = {'MPI': ' '.join(version)}
        for place, facts in places.items():
            before = known.setdefault(place, {})
            if before == facts:
                continue
            for fact, text in facts.items():
                old = before.get(fact)
                if fact in _KINDS and text and old not in (None, '', text):
                    yield place, night.start, _KINDS[fact], f'{fact} {old} -> {text}'
            before.update(facts)
