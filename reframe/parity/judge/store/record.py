"""The record of a session: its runs, with the figures and facts of each; the only reader of ReFrame's reports."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from parity.base import codes, reasons
from parity.base.figures import measurable
from parity.base.reasons import Kind
from parity.base.text import node_name
from parity.judge.store import plan_file
from parity.judge.store.case_record import CaseRecord, Label, MetricRecord
from parity.site import identity, systems
from parity.site.identity import case_name
from parity.site.plan import PASSED

#: ReFrame's results without a figure: a test may be expected to fail.
_RESULTS = {'skip': 'skipped', 'fail_deps': 'failed', 'xfail': 'skipped', 'xpass': 'wrong'}
#: The kinds of reasons, as records of cases have them.
_KINDS = {kind.value: kind for kind in Kind}
_EXPECTED = {'xfail': 'expected to fail: ', 'xpass': 'expected to fail, and did not: '}
#: What ReFrame calls the result of a case that it did not come to the end of.
_NEVER_ENDED = '<unknown>'

#: The year 5138: calendars end at 9999.
LATEST = 1e11

Key = tuple[str, str, str]  # case, partition, environ


@dataclass(slots=True)
class Figure:
    """One metric of a run, and the reference that ReFrame applied; ``value`` None: the run has no such figure.
    ``better`` is '' where the run's check declares no such metric."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reference: float | None = None
    unit: str = ''
    better: str = ''
    label: str = ''                          # 'cached': the figure is not what it seems
    why: str = ''                            # it is labelled, or absent
    left_out: str = ''                       # why the run cannot have this figure
    kind: Kind = Kind.NONE                   # of ``left_out``
    source: str = ''                         # of the reference, where it is not accepted: "the check's own"
    limit: dict[str, Any] | None = None      # a bound (parity.base.limits.Limit)
    ceiling: dict[str, Any] | None = None    # a bound that another check measures

    @property
    def finite(self) -> bool:
        """Return whether its value is a number that a machine may have."""
        return measurable(self.value)


@dataclass
class Run:
    """One attempt at one case."""

    system: str
    partition: str
    environ: str
    case: str
    status: str                 # '' where there are figures, else skipped, wrong or failed
    kind: Kind                  # of the reason
    reason: str                 # of the status, for people
    retry: bool                 # run again because the attempt before it failed (ReFrame's --max-retries)
    attempt: int                # from 1
    fixture: bool
    unfinished: bool            # the whole run was stopped before this attempt ended
    exitcode: int               # of a program whose figures count all the same
    disturbed: str              # who took CPUs of the job, where it was more than is allowed
    subsystem: str
    size: str
    changed: str                # what the command line changed in the case: 'destination=other'
    variant: str                # which of the check's variants the run was: 'threading=one'
    software: str               # the identity of what ran
    nodes: tuple[str, ...]
    jobid: str
    output: str                 # where it lies: in the stage directory unless the run passed
    times: JobSpan | None       # None: no job was submitted
    ended: float | None         # by ReFrame's clock
    seconds: float | None       # that its job ran; None where it never ran, or where nobody knows
    node: dict[str, Any]        # what the node said of itself (programs/node.sh)
    watched: dict[str, Any]     # what programs/watch.py saw
    devices: dict[str, str]     # the GPUs of the node: gpu0 -> UUID, bus
    noted: dict[str, Any]       # what the check noted beside its figures
    load: tuple[Any, Any]       # of the machine before and after
    work: dict[str, Any]        # what the program was given; a fact that nobody knows is absent
    alike: dict[str, str]       # what must be alike in a comparison
    context: dict[str, str]     # what a comparison names beside the figures
    figures: dict[str, Figure]

    @property
    def check(self) -> str:
        return self.case.partition(' ')[0]

    def figure(self, metric: str) -> Figure:
        return self.figures.get(metric, Figure())

    def values(self) -> dict[str, float]:
        return {name: figure.value for name, figure in self.figures.items() if figure.value is not None}


#: The command line of a session that `parity import` stored.
IMPORTED = 'parity import'


