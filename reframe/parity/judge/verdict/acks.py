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
      - incident: 18                 # of a node or a pair, by its number alone: it has no cell
        until: 2026-12-01
        why: it runs hot
        by: bea
        since: 2026-11-20
"""

import datetime
import time
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, PositiveInt, model_validator

from parity.base.figures import several
from parity.base.strict import Strict
from parity.judge.compare.pairs import PairState
from parity.judge.refs.listed import CellName, Entry, Listed
from parity.judge.store.incidents import Fault, Incident, at, numbers
from parity.judge.store.plan_file import cell_id
from parity.judge.verdict import joining
from parity.judge.verdict.model import BEGAN_WITHIN, COMES, Cell, loss, names

#: Words that can be acknowledged. What never ran can not: for codes that may be absent there are waivers.
BAD = ('wrong', 'impossible', 'regressed', 'failed')
#: Slowdowns that begin within so long began together.
TOGETHER_SECONDS = BEGAN_WITHIN.total_seconds()
#: A level is settled so long after it was found.
_SETTLED_SECONDS = 7 * 86400.0
#: A share that is no further drop.
_NEAR, _TENTH = 0.01, 0.1
#: Words of cells whose fault is over.
OVER = {'ok', 'blind', 'improved'}
#: States of a cell whose slowdown is not over.
LASTING = ('slow', COMES)


class Ack(Entry):
    """One known fault."""

    cell: CellName | None = None     # none: of an incident of a node or a pair
    until: datetime.date             # the last day on which it holds
    #: The number of its incident. It covers what joins that by place, part and begin.
    incident: PositiveInt | None = None
    #: The acknowledged word; none: every word. A cell that was slower and is `wrong` now has another fault.
    word: Literal[BAD] | None = None
    #: The figure when it was acknowledged, for a person to read.
    value: Annotated[float, Field(allow_inf_nan=False)] | None = None
    #: What that figure was judged by: the accepted value, the level of the nights before, or the limit.
    expected: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode='after')
    def _whole(self) -> 'Ack':
        if self.cell is None and self.incident is None:
            raise ValueError('must name a cell, an incident, or both')
        if (self.value is None) != (self.expected is None):
            raise ValueError('value and expected: must be there both, or neither')
        return self

    @property
    def name(self) -> str:
        return self.cell or f'incident {self.incident}'

    def holds(self, day: datetime.date, acks_from: Mapping[int, datetime.date] = MappingProxyType({})) -> bool:
        """Return whether it holds on a day; ``acks_from``: of incidents, as the table of incidents has them."""
        return acks_from.get(self.incident or 0, self.since) <= self.since and day <= self.until

    def __str__(self) -> str:
        return f'until {self.until} by {self.by}: {self.why}'


class Acks(Strict):
    acks: list[Ack] | None


_FILE = Listed('acks', Acks, 'Known faults, acknowledged until a day: parity ack CELL --until DATE --why TEXT',
               'is acknowledged', lambda ack: ack.name)
path, read, problems, write, remove = _FILE.path, _FILE.read, _FILE.problems, _FILE.write, _FILE.remove


class _Fit(NamedTuple):
    """An acknowledgement, and the cells that it names."""

    place: str                       # file and line
    ack: Ack
    cells: list[Cell]


def applied(cells: list[Cell], system: str, today: datetime.date, acks_from: Mapping[int, datetime.date],
            known: Collection[Incident] = ()) -> tuple[list[Cell], list[str]]:
    """Return the cells, known faults marked, and a warning for each expired or needless acknowledgement.

    ``today``: the day of an older session. What was acknowledged later is left out. ``known``: the incidents of
    the cells."""
    placed = _FILE.placed(system)     # once: somebody may add one meanwhile
    every = names(cells) if placed else {}
    by_names = by_name(every)
    fits = []
    for place, ack in placed:
        if ack.since <= today:
            fits.append(_Fit(place, ack, by_names.get(ack.cell, [])))
    of_cell: dict[int, list[Ack]] = {}
    of_incident: dict[int, list[Ack]] = {}
    for fit in fits:
        ack = fit.ack
        if not ack.holds(today, acks_from):
            continue
        for cell in fit.cells:
            of_cell.setdefault(id(cell), []).append(ack)
        if ack.incident:
            of_incident.setdefault(ack.incident, []).append(ack)
    incidents = {incident.number: incident for incident in known}
    faults = _noted_faults(known)
    marked = {}
    for name, cell in every.items():
        if cell.verdict not in BAD:
            continue
        named = of_cell.get(id(cell), [])
        joined = of_incident.get(cell.incident, [])
        fault = faults.get((cell.incident, name, cell.verdict))
        marked[id(cell)] = _noted(cell, name, named, joined, incidents, acks_from, fault)
    warnings = _warnings(system, fits, today, acks_from)
    return [marked.get(id(cell), cell) for cell in cells], warnings
    noted = _noted_faults(known)
    marked = {}
    for name, cell in every.items():
        if cell.verdict in BAD:
            joined = of_incident.get(cell.incident, [])
            fault = noted.get((cell.incident, name, cell.verdict))
            marked[id(cell)] = _noted(cell, name, named.get(id(cell), []), joined, incidents, acks_from, fault)
    return [marked.get(id(cell), cell) for cell in cells], _warnings(system, fits, today, acks_from)


def applied_to_pairs(pairs: Collection[PairState], system: str, today: datetime.date,
                     acks_from: Mapping[int, datetime.date]) -> list[PairState]:
    """Return the pairs, those marked that are not as expected and whose incident is acknowledged. A pair has no
    further drop: its ratio is of the last nights together. The cells of its sides have."""
    holding = {}
    for ack in read(system):
        if not ack.cell and ack.holds(today, acks_from):
            holding[ack.incident] = ack
    marked = []
    for pair in pairs:
        ack = holding.get(pair.incident)
        if pair.state == 'regressed' and ack:
            why = f'{pair.why}; acknowledged {ack}'
            pair = pair.model_copy(update={'acknowledged': str(ack), 'why': why})
        marked.append(pair)
    return marked


def held(system: str) -> list[Ack]:
    """Return the acknowledgements that hold today."""
    listed = read(system)
    if not listed:
        return []
    today = datetime.date.today()
    _, acks_from = at(system, '', time.time())
    return [ack for ack in listed if ack.holds(today, acks_from)]


def by_name(cells: Mapping[str, Cell]) -> dict[str, list[Cell]]:
    """Return the cells that each name means: a name without an environment means those of all environments."""
    meant: dict[str, list[Cell]] = {}
    for name, cell in cells.items():
        short = cell_id(vars(cell))
        meant.setdefault(name, []).append(cell)
        if short != name:
            meant.setdefault(short, []).append(cell)
    return meant


def _noted(cell: Cell, name: str, named: list[Ack], joined: list[Ack], incidents: Mapping[int, Incident],
           stored: Collection[int], fault: Fault | None) -> Cell:
    """Return the cell, acknowledged where an acknowledgement covers it; the reason says why one does not.

    ``named``: those that name the cell. ``joined``: those of its incident. ``stored``: numbers of incidents.
    ``fault``: the cell's, as its incident noted it last night; None where no acknowledgement held then."""
    reasons = [cell.reason]
    for ack in named:
        if ack.incident in stored and cell.incident != ack.incident:
            reasons.append(f'acknowledged in incident {ack.incident} only ({ack})')
        elif ack.word not in (None, cell.verdict):
            reasons.append(f'acknowledged as {ack.word} only ({ack})')
        elif _dropped(cell, ack, joined, fault):
            reasons.append(f'worse than acknowledged: a drop was found since {ack.since} ({ack})')
        else:
            return _acknowledged(cell, ack)
    alike = [ack for ack in joined if ack.word in (None, cell.verdict)]
    incident = incidents.get(cell.incident)
    cells = {ack.cell for ack in joined if ack.cell}
    if not named and alike and incident and joining.covered(cell, name, incident, cells):
        given_later = [ack for ack in alike if _detected_on(cell) <= ack.since]
        first, *_ = given_later or alike
        fell = fault is not None and _fell(cell, fault)
        if given_later or not fell:
            return _acknowledged(cell, first)
        reasons.append('worse than acknowledged: a drop was found after it joined '
                       f'incident {incident.number} ({first})')
    given = filter(None, reasons)
    reason = '; '.join(dict.fromkeys(given))
    return cell.model_copy(update={'reason': reason})


