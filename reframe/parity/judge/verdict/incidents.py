"""The life of incidents: what a night changes, and what is news.

An incident is over when each cell ended. Where a node is to blame, that node must have been measured again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from parity.base import errors, figures, times
from parity.base.figures import several
from parity.base.reasons import Kind
from parity.base.text import node_name
from parity.judge.compare.named import NamedNode
from parity.judge.compare.pairs import PairState
from parity.judge.store import database
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Change, Event, Fault, Incident, PairFigure, Where
from parity.judge.store.plan_file import cell_id
from parity.judge.verdict import acks
from parity.judge.verdict.joining import BACK, Bad, Calendar, homes, numbers
from parity.judge.verdict.model import BEGAN_WITHIN, Attribution, Cell, CellText, Subsystem, Verdict, rows
from parity.site import systems
from parity.site.identity import undistributed

#: Words that a person must act on.
BAD = (*acks.BAD, 'missing')
#: Events for a notice.
NEWS = ('new', 'also', 'worse', 'due', 'over', 'back')
#: Stands for a whole night that stored no session, or measured nothing.
WHOLE = 'ci/nightly'
#: How far a cell came: one that came farther than its fault shows that the fault is over.
_RUNGS = {'missing': 0, 'skipped': 0, 'failed': 1, 'disturbed': 1, 'wrong': 2, 'impossible': 2, 'regressed': 3}
#: A node that the listing did not name for so long is not slow: the nights of a listing are newer.
_LISTING_SECONDS = 8 * 86400.0


# ---- a night

class Well(NamedTuple):
    """A cell or a pair in order tonight. ``state``: of its life, which says whether its slowdown ended."""

    ran_on: list[str]
    state: str = 'normal'
    value: float | None = None


class Night(NamedTuple):
    """Bad and well cells by name. ``retired``: names, and nodes, that nobody waits for. ``mended``: nodes that the
    listing does not call slow any more."""

    system: str
    session: str
    start: float
    bad: dict[str, Bad]
    well: dict[str, Well]
    retired: frozenset[str]
    mended: frozenset[str] = frozenset()


def record(verdict: Verdict | None, system: str, interrupted: bool = False) -> list[Incident]:
    """Record what a night makes of the system's incidents, and return them; None stored no session.

    ``interrupted``: by its operator. What did not end then was not measured."""
    session = verdict.session.uuid if verdict else ''
    start = database.starts().get(session, time.time())
    from parity.judge.nodes import listing  # it loads polars
    days = Calendar.stored()
    holding = {of for ack in acks.held(system) for of in (ack.cell, ack.incident)}

    def changed(known: Sequence[Incident]) -> list[Incident]:
        left = [each for each in known if not each.closed]
        since = listing.well_since(system) if verdict else {}
        slow = listing.twice(system, since, [(node, fault.part) for each in left for fault in each.left.values()
                                             for node in fault.nodes if fault.listed]) if verdict else {}
        before = _slow_parts(left) if verdict else {}
        begun = {node: each.begin - 1 for each in left for node in each.nodes}    # later nights count
        mended = listing.mended(system, before, {
            node: max(since.get(node, 0.0), begun.get(node, 0.0)) for node in {*since, *begun}})
        slow = {key: share for key, share in slow.items() if key not in before or key[0] not in mended}
        return after(known, of_verdict(verdict, system, start, interrupted, slow, mended), days, holding)
    return table.record(system, session, start, changed)


def _slow_parts(known: Iterable[Incident]) -> dict[tuple[str, str], float]:
    """Return the nodes that incidents blame, by (node, part), with their speed as a share of their peers'."""
    from parity.judge.nodes.figures import listed_part  # it loads polars
    losses = defaultdict(list)
    for each in known:
        for fault in (fault for fault in each.faults.values() if fault.loss):
            part = fault.part if fault.listed else listed_part(fault.cell, fault.part)
            for node in fault.nodes if fault.listed else each.nodes:
                losses[node, part].append(fault.loss)
    return {key: 1 - median(found) for key, found in losses.items()}


