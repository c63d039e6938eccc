"""The life of incidents: what a night changes, and what is news.

An incident is over when each cell ended. Where a node is to blame, that node must have been measured again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from parity.base import errors, figures, times
from parity.base.figures import several
from parity.base.text import node_name
from parity.judge.compare.pairs import PairState
from parity.judge.store import database
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Change, Event, Fault, Incident, Where
from parity.judge.verdict import acks
from parity.judge.verdict.joining import BACK, Bad, Calendar, homes, numbers
from parity.judge.verdict.model import Cell, CellText, Verdict, rows
from parity.judge.verdict.tonight import (
    BAD,
    WHOLE,
    Failures,
    Night,
    Well,
    of_cell,
    of_pair,
    of_verdict,
    row_name,
)

if TYPE_CHECKING:
    from parity.judge.compare.named import NamedNode

__all__ = ['BAD', 'WHOLE', 'Bad', 'Calendar', 'Night', 'of_pair', 'of_verdict', 'row_name']

#: Events for a notice.
NEWS = ('new', 'also', 'worse', 'due', 'over', 'back')
#: How far a cell came: one that came farther than its fault shows that the fault is over.
_RUNGS = {'missing': 0, 'skipped': 0, 'failed': 1, 'disturbed': 1, 'wrong': 2, 'impossible': 2, 'regressed': 3}
#: A node that the listing did not name for so long is not slow: the nights of a listing are newer.
_LISTING_SECONDS = 8 * 86400.0
#: Cells that were bad within so many nights may end together.
_LATELY = 3
#: Of a slow node's slowdown less than this is left where it is in order.
_HALF = 0.5


def record(verdict: Verdict | None, system: str, interrupted: bool = False) -> list[Incident]:
    """Record what a night makes of the system's incidents, and return them; None stored no session.

    ``interrupted``: by its operator. What did not end then was not measured."""
    session = verdict.session.uuid if verdict else ''
    starts = database.starts()
    start = starts.get(session, time.time())
    calendar = Calendar.stored()
    holding: set[str | int | None] = set()
    for ack in acks.held(system):
        holding |= {ack.cell, ack.incident}

    def changed(known: Sequence[Incident]) -> list[Incident]:
        slow, mended = {}, set()
        if verdict:
            slow, mended = _listed(system, known)
        night = of_verdict(verdict, system, start, interrupted, slow, mended)
        return after(known, night, calendar, holding)
    return table.record(system, session, start, changed)


def _listed(system: str, known: Sequence[Incident]) -> tuple[dict[tuple[str, str], float], set[str]]:
    """Return the nodes that the listing names, by (node, part), with their speed as a share of their peers'; and
    those of incidents that it calls mended. Nights before an incident say nothing of its end."""
    from parity.judge.nodes import listing  # it loads polars
    left = [incident for incident in known if not incident.closed]
    named = []
    since = listing.well_since(system)
    from_begin = dict(since)
    for incident in left:
        for fault in incident.left.values():
            if fault.listed:
                named += [(node, fault.part) for node in fault.nodes]
        for node in incident.nodes:
            well_since = since.get(node, 0.0)
            from_begin[node] = max(well_since, incident.begin - 1)
    slow = listing.twice(system, since, named)
    before = _slow_parts(left)
    mended = listing.mended(system, before, from_begin)
    for node, part in before:
        if node in mended:
            slow.pop((node, part), None)
    return slow, mended


def _slow_parts(known: Iterable[Incident]) -> dict[tuple[str, str], float]:
    """Return the nodes that incidents blame, by (node, part), with their speed as a share of their peers'."""
    from parity.judge.nodes.figures import listed_part  # it loads polars
    losses = defaultdict(list)
    for incident in known:
        for fault in incident.faults.values():
            if not fault.loss:
                continue
            part, nodes = fault.part, fault.nodes
            if not fault.listed:
                part, nodes = listed_part(fault.cell, fault.part), incident.nodes
            for node in nodes:
                losses[node, part].append(fault.loss)
    return {key: 1 - median(of_faults) for key, of_faults in losses.items()}


class FaultGroup(NamedTuple):
    """An incident of tonight, or a cause that is none yet, in words."""

    title: str
    where: Where
    part: str
    rows: list[CellText]


