"""The first nights of a system: no history is long enough to judge, and polars, slow to load, is not needed."""

from __future__ import annotations

from typing import Any

from parity.base.reasons import Kind
from parity.judge.stats import bounds
from parity.judge.stats.bounds import FIRST
from parity.judge.store import database
from parity.judge.store.plan_file import CELL
from parity.judge.store.record import Session
from parity.judge.verdict.model import Cell

#: More cells are read faster from the cache. No case that took less is among those that took longer than usual.
MOST, SECONDS = 200, 10.0


def of_first_nights(cells: list[Cell], session: Session, nights: list[Session]) -> list[Cell] | None:
    """Return the cells, learning; None where the ``nights`` of the system may say more of a cell."""
    if len(nights) > FIRST or len(cells) > MOST:
        return None
    if any(cell.verdict == 'disturbed' for cell in cells):
        return None
    if any((run.seconds or 0) > SECONDS for run in session.runs):
        return None
    has_reruns = any(night.rerun_of for night in nights)
    if has_reruns or session.uuid not in [night.uuid for night in nights]:
        return None
    try:
        stored = [database.read(night.uuid) for night in nights]
    except database.Unreadable:
        return None
    tonight = _given(session)
    skipped = [_key(cell) for cell in left_out(cells)]
    for night in stored:
        other = _given(night)
        if _too_fast(cells, night):
            return None
        if any(other.get(cell, given) != given for cell, given in tonight.items()):
            return None
        if any(cell in other for cell in skipped):
            return None
    learning = []
    for cell in cells:
        if cell.history == 'insufficient' and _key(cell) in tonight:
            cell = cell.model_copy(update={'state': 'learning'})
        learning.append(cell)
    return learning


def left_out(cells: list[Cell]) -> list[Cell]:
    """Return the cells that were skipped tonight, but not by a waiver nor for want of an environment."""
    without_value = [cell for cell in cells if cell.verdict == 'skipped' and cell.value is None]
    with_environ = [cell for cell in without_value if cell.environ]
    return [cell for cell in with_environ if cell.kind is not Kind.WAIVED]


def _too_fast(cells: list[Cell], night: Session) -> bool:
    """Return whether a cell is so many times as fast as in another night that no machine is."""
    values = {}
    for run, name, figure in night.counted():
        values[run.partition, run.environ, run.case, run.size, name] = figure.value
    for cell in cells:
        before = values.get(_key(cell))
        if cell.value is not None and bounds.absurd(cell.better, cell.value, before, cell.unit):
            return True
    return False


def _key(cell: Cell) -> tuple[str, ...]:
    return tuple(getattr(cell, name) for name in CELL)


def _given(session: Session) -> dict[tuple[str, ...], Any]:
    """Return what the program was given, and the unit and its check's own reference of each figure that counts, by
    CELL."""
    given = {}
    for run, name, figure in session.counted():
        reference = figure.reference if figure.source else None
        given[run.partition, run.environ, run.case, run.size, name] = run.work, figure.unit, reference
    return given
