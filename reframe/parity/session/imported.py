"""`parity import`: sessions and perflogs that ReFrame stored without parity become sessions of the history.

A perflog names no session: its lines of one day are one. They are put into a results database, which is merged."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import sqlite3
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

from parity.base.errors import NothingMeasured, UsageError
from parity.plan import OWN, PASSED
from parity.plan.identity import case_name
from parity.records import database, outset
from parity.rfm import adopt, store
from parity.session import retain
from parity.system import systems

Report = dict[str, Any]
#: Columns that ReFrame writes for each metric, behind its name.
_COLUMNS = ('value', 'ref', 'lower_thres', 'upper_thres', 'unit')
_ABSENT = ('None', 'null', '')


def run(file: Path, dry_run: bool) -> list[str]:
    """Import a results.db, a perflog or a folder of these. Return sentences on what came in, and what not and why.
    UsageError for a file that is neither, NothingMeasured where nothing can come in."""
    left: Counter[str] = Counter()
    reports = list(_stored(file, left) if _is_database(file) else _logged(file, left))
    new = [report for report in reports if _kept(report, left)]
    _plan(new)
    told = [f'not imported: {count} x {why}' for why, count in left.items()]
    if not new:
        raise NothingMeasured('\n'.join([f'{file}: nothing to import', *told]))
    known = set(database.uuids())
    here = sum(report['session_info']['uuid'] in known for report in new)
    if not dry_run:
        with tempfile.TemporaryDirectory(prefix='parity-import-') as folder:
            with mock.patch.dict(os.environ, {'PARITY_RESULTS': folder}):
                for report in new:
                    store.store(report)
            retain.merge(Path(folder) / 'results.db')
    cases = [case for report in new for case in report['runs'][0]['testcases']]
    figures = sum(len(case['perfvalues']) for case in cases)
    verb = 'would be imported' if dry_run else 'imported'
    return [f'{file}: {verb}: {len(new) - here} of {len(new)} sessions, {here} are here already; in all '
            f'{len(cases)} cases with {figures} figures', *told]


def _is_database(file: Path) -> bool:
    if not file.exists():
        raise UsageError(f'{file}: no such file; name a results.db, a perflog or a folder of perflogs')
    return file.is_file() and file.read_bytes()[:15] == b'SQLite format 3'


def _stored(file: Path, left: Counter[str]) -> Iterator[Report]:
    """The sessions of a results database."""
    try:
        with closing(sqlite3.connect(f'{file.resolve().as_uri()}?mode=ro', uri=True)) as conn:
            blobs = [blob for blob, in conn.execute('SELECT json_blob FROM sessions ORDER BY rowid')]
    except sqlite3.DatabaseError as err:
        raise UsageError(f"{file}: not a results database of ReFrame's: {err}") from None
    for blob in blobs:
        try:
            report = json.loads(blob)
            cases = [case for run in report['runs'] for case in run['testcases']]
            if outset.of_report(report) or any(case.get('parity') for case in cases):
                left["session of parity's own: parity merge takes it"] += 1
                continue
            report['runs'] = [{**report['runs'][0], 'testcases': cases}]
            yield report
        except database.MALFORMED:
            left["session that is not of ReFrame's form"] += 1


def _logged(file: Path, left: Counter[str]) -> Iterator[Report]:
    """A session for each system and day of the perflogs."""
    days: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for log in sorted(file.rglob('*.log')) if file.is_dir() else [file]:
        header: list[str] = []
        for line in log.read_text(errors='replace').splitlines():
            fields = line.split('|')
            if {'job_completion_time_unix', 'system'} <= {*fields}:
                header = fields
            elif len(fields) != len(header):
                left[f'line of {log.name} without a header (job_completion_time_unix, system, ...)'] += 1
            elif case := _line(dict(zip(header, fields, strict=True))):
                day = datetime.datetime.fromtimestamp(case['job_completion_time_unix'])
                days[case['system'], f'{day:%Y-%m-%d}'].append(case)
            else:
                left[f'line of {log.name} without time, name, partition or environ'] += 1
    for (system, day), cases in sorted(days.items(), key=lambda item: item[0][1]):
        times = [case['job_completion_time_unix'] for case in cases]
        report = store.as_report({}, cases, min(times), max(times), cmdline=f'parity import ({day})')
        number = str(uuid.uuid5(uuid.NAMESPACE_URL, f'parity import {system} {day}'))
        report['session_info']['uuid'] = number
        for at, case in enumerate(cases):
            case.update(uuid=f'{number}:0:{at}', session_uuid=number)
        yield report


def _line(said: dict[str, str]) -> dict[str, Any] | None:
    """A line of a perflog as a case of ReFrame's report; None where it does not say which."""
    name = said.get('display_name') or said.get('name')
    ended = _number(said['job_completion_time_unix'])
    if not (name and ended and said.get('partition') and said.get('environ')):
        return None
    place = f'{said["system"]}:{said["partition"]}'
    values = {f'{place}:{metric}': [*(_number(said.get(f'{metric}_{column}', '')) for column in _COLUMNS[:4]),
                                    said.get(f'{metric}_unit', ''), None]
              for key in said if (metric := key.removesuffix('_value')) != key and said[key] not in _ABSENT}
    result = said.get('result', 'pass')
    nodes = said.get('job_nodelist', '')
    return {'name': name, 'display_name': name, 'unique_name': said.get('unique_name') or name,
            'system': said['system'], 'partition': said['partition'], 'environ': said['environ'], 'result': result,
            'fail_phase': None if result == 'pass' else 'performance' if values else 'sanity', 'fail_reason': None,
            'fixture': False, 'perfvalues': values, 'job_nodelist': [] if nodes in _ABSENT else nodes.split(','),
            'jobid': said.get('jobid', ''), 'job_completion_time_unix': ended, 'filename': ''}


