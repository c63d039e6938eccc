"""Join faults into incidents: by place, part and begin, and by nothing else.

`belongs` is the rule. The table in docs/reading-a-verdict.md says the same."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from parity.base import codes
from parity.judge.store import database
from parity.judge.store.incidents import Fault, Incident
from parity.judge.verdict.model import COMES, Attribution, Cell, CellText

#: A slowdown may have begun so many nights before its estimated begin, where no night was surely good since.
LATE = 21
#: A cell that ended in an open incident is back in it within so many nights.
BACK = 14
#: So many cells say where those are whose place is not known, and where those are that name a node by chance.
FEW = 2
#: Words in the name of a part that are no part themselves.
_NO_PART = {'and', 'alike', 'clock'}
_DAY = 86400.0


class Bad(NamedTuple):
    """A fault, as a night measured it. ``key``: what failures of one kind have in common, the word first."""

    name: str
    key: list[str]
    fault: Fault
    cause: Attribution = Attribution()
    row: CellText | None = None
    title: str = ''                  # of what is no cell

    @property
    def slow(self) -> bool:
        """Return whether it is a slowdown of a cell or a node: those are joined by place, part and begin."""
        return _slow(self.key)

    @property
    def node(self) -> str:
        """Return the node to blame; '' for none."""
        where = self.cause.where
        return where.name if where.kind == 'node' else ''

    @property
    def wide(self) -> bool:
        """Return whether the nodes of its partition are slow alike."""
        return self.cause.where.kind in ('partition', 'everything')

    @property
    def partitions(self) -> set[str]:
        """Return its partition, and the others that are slow as it is."""
        named = self.cause.where.name.split(', ') if self.wide else []
        return {self.fault.partition, *named}

    @property
    def parts(self) -> set[str]:
        return _parts(self.fault, self.cause.subsystem.name)

    @property
    def check(self) -> tuple[str, str]:
        return self.fault.partition, self.fault.check


def _slow(key: Sequence[str]) -> bool:
    return key[0] == 'regressed' and len(key) > 2


def parts_of(cell: str, subsystem: str, named: str) -> set[str]:
    """Return the parts of the machine that a cell tells of: of ``named``, which its cause names, or else its own.

    A code that memory may slow tells of two. ``cell``: '' of a node that the listing names."""
    if named:
        return set(named.split()) - _NO_PART
    return {subsystem, codes.part_of(cell, subsystem)} if cell else {subsystem}


def _parts(fault: Fault, named: str = '') -> set[str]:
    return parts_of(fault.cell, fault.part, named or fault.blamed)


# ---- begin

@dataclass(frozen=True)
class Span:
    """The nights in which a fault may have begun: from ``first`` to ``last``, Unix times."""

    first: float
    last: float

    def meets(self, other: Span) -> bool:
        return self.first <= other.last and other.first <= self.last


class Calendar:
    """The days on which a night was stored."""

    def __init__(self, starts: Iterable[float]):
        self._days = sorted({_day(start) for start in starts})

    @classmethod
    def stored(cls) -> Calendar:
        return cls(database.starts().values())

    def before(self, unix: float, nights: int) -> float:
        """Return the time so many nights before: of stored nights, and of days at least."""
        place = bisect_right(self._days, _day(unix)) - 1
        days = nights
        if place >= nights:
            days = max(days, _day(unix) - self._days[place - nights])
        return unix - days * _DAY

    def span(self, fault: Fault) -> Span:
        """Return when a fault may have begun. A failure began in its night."""
        if fault.word != 'regressed' or fault.listed:
            return Span(fault.since, fault.since)
        first = max(fault.last_good, self.before(fault.since, LATE))
        last = max(fault.since, fault.first_slow or fault.detected)
        return Span(min(first, last), last)


def _day(unix: float) -> int:
    return datetime.date.fromtimestamp(unix).toordinal()


# ---- the homes of faults

@dataclass
class Home:
    """An incident that takes in faults: a stored one, or one that tonight opens (``incident`` is None)."""

    key: list[str]
    span: Span
    incident: Incident | None = None
    nodes: list[str] = field(default_factory=list)
    partitions: set[str] = field(default_factory=set)       # that are slow alike
    parts: set[str] = field(default_factory=set)
    checks: set[tuple[str, str]] = field(default_factory=set)
    wide_cells: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))   # by partition
    bad: list[Bad] = field(default_factory=list)            # tonight's faults

    @property
    def number(self) -> int:
        return self.incident.number if self.incident else 0

    @property
    def loss(self) -> float:
        """Return the share by which the worst of tonight's faults is slower."""
        return max((bad.fault.loss for bad in self.bad), default=0.0)

    @property
    def listed(self) -> bool:
        """Return whether the listing of nodes names its node."""
        stored = self.incident.left.values() if self.incident else ()
        return any(fault.listed for fault in (*stored, *(each.fault for each in self.bad)))

    def take(self, bad: Bad, calendar: Calendar) -> None:
        """Take in a fault of tonight."""
        self.bad.append(bad)
        self.parts |= bad.parts
        self.checks.add(bad.check)
        if bad.wide and not self.nodes:
            self.partitions |= bad.partitions
            self.wide_cells[bad.fault.partition].add(bad.name)
        self.span = _common(self.span, calendar.span(bad.fault))


