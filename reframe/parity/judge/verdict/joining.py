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
from parity.judge.store.incidents import Fault, Incident, Where, partition_of
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
        if where.alone:
            return 'alone'
        return where.kind if self.wide else ''

    @property
    def partitions(self) -> set[str]:
        """Return its partition, and the others that are slow as it is."""
        return _slow_alike(self.fault.partition, self.cause.where) if self.wide else {self.fault.partition}

    @property
    def parts(self) -> set[str]:
        return _parts(self.fault, self.cause.subsystem.name)

    @property
    def check(self) -> tuple[str, str]:
        return self.fault.partition, self.fault.check


def _slow(key: Sequence[str]) -> bool:
    return key[0] == 'regressed' and len(key) > 2


def _slow_alike(partition: str, where: Where) -> set[str]:
    """Return the partition of a fault with a wide place, and those that this place names."""
    return {partition, *where.name.split(', ')}


def parts_of(cell: str, subsystem: str, named: str) -> set[str]:
    """Return the parts of the machine that a cell tells of: of ``named``, which its cause names, or else its own.

    A code that memory may slow tells of two. ``cell``: '' of a node that the listing names."""
    if named:
        return set(named.split()) - _NO_PART
    if not cell:
        return {subsystem}
    return {subsystem, codes.part_of(cell, subsystem)}


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
        since = fault.since
        if fault.word != 'regressed' or fault.listed:
            return Span(since, since)
        first = self.before(since, LATE)
        if not elsewhere:
            first = max(fault.last_good, first)
        surely_slow = fault.first_slow or fault.detected
        last = max(since, surely_slow)
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
        of_node = bool(self.nodes)
        self.bad.append(bad)
        self.parts |= bad.parts
        self.checks.add(bad.check)
        self.widen(bad)
        if bad.wide and not of_node:
            self.extents.add(bad.extent)
            alike = self.wide_cells[bad.fault.partition]
            alike.add(bad.name)
        span = calendar.span(bad.fault, elsewhere=of_node)
        self.span = _common(self.span, span)

    def widen(self, bad: Bad) -> None:
        """Note the partitions that a fault calls slow alike."""
        if bad.wide and not self.nodes:
            self.partitions |= bad.partitions


def _common(one: Span, other: Span) -> Span:
    """Return the nights in which both may have begun: those of the first, where there are none."""
    if not one.meets(other):
        return one
    first = max(one.first, other.first)
    last = min(one.last, other.last)
    return Span(first, last)


def _stored(incident: Incident, calendar: Calendar) -> Home:
    """Return an open incident as a home, by the faults that have not ended."""
    faults = list((incident.left or incident.faults).values())
    since_begin = [fault for fault in faults if fault.since >= incident.begin]
    first, *others = since_begin or faults
    of_node = bool(incident.nodes)
    span = calendar.span(first, of_node)
    for fault in others:
        span = _common(span, calendar.span(fault, of_node))
    home = Home(incident.key, span, incident=incident, nodes=incident.nodes)
    drops = [event.start for event in incident.events if event.what == 'worse']
    if drops:
        last = drops[-1]
        home.drop = Span(calendar.before(last, DROP), last)
    # of a node that waits to be measured, all cells ended: their parts count
    with_parts = faults if of_node else incident.left.values()
    for fault in with_parts:
        part = fault.blamed or incident.part
        home.parts |= _parts(fault, part)
    for name, fault in incident.left.items():
        home.checks.add((fault.partition, fault.check))
        where = fault.where
        kind = where.kind or incident.where.kind
        if kind in ('partition', 'everything'):
            home.extents.add('alone' if where.alone else kind)
            home.partitions |= _slow_alike(fault.partition, where) - {''}
            home.wide_cells[fault.partition].add(name)
    return home


