"""The table of incidents in the results database: read, write and change them; which nights they know.

ci/nightly writes it at its end, and `parity ack`. One JSON text is an incident."""

import datetime
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, computed_field, model_validator

from parity.base import figures, paths, times
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import several
from parity.base.reasons import Kind
from parity.base.strict import Strict
from parity.base.text import node_name
from parity.judge.store import database

#: Facts that change without slowing a machine.
_HARMLESS = ('nodes', 'parity', 'ReFrame')
#: The text of the event `known` that ends an acknowledgement.
TAKEN_BACK = 'taken back'
#: Nodes by their short names; older versions stored full ones.
NodeNames = Annotated[list[str], AfterValidator(lambda names: [node_name(name) for name in names])]


class Change(Strict):
    """A fact that differs between the last good night and the bad one."""

    fact: str                        # kernel, microcode, mpi, nodes, ...
    old: str
    new: str
    nodes: list[str] = []            # where it changed; none: not a fact of a node
    since: float                     # when the first session began that had the new value (Unix time)

    @property
    def when(self) -> str:
        """Return when that session began, local time."""
        return times.minute(self.since)

    @property
    def explains(self) -> bool:
        """Return whether it may slow a machine."""
        return self.fact not in _HARMLESS

    def concerns(self, nodes: Iterable[str]) -> bool:
        """Return whether it is a fact of one of these nodes, or of no node."""
        if not self.nodes:
            return True
        names = set(map(node_name, nodes))
        return not names.isdisjoint(map(node_name, self.nodes))

    @property
    def what(self) -> str:
        text = f'{self.fact} {self.old} -> {self.new}'
        if self.nodes:
            text += f' on {several(self.nodes)}'
        return text

    def __str__(self) -> str:
        return f'{self.what} since {self.when[:10]}'


def _without_references(changes: list[Change]) -> list[Change]:
    """Return changes without the accepted values that older versions stored: accepting one slows nothing."""
    return [change for change in changes if change.fact != 'reference']


def explaining(*candidates: list[Change]) -> list[Change]:
    """Return the first changes of which one may slow a machine, or else the first ones."""
    for changes in candidates:
        if any(change.explains for change in changes):
            return changes
    return next(filter(None, candidates), [])


class Where(Strict):
    """One node, one partition or everything; '' where that is not known. ``why`` is the evidence."""

    kind: Literal['node', 'partition', 'everything', ''] = ''
    name: str = ''
    why: str = ''
    alone: bool = False              # no other partition measured the same: it may be everything

    def __str__(self) -> str:
        named = {'node': f'this node: {self.name}', 'partition': f'partition {self.name}',
                 'everything': 'everything', '': 'cannot be told'}[self.kind]
        return f'{named} ({self.why})' if self.why else named


def _renamed(stored: Any, names: Mapping[str, str], gone: Collection[str] = ()) -> Any:
    """Return what an older version stored, with the names of today and without what is gone."""
    if not isinstance(stored, dict):
        return stored
    renamed = {}
    for name, value in stored.items():
        if name not in gone:
            renamed[names.get(name, name)] = value
    return renamed


class WithVerdict(Strict):
    """A model with a verdict. Its former name, `word`, is written beside it for one version, and is read."""

    verdict: str

    @computed_field
    @property
    def word(self) -> str:
        """The verdict, by its former name."""
        return self.verdict

    @model_validator(mode='before')
    @classmethod
    def _by_its_name(cls, stored: Any) -> Any:
        gone = {'word'} if 'verdict' in stored else ()
        return _renamed(stored, {'word': 'verdict'}, gone)


def partition_of(cell: str) -> str:
    """Return the partition in the name of a cell; '' of none."""
    return cell.partition('+')[0].rpartition(':')[2]


class PairFigure(Strict):
    """A declared pair's figure, as it was judged last."""

    expected: str                    # 'at least 0.97'
    why: str                         # the ratio with its interval, confidence and sessions
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    nodes: dict[str, NodeNames] = {}        # by side, system:partition: where it ran


