"""Incidents: what has one place, one part and one change is one numbered entry, from its first night to its end.

They are rows of a table of parity's own in the results database, which ci/nightly writes at its end, and
`parity ack`. A cell that is not measured leaves its incident open."""

from __future__ import annotations

import datetime
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from parity.base import figures, paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import counted
from parity.compare.model import Outcome
from parity.records import database
from parity.records.outset import cell_id
from parity.rfm import store
from parity.system import systems
from parity.verdict import acks
from parity.verdict.model import (
    TOO_OFTEN,
    Attribution,
    Cell,
    Change,
    Event,
    Fault,
    Incident,
    Row,
    Verdict,
    Where,
    rows,
    several,
)

#: Words that a person must act on.
BAD = (*acks.BAD, 'missing')
#: Events for a notice.
TOLD = ('new', 'worse', 'due', 'over')
#: Stands for a whole night that stored no session, or measured nothing.
WHOLE = 'ci/nightly'
#: How far a cell came: what came farther than its fault tells that this one is over.
_RUNGS = {'missing': 0, 'failed': 1, 'disturbed': 1, 'wrong': 2, 'impossible': 2, 'regressed': 3}
#: Facts that change without slowing a machine.
_HARMLESS = ('nodes', 'parity', 'ReFrame')
#: After so long (30 days) without a measurement nobody is reminded: the check may be gone.
_FORGOTTEN_SECONDS = 30 * 86400.0
#: A night ends earlier or later than the one a week ago: the reminder must not slip by a day.
_EARLY_SECONDS = 6 * 3600.0


# ---- the table

_TABLE = ('CREATE TABLE IF NOT EXISTS parity_incidents '
          '(number INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT UNIQUE, system TEXT, changed REAL, json TEXT)')
#: The last night of each system that was recorded.
_NIGHTS = 'CREATE TABLE IF NOT EXISTS parity_nights (system TEXT PRIMARY KEY, session TEXT, start REAL)'
_LAST = 'SELECT session, start FROM parity_nights WHERE system = ?'
_EVERY = 'SELECT number, json FROM parity_incidents'
_SELECT = f'{_EVERY} WHERE system = ? ORDER BY number'


def of_system(system: str) -> list[Incident]:
    """Return every incident of the system, over ones too, by number; none without a table.

    Raises InfrastructureError where the database cannot be read."""
    return _readable(database.query(_SELECT, system))


def read(number: str) -> Incident:
    """Return one incident. UsageError with the valid numbers where there is none of that number."""
    stored = {row[0]: row for row in database.query(f'{_EVERY} ORDER BY number')}
    if int(number) not in stored:
        known = ', '.join(map(str, [*stored][-20:])) or 'none: ci/nightly opens them'
        raise UsageError(f'no incident {number}; valid: {known}')
    return _read(*stored[int(number)])


def _read(number: int, text: str) -> Incident:
    try:
        return Incident.model_validate_json(text).model_copy(update={'number': number})
    except ValueError:
        raise InfrastructureError(f'{paths.database()}: incident {number} is not one that this parity can read; '
                                  'perhaps a newer one wrote it') from None


def _readable(stored: Iterable[tuple[int, str]]) -> list[Incident]:
    """Return the incidents that can be read; a warning names each other one."""
    found = []
    for number, text in stored:
        try:
            found.append(_read(number, text))
        except InfrastructureError as err:
            database.warn(f'incident {number}', err)
    return found


@contextmanager
def _writing() -> Iterator[sqlite3.Connection]:
    """The database, which no other process writes meanwhile. All is written, or nothing."""
    file = paths.database()
    try:
        with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as conn:
            conn.execute('BEGIN IMMEDIATE')
            conn.execute(_TABLE)
            conn.execute(_NIGHTS)
            yield conn
            conn.execute('COMMIT')
    except sqlite3.Error as err:
        raise InfrastructureError(f'{file}: {err}: incidents are not recorded') from None


def _write(conn: sqlite3.Connection, found: Iterable[Incident]) -> None:
    for each in found:
        row = each.uuid, each.system, time.time(), each.model_dump_json()
        if each.number:
            conn.execute('UPDATE parity_incidents SET changed = ?, json = ? WHERE uuid = ?', (*row[2:], row[0]))
        else:
            conn.execute('INSERT INTO parity_incidents (uuid, system, changed, json) VALUES (?, ?, ?, ?)', row)


