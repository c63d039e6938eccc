"""All figures of a system in one frame; each session is read from ReFrame's database once.

What was read is kept in results/cache/history, a file a session: it can be removed at any time.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import polars as pl

from parity import paths
from parity.history import rows
from parity.history.rows import SCHEMA
from parity.session import database, readable

#: Goes up when SCHEMA, or what its columns mean, changes: frames of another version are made anew.
_VERSION = 2


def load(system: str, nights: int | None = None) -> pl.DataFrame:
    """The figures of the system, oldest first, of its newest ``nights`` sessions (all: None) and their reruns.

    Columns are parity.history.rows.SCHEMA's. A session that cannot be read is left out, with a warning that names
    it; InfrastructureError where the database cannot be read.
    """
    stored = database.uuids()
    files = [_file(uuid) for uuid in stored]
    kept = [file for uuid, file in zip(stored, files, strict=True) if file.exists() or _made(uuid, file)]
    if not kept:
        return pl.DataFrame(schema=SCHEMA)
    return _newest(_frame(system, tuple(kept)), nights).sort('start', 'run', maintain_order=True)


@functools.lru_cache(maxsize=1)
def _frame(system: str, files: tuple[Path, ...]) -> pl.DataFrame:
    """One verdict asks for the same figures several times; a session's file never changes."""
    return pl.concat([pl.scan_parquet(file) for file in files]).filter(pl.col('system') == system).collect()


def _newest(frame: pl.DataFrame, nights: int | None) -> pl.DataFrame:
    if nights is None:
        return frame
    own = frame.filter(pl.col('rerun_of') == '').unique('session').sort('start').tail(nights)['session'].implode()
    return frame.filter(pl.col('session').is_in(own) | pl.col('rerun_of').is_in(own))


def _file(uuid: str) -> Path:
    return paths.results() / 'cache' / 'history' / f'v{_VERSION}' / f'{uuid}.parquet'


def _made(uuid: str, file: Path) -> bool:
    frame = readable.read(uuid, rows.of_report)
    if frame is not None:
        _keep(frame, file)
    return frame is not None


def _keep(frame: pl.DataFrame, file: Path) -> None:
    """Written aside and renamed: another parity may read at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f'.{file.name}.{os.getpid()}')
    frame.write_parquet(aside)
    aside.replace(file)
