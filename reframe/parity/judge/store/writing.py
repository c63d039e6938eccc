"""Write sessions as ReFrame 4.10 does: the same tables and the same JSON, so that both read one results.db.

tests/measure/rfm compares these tables with those that the installed ReFrame makes."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from typing import Any

from parity.base import paths
from parity.base.errors import InfrastructureError
from parity.judge.store import database

#: The version of these tables.
SCHEMA_VERSION = '1.0'
_TABLES = (
    'CREATE TABLE IF NOT EXISTS sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, '
    'json_blob TEXT, report_file TEXT)',
    'CREATE TABLE IF NOT EXISTS testcases(name TEXT,system TEXT, partition TEXT, environ TEXT, '
    'job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT, '
    'FOREIGN KEY(session_uuid) REFERENCES sessions(uuid) ON DELETE CASCADE)',
    'CREATE INDEX IF NOT EXISTS index_testcases_time on testcases(job_completion_time_unix)',
    'CREATE TABLE IF NOT EXISTS metadata(schema_version TEXT)',
    'CREATE INDEX IF NOT EXISTS index_sessions_time on sessions(session_start_unix)',
)


def make_database() -> None:
    """Make what is absent: the file, its tables, their version. Raises InfrastructureError where it cannot."""
    file = paths.database()
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o666)
        with database.writing() as conn:
            for statement in _TABLES:
                conn.execute(statement)
            if not conn.execute('SELECT 1 FROM metadata').fetchone():
                conn.execute('INSERT INTO metadata VALUES (?)', (SCHEMA_VERSION,))
    except (OSError, sqlite3.Error) as err:
        raise InfrastructureError(f'{file}: {err}; {database.TO_WRITE}') from None


def mode() -> int:
    """Return the mode of a new database: all may write whom the umask lets, as with any other file."""
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def make_usable() -> None:
    """Remove a database whose tables a full disk or a kill did not let ReFrame make; give it its version if only
    that lacks.

    Raises InfrastructureError for a file that could not take a session, and holds something."""
    file = paths.database()
    if file.is_symlink():
        raise InfrastructureError(f'{file}: lies behind a link: none below results/ is followed; '
                                  'set PARITY_RESULTS to another folder')
    if not file.is_file():
        return
    tables = {name for name, in database.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    lacking = sorted({'sessions', 'testcases'} - tables)
    if lacking:
        if any(database.query(f'SELECT 1 FROM "{name}" LIMIT 1') for name in tables):
            raise InfrastructureError(f'{file}: lacks the table {lacking[0]} and is not empty: no session can be '
                                      'stored there; move it away')
        file.unlink()
        return
    versions = database.query('SELECT schema_version FROM metadata')
    if not versions:
        make_database()
        return
    version, = versions[0]
    if version != SCHEMA_VERSION:
        raise InfrastructureError(f'{file}: has tables of version {version}, parity stores version '
                                  f'{SCHEMA_VERSION}; move it away')


def store(report: dict[str, Any]) -> str:
    """Store a report of ReFrame's form; returns its uuid. Raises InfrastructureError where it cannot be stored."""
    info = report['session_info']
    number = info['uuid']
    session = number, info['time_start_unix'], info['time_end_unix'], json.dumps(report), ''
    cases = []
    for run in report['runs']:
        for case in run['testcases']:
            ended = case['job_completion_time_unix']
            cases.append((case['name'], case['system'], case['partition'], case['environ'], ended, number,
                          case['uuid']))
    make_database()
    try:
        with database.writing() as conn:
            conn.execute('INSERT INTO sessions VALUES (?, ?, ?, ?, ?)', session)
            conn.executemany('INSERT INTO testcases VALUES (?, ?, ?, ?, ?, ?, ?)', cases)
    except sqlite3.Error as err:
        raise InfrastructureError(f'{paths.database()}: {err}: the session was not stored') from None
    return number


def as_report(session: dict[str, Any], cases: list[dict[str, Any]], start: float, end: float,
              **info: Any) -> dict[str, Any]:
    """Return a report of ReFrame's form with ``cases`` as its only run; ``info`` joins the session's facts.
    ``session`` (its id; its plan and facts, where an older parity began it) stands beside session_info, which
    ReFrame wants flat, because a session may have no finished case."""
    number = str(uuid.uuid4())
    for index, case in enumerate(cases):
        case.update(uuid=f'{number}:0:{index}', session_uuid=number, run_index=0)
    failures = sum(case['result'] == 'fail' for case in cases)
    counts = {'num_cases': len(cases), 'num_failures': failures, 'num_aborted': 0, 'num_skipped': 0}
    site = str(paths.site())
    about = {'data_version': '4.2', 'uuid': number, 'hostname': '', 'workdir': site}
    times = {'time_start_unix': start, 'time_end_unix': end, 'time_elapsed': end - start,
             'time_start': _stamp(start), 'time_end': _stamp(end)}
    session_info = about | times | counts | info
    run = {'run_index': 0, **counts, 'testcases': cases}
    return {'session_info': session_info, 'runs': [run], 'restored_cases': [], 'parity_session': session}


def _stamp(unix: float) -> str:
    return time.strftime('%Y%m%dT%H%M%S%z', time.localtime(unix))
