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
    newest_first = (session for session in database.newest_first() if system in ('', session.system))
    newest = list(islice(newest_first, last))
    if not newest:
        of = f' of {system}' if system else ''
        raise NothingMeasured(f'{paths.database()}: no session{of} is stored; run: {paths.nightly()}')
    cases = database.case_counts()
    table = []
    for session in reversed(newest):
        count = cases.get(session.uuid, 0)
        table.append(_row(session, count))
    return columns(table)


def _row(session: Session, cases: int) -> tuple[str, ...]:
    start = times.minute(session.start)
    elapsed = duration(session.elapsed)
    count = counted(cases, 'case')
    _, _, command = session.cmdline.rpartition('/bin/')
    shown = brief(visible(command), _WIDTH)
    return session.uuid[:8], session.system, start, elapsed, count, _kind(session), shown


def _kind(session: Session) -> str:
    """Say what the session was for, and whether it came to its end."""
    if session.rerun_of:
        kind = f'confirms {session.rerun_of[:8]}'
    elif session.selection:
        kind = 'a night'
    else:
        kind = 'by hand'
    return f'{kind}, interrupted' if session.interrupted else kind
