"""A session's plan and the facts of its machine: results/sessions/<id>.json, written before its first case starts.

The id is parity's own; each case's record has it as `journal`. Sessions of older versions carry the plan in their
first case, recovered ones beside their cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parity.base import files, paths


def folder(database: Path | None = None) -> Path:
    """Where the sessions of a results database keep their plans."""
    return (database or paths.database()).parent / 'sessions'


def write(session: dict[str, Any]) -> None:
    """Keep a session: its `id`, `plan`, `facts` and `announcement`."""
    files.write(folder() / f'{session["id"]}.json', json.dumps(session))


def number(report: dict[str, Any]) -> str:
    """The id of a report's session; '' where parity did not run it, or where the report carries the plan."""
    beside = report.get('parity_session') or {}
    cases = [case for run in report.get('runs', ()) for case in run.get('testcases', ())]
    if 'plan' in beside or any(case.get('parity_session') for case in cases):
        return ''
    return beside.get('id') or next((found for case in cases
                                     if (found := (case.get('parity') or {}).get('journal'))), '')


def joined(report: dict[str, Any], place: Path) -> dict[str, Any]:
    """The report with its plan beside its cases, from the folder ``place``."""
    if found := number(report):
        file = place / f'{found}.json'
        try:
            report['parity_session'] = json.loads(file.read_text())
        except (OSError, ValueError) as err:
            why = err.strerror if isinstance(err, OSError) else 'not JSON'
            report['parity_session'] = {'id': found, 'lost': f'{file}: {why}: the plan of session {found} is lost'}
    return report


def of_report(report: dict[str, Any]) -> dict[str, Any]:
    """The plan and the facts that are joined to a report, or that it carries; {} of a session without them.

    Where they should be and are not, `lost` says why.
    """
    carried = (case.get('parity_session') for run in report.get('runs', ()) for case in run.get('testcases', ()))
    return next(filter(None, carried), report.get('parity_session') or {})
