"""Known faults, systems/<name>/acks.yaml: shown as acknowledged, not hidden, until a day.

    acks:
      - cell: Stream%threads=all.triad@onebox:virtual
        until: 2026-12-01
        why: broken DIMM in v3, replacement ordered
        by: bea
        since: 2026-11-20
        incident: 17
        word: regressed
        value: 71.2                  # then
        expected: 77.6               # what it was judged by
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from parity.base import figures
from parity.base.strict import Strict
from parity.records.outset import NAME, cell_id
from parity.verdict.listed import Entry, Listed
from parity.verdict.model import Cell, Fault, names

#: Words that can be acknowledged. What never ran can not: for codes that may be absent there are waivers.
BAD = ('wrong', 'impossible', 'regressed', 'failed')
#: Words of cells whose fault is over.
OVER = {'ok', 'blind', 'improved'}


class Ack(Entry):
    """One known fault."""

    until: datetime.date             # the last day on which it holds
    #: The number of its incident; a cell that joins that one later is known up to the same share.
    incident: PositiveInt | None = None
    #: The acknowledged word; none: every word. A cell that was slower and is `wrong` now has another fault.
    word: Literal[BAD] | None = None
    #: The figure when it was acknowledged. One that is plainly worse counts again; without it none does.
    value: Annotated[float, Field(allow_inf_nan=False)] | None = None
    #: What that figure was judged by: the accepted value, the level of the nights before, or the limit.
    expected: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode='after')
    def _both_or_none(self) -> Ack:
        if (self.value is None) != (self.expected is None):
            raise ValueError('value and expected: must be there both, or neither')
        return self

    def holds(self, day: datetime.date) -> bool:
        return day <= self.until

    def __str__(self) -> str:
        return f'until {self.until} by {self.by}: {self.why}'


class Acks(Strict):
    acks: Annotated[list[Ack], BeforeValidator(lambda listed: [] if listed is None else listed)]


_FILE = Listed('acks', Acks, 'Known faults, acknowledged until a day: parity ack CELL --until DATE --why TEXT',
               'is acknowledged', lambda ack: ack.cell)
path, read, problems, write, remove = _FILE.path, _FILE.read, _FILE.problems, _FILE.write, _FILE.remove


def applied(cells: list[Cell], system: str, today: datetime.date, over: Collection[int] = ()
            ) -> tuple[list[Cell], list[str]]:
    """Return the cells, known faults marked, and a warning for each expired or needless acknowledgement.

    ``over``: incidents whose acknowledgement holds no more."""
    fits = with_cells(system, cells)
    holding: dict[int, Ack] = {}
    for ack, own in fits:
        for cell in own if ack.holds(today) and ack.incident not in over else ():
            if cell.verdict in BAD and (id(cell) not in holding or ack.word in (None, cell.verdict)):
                holding[id(cell)] = ack
    of_incident: dict[tuple, list[Ack]] = {}
    for ack, _ in fits:
        if ack.incident and ack.incident not in over and ack.holds(today):
            of_incident.setdefault((ack.incident, ack.word), []).append(ack)
    for cell in cells:
        if id(cell) not in holding and (own := of_incident.get((cell.incident, cell.verdict))):
            if joined := _joined(cell, own):
                holding[id(cell)] = joined
    return ([_noted(cell, holding[id(cell)]) if id(cell) in holding else cell for cell in cells],
            _warnings(fits, today, over))


def with_cells(system: str, cells: Iterable[Cell]) -> list[tuple[Ack, list[Cell]]]:
    """Return each acknowledgement with its cells among ``cells``."""
    listed = read(system)
    known = by_name(names(cells)) if listed else {}
    return [(ack, known.get(ack.cell, [])) for ack in listed]


def _joined(cell: Cell, own: list[Ack]) -> Ack | None:
    """Return the acknowledgement of a cell that joined the incident of ``own`` later: up to the largest share that
    is known of the others. None where a share is known, and the cell has none."""
    share = max((abs(_distance(ack.value, ack.expected)) for ack in own if ack.value is not None), default=None)
    if share is None:
        return own[0]
    if cell.expected is None or cell.value is None:
        return None
    value, expected = level_of(cell, share)
    return own[0].model_copy(update={'value': value, 'expected': expected})


def level_of(cell: Cell, share: float) -> tuple[float, float]:
    """Return value and expected of the cell, were it worse by ``share`` only."""
    return cell.expected + math.copysign(share * abs(cell.expected), cell.value - cell.expected), cell.expected


def by_name(known: Mapping[str, Cell]) -> dict[str, list[Cell]]:
    """Return the cells that each name means: a name without an environment means those of all environments."""
    found: dict[str, list[Cell]] = {}
    for name, cell in known.items():
        for each in {name, cell_id(vars(cell))}:
            found.setdefault(each, []).append(cell)
    return found


def _noted(cell: Cell, ack: Ack) -> Cell:
    """Acknowledged, unless the fault is another one now, or plainly worse."""
    another = f'acknowledged as {ack.word} only ({ack})' if ack.word not in (None, cell.verdict) else ''
    worse = '' if another else outgrown(cell, ack)
    no_level = ack.value is None and cell.value is not None
    known = f'acknowledged {ack}' + ('; without a level: any worse figure is taken as known' if no_level else '')
    return cell.model_copy(update={'acknowledged': '' if another or worse else str(ack), 'outgrown': worse,
                                   'reason': '; '.join(filter(None, (cell.reason, another or worse or known)))})


def _warnings(fits: list[tuple[Ack, list[Cell]]], today: datetime.date, over: Collection[int]) -> list[str]:
    """Return a sentence for each that expired, or whose fault is over; one for all of an incident."""
    said: dict[str, None] = {}
    words: dict[object, set[str]] = {}
    for ack, cells in fits:
        words.setdefault(ack.incident or ack.cell, set()).update(cell.verdict for cell in cells)
    for ack, _ in fits:
        found = words[ack.incident or ack.cell]
        file = f'systems/{NAME.fullmatch(ack.cell)["system"]}/acks.yaml'
        what = f'incident {ack.incident}' if ack.incident else ack.cell
        out = f'parity unack {ack.incident}' if ack.incident else f'take it out of {file}'
        if not ack.holds(today):
            now = 'it counts again' if found & {*BAD} else out
            said[f'the acknowledgement of {what} by {ack.by} expired on {ack.until} ({ack.why}): {now}'] = None
        elif ack.incident in over:
            said[f'incident {ack.incident} is over: {out} ({ack})'] = None
        elif found and found <= OVER:
            out = out if ack.incident else f'take its acknowledgement out of {file}'
            said[f'{what} is {" ".join(sorted(found))} again: {out} ({ack})'] = None
    return [*said]


def mended(ack: Ack, value: float) -> bool:
    """Return whether ``value`` is nearer to what judged the cell than to its acknowledged level."""
    return ack.value is not None and abs(value - ack.expected) < abs(value - ack.value)


def level(cell: Cell | Fault) -> dict[str, float]:
    """Return what an acknowledgement stores of the cell's figure; {} where nothing judges one."""
    if cell.value is None or cell.expected is None or not math.isfinite(cell.value):
        return {}
    return {'value': float(f'{cell.value:.6g}'), 'expected': float(f'{cell.expected:.6g}')}