class Fault(WithVerdict):
    """A cell, a pair or a whole night within an incident, as it was measured last."""

    since: float                     # Unix times: when it began, when it was measured last
    measured: float
    detected: float = 0.0            # when its level, or the newest drop below that, was found
    last_good: float = 0.0           # the newest night that was surely good before it; 0: not known
    first_slow: float = 0.0          # the first night that was surely slow; 0: not known
    cell: str = ''                   # as `parity show` takes it; '' for a pair and for a night
    part: str = ''                   # of the machine: the cell's subsystem
    value: float | None = None       # the level of a slow cell; else the figure
    expected: float | None = None    # the value that judged it
    unit: str = ''
    loss: float = 0.0                # the share by which it is worse
    nodes: NodeNames = []            # where it ran; the slow node where one is
    well: bool = False               # it ended, or it is retired
    retired: str = ''                # its nodes or its cell, if that ended it
    acknowledged: bool = False
    beyond_ack: bool = False         # a further drop was found after it was acknowledged
    pair: PairFigure | None = None   # of a pair
    where: Where = Where()           # the place that its cause named last; '' where an older version wrote it
    blamed: str = ''                 # the part of the machine that its cause named last
    moved: bool = False              # `well`, as another incident has it

    @property
    def partition(self) -> str:
        return partition_of(self.cell)

    @property
    def check(self) -> str:
        """Return the name of its check; '' for a pair and for a night."""
        case = self.cell.rpartition('@')[0].rpartition('.')[0]
        return case.partition('%')[0]

    @property
    def listed(self) -> bool:
        """Return whether it is a node's, which the listing of nodes names."""
        return bool(self.part and not self.cell)

    @model_validator(mode='before')
    @classmethod
    def _of_older_versions(cls, stored: Any) -> Any:
        return _renamed(stored, {'found': 'detected', 'seen': 'measured'}, {'level', 'outgrown', 'elsewhere'})


class Event(Strict):
    """A turn in the life of an incident; `known` alone is no news. Older versions wrote `joined` for `also`."""

    what: Literal['new', 'also', 'joined', 'worse', 'known', 'due', 'over', 'back']
    session: str                     # '' where a night stored none, and for a person's word
    start: float                     # of the session, Unix time
    text: str = ''

    @model_validator(mode='before')
    @classmethod
    def _of_older_versions(cls, stored: Any) -> Any:
        return _renamed(stored, {'said': 'text'})


class Cause(Strict):
    """The cause of an incident, as `parity cause` measured it."""

    word: Literal['software', 'node', 'both', 'neither', 'not decided']
    text: str                        # the sentence, with ratios and intervals
    measured: float                  # when, Unix time
    experiment: str                  # the id that its sessions have
    cells: list[str]
    turns: int                       # that were measured
    node: NodeNames = []             # the slow node, and the sound one
    peer: NodeNames = []
    software: str = ''               # tonight's, and that of the last good night
    earlier: str = ''
    slower: dict[str, list[float]] = {}     # by node or software: share, and its interval
    settings: list[str] = []         # of the slow node that the sound one has otherwise
    package: str = ''                # that is to blame, where the software is


