"""The cells that each session planned: nights with the same plan share one table."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import polars as pl

from parity.base import files
from parity.records import cache, database, outset

#: Goes up when COLUMNS, or what they mean, change.
_VERSION = 1
#: Of a planned cell, in a frame's order.
COLUMNS = ('check', 'case', 'subsystem', 'partition', 'environ', 'size', 'metric', 'unit', 'better')


def rows(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """The planned cells that an environment can run, in COLUMNS; repeats of a case are one."""
    found = {(*(case[name] for name in COLUMNS[:6]), metric['name'], metric['unit'], metric['better'])
             for case in plan.get('cases', ()) if case['environ'] for metric in case['metrics']}
    return sorted(found)


def digest(plan: dict[str, Any]) -> str:
    """The same for plans of the same cells; '' for one of none."""
    found = rows(plan)
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ''


def table(plan: dict[str, Any]) -> pl.DataFrame:
    """`rows` as a frame."""
    return pl.DataFrame(rows(plan), schema=dict.fromkeys(COLUMNS, pl.String), orient='row')


def stored(uuid: str, digest: str) -> pl.DataFrame:
    """The table of a stored session, whose plan has this ``digest``; kept in results/cache/plans."""
    file = cache.file('plans', _VERSION, digest, 'parquet')
    if not file.exists():
        files.replace(file, table(of_report(database.report(uuid))).write_parquet)
    return pl.read_parquet(file)


def of_report(report: dict[str, Any]) -> dict[str, Any]:
    """The session's plan; {} where it kept none."""
    return outset.of_report(report).get('plan', {})
