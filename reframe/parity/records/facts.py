"""What each session knew of the machine and of its nodes: what may have changed since a better night."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from parity.base import files
from parity.records import cache, database, outset, plans, readable, runs, selection

#: Goes up when SessionFacts, or what its fields mean, changes: what was kept of another version is read anew.
_VERSION = 4


@dataclass(frozen=True)
class SessionFacts:
    """``start``, ``end``: Unix times. ``machine``: nested facts of where ReFrame ran. ``nodes``: what each node of
    a batch system said of itself (programs/node.sh), by name. ``software``: identities of what the cases ran."""

    uuid: str
    start: float
    system: str
    cmdline: str
    reframe: str
    machine: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    software: tuple[str, ...] = ()
    end: float = 0.0
    rerun_of: str = ''           # the session whose figures this one confirms
    selection: str = ''          # of a night (parity.records.selection); '' of another session
    planned: str = ''            # which cells were planned (parity.records.plans)


def sessions(system: str, last: int | None = None) -> list[SessionFacts]:
    """The facts of the system's newest ``last`` sessions (all: None), oldest first.

    They are kept in results/cache/facts, a file a session, that can be removed at any time: a session's
    report of a thousand runs takes a tenth of a second to read.
    """
    found: list[SessionFacts] = []
    for uuid, start in reversed(database.starts().items()):
        if last is not None and len(found) == last:
            break
        if (facts := _kept(uuid)) and facts.system == system:
            found.append(replace(facts, start=start))
    return found[::-1]


def newest(system: str) -> SessionFacts | None:
    """The system's newest session that confirms no other one; None: there is none."""
    known = map(_kept, reversed(database.uuids()))
    return next((facts for facts in known if facts and facts.system == system and not facts.rerun_of), None)


def _kept(uuid: str) -> SessionFacts | None:
    file = cache.file('facts', _VERSION, uuid, 'json')
    try:
        said = json.loads(file.read_bytes())
        return SessionFacts(**{**said, 'software': tuple(said['software'])})
    except (OSError, ValueError, TypeError, KeyError):
        read = readable.read(uuid, lambda report: (of_report(report), outset.lost(report)))
        facts, lost = read or (None, '')
        if facts and not lost:
            files.write(file, json.dumps(asdict(facts)))
        return facts


def _throttled(watched: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """By node, whether heat or a CPU quota slowed any job there (programs/watch.py)."""
    times: dict[str, int] = {}
    for seen in watched:
        if seen.get('node'):
            times[seen['node']] = times.get(seen['node'], 0) + (seen.get('throttled') or 0)
    return {node: {'throttled': 'yes' if count else 'no'} for node, count in times.items()}


def of_report(report: dict[str, Any]) -> SessionFacts:
    """The facts of one session as ReFrame stores it."""
    raws = [raw for run in report['runs'] for raw in run['testcases']]
    kept: dict[str, Any] = {}
    with contextlib.suppress(outset.Lost):     # who judges the session is told
        kept = outset.of_report(report)
    records = [run.record for attempts in runs.of_report(report).values() for run in attempts]
    slowed = _throttled([r.get('watched') or {} for r in records])
    nodes = {said['node']: {**said, **slowed.get(said['node'], {})}
             for r in records if (said := r.get('node') or {}).get('node')}
    software = {str((r.get('software') or {}).get('identity', '')) for r in records}
    info = report['session_info']
    return SessionFacts(
        uuid=info['uuid'], start=info['time_start_unix'], cmdline=info.get('cmdline', ''),
        system=kept.get('plan', {}).get('system') or next((r['system'] for r in raws), ''),
        reframe=info.get('version', ''), nodes=nodes,
        # without a batch system the session's machine is the node
        machine={**kept.get('facts', {}), **({} if nodes else next(iter(slowed.values()), {}))},
        software=tuple(sorted(software - {''})), end=info['time_end_unix'],
        rerun_of=info.get(database.RERUN_OF, ''), selection=selection.of_night(report),
        planned=plans.digest(kept.get('plan', {})))
