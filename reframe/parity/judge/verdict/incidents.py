"""The life of incidents: what a night changes, and what is news.

An incident is over when each cell ended. Where a node is to blame, that node must have been measured again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from parity.base import errors, figures, times
from parity.base.figures import several
from parity.base.reasons import Kind
from parity.base.text import node_name
from parity.judge.compare.named import NamedNode
from parity.judge.compare.pairs import PairState
from parity.judge.store import database
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Event, Fault, Incident, PairFigure, Where
from parity.judge.store.plan_file import cell_id
from parity.judge.verdict import acks
from parity.judge.verdict.joining import Bad, Near, grouped, matched, near
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
    together = near()
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
        return after(known, of_verdict(verdict, system, start, interrupted, slow, mended), together, holding)
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
        self._fine = {cell.partition for cell in ran}
        well = {node for cell in ran for node in cell.ran_on}
        cases = defaultdict(set)
        for cell in failed:
            for node in _one_node(cell):
                if cell.partition in self._fine and node not in well:
                    cases[node, _on_node(cell)].add(cell.case)
        #: Nodes, each with how its cases failed: several did so, or it failed itself.
        self._dead = {key for key, names in cases.items() if len(names) > 1}
        self._checks = Counter(partition for partition, _ in {(cell.partition, cell.check) for cell in failed})
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

    def key(self, cell: Cell) -> list[str]:
        """Return kind and place of a failure: never a sentence."""
        word = cell.verdict
        if word == 'failed':
            return [word, cell.partition, self._place(cell), _how_failed(cell)]
        kind = {'impossible': cell.subsystem, 'wrong': cell.case, 'disturbed': '', 'skipped': cell.check,
                'missing': 'stopped' if cell.stopped else 'absent' if cell.environ else 'no program'}
        return [word, cell.partition, kind[word]]

    def _place(self, cell: Cell) -> str:
        """Return the case or the check that failed; '' where all of its partition does."""
        if cell.kind is Kind.LIMIT:
            return cell.case
        if cell.kind in (Kind.PLACEMENT, Kind.LAUNCH):      # a partition has one launcher
            return ''
        everything = cell.partition not in self._fine and self._checks[cell.partition] > 1
        return '' if everything else cell.check


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


def causes(table: Iterable[CellText]) -> list[tuple[str, list[CellText]]]:
    """Return title and rows of each incident, and of each cause that is none yet, the worst row of each first."""
    table = list(table)
    failures, known = Failures([row.cell for row in table]), defaultdict(list)
    for row in table:
        known[row.cell.incident].append(_bad(row, 0.0, failures))
    new = known.pop(0, ())
    groups = (sorted(group, key=lambda each: -each.fault.loss) for group in known.values())
    night = Night(table[0].cell.system if table else '', '', 0.0, {}, {}, frozenset())
    return [(_opened(group, night).title, [each.row for each in group])
            for group in (*groups, *(grouped(new, near()) if new else ()))]


# ---- what a night makes of incidents

def after(known: Sequence[Incident], night: Night, together: Near, holding: Collection = ()) -> list[Incident]:
    """Return the open incidents after the night, those of ``known`` that are back, and the new ones with number 0.
    ``holding``: cells, and numbers of incidents, that are acknowledged."""
    groups = grouped(night.bad.values(), together)
    numbers = matched(groups, known, together)
    own: dict[int, list[Bad]] = defaultdict(list)
    for each in (each for group in groups for each in group):
        own[numbers[each.name]].append(each)
    fresh = [new for group in groups if (new := [each for each in group if not numbers[each.name]])]
    return [*(_after(each, own[each.number], night, holding) for each in known
              if own[each.number] or not each.closed), *(_opened(group, night) for group in fresh)]


def _opened(group: list[Bad], night: Night) -> Incident:
    first, faults = group[0], {each.name: each.fault for each in group}
    known = all(fault.acknowledged for fault in faults.values())
    found = Incident(number=0, uuid=f'{night.session or night.start}:{first.name}', system=night.system,
                     state='known' if known else 'open', key=first.key, begin=first.fault.since, faults=faults,
                     ack=_ack(group) if known else '', events=[_event('new', night, figures.counted(
                         len(group), 'cell') if first.row else '')])
    found = found.model_copy(update=_about(found, group))
    return found.model_copy(update={'title': first.title or table.title(found)})


def _event(what: str, night: Night, text: str = '') -> Event:
    return Event(what=what, session=night.session, start=night.start, text=text)


def _ack(group: Iterable[Bad]) -> str:
    return next((each.row.cell.acknowledged for each in group if each.row and each.row.cell.acknowledged), '')


def _about(incident: Incident, group: Sequence[Bad]) -> dict[str, Any]:
    """Return place, part and changes of an incident with the faults of ``group``; what is known stays.

    Its place is the node that most causes name, or else the partitions of its cells."""
    causes = [each.cause for each in group]
    found = {'changes': table.explaining(incident.changes, *(cause.changes for cause in causes)),
             'part': incident.part or next((c.subsystem.name for c in causes if c.subsystem.name), '')}
    wheres = [where for where in (incident.where, *(cause.where for cause in causes)) if where.kind]
    if not wheres:
        return found
    of_nodes = [where for where in wheres if where.kind == 'node']
    most = max(Counter(where.name for where in of_nodes).values(), default=0)
    node = incident.where.kind == 'node' or not incident.where.kind and most > len(wheres) - len(of_nodes)
    alike = of_nodes if node else [where for where in wheres if where.kind != 'node']
    names = {name for where in of_nodes for name in where.name.split(', ')} if node else {
        fault.partition for fault in incident.faults.values()} - {''}
    kind = 'node' if node else 'everything' if len(names) > 1 and any(
        where.kind == 'everything' for where in alike) else 'partition'
    return {**found, 'where': alike[0].model_copy(update={
        'kind': kind, 'name': ', '.join(sorted(names)) or alike[0].name})}


def _after(incident: Incident, own: list[Bad], night: Night, holding: Collection) -> Incident:
    """Return the incident after a night in which ``own`` is bad."""
    held, ended = incident.number in holding, incident.closed
    faults = {name: _again(name, fault, night, held, holding) for name, fault in incident.faults.items()}
    also, worse = [], []
    for each in own:
        old, new = incident.faults.get(each.name), each.fault
        if old is None or ended or old.well and new.since - old.since > BEGAN_WITHIN.total_seconds():
            also.append(each)
        elif not old.well:
            new = new.model_copy(update={'since': old.since})
            worse += [each] if _worse(old, each) and not new.acknowledged else []
        faults[each.name] = new.model_copy(update={'acknowledged': held}) if new.listed else new
    now = incident.model_copy(update={'faults': faults})
    states = {night.well[name].state if name in night.well else '' for name in now.left}
    if states == {acks.COMES} and len(now.left) < len(faults):
        now = now.model_copy(update={'faults': {
            name: fault.model_copy(update={'well': True}) for name, fault in faults.items()}})
    now = now.model_copy(update=_about(now, own) if also or own and not now.where.kind else {})
    now = now.model_copy(update={'key': _newest_key(incident, own)})
    left = now.left
    waits = [] if left else [node for node in incident.waits or incident.nodes
                             if node not in night.retired and not _measured(now, node, night)]
    known = all(fault.acknowledged for fault in (left or faults).values())
    state = 'over' if not left and not waits else 'known' if known else 'open'
    gone = sorted({fault.retired for fault in faults.values()} - {''} or {*incident.nodes} & night.retired)
    lost = any(fault.acknowledged and not faults[name].acknowledged for name, fault in incident.faults.items())
    events = [(what, said) for what, holds, said in (
        ('back', ended, ended and f'over {times.day(ended.start)}'),
        ('also', also and not ended, several([each.row.name if each.row else each.name for each in also])),
        ('worse', worse, worse and worse[0].row.name),
        ('due', incident.state == 'known' and state == 'open' and lost and not worse, incident.ack),
        ('known', incident.state == 'open' and state == 'known', ''),
        ('over', state == 'over', f'{several(gone)} retired' if gone else '')) if holds]
    ack = incident.ack or _ack(own) if state != 'open' else ''
    return now.model_copy(update={
        'begin': min(each.fault.since for each in own) if ended else now.begin, 'state': state, 'waits': waits,
        'ack': ack, 'title': table.title(now) if also and also[0].row or now.key != incident.key else now.title,
        'events': incident.events + [_event(what, night, said) for what, said in events]})


def _newest_key(incident: Incident, own: Sequence[Bad]) -> list[str]:
    """Return the key of an incident: that of tonight's failures, where all are alike."""
    keys = {tuple(each.key) for each in own}
    of_cells = incident.key[0] == 'failed' and incident.key[1:2] != ['node'] and len(incident.key) > 2
    if not of_cells or len(keys) != 1 or own[0].key[0] != 'failed' or own[0].key[1] == 'node':
        return incident.key
    return own[0].key


