"""Join faults into incidents: those that began together at one place and in one part, or with one change.

All that is slow on one node is one incident, whatever its part and begin. Within a partition and a part the place
that most slow cells name is the place of all."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from parity.base import codes
from parity.judge.store import database
from parity.judge.store.incidents import Change, Fault, Incident, Where
from parity.judge.verdict.model import BEGAN_WITHIN, COMES, Attribution, CellText

#: Faults that began within so many nights began together; so many nights later one may join its partition's.
NIGHTS, LATE = BEGAN_WITHIN.days, 21
#: Words in the name of a part that are no part themselves.
_NO_PART = {'and', 'alike', 'clock'}
#: The place of cells that are slow on all nodes alike, and so many that say so for others.
_WIDE, _FEW = 'all nodes', 2


class Begin(NamedTuple):
    """The begin of a fault, and the night that found it (Unix times). On the night ``last_good`` it surely had not
    begun, and on ``first_slow`` it had; 0: not known."""

    since: float
    detected: float
    last_good: float = 0.0
    first_slow: float = 0.0

    def before(self, other: Begin) -> bool:
        """Return whether it surely began before another: a night later the other had not begun."""
        return 0 < self.first_slow < other.last_good


#: Did two faults begin within so many nights?
Near = Callable[[Begin, Begin, int], bool]


class Bad(NamedTuple):
    """A fault, as a night measured it. ``key``: what its like have in common, the word first."""

    name: str
    key: list[str]
    fault: Fault
    cause: Attribution = Attribution()
    row: CellText | None = None
    title: str = ''                  # of what is no cell

    @property
    def place(self) -> str:
        """Return the node to blame, or _WIDE; '' where the place is not known."""
        where = self.cause.where
        return where.name if where.kind == 'node' else _WIDE if where.kind else ''

    @property
    def changes(self) -> set[tuple]:
        """Return the changes by which it joins others. A maintenance of nodes explains only what shows at once."""
        at_once = self.fault.detected - self.fault.since < BEGAN_WITHIN.total_seconds()
        return _of_changes((change for change in self.cause.changes if at_once or not change.nodes),
                           self.cause.where.kind == 'node')


def _begin(fault: Fault) -> Begin:
    return Begin(fault.since, fault.detected or fault.since, fault.last_good, fault.first_slow)


def _slow(key: Sequence[str]) -> bool:
    return key[0] == 'regressed' and len(key) > 2


def _begin_of(incident: Incident) -> Begin:
    """Return the begin of an incident: it surely had begun when the first of its faults had."""
    begin = incident.begin or incident.since
    own = [fault for fault in incident.faults.values() if fault.since >= begin and fault.first_slow]
    return Begin(begin, incident.since, min((fault.last_good for fault in own), default=0.0),
                 min((fault.first_slow for fault in own), default=0.0))


def near() -> Near:
    """Return the function that says whether faults began within NIGHTS of those that are stored. Where they were
    found within so many, an estimate of the begin may be as far off, unless one surely began before the other."""
    days = sorted({_day(start) for start in database.starts().values()})

    def within(one: float, other: float, nights: int) -> bool:
        first, last = sorted((_day(one), _day(other)))
        at = bisect_right(days, first)
        return last - first < nights or days[at - 1:at] == [first] and bisect_right(days, last) - at < nights
    return lambda one, other, nights=NIGHTS: not one.before(other) and not other.before(one) and (
        within(one.since, other.since, nights) or
        within(one.detected, other.detected, nights) and within(one.since, other.since, 2 * nights))


def _day(unix: float) -> int:
    return datetime.date.fromtimestamp(unix).toordinal()


def _areas(fault: Fault, part: str) -> set[tuple[str, str]]:
    """Return the partition of a slow cell with each part of the machine that it tells of."""
    words = {*part.split()} - _NO_PART | {codes.part_of(fault.cell, fault.part)}
    return {(fault.partition, word) for word in words}


def _wider(where: Where, partition: str, part: str) -> Iterator[tuple]:
    """Yield what slow cells of two partitions share where each names the other, and those of `everything`."""
    yield 'everything', part
    yield from ((*sorted((partition, other)), part) for other in where.name.split(', ') if other != partition)


def _of_changes(changes: Iterable[Change], node: bool) -> set[tuple]:
    return {(node, change.fact, change.old, change.new) for change in changes
            if change.explains and bool(change.nodes) >= node}


def _apart(own: Sequence[Bad], together: Near) -> Iterator[list[Bad]]:
    """Yield those that began together."""
    group: list[Bad] = []
    for each in sorted(own, key=lambda each: each.fault.since):
        if group and not together(_begin(group[0].fault), _begin(each.fault)):
            yield group
            group = []
        group.append(each)
    yield group


class _Sets:
    """Sets of names, which are united."""

    def __init__(self, names: Iterable[str]):
        self._top = {name: name for name in names}

    def first(self, name: str) -> str:
        while self._top[name] != name:
            self._top[name] = name = self._top[self._top[name]]
        return name

    def unite(self, found: Sequence[Bad]) -> None:
        for each in found[1:]:
            self._top[self.first(each.name)] = self.first(found[0].name)


def grouped(found: Iterable[Bad], together: Near) -> list[list[Bad]]:
    """Return what belongs together, the worst of each first."""
    every = {each.name: each for each in sorted(found, key=lambda each: -each.fault.loss)}
    sets, alike, areas = _Sets(every), defaultdict(list), defaultdict(list)
    nodes = defaultdict(list)
    for each in every.values():
        if not _slow(each.key):
            (nodes if each.key[:2] == ['failed', 'node'] else alike)[tuple(each.key)].append(each)
            continue
        where = each.cause.where
        if where.kind == 'node':
            nodes[where.name].append(each)
        for mark in each.changes:
            alike[mark].append(each)
        for partition, part in _areas(each.fault, each.cause.subsystem.name) if each.row else ():
            areas[partition, part].append(each)
            for mark in _wider(where, partition, part) if each.place == _WIDE else ():
                alike[mark].append(each)
    for same in nodes.values():
        sets.unite(same)
    for mark, same in alike.items():
        for own in _apart(same, together):
            if mark[0] != 'everything' or any(each.cause.where.kind == mark[0] for each in own):
                sets.unite(own)
    for same in areas.values():
        for own in _apart(same, together):
            _unite_place(own, sets)
    groups: dict[str, list[Bad]] = defaultdict(list)
    for name, each in every.items():
        groups[sets.first(name)].append(each)
    return [*groups.values()]


def _unite_place(own: Sequence[Bad], sets: _Sets) -> None:
    """Unite cells of a partition and a part that began together: they are at the place that most name.

    Where _FEW or more are slow on all nodes alike, so are those without a known place. Else the latter are one by
    check, and join the place of its others if that is one only."""
    places = Counter(each.place for each in own if each.place)
    most = max(places.values(), default=0)
    chosen = _WIDE if places[_WIDE] == most else next(name for name, count in places.items() if count == most) \
        if most else ''
    if chosen == _WIDE and most >= _FEW:
        sets.unite(own)
        return
    sets.unite([each for each in own if each.place in (chosen, _WIDE) or each.place and chosen == _WIDE])
    by_check = defaultdict(list)
    for each in own:
        by_check[each.row.cell.check].append(each)
    for same in by_check.values():
        known = {sets.first(each.name): each for each in same if each.place}
        unknown = [each for each in same if not each.place]
        sets.unite([*(known.values() if len(known) == 1 else ()), *unknown])


class _Stored:
    """Incidents, found by the names of their faults and by what they have in common with new ones."""

    def __init__(self, known: Sequence[Incident], together: Near):
        self.near, self.by_number = together, {each.number: each for each in known}
        self.having, self.marked = defaultdict(list), defaultdict(list)
        self.begins = {each.number: _begin_of(each) for each in known if not each.closed}
        for each in (each for each in known if not each.closed):
            for name in each.faults:
                self.having[name].append(each)
            for mark in self._marks(each):
                self.marked[mark].append(each)

    @staticmethod
    def _marks(incident: Incident) -> Iterator[tuple]:
        node = incident.where.kind == 'node'
        if not _slow(incident.key):
            yield tuple(incident.key)
            return
        yield from (('node', name) for name in incident.nodes)
        yield from _of_changes(incident.changes, node)
        areas = set().union(*(_areas(fault, incident.part) for fault in incident.left.values() if fault.cell))
        for area in areas if incident.where.kind and not node else ():
            yield area
            yield 'everything', area[1]

    def number_of(self, each: Bad) -> int:
        """Return the number of the incident that a fault belongs to; 0: of none."""
        where = each.cause.where
        for incident in self.having.get(each.name, ()):
            old, known = incident.faults[each.name], where.kind and incident.where.kind
            away = known and 'node' in (where.kind, incident.where.kind) and where.name not in incident.nodes
            same = not old.well and (not away or where.kind != 'node' or each.row and each.row.cell.state == COMES)
            same = same or not (away and old.well) and self.near(
                Begin(old.since, old.detected or old.since), _begin(each.fault))
            if old.word == each.fault.word and same and (known or not incident.waits):
                return incident.number
        if not _slow(each.key):
            ever = each.key[:2] == ['failed', 'node']
            return self._first([tuple(each.key)], lambda one: ever or self.takes(one, each))
        if number := self._first([('node', each.place)], lambda one: True):
            return number
        wide = each.row and each.place == _WIDE
        areas = _areas(each.fault, each.cause.subsystem.name) if wide else set()
        # of one that begins later others say little, and where it is cannot be told
        late = _areas(each.fault, '') if each.row and each.place in ('', _WIDE) else set()
        return self._first(each.changes, lambda one: self.takes(one, each)) \
            or self._first(areas, lambda one: self.takes(one, each)) \
            or self._first(late, lambda one: len(one.left) >= (1 if wide else _FEW) and self.takes(
                one, each, LATE)) \
            or self._first([('everything', part) for _, part in areas], lambda one: self.takes(one, each)
                           and 'everything' in (where.kind, one.where.kind))

    def _first(self, marks: Iterable[tuple], fits: Callable[[Incident], bool]) -> int:
        return min((incident.number for mark in marks for incident in self.marked.get(mark, ()) if fits(incident)),
                   default=0)

    def of_node(self, group: Sequence[Bad]) -> Incident | None:
        """Return the open incident of the node on which alone all of these ran, if they are slow since tonight."""
        nodes = {name for each in group for name in each.fault.nodes}
        tonight = all(_slow(each.key) and each.fault.since == each.fault.measured for each in group)
        marks = [('node', name) for name in nodes] if tonight and len(nodes) == 1 else []
        return self.by_number.get(self._first(marks, lambda one: True))

    def back(self, group: Sequence[Bad]) -> Incident | None:
        """Return the newest incident that is over and that these faults are again: on its node, in a part that was
        slow there, or of most of its cells and no others."""
        word, names = group[0].key[0], {each.name for each in group}
        nodes, parts = {each.place for each in group} - {'', _WIDE}, {each.fault.part for each in group}

        def again(one: Incident) -> bool:
            if nodes or one.nodes:
                slow = {fault.part for fault in one.faults.values()} if word == 'regressed' else parts
                return bool(nodes & {*one.nodes} and parts & slow)
            return names <= one.faults.keys() and 2 * len(names) > len(one.faults)
        return next((one for one in reversed(self.by_number.values())
                     if one.closed and one.key[0] == word and again(one)), None)

    def takes(self, incident: Incident, each: Bad, nights: int = NIGHTS) -> bool:
        """Return whether the incident takes in a fault: they began together, and it does not wait for a node."""
        begin = self.begins[incident.number]
        if each.name in incident.faults:         # it comes back: what was sure of its nights does not count
            begin = Begin(begin.since, begin.detected)
        return not incident.waits and self.near(begin, _begin(each.fault), nights)


def matched(groups: Iterable[list[Bad]], known: Sequence[Incident], together: Near) -> dict[str, int]:
    """Return the number of the incident of each fault, by name; 0 for a new one.

    It is the fault's incident, or that of its group, or of the node that all ran on, or one that is back."""
    found: dict[str, int] = {}
    stored = _Stored(known, together)
    for group in groups:
        own = {each.name: stored.number_of(each) for each in group}
        most = Counter(filter(None, own.values())).most_common(1)
        joined = stored.by_number[most[0][0]] if most else stored.of_node(group) or stored.back(group)
        found |= {each.name: own[each.name] or (
            joined.number if joined and (not most or stored.takes(joined, each)) else 0) for each in group}
    return found
