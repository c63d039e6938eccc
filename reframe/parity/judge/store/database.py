"""ReFrame's results database, read as it is: one JSON report a session. A clock that was wrong changes no order:
the session that was stored later is the later one. Each session is read once: its record without its runs is kept
in results/cache/sessions, beside its figures (parity.judge.store.history). The files there can be removed."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from parity.base import files, paths, times
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.base.figures import counted, figure
from parity.base.text import visible
from parity.judge.store import plan_file, record
from parity.judge.store.record import Session

#: Bytes for a session's database, perflogs, outputs and report.
ROOM_BYTES = 16 << 20
#: Seconds of a wait for the database before a word.
_SILENT = 5.0
#: What to do about a database that cannot be written.
TO_WRITE = ('see whether you may write there, the disk is full, or another process holds the file; PARITY_RESULTS '
            'names another folder')
#: Seconds by which the clocks of two machines may differ before a warning.
TOLERANCE = 600.0
#: Seconds between a session whose clock was wrong and the one that was stored before it.
_STEP = 1e-3


def nothing_stored() -> NothingMeasured:
    """Return the error of a database without a session, with the command that stores one."""
    command = 'reframe -c checks/ -r' if paths.checkout() else paths.BRINGS_NIGHTS
    return NothingMeasured(f'{paths.database()}: no session is stored; run: {command}')


def demand_room() -> None:
    """Raise InfrastructureError where results/ or the database cannot be written, or lacks room for a session."""
    file, results = paths.database(), paths.results()
    with _kept(results):
        results.mkdir(parents=True, exist_ok=True)
    for folder in filter(Path.exists, {results, file.parent}):      # a study makes its folder later
        with _kept(folder):
            with tempfile.TemporaryFile(dir=folder) as probe:
                os.posix_fallocate(probe.fileno(), 0, ROOM_BYTES)
                os.fsync(probe.fileno())        # a quota may be found then
    if file.exists():
        with _kept(file), file.open('r+b'):
            pass


def demand_room_for(sessions: int) -> str:
    """Return a sentence on the space that so many sessions take. InfrastructureError where there is less."""
    results = paths.results()
    folder = next(folder for folder in (results, *results.parents) if folder.exists())
    free_bytes = shutil.disk_usage(folder).free
    needed_bytes = ROOM_BYTES * sessions
    needed = figure(needed_bytes, 'B')
    if needed_bytes > free_bytes:
        of_sessions = counted(sessions, 'session')
        raise InfrastructureError(f'{results}: no space for the results of {of_sessions}, {needed}; free some, '
                                  'or set PARITY_RESULTS to another disk')
    free = figure(free_bytes, 'B')
    return f'at most {needed} in {results}: {free} are free'


@contextlib.contextmanager
def _kept(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise InfrastructureError(f'{place}: {err.strerror}: results cannot be kept here; PARITY_RESULTS names '
                                  'another folder') from None


@contextlib.contextmanager
def opened(mode: str = 'rwc') -> Iterator[sqlite3.Connection]:
    """The database. Another process may hold it for paths.PATIENCE seconds; whoever waits says so once.

    A text that is no UTF-8 has U+FFFD in the place of each bad byte."""
    place = f'{paths.database().as_uri()}?mode={mode}'
    with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_SILENT)) as conn:
        conn.text_factory = functools.partial(str, encoding='utf-8', errors='replace')
        conn.isolation_level = None
        until = time.monotonic() + paths.PATIENCE
        if not _is_free(conn):
            _wait_until_free(conn, until)
        conn.execute(f'PRAGMA busy_timeout = {paths.PATIENCE * 1000:.0f}')
        yield conn


def _wait_until_free(conn: sqlite3.Connection, until: float) -> None:
    """Say on stderr who holds the database, and wait. InfrastructureError if it is not free at ``until``
    (monotonic)."""
    file = paths.database()
    locked = visible(f'{file}: locked by {files.holders(file)}')
    print(f'parity: {locked}: waiting for at most {paths.PATIENCE:g} s', file=sys.stderr, flush=True)
    while not _is_free(conn):       # each try waits _SILENT seconds
        if time.monotonic() > until:
            raise InfrastructureError(f'{locked} for more than {paths.PATIENCE:g} s; end it, or come back later')


def _is_free(conn: sqlite3.Connection) -> bool:
    """Return whether the database can be read now, or once its holder lets go within the connection's timeout."""
    try:
        conn.execute('SELECT 1 FROM sqlite_master LIMIT 1').fetchone()
    except sqlite3.OperationalError as err:
        if 'locked' not in str(err):
            raise
        return False
    return True


