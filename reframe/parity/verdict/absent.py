"""Cells that the nights before had and tonight's plan has not: each is `missing` until the system retires it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from parity.base import paths, yamlfile
from parity.records import history, plans, selection
from parity.system.schema import Retired, System
from parity.verdict.model import Cell


@dataclass(frozen=True)
class Absent:
    """The cells that are missing, those that are retired, and a warning for each entry that is planned again."""

    missing: list[Cell] = field(default_factory=list)
    retired: list[Cell] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def of_session(report: dict[str, Any], plan: dict[str, Any], system: System) -> Absent:
    """What lacks in the night of this report, against all nights before it with the same selection and size.

    Nothing lacks in a session that ci/nightly did not begin, nor in the confirmation of another.
    """
    tonight = plans.table(plan)
    again = [_again(entry, i, system.name) for i, entry in enumerate(system.retired)
             if len(tonight.filter(_named(entry)))]
    chosen = selection.of_night(report)
    before = _last_with_each_plan(report, system.name, chosen) if chosen and len(tonight) else {}
    if not before.keys() - {plans.digest(plan)}:
        return Absent(warnings=again)
    every = pl.concat([plans.stored(night.uuid, digest).with_columns(
        seen=pl.lit(night.start), session=pl.lit(night.uuid)) for digest, night in before.items()])
    every = every.filter(pl.col('size').is_in(tonight['size'].unique().implode()))
    gone = every.sort('seen').unique(history.CELL, keep='last').join(tonight, on=history.CELL, how='anti')
    gone = gone.sort('subsystem', 'check', 'case', 'partition', 'environ', 'metric')
    day = datetime.date.fromtimestamp(report['session_info']['time_start_unix'])
    holding = [_named(entry) for entry in system.retired if entry.since <= day]
    retired = gone.filter(pl.any_horizontal(holding)) if holding else gone.clear()
    missing = gone.join(retired, on=history.CELL, how='anti', maintain_order='left')
    return Absent(_cells(missing, system.name, 'missing'), _cells(retired, system.name, 'skipped'), again)


def _last_with_each_plan(report: dict[str, Any], system: str, chosen: str) -> dict[str, history.SessionFacts]:
    """Of the nights before, by digest of their plan, the newest one with it."""
    found: dict[str, history.SessionFacts] = {}
    for night in history.sessions(system):
        if night.uuid == report['session_info']['uuid']:
            break
        if night.selection == chosen and night.planned:
            found[night.planned] = night
    return found


def _named(entry: Retired) -> pl.Expr:
    """Does the entry name a row? A check by its class, or a case with its parameters; spaces do not count."""
    name = entry.check.replace(' ', '')
    case = pl.col('case').str.replace_all(' ', '', literal=True)
    return ((pl.col('check') == name) | (case == name) | (name == '')) \
        & ((pl.col('partition') == entry.partition) | (entry.partition == '')) \
        & ((pl.col('environ') == entry.environ) | (entry.environ == ''))


def _again(entry: Retired, place: int, system: str) -> str:
    file = paths.root() / 'systems' / system / 'system.yaml'
    _, node = yamlfile.load(file)
    return (f'{file}:{yamlfile.line_of(node, ("retired", place))}: retired: {entry} is planned again: '
            'take the entry out, or its next absence is not told')


def _cells(frame: pl.DataFrame, system: str, word: str) -> list[Cell]:
    fields: Sequence[str] = plans.COLUMNS
    return [Cell(**{name: row[name] for name in fields}, system=system, verdict=word,
                 reason=f'not in this plan; planned last on {_day(row["seen"])} (session {row["session"][:8]})')
            for row in frame.iter_rows(named=True)]


def _day(unix: float) -> str:
    return datetime.date.fromtimestamp(unix).isoformat()
