"""Cells night by night, for the function that judges a whole table of them in a nightly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from parity.judge.stats.judgement import Judgement, Reference, judged
from parity.judge.stats.nights import Nights, Texts
from parity.judge.stats.rule import RATE


class Night(NamedTuple):
    """The value of each run and of each rerun, and what happened before that night."""

    runs: tuple[float, ...]
    reruns: tuple[float, ...] = ()
    label: str = ''
    event: str = ''
    node: str = ''


class Cell(NamedTuple):
    """Nights, oldest first, tonight last."""

    nights: tuple[Night, ...]
    better: str = 'higher'
    reference: Reference | None = None


def judge(cell: Cell, cells: int = 100) -> Judgement:
    return judge_all([cell], cells)[0]


def judge_all(cells: Sequence[Cell], at_once: int = 100, alike: bool = True) -> list[Judgement]:
    """Judge cells, alike or not, on a system of so many."""
    signs = [1 if cell.better == 'higher' else -1 for cell in cells]
    flat = [night for cell in cells for night in cell.nights]
    entries = [(at, value, again) for at, night in enumerate(flat)
               for again, values in ((False, night.runs), (True, night.reruns)) for value in values]
    at, value, again = map(np.array, zip(*entries, strict=True))
    many = [len(cell.nights) for cell in cells]
    when = np.concatenate([np.arange(max(many) - n, max(many)) for n in many])       # all end tonight
    table = Nights.of(np.cumsum([0, *many]), at, value, again, np.array(signs), when)
    return judged(table, signs, [night.label for night in flat], 100 * RATE / at_once, groups=np.arange(len(cells)) * (not alike),
                  events=np.array([night.event for night in flat]), nodes=Texts.of(pl.Series([night.node for night in flat])),
                  references=[cell.reference for cell in cells])[0]
