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
from parity.judge.store.incidents import Fault, Incident, partition_of
from parity.judge.verdict.model import COMES, Attribution, Cell, CellText

#: A slowdown may have begun so many nights before its estimated begin, where no night was surely good since.
LATE = 21
#: A further drop of an incident may have begun so many nights before it was told.
DROP = 3
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
    def extent(self) -> str:
        """Return 'everything', 'partition' or 'alone': a partition that no other one is compared with; '' for no
        wide place."""
        where = self.cause.where
        return 'alone' if where.alone else where.kind if self.wide else ''

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
        today = _day(unix)
        place = bisect_right(self._days, today) - 1
        days = nights
        if place >= nights:
            earlier = self._days[place - nights]
            days = max(days, today - earlier)
        return unix - days * _DAY

    def span(self, fault: Fault, elsewhere: bool = False) -> Span:
        """Return when a fault may have begun. A failure began in its night. ``elsewhere``: of a node; the good
        nights before ran on others, and say nothing."""
        if fault.word != 'regressed' or fault.listed:
            return Span(fault.since, fault.since)
        earliest = self.before(fault.since, LATE)
        first = earliest if elsewhere else max(fault.last_good, earliest)
        surely_slow = fault.first_slow or fault.detected
        last = max(fault.since, surely_slow)
        return Span(min(first, last), last)


def _day(unix: float) -> int:
    return datetime.date.fromtimestamp(unix).toordinal()


# ---- the homes of faults

@dataclass
class Home:
    """An incident that takes in faults: a stored one, or one that tonight opens (``incident`` is None)."""

    key: list[str]
    span: Span
    drop: Span | None = None                                # in which its last further drop began
    incident: Incident | None = None
    nodes: list[str] = field(default_factory=list)
    partitions: set[str] = field(default_factory=set)       # that are slow alike
    extents: set[str] = field(default_factory=set)          # of its wide cells
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
        faults = [bad.fault for bad in self.bad]
        if self.incident:
            faults += self.incident.left.values()
        return any(fault.listed for fault in faults)

    def take(self, bad: Bad, calendar: Calendar) -> None:
        """Take in a fault of tonight."""
        self.bad.append(bad)
        self.parts |= bad.parts
        self.checks.add(bad.check)
        self.widen(bad)
        if bad.wide and not self.nodes:
            self.extents.add(bad.extent)
            self.wide_cells[bad.fault.partition].add(bad.name)
        self.span = _common(self.span, calendar.span(bad.fault, elsewhere=bool(self.nodes)))

    def widen(self, bad: Bad) -> None:
        """Note the partitions that a fault calls slow alike."""
        if bad.wide and not self.nodes:
            self.partitions |= bad.partitions


def _common(one: Span, other: Span) -> Span:
    """Return the nights in which both may have begun: those of the first, where there are none."""
    if not one.meets(other):
        return one
    return Span(max(one.first, other.first), min(one.last, other.last))


def _stored(incident: Incident, calendar: Calendar) -> Home:
    """Return an open incident as a home, by the faults that have not ended."""
    faults = list((incident.left or incident.faults).values())
    first, *others = [fault for fault in faults if fault.since >= incident.begin] or faults
    of_node = bool(incident.nodes)
    home = Home(incident.key, calendar.span(first, of_node), incident=incident, nodes=incident.nodes)
    drops = [event.start for event in incident.events if event.what == 'worse']
    if drops:
        home.drop = Span(calendar.before(drops[-1], DROP), drops[-1])
    for fault in others:
        home.span = _common(home.span, calendar.span(fault, of_node))
    # of a node that waits to be measured, all cells ended: their parts count
    with_parts = faults if incident.nodes else incident.left.values()
    for fault in with_parts:
        home.parts |= _parts(fault, fault.blamed or incident.part)
    for name, fault in incident.left.items():
        home.checks.add((fault.partition, fault.check))
        kind = fault.where.kind or incident.where.kind
        if kind in ('partition', 'everything'):
            home.extents.add('alone' if fault.where.alone else kind)
            named = fault.where.name.split(', ')
            home.partitions |= {fault.partition, *named} - {''}
            home.wide_cells[fault.partition].add(name)
    return home


