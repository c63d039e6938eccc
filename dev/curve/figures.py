"""Figures with a standard error and a limit, and their tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

#: Standard errors at a one-sided 5 %: a limit is missed if chance explains it no more often.
SURE = 1.645


class Amount(NamedTuple):
    """The size of a sample, in groups of like cells. Slowdowns befall half of the cells of ``stepped`` groups."""

    groups: int = 100
    nights: int = 100        # judged, after the history
    stepped: int = 200
    cycles: int = 20         # in a life cycle
    large: int = 2000        # in a large system
    trials: int = 4000       # of an interval


@dataclass(frozen=True)
class Figure:
    """A mean of independent parts (one a group), its standard error, and what it has to reach."""

    value: float
    error: float = 0.0
    least: float = -np.inf
    most: float = np.inf

    @classmethod
    def of(cls, parts: np.ndarray, least: float = -np.inf, most: float = np.inf) -> Figure:
        each = parts[np.isfinite(parts)]
        mean, error = (each.mean(), each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else (np.nan, 0)
        return cls(float(mean), float(error), least, most)

    @classmethod
    def share(cls, ours: np.ndarray, best: np.ndarray, least: float = -np.inf) -> Figure:
        """Return ours in % of the best, from the means of the same groups."""
        whole = cls.of(best).value
        share = cls.of(ours).value / whole
        return cls(100 * share, 100 * cls.of(ours - share * best).error / whole, least)

    @property
    def missed(self) -> str:
        """Say which limit it misses by more than chance explains, '' if none."""
        if self.value + SURE * self.error < self.least:
            return f'{self}, wanted at least {self.least:g}'
        return f'{self}, wanted at most {self.most:g}' if self.value - SURE * self.error > self.most else ''

    def __str__(self) -> str:
        places = 2 if self.value < 10 else 1
        parts = [self.value, self.error] if self.error else [self.value]
        return '' if np.isnan(self.value) else '±'.join(f'{x:.{places}f}' for x in parts)


class Row(NamedTuple):
    name: str
    figures: dict[str, Figure]


def table(title: str, rows: Iterable[Row]) -> list[str]:
    """Print the rows as Markdown, each when it is known; return what misses its limit."""
    print(f'\n{title}')
    missed = []
    for head, some in groupby(rows, lambda row: tuple(row.figures)):
        print('\n| ' + ' | '.join(('', *head)) + ' |\n|---' + '|---:' * len(head) + '|')
        for name, figures in some:
            print('| ' + ' | '.join((name, *map(str, figures.values()))) + ' |', flush=True)
            missed += [f'{name}: {column} {each.missed}' for column, each in figures.items() if each.missed]
    return missed
