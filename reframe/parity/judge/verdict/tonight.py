"""A night as incidents see it: what was bad, what was in order, and what kind of failure each was."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from parity.base.reasons import Kind
from parity.judge.compare.pairs import PairState
from parity.judge.store import incidents as table
from parity.judge.store.incidents import Fault, PairFigure, Where
from parity.judge.store.plan_file import cell_id
from parity.judge.verdict import acks
from parity.judge.verdict.joining import Bad
from parity.judge.verdict.model import Attribution, Cell, CellText, Subsystem, Verdict, loss, rows
from parity.site import systems
from parity.site.identity import undistributed

#: Words that a person must act on.
BAD = (*acks.BAD, 'missing')
#: Stands for a whole night that stored no session, or measured nothing.
WHOLE = 'ci/nightly'


class Well(NamedTuple):
    """A cell or a pair in order tonight. ``state``: of its life, which says whether its slowdown ended."""

    ran_on: list[str]
    state: str = 'normal'
    value: float | None = None


@dataclass(frozen=True)
class Night:
    """Bad and well cells by name. ``retired``: names, and nodes, that nobody waits for. ``mended``: nodes that the
    listing does not call slow any more."""

    system: str
    session: str
    start: float
    bad: dict[str, Bad]
    well: dict[str, Well]
    retired: frozenset[str]
    mended: frozenset[str] = frozenset()

    @functools.cached_property
    def well_in_any_environ(self) -> dict[str, Well]:
        """Return the well cells by their names without an environment; of several the first."""
        wells: dict[str, Well] = {}
        for name, well in self.well.items():
            named, _, size = name.rpartition(' ')
            figure, _, _ = named.rpartition('+')
            wells.setdefault(f'{figure}+ {size}', well)
        return wells

    def note(self, name: str, word: str, title: str) -> None:
        """Note a fault of the night itself."""
        fault = Fault(verdict=word, since=self.start, measured=self.start)
        self.bad[name] = Bad(name, [word, name], fault, title=title)


def of_verdict(verdict: Verdict | None, system: str, start: float, interrupted: bool = False,
               slow: Mapping[tuple[str, str], float] | None = None,
               mended: Collection[str] = ()) -> Night:
    """Return what a night measured: cells, named with their size, pairs, and the night itself.

    A cell that was skipped, or that is disturbed tonight, was not measured. ``slow``: nodes by (node, part), which
    two listings of other jobs name, and their share of their peers' speed. ``mended``: nodes that were slow."""
    session = verdict.session.uuid if verdict else ''
    retired = _retired(verdict, system, start)
    night = Night(system, session, start, {}, {}, retired, frozenset(mended))
    if verdict is None:
        if not interrupted:
            night.note(WHOLE, 'failed', 'ci/nightly stored no session')
        return night
    measured = rows(verdict.cells)
    if interrupted:
        measured = [row for row in measured if not row.cell.stopped]
    _note_cells(night, measured)
    for (node, part), share in (slow or {}).items():
        if node not in retired:
            bad = of_node(node, part, share, start)
            night.bad[bad.name] = bad
    for pair in verdict.pairs:
        name = of_pair(pair)
        if pair.state == 'regressed':
            night.bad[name] = _of_bad_pair(pair, start)
        elif pair.state == 'ok':
            night.well[name] = Well([])
    if verdict.exit_code and not night.bad and not interrupted:
        night.note(WHOLE, 'missing', 'nothing was measured, or a check is broken')
    elif not interrupted:
        night.well[WHOLE] = Well([])
    return night


def _note_cells(night: Night, measured: Sequence[CellText]) -> None:
    """Note which cells of a night are bad, and which are in order."""
    cells = [row.cell for row in measured]
    failures = Failures(cells)
    for row in measured:
        cell = row.cell
        name = _name(cell)
        is_bad = cell.verdict in BAD or cell.unknown
        if is_bad:
            night.bad[name] = of_cell(row, night.start, failures)
        elif cell.verdict not in ('skipped', 'disturbed'):
            night.well[name] = Well(cell.ran_on, cell.state, cell.value)