def belongs(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault that no incident has yet belongs to one: same place, same part, begun together."""
    span = calendar.span(bad.fault)
    began_together = home.span.meets(span) or home.drop is not None and home.drop.meets(span)
    if not bad.slow or not _slow(home.key):
        dead_node = bad.key[:2] == ['failed', 'node']
        return bad.key == home.key and (dead_node or began_together)
    if not _same_place(bad, home):
        return False
    same_part = bool(bad.parts & home.parts)
    if home.nodes:      # a cell shows a slow node when a job hits it: its begin says nothing
        may_have_begun = home.span.meets(calendar.span(bad.fault, elsewhere=True))
        return same_part or bool(bad.node) and may_have_begun
    return same_part and began_together


def _same_place(bad: Bad, home: Home) -> bool:
    """Return whether both are of one node, or of partitions that are slow alike: the cells of the home name the
    fault's own one, or all are slow.

    Where the place of a cell is not known, it is with its check; or with the node on which alone it ran on its
    first night; or in a partition that FEW cells of its part name."""
    if bad.node:
        return bad.node in home.nodes
    if home.nodes:
        return not bad.wide and _ran_there_alone(bad, home)
    if bad.wide and home.partitions:
        alike = bad.partitions if bad.extent == 'everything' else {bad.fault.partition}
        return bool(alike & home.partitions) or _of_everything(bad.extent, home.extents)
    if bad.check in home.checks:
        return True
    alike = home.wide_cells[bad.fault.partition]
    return not bad.wide and len(alike) >= FEW


def _of_everything(extent: str, others: set[str]) -> bool:
    """Return whether cells of everything and cells of a partition are of one place: no other partition measures
    the same as these, so nothing says that they are apart."""
    if extent == 'alone':
        return 'everything' in others
    return extent == 'everything' and others == {'alone'}


def _ran_there_alone(bad: Bad, home: Home) -> bool:
    """Return whether a cell ran on a home's node alone on its first slow night, and tells of a part that is slow
    there."""
    began_tonight = bad.fault.since == bad.fault.measured
    same_part = bad.parts & home.parts
    return began_tonight and bad.fault.nodes == home.nodes and bool(same_part)


def covered(cell: Cell, name: str, incident: Incident, known: Collection[str]) -> bool:
    """Return whether the acknowledgement of an incident covers a cell that joined it later; ``known``: the cells
    that it names, none where it names the incident alone.

    A cell that joined has its part and its begin, and a place that may be wider: its partition must be one that is
    known. At a node the part must be one that is known, and the cell must not be slow elsewhere."""
    if not incident.nodes:
        partitions = {partition_of(name) for name in known}
        return not known or cell.partition in partitions
    cause = cell.cause or Attribution()
    if cause.where.kind in ('partition', 'everything'):
        return False
    parts: set[str] = set()
    for fault in incident.faults.values():
        acknowledged = fault.cell in known if known else fault.listed
        if acknowledged:
            parts |= _parts(fault, fault.blamed or incident.part)
    own = parts_of(name, cell.subsystem, cause.subsystem.name)
    return bool(parts & own)


def has(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault is one that the incident has: it lasts, or ended there not long ago."""
    old = home.incident.faults[bad.name]
    if old.word != bad.fault.word:
        return False
    on_other_node = bool(bad.node) and bad.node not in home.nodes
    if bad.fault.listed and on_other_node:
        return False
    if not old.well:
        comes_and_goes = bool(bad.row) and bad.row.cell.state == COMES
        return comes_and_goes or not (home.nodes and on_other_node)
    if old.moved or on_other_node or home.nodes and bad.wide:
        return False
    return old.measured >= calendar.before(bad.fault.measured, BACK)


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
        ended = None
        for home in self.by_name.get(bad.name, ()):
            if not has(bad, home, self.calendar):
                continue
            if not home.incident.faults[bad.name].well:
                return home
            ended = ended or home
        return ended

    def fitting(self, bad: Bad) -> Iterator[Home]:
        """Yield the homes that a fault belongs to, the oldest first."""
        for mark in _leading(bad):
            for home in self._by_mark.get(mark, ()):
                if belongs(bad, home, self.calendar):
                    yield home

    def best(self, bad: Bad) -> Home | None:
        """Return the home with the most wide cells in the partition of a fault that belongs to several: there it
        may be slow as others are. The oldest of equal ones."""
        def in_its_partition(home: Home) -> int:
            return len(home.wide_cells.get(bad.fault.partition, ()))
        return max(self.fitting(bad), key=in_its_partition, default=None)

    def take(self, bad: Bad, home: Home | None) -> None:
        """Have a home take in a fault; a new one where there is none."""
        if home is None:
            span = self.calendar.span(bad.fault, elsewhere=bool(bad.node))
            home = Home(bad.key, span, nodes=[bad.node] if bad.node else [])
            self.every.append(home)
        home.take(bad, self.calendar)
        self._index(home)


def _leading(bad: Bad) -> list[tuple]:
    """Return the marks of the homes that a fault may belong to."""
    if not bad.slow:
        return [('key', *bad.key)]
    if bad.node:
        return [('node', bad.node)]
    own = bad.fault.partition
    marks: list[tuple] = [('partition', name) for name in [own, *sorted(bad.partitions - {own})]]
    marks.append(('check', *bad.check))
    if bad.extent in ('alone', 'everything'):
        marks.append(('everything',))
    if not bad.wide:
        marks += [('node', name) for name in bad.fault.nodes]
    return marks


def _marks(home: Home) -> Iterator[tuple]:
    if not _slow(home.key):
        yield 'key', *home.key
        return
    for name in home.nodes:
        yield 'node', name
    if not home.nodes:
        yield from (('partition', name) for name in home.partitions)
        yield from (('check', *check) for check in home.checks)
        if home.extents == {'alone'} or 'everything' in home.extents:
            yield ('everything',)


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
    for bad, home in stays:
        home.widen(bad)
    for bad in sorted(joins, key=lambda bad: not (bad.node or bad.wide)):
        sets.take(bad, sets.best(bad))
    for bad, home in stays:
        sets.take(bad, _wider(bad, home, sets) or home)
    _merge(sets)
    closed = [incident for incident in known if incident.closed]
    stored: dict[int, Home] = {}
    new: list[Home] = []
    for home in sets.every:
        if home.incident is None and home.bad:
            home.incident = _back(home, closed)
        if home.incident is None:
            new += [home] if home.bad else []
        elif home.number in stored:         # two of tonight's are one that is back
            stored[home.number].bad += home.bad
        else:
            stored[home.number] = home
    return [*stored.values(), *sorted(new, key=lambda home: -home.loss)]


def _wider(bad: Bad, home: Home, sets: _Homes) -> Home | None:
    """Return the home of a wider place that explains a cell of a narrower one: all nodes are slow alike tonight,
    and the cell fits the narrower one no more."""
    if not bad.slow or not bad.wide or belongs(bad, home, sets.calendar):
        return None
    for other in sets.fitting(bad):
        if other is home or other.nodes:
            continue
        if home.nodes or other.partitions > home.partitions:
            return other
    return None


def _merge(sets: _Homes) -> None:
    """Have a partition take tonight's new cells that name nodes by chance: it has more cells, and all else fits.

    A node that the listing names stays."""
    slowdowns = [home for home in sets.every if _slow(home.key)]
    wide = [home for home in slowdowns if home.partitions and not home.nodes]
    for home in slowdowns:
        if not home.nodes or home.incident or home.listed:
            continue
        wider = next((other for other in wide if _explains(other, home, sets.calendar)), None)
        if wider is not None:
            wider.bad += home.bad
            home.bad = []


def _explains(wide: Home, node: Home, calendar: Calendar) -> bool:
    """Return whether a wide home, of the last nights, has more cells than a node's in its partition and its part,
    begun together: then good nights on other nodes say something."""
    tonight = node.bad[0].fault.measured
    if wide.incident and wide.incident.since < calendar.before(tonight, DROP):
        return False
    began_together = all(wide.span.meets(calendar.span(bad.fault)) for bad in node.bad)
    if not wide.parts & node.parts or not began_together:
        return False
    if any(bad.fault.partition not in wide.partitions for bad in node.bad):
        return False
    count = 0
    for names in wide.wide_cells.values():
        count += len(names)
    return count >= FEW and count > len(node.bad)


def _back(home: Home, closed: Sequence[Incident]) -> Incident | None:
    """Return the newest incident that is over and that a new home is again."""
    for incident in reversed(closed):
        if incident.key[0] == home.key[0] and _is_again(home, incident):
            return incident
    return None


def _is_again(home: Home, incident: Incident) -> bool:
    """Return whether a new home is on an incident's node, in a part that was slow there; or has most of its cells
    and no others."""
    if home.nodes or incident.nodes:
        parts = {fault.part for fault in incident.faults.values()}
        same_part = home.key[0] != 'regressed' or any(bad.fault.part in parts for bad in home.bad)
        return same_part and home.nodes == incident.nodes
    names = {bad.name for bad in home.bad}
    return names <= incident.faults.keys() and 2 * len(names) > len(incident.faults)


def numbers(found: Iterable[Bad], known: Sequence[Incident], calendar: Calendar) -> Mapping[str, int]:
    """Return the number of the incident of each fault, by name; 0 for a new one."""
    return {bad.name: home.number for home in homes(found, known, calendar) for bad in home.bad}