@dataclass(frozen=True)
class Session:
    """One session. All but ``runs`` and ``plan`` is kept in the cache (parity.judge.store.database)."""

    uuid: str
    start: float                # Unix time, as ``end``
    system: str
    cmdline: str
    reframe: str                # ReFrame's version
    facts: dict[str, Any] = field(default_factory=dict)                 # nested, of where ReFrame ran
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)      # what each node of a queue said of itself
    throttled: str = ''         # without a queue: did heat or a CPU quota slow any job?
    software: tuple[str, ...] = ()       # identities of what the cases ran
    end: float = 0.0
    elapsed: float = 0.0
    rerun_of: str = ''          # the session whose figures this one confirms
    interrupted: bool = False
    announcement: str = ''      # of the software
    selection: str = ''         # of a night (parity.judge.store.plan_file); '' of another session
    planned: str = ''           # which cells were planned (parity.judge.store.plan_file)
    cases: str = ''             # which cases were planned
    lost: str = ''              # why its plan is not there, though it had one
    digest: int = 0             # CRC-32 of its report, as the database had it when it was read
    plan: dict[str, Any] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    @property
    def is_imported(self) -> bool:
        """Return whether `parity import` stored it."""
        return self.cmdline.startswith(IMPORTED)

    @cached_property
    def attempts(self) -> dict[Key, list[Run]]:
        """Every attempt at every case, first attempts first."""
        attempts: dict[Key, list[Run]] = {}
        for run in self.runs:
            if not run.fixture:
                attempts.setdefault((run.case, run.partition, run.environ), []).append(run)
        return attempts

    def counted(self) -> Iterator[tuple[Run, str, Figure]]:
        """Yield the figures that count: of first attempts that nobody disturbed, without a label. Of stored rows
        `parity.judge.store.history.counted` says the same."""
        for run in self.runs:
            if run.retry or run.fixture or run.status or run.disturbed:
                continue
            for name, figure in run.figures.items():
                if figure.finite and figure.better and not figure.label:
                    yield run, name, figure


def of_report(report: dict[str, Any]) -> Session:
    """Return the record of a report. Raises what reading JSON of another form ends in: KeyError, TypeError ..."""
    identity.renamed(report)
    info = report['session_info']
    cmdline = info.get('cmdline', '')
    kept = plan_file.of_report(report)
    plan = kept.get('plan') or {}
    facts = kept.get('facts') or {}
    runs = tuple(_runs(report, facts))
    system_of_runs = runs[0].system if runs else ''
    of_cases = [run for run in runs if not run.fixture]
    software = {run.software for run in of_cases if run.software}
    slowed = _throttled(of_cases)
    nodes = _nodes(of_cases, slowed)
    # without a batch system the session's machine is the node
    throttled = '' if nodes else next(iter(slowed.values()), '')
    return Session(
        uuid=info['uuid'],
        start=_time(info['time_start_unix']),
        end=_time(info['time_end_unix']),
        elapsed=info.get('time_elapsed', 0.0),
        cmdline=cmdline,
        reframe=info.get('version', ''),
        system=plan.get('system') or system_of_runs,
        facts=facts,
        nodes=nodes,
        throttled=throttled,
        software=tuple(sorted(software)),
        rerun_of=info.get(plan_file.RERUN_OF, ''),
        interrupted=bool(info.get('interrupted')),
        announcement=kept.get('announcement', ''),
        selection=plan_file.selection(cmdline),
        planned=plan_file.digest(plan),
        cases=plan_file.digest_of_cases(plan),
        lost=kept.get('lost', ''),
        plan=plan,
        runs=runs)