def _worse(old: Fault, bad: Bad) -> bool:
    """Return whether a further drop was found: of the level, as tonight's figure alone may be an outlier. A level
    that was found some nights ago is still settling, and that of a further spell."""
    cell = bad.row.cell if bad.row else None
    now = loss(cell, cell.level) if cell and cell.level else bad.fault.loss
    settled = old.detected - old.since >= BEGAN_WITHIN.total_seconds() and bad.fault.since <= old.detected
    lasts = bad.fault.detected - old.detected >= BEGAN_WITHIN.total_seconds()
    return lasts and old.detected > 0 and acks.further(old.loss, now, settled, cell)


def _again(name: str, fault: Fault, night: Night, held: bool, holding: Collection) -> Fault:
    """Return a fault that was not bad tonight: it ended with its cell, wherever that ran, or is retired."""
    known = fault.acknowledged and (held or bool({fault.cell, fault.cell.partition('+')[0]} & {*holding}))
    fault = fault.model_copy(update={'acknowledged': known})
    if fault.well:
        return fault
    if name in night.retired or fault.nodes and night.retired.issuperset(fault.nodes):
        gone = name if name in night.retired else ', '.join(fault.nodes)
        return fault.model_copy(update={'well': True, 'retired': gone})
    well, bad = night.well.get(name), night.bad.get(name)
    if fault.listed and (not bad and night.mended.intersection(fault.nodes)
                         or night.session and night.start - fault.measured > _LISTING_SECONDS):
        well = Well([])
    ended = well and (well.state not in acks.LASTING or fault.word != 'regressed') or \
        bad and _RUNGS[bad.fault.word] > _RUNGS[fault.word]
    return fault.model_copy(update={'well': bool(ended)})


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
    failures, together = Failures(cells), near()
    bad = [_bad(row, start, failures) for row in rows(cells) if row.cell.verdict in BAD]
    numbers = matched(grouped(bad, together), [each for each in known
                                               if each.closed is None or each.closed.session != session], together)
    found = {id(each.row.cell): numbers[each.name] for each in bad}
    return [cell.model_copy(update={'incident': found.get(id(cell), 0)}) for cell in cells]


def numbered_pairs(pairs: Iterable[PairState], known: Sequence[Incident]) -> list[PairState]:
    """Return the pairs, those that are not as expected with the number of their incident."""
    numbers = {name: each.number for each in known for name in each.left}
    numbered = []
    for pair in pairs:
        number = numbers.get(of_pair(pair), 0) if pair.state == 'regressed' else 0
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