def _number(text: str) -> float | None:
    try:
        return None if text in _ABSENT else float(text)
    except ValueError:
        return math.nan


def _kept(report: Report, left: Counter[str]) -> bool:
    """Leave in the report what parity can judge; return whether that is anything."""
    kept, own = [], ''
    for case in report['runs'][0]['testcases']:
        valid = [part.name for part in systems.read(case['system']).partitions] \
            if case['system'] in systems.names() else []
        if case['partition'] not in valid:
            left[f'case of {case["system"]}:{case["partition"]}, which no systems/*/system.yaml has'] += 1
        elif not case.get('fixture') and case['system'] == (own := own or case['system']):
            values = case.get('perfvalues') or {}
            case['perfvalues'] = {name: value for name, value in values.items() if _finite(value[0])}
            for name in sorted(values.keys() - case['perfvalues'].keys()):
                left[f'figure {name.rpartition(":")[2]} of {case["name"]} that is no number'] += 1
            kept.append(case)
    report['runs'][0]['testcases'] = kept
    return bool(kept)


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _plan(reports: list[Report]) -> None:
    """Give each report a plan, and each case the record of a test that parity adopts. A case has the metrics that
    it had in any session: those of a failed run are known, too."""
    known: dict[tuple, dict[str, dict[str, str]]] = defaultdict(dict)
    for report in reports:
        for case in report['runs'][0]['testcases']:
            for name, (_, ref, low, up, unit, *_) in case['perfvalues'].items():
                metric, check = name.rpartition(':')[2], case['name'].partition(' ')[0]
                known[_key(case)][metric] = {
                    'unit': unit or '', 'better': adopt.better(check, metric, unit or '', (ref, low, up))}
    for report in reports:
        number = re.sub(r'\W', '', report['session_info']['uuid'])[:12]
        cases = report['runs'][0]['testcases']
        planned = {}
        for case in cases:
            metrics = known[_key(case)] or {PASSED: {'unit': '', 'better': ''}}
            case['parity'] = {'journal': number, 'subsystem': 'other', 'size': OWN, 'metrics': metrics}
            planned[_key(case)] = {
                'check': case['name'].partition(' ')[0], 'case': _key(case)[0],
                'unique_name': case['unique_name'], 'subsystem': 'other', 'size': OWN,
                'file': case.get('filename') or '', 'needs': [], 'system': case['system'],
                'partition': case['partition'], 'environ': case['environ'],
                'metrics': [{'name': name, **metric} for name, metric in metrics.items()]}
        plan = {'system': cases[0]['system'], 'providers': [], 'cases': list(planned.values()), 'checks': [],
                'problems': []}
        report['parity_session'] = {'id': number, 'plan': plan, 'facts': {}, 'announcement': ''}


def _key(case: dict[str, Any]) -> tuple[str, str, str]:
    return case_name(case.get('display_name') or case['name']), case['partition'], case['environ']