def causes(table: Iterable[CellText]) -> list[FaultGroup]:
    """Return each incident, and each cause that is none yet, with its rows, the worst row of each first."""
    table = list(table)
    failures = Failures([row.cell for row in table])
    by_number: dict[int, list[Bad]] = defaultdict(list)
    for row in table:
        bad = of_cell(row, 0.0, failures)
        by_number[row.cell.incident].append(bad)
    new = by_number.pop(0, [])
    groups = [(group, _one_node(group)) for group in by_number.values()]
    if new:
        for home in homes(new, (), Calendar.stored()):
            groups.append((home.bad, bool(home.nodes)))
    system = table[0].cell.system if table else ''
    night = Night(system, '', 0.0, {}, {}, frozenset())
    fault_groups = []
    for group, of_node in groups:
        worst_first = sorted(group, key=_by_loss)
        incident = _opened(worst_first, night, of_node=of_node)
        group_rows = [bad.row for bad in worst_first]
        fault_groups.append(FaultGroup(incident.title, incident.where, incident.part, group_rows))
    return fault_groups


def _one_node(group: Sequence[Bad]) -> bool:
    """Return whether one node is to blame for faults of one incident: some name it, and none a wider place."""
    if any(bad.wide for bad in group):
        return False
    return any(bad.node for bad in group)


def _by_loss(bad: Bad) -> float:
    return -bad.fault.loss


# ---- what a night makes of incidents

def after(known: Sequence[Incident], night: Night, calendar: Calendar, holding: Collection = ()) -> list[Incident]:
    """Return the open incidents after the night, those of ``known`` that are back, and the new ones with number 0.
    ``holding``: cells, and numbers of incidents, that are acknowledged."""
    held_by: dict[str, int] = {}
    for incident in known:
        if not incident.closed:
            held_by |= dict.fromkeys(incident.left, incident.number)
    incidents = []
    for home in homes(night.bad.values(), known, calendar):
        bad = sorted(home.bad, key=_by_loss)
        if home.incident is None:
            of_node = bool(home.nodes)
            incidents.append(_opened(bad, night, held_by, of_node))
        else:
            turn = _Turn(home.incident, bad, night, calendar, holding)
            incidents.append(turn.incident())
    return incidents


def _opened(group: list[Bad], night: Night, held_by: Mapping[str, int] = MappingProxyType({}),
            of_node: bool = False) -> Incident:
    """Return a new incident; ``held_by``: the numbers of the incidents that had its faults until tonight;
    ``of_node``: it is a node's, also where the worst fault does not name that."""
    first = group[0]
    faults = {bad.name: _fault(bad) for bad in group}
    state: Literal['known', 'open'] = 'open'
    ack = ''
    if all(fault.acknowledged for fault in faults.values()):
        state, ack = 'known', _ack(group)
    uuid = f'{night.session or night.start}:{first.name}'
    begin = first.fault.since
    new = _event('new', night, _counted(group, held_by))
    incident = Incident(number=0, uuid=uuid, system=night.system, state=state, key=first.key, title=first.title,
                        begin=begin, faults=faults, ack=ack, events=[new])
    changes = [bad.cause.changes for bad in group]
    return _described(incident, changes, of_node)


def _counted(group: list[Bad], held_by: Mapping[str, int]) -> str:
    """Return '12 cells, 2 of incident 1'."""
    if not group[0].row:
        return ''
    moved = Counter[int]()
    for bad in group:
        if bad.slow and bad.name in held_by:
            number = held_by[bad.name]
            moved[number] += 1
    texts = [figures.counted(len(group), 'cell')]
    for number, count in sorted(moved.items()):
        texts.append(f'{count} of incident {number}')
    return ', '.join(texts)


def _event(what: str, night: Night, text: str = '') -> Event:
    return Event(what=what, session=night.session, start=night.start, text=text)


def _ack(group: Iterable[Bad]) -> str:
    """Return the text of the first acknowledgement of these faults; '' for none."""
    for bad in group:
        if bad.row and bad.row.cell.acknowledged:
            return bad.row.cell.acknowledged
    return ''


def _fault(bad: Bad, old: Fault | None = None, nodes: Collection[str] = (), first: bool = True) -> Fault:
    """Return a fault of tonight with its place and its part: those of ``old`` where tonight does not know them.

    The place is tonight's where it is as narrow as its incident's, of ``nodes``. ``first``: it has no incident."""
    where = bad.cause.where
    part = bad.cause.subsystem.name
    is_node = where.kind == 'node'
    fits = first or is_node == bool(nodes)
    if old and not (where.kind and fits):
        where = old.where
    if old and not (part and fits):
        part = old.blamed
    return bad.fault.model_copy(update={'where': where, 'blamed': part})


