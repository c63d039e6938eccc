"""The stored sessions as lines of text."""

from __future__ import annotations

from itertools import islice

from parity.base import paths, times
from parity.base.errors import NothingMeasured
from parity.base.figures import counted, duration
from parity.base.text import brief, columns, visible
from parity.judge.store import database
from parity.judge.store.record import Session

#: Characters of a command line that are printed.
_WIDTH = 60


def lines(system: str, last: int) -> list[str]:
    """Return a line for each of the newest ``last`` sessions of a system, of all systems for ''; the newest last.

    Raises NothingMeasured where none is stored."""
    of_system = (session for session in database.newest_first() if system in ('', session.system))
    newest = list(islice(of_system, last))
    if not newest:
        of = f' of {system}' if system else ''
        raise NothingMeasured(f'{paths.database()}: no session{of} is stored; run: {paths.nightly()}')
    cases = database.case_counts()
    return columns([_row(session, cases.get(session.uuid, 0)) for session in reversed(newest)])


def _row(session: Session, cases: int) -> tuple[str, ...]:
    command = session.cmdline.rpartition('/bin/')[2]
    return (session.uuid[:8], session.system, times.minute(session.start), duration(session.elapsed),
            counted(cases, 'case'), _kind(session), brief(visible(command), _WIDTH))


def _kind(session: Session) -> str:
    """Say what the session was for, and whether it came to its end."""
    if session.rerun_of:
        kind = f'confirms {session.rerun_of[:8]}'
    else:
        kind = 'a night' if session.selection else 'by hand'
    return f'{kind}, interrupted' if session.interrupted else kind
