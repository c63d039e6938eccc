"""Settings of where ReFrame keeps its results."""

from __future__ import annotations

from typing import Any

from parity.base import paths
from parity.judge.store import writing

#: One line a case; the last column is the workload's own record as JSON. With the results
#: database written only at a session's end, these lines are the journal that an interrupted
#: session is recovered from.
PERFLOG_COLUMNS = ('job_completion_time_unix', 'result', 'system', 'partition', 'environ', 'name',
                   'display_name', 'unique_name', 'jobid', 'fail_phase', 'perfvalues', 'parity')


def storage() -> dict[str, Any]:
    """Return ReFrame's settings of where it keeps its results."""
    return {'enable': True, 'backend': 'sqlite', 'sqlite_db_file': str(paths.database()),
            'sqlite_db_file_mode': f'{writing.mode():o}', 'sqlite_conn_timeout': paths.PATIENCE}
