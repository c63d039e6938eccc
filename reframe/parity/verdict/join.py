"""A cell's word once its history is known, too.

The accepted bounds judge tonight; the history judges tonight against the nights before, at a stated rate of
false alarms. Worse by either is a regression, unless the same case, run again the same night, says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parity.records import database
from parity.stats import bounds
from parity.verdict.model import Cell

if TYPE_CHECKING:
    from parity.verdict.nights import Tonight

#: Words that a history can change: a figure that was judged, or that nothing was accepted for.
_OPEN = ('ok', 'improved', 'regressed', 'unreferenced')
#: What was accepted, and what the history says, where that is the last word: not only where it says `regressed`.
_LAST_WORD = {('ok', 'improved'), ('unreferenced', 'improved'), ('unreferenced', 'ok')}


@dataclass(frozen=True)
class Joined:
    """The cells, how many of them their history judged, and of how many it is too short."""

    cells: list[Cell]
    judged: int = 0
    short: int = 0


def joined(cells: list[Cell], system: str, session: str) -> Joined:
    """Every cell of the session, with its last word."""
    if database.uuids() == [session]:
        return _first(cells)
    from parity.verdict import nights
    known = iter(nights.of_cells([c for c in cells if c.verdict in _OPEN], system, session))
    tonight = [next(known) if c.verdict in _OPEN else None for c in cells]
    cells = _with_nights(cells, system, session)
    found = [_joined(cell, own) if own else cell for cell, own in zip(cells, tonight, strict=True)]
    short = sum(own.told.verdict == 'insufficient' for own in tonight if own)
    return Joined(found, sum(map(bool, tonight)) - short, short)


def _first(cells: list[Cell]) -> Joined:
    """What a history of one night says: nothing yet."""
    update = {word: {'history': 'insufficient', 'suspicious': word == 'regressed'} for word in _OPEN}
    update['disturbed'] = {'disturbed_nights': 1}
    found = [c.model_copy(update=update.get(c.verdict, {})) for c in cells]
    return Joined(found, short=sum(c.verdict in _OPEN for c in cells))


def _with_nights(cells: list[Cell], system: str, session: str) -> list[Cell]:
    """The cells; disturbed ones say for how many nights in a row they have been."""
    disturbed = [c for c in cells if c.verdict == 'disturbed']
    if not disturbed:
        return cells
    from parity.verdict import nights
    counts = iter(nights.disturbed(disturbed, system, session))
    return [c.model_copy(update={'disturbed_nights': next(counts)}) if c.verdict == 'disturbed' else c
            for c in cells]


def _joined(cell: Cell, tonight: Tonight) -> Cell:
    told = tonight.told
    if cell.verdict == 'regressed' and tonight.reruns and _within(cell, tonight):
        first = f'{cell.reason} at first; run again it was within its bounds'
        cell = cell.model_copy(update={'verdict': 'ok', 'reason': first})
    suspicious = not tonight.reruns and (told.needs_rerun or cell.verdict == 'regressed')
    update: dict = {'suspicious': suspicious, 'history': told.verdict}
    if told.verdict != 'insufficient':
        update |= {'usual': told.baseline, 'usual_low': told.low, 'usual_high': told.high}
    if (cell.verdict, told.verdict) in _LAST_WORD or told.verdict == 'regressed':
        update |= {'verdict': told.verdict, 'reason': '; '.join(filter(None, (cell.reason, told.why)))}
    return cell.model_copy(update=update)


def _within(cell: Cell, tonight: Tonight) -> bool:
    """Is the median of all of tonight's runs, those that were run again among them, within the accepted bounds?"""
    from statistics import median
    return not bounds.side(median((*tonight.runs, *tonight.reruns)), cell.low, cell.high)