def change(updates: Mapping[int, Callable[[Incident], Mapping[str, Any]]],
           write: Callable[[], object] = lambda: None) -> None:
    """Store new fields of incidents, by number, and have ``write`` write what belongs to them. All is stored, or
    nothing."""
    if updates:
        with _writing() as conn:
            for number, update in updates.items():
                found = _read(*conn.execute(f'{_EVERY} WHERE number = ?', (number,)).fetchone())
                _write(conn, [found.model_copy(update=dict(update(found)))])
            write()


def acknowledged(number: int, cells: Collection[str], ack: str, write: Callable[[], object]) -> None:
    """Note that cells of an incident are known; not any more where ``ack`` is ''. ``write`` has acks.yaml say so.

    ``cells``: their names, or those of their faults."""
    def turned(incident: Incident) -> dict[str, Any]:
        if incident.closed:
            return {}
        meant = {name: fault.model_copy(update={'acknowledged': bool(ack)})
                 for name, fault in incident.faults.items() if {name, fault.cell} & {*cells}}
        faults = incident.faults | meant
        known = all(fault.acknowledged for fault in faults.values() if not fault.well)
        said = [Event(what='known', session='', start=time.time(), said=ack)] if ack else []
        return {'faults': faults, 'state': 'known' if known else 'open', 'ack': ack if known else '',
                'events': incident.events + said}
    change({number: turned}, write)


# ---- a night

def record(verdict: Verdict | None, system: str, interrupted: bool = False) -> list[Incident]:
    """Record what a night makes of the system's incidents, and return them; None stored no session.

    ``interrupted``: by its operator. What did not end then was not measured.

    A session that is recorded already, or older than that one, changes nothing."""
    if not paths.database().exists():
        store.make_database()
    starts, now = database.starts(), time.time()
    start = starts.get(verdict.session.uuid, now) if verdict else now
    tonight = seen(verdict, system, start, interrupted)
    with _writing() as conn:
        last = conn.execute(_LAST, (system,)).fetchone()
        if verdict is None or last is None or tonight.start > starts.get(*last):
            known = _readable(conn.execute(_SELECT, (system,)))
            _write(conn, lived(known, tonight, _holding(system)))
            if verdict:
                conn.execute('REPLACE INTO parity_nights VALUES (?, ?, ?)',
                             (system, tonight.session, tonight.start))
        return _readable(conn.execute(_SELECT, (system,)))


def unrecorded(system: str) -> list[str]:
    """Return the nights that were stored since the last one that was recorded, oldest first: each was killed.

    Those that were stored before this was ever asked of the system count as recorded."""
    if not paths.database().exists():
        store.make_database()
    starts = database.starts()
    newest = next(reversed(starts), '')
    with _writing() as conn:
        conn.execute('INSERT OR IGNORE INTO parity_nights VALUES (?, ?, ?)',
                     (system, newest, starts.get(newest, 0.0)))
        last = starts.get(*conn.execute(_LAST, (system,)).fetchone())
    later = filter(None, (database.brief(uuid) for uuid, start in starts.items() if start > last))
    return [session.uuid for session in later if session.system == system and session.selection]


def _holding(system: str) -> set[str]:
    return {ack.cell for ack in acks.read(system) if ack.holds(datetime.date.today())}


class Seen(NamedTuple):
    """Something bad, as a night measured it."""

    name: str
    key: list[str]
    fault: Fault
    ran_on: list[str]
    cause: Attribution
    row: Row | None = None
    title: str = ''                  # of what is no cell


class Night(NamedTuple):
    """``well``: the nodes of what is in order, by name; and whether that ends a slowdown. ``retired``: names, and
    nodes, that nobody waits for."""

    system: str
    session: str
    start: float
    bad: dict[str, Seen]
    well: dict[str, tuple[list[str], bool]]
    retired: frozenset[str] = frozenset()


