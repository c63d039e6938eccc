"""The morning of a site whose nights ReFrame stored by itself: what was imported is judged, recorded and told."""

from __future__ import annotations

from collections.abc import Collection

from parity.base import console, errors
from parity.judge.report import answer
from parity.judge.store import database
from parity.judge.verdict import judge
from parity.nightly import notify


def judged(systems: Collection[str], sessions: Collection[str], earlier: Collection[str]) -> int:
    """Judge the newest night of each system, print it, and tell the news. Return the exit code of all.

    ``sessions``: those that are new, or have grown. ``earlier``: those that were stored before. Each new night is
    recorded in its order; of a first import the newest alone, as nobody waits for news of the past."""
    return errors.first([_of_system(system, sessions, earlier) for system in sorted(systems)])


def _of_system(system: str, sessions: Collection[str], earlier: Collection[str]) -> int:
    stored = [night.uuid for night in database.sessions(system)]
    new = [uuid for uuid in stored if uuid in sessions]
    if not set(stored) & set(earlier):
        new = new[-1:]
    notice = notify.prepared(system)
    if not new:
        verdict = judge.newest(system=system)
        console.lines(answer.lines(verdict))
        return verdict.exit_code
    for uuid in new:
        verdict = notice.recorded(judge.newest(uuid))
    console.lines(answer.lines(verdict))
    notice.judged(verdict)
    return verdict.exit_code
