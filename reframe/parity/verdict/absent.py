"""What differs from the nights before: cells that tonight's plan lacks, and cases that took far longer."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from parity.base import paths, yamlfile
from parity.base.figures import duration
from parity.records import kept
from parity.records.cells import CELL, PLANNED, planned
from parity.records.record import Session
from parity.system.schema import Retired, System
from parity.verdict.model import Cell


@dataclass(frozen=True)
class Absent:
    """The cells that are missing, those that are retired, and a warning for each entry that is planned again."""

    missing: list[Cell] = field(default_factory=list)
    retired: list[Cell] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def of_session(session: Session, plan: dict[str, Any], system: System) -> Absent:
    """What lacks in the session, against all nights before it with the same selection and size. Nothing lacks in a
    session that ci/nightly did not begin, nor in the confirmation of another."""
    before = _before(session, system.name) if session.selection else []
    if not before and not system.retired:
        return Absent()
    tonight = list(map(_named, planned(plan)))
    again = [_again(entry, i, system.name) for i, entry in enumerate(system.retired)
             if any(_retires(entry, row) for row in tonight)]
    sizes, here = {row['size'] for row in tonight}, set(map(_cell, tonight))
    gone = [(row, night) for row, night in before if row['size'] in sizes and _cell(row) not in here]
    day = datetime.date.fromtimestamp(session.start)
    holding = [entry for entry in system.retired if entry.since <= day]
    told = Absent(warnings=again)
    for row, night in sorted(gone, key=lambda each: [each[0][name] for name in _ORDER]):
        retired = any(_retires(entry, row) for entry in holding)
        reason = (f'not in this plan; planned last on {datetime.date.fromtimestamp(night.start).isoformat()} '
                  f'(session {night.uuid[:8]})')
        (told.retired if retired else told.missing).append(
            Cell(**row, system=system.name, verdict='skipped' if retired else 'missing', reason=reason))
    return told


_ORDER = ('subsystem', 'check', 'case', 'partition', 'environ', 'metric')


def _named(row: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(PLANNED, row, strict=True))


def _cell(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in CELL)


def _before(session: Session, system: str) -> list[tuple[dict[str, str], Session]]:
    """Every cell of the nights before with the same selection, and the newest night that planned it."""
    last: dict[str, Session] = {}       # by its plan
    for night in kept.sessions(system):
        if night.uuid == session.uuid:
            break
        if night.selection == session.selection and night.planned:
            last[night.planned] = night
    if not last.keys() - {session.planned}:
        return []
    from parity.records import history
    nights = sorted(last.values(), key=lambda night: night.start)
    found = {_cell(row): (row, night) for night in nights for row in history.planned(night.uuid).to_dicts()}
    return list(found.values())


def _retires(entry: Retired, row: dict[str, str]) -> bool:
    """Does the entry name the cell? A check by its class, or a case with its parameters; spaces do not count."""
    return (entry.check.replace(' ', '') in ('', row['check'], row['case'].replace(' ', ''))
            and entry.partition in ('', row['partition']) and entry.environ in ('', row['environ']))


def _again(entry: Retired, place: int, system: str) -> str:
    file = paths.root() / 'systems' / system / 'system.yaml'
    _, node = yamlfile.load(file)
    return (f'{file}:{yamlfile.line_of(node, ("retired", place))}: retired: {entry} is planned again: '
            'take the entry out, or its next absence is not told')


#: More than so many times the usual is told, and only beyond so many seconds more: a short case varies.
TIMES, SECONDS = 2.0, 10.0
#: What is usual: the median of the newest nights, of so many at most and at least.
MOST, LEAST = 30, 5
#: So many cases are named.
_NAMED = 10
_CASE = ('partition', 'environ', 'case', 'size')


def warnings(system: str, session: str) -> list[str]:
    """A sentence for each case of the session that ran far longer than usual, with both times; the worst first. A
    case's time in a night is the median of its runs, without what its jobs waited in a queue."""
    import polars as pl  # a first verdict needs none

    from parity.records import history
    frame = history.load(system).filter((pl.col('rerun_of') == '') & pl.col('seconds').is_not_null())
    order = frame.unique('session').sort('start')['session']
    if session not in order:
        return []
    at = order.index_of(session)
    frame = frame.filter(pl.col('session').is_in(order[max(0, at - MOST):at + 1].implode()))
    runs = frame.group_by('session', *_CASE, 'run').agg(pl.col('seconds').first())
    nights = runs.group_by('session', *_CASE).agg(pl.col('seconds').median())
    tonight = pl.col('session') == session
    usual = nights.filter(~tonight).group_by(_CASE).agg(usual=pl.col('seconds').median(), nights=pl.len())
    slow = nights.filter(tonight).join(usual, on=_CASE).filter(
        (pl.col('nights') >= LEAST) & (pl.col('seconds') > TIMES * pl.col('usual'))
        & (pl.col('seconds') > pl.col('usual') + SECONDS))
    slow = slow.sort(pl.col('seconds') / pl.col('usual'), 'case', descending=[True, False])
    said = [f'{row["case"]} on {row["partition"]}+{row["environ"]} ran {duration(row["seconds"])}, usual is '
            f'{duration(row["usual"])} (median of {row["nights"]} nights)'
            for row in slow.head(_NAMED).iter_rows(named=True)]
    return said + ([f'{len(slow) - _NAMED} more cases ran more than {TIMES:g} times as long as usual']
                   if len(slow) > _NAMED else [])