def seen(verdict: Verdict | None, system: str, start: float, interrupted: bool = False) -> Night:
    """Return what a night measured: cells, named with their size, pairs, and the night itself.

    A cell that was skipped, or that is disturbed tonight, was not measured."""
    night = Night(system, verdict.session.uuid if verdict else '', start, {}, {}, _retired(verdict, system, start))

    def note(name: str, word: str, title: str) -> None:
        fault = Fault(word=word, since=start, seen=start)
        night.bad[name] = Seen(name, [word, name], fault, [], Attribution(), None, title)

    if verdict is None:
        if not interrupted:
            note(WHOLE, 'failed', 'ci/nightly stored no session')
        return night
    for row in rows(verdict.cells):
        cell, name = row.cell, _name(row.cell)
        if interrupted and cell.stopped:
            continue
        if cell.verdict in BAD or cell.disturbed_nights >= TOO_OFTEN:
            night.bad[name] = _seen(name, row, start)
        elif cell.verdict not in ('skipped', 'disturbed'):
            judged = cell.verdict not in ('insufficient', 'unreferenced')
            night.well[name] = cell.ran_on, judged and cell.state not in ('slow', 'comes and goes')
    for pair in verdict.pairs:
        name = of_pair(pair)
        if pair.state == 'regressed':
            note(name, 'regressed', f'{name} is not as expected')
        elif pair.state == 'ok':
            night.well[name] = [], True
    if verdict.exit_code and not night.bad and not interrupted:
        note(WHOLE, 'missing', 'nothing was measured, or a check is broken')
    elif not interrupted:
        night.well[WHOLE] = [], True
    return night


def _retired(verdict: Verdict | None, system: str, start: float) -> frozenset[str]:
    """Return the retired cells and nodes, without nodes that ran all the same."""
    ran = {node for cell in verdict.cells for node in cell.ran_on} if verdict else set()
    cells = map(_name, verdict.retired) if verdict else ()
    return frozenset({*systems.gone(systems.read(system), start)} - ran).union(cells)


def of_pair(pair: Outcome) -> str:
    """Return the name of a declared pair's figure among the faults of an incident."""
    return f'{pair.candidate} / {pair.baseline} {pair.benchmark}: {pair.metric}{pair.beside}'


def _name(cell: Cell) -> str:
    return f'{cell_id(vars(cell), True)} ({cell.size})'


def _seen(name: str, row: Row, start: float) -> Seen:
    cell, cause = row.cell, row.cell.cause or Attribution()
    nodes = [cause.where.name] if cause.where.kind == 'node' else cell.ran_on
    judged = cell.value is not None and cell.expected is not None and cell.verdict in acks.BAD
    fault = Fault(word=cell.verdict, since=start, seen=start, cell=row.name, unit=cell.unit, value=cell.value,
                  expected=cell.expected, loss=loss(cell), nodes=sorted(nodes),
                  level=(cell.value, cell.expected) if judged else None, acknowledged=bool(cell.acknowledged))
    return Seen(name, key(cell), fault, cell.ran_on, cause, row)


def key(cell: Cell) -> list[str]:
    """Return what the cells of one entry have in common."""
    where = cell.cause.where if cell.cause else Where()
    if cell.verdict == 'regressed' and where.kind:
        return [cell.verdict, where.kind, where.name, cell.cause.subsystem.name]
    if cell.verdict in ('regressed', 'impossible'):
        return [cell.verdict, cell.partition, cell.subsystem]
    alike = {'wrong': cell.case, 'disturbed': ''}
    return [cell.verdict, cell.partition, alike.get(cell.verdict, cell.reason)]


def _marks(key: Sequence[str], changes: Iterable[Change]) -> Iterator[tuple[tuple, tuple]]:
    """Yield marks of a cause, each with the mark of the causes that it is one with.

    Causes are one that have one place and part; of which one has no known place, and the partition of the other
    is slow as a whole; or that have one part and change, on several nodes or on several partitions."""
    yield (tuple(key),) * 2
    if len(key) == 3 and key[0] == 'regressed':
        yield ('unknown', key[1]), ('whole', key[1])
    if len(key) == 4:
        node = key[1] == 'node'
        yield from ((('whole', place), ('unknown', place)) for place in key[2].split(', ') if not node)
        yield from (((key[3], node, c.fact, c.old, c.new),) * 2 for c in changes
                    if key[3] and c.fact not in _HARMLESS and bool(c.nodes) >= node)


class _Causes:
    """Causes in order, found by their marks."""

    def __init__(self, causes: Iterable[tuple[Sequence[str], Iterable[Change]]] = ()):
        self._first: dict[tuple, int] = {}
        self._count = 0
        for each in causes:
            self.add(*each)

    def add(self, key: Sequence[str], changes: Iterable[Change]) -> None:
        for mark, _ in _marks(key, changes):
            self._first.setdefault(mark, self._count)
        self._count += 1

    def place(self, key: Sequence[str], changes: Iterable[Change]) -> int | None:
        """Return the place of the first cause that is one with this; None without one."""
        return min((self._first[mark] for _, mark in _marks(key, changes) if mark in self._first), default=None)