def _described(incident: Incident, changes: Sequence[list[Change]], of_node: bool = False) -> Incident:
    """Return the incident with the place, the part and the title that its cells have now.

    An incident keeps its title where all of its cells ended, and where it has no cell and no node. ``changes``: of
    cells that are new to it; ``of_node``: a new one is a node's."""
    explaining = table.explaining(incident.changes, *changes)
    incident = incident.model_copy(update={'changes': explaining})
    left = sorted(incident.left.values(), key=lambda fault: -fault.loss)
    if not any(fault.cell or fault.listed for fault in left):
        return incident
    if of_node or incident.nodes:
        where = _place_of_node(incident, left)
    else:
        where = _wide_place(incident, left)
    part = _part(incident, left)
    incident = incident.model_copy(update={'where': where, 'part': part})
    title = table.title(incident)
    return incident.model_copy(update={'title': title})


def _part(incident: Incident, left: Sequence[Fault]) -> str:
    """Return the part of the machine that most of the cells that are left name."""
    parts = Counter(fault.blamed for fault in left if fault.blamed)
    if not parts:
        return incident.part
    (part, _), = parts.most_common(1)
    return part


def _place_of_node(incident: Incident, left: Sequence[Fault]) -> Where:
    """Return the node of an incident: it stays that node's."""
    for fault in left:
        if fault.where.kind == 'node':
            return fault.where
    return incident.where


def _wide_place(incident: Incident, left: Sequence[Fault]) -> Where:
    """Return the partitions of the cells that are left; not known where none of these names one."""
    wide = [fault.where for fault in left if fault.where.kind in ('partition', 'everything')]
    if not wide:
        wide = [incident.where]
    first = wide[0]
    if not first.kind:
        return first
    kinds = {where.kind for where in wide}
    partitions = {fault.partition for fault in left} - {''}
    kind: Literal['everything', 'partition'] = 'partition'
    if len(partitions) > 1 and 'everything' in kinds:
        kind = 'everything'
    name = ', '.join(sorted(partitions)) or first.name
    why = next((where.why for where in wide if where.kind == kind), '')
    return Where(kind=kind, name=name, why=why)


