"""What a killed session left behind: its processes are ended, its finished cases recovered.

ReFrame writes its results database when a session ends; a kill -9 leaves only the perflogs, one
line a finished case. Those lines become a session of their own in the database, marked
`interrupted`; planned cells that have no line are `missing` there.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from parity import paths
from parity.session import database, process, store
from parity.site.assemble import PERFLOG_COLUMNS

_PERFVALUE = re.compile(r'([^=;]+)=(\S+) \[([^\]]*)\] ref=([^,;]*),([^,;]*),([^;]*?)(?:;|$)')


def recover_all() -> list[str]:
    """Recover every session whose process is gone; returns a sentence for each, also printed."""
    told = []
    for journal in sorted((paths.results() / 'running').glob('*.json')):
        state = _read(journal)
        if state is None or process.alive(state['pid'], state['started']):
            continue
        told.append(_recover(state))
        journal.unlink(missing_ok=True)
    for sentence in told:
        print(f'parity: {sentence}', file=sys.stderr)
    return told


_KEYS = {'id': str, 'pid': int, 'started': str, 'time_start_unix': float, 'argv': list, 'session': dict}


def _read(journal: Path) -> dict[str, Any] | None:
    """The journal; one that is none (written by another hand) is moved aside, and said so."""
    try:
        state = json.loads(journal.read_text())
        if isinstance(state, dict) and all(isinstance(state.get(k), t) for k, t in _KEYS.items()):
            return state
    except (OSError, ValueError):
        pass
    print(f'parity: warning: {journal} is no journal of a session: moved to {journal.name}.bad', file=sys.stderr)
    with contextlib.suppress(OSError):
        journal.rename(journal.with_name(f'{journal.name}.bad'))
    return None


def interrupted() -> list[dict[str, Any]]:
    """Journals of sessions that were killed and not recovered yet."""
    states = map(_read, sorted((paths.results() / 'running').glob('*.json')))
    return [s for s in states if s and not process.alive(s['pid'], s['started'])]


def _recover(state: dict[str, Any]) -> str:
    ended = process.end(state['id'])
    left = f'; ended {ended} processes that it had left running' if ended else ''
    if database.holds(state['id']):
        return f'session {state["id"]} was complete{left}'
    cases = cases_of(state['id'])
    store.store(as_report(state, cases))
    return (f'session {state["id"]} was killed: recovered {len(cases)} finished '
            f'case{"" if len(cases) == 1 else "s"} from the perflogs{left}')


def cases_of(journal_id: str) -> list[dict[str, Any]]:
    """The finished cases of a session, as its perflogs tell them, in order of completion."""
    cases = []
    for log in sorted((paths.results() / 'perflogs').rglob('*.log*')):
        for line in log.read_text(errors='replace').splitlines():
            if journal_id in line and (case := parse_line(line)) and case['parity']['journal'] == journal_id:
                cases.append(case)
    return sorted(cases, key=lambda c: c['job_completion_time_unix'] or 0)


def parse_line(line: str) -> dict[str, Any] | None:
    """One perflog line as a case of ReFrame's report; None for a header or a line cut short."""
    fields = line.split('|', len(PERFLOG_COLUMNS) - 1)
    if len(fields) != len(PERFLOG_COLUMNS):
        return None
    case: dict[str, Any] = dict(zip(PERFLOG_COLUMNS, fields, strict=True))
    try:
        case['parity'] = json.loads(case['parity'])
        case['job_completion_time_unix'] = _number(case['job_completion_time_unix'])
        case['perfvalues'] = _perfvalues(case)
    except (ValueError, TypeError):
        return None
    return case if isinstance(case['parity'], dict) and 'journal' in case['parity'] else None


def _perfvalues(case: dict[str, Any]) -> dict[str, list]:
    """ReFrame's own form: system:partition:metric -> [value, ref, lower, upper, unit, result]."""
    prefix = f'{case["system"]}:{case["partition"]}'
    return {f'{prefix}:{name}': [_number(value), _number(ref), _number(low), _number(up), unit, None]
            for name, value, unit, ref, low, up in _PERFVALUE.findall(case['perfvalues'])}


def _number(text: str) -> float | None:
    return None if text in ('None', 'null', '') else float(text)


def as_report(state: dict[str, Any], cases: list[dict[str, Any]]) -> dict[str, Any]:
    """A report as ReFrame stores it, with the cases of an interrupted session."""
    for case in cases:
        phase = None if case['fail_phase'] in ('None', 'null', '') else case['fail_phase']
        case.update(fixture=False, fail_reason=None, job_nodelist=[], fail_phase=phase, parity_session={})
    start = state['time_start_unix']
    end = max([start, *(c['job_completion_time_unix'] or 0 for c in cases)])
    command = shlex.join(state['argv'])
    return store.as_report(state['session'], cases, start, end, interrupted=True, cmdline=command)
