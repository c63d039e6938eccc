"""The session that a session is compared with: yesterday's, of the same system and selection."""

from __future__ import annotations

import os
import shlex
from typing import Any

from parity.session import database
from parity.session.database import RERUN_OF

#: So many sessions are looked through: a month of nights, with a few runs by hand.
FURTHEST = 40

#: Options that say where things are or how often, not what is run; those with a value of their own.
_NOT_A_SELECTION = ('--repeat', '--session-extras', '--max-retries', '-J', '--job-option')


def before(report: dict[str, Any], system: str) -> dict[str, Any] | None:
    """ReFrame's report of the newest earlier session of ``system`` with the same selection; None: there is none.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing.
    """
    known = database.uuids()
    own = report['session_info']['uuid']
    until = known.index(own) if own in known else len(known)
    return newest(known[:until], system, _words(report), _cases(_plan(report)))


def newest(known: list[str], system: str, arguments: list[str], cases: set[tuple] = frozenset()
           ) -> dict[str, Any] | None:
    """The newest of the sessions ``known`` that ran on ``system`` what these ``arguments`` of reframe, or these
    ``cases``, are; None: there is none."""
    for uuid in reversed(known[-FURTHEST:]):
        other = database.report(uuid)
        plan = _plan(other)
        if plan.get('system') == system and not other['session_info'].get(RERUN_OF) and (
                _selection(_words(other)) == _selection(arguments) or (cases and _cases(plan) == cases)):
            return other
    return None


def _plan(report: dict[str, Any]) -> dict[str, Any]:
    kept = (raw.get('parity_session') for run in report['runs'] for raw in run['testcases'])
    return next((s for s in [*kept, report.get('parity_session')] if s), {}).get('plan', {})


def _cases(plan: dict[str, Any]) -> set[tuple]:
    return {tuple(c.get(name) for name in ('case', 'partition', 'environ', 'size')) for c in plan.get('cases', [])}


def _words(report: dict[str, Any]) -> list[str]:
    """The arguments of a session's command line, which ReFrame keeps quoted."""
    return shlex.split(report['session_info'].get('cmdline', ''))[1:]


def _selection(arguments: list[str]) -> list[str]:
    """The words of a command line that decide what is run, sorted."""
    words = iter(arguments)
    kept = []
    for word in words:
        if word in _NOT_A_SELECTION:
            next(words, None)
        elif not word.startswith(tuple(f'{o}=' for o in _NOT_A_SELECTION)):
            # of a path the last part: a checkout at another place has the same checks
            kept.append(os.path.basename(word.rstrip('/')))
    return sorted(kept)