def belongs(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault that no incident has yet belongs to one: same place, same part, begun together."""
    span = calendar.span(bad.fault)
    with_drop = home.drop is not None and home.drop.meets(span)
    began_together = with_drop or home.span.meets(span)
    if not bad.slow or not _slow(home.key):
        is_dead_node = bad.key[:2] == ['failed', 'node']
        return bad.key == home.key and (is_dead_node or began_together)
    if not _same_place(bad, home):
        return False
    same_part = not bad.parts.isdisjoint(home.parts)
    if not home.nodes:
        return same_part and began_together
    # a cell shows a slow node when a job hits it: its begin says nothing
    if same_part:
        return True
    span = calendar.span(bad.fault, elsewhere=True)
    return bool(bad.node) and home.span.meets(span)


def _same_place(bad: Bad, home: Home) -> bool:
    """Return whether both are of one node, or of partitions that are slow alike: the cells of the home name the
    fault's own one, or all are slow.

    Where the place of a cell is not known, it is with its check; or with the node on which alone it ran on its
    first night; or in a partition that FEW cells of its part name."""
    if bad.node:
        return bad.node in home.nodes
    if home.nodes:
        return not bad.wide and _ran_there_alone(bad, home)
    partition = bad.fault.partition
    if bad.wide and home.partitions:
        alike = bad.partitions if bad.extent == 'everything' else {partition}
        if not alike.isdisjoint(home.partitions):
            return True
        return _of_everything(bad.extent, home.extents)
    if bad.check in home.checks:
        return True
    wide_cells = home.wide_cells[partition]
    return not bad.wide and len(wide_cells) >= FEW


def _of_everything(extent: str, others: set[str]) -> bool:
    """Return whether cells of everything and cells of a partition are of one place: no other partition measures
    the same as these, so nothing says that they are apart."""
    if extent == 'alone':
        return 'everything' in others
    return extent == 'everything' and others == {'alone'}


def _ran_there_alone(bad: Bad, home: Home) -> bool:
    """Return whether a cell ran on a home's node alone on its first slow night, and tells of a part that is slow
    there."""
    fault = bad.fault
    if fault.since != fault.measured or fault.nodes != home.nodes:
        return False
    return not bad.parts.isdisjoint(home.parts)


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
    known_parts: set[str] = set()
    for fault in incident.faults.values():
        is_known = fault.cell in known if known else fault.listed
        if is_known:
            part = fault.blamed or incident.part
            known_parts |= _parts(fault, part)
    cell_parts = parts_of(name, cell.subsystem, cause.subsystem.name)
    return not known_parts.isdisjoint(cell_parts)


def has(bad: Bad, home: Home, calendar: Calendar) -> bool:
    """Return whether a fault is one that the incident has: it lasts, or ended there not long ago."""
    old, new = home.incident.faults[bad.name], bad.fault
    if old.word != new.word:
        return False
    on_other_node = bool(bad.node) and bad.node not in home.nodes
    if new.listed and on_other_node:
        return False
    if not old.well:
        comes_and_goes = bool(bad.row) and bad.row.cell.state == COMES
        return comes_and_goes or not (home.nodes and on_other_node)
    if old.moved or on_other_node:
        return False
    if home.nodes and bad.wide:
        return False
    return old.measured >= calendar.before(new.measured, BACK)


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
        partition = bad.fault.partition

        def wide_cells(home: Home) -> int:
            return len(home.wide_cells.get(partition, ()))
        return max(self.fitting(bad), key=wide_cells, default=None)

    def take(self, bad: Bad, home: Home | None) -> None:
        """Have a home take in a fault; a new one where there is none."""
        if home is None:
            nodes = [bad.node] if bad.node else []
            span = self.calendar.span(bad.fault, elsewhere=bool(nodes))
            home = Home(bad.key, span, nodes=nodes)
            self.every.append(home)
        home.take(bad, self.calendar)
        self._index(home)


def _leading(bad: Bad) -> list[tuple]:
    """Return the marks of the homes that a fault may belong to."""
    if not bad.slow:
        return [('key', *bad.key)]
    if bad.node:
        return [('node', bad.node)]
    partition = bad.fault.partition
    others = bad.partitions - {partition}
    marks: list[tuple] = [('partition', partition)]
    for name in sorted(others):
        marks.append(('partition', name))
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


def homes(faults: Iterable[Bad], known: Sequence[Incident], calendar: Calendar) -> list[Home]:
    """Return the open incidents of ``known``, and those that tonight opens, each with tonight's faults.

    A fault stays in its incident. The others join one, the surest places first. Then a wider place takes what it
    explains, and what is new may be an incident that is back."""
    sets = _Homes(known, calendar)
    stays: list[tuple[Bad, Home]] = []
    joins: list[Bad] = []
    for bad in sorted(faults, key=_by_begin):
        home = sets.of(bad)
        if home is None:
            joins.append(bad)
        else:
            stays.append((bad, home))
    for bad, home in stays:
        home.widen(bad)
    for bad in sorted(joins, key=_placeless_last):
        sets.take(bad, sets.best(bad))
    for bad, home in stays:
        wider = _wider(bad, home, sets)
        sets.take(bad, wider or home)
    _merge(sets)
    closed = [incident for incident in known if incident.closed]
    stored: dict[int, Home] = {}
    new: list[Home] = []
    for home in sets.every:
        if home.incident is None:
            if not home.bad:
                continue
            home.incident = _back(home, closed)
        if home.incident is None:
            new.append(home)
        elif home.number in stored:         # two of tonight's are one that is back
            stored[home.number].bad += home.bad
        else:
            stored[home.number] = home
    worst_first = sorted(new, key=lambda home: -home.loss)
    return [*stored.values(), *worst_first]


def _by_begin(bad: Bad) -> tuple[float, float]:
    """Return the place of a fault in an order by begin, of equal ones by loss."""
    return bad.fault.since, -bad.fault.loss


def _placeless_last(bad: Bad) -> bool:
    """Return the place of a fault in an order that has those last whose place is not known."""
    return not (bad.node or bad.wide)


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
        for other in wide:
            if _explains(other, home, sets.calendar):
                other.bad += home.bad
                home.bad = []
                break


def _explains(wide: Home, node: Home, calendar: Calendar) -> bool:
    """Return whether a wide home, of the last nights, has more cells than a node's in its partition and its part,
    begun together: then good nights on other nodes say something."""
    tonight = node.bad[0].fault.measured
    if wide.incident and wide.incident.since < calendar.before(tonight, DROP):
        return False
    if wide.parts.isdisjoint(node.parts):
        return False
    for bad in node.bad:
        span = calendar.span(bad.fault)
        if bad.fault.partition not in wide.partitions or not wide.span.meets(span):
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
    faults = incident.faults
    if home.nodes or incident.nodes:
        if home.nodes != incident.nodes:
            return False
        if home.key[0] != 'regressed':
            return True
        slow_parts = {fault.part for fault in faults.values()}
        return any(bad.fault.part in slow_parts for bad in home.bad)
    names = {bad.name for bad in home.bad}
    are_most = 2 * len(names) > len(faults)
    return are_most and names <= faults.keys()


def numbers(faults: Iterable[Bad], known: Sequence[Incident], calendar: Calendar) -> Mapping[str, int]:
    """Return the number of the incident of each fault, by name; 0 for a new one."""
    number_of = {}
    for home in homes(faults, known, calendar):
        for bad in home.bad:
            number_of[bad.name] = home.number
    return number_of