def of_verdict(verdict: Verdict | None, system: str, start: float, interrupted: bool = False,
               slow: Mapping[tuple[str, str], float] | None = None,
               mended: Collection[str] = ()) -> Night:
    """Return what a night measured: cells, named with their size, pairs, and the night itself.

    A cell that was skipped, or that is disturbed tonight, was not measured. ``slow``: nodes by (node, part), which
    two listings of other jobs name, and their share of their peers' speed. ``mended``: nodes that were slow."""
    night = Night(system, verdict.session.uuid if verdict else '', start, {}, {}, _retired(verdict, system, start),
                  frozenset(mended))

    def note(name: str, word: str, title: str) -> None:
        night.bad[name] = Bad(name, [word, name], Fault(verdict=word, since=start, measured=start), title=title)

    if verdict is None:
        if not interrupted:
            note(WHOLE, 'failed', 'ci/nightly stored no session')
        return night
    measured = [row for row in rows(verdict.cells) if not (interrupted and row.cell.stopped)]
    failures = Failures([row.cell for row in measured])
    for row in measured:
        cell, name = row.cell, _name(row.cell)
        if cell.verdict in BAD or cell.unknown:
            night.bad[name] = _bad(row, start, failures)
        elif cell.verdict not in ('skipped', 'disturbed'):
            night.well[name] = Well(cell.ran_on, cell.state, cell.value)
    for (node, part), share in (slow or {}).items():
        if node not in night.retired:
            bad = _of_node(node, part, share, start)
            night.bad[bad.name] = bad
    for pair in verdict.pairs:
        name = of_pair(pair)
        if pair.state == 'regressed':
            night.bad[name] = _bad_pair(pair, start)
        elif pair.state == 'ok':
            night.well[name] = Well([])
    if verdict.exit_code and not night.bad and not interrupted:
        note(WHOLE, 'missing', 'nothing was measured, or a check is broken')
    elif not interrupted:
        night.well[WHOLE] = Well([])
    return night


def _bad_pair(pair: PairState, start: float) -> Bad:
    name = of_pair(pair)
    figure = PairFigure(expected=pair.expected, why=pair.why, ratio=pair.ratio, low=pair.low, high=pair.high,
                        nodes=pair.nodes)
    fault = Fault(verdict='regressed', since=start, measured=start, pair=figure,
                  acknowledged=bool(pair.acknowledged))
    return Bad(name, ['regressed', name], fault, title=f'{name} is not as expected')


def _retired(verdict: Verdict | None, system: str, start: float) -> frozenset[str]:
    """Return the retired cells and nodes, without nodes that ran all the same."""
    ran = {node for cell in verdict.cells for node in cell.ran_on} if verdict else set()
    cells = map(_name, verdict.retired) if verdict else ()
    return frozenset({*systems.gone(systems.read(system), start)} - ran).union(cells)


def of_pair(pair: PairState) -> str:
    """Return the name of a declared pair's figure among the faults of an incident."""
    return f'{pair.candidate} / {pair.baseline} {pair.benchmark}: {pair.metric}{pair.suffix}'


def _name(cell: Cell) -> str:
    return row_name(vars(cell), cell.system)


def row_name(row: Mapping[str, Any], system: str) -> str:
    """Return the name of a planned cell among the faults of an incident."""
    return f'{cell_id({**row, "system": system}, True)} ({row["size"]})'


def _bad(row: CellText, start: float, failures: Failures) -> Bad:
    cell, cause = row.cell, row.cell.cause or Attribution()
    slow, node, where = cell.verdict == 'regressed', failures.node(cell), cause.where
    part = cause.subsystem.name or cell.subsystem
    if slow:
        node = where.name if where.kind == 'node' else ''
        key = ['regressed', where.kind, where.name, part] if where.kind else ['regressed', cell.partition, part]
    elif node:
        key = ['failed', 'node', node, _on_node(cell)]
        cause = Attribution(where=Where(kind='node', name=node, why='no case ended well'))
    else:
        key = failures.key(cell)
    value = _slow_level(cell, start) if slow else cell.value
    fault = Fault(verdict=cell.verdict, since=slow and cell.begin or start, measured=start,
                  detected=slow and cell.detected or 0.0, last_good=slow and cell.last_good or 0.0,
                  first_slow=slow and cell.first_slow or 0.0, cell=row.name, part=cell.subsystem, unit=cell.unit,
                  value=value, expected=cell.expected, loss=loss(cell, value),
                  nodes=[node] if node else sorted(cell.ran_on), acknowledged=bool(cell.acknowledged))
    return Bad(_name(cell), key, fault, cause, row)


