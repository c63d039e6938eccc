"""The falls of a cell: spells of nights beyond an accepted bound that reruns of the same night confirmed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.judge.stats import rule


@dataclass(frozen=True)
class Falls:
    """The falls before tonight. ``begin``: the place of the first one's first night among the nights given."""

    spells: int = 0
    begin: int = -1
    good: int = 0                    # nights since the last one

    @property
    def coming(self) -> bool:
        """Return whether the cell comes and goes on a night that is good."""
        return self.spells > 1 and self.good < rule.GOOD_NIGHTS


def before_tonight(runs: np.ndarray, again: np.ndarray, bound: float) -> Falls:
    """Return the falls among the newest SPELLS_WITHIN nights before the last one.

    ``runs``: of each night, as a logarithm that is better the higher it is; NaN where it has none. ``again``: of
    the runs and their reruns, NaN where nothing was run again. ``bound``: the accepted one. Neighbouring nights
    beyond it are one spell, and one rerun of such a night confirms it."""
    place = np.flatnonzero(np.isfinite(runs[:-1]))[-rule.SPELLS_WITHIN:]
    rerun = np.isfinite(again[place])
    low = np.where(rerun, again[place], runs[place]) < bound
    edges = np.flatnonzero(np.diff(low, prepend=False, append=False)).reshape(-1, 2)
    spells = [(begin, end) for begin, end in edges.tolist() if rerun[begin:end].any()]
    if not spells:
        return Falls()
    return Falls(len(spells), int(place[spells[0][0]]), len(place) - spells[-1][1])
