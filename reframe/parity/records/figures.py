"""All figures of a system in one frame; each session is read from ReFrame's database once.

What was read is kept in results/cache/history, a file a session: it can be removed at any time.
"""

from __future__ import annotations

import functools
from pathlib import Path

import polars as pl

from parity.base import files
from parity.records import cache, database, readable, rows
from parity.records.rows import SCHEMA

#: Goes up when SCHEMA, or what its columns mean, changes: frames of another version are made anew.
_VERSION = 5


def load(system: str, nights: int | None = None, disturbed: bool = False) -> pl.DataFrame:
    """The figures of the system, oldest first, of its newest ``nights`` sessions (all: None) and their reruns.

    Columns are parity.records.rows.SCHEMA's. Disturbed runs are left out unless asked for. A session that cannot
    be read is left out, with a warning that names it; InfrastructureError where the database cannot be read.
    """
    stored = database.starts()
    files = [cache.file('history', _VERSION, uuid, 'parquet') for uuid in stored]
    kept = [file for uuid, file in zip(stored, files, strict=True) if file.exists() or _made(uuid, file)]
    if not kept:
        return pl.DataFrame(schema=SCHEMA)
    frame = _newest(_frame(system, tuple(kept), tuple(stored.items())), nights)
    return frame if disturbed else frame.filter(~pl.col('disturbed'))


@functools.lru_cache(maxsize=1)
def _frame(system: str, files: tuple[Path, ...], starts: tuple[tuple[str, float], ...]) -> pl.DataFrame:
    """One verdict asks for the same figures several times; a session's file never changes."""
    frame = pl.concat([pl.scan_parquet(file) for file in files]).filter(pl.col('system') == system).collect()
    return _in_order(frame, dict(starts)).sort('start', 'run', maintain_order=True)


def _in_order(frame: pl.DataFrame, starts: dict[str, float]) -> pl.DataFrame:
    """The frame with the start of each session as `database.starts` gives it; clocks that were wrong are few."""
    said = dict(frame.select('session', 'start').unique().iter_rows())
    if not (moved := {uuid: starts[uuid] for uuid, start in said.items() if start != starts[uuid]}):
        return frame
    return frame.with_columns(start=pl.col('session').replace_strict(moved, default=pl.col('start')))


def _newest(frame: pl.DataFrame, nights: int | None) -> pl.DataFrame:
    if nights is None:
        return frame
    own = frame.filter(pl.col('rerun_of') == '').unique('session').sort('start').tail(nights)['session'].implode()
    return frame.filter(pl.col('session').is_in(own) | pl.col('rerun_of').is_in(own))


def _made(uuid: str, file: Path) -> bool:
    frame = readable.read(uuid, rows.of_report)
    if frame is not None:
        files.replace(file, frame.write_parquet)
    return frame is not None