class Incident(Strict):
    """Faults that began together at one place, from the night that found them until all ended."""

    number: int                      # of this results database, never used again
    uuid: str                        # the same in every database that it is merged into
    system: str
    state: Literal['open', 'known', 'over'] = 'open'
    key: list[str]                   # what its faults have in common, the word first
    title: str = ''                  # 'c3: memory 8.5 % slower'; another one where a cell joins
    where: Where = Where()
    part: str = ''                   # of the machine; '' where it is not known
    changes: Annotated[list[Change], AfterValidator(_without_references)] = []
    begin: float = 0.0               # when its first fault began, Unix time; 0: an older version wrote it
    faults: dict[str, Fault] = {}    # by cell and size
    waits: NodeNames = []            # nodes that must be measured again: all of its cells ended
    events: list[Event] = []         # oldest first
    ack: str = ''                    # until when, by whom and why it is known
    cause: Cause | None = None      # of `parity cause`
    notified: int = 0                # so many events were told
    called: int = 0                  # and given to `on_incident`
    notified_at: float = 0.0         # when it was told last, Unix time

    @model_validator(mode='before')
    @classmethod
    def _of_older_versions(cls, stored: Any) -> Any:
        return _renamed(stored, {'told': 'notified', 'told_at': 'notified_at'})

    @property
    def opened(self) -> Event:
        return self.events[0]

    @property
    def since(self) -> float:
        """Return when the night began that found it, or last found it back (Unix time)."""
        return max(event.start for event in self.events if event.what in ('new', 'back'))

    @property
    def since_text(self) -> str:
        """Return 'since 2026-11-20', or 'back since 2026-11-27'."""
        day = times.day(self.since)
        if self.since > self.opened.start:
            return f'back since {day}'
        return f'since {day}'

    @property
    def closed(self) -> Event | None:
        return self.events[-1] if self.state == 'over' else None

    @property
    def acks_from(self) -> datetime.date:
        """Return the first day whose acknowledgements hold: one that is over, or back, ended those before."""
        if self.closed:
            return datetime.date.max
        back = [event.start for event in self.events if event.what == 'back']
        if back:
            return datetime.date.fromtimestamp(back[-1])
        return datetime.date.min

    @property
    def returned(self) -> bool:
        """Return whether it was over before, and came back."""
        return any(event.what == 'back' for event in self.events)

    @property
    def cells(self) -> list[str]:
        return list(dict.fromkeys(fault.cell for fault in self.faults.values() if fault.cell))

    @property
    def nodes(self) -> list[str]:
        """Return the nodes that are to blame; none where it is no node's."""
        if self.where.kind != 'node':
            return []
        return [node_name(name) for name in self.where.name.split(', ')]

    @property
    def left(self) -> dict[str, Fault]:
        """Return the faults that have not ended."""
        return {name: fault for name, fault in self.faults.items() if not fault.well}


#: How a case fails whose job never began: the last word of an incident's key, as a kind of reason is.
NOT_BEGUN = 'not begun'
_HOW_FAILED = {NOT_BEGUN: 'did not run', Kind.LIMIT.value: 'reached its limit of time or memory',
               Kind.CANCELLED.value: 'was cancelled', Kind.ENDED.value: 'failed after its whole output',
               Kind.PLACEMENT.value: 'ranks placed otherwise than asked',
               Kind.LAUNCH.value: 'each rank started alone',
               Kind.UNREAD.value: 'printed what parity does not read'}


def how_failed(key: list[str]) -> str:
    """Return how the cases of a failure failed; '' where that has no name, or in a key of older versions."""
    return key[-1] if key[0] == 'failed' and len(key) > 2 else ''


def title(incident: Incident) -> str:
    """Return where and what, in a few words: of all faults that have not ended."""
    lasting = incident.left or incident.faults
    faults = sorted(lasting.values(), key=lambda fault: -fault.loss)
    names, places = [], []
    for fault in faults:
        cell = fault.cell.partition('+')[0]
        name, _, place = cell.rpartition('@')
        names.append(name)
        places.append(place.rstrip(':'))
    place = _place(incident, places)
    word = faults[0].word
    if word == 'regressed':
        return f'{place}: {_slowdown(incident, faults)}'
    cases = {name.rpartition('.')[0] for name in names}
    checks = {case.partition('%')[0] for case in cases}
    count = f', {len(cases)} cases' if len(cases) > 1 else ''
    return f'{place}: {several(sorted(checks))}{count}: {_what(incident, word)}'


def _slowdown(incident: Incident, faults: list[Fault]) -> str:
    """Return 'memory 8.5 % slower': the part, and the median loss of the faults."""
    parts = {fault.part for fault in faults}
    part = incident.part or ' and '.join(sorted(parts))
    losses = [fault.loss for fault in faults if fault.loss]
    if not losses:
        return f'{part} slower'
    loss = figures.percent(median(losses))
    return f'{part} {loss} slower'


def _place(incident: Incident, of_cells: list[str]) -> str:
    """Return where an incident is; ``of_cells``: the places of its cells."""
    where = incident.where
    places = where.name.split(', ') if where.kind else list(dict.fromkeys(of_cells))
    is_of_node = where.kind == 'node'
    if where.kind and not is_of_node and len(places) == 1:
        return f'{incident.system}:{places[0]}'
    if len(places) <= 2:
        return ', '.join(places)
    if where.kind == 'everything':
        return 'everything'
    return figures.counted(len(places), 'node' if is_of_node else 'partition')