class _Turn:
    """The turn that an incident takes in a night; ``bad``: its faults that the night measured."""

    def __init__(self, incident: Incident, bad: list[Bad], night: Night, calendar: Calendar, holding: Collection):
        self.before = incident
        self.bad = bad
        self.night = night
        self.calendar = calendar
        self.back = bool(incident.closed)
        self.also: list[Bad] = []
        self.worse: list[Bad] = []
        self.faults = self._faults(holding)

    def _faults(self, holding: Collection) -> dict[str, Fault]:
        held = self.before.number in holding
        measured = {bad.name for bad in self.bad}
        faults = {}
        for name, fault in self.before.faults.items():
            fault = _still_acknowledged(fault, held, holding)
            if not fault.well and name not in measured:
                fault = _again(name, fault, self.night)
            faults[name] = fault
        for bad in self.bad:
            faults[bad.name] = self._measured(bad, held)
        for name in self._end_with_others(faults):
            fault = faults[name]
            faults[name] = fault.model_copy(update={'well': True})
        return faults

    def _end_with_others(self, faults: Mapping[str, Fault]) -> list[str]:
        """Return the slow cells that one good night ends: tonight is one, and most of the cells that were bad
        lately ended. Of many cells, one or two have no two good nights in a row at first, or had some before."""
        lately = self.calendar.before(self.night.start, _LATELY)
        recent = {}
        for name, fault in faults.items():
            if fault.measured >= lately and not fault.moved and not fault.retired:
                recent[name] = fault
        ended = [fault for fault in recent.values() if fault.well]
        if 2 * len(ended) <= len(recent):
            return []
        names = []
        for name, fault in recent.items():
            well = self.night.well.get(name)
            if not fault.well and fault.word == 'regressed' and well:
                names.append(name)
        return names

    def _measured(self, bad: Bad, held: bool) -> Fault:
        """Return a fault that is bad tonight, and note whether it is news."""
        old = self.before.faults.get(bad.name)
        new = _fault(bad, old, self.before.nodes, self.back)
        if new.listed:
            new = new.model_copy(update={'acknowledged': held})
        if old is None or self.back:
            self.also.append(bad)
            return new
        if old.well:
            # a further spell of an incident that was back is no news: it comes and goes
            is_further = new.since - old.since > acks.TOGETHER_SECONDS
            if is_further and not self.before.returned:
                self.also.append(bad)
            return new
        cell = bad.row.cell if bad.row else None
        dropped = acks.dropped_further(old, new, cell)
        if dropped and not new.acknowledged:
            self.worse.append(bad)
        beyond = old.beyond_ack or old.acknowledged and dropped
        return new.model_copy(update={'since': old.since, 'beyond_ack': beyond})

    def incident(self) -> Incident:
        """Return the incident after the night."""
        before = self.before
        changes = [bad.cause.changes for bad in self.also]
        key = _newest_key(before, self.bad)
        measured = before.model_copy(update={'faults': self.faults, 'key': key})
        now = _described(measured, changes)
        waits = self._waits(now)
        state = self._state(now, waits)
        events = before.events + self._events(state)
        ack = ''
        if state != 'open':
            ack = before.ack or _ack(self.bad)
        update: dict[str, Any] = {'state': state, 'waits': waits, 'ack': ack, 'events': events}
        if self.back:
            update['begin'] = min(bad.fault.since for bad in self.bad)
        return now.model_copy(update=update)

    def _waits(self, now: Incident) -> list[str]:
        """Return the nodes that must be measured again, where all cells ended."""
        if now.left:
            return []
        nodes = []
        for node in self.before.waits or self.before.nodes:
            is_retired = node in self.night.retired
            if not is_retired and not _node_is_measured(now, node, self.night):
                nodes.append(node)
        return nodes

    def _state(self, now: Incident, waits: list[str]) -> Literal['over', 'known', 'open']:
        left = now.left
        if not left and not waits and not self._comes_and_goes():
            return 'over'
        faults = left or now.faults
        known = all(fault.acknowledged for fault in faults.values())
        return 'known' if known else 'open'

    def _comes_and_goes(self) -> bool:
        """Return whether it was over before and came back: then it is over after BACK good nights."""
        if not self.before.returned:
            return False
        if any(fault.retired for fault in self.faults.values()):
            return False
        last = _last_bad(self.faults)
        return last > self.calendar.before(self.night.start, BACK)

    def _events(self, state: str) -> list[Event]:
        """Return what changed tonight."""
        before, night = self.before, self.night
        was_open = before.state == 'open'
        events = []
        if self.back:
            over_since = times.day(before.closed.start)
            events.append(_event('back', night, f'over {over_since}'))
        elif self.also:
            names = [bad.row.name if bad.row else bad.name for bad in self.also]
            events.append(_event('also', night, several(names)))
        if self.worse:
            worst = self.worse[0].row
            events.append(_event('worse', night, worst.name))
        elif before.state == 'known' and state == 'open' and self._is_due():
            events.append(_event('due', night, before.ack))
        if was_open and state == 'known':
            events.append(_event('known', night))
        if state == 'over':
            events.append(_event('over', night, self._retired_text()))
        return events

    def _is_due(self) -> bool:
        """Return whether the acknowledgement of a fault ended, and the fault did not."""
        for name, fault in self.before.faults.items():
            if fault.acknowledged and not self.faults[name].acknowledged:
                return True
        return False

    def _retired_text(self) -> str:
        """Return what its faults are retired with, else which of its nodes are retired: 'c1 retired'; '' for
        nothing."""
        retired = {fault.retired for fault in self.faults.values() if fault.retired}
        if not retired:
            retired = self.night.retired.intersection(self.before.nodes)
        if not retired:
            return ''
        names = several(sorted(retired))
        return f'{names} retired'


def _last_bad(faults: Mapping[str, Fault]) -> float:
    """Return when the last night began on which one of the faults was bad."""
    return max(fault.measured for fault in faults.values())


def _newest_key(incident: Incident, bad: list[Bad]) -> list[str]:
    """Return the key of an incident: that of tonight's failures, where all are alike."""
    keys = {tuple(fault.key) for fault in bad}
    if len(keys) != 1 or not _failed_in_partition(incident.key):
        return incident.key
    newest = bad[0].key
    if _failed_in_partition(newest):
        return newest
    return incident.key


def _failed_in_partition(key: Sequence[str]) -> bool:
    return key[0] == 'failed' and len(key) > 2 and key[1] != 'node'


def _still_acknowledged(fault: Fault, held: bool, holding: Collection) -> Fault:
    """Return a fault, acknowledged only while its cell or its incident (``held``) is in ``holding``."""
    if not fault.acknowledged or held:
        return fault
    case = fault.cell.partition('+')[0]
    named = fault.cell in holding or case in holding
    return fault.model_copy(update={'acknowledged': named})


