"""The session that a session is compared with: yesterday's, of the same system and selection."""

from __future__ import annotations

from typing import Any

from parity.records import database, outset, plans, selection
from parity.records.database import RERUN_OF

#: So many sessions are looked through: a month of nights, with a few runs by hand.
FURTHEST = 40


def before(report: dict[str, Any], system: str) -> dict[str, Any] | None:
    """ReFrame's report of the newest earlier session of ``system`` with the same selection; None: there is none.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing.
    """
    known = database.uuids()
    own = report['session_info']['uuid']
    until = known.index(own) if own in known else len(known)
    return newest(known[:until], system, selection.words(report), _cases(plans.of_report(report)))


def newest(known: list[str], system: str, arguments: list[str], cases: set[tuple] = frozenset()
           ) -> dict[str, Any] | None:
    """The newest of the sessions ``known`` that ran on ``system`` what these ``arguments`` of reframe, or these
    ``cases``, are; None: there is none."""
    chosen = selection.of_arguments(arguments)
    for uuid in reversed(known[-FURTHEST:]):
        other = database.report(uuid)
        if outset.lost(other):
            continue
        plan = plans.of_report(other)
        if plan.get('system') == system and not other['session_info'].get(RERUN_OF) and (
                selection.of_arguments(selection.words(other)) == chosen or (cases and _cases(plan) == cases)):
            return other
    return None


def _cases(plan: dict[str, Any]) -> set[tuple]:
    return {tuple(c.get(name) for name in ('case', 'partition', 'environ', 'size')) for c in plan.get('cases', [])}
