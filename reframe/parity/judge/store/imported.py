"""`parity import`: sessions and perflogs that ReFrame stored without parity become sessions of the history.

A perflog names no session: the new lines of one day are one. Lines and reports wait in a temporary database:
memory may not hold them. The sessions are put into a results database, which is merged."""

from __future__ import annotations

import contextlib
import datetime
import functools
import gc
import hashlib
import json
import math
import os
import re
import sqlite3
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from parity.base import paths, reasons
from parity.base.errors import InfrastructureError, NothingMeasured, UsageError
from parity.base.figures import LARGEST, SMALLEST, measurable
from parity.base.reasons import Kind
from parity.base.text import visible
from parity.judge.store import database, incidents, merging, perflogs, plan_file, record, same_run, writing
from parity.judge.store.case_record import CaseRecord, MetricRecord
from parity.site import described, directions, systems
from parity.site.identity import case_name
from parity.site.plan import OWN, PASSED

Report = dict[str, Any]
Case = dict[str, Any]
#: A perflog tells that a test failed, and not why.
_NO_REASON = 'it failed; the perflog does not say why'
_HALF_A_DAY = 12 * 3600.0
#: The types of the parts of a case that it may lack.
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(('display_name', 'unique_name', 'result', 'fail_phase', 'fail_reason', 'filename', 'stagedir',
                     'outputdir', 'scheduler'), str),
    **dict.fromkeys(('jobid', 'executable'), (str, int)), 'job_nodelist': (str, list), 'tags': list,
    'executable_opts': list, 'env_vars': dict, 'perfvalues': dict, 'run_index': int,
    'job_submit_time': (int, float)}
#: Cases of a session: a night of more becomes several sessions.
_CASES = 10_000
#: Stored nights in which the metrics of a case are looked for that has none tonight.
_NIGHTS = 30


@dataclass(frozen=True)
class Imported:
    """Sentences on what came in, and what not and why; the systems of all that the file has.

    ``sessions``: those that are new, and the newest night of a system if it took more cases."""

    sentences: list[str]
    systems: set[str]
    sessions: set[str] = field(default_factory=set)


def run(file: Path, dry_run: bool, header: perflogs.Header | None = None) -> Imported:
    """Import a results.db, a perflog or a folder of these. ``header``: of perflogs that have none.
    Without a checkout, or where the site describes no system, each new system gets a system.yaml.
    UsageError for a file that is neither, NothingMeasured where nothing can come in."""
    with closing(sqlite3.connect('')) as waiting:       # '': a temporary file
        waiting.execute('CREATE TABLE lines (digest BLOB PRIMARY KEY, system, day, ended REAL, json)')
        waiting.execute('CREATE TABLE reports (json)')
        taken = _Import(anywhere=not systems.names() or paths.checkout() is None)
        for report in _reports(file, taken, waiting, header):
            waiting.execute('INSERT INTO reports VALUES (?)', (report,))
            gc.collect(1)           # likewise
        left = [f'not imported: {reason}' for reason in taken.left()]
        if not taken.counts['cases']:
            raise NothingMeasured('\n'.join([_nothing_in(file, left), *left]))
        written: list[Path] = []
        sessions: set[str] = set()
        if not dry_run:
            written = [described.write(name, partitions) for name, partitions in taken.undescribed.items()]
            sessions = _store(waiting, taken)
        new, = waiting.execute('SELECT COUNT(*) FROM reports').fetchone()
        met = {system for system, in waiting.execute('SELECT DISTINCT system FROM lines')}
    verb = 'would be imported' if dry_run else 'imported'
    summary = f'{file}: {verb}: {_summary(new, taken.counts)}'
    descriptions = [f'{path}: written: it describes the system by what was imported' for path in written]
    return Imported([summary, *descriptions, *taken.notes(), *left], met, sessions)


def _nothing_in(file: Path, left: list[str]) -> str:
    """Return the sentence on a file of which nothing can come in. ``left``: why."""
    nothing = f'{file}: nothing to import'
    if left:
        return nothing
    if file.is_dir():
        return f'{nothing}: no *.log with a line is in it'
    return f'{nothing}: it has no line and no session'