def grouped(found: Iterable[Seen]) -> list[list[Seen]]:
    """Return what belongs together, the worst of each first."""
    by_key: dict[tuple, list[Seen]] = defaultdict(list)
    for each in sorted(found, key=lambda each: -each.fault.loss):
        by_key[tuple(each.key)].append(each)
    groups: list[list[Seen]] = []
    first = _Causes()
    for own in by_key.values():
        cause = own[0].key, own[0].cause.changes
        if (place := first.place(*cause)) is None:
            groups.append(own)
            first.add(*cause)
        else:
            groups[place].extend(own)
    return groups


def causes(table: Iterable[Row]) -> list[list[Row]]:
    """Return the rows of each incident, and of each cause that is none yet, the worst of each first."""
    known: dict[int, list[Seen]] = defaultdict(list)
    for row in table:
        known[row.cell.incident].append(_seen(_name(row.cell), row, 0.0))
    new = grouped(known.pop(0, ()))
    return [[each.row for each in sorted(group, key=lambda each: -each.fault.loss)]
            for group in (*known.values(), *new)]


def matched(groups: Iterable[list[Seen]], known: Sequence[Incident]) -> dict[str, int]:
    """Return the number of the incident of each, by name: that which has the cell, or the others of its group, or
    the same place and part; 0 for a new one."""
    found: dict[str, int] = {}
    having: dict[str, list[Incident]] = defaultdict(list)
    for incident in known:
        for name in incident.faults:
            having[name].append(incident)
    stored = _Causes((incident.key, incident.changes) for incident in known)
    for group in groups:
        own = {each.name: next((i.number for i in having.get(each.name, ()) if _same(i, each)), 0)
               for each in group}
        joined = Counter(filter(None, own.values())).most_common(1)
        place = stored.place(group[0].key, group[0].cause.changes)
        rest = joined[0][0] if joined else 0 if place is None else known[place].number
        found |= {name: number or rest for name, number in own.items()}
    return found


def _same(incident: Incident, each: Seen) -> bool:
    """Return whether the fault of a cell is the one that the incident has: one word, and not of other nodes."""
    where = each.cause.where
    apart = incident.nodes and where.kind == 'node' and where.name not in incident.nodes
    return incident.faults[each.name].word == each.fault.word and not apart


def lived(known: Sequence[Incident], night: Night, holding: set[str] = frozenset()) -> list[Incident]:
    """Return the open incidents after the night, and its new ones with number 0. ``holding``: cells that are
    acknowledged."""
    still = [incident for incident in known if incident.state != 'over']
    groups = grouped(night.bad.values())
    numbers = matched(groups, still)
    own: dict[int, list[Seen]] = defaultdict(list)
    for group in groups:
        for each in group:
            own[numbers[each.name]].append(each)
    fresh = [new for group in groups if (new := [each for each in group if not numbers[each.name]])]
    return [*(_after(incident, own[incident.number], night, holding) for incident in still),
            *(_opened(group, night) for group in fresh)]


def _opened(group: list[Seen], night: Night) -> Incident:
    faults = {each.name: each.fault for each in group}
    uuid = f'{night.session or night.start}:{group[0].name}'
    state = 'known' if all(fault.acknowledged for fault in faults.values()) else 'open'
    return Incident(number=0, uuid=uuid, system=night.system, state=state, faults=faults,
                    events=[Event(what='new', session=night.session, start=night.start, said=_count(group))],
                    **_about(group))


def _about(group: list[Seen], before: Collection[str] = ()) -> dict:
    """Return the words about an incident; what is not known tonight stays. ``before``: its nodes until now."""
    first = group[0]
    where = first.cause.where
    if where.kind == 'node':
        nodes = {*before, *(each.cause.where.name for each in group if each.cause.where.kind == 'node')}
        where = where.model_copy(update={'name': ', '.join(sorted(nodes))})
    ack = next((each.row.cell.acknowledged for each in group if each.row and each.row.cell.acknowledged), '')
    found = {'where': where if where.kind else None, 'part': first.cause.subsystem.name,
             'changes': first.cause.changes, 'ack': ack}
    return {'key': first.key, 'title': first.title or title([each.row.cell for each in group]),
            **{name: value for name, value in found.items() if value}}


