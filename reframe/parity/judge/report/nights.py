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
    nights = pl.DataFrame({'session': [uuid for uuid, _ in sessions], 'at': range(len(sessions))},
                          schema={'session': pl.String, 'at': pl.Int64})
    labels = [(times.minute(start), uuid[:8]) for uuid, start in sessions]
    frame = history.counted(frame, labelled=True).cast({history.TEXT: pl.String}).join(nights, on='session')
    values = history.nights(frame, *CELL, 'at').select(*CELL, 'session', 'at', 'value', 'low', 'high').collect()
    words = values.select(*CELL, 'session', word=pl.lit('insufficient')) if words is None else words
    known = (values.join(words, [*CELL, 'session'], 'left').sort('at').group_by(CELL)
             .agg('at', 'value', 'low', 'high', pl.col('word').fill_null('insufficient')))
    count, letters, cells = len(sessions), {}, {}
    gone = [] if absent is None else absent.join(nights, on='session').select(*CELL, 'at', 'status').rows()
    for *cell, at, status in gone:
        letters.setdefault(tuple(cell), {})[at] = status
    for *cell, at, value, low, high, word in known.iter_rows():
        cell, own = tuple(cell), dict(zip(at, word, strict=True))
        cells[cell] = Past(at, value, low, high, _letters(letters.pop(cell, {}) | own, count))
    cells |= {cell: Past(letters=_letters(own, count)) for cell, own in letters.items()}
    return NightHistory(labels, cells, last_by_node(frame, 'at'))


def _letters(words: dict[int, str], count: int) -> str:
    return ''.join(LETTERS.get(words.get(at, ''), ' ') for at in range(count))


def tonight(cell: Cell, past: Past, count: int) -> str:
    """Return the letters of a cell with tonight's word as the last one; a small letter is a known fault."""
    letter = LETTERS[cell.verdict]
    return past.letters.ljust(count)[:-1] + (letter.lower() if cell.acknowledged else letter)


def speed(cells: Iterable[Cell], nights: NightHistory, keys: Iterable[tuple]) -> tuple[list[float | None], int]:
    """Return the speed of each night, the median over the cells of value over what is expected, and how many cells
    count. Above 1 is better. A cell that nothing judges is held against the median of its own nights."""
    import numpy as np
    found = []
    for cell, key in zip(cells, keys, strict=True):
        past = nights.cells.get(key, Past())
        if past.values and not cell.label and min(past.values) > 0:
            shares = np.full(len(nights.labels), np.nan)
            values = np.asarray(past.values) / (cell.expected or float(np.median(past.values)))
            shares[list(past.at)] = values if cell.better == 'higher' else 1 / values
            found.append(shares)
    if not found:
        return [], 0
    table = np.array(found)
    return [float(np.nanmedian(night)) if np.isfinite(night).any() else None for night in table.T], len(found)


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
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        for name in cell.nodes:
            found.setdefault(name, []).append(cell)
    told = {name: {f'{fact} {value}' for fact, value in facts.items() if value and fact != 'node'}
            for name, facts in (session.nodes if session else {}).items() if name in found}
    alike = set.intersection(*told.values()) if told else set()
    return sorted((NodeNights(name, sorted({c.partition for c in own}), by_word(c.verdict for c in own),
                        sorted({c.check for c in own if c.verdict not in _NOT_RUN}),
                        sorted(told.get(name, alike) - alike), *speeds.get(name, (None, 0)))
                   for name, own in found.items()), key=_badness)


def _badness(node: NodeNights) -> tuple:
    """The bad words and how often; then the speed beside other nodes."""
    bad = [(WORDS.index(word), -count) for word, count in node.words if WORDS.index(word) < _HARMLESS]
    return bad or [(_HARMLESS, 0)], 1.0 if node.speed is None else node.speed, node.name
