"""ReFrame's results database, read as it is: one JSON report a session."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from parity.base import paths
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.plan import identity
from parity.records import clock, outset
from parity.records.outset import RERUN_OF

if TYPE_CHECKING:
    from parity.records.record import Session

def _query(sql: str, *values) -> list[tuple]:
    file = paths.database()
    if not file.exists():
        return []
    try:
        try:
            return _rows('ro', sql, values)
        except sqlite3.OperationalError as err:
            if 'readonly' not in str(err):
                raise
            # a writer was killed in mid-write: SQLite undoes that for one who may write
            return _rows('rw', sql, values)
    except sqlite3.OperationalError as err:
        if 'no such table' in str(err):
            return []
        raise InfrastructureError(f'{file}: {err}') from None
    except sqlite3.DatabaseError as err:
        raise InfrastructureError(f'{file}: {err}; move it away, the perflogs keep the figures') from None


def _rows(mode: str, sql: str, values: tuple) -> list[tuple]:
    uri = f'{paths.database().as_uri()}?mode={mode}'
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as conn:
        return conn.execute(sql, values).fetchall()


def holds(journal_id: str) -> bool:
    """True when the session with this journal is stored."""
    return bool(_query('SELECT 1 FROM sessions WHERE instr(json_blob, ?) LIMIT 1', journal_id))


def discard_unmade() -> None:
    """Remove a database whose tables a full disk did not let ReFrame make: it holds nothing, and no run
    could use it. Raises InfrastructureError for a file that is no database."""
    if paths.database().is_file():
        tables = {name for name, in _query("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {'sessions', 'testcases', 'metadata'} <= tables:
            paths.database().unlink()


def clocks() -> list[tuple[str, float]]:
    """The uuid of every session, and when it began by its clock (Unix time), in the order of storing."""
    return _query('SELECT uuid, session_start_unix FROM sessions ORDER BY rowid')


def starts() -> dict[str, float]:
    """When each session began (Unix time), by uuid, the newest last: a clock that was wrong changes no order."""
    stored = clocks()
    return dict(zip((uuid for uuid, _ in stored), clock.in_order([began for _, began in stored]), strict=True))


def wrong_clocks(session: Session) -> list[str]:
    """A sentence on the clock of the session, and one on earlier ones, if wrong."""
    file = paths.database()
    return clock.warnings(session, clocks(), file.stat().st_mtime if file.exists() else time.time())


def uuids() -> list[str]:
    """Every session, the newest last."""
    return [uuid for uuid, _ in clocks()]


def newest() -> str:
    """The newest session that is a night of its own: none that confirms another; '' where nothing is stored."""
    return next((uuid for uuid in reversed(uuids()) if not confirms(uuid)), '')


def confirms(uuid: str) -> bool:
    """True for a session that confirms another one's figures."""
    return bool(_query('SELECT 1 FROM sessions WHERE uuid = ? AND instr(json_blob, ?)', uuid, f'"{RERUN_OF}"'))


def partitions() -> list[str]:
    """system:partition of every case that is stored."""
    return [f'{system}:{name}' for system, name in
            _query('SELECT DISTINCT system, partition FROM testcases ORDER BY system, partition')]


def sessions_of(system: str, partition: str, days: float, until: str = '') -> list[str]:
    """The sessions with cases of the partition, the newest last: those of the ``days`` days before the
    newest, or before the session ``until``, these included."""
    having = {u for u, in _query('SELECT DISTINCT session_uuid FROM testcases WHERE system = ? AND partition = ?',
                                 system, partition)}
    known = starts()
    found = [u for u in known if u in having]
    end = known.get(until) if until else known[found[-1]] if found else None
    return [u for u in found if end is not None and end - days * 86400 <= known[u] <= end]


def uuid(session: str = '') -> str:
    """The newest session, or the one whose uuid starts with ``session``. Raises NothingMeasured when nothing is
    stored, UsageError for a name that fits none or several."""
    known = uuids()
    if not known:
        raise NothingMeasured(f'{paths.database()}: no session is stored; run: reframe -c checks/ -r')
    fitting = [u for u in known if u.startswith(session)] if session else [newest() or known[-1]]
    if len(fitting) != 1:
        what = 'no session starts' if not fitting else f'{len(fitting)} sessions start'
        raise UsageError(f'{what} with {session!r}; the newest: {" ".join(u[:8] for u in known[-5:])}')
    return fitting[0]


def report(session: str = '') -> dict[str, Any]:
    """ReFrame's report of the session that `uuid` names, with its plan; the same is raised."""
    blob, = _query('SELECT json_blob FROM sessions WHERE uuid = ?', uuid(session))[0]
    found = json.loads(blob)
    with contextlib.suppress(KeyError, TypeError, AttributeError):      # its readers tell what is no report
        identity.renamed(outset.joined(found, outset.folder()))
    return found
