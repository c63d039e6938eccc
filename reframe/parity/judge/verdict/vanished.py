"""Cells of imported nights that a night lacks. Nobody knows what a site planned: what ran in each of its nights,
or every week, is expected again by the same rhythm."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise, takewhile
from typing import Any

from parity.judge.store import database
from parity.judge.store.plan_file import CELL
from parity.judge.store.record import Session
from parity.site.plan import PASSED

#: Imported nights that are looked at: what was not measured in so many is forgotten.
NIGHTS = 30
#: A cell that ran on fewer nights has no rhythm.
FEWEST = 3
Row = dict[str, Any]


def expected(session: Session, system: str) -> list[tuple[Row, Session]]:
    """Return the cells that a night is expected to measure, each with the last night that did.

    A test without any figure has the one cell `passed`: once it has figures, nobody waits for that."""
    from parity.judge.store import history  # it loads polars
    earlier = takewhile(lambda night: night.uuid != session.uuid, database.sessions(system))
    imported = [night for night in earlier if night.is_imported]
    nights = imported[-NIGHTS:]
    cells_of = history.planned(*(night.uuid for night in nights))
    places: dict[tuple, list[int]] = defaultdict(list)
    newest: dict[tuple, Row] = {}
    for place, night in enumerate(nights):
        for row in cells_of[night.uuid]:
            cell = tuple(row[name] for name in CELL)
            places[cell].append(place)
            newest[cell] = row
    due = []
    for cell, ran in places.items():
        row = newest[cell]
        case = row['case'], row['partition'], row['environ']
        stands_in = row['metric'] == PASSED and case in session.attempts
        if is_due(ran, len(nights)) and not stands_in:
            last = nights[ran[-1]]
            due.append((row, last))
    return due


def is_due(ran: list[int], tonight: int) -> bool:
    """Return whether a cell that ran on these nights, by their places, was never absent for as long as tonight."""
    if len(ran) < FEWEST:
        return False
    pauses = [later - earlier for earlier, later in pairwise(ran)]
    pause = tonight - ran[-1]
    return pause >= max(pauses)