def _noted_faults(known: Iterable[Incident]) -> dict[tuple[int, str, str], Fault]:
    """Return the faults of incidents on which an acknowledgement held last night, or held until a drop; by number,
    cell and word."""
    faults = {}
    for incident in known:
        for fault in incident.faults.values():
            if fault.acknowledged or fault.beyond_ack:
                key = incident.number, fault.cell, fault.verdict
                faults.setdefault(key, fault)
    return faults


def _detected_on(cell: Cell) -> datetime.date:
    """Return the day on which the level of a cell was found; the first of all days for none."""
    return datetime.date.fromtimestamp(cell.detected) if cell.detected else datetime.date.min


def _fell(cell: Cell, fault: Fault) -> bool:
    """Return whether a further drop of an acknowledged cell was found, below the level of last night."""
    if fault.beyond_ack:
        return True
    since = cell.begin or fault.since
    now = fault.model_copy(update={'detected': cell.detected, 'since': since})
    return dropped_further(fault, now, cell)


def _acknowledged(cell: Cell, ack: Ack) -> Cell:
    reason = f'{cell.reason}; acknowledged {ack}'.lstrip('; ')
    return cell.model_copy(update={'acknowledged': str(ack), 'reason': reason})


def _dropped(cell: Cell, ack: Ack, joined: Collection[Ack], fault: Fault | None) -> bool:
    """Return whether a further drop of a cell was found since it was acknowledged. A level that is some nights old
    is still settling: then it counts beside those of the whole incident.

    ``fault``: as it was noted last night. Its level is better than the acknowledged one, which may be a young
    one's."""
    day = _detected_on(cell)
    if day <= ack.since:
        return False
    fell = _fell(cell, fault) if fault else _worse(cell, [ack], True)
    if not fell:
        return False
    is_settled = day > ack.since + BEGAN_WITHIN
    return is_settled or _worse(cell, joined, False)


