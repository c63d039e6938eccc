"""The judgement of every series of a table, and the nights that alarmed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.stats.judgement import Judgement
from parity.stats.rules import DEFAULT, RATE, Rules
from parity.stats.search import SLOW
from parity.stats.series import judged
from parity.stats.table import Table

STATED = (f'stated false-alarm rate: {1000 * RATE:g} per 1000 nights of a series '
          f'(from its night {DEFAULT.least + DEFAULT.last} on)')


@dataclass(frozen=True)
class Series:
    """A series' judgement on its last night, and every night that alarmed when it was the last."""

    judgement: Judgement
    alarms: tuple[int | str, ...]


def of_table(table: Table, rules: Rules = DEFAULT) -> dict[str, Series]:
    """Every series of the table by name. Each is judged for itself: the stated rate is that of one series."""
    nights = table.nights
    found = judged(nights, table.signs, list(map(str, table.labels)), rules)
    slow = np.flatnonzero(found.outcome.state == SLOW)
    edges = np.searchsorted(slow, nights.start)
    return {name: Series(told, tuple(table.labels[i] for i in slow[edges[k]:edges[k + 1]]))
            for k, (name, told) in enumerate(zip(table.names, found.told, strict=True))}
