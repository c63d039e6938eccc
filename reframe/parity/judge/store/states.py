"""The word and the state of each cell on each night, as they were judged: a table of parity's own in the results
database. Who asks about nights that are over reads these, and judges nothing again."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterable, Mapping

import polars as pl

from parity.base import paths
from parity.base.errors import InfrastructureError
from parity.judge.store import database
from parity.judge.store.plan_file import CELL

TABLE = 'parity_states'
_TABLE = f'CREATE TABLE IF NOT EXISTS {TABLE} (session TEXT PRIMARY KEY, system TEXT, start REAL, cells BLOB)'
#: Columns of a night: the cell, its word, and what Cell (parity.judge.verdict.model) says of its life.
SCHEMA = {**dict.fromkeys((*CELL, 'word', 'state'), pl.String), 'begin': pl.Float64, 'detected': pl.Float64,
          'level': pl.Float64, 'usual': pl.Float64, 'incident': pl.Int64}


def stored(system: str) -> set[str]:
    """Return the sessions of the system whose states are stored."""
    return {uuid for uuid, in database.query(f'SELECT session FROM {TABLE} WHERE system = ?', system)}


def read(system: str, sessions: Iterable[str]) -> pl.DataFrame:
    """Return `session` and SCHEMA's columns of the cells of these sessions. One that cannot be read has none."""
    wanted = set(sessions)
    frames = []
    for uuid, cells in database.query(f'SELECT session, cells FROM {TABLE} WHERE system = ?', system):
        if uuid not in wanted:
            continue
        session = pl.lit(uuid).alias('session')
        try:
            frame = pl.read_parquet(cells).rename({'found': 'detected'}, strict=False)      # an older name
            frames.append(frame.select(session, *SCHEMA))
        except (pl.exceptions.PolarsError, OSError, TypeError) as err:
            database.warn(f'the states of session {uuid}', err)
    if not frames:
        return pl.DataFrame(schema={'session': pl.String, **SCHEMA})
    return pl.concat(frames)


def write(system: str, nights: Mapping[str, pl.DataFrame], starts: Mapping[str, float]) -> None:
    """Store the states of sessions, by uuid; those that are stored already are replaced. All are, or none.

    ``starts``: when each began. Raises InfrastructureError where the database cannot be written."""
    columns = [pl.col(name).cast(kind) for name, kind in SCHEMA.items()]
    rows = []
    for uuid, frame in nights.items():
        kept = io.BytesIO()
        frame.select(columns).write_parquet(kept)
        start = starts.get(uuid, 0.0)
        rows.append((uuid, system, start, kept.getvalue()))
    file = paths.database()
    try:
        with database.writing() as conn:
            conn.execute(_TABLE)
            conn.executemany(f'REPLACE INTO {TABLE} (session, system, start, cells) VALUES (?, ?, ?, ?)', rows)
    except sqlite3.Error as err:
        raise InfrastructureError(f'{file}: {err}: the states of {len(rows)} nights are not stored; '
                                  f'{database.TO_WRITE}') from None