def _count(group: Sequence[Seen]) -> str:
    return counted(len(group), 'cell') if group[0].row else ''


def _after(incident: Incident, own: list[Seen], night: Night, holding: set[str]) -> Incident:
    """Return the incident after a night in which ``own`` is bad."""
    faults = {name: _again(name, fault, night, holding) for name, fault in incident.faults.items()}
    joined, worse = [], []
    for each in own:
        old, new = faults.get(each.name), each.fault
        if old is None:
            joined.append(each)
            level = None
        else:
            level = old.level
            left = {*old.nodes} - {*each.ran_on} if not old.well else set()
            new = new.model_copy(update={'since': new.since if old.well else old.since,
                                         'level': level or new.level, 'nodes': sorted({*new.nodes, *left})})
            if new.acknowledged and old.expected and new.value is not None:      # the known level judges it now
                beside = each.row.cell.model_copy(update={'reference': None, 'usual': old.expected})
                new = new.model_copy(update={'expected': old.expected, 'loss': loss(beside)})
        grown = old and each.row and each.row.cell.found >= night.start > old.since
        if grown and not new.acknowledged:
            worse.append(each)
            new = new.model_copy(update={'level': each.fault.level})
        faults[each.name] = new
    bad = [fault for fault in faults.values() if not fault.well]
    gone = sorted({fault.retired for fault in faults.values()} - {''})
    state = 'over' if not bad else 'known' if all(fault.acknowledged for fault in bad) else 'open'
    events = [(what, said) for what, holds, said in (
        ('joined', joined, joined and _count(joined)),
        ('worse', worse, worse and worse[0].row.name),
        ('due', incident.state == 'known' and state == 'open' and not worse, incident.ack),
        ('known', incident.state == 'open' and state == 'known', ''),
        ('over', not bad, f'{several(gone)} retired' if gone else '')) if holds]
    return incident.model_copy(update={
        'faults': faults, 'state': state, 'events': incident.events + [
            Event(what=what, session=night.session, start=night.start, said=said) for what, said in events],
        **(_about(own, {*incident.nodes} - night.retired) if own and state == 'open' else {}),
        **({'ack': ''} if state == 'open' else {})})


def _again(name: str, fault: Fault, night: Night, holding: set[str]) -> Fault:
    """Return a fault that was not seen again; it is well once its nodes were measured and are in order, or are
    retired."""
    if fault.well:
        return fault
    nodes = {*fault.nodes} - night.retired
    if name in night.retired or fault.nodes and not nodes:
        gone = name if name in night.retired else ', '.join(fault.nodes)
        return fault.model_copy(update={'well': True, 'elsewhere': False, 'retired': gone})
    fault = fault.model_copy(update={'nodes': sorted(nodes)})
    ran_on, judged = night.well.get(name, ([], None))
    if (bad := night.bad.get(name)) and _RUNGS[bad.fault.word] > _RUNGS[fault.word]:
        ran_on, judged = bad.ran_on, True
    if judged is None or not judged and fault.word == 'regressed':
        held = {fault.cell, fault.cell.partition('+')[0]} & holding
        return fault.model_copy(update={'acknowledged': fault.acknowledged and bool(held)})
    if ran_on and (left := nodes - {*ran_on}):
        return fault.model_copy(update={'nodes': sorted(left), 'elsewhere': True})
    return fault.model_copy(update={'well': True, 'elsewhere': False})


def _share(value: float, expected: float) -> float:
    return (value - expected) / abs(expected) if expected else 0.0


# ---- words and news

def loss(cell: Cell) -> float:
    """Return by which share of its expected value a cell is worse; 0 where nothing is known."""
    if cell.value is None or not cell.expected:
        return 0.0
    share = _share(cell.value, cell.expected)
    return share if cell.better == 'lower' else -share