def _nodes(runs: Iterable[Run], slowed: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return what each node said of itself, with the last run's word, and whether something slowed it."""
    nodes: dict[str, dict[str, str]] = {}
    for run in runs:
        name = run.node.get('node')
        if not name:
            continue
        facts = nodes.setdefault(name, {})
        gpu_slowed = facts.get('gpu_slowed', 'no')
        facts.update(run.node)
        if gpu_slowed != 'no':      # by one run of several
            facts['gpu_slowed'] = gpu_slowed
        if name in slowed:
            facts['throttled'] = slowed[name]
    return nodes


def _time(unix: float) -> float:
    """Return a Unix time; ValueError for one that no calendar has."""
    if not abs(unix) < LATEST:
        raise ValueError(f'{unix!r} is no Unix time')
    return unix


def _throttled(runs: Iterable[Run]) -> dict[str, str]:
    """Return, by node, whether heat or a CPU quota slowed a job there (programs/watch.py): yes or no."""
    times: Counter[str] = Counter()
    for run in runs:
        node = run.watched.get('node')
        if node:
            times[node] += run.watched.get('throttled') or 0
    return {node: 'yes' if count else 'no' for node, count in times.items()}


def _runs(report: dict[str, Any], facts: dict[str, Any]) -> Iterator[Run]:
    info = report['session_info']
    results: dict[tuple, str] = {}      # of the attempt before
    for attempts in report['runs']:
        for raw in attempts['testcases']:
            record = CaseRecord.from_json(raw.get('parity') or {})
            run = _run(raw, record, info, facts)
            case = raw['unique_name'], run.case, run.partition, run.environ
            run.retry = results.get(case, 'pass') != 'pass'
            results[case] = raw['result']
            yield run


def _with_short_name(facts: dict[str, Any] | None) -> dict[str, Any]:
    if not facts or not facts.get('node'):
        return facts or {}
    short = node_name(facts['node'])
    return {**facts, 'node': short}


def _run(raw: dict[str, Any], record: CaseRecord, info: dict[str, Any], facts: dict[str, Any]) -> Run:
    """A case of ReFrame's, with what its workload noted (``record``)."""
    outcome = _outcome(raw, record, info)
    is_unended = raw['result'] in ('abort', _NEVER_ENDED)
    was_stopped = bool(outcome.status) and is_unended
    folder = raw.get('outputdir') if raw['result'] == 'pass' else raw.get('stagedir')
    name = raw.get('display_name') or raw['name']
    nodes = raw.get('job_nodelist') or []
    if isinstance(nodes, str):
        nodes = [nodes]
    job = raw.get('jobid') or ''
    times = _times(raw, record)
    ended = raw.get('job_completion_time_unix')
    if ended is not None:
        ended = _time(ended)
    environments = facts.get('software') or {}
    environment = environments.get(raw['environ']) or {}
    alike = _alike(raw, record, environment)
    machine = facts.get('machine') or {}
    software = record.software.get('identity', '')
    return Run(
        system=raw['system'],
        partition=raw['partition'],
        environ=raw['environ'],
        case=case_name(name),
        status=outcome.status,
        kind=outcome.kind,
        reason=outcome.reason,
        retry=False,
        attempt=raw.get('run_index', 0) + 1,
        fixture=bool(raw.get('fixture')),
        unfinished=was_stopped or outcome.kind is Kind.WINDOW,
        exitcode=record.exitcode,
        disturbed=str(record.disturbed),
        subsystem=record.subsystem,
        size=record.size,
        changed=_stated(record.changed, ','),
        variant=_stated(record.variant, ','),
        software=str(software),
        nodes=tuple(map(node_name, nodes)),
        jobid=str(job),
        output=str(folder or ''),
        times=times,
        ended=ended,
        seconds=_seconds(raw, record, times),
        node=_with_short_name(record.node),
        watched=_with_short_name(record.watched),
        devices=record.devices,
        noted=record.facts,
        load=(record.before, record.after),
        work=_work(raw, record, alike),
        alike=alike,
        context=_context(record, machine),
        figures=_figures(raw, record))


def _stated(variables: dict[str, Any], separator: str) -> str:
    return separator.join(f'{name}={value}' for name, value in variables.items())


class _Outcome(NamedTuple):
    """The reason why a case has no figures."""

    status: str = ''
    kind: Kind = Kind.NONE
    reason: str = ''


def _outcome(raw: dict[str, Any], record: CaseRecord, info: dict[str, Any]) -> _Outcome:
    """Return why a case has no figures; all is empty where it has some."""
    status = _status(raw, record)
    if not status:
        return _Outcome()
    kind, reason = _reason(status, raw, record, info)
    window_ended = record.until_unix or math.inf
    if kind is Kind.CANCELLED and info['time_end_unix'] >= window_ended:
        why = f'{reasons.WINDOW_ENDED} while its job waited: it is left for the next night ({reason})'
        return _Outcome('skipped', Kind.WINDOW, why)
    return _Outcome(status, kind, reason)


def _status(raw: dict[str, Any], record: CaseRecord) -> str:
    if word := _RESULTS.get(raw['result']):
        return word
    if record.status:
        return record.status
    # after its figures were taken a case can still fail: against a reference (which parity judges),
    # or because a Ctrl-C came while ReFrame cleaned up after it
    if raw['result'] == 'pass' or raw.get('fail_phase') in ('performance', 'finalize', 'cleanup'):
        return ''
    return 'wrong' if raw.get('fail_phase') == 'sanity' else 'failed'


def _reason(status: str, raw: dict[str, Any], record: CaseRecord, info: dict[str, Any]) -> tuple[Kind, str]:
    result = raw['result']
    noted = str(record.reason or raw.get('fail_reason') or '')
    reason = reasons.cut(' '.join(noted.split()))       # a session of before may have lines of megabytes
    if result == 'abort' and not record.reason:
        if 'RunSessionTimeout' in reason:
            return Kind.STOPPED, 'the time of --duration was over before this case ended'
        detail = f' ({reason})' if reason else ''
        return Kind.STOPPED, f'the run was stopped before this case ended{detail}'
    if reason:
        if record.kind is None:
            kind = reasons.kind(status, reason)
        else:
            kind = _KINDS.get(record.kind, Kind.NONE)
        return kind, _EXPECTED.get(result, '') + reason
    if result == _NEVER_ENDED:
        why = _why_stopped(info)
        detail = f': {why}' if why else ''
        return Kind.STOPPED, f'ReFrame stopped before it ended{detail}'
    phase = raw.get('fail_phase')
    return Kind.NONE, f'{result} in {phase}'


def _why_stopped(info: dict[str, Any]) -> str:
    """Return why ReFrame gave up the run, from its log, as its database lacks it; '' if the log is gone."""
    logs = info.get('log_files') or []
    for file in map(Path, reversed(logs)):
        with contextlib.suppress(OSError):
            written = file.stat().st_mtime
            if abs(written - info['time_end_unix']) < 60:    # s; else it is the log of a later run
                return _last_error(file.read_text(errors='replace'))
    return ''


def _last_error(log: str) -> str:
    """Return the first two lines of the last error that stopped a run, without colours and rules."""
    errors = re.findall(r'ERROR: run session stopped: (.*(?:\n(?!\[\d{4}-).*)*)', log)
    if not errors:
        return ''
    words = []
    for line in errors[-1].splitlines():
        plain = re.sub(r'\x1b\[[0-9;]*m', '', line).strip()
        if plain and not re.fullmatch(r'-+ std(out|err) -+', plain):
            words.append(plain)
    return '; '.join(words[:2])[:300]


class JobSpan(NamedTuple):
    """The times at which a job was submitted, began and ended (Unix)."""

    submitted: float
    began: float
    ended: float


def _times(raw: dict[str, Any], record: CaseRecord) -> JobSpan | None:
    job = record.job
    if job:
        began = job.submitted_unix + job.waited_s
        return JobSpan(job.submitted_unix, began, began + job.ran_s)
    submitted = raw.get('job_submit_time')
    ended = raw.get('job_completion_time_unix')
    if submitted and ended:
        return JobSpan(submitted, submitted, ended)
    return None


def _seconds(raw: dict[str, Any], record: CaseRecord, times: JobSpan | None) -> float | None:
    """Return how long the job ran, by the scheduler's word: older sessions kept no word about queues. None where
    the clock was set back meanwhile."""
    if not times:
        return None
    if not record.job and raw.get('scheduler') in systems.QUEUED:
        return None
    seconds = times.ended - times.began
    return seconds if seconds > 0 else None


#: Of a metric that ReFrame has no figure for.
_NOT_STORED = (None,) * 4


def _figures(raw: dict[str, Any], record: CaseRecord) -> dict[str, Figure]:
    stored = {}
    for key, values in (raw.get('perfvalues') or {}).items():
        metric = key.rpartition(':')[2]
        stored[metric] = values
    figures = {}
    for metric in dict.fromkeys((*stored, *record.metrics, *record.left_out)):
        values = stored.get(metric, _NOT_STORED)
        figures[metric] = _figure(metric, values, record)
    return figures


def _figure(name: str, stored: Sequence[Any], record: CaseRecord) -> Figure:
    """Return one figure; ``stored``: its value, reference, two thresholds and perhaps a unit (ReFrame's)."""
    declared = record.metrics.get(name, MetricRecord())
    label = record.labels.get(name, Label())
    value, reference, low, high, unit, *_ = (*stored, '')
    accepted = band(reference, low, high)
    is_undeclared = not (declared.unit or declared.better)
    if name == PASSED and stored is _NOT_STORED and is_undeclared:
        value, label = 1.0, Label(PASSED)
    if value is not None:
        value = float(value)
    kind = Kind.NONE
    left_out = record.left_out.get(name, '')
    if left_out:
        kind = reasons.kind('skipped', left_out)
    return Figure(
        value=value,
        low=accepted.low,
        high=accepted.high,
        reference=accepted.reference,
        unit=declared.unit or unit or '',
        better=declared.better,
        label=label.word,
        why=label.reason or declared.absent,
        left_out=left_out,
        kind=kind,
        source=declared.source,
        limit=declared.limit,
        ceiling=declared.ceiling)


class Band(NamedTuple):
    """A reference and its bounds, as absolute numbers."""

    low: float | None = None
    high: float | None = None
    reference: float | None = None


def band(reference: float | None, low: float | None, high: float | None) -> Band:
    """Return a band from ReFrame's relative thresholds. ReFrame says (0, None, None) where there is no reference.
    With a reference of 0 the thresholds are absolute (ReFrame's documentation of `reference`)."""
    if reference is None or (low is None and high is None):
        return Band()
    for number in (reference, low, high):
        if number is not None and not math.isfinite(number):
            return Band()
    scale = abs(reference) or 1.0
    lowest = None if low is None else reference + low * scale
    highest = None if high is None else reference + high * scale
    return Band(lowest, highest, reference)


def middle(figures: list[Figure]) -> Figure:
    """Return the median of repeats, with the reference that they share. A value that is not finite stays so."""
    if len(figures) == 1:
        return figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    value = median(values) if values else None
    for number in values:
        if not measurable(number):
            value = number
            break
    return replace(figures[0], value=value)


def ran_and_waited(runs: Iterable[Run]) -> tuple[float, float]:
    """Return the seconds in which at least one job ran, and those in which jobs waited in a queue and none ran."""
    running = []
    queued_or_running = []
    for run in runs:
        job = run.times
        if job:
            running.append((job.began, job.ended))
            queued_or_running.append((job.submitted, job.ended))
    ran = _covered(running)
    return ran, _covered(queued_or_running) - ran


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the spans together; where they overlap counts once."""
    length, until = 0.0, -math.inf
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, until))
        until = max(until, end)
    return length


#: Facts of a node: the kernel's settings of memory, by the same names among the machine's facts.
MEMORY_SETTINGS = ('transparent_huge_pages', 'huge_pages', 'numa_balancing')
#: What the node tells of itself that differs between partitions by nature: named, never refused.
_OF_NODE = ('virtualisation', 'processor', 'kernel', 'clocksource', 'governor', 'firmware', 'microcode',
            *MEMORY_SETTINGS, 'gpu_driver')
_OF_MACHINE = {'processor': 'model_name'} | {
    name: name for name in ('kernel', 'clocksource', 'governor', *MEMORY_SETTINGS)}
#: The virtualisation of a machine whose hypervisor is not known, by its kind.
_BY_KIND = {'physical': 'none', 'virtual': 'unknown'}


def _alike(raw: dict[str, Any], record: CaseRecord, software: dict[str, Any]) -> dict[str, str]:
    """Return the facts that must be alike. ``raw``: ReFrame's record of the case, ``record``: the workload's own
    in it, ``software``: the session's facts of the environment. A fact that was not recorded is left out: it is
    `not known` then, never taken for equal."""
    placed = record.placement or {}
    variables = raw.get('env_vars') or {}
    tasks = _count(raw, 'num_tasks')
    tasks_per_node = _count(raw, 'num_tasks_per_node')
    threads_per_task = _count(raw, 'num_cpus_per_task')
    nodes = tasks // tasks_per_node if tasks and tasks_per_node else None
    facts = _software(record, software, bool(placed))
    facts['size'] = record.size
    facts['ranks'] = placed.get('ranks') or tasks
    facts['nodes'] = placed.get('nodes') or nodes
    facts['threads'] = variables.get('OMP_NUM_THREADS') or threads_per_task
    facts['binding'] = placed.get('binding') or variables.get('OMP_PROC_BIND')
    facts['order'] = placed.get('order')
    facts['profiled'] = 'yes' if record.profile else 'no'
    facts['input'] = _input(record.sizing)
    facts['arguments'] = _arguments(raw.get('executable_opts'))
    facts['check'] = record.check
    facts['variant'] = _stated(record.variant, ' ')
    return {fact: str(value) for fact, value in facts.items() if value not in (None, '')}


def _count(raw: dict[str, Any], name: str) -> int | None:
    """Return a number of ReFrame's record, which says '<undefined>' of what a test did not come to set."""
    number = raw.get(name)
    return number if isinstance(number, int) else None


#: Variables whose values nobody should read.
_SECRET = re.compile('TOKEN|SECRET|PASSW|CREDENTIAL|_KEY', re.I)
#: Variables that are no part of the work.
_NO_WORK = {'PARITY_SESSION', *identity.PLACING}
#: Of the facts that must be alike, those that are the work itself.
_WORK = {name: name for name in ('ranks', 'nodes', 'threads', 'profiled')} | {'sizes': 'input'}


def _work(raw: dict[str, Any], record: CaseRecord, alike: dict[str, str]) -> dict[str, Any]:
    """Return what the program was given: a text, or several by name. A fact that was not recorded is left out."""
    facts: dict[str, Any] = {fact: alike.get(name) for fact, name in _WORK.items()}
    facts['check'] = record.code
    program = raw.get('executable')
    if isinstance(program, str):
        facts['program'] = os.path.basename(program)
    options = raw.get('executable_opts')
    facts['arguments'] = _arguments(options)
    facts['input'] = record.inputs
    facts['container image'] = record.image
    variables = raw.get('env_vars')
    if isinstance(variables, dict):
        facts['variable'] = _variables(variables)
    return {fact: value for fact, value in facts.items() if value is not None}


def _variables(variables: dict[str, Any]) -> dict[str, str | None]:
    """Return the variables that are part of the work; of a secret one the digest."""
    values = {}
    for name, value in variables.items():
        if name in _NO_WORK:
            continue
        if _SECRET.search(name):
            values[name] = identity.digest(str(value).encode())
        else:
            values[name] = _arguments([value])
    return values


def _context(record: CaseRecord, machine: dict[str, Any]) -> dict[str, str]:
    """Return the facts named beside the figures: node, kernel and hypervisor, file systems, link."""
    facts = {fact: record.node.get(fact) for fact in _OF_NODE}
    if not record.node and machine:        # the case ran on this very machine
        for fact, name in _OF_MACHINE.items():
            facts[fact] = machine.get(name)
        kind = machine.get('kind', '')
        facts['virtualisation'] = machine.get('backend') or _BY_KIND.get(kind)
    facts['file system'] = record.facts.get('destination filesystem')
    link = record.facts.get('link')
    if isinstance(link, dict):
        driver, shaped = link.get('driver'), link.get('shaped')
        facts['link'] = f'{driver}, {shaped}'
    context = {}
    for fact, value in facts.items():
        if value:
            words = str(value).split()
            context[fact] = ' '.join(words)
    return context


def _software(record: CaseRecord, facts: dict[str, Any], mpi: bool) -> dict[str, Any]:
    """The code with Spack's DAG hash, or its package's version and the program's SHA-256; MPI; BLAS."""
    packages = facts.get('packages') or {}
    used_packages = map(codes.package_of, record.needs)
    built = [packages[name] for name in used_packages if name in packages]
    if built:
        return _of_spack(built, _blas(facts))
    modules = facts.get('modules')
    if modules:
        return {'software': f'modules {" ".join(modules)}'}
    used_codes = [code for code in codes.every() if code.feature in record.needs]
    programs = facts.get('programs') or {}
    software = ', '.join(_programs(used_codes, programs))
    identity = record.software.get('identity')
    if not software and identity:
        software = f'identity {identity}'
    library = _mpi(facts, programs)
    needs_blas = any(code.blas for code in used_codes)
    return {'software': software, 'MPI': library if mpi else None, 'BLAS': _blas(facts) if needs_blas else None}


def _of_spack(built: list[dict[str, Any]], blas: str) -> dict[str, Any]:
    software = []
    libraries = set()
    needs_blas = False
    for package in built:
        digest = package['hash'][:7]
        software.append(f'{package["spec"]} /{digest}')
        if package.get('mpi'):
            libraries.add(package['mpi'])
        if package.get('blas'):
            needs_blas = True
    mpi = ' '.join(sorted(libraries))
    return {'software': ', '.join(software), 'MPI': mpi, 'BLAS': blas if needs_blas else None}


def _mpi(facts: dict[str, Any], programs: dict[str, Any]) -> str:
    library = facts.get('mpi') or {}
    launcher = programs.get('mpirun') or {}
    package = launcher.get('package_version')
    in_brackets = f'({package})' if package else ''
    return _words(library.get('name'), library.get('version'), in_brackets)


def _blas(facts: dict[str, Any]) -> str:
    library = facts.get('blas') or {}
    core = library.get('core')
    as_core = f'as {core}' if core else ''
    return _words(library.get('name'), library.get('version'), as_core)


def _programs(used_codes: list[codes.Code], programs: dict[str, Any]) -> list[str]:
    """Return the programs of the codes; Python counts where it alone runs a code."""
    words = []
    for code in used_codes:
        for name in code.programs:
            program = programs.get(name)
            if program and name != 'python3':
                version = program.get('package_version') or program.get('version')
                digest = str(program.get('sha256'))[:12]
                words.append(_words(name, version, f'sha256 {digest}'))
    if words or 'python3' not in programs:
        return words
    if any(code.executable == 'python3' for code in used_codes):
        version = programs['python3'].get('version')
        return [f'python {version}']
    return []


def _words(*words: str | None) -> str:
    return ' '.join(filter(None, words))


def _input(sizing: dict[str, dict[str, Any]]) -> str:
    """The sizes that a check derived, without the sentences that derive them."""
    texts = []
    for part, sizes in sorted(sizing.items()):
        if isinstance(sizes, dict):
            numbers = {name: size for name, size in sizes.items() if name != 'why'}
            stated = _stated(numbers, ' ')
            texts.append(f'{part} {stated}')
    return '; '.join(texts)


def _arguments(options: Any) -> str | None:
    """Return the program's arguments without the places of files: the last part of a path, nothing of
    --source=PATH."""
    if not isinstance(options, list):
        return None
    given = ' '.join(map(str, options)).replace("'", '')
    words = []
    for word in given.split():
        if word.startswith(('/', '"$', './')):
            word = word.rpartition('/')[2]
        if not re.match(r'--?[\w.-]+=.*/', word):
            words.append(word)
    return ' '.join(words)
