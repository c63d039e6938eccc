"""The judgement of every series of a table, and the nights that alarmed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity.regression import history, judgement, last
from parity.regression.judgement import Judgement
from parity.regression.nights import of_nights
from parity.regression.rules import DEFAULT, RATE, Rules
from parity.regression.search import SLOW
from parity.regression.table import Table

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
    values = of_nights(nights, rules)
    outcome = history.follow(nights, values, rules)
    lasts = last.of_series(nights, values, outcome, rules)
    slow = np.flatnonzero(outcome.state == SLOW)
    edges = np.searchsorted(slow, nights.start)
    found = {}
    for k, name in enumerate(table.names):
        labels = table.labels[nights.start[k]:nights.start[k + 1]]
        told = judgement.of_last(lasts[k], table.signs[k], list(map(str, labels)), rules)
        found[name] = Series(told, tuple(table.labels[i] for i in slow[edges[k]:edges[k + 1]]))
    return found
