"""What sessions measured, cell by cell: runs with their facts, or the reason why there are none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

import polars as pl

from parity.compare.sides import Measured, Side, Value

#: A check and one of its metrics.
Spoken = tuple[str, str]
_CELL = ('case', 'place', 'environ', 'metric')
_OF_CELL = (*_CELL, 'subsystem', 'check', 'unit', 'better', 'changed')
_RUN = ('session', 'value', 'ended', 'reason', 'label', 'why', 'alike', 'disturbed')
_facts = cache(json.loads)


def side(name: str, kind: str, rows: pl.LazyFrame, metrics: Iterable[Spoken] | None = None) -> Side:
    """One side from rows of parity.records.history, the oldest session first; of these ``metrics`` only."""
    rows = rows.with_columns(place=pl.col('system') + ':' + pl.col('partition'))
    wanted = rows if metrics is None else rows.filter(pl.any_horizontal(
        False, *((pl.col('check') == check) & (pl.col('metric') == metric) for check, metric in metrics)))
    cells = wanted.group_by(_CELL, maintain_order=True).agg(
        pl.col('subsystem', 'check', 'unit', 'better').last(), pl.col(_RUN),
        changed=(pl.col('changed') != '').any())
    measured = rows.filter(pl.col('context') != '').select('context').unique(maintain_order=True)
    sessions = rows.select('session').unique(maintain_order=True)
    cells, measured, sessions = pl.collect_all([cells, measured, sessions])
    return Side(name, kind, [_cell(row) for row in cells.iter_rows(named=True)], sessions['session'].to_list(),
                _context(measured))


def _cell(row: dict[str, Any]) -> Measured:
    """A cell over several sessions. The newer one's word holds; its runs join the older ones, but a figure out of
    a cache and one that is not are never put together: the newer ones stay."""
    cell = Measured(**{name: row[name] for name in _OF_CELL})
    runs = zip(*(row[name] for name in _RUN), strict=True)
    for session, night in groupby(runs, key=lambda run: run[0]):
        values, label = [], ''
        for _, value, ended, reason, word, why, alike, disturbed in night:
            if not reason:
                values.append(Value(value, ended, session, _facts(alike)))
                label = f'{word}: {why}' if word else label
            if not (disturbed and values):
                cell.reason = reason
        if values:
            values.sort(key=lambda each: each.when or 0.0)
            cell.values = [*cell.values, *values] if label == cell.label else values
            cell.label = label
    return cell


def _context(measured: pl.DataFrame) -> dict[str, list[str]]:
    """What the nodes that measured said of themselves."""
    found: dict[str, list[str]] = {}
    for said in measured['context']:
        for fact, value in json.loads(said).items():
            if value not in (known := found.setdefault(fact, [])):
                known.append(value)
    return found