def _again(name: str, fault: Fault, night: Night) -> Fault:
    """Return a fault that its incident does not have tonight: it ended with its cell, wherever that ran; another
    incident has it; or it is retired."""
    retired = _retired_with(name, fault, night)
    if retired:
        return fault.model_copy(update={'well': True, 'retired': retired})
    bad = night.bad.get(name)
    if bad and bad.fault.word == fault.word:
        return fault.model_copy(update={'well': True, 'moved': True})
    if bad:
        well = _RUNGS[bad.fault.word] > _RUNGS[fault.word]
    elif fault.listed:
        well = _off_the_list(fault, night)
    else:
        well = _ended(fault, _in_order(name, night))
    return fault.model_copy(update={'well': well})


def _retired_with(name: str, fault: Fault, night: Night) -> str:
    """Return what a fault is retired with: its cell or all its nodes; '' for nothing."""
    if name in night.retired:
        return name
    if fault.nodes and night.retired.issuperset(fault.nodes):
        return ', '.join(fault.nodes)
    return ''


def _off_the_list(fault: Fault, night: Night) -> bool:
    """Return whether the listing of nodes names a node no more: it is mended, or was not named for long."""
    if night.mended.intersection(fault.nodes):
        return True
    age = night.start - fault.measured
    return bool(night.session) and age > _LISTING_SECONDS


def _in_order(name: str, night: Night) -> Well | None:
    """Return the cell of a fault where it is in order tonight. One that no environment offered is in order in any
    environment."""
    is_without_environ = '+ ' in name
    wells = night.well_in_any_environ if is_without_environ else night.well
    return wells.get(name)


def _ended(fault: Fault, well: Well | None) -> bool:
    """Return whether a fault ended with a cell that is in order tonight; ``well``: None of one that was not
    measured."""
    if well is None:
        return False
    return fault.word != 'regressed' or well.state not in acks.LASTING


def _node_is_measured(incident: Incident, node: str, night: Night) -> bool:
    """Return whether a node was measured after it was bad and is in order: tonight, by a turn, at the gate, or by
    the listing: that calls it mended tonight, or was the last to name it. Where nothing ran, any figure does."""
    if node in night.mended:
        return True
    faults = incident.faults
    last = _last_bad(faults)
    for fault in faults.values():
        if fault.listed and fault.measured == last and node in fault.nodes:
            return True
    from parity.judge.nodes import figures as of_nodes  # it loads polars
    measured = of_nodes.since(night.system, node, last)
    for name, well in night.well.items():
        if node in well.ran_on:
            measured[name] = well.value
    if all(fault.word in ('failed', 'missing') for fault in faults.values()):
        return bool(measured)
    left = []
    for name, fault in faults.items():
        if name in measured:
            left.append(_left(measured[name], fault))
    return bool(left) and median(left) < _HALF


def _left(value: float | None, fault: Fault) -> float:
    """Return the share of a slowdown that is left at ``value``; 0 of another fault, and where nothing is known."""
    expected = fault.expected
    if value is None or fault.value is None or expected is None:
        return 0.0
    if fault.word != 'regressed' or fault.value == expected:
        return 0.0
    lost = fault.value - expected
    return (value - expected) / lost


# ---- acknowledgements

def acknowledgeable(incident: Incident) -> dict[str, Fault]:
    """Return the faults of an open incident that can be acknowledged: neither what never ran nor a whole night."""
    if incident.closed:
        return {}
    open_faults = {}
    for name, fault in (incident.left or incident.faults).items():
        if fault.word in acks.BAD and name != WHOLE:
            open_faults[name] = fault
    return open_faults


def acknowledged(number: int, cells: Collection[str], ack: str, write: Callable[[], object]) -> None:
    """Note that cells of an incident are known; not any more where ``ack`` is ''. ``write`` has acks.yaml say so.

    ``cells``: their names, or those of their faults. A node or a pair, which is no cell, is known with them."""
    turned = partial(_with_ack, cells=cells, ack=ack)
    table.change({number: turned}, write)


