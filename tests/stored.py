"""Sessions stored as ReFrame stores them, in a database of the test's own."""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sessions as made
from nights import DAY, start
from parity.base import paths
from parity.judge.store import database
from sessions import case

__all__ = ['Stored', 'case', 'day', 'output']


@dataclass(frozen=True)
class Kept:
    """Nights that a test stored, with the files that parity made as it read them."""

    sessions: sqlite3.Connection
    cache: dict[str, bytes]
    count: int


#: By what the nights are.
_kept: dict[str, Kept] = {}


class Stored:
    """``PARITY_RESULTS`` names a folder of the test's own; each session begins a day after the one before."""

    def __init__(self):
        paths.database().parent.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(paths.database())
        self.database.executescript(
            'PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;'      # nothing waits for the disk
            'CREATE TABLE IF NOT EXISTS sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, '
            'json_blob TEXT, report_file TEXT);'
            'CREATE TABLE IF NOT EXISTS testcases(name TEXT, system TEXT, partition TEXT, environ TEXT, '
            'job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT)')
        self.count = 0

    def add(self, *cases: dict[str, Any], plan: list[dict] | None = None, uuid: str = '',
            system: str = 'local', facts: dict[str, Any] | None = None, **info: Any) -> str:
        """A session of ``cases``; its plan is those cases if none is given. Returns its uuid."""
        uuid, began = uuid or f'{self.count:08x}-0', start(self.count)
        planned = [made.planned(c['name'], c['environ']) for c in cases] if plan is None else plan
        report = made.report(list(cases), planned, **{'uuid': uuid, 'time_start_unix': began,
                                                      'time_end_unix': began + 100, **info})
        report['parity_session']['plan']['system'] = system
        report['parity_session']['facts'] = facts or {}
        began = report['session_info']['time_start_unix']
        self.database.execute('INSERT INTO sessions VALUES (?, ?, NULL, ?, NULL)', (uuid, began, json.dumps(report)))
        self.database.executemany('INSERT INTO testcases VALUES (?, ?, ?, ?, NULL, ?, NULL)', [
            (*(c[name] for name in ('name', 'system', 'partition', 'environ')), uuid) for c in cases])
        self.database.commit()
        self.count += 1
        return uuid

    def once(self, nights: str, store: Callable[[], None]) -> None:
        """Do ``store``, which stores these nights. The first nights of a test are copied where an earlier test had the same.

        parity reads a session once: the copy has what it read."""
        if self.database.execute('SELECT 1 FROM sessions').fetchone():
            store()
            return
        nights = f'{nights} from {self.count}'
        cache = database.cache()
        if nights in _kept:
            kept = _kept[nights]
            kept.sessions.backup(self.database)
            cache.mkdir(parents=True, exist_ok=True)
            for name, content in kept.cache.items():
                (cache / name).write_bytes(content)
            self.count = kept.count
            return
        store()
        from parity.judge.store import history  # it loads polars
        history.load('local', reruns=True)
        sessions = sqlite3.connect(':memory:')
        self.database.backup(sessions)
        files = {file.name: file.read_bytes() for file in cache.iterdir()}
        _kept[nights] = Kept(sessions, files, self.count)

    def __call__(self, uuid: str, *cases: dict[str, Any], **info: Any) -> str:
        """A session that planned Toy, whatever it ran."""
        return self.add(*cases, uuid=uuid, plan=[made.planned()], **info)


def output(folder: Path, night: int, **files: str) -> str:
    """A case's folder with what its job printed (out=..., err=...) while session ``night`` ran."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = folder / f'rfm_job.{name}'
        file.write_bytes(text.encode('utf-8', 'surrogateescape'))
        os.utime(file, (start(night) + 50, start(night) + 50))
    return str(folder)


def day(night: int) -> str:
    return datetime.datetime.fromtimestamp(start(0) + night * DAY).strftime('%Y-%m-%d')
