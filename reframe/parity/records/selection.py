"""Which of the checks a session ran, as its command line says; and whether ci/nightly began it."""

from __future__ import annotations

import os
import shlex

from parity.records.database import RERUN_OF

#: ReFrame's `--session-extras` of a night: a session that ci/nightly began, of which no rerun.
NIGHT = ['--session-extras', 'parity_night=yes']

#: Options that say where things are or how often, not what is run; those with a value of their own.
_NOT_A_SELECTION = ('--repeat', '--session-extras', '--max-retries', '-J', '--job-option')


def words(cmdline: str) -> list[str]:
    """The arguments of a session's command line, which ReFrame keeps quoted."""
    return shlex.split(cmdline)[1:]


def of_arguments(arguments: list[str]) -> list[str]:
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


def of_night(cmdline: str) -> str:
    """The selection of the night with this command line as one text; '' of a session that is no night."""
    given = words(cmdline)
    night = NIGHT[1] in given and not any(word.startswith(f'{RERUN_OF}=') for word in given)
    return ' '.join(of_arguments(given)) if night else ''