def _worse(cell: Cell, known: Collection[Ack], own: bool) -> bool:
    """Return whether the level is worse than the worst of the acknowledged figures; ``own``: of this cell.

    The fault that slows one cell may slow another twice as much; and a level that one low night gave may be half
    the true one."""
    changes = [ack.value / ack.expected - 1 for ack in known if ack.value and ack.expected]
    if not changes or not all((cell.level, cell.expected, cell.usual, cell.usual_low)):
        return True
    side = -1 if cell.better == 'higher' else 1
    change = cell.level / cell.expected - 1
    now = side * change
    if not own:
        largest = max(map(abs, changes))
        return further(largest, now, False, cell)
    was = max(side * change for change in changes)
    settled = True
    if cell.begin:
        began = datetime.date.fromtimestamp(cell.begin)
        settled = all(ack.since - began >= BEGAN_WITHIN for ack in known)
    return further(was, now, settled, cell)


def dropped_further(old: Fault, new: Fault, cell: Cell | None) -> bool:
    """Return whether a further drop of a fault was found: of the level, as one figure alone may be an outlier.

    A level that was found less than a week ago is still settling, and so is that of a further spell. ``cell``:
    None of what is no cell."""
    if not old.detected:
        return False
    between_drops = new.detected - old.detected
    if between_drops < TOGETHER_SECONDS:
        return False
    now = new.loss
    if cell and cell.level:
        now = loss(cell, cell.level)
    began_before = old.detected - old.since >= TOGETHER_SECONDS
    lasted = old.measured - old.detected >= _SETTLED_SECONDS
    is_same_spell = new.since <= old.detected
    settled = is_same_spell and (began_before or lasted)
    return further(old.loss, now, settled, cell)


def further(was: float, now: float, settled: bool, cell: Cell | None) -> bool:
    """Return whether a loss is a further drop: by 1 %, a tenth, or the noise of a night. Losses are shares.

    A loss that the first nights of a slowdown gave, not ``settled``, may be half the true one."""
    noise = 0.0
    if cell and cell.usual and cell.usual_low:
        band = abs(cell.usual_low / cell.usual - 1)
        noise = band / 3                # it is three spreads wide
    near = max(_NEAR, noise, _TENTH * was)
    settled_loss = was if settled else 2 * was
    return now > settled_loss and now > was + near


def _warnings(system: str, fits: list[_Fit], today: datetime.date,
              acks_from: Mapping[int, datetime.date]) -> list[str]:
    """Return a sentence for each that expired, whose fault is over or whose incident is unknown; one for all of an
    incident."""
    has_incident = any(fit.ack.incident for fit in fits)
    known = numbers(system) if has_incident else set()
    over = {number for number, day in acks_from.items() if day == datetime.date.max}
    bad = set()     # numbers of incidents, and names of cells
    for fit in fits:
        ack = fit.ack
        is_open = not ack.cell and ack.incident in known - over
        if is_open or any(cell.verdict in BAD for cell in fit.cells):
            bad.add(ack.incident or ack.cell)
    sentences: dict[str, None] = {}
    for place, ack, cells in fits:
        what = f'incident {ack.incident}' if ack.incident else ack.cell
        removal = _removal(ack, system)
        if not ack.holds(today):
            is_bad = (ack.incident or ack.cell) in bad
            then = 'it counts again' if is_bad else removal
            sentence = f'the acknowledgement of {what} by {ack.by} expired on {ack.until} ({ack.why}): {then}'
        elif ack.incident and ack.incident not in known:
            valid = several([*map(str, sorted(known))]) or 'none: a bad night opens them'
            sentence = f'{place}no incident {ack.incident}; valid: {valid}'
        elif not ack.holds(today, acks_from):
            sentence = f'the acknowledgement of {what} ended with it: {removal} ({ack})'
        elif not ack.incident and well(cells):
            words = ' '.join(sorted({cell.verdict for cell in cells}))
            sentence = (f'{what} is {words} again: take its acknowledgement out of systems/{system}/acks.yaml '
                        f'({ack})')
        else:
            continue
        sentences[sentence] = None
    return [*sentences]


def _removal(ack: Ack, system: str) -> str:
    """Return how a person removes an acknowledgement."""
    return f'parity unack {ack.incident}' if ack.incident else f'take it out of systems/{system}/acks.yaml'


def well(cells: Collection[Cell]) -> bool:
    """Return whether the fault of these cells is over: their words and their lives say so."""
    return bool(cells) and all(cell.verdict in OVER and cell.state not in LASTING for cell in cells)
