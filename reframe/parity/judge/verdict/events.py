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
from parity.judge.store.record import Session
from parity.judge.verdict import acks
from parity.judge.verdict.model import Cell, Change, names

#: Facts of a node, by the events that their change is.
_KINDS = dict.fromkeys(('processor', 'microcode', 'memory', 'cores'), 'hardware') | dict.fromkeys(
    ('kernel', 'virtualisation', 'firmware', 'governor', 'clocksource', 'gpu_driver', 'vulnerable', 'mitigations',
     'cpu quota', 'MPI'), 'maintenance')


class OtherWork(NamedTuple):
    """The changes that made a cell learn anew last, and whether no value has been accepted since."""

    changes: list[Change]
    unaccepted: bool
    restarts: int                    # this one, and those before it that left no time to learn


def of_nights(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> tuple[pl.Series, dict[int, OtherWork]]:
    """Return the event of each row, '' for none; and the newest other work of a cell, by its place in ``cells``.

    ``rows``: a night of a cell each, in order: cell, night (Unix time), label, session, node, software, reference,
    unit, work."""
    def before(column: str) -> pl.Expr:
        return pl.col(column).shift().over('cell')

    rows = rows.with_row_index('row').with_columns(since=before('night'), of=before('session'), was=before('unit'))
    software = (pl.col('software') != before('software')) & (before('software') != '') & (pl.col('software') != '')
    accepted = pl.col('reference').is_not_null() & before('label').is_not_null() \
        & pl.col('reference').ne_missing(before('reference'))
    other = (pl.col('work') != before('work')).fill_null(False)
    few = 2 * other.sum().over('cell') < pl.len().over('cell')     # what is other work on most nights says nothing
    asked = rows.filter(other & few | (pl.col('unit') != pl.col('was')))
    work = _other_work(asked, cells) if len(asked) else {}
    events = {'work': pl.col('row').is_in([*work]), 'level': pl.col('row').is_in(_by_hand(rows, cells, system)),
              'accepted': accepted, 'software': software}
    moved = _of_nodes(rows.select('row', 'cell', 'node', 'since', 'night').drop_nulls('since'), cells, system)
    event = pl.coalesce(*(pl.when(holds).then(pl.lit(name)) for name, holds in events.items()),
                        pl.col('row').replace_strict(moved, default='', return_dtype=pl.String))
    last = dict(rows.filter(accepted).group_by('cell').agg(pl.col('row').max()).iter_rows())
    anew: dict[int, OtherWork] = {}
    newest: dict[int, int] = {}      # the row of the last restart, by cell
    for row, new in sorted(work.items()):
        cell = rows['cell'][row]
        learned = cell not in newest or row - newest[cell] > FIRST
        restarts = 1 if learned else anew[cell].restarts + 1
        anew[cell], newest[cell] = OtherWork(new, last.get(cell, -1) < row, restarts), row
    return rows.select(event=event)['event'], anew


def _other_work(rows: pl.DataFrame, cells: Sequence[Cell]) -> dict[int, list[Change]]:
    """Return what changed in the work, by row."""
    given, found = changes.work({*rows['session'], *rows['of']}), {}
    for row in rows.iter_rows(named=True):
        key = [getattr(cells[row['cell']], name) for name in changes.WORK]
        new = changes.of_work(*(given.get((row[name], *key), '') for name in ('of', 'session')), row['night'])
        if row['unit'] != row['was'] and row['unit'] and row['was']:
            new.append(Change(fact='unit', old=row['was'], new=row['unit'], since=row['night']))
        if new:
            found[row['row']] = new
    return found


def _by_hand(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> list[int]:
    """Return the row of the first night of each level that a person began; none for a cell's very first night."""
    listed, found = levels.read(system), []
    known = acks.by_name(names(cells)) if listed else {}
    place = {id(cell): at for at, cell in enumerate(cells)} if listed else {}
    for level in listed:
        for cell in known.get(level.cell, ()):
            own = rows.filter(pl.col('cell') == place[id(cell)], pl.col('label') >= str(level.since))
            found += own.filter(pl.col('since').is_not_null())['row'].to_list()[:1]
    return found


def _of_nodes(rows: pl.DataFrame, cells: Sequence[Cell], system: str) -> dict[int, str]:
    """Return hardware or maintenance, by row, where a node changed since the cell's night before. The same change
    counts once, on whatever node."""
    moved = list(_moved(database.sessions(system)))
    if not moved:
        return {}
    types = {'place': pl.String, 'when': pl.Float64, 'kind': pl.String, 'what': pl.String}
    environs = pl.DataFrame({'cell': range(len(cells)), 'environ': [f'+{cell.environ}' for cell in cells]},
                            schema_overrides={'cell': rows.schema['cell']})
    places = pl.concat_list(pl.col('node').cast(pl.String).str.split(','), 'environ')
    found = rows.join(environs, on='cell').with_columns(
        place=places).explode('place', empty_as_null=True).join(
        pl.DataFrame(moved, types, orient='row'), on='place').filter(
        (pl.col('when') > pl.col('since')) & (pl.col('when') <= pl.col('night')))
    found = found.sort('row').filter(pl.struct('cell', 'what').is_first_distinct())
    return dict(found.group_by('row').agg(pl.col('kind').min()).iter_rows())       # hardware before maintenance


def _moved(nights: Sequence[Session]) -> Iterator[tuple[str, float, str, str]]:
    """Yield node (or + and environment), time, event and words of each fact that changed, the oldest first."""
    known: dict[str, dict[str, str]] = {}
    for night in nights:
        here = {node_name(node): said for node, said in changes.of_nodes(night).items()}
        used = {environ: said.get('mpi') or {} for environ, said in (night.facts.get('software') or {}).items()}
        here |= {f'+{environ}': {'MPI': ' '.join(str(mpi[key]) for key in ('name', 'version') if mpi.get(key))}
                 for environ, mpi in used.items()}
        for place, said in here.items():
            if (before := known.get(place)) != said:
                yield from ((place, night.start, _KINDS[fact], f'{fact} {before[fact]} -> {text}')
                            for fact, text in said.items() if fact in _KINDS and text
                            and before and before.get(fact) not in (None, '', text))
                known[place] = {**(before or {}), **said}
