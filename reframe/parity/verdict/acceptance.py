"""Which nights an accepted value stands on: the nights before them are another normal, and judge no more."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from parity.base.errors import UsageError
from parity.refs import accepted
from parity.refs.accepted import Accepted
from parity.refs.nights import parameters
from parity.verdict.model import Cell

#: Of a session's uuid, what provenance keeps.
_DIGITS = 8


def begins(cells: Sequence[Cell], system: str, sessions: pl.DataFrame) -> list[float | None]:
    """When the first session began that each cell's accepted value stands on, Unix time.

    None for a cell without a reference, for a value that was written by hand (it has no provenance), and where
    that session is not stored. ``sessions``: session, night and start, as parity.records.history.load has them. A
    reference file that cannot be read gives None for all; the verdict warns of it.
    """
    known = _by_value(system) if any(cell.reference is not None for cell in cells) else {}
    if not known:
        return [None] * len(cells)
    started = {(session[:_DIGITS], night[:10]): start
               for session, night, start in sessions.select('session', 'night', 'start').iter_rows()}
    found = (_of(cell, known.get((cell.partition, cell.check, cell.metric, cell.reference), ())) for cell in cells)
    return [started.get(first) for first in found]


def _by_value(system: str) -> dict[tuple, list[Accepted]]:
    """The references with provenance, by all that a look-up can tell at once."""
    try:
        references = accepted.of_system(system)
    except UsageError:
        return {}
    found: dict[tuple, list[Accepted]] = {}
    for each in references:
        if each.provenance:
            found.setdefault((each.partition, each.check, each.metric, each.value), []).append(each)
    return found


def _of(cell: Cell, candidates: Sequence[Accepted]) -> tuple[str, str] | None:
    """(digits of the uuid, day) of the first session that the cell's reference stands on.

    A verdict does not know the variant of a check that a run was, so a variant in the $index is not compared:
    the value has told it already.
    """
    has = {'size': cell.size, '$environ': cell.environ, **parameters(cell.case)}
    for each in candidates:
        if all(has.get(name, value) == value for name, value in each.index.items()):
            of = each.provenance
            return of.sessions.partition('..')[0][:_DIGITS], of.nights.partition('..')[0][:10]
    return None