def _slow_level(cell: Cell, start: float) -> float | None:
    """Return the level of a slow cell; tonight's figure where it is worse and found the slowdown."""
    if not cell.begin or cell.level is None:
        return cell.value
    known = (cell.level, cell.value) if cell.detected == start else (cell.level,)
    return max(known, key=lambda value: loss(cell, value))


def _of_node(node: str, part: str, share: float, start: float) -> Bad:
    where = Where(kind='node', name=node, why='slower than its peers night after night')
    fault = Fault(verdict='regressed', since=start, measured=start, part=part, loss=1 - share, nodes=[node])
    return Bad(f'node {node}: {part}', ['regressed', 'node', node, part], fault,
               Attribution(where=where, subsystem=Subsystem(name=part)))


def loss(cell: Cell, value: float | None) -> float:
    """Return by which share of its expected value ``value`` is worse; 0 where nothing is known."""
    if value is None or not cell.expected:
        return 0.0
    share = (value - cell.expected) / abs(cell.expected)
    return max(0.0, share if cell.better == 'lower' else -share)


class Failures:
    """The places of a night's failures: a node on which no case ended well, a partition, one check."""

    def __init__(self, cells: Sequence[Cell]):
        failed = [cell for cell in cells if cell.verdict in ('failed', 'missing')]
        ran = [cell for cell in cells if cell.verdict not in ('failed', 'missing', 'skipped')]
        fine = {cell.partition for cell in ran}
        well = {node for cell in ran for node in cell.ran_on}
        cases = defaultdict(set)
        for cell in failed:
            for node in _one_node(cell):
                if cell.partition in fine and node not in well:
                    cases[node, _on_node(cell)].add(cell.case)
        #: Nodes, each with how its cases failed: several did so, or it failed itself.
        self._dead = {key for key, names in cases.items() if len(names) > 1}
        by_partition: dict[str, list[set[str]]] = defaultdict(list)
        for cell in failed:
            if cell.kind is Kind.NODE:
                self._dead.update((node, '') for node in _one_node(cell))
                by_partition[cell.partition].append({*cell.ran_on})
        for shared in (set.intersection(*jobs) for jobs in by_partition.values()):
            self._dead |= {(node, '') for node in shared} if len(shared) == 1 else set()

    def node(self, cell: Cell) -> str:
        """Return the node on which no case ended well, where that is why the cell has no figure."""
        if cell.verdict not in ('failed', 'missing') or cell.kind in _OF_NO_NODE:
            return ''
        nodes = _one_node(cell) or cell.ran_on
        return next((node for node in nodes if (node, _on_node(cell)) in self._dead), '')

    @staticmethod
    def key(cell: Cell) -> list[str]:
        """Return kind and place of a failure: never a sentence. One kind in a partition is one a night."""
        kind = ''
        if cell.verdict == 'failed':
            kind = _how_failed(cell)
        elif cell.verdict == 'missing':
            kind = 'absent' if cell.environ else 'no program'
            kind = 'stopped' if cell.stopped else kind
        return [cell.verdict, cell.partition, kind]


#: Kinds of failures that no node is to blame for.
_OF_NO_NODE = (Kind.PLACEMENT, Kind.LAUNCH, Kind.UNREAD)


def _how_failed(cell: Cell) -> str:
    """Return how a case failed: the last word of the key of its like."""
    if cell.kind in (Kind.LIMIT, Kind.ENDED, *_OF_NO_NODE):
        return cell.kind.value
    if not cell.ran_on:
        return table.NOT_BEGUN
    return cell.kind.value if cell.kind is Kind.CANCELLED else ''


def _on_node(cell: Cell) -> str:
    """Return how a case failed, where it is compared with others of its node: a node may let none begin, have all
    run out of time, or fail under them."""
    return cell.kind.value if cell.kind in (Kind.LIMIT, Kind.ENDED) else ''