def _summary(new: int, counts: Counter[str]) -> str:
    """Return how many sessions are ``new``, and how many cases and figures there are."""
    here = counts['here']
    return (f'{new} of {new + here} sessions, {here} are here already; in all {counts["cases"]} cases with '
            f'{counts["figures"]} figures, {counts["old"]} cases of these are here already')


def _store(waiting: sqlite3.Connection, taken: _Import) -> set[str]:
    """Store the reports that wait, each with a plan. Return the sessions whose night must be recorded."""
    sessions = set()
    with tempfile.TemporaryDirectory(prefix='parity-import-') as folder:
        for text, in waiting.execute('SELECT json FROM reports'):
            report = json.loads(text)
            _plan(report, taken.known_metrics)
            with mock.patch.dict(os.environ, {'PARITY_RESULTS': folder}):
                sessions.add(writing.store(report))
            gc.collect(1)       # the command collects rarely; all that is loaded would take long
        made = Path(folder, 'results.db')
        if made.exists():
            recorded = incidents.recorded()
            merging.merge(made, taken.grown)
            sessions -= taken.grown - recorded
    return sessions


def is_database(file: Path) -> bool:
    """Return whether a file is SQLite's. UsageError for none, or one that is neither a file nor a folder."""
    if not file.exists():
        raise UsageError(f'{file}: no such file; name a results.db, a perflog or a folder of perflogs')
    if file.is_dir():
        return False
    if not file.is_file():
        raise UsageError(f'{file}: no regular file; name a results.db, a perflog or a folder of perflogs')
    try:
        with file.open('rb') as opened:
            return opened.read(15) == b'SQLite format 3'
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}; name a file that you may read') from None