def _what(incident: Incident, word: str) -> str:
    """Return what an incident that is not a slowdown is."""
    if word == 'missing' and incident.key[-1] == Kind.NO_FIGURE.value:
        return 'ran without a figure'
    if word == 'failed':
        return _HOW_FAILED.get(how_failed(incident.key), 'failed')
    return _WHAT[word]


_WHAT = {'wrong': 'a wrong answer', 'impossible': 'beyond what the machine can do', 'missing': 'never ran',
         'disturbed': 'disturbed night after night', 'skipped': 'left out night after night'}


# ---- the table

_TABLE = ('CREATE TABLE IF NOT EXISTS parity_incidents '
          '(number INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT UNIQUE, system TEXT, changed REAL, json TEXT)')
#: The last night of each system that was recorded.
_NIGHTS = 'CREATE TABLE IF NOT EXISTS parity_nights (system TEXT PRIMARY KEY, session TEXT, start REAL)'
_NIGHT = 'INTO parity_nights (system, session, start) VALUES (?, ?, ?)'
_LAST = 'SELECT session, start FROM parity_nights WHERE system = ?'
_EVERY = 'SELECT number, json FROM parity_incidents'
#: Only an incident has a state: this is in the text of one that is over. For so many seconds it may come back.
_OVER, _BACK = '"state":"over"', 14.5 * 86400
_SELECT = f'{_EVERY} WHERE system = ? ORDER BY number'


def of_system(system: str) -> list[Incident]:
    """Return every incident of the system, over ones too, by number; none without a table.

    Raises InfrastructureError where the database cannot be read."""
    return _readable(database.query(_SELECT, system))


def at(system: str, session: str, start: float) -> tuple[list[Incident], dict[int, datetime.date]]:
    """Return the incidents that were open when a session was judged, and those that it ended; then by number
    ``acks_from``, also of those that were over."""
    stored = database.query(_SELECT, system)
    if not stored:
        return [], {}
    starts = database.starts()
    now = starts.get(session, start)
    ended = {number for number, text in stored if _OVER in text and _end(text, starts) < now}
    others = [row for row in stored if row[0] not in ended]
    known = []
    for incident in _readable(others):
        opened = incident.opened
        if starts.get(opened.session, opened.start) <= now:
            known.append(incident)
    acks_from = dict.fromkeys(ended, datetime.date.max)
    for incident in known:
        acks_from[incident.number] = incident.acks_from
    return known, acks_from


def as_of(incident: Incident, start: float, until: float) -> Incident:
    """Return an incident as the night that began at ``start`` left it; ``until``: when the next night began."""
    events = [event for event in incident.events if event.start < until]
    if not events or len(events) == len(incident.events):
        return incident
    last = events[-1]
    is_over = last.what == 'over'
    is_known = last.what == 'known' and last.text != TAKEN_BACK
    begun = {name: fault for name, fault in incident.faults.items() if fault.since <= start}
    faults = {}
    for name, fault in (begun or incident.faults).items():
        then: dict[str, Any] = {'acknowledged': is_known}
        if fault.measured >= start:
            then |= {'well': is_over, 'retired': ''}
        if fault.measured > start:      # its figure is of a later night
            then['value'] = None
        faults[name] = fault.model_copy(update=then)
    left: dict[str, Any] = {'events': events, 'state': 'open', 'ack': '', 'faults': faults, 'waits': []}
    if is_known:
        left |= {'state': 'known', 'ack': last.text}
    elif is_over:
        left['state'] = 'over'
    return incident.model_copy(update=left)


def _end(text: str, starts: Mapping[str, float]) -> float:
    """Return when the night began that ended an incident; 0 where its text cannot be read."""
    try:
        last = json.loads(text)['events'][-1]
        return starts.get(last['session'], last['start'])
    except (ValueError, LookupError, TypeError):
        return 0.0


def numbers(system: str) -> set[int]:
    return {number for number, in database.query('SELECT number FROM parity_incidents WHERE system = ?', system)}


def read(number: str) -> Incident:
    """Return one incident. UsageError with the valid numbers where there is none of that number."""
    stored = dict(database.query(f'{_EVERY} ORDER BY number'))
    wanted = int(number)
    if wanted not in stored:
        newest = list(map(str, stored))[-20:]
        valid = ', '.join(newest) or 'none: a bad night opens them'
        raise UsageError(f'no incident {number}; valid: {valid}')
    return _read(wanted, stored[wanted])