def _one_node(cell: Cell) -> list[str]:
    """Return the node of a case that ran, or should have run, on one node."""
    node = undistributed(cell.case)[1]
    return [node] if node else cell.ran_on if len(cell.ran_on) == 1 else []


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
    night = Night(table[0].cell.system if table else '', '', 0.0, {}, {}, frozenset())
    known: dict[int, list[Bad]] = defaultdict(list)
    for row in table:
        known[row.cell.incident].append(_bad(row, 0.0, failures))
    new = known.pop(0, [])
    groups = [*known.values()]
    if new:
        groups += [home.bad for home in homes(new, (), Calendar.stored())]
    found = []
    for group in groups:
        group = sorted(group, key=lambda bad: -bad.fault.loss)
        incident = _opened(group, night)
        found.append(FaultGroup(incident.title, incident.where, incident.part, [bad.row for bad in group]))
    return found


# ---- what a night makes of incidents

def after(known: Sequence[Incident], night: Night, calendar: Calendar, holding: Collection = ()) -> list[Incident]:
    """Return the open incidents after the night, those of ``known`` that are back, and the new ones with number 0.
    ``holding``: cells, and numbers of incidents, that are acknowledged."""
    held_by = {name: incident.number for incident in known if not incident.closed for name in incident.left}
    found = []
    for home in homes(night.bad.values(), known, calendar):
        bad = sorted(home.bad, key=lambda each: -each.fault.loss)
        if home.incident is None:
            found.append(_opened(bad, night, held_by))
        else:
            found.append(_Turn(home.incident, bad, night, calendar, holding).incident())
    return found


def _opened(group: list[Bad], night: Night, held_by: Mapping[str, int] = MappingProxyType({})) -> Incident:
    """Return a new incident; ``held_by``: the numbers of the incidents that had its faults until tonight."""
    first = group[0]
    faults = {bad.name: _fault(bad) for bad in group}
    known = all(fault.acknowledged for fault in faults.values())
    incident = Incident(number=0, uuid=f'{night.session or night.start}:{first.name}', system=night.system,
                        state='known' if known else 'open', key=first.key, begin=first.fault.since, faults=faults,
                        title=first.title, ack=_ack(group) if known else '',
                        events=[_event('new', night, _counted(group, held_by))])
    return _described(incident, node=first.node)


def _counted(group: list[Bad], held_by: Mapping[str, int]) -> str:
    """Return '12 cells, 2 of incident 1'."""
    if not group[0].row:
        return ''
    texts = [figures.counted(len(group), 'cell')]
    moved = Counter(held_by[bad.name] for bad in group if bad.slow and bad.name in held_by)
    for number, count in sorted(moved.items()):
        texts.append(f'{count} of incident {number}')
    return ', '.join(texts)


def _event(what: str, night: Night, text: str = '') -> Event:
    return Event(what=what, session=night.session, start=night.start, text=text)


def _ack(group: Iterable[Bad]) -> str:
    """Return the text of the first acknowledgement of these faults; '' for none."""
    acknowledged = (bad.row.cell.acknowledged for bad in group if bad.row)
    return next(filter(None, acknowledged), '')


def _fault(bad: Bad, old: Fault | None = None, nodes: Collection[str] = (), first: bool = True) -> Fault:
    """Return a fault of tonight with its place and its part: those of ``old`` where tonight does not know them.

    The place is tonight's where it is as narrow as its incident's, of ``nodes``. ``first``: it has no incident."""
    where, part = bad.cause.where, bad.cause.subsystem.name
    fits = first or (where.kind == 'node') == bool(nodes)
    if old and not (where.kind and fits):
        where = old.where
    if old and not (part and fits):
        part = old.blamed
    return bad.fault.model_copy(update={'where': where, 'blamed': part})


def _described(incident: Incident, node: str = '', changes: Sequence[list[Change]] = ()) -> Incident:
    """Return the incident with the place, the part and the title that its cells have now; ``node``: of a new one.

    An incident keeps its title where all of its cells ended, and where it has no cell and no node."""
    left = sorted(incident.left.values(), key=lambda fault: -fault.loss)
    incident = incident.model_copy(update={'changes': table.explaining(incident.changes, *changes)})
    if not any(fault.cell or fault.listed for fault in left):
        return incident
    where = _place(incident, left, node)
    parts = Counter(fault.blamed for fault in left if fault.blamed)
    part = parts.most_common(1)[0][0] if parts else incident.part
    incident = incident.model_copy(update={'where': where, 'part': part})
    return incident.model_copy(update={'title': table.title(incident)})


