"""`parity merge`: add the sessions of another results database."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from parity.base import paths
from parity.base.errors import UsageError
from parity.judge.store import database, plan_file, record, writing
from parity.judge.store.database import MALFORMED

#: ReFrame's tables, the column that names the session, and all columns. Sessions come last: they tell what is new.
_TABLES = (
    ('testcases', 'session_uuid',
     'name, system, partition, environ, job_completion_time_unix, session_uuid, uuid'),
    ('sessions', 'uuid', 'uuid, session_start_unix, session_end_unix, json_blob, report_file'))


def merge(other: Path, grown: Collection[str] = ()) -> tuple[dict[str, int], int]:
    """Add the sessions of another results database. Returns how many of each system, and how many were here
    already. ``grown``: sessions that are here, too, and have more cases there: these are replaced.

    Raises UsageError for a file that is no results database, or that measured another machine under a name that is
    taken here; nothing is added then."""
    if not other.is_file():
        what = 'a folder' if other.is_dir() else 'no such file'
        raise UsageError(f'{other}: {what}; name a results.db')
    if other.resolve() == paths.database().resolve():
        raise UsageError(f'{other} is the database that it would be added to: name another')
    writing.make_usable()
    writing.make_database()
    with database.changing() as conn:
        if not _attached(conn, other):
            raise UsageError(f"{other}: not a results database of ReFrame's, or of another version; name another")
        ours = _measured(conn, 'main', plan_file.folder())
        theirs = _measured(conn, 'other', plan_file.folder(other))
        _demand_file_names(other, theirs)
        for uuid in grown:
            _remove(conn, uuid)
            ours.pop(uuid, None)
        _demand_same_machines(other, ours, theirs)
        new = [uuid for uuid in theirs if uuid not in ours]
        began = _began(conn, 'other') | _began(conn, 'main')
        _take_plans(conn, new, other)
        for table, key, columns in _TABLES:
            conn.execute(f'INSERT INTO main.{table} ({columns}) SELECT {columns} FROM other.{table} '
                         f'WHERE {key} NOT IN (SELECT uuid FROM main.sessions)')
        _put_in_order(conn, began)
        _merge_incidents(conn)
        conn.commit()
    of_systems = Counter(theirs[uuid].system for uuid in new)
    return dict(of_systems), len(theirs) - len(new)


def _remove(conn: sqlite3.Connection, uuid: str) -> None:
    """Remove a session and its judgement: its night is judged and recorded again."""
    conn.execute('DELETE FROM main.testcases WHERE session_uuid = ?', (uuid,))
    conn.execute('DELETE FROM main.sessions WHERE uuid = ?', (uuid,))
    tables = {name for name, in conn.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
    if 'parity_states' in tables:
        conn.execute('DELETE FROM main.parity_states WHERE session = ?', (uuid,))
    if 'parity_nights' in tables:
        conn.execute("UPDATE main.parity_nights SET session = '', start = start - 1 WHERE session = ?", (uuid,))


def _attached(conn: sqlite3.Connection, other: Path) -> bool:
    """Open the other database as `other`, read-only; return False if it is not ReFrame's, or of another
    version."""
    ours = conn.execute('SELECT schema_version FROM main.metadata').fetchone()
    try:
        conn.execute('ATTACH DATABASE ? AS other', (f'{other.resolve().as_uri()}?mode=ro',))
        conn.execute('SELECT uuid FROM other.sessions LIMIT 1')
        return conn.execute('SELECT schema_version FROM other.metadata').fetchone() == ours
    except sqlite3.DatabaseError:
        return False


class _Origin(NamedTuple):
    """The system that a session measured, and the host; '' for an unknown host."""

    system: str
    host: str


def _measured(conn: sqlite3.Connection, name: str, plans: Path) -> dict[str, _Origin]:
    """Return what each session measured. A damaged one tells neither system nor host."""
    origins = {}
    for uuid, blob in conn.execute(f'SELECT uuid, json_blob FROM {name}.sessions'):
        try:
            session = record.of_report(plan_file.joined(json.loads(blob), plans))
            machine = session.facts.get('machine', {})
            host = machine.get('hostname') or ''
            origins[uuid] = _Origin(session.system or 'unknown', host)
        except MALFORMED:
            origins[uuid] = _Origin('unknown', '')
    return origins


def _demand_file_names(other: Path, uuids: Iterable[str]) -> None:
    """Raise UsageError for a session whose uuid must not become the name of a file."""
    for uuid in uuids:
        try:
            plan_file.checked_uuid(uuid)
        except MALFORMED as err:
            raise UsageError(f'{other}: {err}; nothing is added') from None


def _demand_same_machines(other: Path, ours: dict[str, _Origin], theirs: dict[str, _Origin]) -> None:
    """Raise UsageError for a system that is the one machine that it runs on (`local`) and is another one there."""
    systems = {origin.system for origin in theirs.values()}
    for system in sorted(systems):
        here = _hosts(system, ours)
        there = _hosts(system, theirs)
        if here and there and here != there:
            hosts_here, hosts_there = ', '.join(here), ', '.join(there)
            raise UsageError(f'{other}: system {system} was measured on {hosts_there}, here on '
                             f'{hosts_here}: that would be one history of two machines. Rename one: '
                             f'copy systems/{system} to systems/NAME, and measure with --system NAME')


def _hosts(system: str, measured: dict[str, _Origin]) -> list[str]:
    hosts = {origin.host for origin in measured.values() if origin.system == system}
    return sorted(hosts - {''})


def _take_plans(conn: sqlite3.Connection, uuids: list[str], other: Path) -> None:
    """Copy the plans of the sessions that are added. UsageError where one is lost: then nothing is added."""
    for uuid in uuids:
        blob, = conn.execute('SELECT json_blob FROM other.sessions WHERE uuid = ?', (uuid,)).fetchone()
        try:
            report = json.loads(blob)
            if not plan_file.number(report):
                continue
            plan = plan_file.of_report(plan_file.joined(report, plan_file.folder(other)))
        except MALFORMED:       # a damaged session is added as it is
            continue
        if 'lost' in plan:
            raise UsageError(f'{plan["lost"]}; the folder sessions belongs beside {other.name}')
        if plan:
            plan_file.write(plan)


def _merge_incidents(conn: sqlite3.Connection) -> None:
    """Add the incidents of `other` under new numbers, and its last nights; of what is in both the newer stays."""
    _merge_table(conn, 'parity_incidents', 'uuid', ('system', 'changed', 'json'), 'changed')
    _merge_table(conn, 'parity_nights', 'system', ('session', 'start'), 'start')
    _merge_table(conn, 'parity_states', 'session', ('system', 'start', 'cells'), 'start')


def _merge_table(conn: sqlite3.Connection, table: str, key: str, values: Sequence[str], newer: str) -> None:
    """Add the rows of `other`. Of two with one ``key`` that stays whose column ``newer`` is greater."""
    made = conn.execute('SELECT sql FROM other.sqlite_master WHERE name = ?', (table,)).fetchone()
    if made is None:
        return
    is_here = conn.execute('SELECT 1 FROM main.sqlite_master WHERE name = ?', (table,)).fetchone()
    if not is_here:
        conn.execute(made[0])
    columns = ', '.join((key, *values))
    replaced = [f'{name} = excluded.{name}' for name in values]
    update = ', '.join(replaced)
    conn.execute(f'INSERT INTO main.{table} ({columns}) SELECT {columns} FROM other.{table} WHERE true '
                 f'ORDER BY rowid ON CONFLICT ({key}) DO UPDATE SET {update} WHERE excluded.{newer} > {newer}')


def _began(conn: sqlite3.Connection, name: str) -> dict[str, float]:
    """Return each session's start by its uuid, with wrong clocks corrected."""
    stored = conn.execute(f'SELECT uuid, session_start_unix FROM {name}.sessions ORDER BY rowid').fetchall()
    uuids = [uuid for uuid, _ in stored]
    starts = database.in_order([start for _, start in stored])
    return dict(zip(uuids, starts, strict=True))


def _put_in_order(conn: sqlite3.Connection, began: dict[str, float]) -> None:
    """Sessions count as stored in the order of their rows: let them be those of one database."""
    rows = conn.execute('SELECT uuid FROM main.sessions ORDER BY rowid')
    stored = [uuid for uuid, in rows]
    wanted = sorted(stored, key=began.__getitem__)
    in_place = len(os.path.commonprefix([stored, wanted]))
    last, = conn.execute('SELECT MAX(rowid) FROM main.sessions').fetchone()
    for number, uuid in enumerate(wanted[in_place:], 1):
        conn.execute('UPDATE main.sessions SET rowid = ? WHERE uuid = ?', (last + number, uuid))
