"""One stored session as rows: a figure of one run of one case each."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import Any

import polars as pl

from parity.records import runs
from parity.records.database import RERUN_OF

#: Columns and types of every frame of figures. `night` is when the session began, to the minute, local time.
SCHEMA = {
    'session': pl.String, 'start': pl.Float64, 'night': pl.String, 'rerun_of': pl.String, 'system': pl.String,
    'partition': pl.String, 'environ': pl.String, 'check': pl.String, 'case': pl.String, 'size': pl.String,
    'metric': pl.String, 'unit': pl.String, 'better': pl.String, 'run': pl.Int32, 'value': pl.Float64,
    'node': pl.String, 'jobid': pl.String, 'software': pl.String, 'label': pl.String,
    'reference': pl.Float64, 'low': pl.Float64, 'high': pl.Float64,
    'seconds': pl.Float64,      # that the run took, without what its job waited in a queue; null: not known
    'changed': pl.String,       # what the command line changed in the case: 'destination=other', '' where nothing
    'disturbed': pl.Boolean,    # others took the CPUs of the run: it is judged by nobody
    'variant': pl.String,       # which of the check's variants the run was: 'threading=one', '' where it has none
}


def of_report(report: dict[str, Any]) -> pl.DataFrame:
    """The figures of a session; a retry, and a run without a figure, has none. Columns are SCHEMA's.

    Raises what reading JSON of another form ends in: KeyError, TypeError, AttributeError, ValueError ...
    """
    info = report['session_info']
    start = info['time_start_unix']
    night = datetime.datetime.fromtimestamp(start).strftime('%Y-%m-%d %H:%M')
    common = {'session': info['uuid'], 'start': start, 'night': night, 'rerun_of': info.get(RERUN_OF, '')}
    rows = [{**common, **row} for attempts in runs.of_report(report).values() for row in _of_case(attempts)]
    try:
        return pl.DataFrame(rows, schema=SCHEMA)
    except pl.exceptions.PolarsError as err:
        raise ValueError(err) from err


def _of_case(attempts: list[runs.Run]) -> list[dict[str, Any]]:
    """The rows of one case in one environment; its runs are counted from 0."""
    rows: list[dict[str, Any]] = []
    count: Counter[str] = Counter()
    for run in attempts:
        if run.retry or run.status:
            continue
        case = _case(run)
        for metric in run.record.get('metrics', {}):
            reading = run.reading(metric)
            if reading.value is not None and math.isfinite(reading.value):
                rows.append({**case, **_metric(run, metric, reading), 'run': count[metric]})
                count[metric] += 1
    return rows


def _case(run: runs.Run) -> dict[str, Any]:
    raw, record = run.raw, run.record
    name = runs.case_name(raw.get('display_name') or raw['name'])
    nodes = raw.get('job_nodelist') or []
    return {'system': raw['system'], 'partition': raw['partition'], 'environ': raw['environ'], 'case': name,
            'check': name.partition(' ')[0], 'size': record.get('size', ''),
            'node': nodes if isinstance(nodes, str) else ','.join(nodes), 'jobid': str(raw.get('jobid') or ''),
            'software': str((record.get('software') or {}).get('identity', '')),
            'seconds': runs.seconds_run(raw),
            'disturbed': bool(run.disturbed), 'changed': _said(record.get('changed')),
            'variant': _said(record.get('variant'))}


def _said(values: dict[str, str] | None) -> str:
    return ','.join(f'{name}={value}' for name, value in (values or {}).items())


def _metric(run: runs.Run, metric: str, reading: runs.Reading) -> dict[str, Any]:
    noted = run.record['metrics'][metric]
    return {'metric': metric, 'unit': noted['unit'], 'better': noted['better'], 'value': reading.value,
            'label': run.record.get('labels', {}).get(metric, {}).get('word', ''),
            'reference': reading.reference, 'low': reading.low, 'high': reading.high}
