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
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
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
    if carried.get('id'):
        return carried['id']
    for case in _cases(report):
        noted = case.get('parity') or {}
        if noted.get('journal'):
            return noted['journal']
    return ''


def joined(report: dict[str, Any], place: Path) -> dict[str, Any]:
    """Return the report with its plan beside its cases, from the folder ``place``."""
    session_id = number(report)
    if not session_id:
        return report
    file = path(session_id, place)
    try:
        session = json.loads(file.read_text())
        why = '' if _is_plan_of(session_id, session) else 'not what parity wrote'
    except OSError as err:
        why = err.strerror
    except ValueError:
        why = 'not JSON'
    if why:
        session = {'id': session_id, 'lost': f'{file}: {why}: the plan of session {session_id} is lost'}
    report['parity_session'] = session
    return report


def _is_plan_of(session_id: str, session: Any) -> bool:
    if not isinstance(session, dict):
        return False
    return session.get('id') == session_id and isinstance(session.get('plan'), dict)


def of_report(report: dict[str, Any]) -> dict[str, Any]:
    """Return the plan and the facts that are joined to a report, or that it carries; {} of a session without them.
    Where they should be and are not, `lost` says why."""
    for case in _cases(report):
        carried = case.get('parity_session')
        if carried:
            return carried
    return report.get('parity_session') or {}


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
    again: list[str] = []
    for word in words(cmdline):
        option, equals, value = word.partition('=')
        if option == '--checkpath' and equals:
            word = f'{option}={paths.root() / value}'
        elif again and again[-1] in ('-c', '--checkpath'):
            word = str(paths.root() / word)
        again.append(word)
    return again


def of_arguments(arguments: list[str]) -> list[str]:
    """Return the words of a command line that decide what is run, sorted."""
    with_value = tuple(f'{option}=' for option in _NOT_A_SELECTION)
    words = iter(arguments)
    kept = []
    for word in words:
        if word in _NOT_A_SELECTION:
            next(words, None)
        elif not word.startswith(with_value):
            # of a path the last part: a checkout at another place has the same checks
            kept.append(os.path.basename(word.rstrip('/')))
    return sorted(kept)


def extras(arguments: list[str]) -> dict[str, str]:
    """Return the `--session-extras` of a command line, whose values are words of their own."""
    stated = {}
    for option, text in pairwise(arguments):
        if option == '--session-extras':
            stated |= _stated(text.split(','))
    return stated


def _stated(words: Iterable[str]) -> dict[str, str]:
    """Return the names and values of the words that are NAME=VALUE."""
    values = {}
    for word in words:
        name, equals, value = word.partition('=')
        if equals:
            values[name] = value
    return values


def selection(cmdline: str) -> str:
    """Return the selection of a night's command line as one text; '' for a session that is no night."""
    given = words(cmdline)
    is_rerun = any(word.startswith(f'{RERUN_OF}=') for word in given)
    if is_rerun or NIGHT[1] not in given:
        return ''
    return ' '.join(of_arguments(given))


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
    return _stated(case.split(' %')[1:])


#: Of a planned cell, in a frame's order: those that all cells of a case share stand first.
_OF_CASE = ('check', 'case', 'subsystem', 'partition', 'environ', 'size')
PLANNED = (*_OF_CASE, 'metric', 'unit', 'better')


def planned(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """The planned cells that an environment can run, in PLANNED."""
    cells = []
    for *case, metrics in _planned_cases(plan):
        for metric in metrics:
            cells.append((*case, *metric))
    return cells


def digest(plan: dict[str, Any]) -> str:
    """The same for plans of the same cells; '' for one of none."""
    return _digest(_planned_cases(plan))


def _planned_cases(plan: dict[str, Any]) -> set[tuple]:
    """Each case that an environment can run, its metrics last; repeats of a case are one."""
    cases = set()
    for case in plan.get('cases', ()):
        if case.get('environ'):
            metrics = [(metric['name'], metric['unit'], metric['better']) for metric in case['metrics']]
            metrics.sort()
            facts = [case[name] for name in _OF_CASE]
            cases.add((*facts, tuple(metrics)))
    return cases


def digest_of_cases(plan: dict[str, Any]) -> str:
    """The same for plans of the same cases, those included that no environment can run."""
    cases = set()
    for case in plan.get('cases', ()):
        names = [case.get(name) or '' for name in ('case', 'partition', 'environ', 'size')]
        cases.add(tuple(names))
    return _digest(cases)


def _digest(cases: Collection[tuple]) -> str:
    if not cases:
        return ''
    text = json.dumps(sorted(cases))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
