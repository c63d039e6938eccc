"""Sessions made by hand in ReFrame's form, for tests of what parity makes of them."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from typing import Any

METRICS = [{'name': 'hpl', 'unit': 'Gflop/s', 'better': 'higher'},
           {'name': 'latency', 'unit': 'us', 'better': 'lower'}]


def planned(case: str = 'Toy', environ: str = 'distro', needs=('hpcc',), **other: Any) -> dict[str, Any]:
    return {'check': case.split()[0], 'case': case, 'unique_name': case, 'subsystem': 'compute', 'size': 'quick',
            'file': 'checks/compute/toy.py', 'needs': list(needs), 'system': 'local',
            'partition': 'default', 'environ': environ, 'metrics': METRICS, **other}


def ran(case: str = 'Toy', hpl: Any = 100.0, latency: Any = 1.5, refs: dict[str, tuple] | None = None,
        environ: str = 'distro', **other: Any) -> dict[str, Any]:
    """A finished case; ``refs`` gives (reference, lower, upper) by metric."""
    refs = refs or {}
    values = {f'local:default:{m["name"]}': [v, *refs.get(m['name'], (0, None, None)), m['unit'], None]
              for m, v in zip(METRICS, (hpl, latency), strict=True) if v != 'absent'}
    record = {'journal': 'abc', 'metrics': {}, 'labels': {}, 'left_out': {},
              'software': {'provider': 'distro', 'identity': 'x'}, **other.pop('parity', {})}
    return {'name': case, 'unique_name': case, 'system': 'local', 'partition': 'default', 'environ': environ,
            'result': 'pass', 'fail_phase': None, 'fail_reason': None, 'run_index': 0, 'fixture': False,
            'perfvalues': values, 'job_nodelist': ['node01'], 'jobid': '17', 'time_run': 2.0,
            'outputdir': '/out', 'parity': record, **other}


def case(hpl: Any = 100.0, name: str = 'Toy', **other: Any) -> dict[str, Any]:
    """A finished case as a history reads it, with the metrics that it noted; keywords as for `ran`."""
    noted = {m['name']: {'unit': m['unit'], 'better': m['better']} for m in METRICS}
    return ran(other.pop('case', name), hpl, parity={'metrics': noted, 'size': 'quick', **other.pop('parity', {})}, **other)


def report(cases: list[dict[str, Any]], plan: list[dict[str, Any]], retries: list[dict[str, Any]] = (),
           **info: Any) -> dict[str, Any]:
    session = {'id': 'abc', 'facts': {}, 'announcement': 'software: distro',
               'plan': {'system': 'local', 'providers': ['distro'], 'cases': plan, 'checks': [], 'problems': []}}
    runs = [{'run_index': 0, 'testcases': cases}]
    if retries:
        runs.append({'run_index': 1, 'testcases': [{**r, 'run_index': 1} for r in retries]})
    about = {'uuid': '3f2a91bb-0', 'cmdline': 'reframe -c checks/ -r', 'version': '4.10.4',
             'time_start_unix': 1795190000.0, 'time_end_unix': 1795190100.0, 'time_elapsed': 100.0}
    return {'session_info': {**about, **info}, 'runs': runs, 'restored_cases': [], 'parity_session': session}


def verdict_on(report: dict[str, Any]):
    """What `parity verdict` says of a report that is stored nowhere."""
    from parity.judge.store import record
    from parity.judge.verdict import judge
    return judge.judged(record.of_report(report))


SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, json_blob TEXT, report_file TEXT);
CREATE TABLE IF NOT EXISTS testcases(name TEXT, system TEXT, partition TEXT, environ TEXT, job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT);
CREATE TABLE IF NOT EXISTS metadata(schema_version TEXT);
INSERT INTO metadata VALUES('1.0');
"""


def store(file, uuid: str, days: float = 0, system: str = 'local', host: str = '', blob: str = '') -> None:
    """Store a session; ``blob`` takes the place of its report."""
    made = report([ran(system=system)], [planned(system=system)], uuid=uuid)
    made['parity_session']['plan']['system'] = system
    made['parity_session']['facts'] = {'machine': {'hostname': host}}
    began = time.time() - days * 86400
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.executescript(SCHEMA)
        conn.execute('INSERT INTO sessions VALUES(?, ?, ?, ?, NULL)', (uuid, began, began + 9, blob or json.dumps(made)))
        conn.execute('INSERT INTO testcases VALUES(?, ?, ?, ?, ?, ?, ?)', ('Toy', system, 'default', 'distro', began, uuid, f'{uuid}:0:0'))


#: A study of one partition and two numbers of threads, up to its experiments.
STUDY_HEAD = '''title: t
source: s
what: w
contrast: node
axes:
  node: {what: w, here: h, kind: partition, values: {node: ''}}
  threads: {what: w, here: h, kind: value, values: [1, 2]}
experiments:
'''