class _Import:
    """Chooses what to import, counts it, and notes why it leaves the rest."""

    def __init__(self, anywhere: bool) -> None:
        self._anywhere = anywhere
        self.counts: Counter[str] = Counter()
        self._left: dict[str, tuple[int, str]] = {}
        self._notes: dict[str, str] = {}
        #: of each case, those that it had in any session: those of a failed run are known, too
        self.metrics: dict[tuple, dict[str, dict[str, str]]] = defaultdict(dict)
        self._partitions = functools.cache(_partitions)
        self._described = set(systems.names())
        self._stored = set(database.uuids())
        self._stored_metrics = functools.cache(_stored_metrics)
        #: sessions that are stored, and take more cases
        self.grown: set[str] = set()
        #: of each system without a system.yaml, the partitions with their schedulers
        self.undescribed: dict[str, dict[str, str]] = defaultdict(dict)

    def leave(self, why: str, where: str) -> None:
        count, first = self._left.get(why, (0, where))
        self._left[why] = count + 1, first

    def note(self, what: str, where: str) -> None:
        self._notes.setdefault(what, where)

    def left(self) -> list[str]:
        """A sentence for each reason to leave something."""
        return [visible(f'{count} x {why} (first: {where})') for why, (count, where) in self._left.items()]

    def notes(self) -> list[str]:
        """A sentence for what was taken in a way that may be wrong."""
        return [visible(f'{what} (first: {where})') for what, where in self._notes.items()]

    def fits(self, case: Case, system: str, where: str) -> bool:
        """Leave in the case what parity can judge; return whether that is anything."""
        why = self._why_not(case, system)
        if why:
            self.leave(why, where)
            return False
        if case['system'] not in self._described:
            self.undescribed[case['system']][case['partition']] = case.get('scheduler') or ''
        for key, kinds in _KINDS.items():
            value = case.get(key)
            right = isinstance(value, kinds)
            if isinstance(value, list):
                right = right and all(isinstance(word, str) for word in value)
            if value is not None and not right:
                self.note(f'case whose {key} is of another type than ReFrame writes: it is taken without', where)
                case.pop(key)
        case['unique_name'] = case.get('unique_name') or case['name']
        case['result'] = case.get('result') or ''
        stated = case.get('perfvalues') or {}
        figures = {}
        for name, values in stated.items():
            metric = name.rpartition(':')[2]
            figure = self._figure(f'{metric} of {case["name"]}', values, where)
            if figure:
                figures[name] = figure
        case['perfvalues'] = figures
        wrong = _wrong_figure(case)
        if stated and not figures and case['result'] == 'pass':
            wrong = 'no figure is a number'
        if wrong:
            case.update(result='fail', fail_phase='sanity', fail_reason=wrong)
        return True

    def _why_not(self, case: Case, system: str) -> str:
        """Return why parity cannot judge a case; '' where it can."""
        ended = case['job_completion_time_unix']
        for key in ('name', 'system', 'partition', 'environ'):
            if not (isinstance(case[key], str) and case[key]):
                return f'case whose {key} is no text'
        if case['partition'] not in self._partitions(case['system']):
            why = self._why_not_new(case)
            if why:
                return why
        if case.get('fixture'):
            return 'fixture, which is not judged'
        if case['system'] != system:
            return f'case of {case["system"]} in a session of {system}'
        if ended is None:
            return ''
        if not (_finite(ended) and 0 < ended < record.LATEST):
            return 'case whose job_completion_time_unix is no Unix time'
        if ended > time.time() + database.TOLERANCE:
            return 'case that ended in the future'
        return ''

    def _why_not_new(self, case: Case) -> str:
        """Return why a case of a partition that no system.yaml has cannot come in; '' where it can."""
        system, partition = case['system'], case['partition']
        of_place = f'case of {system}:{partition}'
        if not (systems.is_name(system) and systems.is_name(partition)):
            return f'{of_place}, whose name ReFrame would refuse'
        if system in self._described:
            file = systems.file_of(system)
            entry = json.dumps(described.partition(partition, case.get('scheduler')))
            return (f'{of_place}, which no systems/*/system.yaml has; to import it, add this line to `partitions` '
                    f'of {file}: - {entry}')
        if not self._anywhere:
            return f'{of_place}, which no systems/*/system.yaml has'
        return ''

    def _figure(self, name: str, values: Any, where: str) -> list[Any]:
        """Return value, reference, thresholds and unit as ReFrame has them; [] for a value that is no number."""
        if not isinstance(values, list):
            values = [math.nan]
        padded = [*values, None, None, None, None, None]
        value, *bounds, unit = padded[:5]
        if value is None:       # of a case that failed
            return []
        if not _is_figure(value):
            self.leave(f'figure {name} that is no number between {SMALLEST:g} and {LARGEST:g}', where)
            return []
        if not all(bound is None or _is_figure(bound) for bound in bounds):
            self.leave(f'reference of figure {name} that is no number', where)
            bounds = [None, None, None]
        return [value, *bounds, unit or '', None]

    def fitting(self, where: str, blob: bytes) -> tuple[Report, list[Case]]:
        """Return a stored report and its cases that parity can judge. MALFORMED for one that it cannot read."""
        report = json.loads(blob)
        cases = []
        for run in report['runs']:
            cases += run['testcases']
        if plan_file.of_report(report) or any(case.get('parity') for case in cases):
            self.leave("session of parity's own: parity merge takes it", where)
            return report, []
        system = next((case['system'] for case in cases if not case.get('fixture')), '')
        fitting = [case for case in cases if self.fits(case, system, where)]
        return report, fitting

    def known_metrics(self, case: Case) -> dict[str, dict[str, str]]:
        """Return the metrics that a case has, or had on other nights where it has no figure tonight."""
        tonight = _metrics(case)
        if tonight:
            return tonight
        key = _key(case)
        others = self.metrics.get(key)
        if not others:
            others = self._stored_metrics(case['system']).get(key)
        return others or {PASSED: {'unit': '', 'better': ''}}

    @contextlib.contextmanager
    def noting(self, where: str) -> Iterator[None]:
        """Leave a session that is not of ReFrame's form."""
        try:
            yield
        except database.MALFORMED as err:
            message = ' '.join(str(err).split())
            why = f'{type(err).__name__}: {message[:80]}'
            self.leave(f"session that is not of ReFrame's form ({why})", where)

    def take(self, number: str, cases: list[Case], made: Callable[[list[Case]], Report]) -> bytes:
        """Return the report that ``made`` makes of the night with the cases that are not stored yet, as JSON; b''
        where all are. MALFORMED for one that parity cannot read."""
        night = same_run.NightRuns(number, cases)
        for case in cases:
            night.take(case)
        for case in cases:
            self.metrics[_key(case)].update(_metrics(case))
        text = self._report_of(night, made) if night.new else b''
        figures = sum(len(case['perfvalues']) for case in cases)
        old = len(cases) - len(night.new)
        self.counts.update(cases=len(cases), figures=figures, old=old, here=int(not night.new))
        return text

    def _report_of(self, night: same_run.NightRuns, made: Callable[[list[Case]], Report]) -> bytes:
        """Return the report of a night, as JSON: of the cases that are stored and of the new ones."""
        number = night.session
        cases = [*night.stored, *night.new]
        cases.sort(key=lambda case: case['job_completion_time_unix'] or 0.0)
        report = made(cases)
        name = plan_file.checked_uuid(number)
        for place, case in enumerate(cases):
            case.update(uuid=f'{name}:0:{place}', session_uuid=number)
        record.of_report(report)
        if number in self._stored:
            self.grown.add(number)
        return json.dumps(report, ensure_ascii=False).encode()