def _place(incident: Incident, left: Sequence[Fault], node: str) -> Where:
    """Return the place of the cells that are left. A node's incident stays that node's."""
    named = [fault.where for fault in left if fault.where.kind]
    if node or incident.nodes:
        of_node = [where for where in named if where.kind == 'node']
        return of_node[0] if of_node else incident.where
    wide = [where for where in named if where.kind != 'node'] or [incident.where]
    if not wide[0].kind:
        return wide[0]
    partitions = sorted({fault.partition for fault in left} - {''})
    kind: Literal['everything', 'partition'] = 'partition'
    if len(partitions) > 1 and any(where.kind == 'everything' for where in wide):
        kind = 'everything'
    why = next((where.why for where in wide if where.kind == kind), '')
    return Where(kind=kind, name=', '.join(partitions) or wide[0].name, why=why)


class _Turn:
    """The turn that an incident takes in a night; ``bad``: its faults that the night measured."""

    def __init__(self, incident: Incident, bad: list[Bad], night: Night, calendar: Calendar, holding: Collection):
        self.before, self.bad, self.night, self.calendar = incident, bad, night, calendar
        self.back = bool(incident.closed)
        self.also: list[Bad] = []
        self.worse: list[Bad] = []
        self.faults = self._faults(holding)

    def _faults(self, holding: Collection) -> dict[str, Fault]:
        held = self.before.number in holding
        own = {bad.name for bad in self.bad}
        faults = {}
        for name, fault in self.before.faults.items():
            fault = _still_acknowledged(fault, held, holding)
            faults[name] = fault if fault.well or name in own else _again(name, fault, self.night)
        for bad in self.bad:
            faults[bad.name] = self._measured(bad, held)
        return faults

    def _measured(self, bad: Bad, held: bool) -> Fault:
        """Return a fault that is bad tonight, and note whether it is news."""
        old = self.before.faults.get(bad.name)
        new = _fault(bad, old, self.before.nodes, self.back)
        if new.listed:
            new = new.model_copy(update={'acknowledged': held})
        if old is None or self.back or old.well and new.since - old.since > BEGAN_WITHIN.total_seconds():
            self.also.append(bad)
        elif not old.well:
            if _worse(old, bad) and not new.acknowledged:
                self.worse.append(bad)
            new = new.model_copy(update={'since': old.since})
        return new

    def incident(self) -> Incident:
        """Return the incident after the night."""
        before = self.before
        now = before.model_copy(update={'faults': self.faults, 'key': _newest_key(before, self.bad)})
        now = _described(now, changes=[bad.cause.changes for bad in self.also])
        left = now.left
        waits = [] if left else self._waits(now)
        known = all(fault.acknowledged for fault in (left or self.faults).values())
        state: Literal['over', 'known', 'open'] = 'known' if known else 'open'
        if not left and not waits and not self._comes_and_goes():
            state = 'over'
        begin = min(bad.fault.since for bad in self.bad) if self.back else before.begin
        ack = before.ack or _ack(self.bad) if state != 'open' else ''
        return now.model_copy(update={'begin': begin, 'state': state, 'waits': waits, 'ack': ack,
                                      'events': [*before.events, *self._events(state)]})

    def _waits(self, now: Incident) -> list[str]:
        """Return the nodes that must be measured again."""
        asked = self.before.waits or self.before.nodes
        return [node for node in asked if node not in self.night.retired and not _measured(now, node, self.night)]

    def _comes_and_goes(self) -> bool:
        """Return whether it was over before and came back: then it is over after BACK good nights."""
        if not self.before.returned or any(fault.retired for fault in self.faults.values()):
            return False
        last = max(fault.measured for fault in self.faults.values())
        return last > self.calendar.before(self.night.start, BACK)

    def _events(self, state: str) -> list[Event]:
        """Return what changed tonight."""
        before, events = self.before, []
        lost = any(fault.acknowledged and not self.faults[name].acknowledged
                   for name, fault in before.faults.items())
        if self.back:
            events.append(_event('back', self.night, f'over {times.day(before.closed.start)}'))
        elif self.also:
            names = [bad.row.name if bad.row else bad.name for bad in self.also]
            events.append(_event('also', self.night, several(names)))
        if self.worse:
            events.append(_event('worse', self.night, self.worse[0].row.name))
        elif before.state == 'known' and state == 'open' and lost:
            events.append(_event('due', self.night, before.ack))
        if before.state == 'open' and state == 'known':
            events.append(_event('known', self.night))
        if state == 'over':
            gone = {fault.retired for fault in self.faults.values()} - {''} or self.night.retired & {*before.nodes}
            events.append(_event('over', self.night, f'{several(sorted(gone))} retired' if gone else ''))
        return events