def _common(one: Span, other: Span) -> Span:
    """Return the nights in which both may have begun: those of the first, where there are none."""
    if not one.meets(other):
        return one
    return Span(max(one.first, other.first), min(one.last, other.last))


def _stored(incident: Incident, calendar: Calendar) -> Home:
    """Return an open incident as a home, by the faults that have not ended."""
    faults = [*(incident.left or incident.faults).values()]
    begun = [fault for fault in faults if fault.since >= incident.begin] or faults
    home = Home(incident.key, calendar.span(begun[0]), incident, nodes=incident.nodes)
    for fault in begun[1:]:
        home.span = _common(home.span, calendar.span(fault))
    for name, fault in incident.left.items():
        where = fault.where if fault.where.kind else incident.where
        home.parts |= _parts(fault, fault.blamed or incident.part)
        home.checks.add((fault.partition, fault.check))
        if where.kind in ('partition', 'everything'):
            home.partitions |= {fault.partition, *fault.where.name.split(', ')} - {''}
            home.wide_cells[fault.partition].add(name)
    return home


def belongs(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault that no incident has yet belongs to one: same place, same part, begun together."""
    began_together = home.span.meets(calendar.span(bad.fault))
    if not (bad.slow and _slow(home.key)):
        dead_node = bad.key[:2] == ['failed', 'node']
        return bad.key == home.key and (dead_node or began_together)
    same_part = bool(bad.parts & home.parts)
    if not _same_place(bad, home):
        return False
    if home.nodes:      # a cell shows a slow node when a job hits it: its begin says nothing
        return same_part or began_together and bool(bad.node)
    return same_part and began_together


def _same_place(bad: Bad, home: Home) -> bool:
    """Return whether both are of one node, or of partitions that are slow alike.

    Where the place of a cell is not known, it is with its check; or with the node on which alone it ran on its
    first night; or in a partition that FEW cells of its part name."""
    if bad.node:
        return bad.node in home.nodes
    if home.nodes:
        began_tonight = bad.fault.since == bad.fault.measured
        return not bad.wide and began_tonight and bad.fault.nodes == home.nodes and bool(bad.parts & home.parts)
    if bad.wide and home.partitions:
        return bool(bad.partitions & home.partitions)
    return bad.check in home.checks or not bad.wide and len(home.wide_cells[bad.fault.partition]) >= FEW


def covered(cell: Cell, name: str, incident: Incident, known: Collection[str]) -> bool:
    """Return whether the acknowledgement of an incident covers a cell that joined it later; ``known``: the cells
    that it names, none where it names the incident alone.

    A cell that joined has its place, its part and its begin, but at a node: there the part must be one that is
    known, and the cell must not be slow elsewhere."""
    if not incident.nodes:
        return True
    cause = cell.cause or Attribution()
    named = [fault for fault in incident.faults.values() if fault.cell in known or fault.listed and not known]
    parts = {part for fault in named for part in _parts(fault, incident.part)}
    elsewhere = cause.where.kind in ('partition', 'everything')
    return not elsewhere and bool(parts & parts_of(name, cell.subsystem, cause.subsystem.name))


def has(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault is one that the incident has: it lasts, or ended there not long ago."""
    old = home.incident.faults[bad.name]
    if old.word != bad.fault.word:
        return False
    on_other_node = bool(bad.node) and bad.node not in home.nodes
    if bad.fault.listed and on_other_node:
        return False
    comes = bool(bad.row) and bad.row.cell.state == COMES
    if not old.well:
        return comes or not (home.nodes and on_other_node)
    recent = old.measured >= calendar.before(bad.fault.measured, BACK)
    elsewhere = on_other_node if home.nodes else bool(bad.node)
    return recent and not old.moved and not elsewhere and not (home.nodes and bad.wide)


class _Homes:
    """Homes, found by the names of their faults, their nodes, partitions and keys."""

    def __init__(self, known: Iterable[Incident], calendar: Calendar):
        self.calendar = calendar
        self.every: list[Home] = []
        self.by_name: dict[str, list[Home]] = defaultdict(list)
        self._by_mark: dict[tuple, list[Home]] = defaultdict(list)
        for incident in known:
            if incident.closed:
                continue
            home = _stored(incident, calendar)
            self.every.append(home)
            for name in incident.faults:
                self.by_name[name].append(home)
            self._index(home)

    def _index(self, home: Home) -> None:
        """Note what leads to a home."""
        for mark in _marks(home):
            same = self._by_mark[mark]
            if home not in same:
                same.append(home)

    def of(self, bad: Bad) -> Home | None:
        """Return the home that has a fault already."""
        own = [home for home in self.by_name.get(bad.name, ()) if has(bad, home, self.calendar)]
        lasting = [home for home in own if not home.incident.faults[bad.name].well]
        return next(iter(lasting or own), None)

    def fitting(self, bad: Bad) -> Iterator[Home]:
        """Yield the homes that a fault belongs to, the oldest first."""
        if not bad.slow:
            marks = [('key', *bad.key)]
        elif bad.node:
            marks = [('node', bad.node)]
        else:
            nodes = [('node', name) for name in bad.fault.nodes if not bad.wide]
            marks = [*(('partition', name) for name in sorted(bad.partitions)), ('check', *bad.check), *nodes]
        for mark in marks:
            yield from (home for home in self._by_mark.get(mark, ()) if belongs(bad, home, self.calendar))

    def take(self, bad: Bad, home: Home | None) -> None:
        """Have a home take in a fault; a new one where there is none."""
        if home is None:
            home = Home(bad.key, self.calendar.span(bad.fault), nodes=[bad.node] if bad.node else [])
            self.every.append(home)
        home.take(bad, self.calendar)
        self._index(home)


def _marks(home: Home) -> Iterator[tuple]:
    if not _slow(home.key):
        yield 'key', *home.key
        return
    for name in home.nodes:
        yield 'node', name
    if not home.nodes:
        yield from (('partition', name) for name in home.partitions)
        yield from (('check', *check) for check in home.checks)


def homes(found: Iterable[Bad], known: Sequence[Incident], calendar: Calendar) -> list[Home]:
    """Return the open incidents of ``known``, and those that tonight opens, each with tonight's faults.

    A fault stays in its incident. The others join one, the surest places first. Then a wider place takes what it
    explains, and what is new may be an incident that is back."""
    sets = _Homes(known, calendar)
    stays: list[tuple[Bad, Home]] = []
    joins: list[Bad] = []
    for bad in sorted(found, key=lambda bad: (bad.fault.since, -bad.fault.loss)):
        home = sets.of(bad)
        if home is None:
            joins.append(bad)
        else:
            stays.append((bad, home))
    for bad in sorted(joins, key=lambda bad: not (bad.node or bad.wide)):
        sets.take(bad, next(sets.fitting(bad), None))
    for bad, home in stays:
        sets.take(bad, _wider(bad, home, sets) or home)
    _merge(sets)
    closed = [incident for incident in known if incident.closed]
    found_homes: dict[object, Home] = {}
    for home in sets.every:
        if home.incident is None and home.bad:
            home.incident = _back(home, closed)
        if home.incident is None and not home.bad:
            continue
        same = found_homes.setdefault(home.number or id(home), home)
        if same is not home:        # two of tonight's are one that is back
            same.bad += home.bad
    open_ones = [home for home in found_homes.values() if home.incident]
    new_ones = [home for home in found_homes.values() if home.incident is None]
    return open_ones + sorted(new_ones, key=lambda home: -home.loss)


def _wider(bad: Bad, home: Home, sets: _Homes) -> Home | None:
    """Return the home of a wider place that explains a cell of a narrower one: all nodes are slow alike tonight,
    and the cell fits the narrower one no more."""
    if not bad.slow or not bad.wide or belongs(bad, home, sets.calendar):
        return None
    others = (other for other in sets.fitting(bad) if other is not home and not other.nodes)
    return next((other for other in others if home.nodes or other.partitions > home.partitions), None)


def _merge(sets: _Homes) -> None:
    """Have a partition take tonight's new cells that name nodes by chance: it has more cells, and all else fits.

    A node that the listing names stays."""
    slowdowns = [home for home in sets.every if _slow(home.key)]
    wide = [home for home in slowdowns if home.partitions and not home.nodes]
    for home in slowdowns:
        if not home.nodes or home.incident or home.listed:
            continue
        wider = next((other for other in wide if _explains(other, home)), None)
        if wider is not None:
            wider.bad += home.bad
            home.bad = []


def _explains(wide: Home, node: Home) -> bool:
    """Return whether a wide home has more cells than a node's in its partition and its part, begun together."""
    if not wide.parts & node.parts or not wide.span.meets(node.span):
        return False
    cells = set().union(*wide.wide_cells.values())
    inside = all(bad.fault.partition in wide.partitions for bad in node.bad)
    return inside and len(cells) >= FEW and len(cells) > len(node.bad)


def _back(home: Home, closed: Sequence[Incident]) -> Incident | None:
    """Return the newest incident that is over and that a new home is again: on its node, in a part that was slow
    there; or of most of its cells and no others."""
    word = home.key[0]
    names = {bad.name for bad in home.bad}
    for incident in reversed(closed):
        if incident.key[0] != word:
            continue
        if home.nodes or incident.nodes:
            parts = {part for fault in incident.faults.values() for part in _parts(fault)}
            same_part = word != 'regressed' or parts & home.parts
            again = set(home.nodes) & set(incident.nodes) and same_part
        else:
            again = names <= incident.faults.keys() and 2 * len(names) > len(incident.faults)
        if again:
            return incident
    return None


def numbers(found: Iterable[Bad], known: Sequence[Incident], calendar: Calendar) -> Mapping[str, int]:
    """Return the number of the incident of each fault, by name; 0 for a new one."""
    return {bad.name: home.number for home in homes(found, known, calendar) for bad in home.bad}