def cases(file: Path) -> tuple[Iterator[tuple[str, Case]], Callable[[], list[str]]]:
    """Return the day and the case of each run in a results.db, a perflog or a folder of these, of any system.

    The function beside says, at the end, what was left out and why."""
    taken = _Import(anywhere=True)
    dated = ((_day(began), case) for began, case in _dated(file, taken))
    return dated, taken.left


def _wrong_figure(case: Case) -> str:
    """Return which figure cannot be right, as of any test that parity runs: a rate that is not above 0."""
    for figure in figures(case):
        if figure.better == 'higher' and figure.value <= 0:
            measured = f'{figure.metric} is {figure.value:g} {figure.unit}'
            return f'{measured}: a figure that is better when it is higher must be above 0'
    return ''


class CaseFigure(NamedTuple):
    """A figure of a case, and the better side of its metric: higher, lower, or '' where nothing tells."""

    metric: str
    value: float
    unit: str
    better: str


def figures(case: Case) -> Iterator[CaseFigure]:
    """Yield the figure of each metric of a case."""
    check = case['name'].partition(' ')[0]
    for name, stored in case['perfvalues'].items():
        value, *reference, unit, _ = stored
        metric = name.rpartition(':')[2]
        better = directions.better(check, metric, unit, reference)
        yield CaseFigure(metric, value, unit, better)


def _metrics(case: Case) -> dict[str, dict[str, str]]:
    """Return unit and better side of each metric of a case, as a plan has them."""
    return {figure.metric: {'unit': figure.unit, 'better': figure.better} for figure in figures(case)}


