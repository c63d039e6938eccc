"""Put a session into ReFrame's results database, by ReFrame's own means."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from typing import Any

from parity.base import paths
from parity.base.errors import InfrastructureError

#: One line a case; the last column is the workload's own record as JSON. With the results
#: database written only at a session's end, these lines are the journal that an interrupted
#: session is recovered from.
PERFLOG_COLUMNS = ('job_completion_time_unix', 'result', 'system', 'partition', 'environ', 'name',
                   'display_name', 'unique_name', 'jobid', 'fail_phase', 'perfvalues', 'parity')


def storage() -> dict[str, Any]:
    """Return ReFrame's settings of where it keeps its results."""
    mask = os.umask(0o022)
    os.umask(mask)
    return {'enable': True, 'backend': 'sqlite', 'sqlite_db_file': str(paths.database()),
            'sqlite_db_file_mode': f'{0o666 & ~mask:o}', 'sqlite_conn_timeout': paths.PATIENCE}


def store(report: dict[str, Any]) -> str:
    """Store a report of ReFrame's form; returns its uuid. Works inside a ReFrame run and outside one. Raises
    InfrastructureError when the database refuses it."""
    from reframe.core.exceptions import ReframeError
    from reframe.frontend.reporting.storage import StorageBackend
    try:
        with _runtime():
            return StorageBackend.default().store(report, '')
    except (OSError, ReframeError, sqlite3.Error) as err:
        raise InfrastructureError(f'{paths.database()}: {err}: the session was not stored') from None


def make_database() -> None:
    """Let ReFrame make its tables, if they are absent."""
    from reframe.frontend.reporting.storage import StorageBackend
    with _runtime():
        StorageBackend.default()._db_file()


def version() -> str:
    """Return the version of the tables that this ReFrame makes, and stores sessions in."""
    from reframe.frontend.reporting.storage import _SqliteStorage
    return _SqliteStorage.SCHEMA_VERSION


@contextlib.contextmanager
def _runtime() -> Iterator[None]:
    """A runtime of ReFrame that knows where the database is, whatever systems there are. A run that recovers
    another session makes its own runtime afterwards, of its own system."""
    from reframe.core import config, runtime
    site = config.load_config('<builtin>')
    site.update_config({'storage': [storage()]}, 'parity')
    site.select_subconfig('generic')
    with runtime.temp_runtime(None):
        runtime.init_runtime(site)
        yield


def as_report(session: dict[str, Any], cases: list[dict[str, Any]], start: float, end: float,
              **info: Any) -> dict[str, Any]:
    """Return a report of ReFrame's form with ``cases`` as its only run; ``info`` joins the session's facts.
    ``session`` (its id; its plan and facts, where an older parity began it) stands beside session_info, which
    ReFrame wants flat, because a session may have no finished case."""
    number = str(uuid.uuid4())
    for index, case in enumerate(cases):
        case.update(uuid=f'{number}:0:{index}', session_uuid=number, run_index=0)
    counts = {'num_cases': len(cases), 'num_failures': sum(c['result'] == 'fail' for c in cases),
              'num_aborted': 0, 'num_skipped': 0}
    began, ended = (time.strftime('%Y%m%dT%H%M%S%z', time.localtime(unix)) for unix in (start, end))
    return {
        'session_info': {
            'data_version': '4.2', 'uuid': number, 'hostname': '', 'workdir': str(paths.root()),
            'time_start_unix': start, 'time_end_unix': end, 'time_elapsed': end - start,
            'time_start': began, 'time_end': ended, **counts, **info},
        'runs': [{'run_index': 0, **counts, 'testcases': cases}],
        'restored_cases': [], 'parity_session': session}