@contextlib.contextmanager
def writing() -> Iterator[sqlite3.Connection]:
    """The database, which no other process writes meanwhile. All is written, or nothing."""
    with opened() as conn:
        conn.execute('BEGIN IMMEDIATE')
        yield conn
        conn.execute('COMMIT')


@contextlib.contextmanager
def changing() -> Iterator[sqlite3.Connection]:
    """Our database, open for writing; what sqlite refuses is infrastructure."""
    try:
        with opened() as conn:
            conn.isolation_level = 'DEFERRED'
            yield conn
    except sqlite3.Error as err:
        raise InfrastructureError(f'{paths.database()}: {err}; {TO_WRITE}') from None


def query(sql: str, *values, errors: str = 'replace') -> list[tuple]:
    """Return the rows of an answer; none without a database, or without the table, as a full disk leaves one.

    ``errors``: 'strict' raises UnicodeDecodeError for a text that is no UTF-8. Raises InfrastructureError where
    the database cannot be read."""
    if not paths.database().exists():
        return []
    with _reading() as conn:
        conn.text_factory = functools.partial(str, encoding='utf-8', errors=errors)
        return conn.execute(sql, values).fetchall()
    return []


@contextlib.contextmanager
def _reading() -> Iterator[sqlite3.Connection]:
    """The database. Ends without a word where it lacks the table; InfrastructureError where it cannot be read."""
    file = paths.database()
    try:        # rw: SQLite undoes what a killed writer left; it reads where it may not write
        with opened('rw') as conn:
            yield conn
    except sqlite3.OperationalError as err:
        if 'no such table' in str(err):
            return
        why = err if os.access(file, os.R_OK) else 'Permission denied: whoever measures needs a umask such as 022'
        raise InfrastructureError(f'{file}: {why}') from None
    except sqlite3.DatabaseError as err:
        raise InfrastructureError(f'{file}: {err}; move it away, the perflogs keep the figures') from None


def holds(journal_id: str) -> bool:
    """Return whether the session with this journal is stored."""
    return bool(query('SELECT 1 FROM sessions WHERE instr(json_blob, ?) LIMIT 1', journal_id))


def _clocks() -> list[tuple[str, float]]:
    """The uuid of every session, and when it began by its clock (Unix time), in the order of storing. What is no
    time is a wrong clock."""
    clocks = []
    for uuid, began in query('SELECT uuid, session_start_unix FROM sessions ORDER BY rowid'):
        is_number = isinstance(began, (int, float))
        if not is_number or not abs(began) < record.LATEST:
            began = 0.0
        clocks.append((str(uuid), began))
    return clocks


def starts() -> dict[str, float]:
    """Return when each session began (Unix time), by uuid, the newest last; wrong clocks are corrected."""
    stored = _clocks()
    corrected = in_order([began for _, began in stored])
    return dict(zip([uuid for uuid, _ in stored], corrected, strict=True))


def in_order(began: Sequence[float]) -> list[float]:
    """Return when each session began, oldest first, from what the clocks said in the order of storing. As many
    clocks as possible are believed; a session whose clock was wrong stands right after the one before it."""
    if [*began] == sorted(began):
        return [*began]
    right = _right_clocks(began)
    first = min(right, default=0)
    corrected: list[float] = []
    for place, start in enumerate(began):
        if place not in right:
            if corrected:
                start = corrected[-1] + _STEP
            else:
                start = began[first] - (first - place) * _STEP
        corrected.append(start)
    return corrected


class _Chain(NamedTuple):
    """Clocks that can all be right: the last one's time and place, and the chain of those before it."""

    start: float
    place: int
    before: _Chain | None


def _right_clocks(began: Sequence[float]) -> set[int]:
    """Return the places of as many clocks as can be right together: a longest subsequence that never falls."""
    chains: list[_Chain] = []       # of each length, the one that ends earliest
    for place, start in enumerate(began):
        length = bisect_right(chains, start, key=lambda chain: chain.start)
        before = chains[length - 1] if length else None
        chains[length:length + 1] = [_Chain(start, place, before)]
    right = set()
    chain = chains[-1] if chains else None
    while chain:
        right.add(chain.place)
        chain = chain.before
    return right


