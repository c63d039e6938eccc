"""Cells that tonight's plan lacks, and the nights before had."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple

from parity.base import paths, yamlfile
from parity.records import kept
from parity.records.cells import CELL, PLANNED, planned
from parity.records.record import Session
from parity.system.systems import Retired, System
from parity.verdict.model import Cell

_ORDER = ('subsystem', 'check', 'case', 'partition', 'environ', 'metric')
#: A planned cell, by the names in PLANNED.
Row = dict[str, str]


class Absent(NamedTuple):
    """The cells that are missing, those that are retired, and a warning for each entry that is planned again."""

    missing: list[Cell]
    retired: list[Cell]
    warnings: list[str]


def of_session(session: Session, plan: dict[str, Any], system: System) -> Absent:
    """Return what the session lacks, against all nights before it with the same selection and size.

    Nothing lacks in a session that ci/nightly did not begin, nor in the confirmation of another."""
    before = _before(session, system.name) if session.selection else []
    told = Absent([], [], [])
    if not before and not system.retired:
        return told
    tonight = [dict(zip(PLANNED, row, strict=True)) for row in planned(plan)]
    told.warnings.extend(_again(i, system) for i, entry in enumerate(system.retired)
                         if any(_retires(entry, row) for row in tonight))
    sizes, here = {row['size'] for row in tonight}, set(map(_cell, tonight))
    gone = [(row, night) for row, night in before if row['size'] in sizes and _cell(row) not in here]
    holding = [entry for entry in system.retired if entry.since <= datetime.date.fromtimestamp(session.start)]
    for row, night in sorted(gone, key=lambda each: [each[0][name] for name in _ORDER]):
        retired = any(_retires(entry, row) for entry in holding)
        day = datetime.date.fromtimestamp(night.start)
        reason = f'not in this plan; planned last on {day} (session {night.uuid[:8]})'
        (told.retired if retired else told.missing).append(
            Cell(**row, system=system.name, verdict='skipped' if retired else 'missing', reason=reason))
    return told


def _cell(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in CELL)


def _before(session: Session, system: str) -> list[tuple[Row, Session]]:
    """Every cell of the nights before with the same selection, and the newest night that planned it."""
    last: dict[str, Session] = {}       # by its plan
    for night in kept.sessions(system):
        if night.uuid == session.uuid:
            break
        if night.selection == session.selection and night.planned:
            last[night.planned] = night
    if not last.keys() - {session.planned}:
        return []
    from parity.records import history  # it loads polars
    nights = sorted(last.values(), key=lambda night: night.start)
    return list({_cell(row): (row, night) for night in nights
                 for row in history.planned(night.uuid).to_dicts()}.values())


def _retires(entry: Retired, row: Row) -> bool:
    """Return whether the entry names the cell, by its check or by its case; spaces do not count."""
    return (entry.check.replace(' ', '') in ('', row['check'], row['case'].replace(' ', ''))
            and entry.partition in ('', row['partition']) and entry.environ in ('', row['environ']))


def _again(place: int, system: System) -> str:
    file = paths.root() / 'systems' / system.name / 'system.yaml'
    line = yamlfile.line_of(yamlfile.load(file)[1], ('retired', place))
    return (f'{file}:{line}: retired: {system.retired[place]} is planned again: take the entry out, '
            'or its next absence is not told')
