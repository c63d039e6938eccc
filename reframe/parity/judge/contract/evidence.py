"""The runs that were made for the clauses of a contract, and what became of each.

A session names in its extras what it measured and who had it made. It belongs to no night."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parity.base.errors import UsageError
from parity.base.figures import figure
from parity.base.limits import Limit
from parity.base.text import node_name
from parity.judge.store import database
from parity.judge.store.plan_file import RERUN_OF
from parity.judge.store.record import Run, Session
from parity.site import contract as contracts
from parity.site import systems
from parity.site.contract import Clause, Contract, factor
from parity.site.identity import undistributed
from parity.site.plan import COUNTED_LABELS

#: `parity_rerun_of` of these sessions: no night counts their figures.
CONTRACT = 'contract'
BY = 'by'


class Measured(NamedTuple):
    """A run of a clause's case. ``by``: who had it made."""

    session: Session
    by: str
    run: Run

    @property
    def node(self) -> str:
        """Return the node of a job on one node; '' of a job that got none."""
        if self.run.nodes:
            return self.run.nodes[0]
        return node_name(undistributed(self.run.case)[1])


@dataclass(frozen=True)
class Outcome:
    """``word`` is '' where the value counts, else why not: impossible, wrong, disturbed, failed, skipped."""

    word: str = ''
    value: float | None = None      # in the unit of the clause
    reason: str = ''

    @property
    def fails(self) -> bool:
        """Return whether it fails its clause: no more runs can mend that."""
        return self.word in ('impossible', 'wrong')


def extras(key: str, by: str) -> list[str]:
    """Return ReFrame's options for a session that measures what has this key."""
    return ['--session-extras', f'{RERUN_OF}={CONTRACT},{CONTRACT}={key},{BY}={by}']


def of_system(system: str, contract: Contract) -> dict[str, list[Measured]]:
    """Return the stored runs by the key of what they measure, oldest first."""
    keys = {clause.key(system) for clause in contract.clauses}
    return {key: of_key(key) for key in sorted(keys)}


_SESSIONS = ("SELECT uuid FROM sessions WHERE json_valid(json_blob) "
             "AND json_extract(json_blob, '$.session_info.contract') = ? ORDER BY rowid")


_BY = "SELECT json_extract(json_blob, '$.session_info.by') FROM sessions WHERE uuid = ?"


_ALL = ("SELECT uuid FROM sessions WHERE json_valid(json_blob) "
        "AND json_extract(json_blob, '$.session_info.contract') IS NOT NULL")


def needed() -> set[str]:
    """Return the sessions that the contracts of all systems are judged by.

    Where a contract cannot be read, these are the sessions of all: nobody knows which it needs."""
    sessions = set()
    for name in systems.names():
        if not contracts.file_of(name).exists():
            continue
        try:
            contract = contracts.read(systems.read(name))
        except UsageError:
            return {uuid for uuid, in database.query(_ALL)}
        for clause in contract.clauses:
            sessions.update(uuid for uuid, in database.query(_SESSIONS, clause.key(name)))
    return sessions


def of_key(key: str) -> list[Measured]:
    """Return the stored runs of what has this key, oldest first."""
    return of_sessions(uuid for uuid, in database.query(_SESSIONS, key))


def of_sessions(uuids: Iterable[str]) -> list[Measured]:
    """Return the runs of these sessions: first attempts, without those that the end of a session cut off.

    A session that cannot be read is left out, with a warning."""
    measured = []
    for uuid in uuids:
        try:
            session = database.read(uuid)
        except database.Unreadable as err:
            database.warn(uuid, err)
            continue
        by = _by(uuid)
        for run in session.runs:
            if not (run.fixture or run.retry or run.unfinished):
                measured.append(Measured(session, by, run))
    return measured


def _by(uuid: str) -> str:
    (name,), = database.query(_BY, uuid)
    return str(name or '')


def alike(measured: Sequence[Measured]) -> list[Measured]:
    """Return the runs of the same software and check as the newest one. Others measured something else."""
    ran = [one for one in measured if not one.run.status]
    if not ran:
        return list(measured)
    newest = _what_ran(ran[-1].run)
    same = []
    for one in measured:
        if one.run.status or _what_ran(one.run) == newest:
            same.append(one)
    return same


def _what_ran(run: Run) -> tuple[str, ...]:
    software = run.alike.get('software', '')
    check = run.work.get('check', '')
    return run.software, software, str(check)


def outcome(run: Run, clause: Clause) -> Outcome:
    """Return what became of a run for a clause."""
    if run.status:
        return Outcome(run.status, reason=run.reason)
    measured = run.figure(clause.metric)
    if measured.left_out:
        return Outcome('skipped', reason=measured.left_out)
    if not measured.finite:
        why = measured.why or f'{clause.metric} is absent from the results'
        return Outcome('wrong', reason=why)
    unit = measured.unit or clause.unit
    value = measured.value * factor(clause, unit)
    limit = Limit(**measured.limit) if measured.limit else None
    if limit and limit.exceeded_by(measured.value):
        measured_text = figure(measured.value, measured.unit)
        limit_text = figure(limit.value, limit.unit)
        return Outcome('impossible', value, f'{measured_text} is beyond {limit_text} ({limit.source})')
    if measured.label not in COUNTED_LABELS:
        return Outcome('skipped', value, f'{measured.label}: {measured.why}')
    if run.disturbed:
        return Outcome('disturbed', value, run.disturbed)
    return Outcome('', value)


def by_node(measured: Iterable[Measured], clause: Clause) -> dict[str, list[Outcome]]:
    """Return the outcomes of each node, oldest first; those of a job of several nodes stand below ''."""
    outcomes = defaultdict(list)
    for one in measured:
        node = '' if clause.is_together else one.node
        outcomes[node].append(outcome(one.run, clause))
    return outcomes
