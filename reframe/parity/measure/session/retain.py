"""The upkeep of results: remove old sessions and files of cases, add sessions of other databases."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from parity.base import files, paths
from parity.judge.store import database, plan_file
from parity.judge.store.database import MALFORMED
from parity.measure.software import earlier


def prune(before: float, dry_run: bool) -> int:
    """Remove the nights begun before ``before`` (Unix time, s; judge.store.database.starts), but the newest of
    each system, with their reruns, their plans and their cache. Return how many sessions."""
    if not database.uuids():
        return 0
    # of the columns beside a MAX, SQLite takes those of the row that has it
    newest = ('SELECT session_uuid, MAX(sessions.rowid) FROM testcases JOIN sessions '
              'ON sessions.uuid = session_uuid GROUP BY system')
    with database.changing() as conn:
        starts = database.starts()
        nights = {uuid: database.night_of(uuid, starts) for uuid in starts}
        keep = {nights[uuid] for uuid, _ in conn.execute(newest)}
        old = [uuid for uuid, night in nights.items() if starts[night] < before and night not in keep]
        if old and not dry_run:
            plans = [_plan(conn, uuid) for uuid in old]
            conn.executemany('DELETE FROM sessions WHERE uuid = ?', [(uuid,) for uuid in old])
            conn.execute('DELETE FROM testcases WHERE session_uuid NOT IN (SELECT uuid FROM sessions)')
            if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'parity_states'").fetchone():
                conn.execute('DELETE FROM parity_states WHERE session NOT IN (SELECT uuid FROM sessions)')
            conn.commit()
            conn.execute('VACUUM')
            for file in (*filter(None, plans), *(file for uuid in old for file in database.files_of(uuid))):
                file.unlink(missing_ok=True)
    return len(old)


def builds(system: str, generations: int) -> list[Path]:
    """Return the builds that the last nights measured, the newest first: of each environment so many."""
    found: dict[str, dict[Path, None]] = {}
    for night in reversed(database.sessions(system)):
        if night.rerun_of:
            continue
        for environ, software in (night.facts.get('software') or {}).items():
            of_environ = found.setdefault(environ, {})
            if software.get('packages') and len(of_environ) < generations:
                of_environ.setdefault(earlier.build_of(software))
    return [*dict.fromkeys(build for of_environ in found.values() for build in of_environ)]


def _plan(conn: sqlite3.Connection, uuid: str) -> Path | None:
    """The file with the session's plan; None where the session carries it itself, or is damaged."""
    try:
        blob, = conn.execute('SELECT json_blob FROM sessions WHERE uuid = ?', (uuid,)).fetchone()
        number = plan_file.number(json.loads(blob))
        return plan_file.path(number) if number else None
    except MALFORMED:
        return None


def prune_files(before: float, dry_run: bool, recover: Callable[[], object] = lambda: None) -> Counter[str]:
    """Remove what was last written before ``before`` (Unix time, s); with ``dry_run`` only count it. Return the
    number of folders, reports and lines, and their size in bytes.

    ``recover`` is called before lines of perflogs go: killed sessions are recovered from them. What goes before
    that makes room on a full disk."""
    done, results = Counter(), paths.results()
    for top in (results / 'stage', results / 'output'):
        for folder in list(_cases(top)):
            # copied sources keep the time of the original, so the newest file decides
            found = [path.lstat() for path in (folder, *folder.rglob('*'))]
            if max(f.st_mtime for f in found) < before:
                done.update(folders=1, size=sum(f.st_size for f in found))
                if not dry_run:
                    shutil.rmtree(folder)
                    while (folder := folder.parent) != top and not any(folder.iterdir()):
                        folder.rmdir()
    for report in (results / 'reports').glob('*.json'):
        if report.stat().st_mtime < before:
            done.update(reports=1, size=report.stat().st_size)
            if not dry_run:
                report.unlink()
    if not dry_run:
        recover()
    for log in (results / 'perflogs').rglob('*.log*'):
        lines = log.read_text(errors='surrogateescape').splitlines(keepends=True)
        left = [line for line in lines if _ended(line) >= before]
        done.update(lines=len(lines) - len(left), size=sum(map(len, lines)) - sum(map(len, left)))
        if len(left) < len(lines) and not dry_run:
            if any(_ended(line) != float('inf') for line in left):
                files.write(log, ''.join(left).encode(errors='surrogateescape'))
            else:
                log.unlink()
    return done


def _cases(top: Path) -> Iterator[Path]:
    """The folders of cases below ``top``: ReFrame puts a script into each. Links are not followed."""
    for folder in sorted(top.iterdir()) if top.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink():
            if any(folder.glob('rfm_*.sh')):
                yield folder
            else:
                yield from _cases(folder)


def _ended(line: str) -> float:
    """Return the end of the case on a perflog's line (its first field); for a header, infinity."""
    try:
        return float(line.partition('|')[0])
    except ValueError:
        return float('inf')