def wrong_clocks(session: Session) -> list[str]:
    """Return a sentence on the session's clock, and one on the clocks of those stored before it, if wrong."""
    sentences = []
    now = time.time()
    file = paths.database()
    stored = file.stat().st_mtime if file.exists() else now
    if session.start > min(now, stored) + TOLERANCE:
        sentences.append(f'this session began on {times.minute(session.start)} by its clock, which lies in the '
                         'future: correct the clock of the machine that stored it')
    if session.interrupted:     # it was killed, and is stored later, when it is recovered
        return sentences
    ahead = None
    for uuid, began in _clocks():
        if uuid == session.uuid:
            break
        if began > session.end + TOLERANCE:
            ahead = uuid, began
    if ahead:
        uuid, began = ahead
        sentences.append(f'session {uuid[:8]} began on {times.minute(began)} by its clock, later than this one, '
                         'and was stored before it: sessions stand in the order in which they were stored')
    return sentences


def uuids() -> list[str]:
    """Return every session, the newest last."""
    return [uuid for uuid, _ in _clocks()]


def last() -> str:
    """Return the newest session that is a night of its own: none that confirms another; '' without any."""
    return next((uuid for uuid in reversed(uuids()) if not confirms(uuid)), '')


def wider(uuid: str) -> str:
    """Return the newest session of its system before this one with twice as many cases or more; '' without."""
    counts = query('SELECT session_uuid, system, COUNT(DISTINCT name) FROM testcases '
                   'GROUP BY session_uuid, system')
    of_session = [(system, cases) for session, system, cases in counts if session == uuid]
    system, cases = of_session[0] if of_session else ('', 0)
    if not cases:
        return ''
    wide = {session for session, other, count in counts if other == system and count >= 2 * cases}
    before = list(takewhile(lambda session: session != uuid, uuids()))
    for session in reversed(before):
        if session in wide and not confirms(session):
            return session
    return ''


def case_counts() -> dict[str, int]:
    """Return how many cases each session has; repeats count."""
    return dict(query('SELECT session_uuid, COUNT(*) FROM testcases GROUP BY session_uuid'))


def confirms(uuid: str) -> bool:
    """Return whether the session confirms another one's figures."""
    wanted = f'"{plan_file.RERUN_OF}"'
    return bool(query('SELECT 1 FROM sessions WHERE uuid = ? AND instr(json_blob, ?)', uuid, wanted))


def infos() -> list[tuple[str, dict[str, Any]]]:
    """Return uuid and `session_info` of every session that can be read, the newest last."""
    readable = []
    for uuid, text in query("SELECT uuid, json_extract(json_blob, '$.session_info') FROM sessions "
                            'WHERE json_valid(json_blob) ORDER BY session_start_unix'):
        with contextlib.suppress(*MALFORMED):
            info = json.loads(text)
            if isinstance(info, dict):
                readable.append((uuid, info))
    return readable


def partitions() -> list[str]:
    """Return system:partition of every case that is stored."""
    stored = query('SELECT DISTINCT system, partition FROM testcases ORDER BY system, partition')
    return [f'{system}:{name}' for system, name in stored]


def sessions_of(system: str, partition: str, days: float, until: str = '') -> list[str]:
    """Return the nights with cases of the partition, the newest last: those of the ``days`` days before the
    newest, or before the session ``until``, these included. Their reruns are left out."""
    stored = query('SELECT DISTINCT session_uuid FROM testcases WHERE system = ? AND partition = ?',
                   system, partition)
    of_partition = {uuid for uuid, in stored}
    start_of = starts()
    candidates = [uuid for uuid in start_of if uuid in of_partition]
    newest = candidates[-1] if candidates else ''
    last = until or newest
    if last not in start_of:
        return []
    end = start_of[last]
    begin = end - days * 86400
    chosen = [uuid for uuid in candidates if begin <= start_of[uuid] <= end]
    return [session.uuid for session in _briefs(chosen) if not session.rerun_of]


