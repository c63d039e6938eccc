"""The last nights of each cell: their figures, their words, and how each node fared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from parity.base import times
from parity.judge.nodes.figures import last_by_node
from parity.judge.store import history
from parity.judge.store.plan_file import CELL
from parity.judge.store.record import Session
from parity.judge.verdict.model import WORDS, Cell

#: Nights on a page.
NIGHTS = 90
#: A night's letter, by its word; ' ' where the case was not planned.
LETTERS = {'ok': '.', 'regressed': 'R', 'wrong': 'W', 'impossible': 'X', 'failed': 'F', 'missing': 'M',
           'improved': 'I', 'insufficient': ':', 'unreferenced': ':', 'blind': 'b', 'disturbed': 'd',
           'skipped': '-'}


class Past(NamedTuple):
    """The nights of a cell that have a figure: their places in Nights.labels, the medians of their runs, and the
    accepted bounds, in the metric's unit. ``letters``: of every night."""

    at: Sequence[int] = ()
    values: Sequence[float] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    letters: str = ''


@dataclass(frozen=True)
class NightHistory:
    """``labels``: (start, session) of each night, oldest first. ``cells``: by CELL. ``nodes``: the last night in
    which each node was measured."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    cells: dict[tuple, Past] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)


def of_recent(frame: pl.DataFrame, sessions: Sequence[tuple[str, float]], words: pl.DataFrame | None = None,
              absent: pl.DataFrame | None = None) -> NightHistory:
    """Return the nights of ``sessions``, (uuid, start) with the oldest first; a night's value is the median of its
    runs, as it is judged.

    ``frame``: of history.load. ``words``: of judge.verdict.states. ``absent``: rows of history.rows without a
    figure."""
    labels = [(times.minute(start), uuid[:8]) for uuid, start in sessions]
    count = len(labels)
    places = {'session': [uuid for uuid, _ in sessions], 'at': range(count)}
    nights = pl.DataFrame(places, schema={'session': pl.String, 'at': pl.Int64})
    texts = history.counted(frame, labelled=True).cast({history.TEXT: pl.String})
    counted = texts.join(nights, on='session')
    words_of = {} if absent is None else _statuses(absent.join(nights, on='session'))
    cells = {}
    for *key, at, value, low, high, word in _figures(counted, words).iter_rows():
        cell = tuple(key)
        of_cell = words_of.pop(cell, {})
        of_cell.update(zip(at, word, strict=True))
        cells[cell] = Past(at, value, low, high, _letters(of_cell, count))
    for cell, of_cell in words_of.items():
        cells[cell] = Past(letters=_letters(of_cell, count))
    nodes = last_by_node(counted, 'at')
    return NightHistory(labels, cells, nodes)


def _statuses(absent: pl.DataFrame) -> dict[tuple, dict[int, str]]:
    """Return the word of each night without a figure, by cell."""
    words: dict[tuple, dict[int, str]] = {}
    for *key, at, status in absent.select(*CELL, 'at', 'status').iter_rows():
        of_cell = words.setdefault(tuple(key), {})
        of_cell[at] = status
    return words


def _figures(counted: pl.DataFrame, words: pl.DataFrame | None) -> pl.DataFrame:
    """Return a row for each cell, with lists of its nights, their values, bounds and words."""
    cell_and_session = [*CELL, 'session']
    nights = history.nights(counted, *CELL, 'at')
    values = nights.select(*cell_and_session, 'at', 'value', 'low', 'high').collect()
    if words is None:
        words = values.select(*cell_and_session, word=pl.lit('insufficient'))
    judged = values.join(words, cell_and_session, 'left').sort('at')
    word = pl.col('word').fill_null('insufficient')
    return judged.group_by(CELL).agg('at', 'value', 'low', 'high', word)


def _letters(words: dict[int, str], count: int) -> str:
    return ''.join(LETTERS.get(words.get(at, ''), ' ') for at in range(count))


def tonight(cell: Cell, past: Past, count: int) -> str:
    """Return the letters of a cell with tonight's word as the last one; a small letter is a known fault."""
    letter = LETTERS[cell.verdict]
    if cell.acknowledged:
        letter = letter.lower()
    before = past.letters.ljust(count)[:-1]
    return before + letter


