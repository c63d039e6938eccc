"""The session that a session is compared with: yesterday's, of the same system and selection."""

from __future__ import annotations

from parity.records import database, kept, outset
from parity.records.record import Session

#: So many sessions are looked through: a month of nights, with a few runs by hand.
FURTHEST = 40


def before(session: Session, system: str) -> Session | None:
    """The newest earlier session of ``system`` with the same selection, without its runs; None: there is none.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing."""
    known = database.uuids()
    until = known.index(session.uuid) if session.uuid in known else len(known)
    return newest(known[:until], system, outset.words(session.cmdline), session.cases)


def newest(known: list[str], system: str, arguments: list[str], cases: str = '') -> Session | None:
    """The newest of the sessions ``known`` that ran on ``system`` what these ``arguments`` of reframe, or these
    ``cases``, are; None: there is none."""
    chosen = outset.of_arguments(arguments)
    for other in filter(None, map(kept.brief, reversed(known[-FURTHEST:]))):
        if other.system == system and other.cases and not other.rerun_of and (
                other.cases == cases or outset.of_arguments(outset.words(other.cmdline)) == chosen):
            return other
    return None
