"""The last nights of each cell, packed small enough for a page of thousands of cells, and how each node fared.

A value is three hexadecimal digits: its place between the least and the most of the cell's nights, in 4095 steps.
It is at most 1/8190 of that range off. The page's script reads them when they come into view."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from parity.base import figures
from parity.records.outset import CELL
from parity.records.record import Session
from parity.verdict.model import WORDS, Cell

#: Nights on a page.
NIGHTS = 90
_STEPS = 0xfff
#: Stands where a night has no value.
_NONE = '...'


@dataclass(frozen=True)
class Nights:
    """``labels``: (start, session) of each night, oldest first; ``cells``: `packed`, by CELL."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    cells: dict[tuple, list[Any]] = field(default_factory=dict)


def recent(frame: pl.DataFrame, session: str, start: float) -> pl.DataFrame:
    """Return the rows of the last NIGHTS sessions up to ``session``, begun at ``start``, without confirmations.

    ``frame``: of history.load."""
    own = frame.filter((pl.col('rerun_of') == '')
                       & ((pl.col('start') < start) | (pl.col('session') == session)))
    last = own.unique('session').sort('start').tail(NIGHTS)['session']
    return own.filter(pl.col('session').is_in(last.implode()))


def of_recent(frame: pl.DataFrame) -> Nights:
    """Return the nights in `recent` rows; a night's value is the median of its runs, as it is judged."""
    if frame.is_empty():
        return Nights()
    nights = (frame.select('session', 'start', 'night').unique('session').sort('start')
              .with_row_index('at').with_columns(pl.col('at').cast(pl.Int64)))
    values = (frame.join(nights.select('session', 'at'), on='session')
              .group_by(*CELL, 'at').agg(pl.col('value').median(), pl.col('unit', 'low', 'high').first())
              .sort('at').group_by(*CELL).agg('at', 'value', 'low', 'high', pl.col('unit').last()))
    cells = {tuple(row[:len(CELL)]): packed(*row[len(CELL):]) for row in values.iter_rows()}
    return Nights([(row['night'], row['session'][:8]) for row in nights.iter_rows(named=True)], cells)


def packed(at: list[int], value: list[float], low: list[float | None], high: list[float | None],
           unit: str) -> list[Any]:
    """Return [first night, least, most, values, bands, unit], all in that unit, which reads best tonight.

    ``bands`` are [night, low, high]: the accepted band from that night on, null where it is open."""
    factor, shown = figures.moved(value[-1], unit)
    known = [v * factor for v in value]
    least, most = min(known), max(known)
    step = ((most - least) or 1.0) / _STEPS
    marks = [_NONE] * (at[-1] - at[0] + 1)
    for night, v in zip(at, known, strict=True):
        marks[night - at[0]] = f'{round((v - least) / step):03x}'
    bounds = [(None, None), *zip(low, high, strict=True)]
    bands = [[night, *(None if b is None else _short(b * factor) for b in now)]
             for night, before, now in zip(at, bounds, bounds[1:], strict=False) if now != before]
    return [at[0], _short(least), _short(most), ''.join(marks), bands, shown]


def _short(value: float) -> float:
    return float(f'{value:.6g}')


def as_json(nights: Nights, keys: list[tuple], reasons: dict[int, str]) -> str:
    """Return what the page's script reads: nights, a series (or 0) for each of ``keys``, and reasons by row.

    '<' is written as its number: nothing in it can end its element."""
    told = {'nights': nights.labels, 'cells': [nights.cells.get(key, 0) for key in keys], 'reasons': reasons}
    return json.dumps(told, separators=(',', ':')).replace('<', '\\u003c')


#: Words of cells that no node is to blame for.
_NOT_RUN = ('skipped', 'missing')
_HARMLESS = WORDS.index('insufficient')


class Node(NamedTuple):
    name: str
    partitions: list[str]
    words: list[tuple[str, int]]         # worst first
    checks: list[str]                    # what it measured
    facts: list[str]                     # that other nodes do not state alike
    speed: float | None                  # of the last nights, as a share of what all nodes reach
    cells: int                           # `speed` is the median of so many


def nodes(cells: list[Cell], session: Session | None, speeds: dict[str, tuple[float, int]]) -> list[Node]:
    """Return the nodes that ``cells`` ran on, the worst first; ``speeds``: of `speeds`."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        for name in cell.nodes:
            found.setdefault(name, []).append(cell)
    told = {name: {f'{fact} {value}' for fact, value in facts.items() if value and fact != 'node'}
            for name, facts in (session.nodes if session else {}).items() if name in found}
    alike = set.intersection(*told.values()) if told else set()
    return sorted((_node(name, own, sorted(told.get(name, alike) - alike), *speeds.get(name, (None, 0)))
                   for name, own in found.items()), key=_badness)


def _node(name: str, cells: list[Cell], facts: list[str], speed: float | None, count: int) -> Node:
    counts = Counter(c.verdict for c in cells)
    return Node(name, sorted({c.partition for c in cells}), [(w, counts[w]) for w in WORDS if counts[w]],
                sorted({c.check for c in cells if c.verdict not in _NOT_RUN}), facts, speed, count)


def _badness(node: Node) -> tuple:
    """The bad words and how often; then the speed beside other nodes."""
    bad = [(WORDS.index(word), -count) for word, count in node.words if WORDS.index(word) < _HARMLESS]
    return bad or [(_HARMLESS, 0)], 1.0 if node.speed is None else node.speed, node.name


def speeds(frame: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """Return each node's speed as a share of the median over the nodes, and from how many cells.

    From the runs on one node: a node's median of a cell over the median of the nodes' medians, turned over where
    lower is better; then the median over the cells that three nodes or more have measured: of two, nobody can say
    which is the slow one. ``frame``: of history.load."""
    alone = frame.filter(~pl.col('node').str.contains(',') & (pl.col('node') != '') & (pl.col('label') == '')
                         & (pl.col('value') > 0))
    each = alone.group_by(*CELL, 'better', 'node').agg(pl.col('value').median())
    usual = pl.col('value').median().over(*CELL)
    share = pl.when(pl.col('better') == 'higher').then(pl.col('value') / usual).otherwise(usual / pl.col('value'))
    shares = each.with_columns(share.alias('share'), pl.len().over(*CELL).alias('nodes'))
    compared = shares.filter(pl.col('nodes') > 2)
    told = compared.group_by('node').agg(pl.col('share').median(), pl.len().alias('cells'))
    return {name: (value, cells) for name, value, cells in told.iter_rows()}