def outgrown(cell: Cell, ack: Ack) -> str:
    """Return both levels in a sentence where ``cell`` is plainly worse than when ``ack`` was given; else ''.

    A distance is relative to what judges a cell: each environment and size has its own. Plainly worse is twice
    the distance, or farther than the accepted bounds reach from there; and clear of a night's noise."""
    if ack.value is None or cell.value is None or cell.expected is None:
        return ''
    now, then = level_shown(cell.unit, cell.value, cell.expected), level_shown(cell.unit, ack.value, ack.expected)
    worse = cell.worse_than_acked or plainly_worse(cell, ack.value, ack.expected)
    return f'worse than acknowledged: {now} now, {then} on {ack.since} ({ack})' if worse else ''


def plainly_worse(cell: Cell, value: float, expected: float) -> bool:
    """Return whether the cell is plainly worse than ``value`` was beside ``expected``, as `outgrown` says."""
    if cell.value is None or cell.expected is None:
        return False
    was, found = _distance(value, expected), _distance(cell.value, cell.expected)
    side, known = (1, was) if was > 0 else (-1, -was)
    room = _room(cell, cell.low if side < 0 else cell.high, cell.reference)
    reach = min(2 * known, known + room) if room else 2 * known
    return side * found > max(reach, known + _room(cell, cell.usual_low, cell.usual))


def _distance(value: float, expected: float) -> float:
    return (value - expected) / abs(expected) if expected else value - expected


def _room(cell: Cell, bound: float | None, around: float | None) -> float:
    """The distance of a bound from its middle; 0: not known."""
    known = bound is not None and around is not None and cell.verdict != 'impossible'
    return abs(_distance(bound, around)) if known else 0.0


def level_shown(unit: str, value: float, expected: float) -> str:
    """Return '84 Gflop/s (-16.0 % of 100 Gflop/s)'."""
    change = figures.change(value, expected)
    return figures.figure(value, unit) + (f' ({change} of {figures.figure(expected, unit)})' if change else '')
