"""Stored sessions, each read once: a record without its runs is kept in results/cache/sessions, beside the rows of
its figures (parity.records.history). The files can be removed at any time."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from parity.base import files, paths
from parity.base.errors import InfrastructureError
from parity.records import database, record
from parity.records.record import Session

#: Goes up when what is kept, or what it means, changes: files of another version are not looked at.
_VERSION = 1
#: What reading JSON of another form than ReFrame's ends in.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError)
_told: set[str] = set()


class Unreadable(InfrastructureError):
    """A stored session that parity cannot read."""

    def __init__(self, uuid: str, err: Exception):
        super().__init__(f'{paths.database()}: session {uuid} is not one that parity can read '
                         f'({type(err).__name__}: {" ".join(str(err).split())[:120]})')


def read(uuid: str) -> Session:
    """The stored session. Raises Unreadable, and InfrastructureError where the database cannot be read."""
    try:
        return record.of_report(database.report(uuid))
    except MALFORMED as err:
        raise Unreadable(uuid, err) from None


def warn(uuid: str, err: Unreadable) -> None:
    """Say once that a session is left out: it does not cost the history of all others."""
    if uuid not in _told:
        _told.add(uuid)
        print(f'parity: warning: {err}: it is left out', file=sys.stderr)


def file(uuid: str, ending: str) -> Path:
    """Return the path of a session's file in the cache."""
    return paths.results() / 'cache' / 'sessions' / f'v{_VERSION}' / f'{uuid}.{ending}'


def files_of(uuid: str) -> list[Path]:
    """Return the files that the cache has of a session, those of older versions too."""
    return list((paths.results() / 'cache' / 'sessions').glob(f'*/{uuid}.*'))


def keep(session: Session) -> Session:
    """Cache the session without plan and runs, unless its plan is lost: it may come back."""
    brief = replace(session, plan={}, runs=())
    if not session.lost:
        known = {name: value for name, value in asdict(brief).items() if name not in ('plan', 'runs')}
        files.write(file(session.uuid, 'json'), json.dumps(known))
    return brief


def brief(uuid: str) -> Session | None:
    """The session without plan and runs; None, and one warning, where parity cannot read it."""
    try:
        said = json.loads(file(uuid, 'json').read_bytes())
        return Session(**{**said, 'software': tuple(said['software'])})
    except (OSError, *MALFORMED):
        try:
            return keep(read(uuid))
        except Unreadable as err:
            warn(uuid, err)
            return None


def sessions(system: str, last: int | None = None) -> list[Session]:
    """The system's newest ``last`` sessions (all: None) without plan and runs, oldest first."""
    found: list[Session] = []
    for uuid, start in reversed(database.starts().items()):
        if last is not None and len(found) == last:
            break
        if (session := brief(uuid)) and session.system == system:
            found.append(replace(session, start=start))
    return found[::-1]


def newest(system: str) -> Session | None:
    """Return the system's newest session that confirms no other one, or None."""
    known = map(brief, reversed(database.uuids()))
    return next((each for each in known if each and each.system == system and not each.rerun_of), None)