def _retired(verdict: Verdict | None, system: str, start: float) -> frozenset[str]:
    """Return the retired cells and nodes, without nodes that ran all the same."""
    retired = set(systems.gone(systems.read(system), start))
    if verdict:
        for cell in verdict.cells:
            retired.difference_update(cell.ran_on)
        retired.update(_name(cell) for cell in verdict.retired)
    return frozenset(retired)


# ---- names

def of_pair(pair: PairState) -> str:
    """Return the name of a declared pair's figure among the faults of an incident."""
    return f'{pair.candidate} / {pair.baseline} {pair.benchmark}: {pair.metric}{pair.suffix}'


def _name(cell: Cell) -> str:
    return row_name(vars(cell), cell.system)


def row_name(row: Mapping[str, Any], system: str) -> str:
    """Return the name of a planned cell among the faults of an incident."""
    return f'{cell_id({**row, "system": system}, True)} ({row["size"]})'


# ---- faults

def of_cell(row: CellText, start: float, failures: Failures) -> Bad:
    """Return a cell of tonight as a fault; ``start``: when the night began."""
    cell = row.cell
    name = _name(cell)
    cause = cell.cause or Attribution()
    lost = loss(cell, cell.value)
    nodes = sorted(cell.ran_on)
    acknowledged = bool(cell.acknowledged)
    fault = Fault(verdict=cell.verdict, since=start, measured=start, cell=row.name, part=cell.subsystem,
                  unit=cell.unit, value=cell.value, expected=cell.expected, loss=lost, nodes=nodes,
                  acknowledged=acknowledged)
    if cell.verdict == 'regressed':
        key = _slow_key(cell, cause)
        return Bad(name, key, _slow(fault, cell, cause), cause, row)
    node = failures.node(cell)
    if not node:
        return Bad(name, failures.key(cell), fault, cause, row)
    where = Where(kind='node', name=node, why='no case ended well')
    key = ['failed', 'node', node, _on_node(cell)]
    fault = fault.model_copy(update={'nodes': [node]})
    return Bad(name, key, fault, Attribution(where=where), row)


def _slow_key(cell: Cell, cause: Attribution) -> list[str]:
    part = cause.subsystem.name or cell.subsystem
    where = cause.where
    if where.kind:
        return ['regressed', where.kind, where.name, part]
    return ['regressed', cell.partition, part]


def _slow(fault: Fault, cell: Cell, cause: Attribution) -> Fault:
    """Return the fault of a slow cell, with the nights and the level of its state."""
    value = _slow_level(cell, fault.measured)
    lost = loss(cell, value)
    update: dict[str, Any] = {'value': value, 'loss': lost, 'detected': cell.detected,
                              'last_good': cell.last_good, 'first_slow': cell.first_slow}
    if cell.begin:
        update['since'] = cell.begin
    if cause.where.kind == 'node':
        update['nodes'] = [cause.where.name]
    return fault.model_copy(update=update)


def _slow_level(cell: Cell, start: float) -> float | None:
    """Return the level of a slow cell; tonight's figure where it is worse and found the slowdown."""
    if not cell.begin or cell.level is None:
        return cell.value
    worse_tonight = loss(cell, cell.value) > loss(cell, cell.level)
    if cell.detected == start and worse_tonight:
        return cell.value
    return cell.level


def of_node(node: str, part: str, share: float, start: float) -> Bad:
    """Return a node that the listing names as a fault; ``share``: of its peers' speed."""
    where = Where(kind='node', name=node, why='slower than its peers night after night')
    blamed = Subsystem(name=part)
    cause = Attribution(where=where, subsystem=blamed)
    lost = 1 - share
    fault = Fault(verdict='regressed', since=start, measured=start, part=part, loss=lost, nodes=[node])
    key = ['regressed', 'node', node, part]
    return Bad(f'node {node}: {part}', key, fault, cause)


def _of_bad_pair(pair: PairState, start: float) -> Bad:
    """Return a declared pair that is not as expected as a fault."""
    name = of_pair(pair)
    key = ['regressed', name]
    title = f'{name} is not as expected'
    acknowledged = bool(pair.acknowledged)
    figure = PairFigure(expected=pair.expected, why=pair.why, ratio=pair.ratio, low=pair.low, high=pair.high,
                        nodes=pair.nodes)
    fault = Fault(verdict='regressed', since=start, measured=start, pair=figure, acknowledged=acknowledged)
    return Bad(name, key, fault, title=title)


