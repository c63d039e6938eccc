"""The upkeep of results: remove old sessions and files of cases, add sessions of other databases."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from parity.base import files, paths
from parity.judge.contract import evidence
from parity.judge.store import database, plan_file
from parity.judge.store.database import MALFORMED
from parity.measure.software import earlier


class Pruned(NamedTuple):
    """The number of sessions that went, and of old ones that stay because a contract is judged by them."""

    gone: int
    of_contracts: int = 0


def prune(before: float, dry_run: bool) -> Pruned:
    """Remove the nights begun before ``before`` (Unix time, s; judge.store.database.starts), but the newest of
    each system and the evidence of contracts, with their reruns, their plans and their cache."""
    if not database.uuids():
        return Pruned(0)
    of_contracts = evidence.needed()
    with database.changing() as conn:
        every_old = _old_sessions(conn, before)
        old = [uuid for uuid in every_old if uuid not in of_contracts]
        if old and not dry_run:
            plans = [_plan(conn, uuid) for uuid in old]
            _delete(conn, old)
            for plan in plans:
                if plan:
                    plan.unlink(missing_ok=True)
            for uuid in old:
                for file in database.files_of(uuid):
                    file.unlink(missing_ok=True)
    return Pruned(len(old), len(every_old) - len(old))


def _old_sessions(conn: sqlite3.Connection, before: float) -> list[str]:
    """Return the sessions of the nights begun before a time, but for the newest night of each system."""
    # of the columns beside a MAX, SQLite takes those of the row that has it
    newest = ('SELECT session_uuid, MAX(sessions.rowid) FROM testcases JOIN sessions '
              'ON sessions.uuid = session_uuid GROUP BY system')
    starts = database.starts()
    nights = {uuid: database.night_of(uuid, starts) for uuid in starts}
    keep = {nights[uuid] for uuid, _ in conn.execute(newest)}
    return [uuid for uuid, night in nights.items() if starts[night] < before and night not in keep]


def _delete(conn: sqlite3.Connection, uuids: list[str]) -> None:
    conn.executemany('DELETE FROM sessions WHERE uuid = ?', [(uuid,) for uuid in uuids])
    conn.execute('DELETE FROM testcases WHERE session_uuid NOT IN (SELECT uuid FROM sessions)')
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'parity_states'").fetchone():
        conn.execute('DELETE FROM parity_states WHERE session NOT IN (SELECT uuid FROM sessions)')
    conn.commit()
    conn.execute('VACUUM')


def builds(system: str, generations: int) -> list[Path]:
    """Return the builds that the last nights measured, the newest first: of each environment so many."""
    by_environ: dict[str, list[Path]] = defaultdict(list)
    for night in reversed(database.sessions(system)):
        if night.rerun_of:
            continue
        for environ, software in (night.facts.get('software') or {}).items():
            measured = by_environ[environ]
            if not software.get('packages') or len(measured) >= generations:
                continue
            build = earlier.build_of(software)
            if build not in measured:
                measured.append(build)
    each_once = dict.fromkeys(chain(*by_environ.values()))
    return list(each_once)


def _plan(conn: sqlite3.Connection, uuid: str) -> Path | None:
    """The file with the session's plan; None where the session carries it itself, or is damaged."""
    try:
        blob, = conn.execute('SELECT json_blob FROM sessions WHERE uuid = ?', (uuid,)).fetchone()
        number = plan_file.number(json.loads(blob))
        return plan_file.path(number) if number else None
    except MALFORMED:
        return None


@dataclass
class Removed:
    """The files of results/ that were removed, or would be: folders of cases, run reports, lines of perflogs."""

    folders: int = 0
    reports: int = 0
    lines: int = 0
    size: int = 0               # bytes of all


def prune_files(before: float, dry_run: bool, recover: Callable[[], object] = lambda: None) -> Removed:
    """Remove what was last written before ``before`` (Unix time, s); with ``dry_run`` only count it.

    ``recover`` is called before lines of perflogs go: killed sessions are recovered from them. What goes before
    that makes room on a full disk."""
    removed = Removed()
    results = paths.results()
    _prune_folders(results / 'stage', before, dry_run, removed)
    _prune_folders(results / 'output', before, dry_run, removed)
    for report in (results / 'reports').glob('*.json'):
        if report.stat().st_mtime < before:
            removed.reports += 1
            removed.size += report.stat().st_size
            if not dry_run:
                report.unlink()
    if not dry_run:
        recover()
    for log in (results / 'perflogs').rglob('*.log*'):
        _prune_lines(log, before, dry_run, removed)
    return removed


def _prune_folders(top: Path, before: float, dry_run: bool, removed: Removed) -> None:
    """Remove the old folders of cases below ``top``, and the folders that are empty then."""
    for folder in list(_cases(top)):        # all before the first is removed
        # copied sources keep the time of the original, so the newest file decides
        entries = [path.lstat() for path in (folder, *folder.rglob('*'))]
        if max(entry.st_mtime for entry in entries) >= before:
            continue
        removed.folders += 1
        removed.size += sum(entry.st_size for entry in entries)
        if dry_run:
            continue
        shutil.rmtree(folder)
        above = folder.parent
        while above != top and not any(above.iterdir()):
            above.rmdir()
            above = above.parent


def _prune_lines(log: Path, before: float, dry_run: bool, removed: Removed) -> None:
    """Remove the old lines of a perflog, and the log itself if only its header would stay."""
    lines = log.read_text(errors='surrogateescape').splitlines(keepends=True)
    left = [line for line in lines if _ended(line) >= before]
    if len(left) == len(lines):
        return
    removed.lines += len(lines) - len(left)
    removed.size += len(''.join(lines)) - len(''.join(left))
    if dry_run:
        return
    if all(_ended(line) == _HEADER for line in left):
        log.unlink()
    else:
        files.write(log, ''.join(left).encode(errors='surrogateescape'))


def _cases(top: Path) -> Iterator[Path]:
    """The folders of cases below ``top``: ReFrame puts a script into each. Links are not followed."""
    if not top.is_dir():
        return
    for folder in sorted(top.iterdir()):
        if not folder.is_dir() or folder.is_symlink():
            continue
        if any(folder.glob('rfm_*.sh')):
            yield folder
        else:
            yield from _cases(folder)


#: In place of the end of a case, for a line that is a header.
_HEADER = float('inf')


def _ended(line: str) -> float:
    """Return the end of the case on a perflog's line (its first field); for a header, infinity."""
    try:
        return float(line.partition('|')[0])
    except ValueError:
        return _HEADER
