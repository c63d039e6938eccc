"""The measured cells of a system with their nights, as references are proposed from them and applied to them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import polars as pl

from parity.judge.refs.accepted import Accepted
from parity.judge.stats import bounds
from parity.judge.store import history
from parity.judge.store.plan_file import parameters
from parity.site import identity

#: Sessions of a system that tell what it measures today.
RECENT = 2 * bounds.MOST
_WHERE = ['system', 'check', *history.CELL, 'changed']


class MeasuredNight(NamedTuple):
    """One session's figure of a cell; ``value`` is the median of its ``runs``."""

    session: str
    night: str                      # local date and time of its start
    unit: str
    better: str
    variant: str                    # of the check: 'threading=one', '' where it has none
    value: float
    runs: list[float]
    applied: bool                   # a reference was
    labels: list[str]               # of the runs: [''], ['cached'], or both
    software: str
    node: str                       # all that its runs were on

    @property
    def day(self) -> str:
        return self.night[:10]

    @property
    def nodes(self) -> list[str]:
        return self.node.replace(',', ' ').split()


class MeasuredCell(NamedTuple):
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
    nights: list[MeasuredNight]

    @property
    def id(self) -> str:
        return history.cell_id(self._asdict(), self.several)

    @property
    def parameters(self) -> dict[str, str]:
        return parameters(self.case)

    @property
    def index(self) -> dict[str, str]:
        """All that may lead to its reference, as the newest night has it."""
        variant = ''
        if self.nights:
            variant = self.nights[-1].variant.replace(',', ' %')
        of_variant = parameters(f' %{variant}')
        return {'size': self.size, **of_variant, '$environ': self.environ, **self.parameters}

    def has(self, reference: Accepted) -> bool:
        """Return whether ReFrame applies the reference to its runs."""
        figure = self.partition, self.check, self.metric
        of_reference = reference.partition, reference.check, reference.metric
        if self.changed or figure != of_reference:
            return False
        return reference.index.items() <= self.index.items()


def cells(system: str, since: str = '') -> list[MeasuredCell]:
    """Return every measured cell of the system, with its nights from ``since`` (a date) on. Cells whose nights are
    all older are in the list, too."""
    stored = history.load(system, labelled=True).cast({history.TEXT: pl.String})
    of_devices = pl.col('metric').str.replace(identity.OF_DEVICE, '_gpu')       # one value for all devices
    frame = stored.with_columns(of_devices)
    every = frame.select(_WHERE).unique(maintain_order=True).rows()
    nights_of: dict[tuple, list[MeasuredNight]] = {where: [] for where in every}
    is_newer = pl.col('night') >= since
    nights = history.nights(frame.filter(is_newer), *_WHERE)
    fields = pl.struct(MeasuredNight._fields)
    for *where, night in nights.select(*_WHERE, fields).collect().iter_rows():
        nights_of[tuple(where)].append(MeasuredNight(**night))
    recent = _recent(frame)
    environs = defaultdict(set)
    for _, check, partition, environ, case, *_ in recent:
        environs[partition, check].add(environ)
        environs[partition, case].add(environ)
    measured = []
    for where, of_cell in nights_of.items():
        _, check, partition, _, case, *_ = where
        of_case = environs[partition, case]
        of_check = environs[partition, check]
        cell = MeasuredCell(
            *where,
            several=len(of_case) > 1,
            by_environ=len(of_check) > 1,
            recent=where in recent,
            nights=of_cell)
        measured.append(cell)
    return measured


def _recent(frame: pl.DataFrame) -> set[tuple]:
    """Return the cells that the newest sessions measured."""
    newest = frame.unique('session').sort('start').tail(RECENT)['session']
    is_recent = pl.col('session').is_in(newest.implode())
    cells_of_sessions = frame.filter(is_recent).select(_WHERE).unique()
    return set(cells_of_sessions.rows())
