"""The nights of each cell, and which of them a reference may stand on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from parity import history
from parity.refs import bounds


class Refused(Exception):
    """Why no reference is proposed for a cell."""


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
    several: bool                   # environments run this case on this partition
    nights: tuple[Night, ...]

    @property
    def id(self) -> str:
        return history.cell_id(vars(self), self.several)

    @property
    def parameters(self) -> dict[str, str]:
        """Name and value of each parameter of the case: 'Ior %api=POSIX %span=1'."""
        return _pairs(self.case.split(' %')[1:])

    @property
    def index(self) -> dict[str, str]:
        """All that may lead to its reference, as the newest night has it."""
        variant = self.nights[-1].variant if self.nights else ''
        return {'size': self.size, **_pairs(variant.split(',')), '$environ': self.environ, **self.parameters}


_WHERE = ['system', 'check', *history.CELL]
_WORDS = {'software': 'the software', 'unit': 'the unit', 'better': 'the direction', 'variant': 'the variant'}


def _pairs(said: list[str]) -> dict[str, str]:
    return dict(each.split('=', 1) for each in said if '=' in each)


def cells(frame, since: str = '') -> list[Cell]:
    """Every cell of a frame of parity.history, with its nights from ``since`` (a date) on.

    A rerun was made because a figure was bad, and what was placed otherwise than usual has no
    reference: neither counts. A cell without a night is in the list, too.
    """
    import polars as pl
    own = frame.filter(~pl.col('unusual') & (pl.col('rerun_of') == '') & (pl.col('night') >= since))
    nights = own.group_by([*_WHERE, 'session'], maintain_order=True).agg(
        pl.col('night', 'unit', 'better', 'variant').first(),
        pl.col('value').median(), pl.col('value').alias('runs'), pl.col('label').unique().sort().alias('labels'),
        pl.col('software', 'node').unique().sort().str.join(' '))
    every = frame.select(_WHERE).unique(maintain_order=True).rows()
    found: dict[tuple, list[Night]] = {where: [] for where in every}
    for row in nights.iter_rows(named=True):
        where = tuple(row.pop(name) for name in _WHERE)
        found[where].append(Night(**{**row, 'runs': tuple(row['runs']), 'labels': tuple(row['labels'])}))
    environs: dict[tuple[str, str], set[str]] = {}
    for _, _, partition, environ, case, *_ in found:
        environs.setdefault((partition, case), set()).add(environ)
    return [Cell(**dict(zip(_WHERE, where, strict=True)), several=len(environs[where[2], where[4]]) > 1,
                 nights=tuple(kept)) for where, kept in found.items()]


def alike(cell: Cell, kinds: dict[tuple[str, str], str]) -> tuple[Night, ...]:
    """The newest nights of ``cell`` that are of one software, unit and kind of node.

    ``kinds`` is what the node of a session is, by session and node. Raises Refused where they are too
    few or of several kinds, or where their figures are never judged.
    """
    if not cell.nights:
        raise Refused('no night counts: placed otherwise than usual, a rerun, or too old')
    nights, why = _since_the_last_change(cell.nights)
    nights = nights[-bounds.MOST:]
    labels = {label for night in nights for label in night.labels}
    if labels == {next(iter(labels))} and '' not in labels:
        raise Refused(f'{labels.pop()}: such a figure is never judged')
    if len(labels) > 1:
        word = max(labels)
        raise Refused(f'not alike: {_count(word in n.labels for n in nights)} of {len(nights)} nights are {word}')
    if len(nights) < bounds.FEWEST:
        raise Refused(f'{len(nights)} night{"s" if len(nights) > 1 else ""}{why}; {bounds.FEWEST} are needed')
    of_kind: dict[str, str] = {}
    for night in nights:
        for node in night.node.replace(',', ' ').split():
            if kind := kinds.get((night.session, node)):
                of_kind.setdefault(kind, f'{node} on {night.night[:10]}')
    if len(of_kind) > 1:
        said = '; '.join(f'{kind} ({where})' for kind, where in list(of_kind.items())[:3])
        raise Refused(f'not alike: nodes of several kinds: {said}')
    return nights


def _since_the_last_change(nights: tuple[Night, ...]) -> tuple[tuple[Night, ...], str]:
    """The nights that ran what the newest one ran, and since when that is."""
    for at in range(len(nights) - 1, 0, -1):
        for what, said in _WORDS.items():
            if getattr(nights[at - 1], what) != getattr(nights[-1], what):
                return nights[at:], f' since {said} changed ({nights[at].night[:10]})'
    return nights, ''


def _count(each: Iterable[bool]) -> int:
    return sum(map(bool, each))


def kinds(system: str, sessions: set[str]) -> dict[tuple[str, str], str]:
    """What each node of these sessions is, by session and node: virtual or not, and its processor.

    A node of a batch system says so in its job; a case on this very machine is on what the session found.
    """
    found = {}
    for facts in history.sessions(system, last=2 * bounds.MOST):
        if facts.uuid not in sessions:
            continue
        machine: dict[str, Any] = facts.machine.get('machine') or {}
        if name := machine.get('hostname'):
            virtual = machine.get('backend') or machine.get('kind')
            found[facts.uuid, name] = _kind(virtual, machine.get('model_name'))
        for name, said in facts.nodes.items():
            found[facts.uuid, name] = _kind(said.get('virtualisation'), said.get('processor'))
    return found


def _kind(virtualisation: str | None, processor: str | None) -> str:
    return ', '.join(filter(None, ('' if virtualisation == 'none' else virtualisation, processor)))
