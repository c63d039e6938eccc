"""`judge`: one cell tonight, from its history. Pure: no files, no ReFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from parity.stats import nodes
from parity.stats.judgement import Judgement, Reference
from parity.stats.nights import Nights, grouped
from parity.stats.rules import DEFAULT
from parity.stats.series import judged

Better = Literal['higher', 'lower']


@dataclass(frozen=True)
class Night:
    """One night of a cell: the value of each run, of each rerun, and where known the node of each."""

    runs: tuple[float, ...]
    reruns: tuple[float, ...] = ()
    nodes: tuple[str, ...] = ()
    rerun_nodes: tuple[str, ...] = ()
    label: str = ''


@dataclass(frozen=True)
class Cell:
    """A cell's nights, oldest first, tonight last.

    With a reference that replaced another, give the nights from its acceptance on: what was before is
    another normal.
    """

    nights: tuple[Night, ...]
    better: Better = 'higher'
    reference: Reference | None = None


def judge(cell: Cell, cells: int = 1) -> Judgement:
    """The judgement of one cell; ``cells``: so many are judged tonight, and the more, the stricter the rules.

    Raises ValueError for a cell without nights, a night without runs, or a value that is not finite.
    """
    return judge_all([cell], cells)[0]


def judge_all(cells: Sequence[Cell], at_once: int | None = None) -> list[Judgement]:
    """The judgements of all cells of a night together: much quicker than one by one."""
    if not cells:
        return []
    rules = DEFAULT.for_cells(len(cells) if at_once is None else at_once)
    labels = [night.label or f'night {i}' for cell in cells for i, night in enumerate(cell.nights, 1)]
    found = judged(_table(cells), list(map(_sign, cells)), labels, rules, [cell.reference for cell in cells])
    return [nodes.named(told, cell, each.spread)
            for told, cell, each in zip(found.told, cells, found.lasts, strict=True)]


def needs_rerun(cell: Cell) -> bool:
    """Are tonight's runs low enough to be worth a confirming rerun, before anything is said?"""
    return judge(cell).needs_rerun


def _sign(cell: Cell) -> int:
    if cell.better not in ('higher', 'lower'):
        raise ValueError(f'better is {cell.better!r}; valid: higher, lower')
    return 1 if cell.better == 'higher' else -1


def _table(cells: Sequence[Cell]) -> Nights:
    sizes = [len(cell.nights) for cell in cells]
    if not all(sizes):
        raise ValueError('a cell has no nights')
    flat = [(_sign(cell), night) for cell in cells for night in cell.nights]
    if not all(night.runs for _, night in flat):
        raise ValueError('a night has no runs')
    run, again = (_values(flat, which) for which in ('runs', 'reruns'))
    both = tuple(np.concatenate(pair) for pair in zip(run, again, strict=True))
    if not np.isfinite(both[1]).all():
        raise ValueError('a value is not finite')
    return Nights(
        start=np.append(0, np.cumsum(sizes)), runs=grouped(*run, len(flat)), reruns=grouped(*again, len(flat)),
        both=grouped(*both, len(flat)),
        elsewhere=np.array([bool(n.nodes) and bool(set(n.rerun_nodes) - set(n.nodes)) for _, n in flat]))


def _values(flat: list[tuple[int, Night]], which: str) -> tuple[np.ndarray, np.ndarray]:
    """(the night, the oriented value) of each run or rerun."""
    found = [(i, sign * value) for i, (sign, night) in enumerate(flat) for value in getattr(night, which)]
    night, value = zip(*found, strict=True) if found else ((), ())
    return np.array(night, dtype=int), np.array(value, dtype=float)
