"""Cells night by night, for the function that judges a whole table of them in a nightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from parity.stats.judgement import Judgement, Reference, judged
from parity.stats.noise import DEFAULT, Nights


class Night(NamedTuple):
    """The value of each run and of each rerun; ``elsewhere``: the reruns were on another node, too."""

    runs: tuple[float, ...]
    reruns: tuple[float, ...] = ()
    label: str = ''
    elsewhere: bool = False


class Cell(NamedTuple):
    """Nights, oldest first, tonight last."""

    nights: tuple[Night, ...]
    better: str = 'higher'
    reference: Reference | None = None


def judge(cell: Cell, cells: int = 1) -> Judgement:
    return judge_all([cell], cells)[0]


def judge_all(cells: Sequence[Cell], at_once: int) -> list[Judgement]:
    signs = [1 if cell.better == 'higher' else -1 for cell in cells]
    flat = [(sign, night) for cell, sign in zip(cells, signs, strict=True) for night in cell.nights]
    entries = [(at, sign * value, again) for at, (sign, night) in enumerate(flat)
               for again, values in ((False, night.runs), (True, night.reruns)) for value in values]
    at, value, again = map(np.array, zip(*entries, strict=True))
    table = Nights.of(np.cumsum([0, *(len(cell.nights) for cell in cells)]), at, value, again, np.array([night.elsewhere for _, night in flat]))
    return judged(table, signs, [night.label for _, night in flat], DEFAULT.for_cells(at_once), [cell.reference for cell in cells])[0]