def _with_ack(incident: Incident, cells: Collection[str], ack: str) -> dict[str, Any]:
    """Return the changes in an incident some of whose cells are known, or not any more."""
    if incident.closed:
        return {}
    faults = dict(incident.faults)
    for name, fault in incident.faults.items():
        if not fault.cell or name in cells or fault.cell in cells:
            faults[name] = fault.model_copy(update={'acknowledged': bool(ack), 'beyond_ack': False})
    text = ack or table.TAKEN_BACK
    event = Event(what='known', session='', start=time.time(), text=text)
    update = {'faults': faults, 'events': [*incident.events, event]}
    left = [fault for fault in faults.values() if not fault.well] or faults.values()
    if all(fault.acknowledged for fault in left):
        return {**update, 'state': 'known', 'ack': ack}
    return {**update, 'state': 'open', 'ack': ''}


# ---- the incidents of a verdict

def numbered(cells: list[Cell], known: Sequence[Incident], session: str, start: float) -> list[Cell]:
    """Return the cells, the bad ones with the number of the incident that they fit, of those of the session."""
    failures = Failures(cells)
    faults = []
    for row in rows(cells):
        if row.cell.verdict in BAD:
            faults.append(of_cell(row, start, failures))
    before = [incident for incident in known if not _ended_by(incident, session)]
    by_name = numbers(faults, before, Calendar.stored())
    by_cell = {id(fault.row.cell): by_name[fault.name] for fault in faults}
    with_numbers = []
    for cell in cells:
        number = by_cell.get(id(cell), 0)
        with_numbers.append(cell.model_copy(update={'incident': number}))
    return with_numbers


def _ended_by(incident: Incident, session: str) -> bool:
    return incident.closed is not None and incident.closed.session == session


def numbered_pairs(pairs: Iterable[PairState], known: Sequence[Incident]) -> list[PairState]:
    """Return the pairs, those that are not as expected with the number of their incident."""
    by_name: dict[str, int] = {}
    for incident in known:
        by_name |= dict.fromkeys(incident.left, incident.number)
    with_numbers = []
    for pair in pairs:
        number = 0
        if pair.state == 'regressed':
            number = by_name.get(of_pair(pair), 0)
        with_numbers.append(pair.model_copy(update={'incident': number}))
    return with_numbers


def slow_nodes(cells: Iterable[Cell], start: float) -> list[NamedNode]:
    """Return the nodes that tonight's slower cells name: their incident is opened at the end of the night."""
    from parity.judge.compare.named import NamedNode  # of a site that declares pairs of partitions
    named = []
    for cell in cells:
        where = cell.cause.where if cell.cause else Where()
        if cell.verdict != 'regressed' or where.kind != 'node':
            continue
        for name in where.name.split(', '):
            named.append(NamedNode(node_name(name), cell.incident, cell.begin or start))
    return named


def joined(verdict: Verdict, known: Sequence[Incident]) -> Verdict:
    """Return the verdict, just recorded, with the incidents that are open and those that it ended."""
    uuid = verdict.session.uuid
    here = [incident for incident in known if not incident.closed or _ended_by(incident, uuid)]
    starts = database.starts()
    cells = numbered(verdict.cells, here, uuid, starts.get(uuid, 0.0))
    pairs = numbered_pairs(verdict.pairs, here)
    code = verdict.exit_code
    if code != errors.USAGE and of_nodes(here, uuid):
        code = errors.REGRESSED
    return verdict.model_copy(update={'incidents': here, 'cells': cells, 'pairs': pairs, 'exit_code': code})


def of_nodes(known: Iterable[Incident], session: str, acknowledged: bool = False) -> list[Incident]:
    """Return the incidents of nodes that the listing of a night names: those that are ``acknowledged``, or the
    others."""
    listed = []
    for incident in known:
        if any(fault.listed for fault in incident.faults.values()):
            listed.append(incident)
    if not listed:
        return []
    start = database.starts().get(session, 0.0)
    tonight = [incident for incident in listed if _names_node(incident, start)]
    held: set[int | None] = set()
    for system in {incident.system for incident in tonight}:
        held |= {ack.incident for ack in acks.held(system)}
    return [incident for incident in tonight if (incident.number in held) == acknowledged]


def _names_node(incident: Incident, start: float) -> bool:
    """Return whether the listing named the node of an incident on the night that began at ``start``."""
    for fault in incident.faults.values():
        first = min(fault.since, fault.measured)
        if fault.listed and first <= start <= fault.measured:
            return True
    return False


def turn(incident: Incident, session: str) -> str:
    """Return what a session made of the incident: new, also, worse, due, over, back; '' for none."""
    for event in incident.events:
        if event.session == session and event.what in NEWS:
            return event.what
    return ''