def _newest_key(incident: Incident, bad: list[Bad]) -> list[str]:
    """Return the key of an incident: that of tonight's failures, where all are alike."""
    keys = {tuple(each.key) for each in bad}
    of_cells = incident.key[0] == 'failed' and incident.key[1:2] != ['node'] and len(incident.key) > 2
    if not of_cells or len(keys) != 1 or bad[0].key[0] != 'failed' or bad[0].key[1] == 'node':
        return incident.key
    return bad[0].key


def _worse(old: Fault, bad: Bad) -> bool:
    """Return whether a further drop was found: of the level, as tonight's figure alone may be an outlier. A level
    that was found some nights ago is still settling, and that of a further spell."""
    cell = bad.row.cell if bad.row else None
    now = loss(cell, cell.level) if cell and cell.level else bad.fault.loss
    settled = old.detected - old.since >= BEGAN_WITHIN.total_seconds() and bad.fault.since <= old.detected
    lasts = bad.fault.detected - old.detected >= BEGAN_WITHIN.total_seconds()
    return lasts and old.detected > 0 and acks.further(old.loss, now, settled, cell)


def _still_acknowledged(fault: Fault, held: bool, holding: Collection) -> Fault:
    """Return a fault, acknowledged only while its cell or its incident (``held``) is in ``holding``."""
    named = {fault.cell, fault.cell.partition('+')[0]} & {*holding}
    return fault.model_copy(update={'acknowledged': fault.acknowledged and (held or bool(named))})


def _again(name: str, fault: Fault, night: Night) -> Fault:
    """Return a fault that its incident does not have tonight: it ended with its cell, wherever that ran; another
    incident has it; or it is retired."""
    if name in night.retired or fault.nodes and night.retired.issuperset(fault.nodes):
        gone = name if name in night.retired else ', '.join(fault.nodes)
        return fault.model_copy(update={'well': True, 'retired': gone})
    bad, well = night.bad.get(name), night.well.get(name)
    if bad and bad.fault.word == fault.word:
        return fault.model_copy(update={'well': True, 'moved': True})
    if bad:
        return fault.model_copy(update={'well': _RUNGS[bad.fault.word] > _RUNGS[fault.word]})
    if fault.listed:
        mended = night.mended.intersection(fault.nodes)
        forgotten = night.session and night.start - fault.measured > _LISTING_SECONDS
        return fault.model_copy(update={'well': bool(mended or forgotten)})
    lasts = well is None or fault.word == 'regressed' and well.state in acks.LASTING
    return fault.model_copy(update={'well': not lasts})


def _measured(incident: Incident, node: str, night: Night) -> bool:
    """Return whether a node was measured after it was bad and is in order: tonight, by a turn, at the gate, or by
    the listing: that calls it mended tonight, or was the last to name it. Where nothing ran, any figure does."""
    last = max(fault.measured for fault in incident.faults.values())
    if node in night.mended or any(
            fault.listed and node in fault.nodes and fault.measured == last for fault in incident.faults.values()):
        return True
    from parity.judge.nodes import figures as of_nodes  # it loads polars
    found = of_nodes.since(night.system, node, last) | {
        name: each.value for name, each in night.well.items() if node in each.ran_on}
    if all(fault.word in ('failed', 'missing') for fault in incident.faults.values()):
        return bool(found)
    left = [_left(found[name], fault) for name, fault in incident.faults.items() if name in found]
    return bool(left) and median(left) < 0.5


