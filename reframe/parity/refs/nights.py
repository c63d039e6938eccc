"""What each night measured of each cell."""

from __future__ import annotations

from dataclasses import dataclass

from parity.records import history
from parity.records.cells import parameters
from parity.stats import bounds


@dataclass(frozen=True)
class Night:
    """What one session measured of a cell; ``value`` is the median of its ``runs``."""

    session: str
    night: str                      # local date and time of its start
    value: float
    runs: tuple[float, ...]
    labels: tuple[str, ...]         # of the runs: ('',), ('cached',), or both
    software: str
    node: str                       # all that its runs were on
    unit: str
    better: str
    variant: str                    # of the check: 'threading=one', '' where it has none
    applied: bool                   # a reference was


@dataclass(frozen=True)
class Cell:
    """A cell with its nights, oldest first."""

    system: str
    check: str
    partition: str
    environ: str
    case: str
    size: str
    metric: str
    changed: str                    # what the command line changed in the case: 'destination=other'
    several: bool                   # environments run this case on this partition
    by_environ: bool                # environments run this check on this partition
    recent: bool                    # it was measured in one of the newest sessions
    nights: tuple[Night, ...]

    @property
    def id(self) -> str:
        return history.cell_id(vars(self), self.several)

    @property
    def parameters(self) -> dict[str, str]:
        return parameters(self.case)

    @property
    def index(self) -> dict[str, str]:
        """All that may lead to its reference, as the newest night has it."""
        variant = self.nights[-1].variant.replace(',', ' %') if self.nights else ''
        return {'size': self.size, **parameters(f' %{variant}'), '$environ': self.environ, **self.parameters}


#: Sessions of a system that tell what it measures today.
RECENT = 2 * bounds.MOST
_WHERE = ['system', 'check', *history.CELL, 'changed']


def cells(frame, since: str = '') -> list[Cell]:
    """Every cell of a frame of parity.records.history, with its nights from ``since`` (a date) on.

    A rerun was made because a figure was bad: it does not count. A cell without a night is in the list, too.
    """
    import polars as pl
    own = frame.filter((pl.col('rerun_of') == '') & (pl.col('night') >= since))
    nights = own.group_by([*_WHERE, 'session'], maintain_order=True).agg(
        pl.col('night', 'unit', 'better', 'variant').first(),
        pl.col('value').median(), pl.col('value').alias('runs'),
        pl.col('reference').is_not_null().any().alias('applied'), pl.col('label').unique().sort().alias('labels'),
        pl.col('software', 'node').unique().sort().str.join(' '))
    every = frame.select(_WHERE).unique(maintain_order=True).rows()
    found: dict[tuple, list[Night]] = {where: [] for where in every}
    for row in nights.iter_rows(named=True):
        where = tuple(row.pop(name) for name in _WHERE)
        found[where].append(Night(**{**row, 'runs': tuple(row['runs']), 'labels': tuple(row['labels'])}))
    newest = frame.unique('session').sort('start').tail(RECENT)['session'].implode()
    recent = set(frame.filter(pl.col('session').is_in(newest)).select(_WHERE).unique().rows())
    environs: dict[tuple[str, str], set[str]] = {}
    for _, check, partition, environ, case, *_ in recent:
        for what in (check, case):
            environs.setdefault((partition, what), set()).add(environ)
    several = {key for key, names in environs.items() if len(names) > 1}
    return [Cell(*where, (where[2], where[4]) in several, (where[2], where[1]) in several, where in recent,
                 tuple(kept)) for where, kept in found.items()]