def speed(cells: Iterable[Cell], nights: NightHistory, keys: Iterable[tuple]) -> tuple[list[float | None], int]:
    """Return the speed of each night, the median over the cells of value over what is expected, and how many cells
    count. Above 1 is better. A cell that nothing judges is held against the median of its own nights."""
    import numpy as np
    table = []
    for cell, key in zip(cells, keys, strict=True):
        past = nights.cells.get(key, Past())
        if cell.label or not past.values or min(past.values) <= 0:
            continue
        values = np.asarray(past.values)
        expected = cell.expected or float(np.median(values))
        ratios = values / expected
        if cell.better != 'higher':
            ratios = 1 / ratios
        shares = np.full(len(nights.labels), np.nan)
        shares[list(past.at)] = ratios
        table.append(shares)
    if not table:
        return [], 0
    speeds = []
    for night in np.array(table).T:
        measured = np.isfinite(night).any()
        speeds.append(float(np.nanmedian(night)) if measured else None)
    return speeds, len(table)


#: Words of cells that no node is to blame for.
_NOT_RUN = ('skipped', 'missing')
_HARMLESS = WORDS.index('insufficient')


def by_word(words: Iterable[str]) -> list[tuple[str, int]]:
    """Return how often each word is there, the worst first."""
    counts = Counter(words)
    return [(word, counts[word]) for word in WORDS if counts[word]]


class NodeNights(NamedTuple):
    name: str
    partitions: list[str]
    words: list[tuple[str, int]]         # worst first
    checks: list[str]                    # what it measured
    facts: list[str]                     # that other nodes do not state alike
    speed: float | None                  # of the last nights, as a share of what all nodes reach
    cells: int                           # `speed` is the median of so many

    @property
    def bad(self) -> bool:
        """Return whether a person should look at the node."""
        return any(WORDS.index(word) < _HARMLESS for word, _ in self.words)


def nodes(cells: list[Cell], session: Session | None, speeds: dict[str, tuple[float, int]]) -> list[NodeNights]:
    """Return the nodes that ``cells`` ran on, the worst first; ``speeds``: of nodes.figures.speeds."""
    cells_of: dict[str, list[Cell]] = {}
    for cell in cells:
        for name in cell.nodes:
            cells_of.setdefault(name, []).append(cell)
    facts = {}
    if session:
        for name in session.nodes.keys() & cells_of.keys():
            facts[name] = _stated(session.nodes[name])
    alike = set.intersection(*facts.values()) if facts else set()
    listed = []
    for name, of_node in cells_of.items():
        partitions = {cell.partition for cell in of_node}
        words = by_word(cell.verdict for cell in of_node)
        checks = {cell.check for cell in of_node if cell.verdict not in _NOT_RUN}
        unlike = facts.get(name, alike) - alike
        speed, count = speeds.get(name, (None, 0))
        listed.append(NodeNights(name, sorted(partitions), words, sorted(checks), sorted(unlike), speed, count))
    return sorted(listed, key=_badness)


def _stated(facts: dict[str, str]) -> set[str]:
    return {f'{fact} {value}' for fact, value in facts.items() if value and fact != 'node'}


def _badness(node: NodeNights) -> tuple:
    """The bad words and how often; then the speed beside other nodes."""
    bad = []
    for word, count in node.words:
        place = WORDS.index(word)
        if place < _HARMLESS:
            bad.append((place, -count))
    speed = 1.0 if node.speed is None else node.speed
    return bad or [(_HARMLESS, 0)], speed, node.name