def _left(value: float | None, fault: Fault) -> float:
    """Return the share of a slowdown that is left at ``value``; 0 of another fault, and where nothing is known."""
    if None in (value, fault.value, fault.expected) or fault.word != 'regressed' or fault.value == fault.expected:
        return 0.0
    return (value - fault.expected) / (fault.value - fault.expected)


def acknowledgeable(incident: Incident) -> dict[str, Fault]:
    """Return the faults of an open incident that can be acknowledged: neither what never ran nor a whole night."""
    if incident.closed:
        return {}
    return {name: fault for name, fault in (incident.left or incident.faults).items()
            if fault.word in acks.BAD and name != WHOLE}


def acknowledged(number: int, cells: Collection[str], ack: str, write: Callable[[], object]) -> None:
    """Note that cells of an incident are known; not any more where ``ack`` is ''. ``write`` has acks.yaml say so.

    ``cells``: their names, or those of their faults. A node or a pair, which is no cell, is known with them."""
    def turned(incident: Incident) -> dict[str, Any]:
        if incident.closed:
            return {}
        faults = {name: fault.model_copy(update={'acknowledged': bool(ack)}) if {name, fault.cell} & {*cells}
                  or not fault.cell else fault for name, fault in incident.faults.items()}
        left = [fault for fault in faults.values() if not fault.well] or faults.values()
        known = all(fault.acknowledged for fault in left)
        now = Event(what='known', session='', start=time.time(), text=ack or table.TAKEN_BACK)
        return {'faults': faults, 'state': 'known' if known else 'open', 'ack': ack if known else '',
                'events': [*incident.events, now]}
    table.change({number: turned}, write)


# ---- the incidents of a verdict

def numbered(cells: list[Cell], known: Sequence[Incident], session: str, start: float) -> list[Cell]:
    """Return the cells, the bad ones with the number of the incident that they fit, of those of the session."""
    failures = Failures(cells)
    bad = [_bad(row, start, failures) for row in rows(cells) if row.cell.verdict in BAD]
    before = [each for each in known if each.closed is None or each.closed.session != session]
    by_name = numbers(bad, before, Calendar.stored())
    found = {id(each.row.cell): by_name[each.name] for each in bad}
    return [cell.model_copy(update={'incident': found.get(id(cell), 0)}) for cell in cells]


def numbered_pairs(pairs: Iterable[PairState], known: Sequence[Incident]) -> list[PairState]:
    """Return the pairs, those that are not as expected with the number of their incident."""
    by_name = {name: each.number for each in known for name in each.left}
    numbered = []
    for pair in pairs:
        number = by_name.get(of_pair(pair), 0) if pair.state == 'regressed' else 0
        numbered.append(pair.model_copy(update={'incident': number}))
    return numbered


def slow_nodes(cells: Iterable[Cell], start: float) -> list[NamedNode]:
    """Return the nodes that tonight's slower cells name: their incident is opened at the end of the night."""
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
    now = [each for each in known if each.closed is None or each.closed.session == uuid]
    cells = numbered(verdict.cells, now, uuid, database.starts().get(uuid, 0.0))
    turned = {'exit_code': errors.REGRESSED} if of_nodes(now, uuid) and verdict.exit_code != errors.USAGE else {}
    pairs = numbered_pairs(verdict.pairs, now)
    return verdict.model_copy(update={'incidents': now, 'cells': cells, 'pairs': pairs, **turned})


def of_nodes(known: Iterable[Incident], session: str, acknowledged: bool = False) -> list[Incident]:
    """Return the incidents of nodes that the listing of a night names: those that are ``acknowledged``, or the
    others."""
    listed = [(each, fault) for each in known for fault in each.faults.values() if fault.listed]
    start = database.starts().get(session, 0.0) if listed else 0.0
    named = {each.number: each for each, fault in listed
             if min(fault.since, fault.measured) <= start <= fault.measured}
    held = {ack.incident for system in {each.system for each in named.values()} for ack in acks.held(system)}
    return [each for each in named.values() if (each.number in held) == acknowledged]


def turn(incident: Incident, session: str) -> str:
    """Return what a session made of the incident: new, also, worse, due, over, back; '' for none."""
    return next((event.what for event in incident.events if event.session == session and event.what in NEWS), '')
