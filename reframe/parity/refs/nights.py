"""The nights of each cell, and the value that alike nights give."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any, NamedTuple

import polars as pl

from parity.base.figures import percent
from parity.records import history, kept
from parity.records.cells import parameters
from parity.refs.accepted import Observed, Reference
from parity.stats import bounds


class Night(NamedTuple):
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


class Cell(NamedTuple):
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
    nights: list[Night]

    @property
    def id(self) -> str:
        return history.cell_id(self._asdict(), self.several)

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
    """Return every cell of a frame of parity.records.history, with its nights from ``since`` (a date) on. A rerun
    does not count: it was made because a figure was bad. Cells without a night are in the list, too."""
    own = frame.filter(pl.col('rerun_of') == '', pl.col('night') >= since)
    nights = own.group_by([*_WHERE, 'session'], maintain_order=True).agg(
        pl.col('night', 'unit', 'better', 'variant').first(), pl.col('value').median(),
        pl.col('software', 'node').unique().sort().str.join(' '), runs=pl.col('value'),
        applied=pl.col('reference').is_not_null().any(), labels=pl.col('label').unique().sort())
    every = frame.select(_WHERE).unique(maintain_order=True).rows()
    found: dict[tuple, list[Night]] = {where: [] for where in every}
    for row in nights.iter_rows(named=True):
        found[tuple(row.pop(name) for name in _WHERE)].append(Night(**row))
    newest = frame.unique('session').sort('start').tail(RECENT)['session'].implode()
    recent = set(frame.filter(pl.col('session').is_in(newest)).select(_WHERE).unique().rows())
    environs = defaultdict(set)
    for _, check, partition, environ, case, *_ in recent:
        environs[partition, check].add(environ)
        environs[partition, case].add(environ)
    return [Cell(*where, len(environs[where[2], where[4]]) > 1, len(environs[where[2], where[1]]) > 1,
                 where in recent, own) for where, own in found.items()]


#: So many names are written out.
_NAMES = 4
_WORDS = {'software': 'the software', 'unit': 'the unit', 'better': 'the direction', 'variant': 'the variant'}


class Refused(Exception):
    """The reason why no reference is proposed for a cell."""


class Value(NamedTuple):
    reference: Reference
    observed: Observed
    remarks: list[str]


def alike(cell: Cell, kinds: dict[tuple[str, str], str]) -> list[Night]:
    """Return the newest nights of ``cell`` that are of one software, unit and kind of node.

    ``kinds`` (of `kinds`) tells the kind of each node. Raises Refused where the nights are too few or of several
    kinds, or where their figures are never judged."""
    if not cell.nights:
        raise Refused('no night counts: a rerun, or too old')
    if not cell.recent:
        raise Refused(f'not in the last {RECENT} sessions; its last night is {cell.nights[-1].night[:10]}')
    kept, why = _since_the_last_change(cell.nights)
    kept = kept[-bounds.MOST:]
    labels = {label for night in kept for label in night.labels}
    if word := max(labels):
        raise Refused(f'{word}: such a figure is never judged' if labels == {word} else
                      f'not alike: {sum(word in n.labels for n in kept)} of {len(kept)} nights are {word}')
    if len(kept) < bounds.FEWEST:
        raise Refused(f'{len(kept)} night{"s" if len(kept) > 1 else ""}{why}; {bounds.FEWEST} are needed')
    seen: dict[str, str] = {}
    for night in kept:
        for node in _nodes(night):
            if kind := kinds.get((night.session, node)):
                seen.setdefault(kind, f'{node} on {night.night[:10]}')
    if len(seen) > 1:
        said = '; '.join(f'{kind} ({where})' for kind, where in list(seen.items())[:3])
        raise Refused(f'not alike: nodes of several kinds: {said}')
    return kept


def _nodes(night: Night) -> list[str]:
    return night.node.replace(',', ' ').split()


def _since_the_last_change(every: list[Night]) -> tuple[list[Night], str]:
    """Return the nights that ran the same as the newest one, and the first of those."""
    for at in range(len(every) - 1, 0, -1):
        for what, said in _WORDS.items():
            if getattr(every[at - 1], what) != getattr(every[-1], what):
                return every[at:], f' since {said} changed ({every[at].night[:10]})'
    return every, ''


def kinds(system: str, sessions: set[str]) -> dict[tuple[str, str], str]:
    """The kind of each node of these sessions, by session and node: virtual or not, and its processor. A node of a
    batch system says so in its job; a case on this very machine is on what the session found."""
    found = {}
    for session in kept.sessions(system, last=RECENT):
        if session.uuid in sessions:
            machine: dict[str, Any] = session.facts.get('machine') or {}
            own = {'virtualisation': machine.get('backend') or machine.get('kind'),
                   'processor': machine.get('model_name')}
            for name, said in {machine.get('hostname'): own, **session.nodes}.items():
                words = said.get('virtualisation'), said.get('processor')
                found[session.uuid, name] = ', '.join(word for word in words if word and word != 'none')
    return found


def of_nights(kept: list[Night]) -> Value:
    """Return the median of the nights' medians between two bounds.

    A figure that is always 0 (hangs, failed writes) may not rise: its bound is absolute, 0. Raises Refused where a
    change, another node or the noise keeps one value from speaking for all nights."""
    values, runs, last = [n.value for n in kept], [v for n in kept for v in n.runs], kept[-1]
    middle = median(values)
    if not middle:
        return Value(_zero(runs, last), _observed(kept, values), [])
    if other := bounds.other_place(values, [n.node for n in kept]):
        raise Refused(f'not alike: {_few([other[0]])} is {_signed(other[1])} beside the other nodes')
    if changed := bounds.found(values):
        since = kept[changed.at].night
        raise Refused(f'a change on {since[:10]}: {_signed(changed.effect)} (p {changed.p:.2g}); if it stays: '
                      f"--since '{since}', with {bounds.FEWEST} such nights")
    wide = bounds.share(values, runs)
    if wide > bounds.WIDEST:
        raise Refused(f'noise: nights of {min(values):.4g} .. {max(values):.4g} {last.unit} would need bounds of '
                      f'± {percent(wide)}, more than {percent(bounds.WIDEST)}: measure longer, or more often')
    beyond = [f'{n.night[:10]} {_signed((n.value - middle) / abs(middle))}' for n in kept
              if abs(n.value - middle) > wide * abs(middle)]
    if len(beyond) > 1:      # no chance
        raise Refused(f'{len(beyond)} of {len(kept)} nights lie beyond the bounds of the others '
                      f'(± {percent(wide)}): {", ".join(beyond[:3])}')
    remarks = [f'one night lies beyond, {night}: unless it was a fault, there will be more' for night in beyond]
    if (days := len({n.night[:10] for n in kept})) < 5:
        remarks.append(f'on {days} day{"s" if days > 1 else ""} only: how days differ is not in it')
    rounded = float(f'{middle:.3e}')        # the last of four digits is less than 0.05 %
    return Value((rounded, -wide, wide, last.unit), _observed(kept, values), remarks)


def _zero(runs: list[float], last: Night) -> Reference:
    if other := sum(v != 0 for v in runs):
        raise Refused(f'its median is 0, and {other} of {len(runs)} runs are not: a share of 0 is no bound; '
                      'write an absolute one by hand')
    if last.better == 'higher':
        raise Refused('always 0, and higher is better: there is nothing to fall from')
    return (0.0, None, 0.0, last.unit)


def _observed(kept: list[Night], values: list[float]) -> Observed:
    first, last = kept[0], kept[-1]
    same_day = first.night[:10] == last.night[:10]
    return Observed(
        n=len(kept), median=float(f'{median(values):.6g}'), spread=float(f'{bounds.spread(values):.3g}'),
        nights='..'.join(n.night if same_day else n.night[:10] for n in (first, last)),
        sessions=f'{first.session[:8]}..{last.session[:8]}',
        nodes=_few(sorted({node for n in kept for node in _nodes(n)})), software=last.software)


def _few(names: list[str]) -> str:
    more = len(names) - _NAMES
    return ', '.join(names[:_NAMES]) + (f' and {more} more' if more > 0 else '')


def _signed(share: float) -> str:
    return ('+' if share > 0 else '') + percent(share)