# ---- failures

class Failures:
    """The places of a night's failures: a node on which no case ended well, or a partition."""

    def __init__(self, cells: Sequence[Cell]):
        failed, ran = [], []
        for cell in cells:
            if cell.verdict in ('failed', 'missing'):
                failed.append(cell)
            elif cell.verdict != 'skipped':
                ran.append(cell)
        #: Nodes, each with how its cases failed: several did so, or it failed itself.
        self._dead = _dead_by_cases(failed, ran)
        self._dead |= _dead_by_jobs(failed)

    def node(self, cell: Cell) -> str:
        """Return the node on which no case ended well, where that is why the cell has no figure."""
        if cell.verdict not in ('failed', 'missing') or cell.kind in _OF_NO_NODE:
            return ''
        how = _on_node(cell)
        for node in _one_node(cell) or cell.ran_on:
            if (node, how) in self._dead:
                return node
        return ''

    @staticmethod
    def key(cell: Cell) -> list[str]:
        """Return kind and place of a failure: never a sentence. One kind in a partition is one a night."""
        kind = ''
        if cell.verdict == 'failed':
            kind = _how_failed(cell)
        elif cell.verdict == 'missing':
            kind = _how_missing(cell)
        return [cell.verdict, cell.partition, kind]


def _dead_by_cases(failed: Sequence[Cell], ran: Sequence[Cell]) -> set[tuple[str, str]]:
    """Return the nodes on which several cases failed in one way and none ended well, while others of the partition
    ran."""
    partitions = {cell.partition for cell in ran}
    well: set[str] = set()
    for cell in ran:
        well.update(cell.ran_on)
    cases: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cell in failed:
        if cell.partition not in partitions:
            continue
        how = _on_node(cell)
        for node in _one_node(cell):
            if node not in well:
                cases[node, how].add(cell.case)
    return {key for key, names in cases.items() if len(names) > 1}


def _dead_by_jobs(failed: Sequence[Cell]) -> set[tuple[str, str]]:
    """Return the nodes that failed themselves: of a job on one node, and the one that all such jobs of a partition
    share."""
    dead: set[str] = set()
    jobs: dict[str, list[set[str]]] = defaultdict(list)
    for cell in failed:
        if cell.kind is Kind.NODE:
            jobs[cell.partition].append(set(cell.ran_on))
            dead.update(_one_node(cell))
    for nodes in jobs.values():
        shared = set.intersection(*nodes)
        if len(shared) == 1:
            dead |= shared
    return {(node, '') for node in dead}


#: Kinds of failures that no node is to blame for.
_OF_NO_NODE = (Kind.PLACEMENT, Kind.LAUNCH, Kind.UNREAD)


def _how_failed(cell: Cell) -> str:
    """Return how a case failed: the last word of the key of its like."""
    kind = cell.kind
    if kind in (Kind.LIMIT, Kind.ENDED, Kind.RAN, *_OF_NO_NODE):
        return kind.value
    if not cell.ran_on:
        return table.NOT_BEGUN
    if kind is Kind.CANCELLED:
        return kind.value
    return ''


def _how_missing(cell: Cell) -> str:
    """Return how a cell is missing: the last word of the key of its like."""
    if cell.kind is Kind.NO_FIGURE:
        return cell.kind.value
    if cell.stopped:
        return 'stopped'
    return 'no program' if cell.kind is Kind.NO_PROGRAM else 'absent'


def _on_node(cell: Cell) -> str:
    """Return how a case failed, where it is compared with others of its node: a node may let none begin, have all
    run out of time, or fail under them."""
    return cell.kind.value if cell.kind in (Kind.LIMIT, Kind.ENDED) else ''


def _one_node(cell: Cell) -> list[str]:
    """Return the node of a case that ran, or should have run, on one node."""
    _, node = undistributed(cell.case)
    if node:
        return [node]
    return cell.ran_on if len(cell.ran_on) == 1 else []
