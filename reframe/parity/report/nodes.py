"""The nodes: what each measured and how it fared, worst first, and what they say of themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import polars as pl

from parity.records.cells import CELL
from parity.records.record import Session
from parity.verdict.model import WORDS, Cell

#: Words that are no fault of a node: a cell that was left out.
_NOT_RUN = ('skipped', 'missing')
_HARMLESS = WORDS.index('insufficient')


@dataclass
class Node:
    name: str
    partitions: list[str]
    words: list[tuple[str, int]]         # worst first
    checks: list[str]                    # what it measured
    speed: float | None = None           # of the last nights, as a share of what all nodes reach; None: not known
    cells: int = 0                       # how many cells that is the median of
    facts: dict[str, str] = field(default_factory=dict)


@dataclass
class Nodes:
    """``common`` is what all that tell it say alike of themselves; ``columns`` are facts in which they differ."""

    rows: list[Node]
    common: dict[str, str]
    columns: list[str]


def of_session(cells: list[Cell], facts: Session | None, speeds: dict[str, tuple[float, int]]) -> Nodes:
    """``speeds`` are what `speeds` found."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        for name in cell.nodes:
            found.setdefault(name, []).append(cell)
    rows = [_node(name, measured, facts, speeds.get(name)) for name, measured in found.items()]
    names = list(dict.fromkeys(fact for row in rows for fact in row.facts))
    values = {fact: {row.facts[fact] for row in rows if fact in row.facts} for fact in names}
    common = {fact: next(iter(said)) for fact, said in values.items() if len(said) == 1}
    return Nodes(sorted(rows, key=_badness), common, [fact for fact in names if fact not in common])


def _node(name: str, cells: list[Cell], facts: Session | None, speed: tuple[float, int] | None) -> Node:
    counts = Counter(c.verdict for c in cells)
    said = facts.nodes.get(name, {}) if facts else {}
    if facts and not facts.nodes:        # no batch system: the session's machine is the node
        said = {'kernel': facts.facts.get('kernel'), 'processor': facts.facts.get('model_name')}
    return Node(name, sorted({c.partition for c in cells}), [(w, counts[w]) for w in WORDS if counts[w]],
                sorted({c.check for c in cells if c.verdict not in _NOT_RUN}), *(speed or (None, 0)),
                {fact: str(value) for fact, value in said.items() if value and fact != 'node'})


def _badness(node: Node) -> tuple:
    """The worst word, how often; then how far it stays behind the other nodes."""
    bad = [(WORDS.index(word), -count) for word, count in node.words if WORDS.index(word) < _HARMLESS]
    return bad or [(_HARMLESS, 0)], 1.0 if node.speed is None else node.speed, node.name


def speeds(frame: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """How fast each node was, as a share of the median over the nodes, and of how many cells.

    From the runs on one node (``frame`` is history.load's): a node's median of a cell over the median
    of the nodes' medians, turned over where lower is better; then the median over the cells that
    three nodes or more have measured: of two, nobody can say which of them is the slow one."""
    alone = frame.filter(~pl.col('node').str.contains(',') & (pl.col('node') != '') & (pl.col('label') == '')
                         & (pl.col('value') > 0))
    each = alone.group_by(*CELL, 'better', 'node').agg(pl.col('value').median())
    usual = pl.col('value').median().over(*CELL)
    share = pl.when(pl.col('better') == 'higher').then(pl.col('value') / usual).otherwise(usual / pl.col('value'))
    shares = each.with_columns(share.alias('share'), pl.len().over(*CELL).alias('nodes'))
    compared = shares.filter(pl.col('nodes') > 2)
    told = compared.group_by('node').agg(pl.col('share').median(), pl.len().alias('cells'))
    return {name: (value, cells) for name, value, cells in told.iter_rows()}