def _blobs(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each session of a results database, and its JSON."""
    place = f'{file.resolve().as_uri()}?mode=ro'
    try:
        with closing(sqlite3.connect(place, uri=True, timeout=paths.PATIENCE)) as conn:
            conn.text_factory = bytes
            for name, blob in conn.execute('SELECT uuid, json_blob FROM sessions ORDER BY rowid'):
                where = 'a session'
                if isinstance(name, bytes):
                    begin = str(name, errors='replace')[:8]
                    where = f'session {begin}'
                yield where, blob
    except sqlite3.OperationalError as err:
        if 'readonly' in str(err):      # SQLite would have to take back what a killed process began
            raise InfrastructureError(f'{file}: a process ended while it wrote there; '
                                      '`reframe --list-stored-sessions` under the settings that name the file '
                                      'repairs it, then import it again') from None
        if 'locked' not in str(err):
            raise UsageError(f"{file}: not a results database of ReFrame's; name another ({err})") from None
        raise InfrastructureError(f'{file}: another process writes it for more than {paths.PATIENCE:g} s; '
                                  'come back later') from None
    except sqlite3.DatabaseError as err:
        raise UsageError(f"{file}: not a results database of ReFrame's; name another ({err})") from None


def _reports(file: Path, taken: _Import, waiting: sqlite3.Connection,
             header: perflogs.Header | None) -> Iterator[bytes]:
    """Yield a session for each system and night, of the cases that are not stored yet."""
    for began, case in _dated(file, taken, header):
        day = _night(began)
        digest = _digest(case, day)
        row = digest, case['system'], day, case['job_completion_time_unix'], json.dumps(case)
        waiting.execute('INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?)', row)
    rows = waiting.execute('SELECT system, day, json FROM lines ORDER BY day, system, ended, digest')
    for (system, day), lines in groupby(rows, key=lambda row: row[:2]):
        night = f'parity import {system} {day}'
        for part in count():
            texts = [text for *_, text in islice(lines, _CASES)]
            if not texts:
                break
            name = f'{night} {part}' if part else night
            number = str(uuid.uuid5(uuid.NAMESPACE_URL, name))
            made = functools.partial(_report, number, day)
            report = taken.take(number, list(map(json.loads, texts)), made)
            if report:
                yield report


def _dated(file: Path, taken: _Import, header: perflogs.Header | None = None) -> Iterator[tuple[float, Case]]:
    """Yield each case that parity can judge, with the time at which its session began, or it ended."""
    if not is_database(file):
        for case in _of_logs(file, taken, header):
            yield case['job_completion_time_unix'], case
        return
    for where, blob in _blobs(file):
        with taken.noting(where):
            report, fitting = taken.fitting(where, blob)
            first = {**report['runs'][0], 'testcases': fitting}
            record.of_report({**report, 'runs': [first]})       # raises where the cases cannot be read
            began = report['session_info']['time_start_unix']
            for case in fitting:
                yield began, case


def _of_logs(file: Path, taken: _Import, header: perflogs.Header | None = None) -> Iterator[Case]:
    """Yield the cases of perflogs that parity can judge."""
    for log in perflogs.files(file, taken.leave):
        for line in perflogs.joined(perflogs.lines(log, header)):
            case = line.case
            if case is None:
                taken.leave(line.left, line.where)
                continue
            if same_run.PRINTED in case:
                taken.note('times have no zone: they are taken as those of this machine', line.where)
            if line.is_named_by_file:
                taken.note('no column names the test: its file does, and variants of a test are one', line.where)
            if taken.fits(case, case['system'], line.where):
                yield case


def _day(unix: float) -> str:
    return f'{datetime.datetime.fromtimestamp(unix):%Y-%m-%d}'


def _night(unix: float) -> str:
    """Return the day on which a night begins: it goes from noon to noon."""
    return _day(unix - _HALF_A_DAY)


def _report(number: str, day: str, cases: list[Case]) -> Report:
    """Return a report of the cases of one day."""
    ends = [case['job_completion_time_unix'] for case in cases]
    times = [end for end in ends if end is not None]
    if not times:
        midnight = datetime.datetime.fromisoformat(day)
        times = [midnight.timestamp()]
    report = writing.as_report({}, cases, min(times), max(times), cmdline=record.IMPORTED)
    report['session_info']['uuid'] = number
    return report


def _finite(value: Any) -> bool:
    # no float has more
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_figure(value: Any) -> bool:
    return _finite(value) and measurable(value)


def _digest(case: Case, day: str) -> bytes:
    """Return the same for a run that is read twice. ``day``: of one that never ran."""
    ended = case['job_completion_time_unix']
    name = case.get('display_name') or case['name']
    result = case.get('result') or ''
    job = case.get('jobid') or ''
    figures = sorted(same_run.figures_of(case).items())
    facts = [case['system'], case['partition'], case['environ'], name, day if ended is None else float(ended),
             result, str(job), figures]
    text = json.dumps(facts)
    return hashlib.sha256(text.encode()).digest()


def _partitions(system: str) -> set[str]:
    """Return the partitions of a system; none where no system.yaml describes it."""
    if system not in systems.names():
        return set()
    return {part.name for part in systems.read(system).partitions}


def _stored_metrics(system: str) -> dict[tuple, dict[str, dict[str, str]]]:
    """Return the metrics that each case had when it was stored last, of the newest nights of a system."""
    blobs = database.query('SELECT json_blob FROM sessions WHERE uuid IN (SELECT session_uuid FROM testcases '
                           'WHERE system = ?) ORDER BY rowid DESC LIMIT ?', system, _NIGHTS)
    newest: dict[tuple, dict[str, dict[str, str]]] = {}
    for blob, in blobs:
        with contextlib.suppress(*database.MALFORMED):      # every reader warns
            plan = plan_file.of_report(json.loads(blob))['plan']
            for case in plan['cases']:
                metrics = {}
                for metric in case['metrics']:
                    if metric['name'] != PASSED:
                        metrics[metric['name']] = {'unit': metric['unit'], 'better': metric['better']}
                if metrics:
                    key = case['case'], case['partition'], case['environ']
                    newest.setdefault(key, metrics)
    return newest


def _plan(report: Report, metrics: Callable[[Case], dict[str, dict[str, str]]]) -> None:
    """Give the report a plan, and each case the record of a test that parity adopts."""
    number = re.sub(r'\W', '', report['session_info']['uuid'])[:12]
    cases = report['runs'][0]['testcases']
    planned = {}
    for case in cases:
        known = metrics(case)
        _complete_result(case, known)
        subsystem = perflogs.subsystem(case)
        noted = {name: MetricRecord(metric['unit'], metric['better']) for name, metric in known.items()}
        noting = CaseRecord(journal=number, subsystem=subsystem, size=OWN, metrics=noted, kind=_kind(case))
        case['parity'] = noting.as_json()
        planned[_key(case)] = _planned(case, subsystem, known)
    plan = {'system': cases[0]['system'], 'providers': [], 'cases': list(planned.values()), 'checks': [],
            'problems': []}
    report['parity_session'] = {'id': number, 'plan': plan, 'facts': {}, 'announcement': ''}


def _complete_result(case: Case, metrics: dict[str, dict[str, str]]) -> None:
    """Give the case the result that its perflog has no column for, and a failed one its phase.

    ``metrics``: of tonight or of other nights. A case that had figures and has none tonight failed."""
    if not case['result']:
        ever_had_figures = PASSED not in metrics
        has_failed = ever_had_figures and not case['perfvalues']
        case['result'] = 'fail' if has_failed else 'pass'
    if case['result'] != 'pass' and case.get('fail_phase') is None:
        case.update(fail_phase='run', fail_reason=_NO_REASON)


def _planned(case: Case, subsystem: str, metrics: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return a case as a plan has it."""
    name, partition, environ = _key(case)
    return {
        'check': case['name'].partition(' ')[0],
        'case': name,
        'unique_name': case['unique_name'],
        'subsystem': subsystem,
        'size': OWN,
        'file': case.get('filename') or '',
        'needs': [],
        'system': case['system'],
        'partition': partition,
        'environ': environ,
        'metrics': [{'name': metric, **declared} for metric, declared in metrics.items()]}


def _kind(case: Case) -> str | None:
    """Return the kind of a failure of which nobody knows the node; None where ReFrame's reason tells it."""
    has_ended = case['job_completion_time_unix'] is not None
    has_node = bool(case.get('job_nodelist'))
    if case['result'] != 'fail' or not has_ended or has_node:
        return None
    reason = case.get('fail_reason') or ''
    kind = reasons.kind('failed', reason)
    if kind is Kind.NONE:
        kind = Kind.RAN
    return kind.value


def _key(case: Case) -> tuple[str, str, str]:
    name = case.get('display_name') or case['name']
    return case_name(name), case['partition'], case['environ']
