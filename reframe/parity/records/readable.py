"""A stored session that parity cannot read costs a warning that names it, not the history of all others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from parity.base import paths
from parity.records import database, outset

T = TypeVar('T')

#: What reading JSON of another form than ReFrame's ends in.
MALFORMED = (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError)
_told: set[str] = set()


def read(uuid: str, of_report: Callable[[dict[str, Any]], T]) -> T | None:
    """What ``of_report`` makes of the session's report; None, and one warning, where it is none that it can read.

    InfrastructureError where the database itself cannot be read.
    """
    try:
        return of_report(database.report(uuid))
    except outset.Lost as err:
        _warn(uuid, str(err))
    except MALFORMED as err:
        _warn(uuid, f'{paths.database()}: session {uuid} is not one that parity can read '
                    f'({type(err).__name__}: {" ".join(str(err).split())[:120]})')
    return None


def _warn(uuid: str, why: str) -> None:
    if uuid not in _told:
        _told.add(uuid)
        print(f'parity: warning: {why}: it is left out', file=sys.stderr)
