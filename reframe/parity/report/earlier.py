"""The session that a session is compared with: yesterday's, of the same system and selection."""

from __future__ import annotations

import shlex
from typing import Any

from parity.session import database
from parity.session.database import RERUN_OF

#: So many sessions are looked through: a month of nights, with a few runs by hand.
FURTHEST = 40

#: Options that say where things are or how often, not what is run; those with a value of their own.
_NOT_A_SELECTION = ('-c', '--checkpath', '--repeat', '--session-extras', '--max-retries', '-J', '--job-option')


def before(report: dict[str, Any], system: str) -> dict[str, Any] | None:
    """ReFrame's report of the newest earlier session of ``system`` with the same selection; None: there is none.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing.
    """
    known = database.uuids()
    own = report['session_info']['uuid']
    at = known.index(own) if own in known else len(known)
    for uuid in reversed(known[max(0, at - FURTHEST):at]):
        other = database.report(uuid)
        if not other['session_info'].get(RERUN_OF) and _alike(report, other, system):
            return other
    return None


def _alike(report: dict[str, Any], other: dict[str, Any], system: str) -> bool:
    plan, theirs = _plan(report), _plan(other)
    if theirs.get('system') != system:
        return False
    return _cases(plan) == _cases(theirs) or _selection(report) == _selection(other)


def _plan(report: dict[str, Any]) -> dict[str, Any]:
    kept = (raw.get('parity_session') for run in report['runs'] for raw in run['testcases'])
    return next((s for s in [*kept, report.get('parity_session')] if s), {}).get('plan', {})


def _cases(plan: dict[str, Any]) -> set[tuple]:
    return {tuple(c.get(name) for name in ('case', 'partition', 'environ', 'size')) for c in plan.get('cases', [])}


def _selection(report: dict[str, Any]) -> list[str]:
    """The options of a command line that decide what is run, sorted."""
    try:
        words = iter(shlex.split(report['session_info'].get('cmdline', ''))[1:])
    except ValueError:                      # ReFrame joins the words without quotes
        return [report['session_info']['cmdline']]
    kept = []
    for word in words:
        if word in _NOT_A_SELECTION:
            next(words, None)
        elif not word.startswith(tuple(f'{o}=' for o in _NOT_A_SELECTION)):
            kept.append(word)
    return sorted(kept)