def title(cells: Sequence[Cell]) -> str:
    """Return where and what, in a few words; the worst cell comes first."""
    first = cells[0]
    place = f'{first.system}:{first.partition}' if first.partition else first.system
    if first.verdict == 'regressed':
        places = dict.fromkeys(cell.cause.where.name for cell in cells if cell.cause and cell.cause.where.name)
        by = f' {figures.percent(loss(first))}' if loss(first) else ''
        parts = (first.cause or Attribution()).subsystem.name or ' and '.join(sorted({c.subsystem for c in cells}))
        return f'{several([*places]) or place}: {parts}{by} slower'
    told = {'wrong': 'a wrong answer', 'impossible': 'beyond what the machine can do', 'failed': 'did not run',
            'missing': 'never ran', 'disturbed': 'disturbed night after night'}[first.verdict]
    cases, checks = len({c.case for c in cells}), sorted({c.check for c in cells})
    return f'{place}: {several(checks)}{f", {cases} cases" if cases > 1 else ""}: {told}'


def at(system: str, session: str, start: float) -> tuple[list[Incident], set[int]]:
    """Return the incidents that were open when a session was judged, and those that it ended; then the numbers of
    those that were over."""
    if not (every := of_system(system)):
        return [], set()
    starts = database.starts()
    now = starts.get(session, start)

    def began(event: Event) -> float:
        return starts.get(event.session, event.start)
    ended = {each.number for each in every if each.closed and began(each.closed) < now}
    return [each for each in every if began(each.opened) <= now and each.number not in ended], ended


def numbered(cells: list[Cell], known: Sequence[Incident], session: str) -> list[Cell]:
    """Return the cells, the bad ones with the number of the incident that they fit, of those of the session."""
    table = [(row, _seen(_name(row.cell), row, 0.0)) for row in rows(cells) if row.cell.verdict in BAD]
    numbers = matched(grouped(each for _, each in table),
                      [each for each in known if each.closed is None or each.closed.session != session])
    found = {id(row.cell): numbers[each.name] for row, each in table}
    return [cell.model_copy(update={'incident': found.get(id(cell), 0)}) for cell in cells]


def joined(verdict: Verdict, known: Sequence[Incident]) -> Verdict:
    """Return the verdict, just recorded, with the incidents that are open and those that it ended."""
    uuid = verdict.session.uuid
    now = [each for each in known if each.closed is None or each.closed.session == uuid]
    return verdict.model_copy(update={'incidents': now, 'cells': numbered(verdict.cells, now, uuid)})


def turn(incident: Incident, session: str) -> str:
    """Return what a session made of the incident: new, worse, due, over; '' for no news."""
    return next((event.what for event in incident.events if event.session == session and event.what in TOLD), '')


def untold(incident: Incident, since: int) -> str:
    """Return the news since so many events: new, worse, due, over; '' for none. An incident that began and ended
    in between is no news, nor one that was known from its first night on."""
    told = [event.what for event in incident.events[since:] if event.what in TOLD]
    if not told or not since and incident.state != 'open':
        return ''
    return 'over' if incident.state == 'over' else told[0]


def reminded(incident: Incident, now: float, seconds: float) -> bool:
    """Return whether the incident, told ``seconds`` ago or by a clock that was ahead, is to be told once more."""
    newest = max((fault.seen for fault in incident.faults.values() if not fault.well), default=0.0)
    return (incident.state == 'open' and not 0 <= now - incident.told_at < seconds - _EARLY_SECONDS
            and now - newest < _FORGOTTEN_SECONDS)


def stands(incident: Incident) -> str:
    """Return since when an incident is open, and what it waits for."""
    left = [fault for fault in incident.faults.values() if not fault.well]
    since = f'since {datetime.date.fromtimestamp(incident.opened.start)}'
    if any(fault.elsewhere for fault in left):
        return f'{since}, {waits(incident)}'
    newest = datetime.date.fromtimestamp(max((fault.seen for fault in left), default=time.time()))
    return since if newest >= datetime.date.today() else f'{since}, last measured {newest}'


def waits(incident: Incident) -> str:
    """Return what an open incident waits for, where none of its cells is bad tonight."""
    left = [fault for fault in incident.faults.values() if not fault.well]
    nodes = sorted({node for fault in left for node in fault.nodes})
    seen = datetime.date.fromtimestamp(max((fault.seen for fault in left), default=incident.events[-1].start))
    return f'not measured again{f" on {several(nodes)}" if nodes else ""} since {seen}'


def named(found: Iterable[Incident | int], kind: str) -> str:
    """Return '2 known incidents: 3, 7'; '' for none."""
    numbers = [str(getattr(each, 'number', each)) for each in found]
    return f'{counted(len(numbers), f"{kind} incident")}: {", ".join(numbers)}' if numbers else ''