def _read(number: int, text: str) -> Incident:
    try:
        incident = Incident.model_validate_json(text)
    except ValueError:
        raise InfrastructureError(f'{paths.database()}: incident {number} cannot be read; use the parity that '
                                  'wrote it, if that is a newer one') from None
    return incident.model_copy(update={'number': number})


def _readable(stored: Iterable[tuple[int, str]]) -> list[Incident]:
    """Return the incidents that can be read; a warning names each other one."""
    readable = []
    for number, text in stored:
        try:
            readable.append(_read(number, text))
        except InfrastructureError as err:
            database.warn(f'incident {number}', err)
    return readable


@contextmanager
def _writing() -> Iterator[sqlite3.Connection]:
    """The database, which no other process writes meanwhile. All is written, or nothing."""
    file = paths.database()
    try:
        with database.writing() as conn:
            conn.execute(_TABLE)
            conn.execute(_NIGHTS)
            yield conn
    except sqlite3.Error as err:
        raise InfrastructureError(f'{file}: {err}: incidents are not recorded; {database.TO_WRITE}') from None


def _write(conn: sqlite3.Connection, incidents: Iterable[Incident]) -> None:
    for incident in incidents:
        text = incident.model_dump_json()
        now = time.time()
        if incident.number:
            conn.execute('UPDATE parity_incidents SET changed = ?, json = ? WHERE uuid = ?',
                         (now, text, incident.uuid))
        else:
            conn.execute('INSERT INTO parity_incidents (uuid, system, changed, json) VALUES (?, ?, ?, ?)',
                         (incident.uuid, incident.system, now, text))


def change(updates: Mapping[int, Callable[[Incident], Mapping[str, Any]]],
           write: Callable[[], object] = lambda: None) -> None:
    """Store new fields of incidents, by number, and have ``write`` write what belongs to them. All is stored, or
    nothing."""
    if not updates:
        return
    with _writing() as conn:
        for number, update in updates.items():
            row = conn.execute(f'{_EVERY} WHERE number = ?', (number,)).fetchone()
            incident = _read(*row)
            fields = dict(update(incident))
            _write(conn, [incident.model_copy(update=fields)])
        write()


def record(system: str, session: str, start: float, after: Callable[[list[Incident]], Iterable[Incident]]
           ) -> list[Incident]:
    """Store what ``after`` makes of the incidents that are open or may come back, and return all of the system.

    ``session``: '' for a night that stored none. A session that is recorded already, or older than that one,
    changes nothing."""
    starts = database.starts()
    with _writing() as conn:
        last = conn.execute(_LAST, (system,)).fetchone()
        if not session or last is None or start > starts.get(*last):
            stored = conn.execute(_SELECT, (system,))
            known = _readable(row for row in stored if _may_change(row[1], start, starts))
            _write(conn, after(known))
            if session:
                conn.execute(f'REPLACE {_NIGHT}', (system, session, start))
        return _readable(conn.execute(_SELECT, (system,)))


def _may_change(text: str, start: float, starts: Mapping[str, float]) -> bool:
    """Return whether an incident is not over, or may come back in a night that began at ``start``."""
    return _OVER not in text or start - _end(text, starts) < _BACK


def recorded() -> set[str]:
    """Return the last session of each system that was recorded."""
    return {session for session, in database.query('SELECT session FROM parity_nights')}


def unrecorded(system: str) -> list[str]:
    """Return the nights that were stored since the last one that was recorded, oldest first: each was killed.

    Those that were stored before this was ever asked of the system count as recorded."""
    starts = database.starts()
    newest = next(reversed(starts), '')
    newest_start = starts.get(newest, 0.0)
    with _writing() as conn:
        conn.execute(f'INSERT OR IGNORE {_NIGHT}', (system, newest, newest_start))
        last = conn.execute(_LAST, (system,)).fetchone()
    last_start = starts.get(*last)
    nights = []
    for uuid, start in starts.items():
        if start <= last_start:
            continue
        session = database.brief(uuid)
        if session and session.system == system and session.selection:
            nights.append(uuid)
    return nights
