"""The plan file of a session: its selection, its plan with the facts of its machine, and the cells' names. The
plan is in results/sessions/<id>.json, written before the first case starts. The id is parity's own; each case's
record has it as `journal`. Sessions of older versions carry the plan in their first case, recovered ones beside
their cases."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from parity.base import files, paths

#: What a session may be called: files are named after it, and a database may come from anywhere.
_NAME = re.compile('[0-9A-Za-z-]+')


def folder(database: Path | None = None) -> Path:
    """Return where the sessions of a results database keep their plans."""
    return (database or paths.database()).parent / 'sessions'


def checked_uuid(name: str) -> str:
    """Return the id or uuid of a session; ValueError for one that must not be a part of a file's name."""
    if not _NAME.fullmatch(name):
        raise ValueError(f'{name[:40]!r} is no name of a session: valid are letters, digits and -')
    return name


def path(number: str, place: Path | None = None) -> Path:
    """Return the file with a session's plan, in ``place`` or ours. ValueError as of `checked_uuid`."""
    return (place or folder()) / f'{checked_uuid(number)}.json'


def write(session: dict[str, Any]) -> None:
    """Keep a session: its `id`, `plan`, `facts` and `announcement`."""
    files.write(path(session['id']), json.dumps(session))


def number(report: dict[str, Any]) -> str:
    """Return the id of a report's session; '' where parity did not run it, or the report carries the plan."""
    carried = of_report(report)
    if 'plan' in carried:
        return ''
    return carried.get('id') or next((found for case in _cases(report)
                                      if (found := (case.get('parity') or {}).get('journal'))), '')


def joined(report: dict[str, Any], place: Path) -> dict[str, Any]:
    """Return the report with its plan beside its cases, from the folder ``place``."""
    if found := number(report):
        file = path(found, place)
        try:
            session = json.loads(file.read_text())
            plan = session.get('plan') if isinstance(session, dict) and session.get('id') == found else None
            why = '' if isinstance(plan, dict) else 'not what parity wrote'
        except OSError as err:
            why = err.strerror
        except ValueError:
            why = 'not JSON'
        lost = {'id': found, 'lost': f'{file}: {why}: the plan of session {found} is lost'}
        report['parity_session'] = lost if why else session
    return report


def of_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return the plan and the facts that are joined to a report, or that it carries; {} of a session without them.
    Where they should be and are not, `lost` says why."""
    carried = (case.get('parity_session') for case in _cases(report))
    return next(filter(None, carried), report.get('parity_session') or {})


def _cases(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for run in report.get('runs', ()) for case in run.get('testcases', ())]


#: ReFrame's `--session-extras` of a session that confirms another's figures names that one by this key.
RERUN_OF = 'parity_rerun_of'
#: ReFrame's `--session-extras` of a night: a session that ci/nightly began, of which no rerun.
NIGHT = ['--session-extras', 'parity_night=yes']

#: Options that say where things are or how often, not what is run; those with a value of their own.
_NOT_A_SELECTION = ('--repeat', '--session-extras', '--max-retries', '-J', '--job-option')


def words(cmdline: str) -> list[str]:
    """Return the arguments of a session's command line, which ReFrame keeps quoted."""
    return shlex.split(cmdline)[1:]


def words_again(cmdline: str) -> list[str]:
    """Return the arguments of a session's command line, to be used in any folder: relative places of checks are
    those below the top of the checkout."""
    found: list[str] = []
    for word in words(cmdline):
        option, equals, value = word.partition('=')
        if option == '--checkpath' and equals:
            word = f'{option}={paths.root() / value}'
        elif found and found[-1] in ('-c', '--checkpath'):
            word = str(paths.root() / word)
        found.append(word)
    return found


def of_arguments(arguments: list[str]) -> list[str]:
    """Return the words of a command line that decide what is run, sorted."""
    words = iter(arguments)
    kept = []
    for word in words:
        if word in _NOT_A_SELECTION:
            next(words, None)
        elif not word.startswith(tuple(f'{o}=' for o in _NOT_A_SELECTION)):
            # of a path the last part: a checkout at another place has the same checks
            kept.append(os.path.basename(word.rstrip('/')))
    return sorted(kept)


def extras(arguments: list[str]) -> dict[str, str]:
    """Return the `--session-extras` of a command line, whose values are words of their own."""
    stated = [text for option, text in zip(arguments, arguments[1:], strict=False) if option == '--session-extras']
    return dict(each.split('=', 1) for text in stated for each in text.split(',') if '=' in each)


def selection(cmdline: str) -> str:
    """Return the selection of a night's command line as one text; '' for a session that is no night."""
    given = words(cmdline)
    night = NIGHT[1] in given and not any(word.startswith(f'{RERUN_OF}=') for word in given)
    return ' '.join(of_arguments(given)) if night else ''


#: What tells one cell of a system from another.
CELL = ('partition', 'environ', 'case', 'size', 'metric')
#: CHECK[%PARAMETERS].METRIC@SYSTEM:PARTITION[+ENVIRON], as cell_id writes it.
NAME = re.compile(r'(?P<check>\w+)(?:%\S*)?\.(?P<metric>[^.@]+)@(?P<system>[\w-]+):(?P<partition>[\w-]+)'
                  r'(?:\+(?P<environ>[\w-]+))?')


def cell_id(row: Mapping[str, Any], environ: bool = False) -> str:
    """Return the name of a cell: 'Stream%threads=all.triad@onebox:virtual'. ``row`` has the system and CELL.

    ``environ``: with its environment, for a case that several environments run."""
    name = f'{row["case"].replace(" ", "")}.{row["metric"]}@{row["system"]}:{row["partition"]}'
    return f'{name}+{row["environ"]}' if environ else name


def parameters(case: str) -> dict[str, str]:
    """Name and value of each parameter of a case: 'Ior %api=POSIX %span=1'."""
    return dict(each.split('=', 1) for each in case.split(' %')[1:] if '=' in each)


#: Of a planned cell, in a frame's order.
PLANNED = ('check', 'case', 'subsystem', 'partition', 'environ', 'size', 'metric', 'unit', 'better')


def planned(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """The planned cells that an environment can run, in PLANNED."""
    return [(*case, *metric) for *case, metrics in _planned_cases(plan) for metric in metrics]


def digest(plan: dict[str, Any]) -> str:
    """The same for plans of the same cells; '' for one of none."""
    return _digest(sorted(_planned_cases(plan)))


def _planned_cases(plan: dict[str, Any]) -> set[tuple]:
    """Each case that an environment can run, its metrics last; repeats of a case are one."""
    return {(*(case[name] for name in PLANNED[:6]),
             tuple(sorted((metric['name'], metric['unit'], metric['better']) for metric in case['metrics'])))
            for case in plan.get('cases', ()) if case.get('environ')}


def digest_of_cases(plan: dict[str, Any]) -> str:
    """The same for plans of the same cases, those included that no environment can run."""
    return _digest(sorted({tuple(case.get(name) or '' for name in ('case', 'partition', 'environ', 'size'))
                           for case in plan.get('cases', ())}))


def _digest(found: Collection[tuple]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] if found else ''