def uuid(session: str = '') -> str:
    """Return the newest session, or the one whose uuid starts with ``session``. Raises NothingMeasured when
    nothing is stored, UsageError for a name that fits none or several."""
    stored = uuids()
    if not stored:
        raise nothing_stored()
    if not session:
        return last() or stored[-1]
    fitting = [uuid for uuid in stored if uuid.startswith(session)]
    if len(fitting) != 1:
        what = f'{len(fitting)} sessions start' if fitting else 'no session starts'
        newest = ' '.join(uuid[:8] for uuid in stored[-5:])
        raise UsageError(f'{what} with {session!r}; the newest: {newest}')
    return fitting[0]


def report(session: str = '') -> dict[str, Any]:
    """Return ReFrame's report of the session that `uuid` names, with its plan; the same is raised."""
    return _joined(_blob(uuid(session)))


def _blob(uuid: str) -> str:
    """Return a stored report; UnicodeDecodeError for one with a byte that is no UTF-8."""
    blob, = query('SELECT json_blob FROM sessions WHERE uuid = ?', uuid, errors='strict')[0]
    return blob


def _joined(blob: str) -> dict[str, Any]:
    return plan_file.joined(json.loads(blob), plan_file.folder())


#: Goes up when what is kept, or what it means, changes: files of another version are not read.
_VERSION = 5
#: What reading JSON of another form than ReFrame's ends in.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError)
_warned: set[str] = set()


class Unreadable(InfrastructureError):
    """A stored session that parity cannot read."""

    def __init__(self, uuid: str, err: Exception):
        message = ' '.join(str(err).split())
        why = f'{type(err).__name__}: {message[:120]}'
        if isinstance(err, ValidationError):
            first = err.errors()[0]
            place = '.'.join(map(str, first['loc']))
            wrong = f'{place}: {first["msg"]}'
            why = f'{wrong[:120]}; perhaps a newer parity wrote it'
        where = f'{paths.database()}: session {str(uuid)[:40]}'
        super().__init__(visible(f'{where} cannot be read ({why})'))


def read(uuid: str) -> Session:
    """The stored session. Raises Unreadable, and InfrastructureError where the database cannot be read."""
    try:
        blob = _blob(plan_file.checked_uuid(uuid))
        session = record.of_report(_joined(blob))
        if session.uuid != uuid:
            raise ValueError(f'its report has the uuid {session.uuid}')
        return replace(session, digest=zlib.crc32(blob.encode()))
    except MALFORMED as err:
        raise Unreadable(uuid, err) from None


def warn(name: str, err: InfrastructureError) -> None:
    """Say once that what has this name is left out: it does not cost the history of all others."""
    if name not in _warned:
        _warned.add(name)
        print(f'parity: warning: {err}: it is left out', file=sys.stderr)


def file(uuid: str, ending: str) -> Path:
    """Return the path of a session's file in the cache. Raises Unreadable for a uuid that names no file."""
    try:
        return cache() / f'{plan_file.checked_uuid(uuid)}.{ending}'
    except MALFORMED as err:
        raise Unreadable(uuid, err) from None


def files_of(uuid: str) -> list[Path]:
    """Return the files that the cache has of a session, those of older versions too."""
    return [*(paths.results() / 'cache' / 'sessions').glob(f'*/{uuid}.*')]


def cached() -> set[str]:
    """Return the sessions that the cache has."""
    return {file.stem for file in cache().glob('*.json')}


def cache() -> Path:
    """Return the folder of the sessions' files in the cache."""
    folder = _cache(paths.results())
    _check(folder, paths.database())
    return folder


@functools.cache
def _check(folder: Path, stored: Path) -> None:
    """Remove from the cache the sessions whose reports were changed or damaged since they were read.

    Whoever asks for one reads it again, and warns where it cannot be read. A database that did not change is not
    read again."""
    path_digest = zlib.crc32(bytes(stored))
    checked = folder / f'{path_digest:08x}.checked'
    try:
        status = stored.stat()
        state = f'{status.st_mtime_ns} {status.st_size}'
        if checked.read_text() == state:
            return
    except OSError:
        if not folder.is_dir() or not stored.exists():
            return
    kept = {file.stem for file in folder.glob('*.json')}
    with _reading() as conn:
        conn.text_factory = bytes
        for uuid, blob in conn.execute('SELECT uuid, json_blob FROM sessions'):
            name = uuid.decode(errors='replace') if isinstance(uuid, bytes) else ''
            if name not in kept:
                continue
            is_unchanged = isinstance(blob, bytes) and _digest(folder, name) == zlib.crc32(blob)
            if not is_unchanged:
                for file in files_of(name):
                    file.unlink(missing_ok=True)
    files.write(checked, state)


def _digest(folder: Path, uuid: str) -> int | None:
    """Return the digest of the report that the cache has read; None where it is not known."""
    try:
        return _brief(f'{folder}/{uuid}.json', 0).digest
    except (OSError, *MALFORMED):
        return None


@functools.cache
def _cache(results: Path) -> Path:
    """Return the cache below the results, or one of the user's own: others may only read the results.

    Where neither can be written, it is a folder that goes with this process."""
    version = Path('sessions', f'v{_VERSION}')
    of_results = results / 'cache' / version
    if _can_be_made(of_results):
        return of_results
    caches = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    digest = hashlib.sha256(bytes(results)).hexdigest()
    of_user = Path(caches, 'parity', digest[:12]) / version
    if _can_be_made(of_user):
        return of_user
    passing = tempfile.mkdtemp(prefix='parity-cache-')
    atexit.register(shutil.rmtree, passing, ignore_errors=True)
    return Path(passing) / version


def _can_be_made(folder: Path) -> bool:
    above = next(above for above in (folder, *folder.parents) if os.path.lexists(above))
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def cache_brief(session: Session) -> Session:
    """Cache the session without plan and runs, unless its plan is lost: it may come back."""
    brief = replace(session, plan={}, runs=())
    if not session.lost:
        text = json.dumps(asdict(brief))
        digest = zlib.crc32(text.encode())
        files.write(file(session.uuid, 'json'), f'{digest:08x}\n{text}')
    return brief


def brief(uuid: str, folder: Path | None = None) -> Session | None:
    """The session without plan and runs; None, and one warning, where parity cannot read it. ``folder``: of the
    cache, where it is known."""
    try:
        try:
            kept = f'{folder or cache()}/{plan_file.checked_uuid(uuid)}.json'
            return _brief(kept, os.stat(kept).st_mtime_ns)
        except (OSError, *MALFORMED):
            return cache_brief(read(uuid))
    except Unreadable as err:
        warn(uuid, err)
        return None


@functools.lru_cache(maxsize=1 << 14)
def _brief(kept: str, changed: int) -> Session:
    """Read a session's file; one that was not ``changed`` is read once. ValueError for one that was damaged."""
    with open(kept, 'rb') as stored:    # takes half the time of Path's
        content = stored.read()
    digest, _, text = content.partition(b'\n')
    if int(digest, 16) != zlib.crc32(text):
        raise ValueError(f'{kept} was damaged')
    fields = json.loads(text)
    software = tuple(fields['software'])
    return Session(**{**fields, 'software': software, 'runs': ()})


def _briefs(uuids: Iterable[str]) -> Iterator[Session]:
    """Yield the sessions that can be read, without plan and runs."""
    folder = cache()
    return filter(None, (brief(uuid, folder) for uuid in uuids))


def night_of(uuid: str, known: Collection[str]) -> str:
    """Return the session among ``known`` that this one confirms; itself where it confirms none."""
    session = brief(uuid)
    return session.rerun_of if session and session.rerun_of in known else uuid


def nights(uuids: Iterable[str]) -> list[list[str]]:
    """Return these sessions, each with those of its reruns that follow it; a warning names each unreadable one."""
    grouped: list[list[str]] = []
    for session in _briefs(uuids):
        if grouped and session.rerun_of == grouped[-1][0]:
            grouped[-1].append(session.uuid)
        else:
            grouped.append([session.uuid])
    return grouped


def sessions(system: str, last: int | None = None) -> list[Session]:
    """The system's newest ``last`` sessions (all: None) without plan and runs, oldest first."""
    start_of = starts()
    of_all = _briefs(reversed(start_of))
    of_system = (session for session in of_all if session.system == system)
    sessions = []
    for session in islice(of_system, last):
        start = start_of[session.uuid]
        if session.start != start:
            session = replace(session, start=start)
        sessions.append(session)
    return sessions[::-1]


def newest_first() -> Iterator[Session]:
    """Yield the sessions of all systems without plan and runs."""
    return _briefs(reversed(uuids()))


def newest(system: str) -> Session | None:
    """Return the system's newest session that confirms no other one, or None."""
    for session in newest_first():
        if session.system == system and not session.rerun_of:
            return session
    return None
