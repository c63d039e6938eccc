"""The record of a session: its runs, with the figures and facts of each; the only reader of ReFrame's reports."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

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
    times: tuple[float, float, float] | None     # when its job was submitted, began and ended; None: it was not
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
        found: dict[Key, list[Run]] = {}
        for run in self.runs:
            if not run.fixture:
                found.setdefault((run.case, run.partition, run.environ), []).append(run)
        return found

    def counted(self) -> Iterator[tuple[Run, str, Figure]]:
        """Yield the figures that count: of first attempts that nobody disturbed, without a label. Of stored rows
        `parity.judge.store.history.counted` says the same."""
        for run in self.runs:
            if not (run.retry or run.fixture or run.status or run.disturbed):
                yield from ((run, name, figure) for name, figure in run.figures.items()
                            if figure.finite and figure.better and not figure.label)


def of_report(report: dict[str, Any]) -> Session:
    """Return the record of a report. Raises what reading JSON of another form ends in: KeyError, TypeError ..."""
    identity.renamed(report)
    info, kept = report['session_info'], plan_file.of_report(report)
    plan, facts = kept.get('plan') or {}, kept.get('facts') or {}
    runs = tuple(_runs(report, facts))
    slowed, nodes = _throttled(runs), {}
    for said in (run.node for run in runs if run.node.get('node') and not run.fixture):
        before = nodes.get(said['node'], {})
        nodes[said['node']] = {**before, **said, **slowed.get(said['node'], {})}
        if before.get('gpu_slowed', 'no') != 'no':      # by one run of several
            nodes[said['node']]['gpu_slowed'] = before['gpu_slowed']
    return Session(
        uuid=info['uuid'], start=_time(info['time_start_unix']), end=_time(info['time_end_unix']),
        elapsed=info.get('time_elapsed', 0.0), cmdline=info.get('cmdline', ''), reframe=info.get('version', ''),
        system=plan.get('system') or next((run.system for run in runs), ''), facts=facts, nodes=nodes,
        # without a batch system the session's machine is the node
        throttled='' if nodes else next(iter(slowed.values()), {}).get('throttled', ''),
        software=tuple(sorted({run.software for run in runs if not run.fixture} - {''})),
        rerun_of=info.get(plan_file.RERUN_OF, ''), interrupted=bool(info.get('interrupted')),
        announcement=kept.get('announcement', ''), selection=plan_file.selection(info.get('cmdline', '')),
        planned=plan_file.digest(plan), cases=plan_file.digest_of_cases(plan), lost=kept.get('lost', ''),
        plan=plan, runs=runs)


def _time(unix: float) -> float:
    """Return a Unix time; ValueError for one that no calendar has."""
    if not abs(unix) < LATEST:
        raise ValueError(f'{unix!r} is no Unix time')
    return unix


def _throttled(runs: tuple[Run, ...]) -> dict[str, dict[str, str]]:
    """Return, by node, whether heat or a CPU quota slowed a job there (programs/watch.py)."""
    times: dict[str, int] = {}
    for seen in (run.watched for run in runs if not run.fixture):
        if seen.get('node'):
            times[seen['node']] = times.get(seen['node'], 0) + (seen.get('throttled') or 0)
    return {node: {'throttled': 'yes' if count else 'no'} for node, count in times.items()}


def _runs(report: dict[str, Any], facts: dict[str, Any]) -> Iterator[Run]:
    before: dict[tuple, str] = {}
    for raw in (raw for run in report['runs'] for raw in run['testcases']):
        run = _run(raw, CaseRecord.from_json(raw.get('parity') or {}), report['session_info'], facts)
        attempt = raw['unique_name'], run.case, run.partition, run.environ
        yield replace(run, retry=True) if before.get(attempt, 'pass') != 'pass' else run
        before[attempt] = raw['result']


def _with_short_name(facts: dict[str, Any] | None) -> dict[str, Any]:
    return {**facts, 'node': node_name(facts['node'])} if facts and facts.get('node') else facts or {}


def _run(raw: dict[str, Any], record: CaseRecord, info: dict[str, Any], facts: dict[str, Any]) -> Run:
    """A case of ReFrame's, with what its workload noted (``record``)."""
    status, passed = _status(raw, record), raw['result'] == 'pass'
    kind, reason = _reason(status, raw, record, info) if status else (Kind.NONE, '')
    if kind is Kind.CANCELLED and info['time_end_unix'] >= (record.until_unix or math.inf):
        status, kind = 'skipped', Kind.WINDOW
        reason = f'{reasons.WINDOW_ENDED} while its job waited: it is left for the next night ({reason})'
    nodes, times, node = raw.get('job_nodelist') or [], _times(raw, record), _with_short_name(record.node)
    changed, variant = (','.join(f'{name}={value}' for name, value in stated.items())
                        for stated in (record.changed, record.variant))
    # by the scheduler's word; a queue does not count, and older sessions kept no word about queues
    unknown = not record.job and raw.get('scheduler') in systems.QUEUED
    alike = _alike(raw, record, (facts.get('software') or {}).get(raw['environ']) or {})
    return Run(
        system=raw['system'], partition=raw['partition'], environ=raw['environ'],
        case=case_name(raw.get('display_name') or raw['name']), fixture=bool(raw.get('fixture')),
        status=status, kind=kind, reason=reason, retry=False,
        attempt=raw.get('run_index', 0) + 1,
        unfinished=bool(status) and raw['result'] in ('abort', _NEVER_ENDED) or kind is Kind.WINDOW,
        exitcode=record.exitcode, disturbed=str(record.disturbed),
        subsystem=record.subsystem, size=record.size, changed=changed, variant=variant,
        software=str(record.software.get('identity', '')),
        nodes=tuple(map(node_name, (nodes,) if isinstance(nodes, str) else nodes)),
        jobid=str(raw.get('jobid') or ''),
        output=str((raw.get('outputdir') if passed else raw.get('stagedir')) or ''),
        times=times, ended=ended if (ended := raw.get('job_completion_time_unix')) is None else _time(ended),
        seconds=times[2] - times[1] or None if times and not unknown else None,
        node=node, watched=_with_short_name(record.watched), devices=record.devices,
        noted=record.facts, load=(record.before, record.after),
        alike=alike, work=_work(raw, record, alike),
        context=_context(record, facts.get('machine') or {}), figures=_figures(raw, record))


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
    # a session of before may have lines of megabytes
    said = reasons.cut(' '.join(str(record.reason or raw.get('fail_reason') or '').split()))
    if raw['result'] == 'abort' and not record.reason:
        if 'RunSessionTimeout' in said:
            return Kind.STOPPED, 'the time of --duration was over before this case ended'
        return Kind.STOPPED, 'the run was stopped before this case ended' + (f' ({said})' if said else '')
    if said:
        kind = reasons.kind(status, said) if record.kind is None else _KINDS.get(record.kind, Kind.NONE)
        return kind, _EXPECTED.get(raw['result'], '') + said
    if raw['result'] == _NEVER_ENDED:
        why = _why_stopped(info)
        return Kind.STOPPED, 'ReFrame stopped before it ended' + (f': {why}' if why else '')
    return Kind.NONE, f'{raw["result"]} in {raw.get("fail_phase")}'


def _why_stopped(info: dict[str, Any]) -> str:
    """Return why ReFrame gave up the run, from its log, as its database lacks it; '' if the log is gone."""
    for file in map(Path, reversed(info.get('log_files') or [])):
        with contextlib.suppress(OSError):
            if abs(file.stat().st_mtime - info['time_end_unix']) < 60:    # s; else it is the log of a later run
                log = file.read_text(errors='replace')
                *_, last = '', *re.findall(r'ERROR: run session stopped: (.*(?:\n(?!\[\d{4}-).*)*)', log)
                lines = [re.sub(r'\x1b\[[0-9;]*m', '', line).strip() for line in last.splitlines()]
                words = [line for line in lines if line and not re.fullmatch(r'-+ std(out|err) -+', line)]
                return '; '.join(words[:2])[:300]
    return ''


def _times(raw: dict[str, Any], record: CaseRecord) -> tuple[float, float, float] | None:
    job = record.job
    if job:
        began = job.submitted_unix + job.waited_s
        return job.submitted_unix, began, began + job.ran_s
    submitted, ended = raw.get('job_submit_time'), raw.get('job_completion_time_unix')
    return (submitted, submitted, ended) if submitted and ended else None


def _figures(raw: dict[str, Any], record: CaseRecord) -> dict[str, Figure]:
    stored = {key.rpartition(':')[2]: value for key, value in (raw.get('perfvalues') or {}).items()}
    found = {}
    for name in dict.fromkeys((*stored, *record.metrics, *record.left_out)):
        declared, label = record.metrics.get(name, MetricRecord()), record.labels.get(name, Label())
        value, reference, low, high, unit, *_ = (*stored.get(name, (None,) * 4), '')
        low, high, reference = band(reference, low, high)
        if name == PASSED and name not in stored and not (declared.unit or declared.better):
            value, label = 1.0, Label(PASSED)
        why = record.left_out.get(name, '')
        found[name] = Figure(
            value=None if value is None else float(value), low=low, high=high, reference=reference,
            unit=declared.unit or unit or '', better=declared.better, label=label.word,
            why=label.reason or declared.absent, left_out=why,
            kind=reasons.kind('skipped', why) if why else Kind.NONE,
            source=declared.source, limit=declared.limit, ceiling=declared.ceiling)
    return found


def band(ref: float | None, low: float | None, up: float | None):
    """Return (low, high, reference) as absolute numbers, from ReFrame's relative thresholds. ReFrame says
    (0, None, None) where there is no reference. With a reference of 0 the thresholds are absolute (ReFrame's
    documentation of `reference`)."""
    if ref is None or (low is None and up is None) or not all(map(math.isfinite, filter(None, (ref, low, up)))):
        return None, None, None
    scale = abs(ref) if ref else 1.0
    return (None if low is None else ref + low * scale,
            None if up is None else ref + up * scale, ref)


def middle(figures: list[Figure]) -> Figure:
    """Return the median of repeats, with the reference that they share. A value that is not finite stays so."""
    values = [f.value for f in figures if f.value is not None]
    bad = [v for v in values if not measurable(v)]
    return replace(figures[0], value=bad[0] if bad else median(values) if values else None)


def ran_and_waited(runs: Iterable[Run]) -> tuple[float, float]:
    """Return the seconds in which at least one job ran, and those in which jobs waited in a queue and none ran."""
    times = [run.times for run in runs if run.times]
    ran = _covered((began, ended) for _, began, ended in times)
    return ran, _covered((submitted, ended) for submitted, _, ended in times) - ran


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the spans together; where they overlap counts once."""
    length, until = 0.0, -math.inf
    for start, end in sorted(spans):
        length += max(0.0, end - max(start, until))
        until = max(until, end)
    return length


#: What the node tells of itself that differs between partitions by nature: named, never refused.
_OF_NODE = ('virtualisation', 'processor', 'kernel', 'clocksource', 'governor', 'firmware', 'microcode',
            'gpu_driver')
_OF_MACHINE = {'processor': 'model_name', 'kernel': 'kernel', 'clocksource': 'clocksource', 'governor': 'governor'}


def _alike(raw: dict[str, Any], record: CaseRecord, software: dict[str, Any]) -> dict[str, str]:
    """Return the facts that must be alike. ``raw``: ReFrame's record of the case, ``record``: the workload's own
    in it, ``software``: the session's facts of the environment. A fact that was not recorded is left out: it is
    `not known` then, never taken for equal."""
    placed = record.placement or {}
    env = raw.get('env_vars') or {}
    # ReFrame says '<undefined>' of what a test did not come to set
    ranks, each, cpus = (n if isinstance(n := raw.get(name), int) else None
                         for name in ('num_tasks', 'num_tasks_per_node', 'num_cpus_per_task'))
    known = {
        **_software(record, software, bool(placed)),
        'size': record.size,
        'ranks': placed.get('ranks') or ranks,
        'nodes': placed.get('nodes') or (ranks // each if ranks and each else None),
        'threads': env.get('OMP_NUM_THREADS') or cpus,
        'binding': placed.get('binding') or env.get('OMP_PROC_BIND'),
        'order': placed.get('order'),
        'profiled': 'yes' if record.profile else 'no',
        'input': _input(record.sizing),
        'arguments': _arguments(raw.get('executable_opts')),
        'check': record.check,
        'variant': ' '.join(f'{k}={v}' for k, v in record.variant.items()),
    }
    return {fact: str(value) for fact, value in known.items() if value not in (None, '')}


#: Variables whose values nobody should read.
_SECRET = re.compile('TOKEN|SECRET|PASSW|CREDENTIAL|_KEY', re.I)
#: Variables that are no part of the work.
_NO_WORK = {'PARITY_SESSION', *identity.PLACING}
#: Of the facts that must be alike, those that are the work itself.
_WORK = {name: name for name in ('ranks', 'nodes', 'threads', 'profiled')} | {'sizes': 'input'}


def _work(raw: dict[str, Any], record: CaseRecord, alike: dict[str, str]) -> dict[str, Any]:
    """Return what the program was given: a text, or several by name. A fact that was not recorded is left out."""
    program, variables = raw.get('executable'), raw.get('env_vars')
    known = {fact: alike[name] for fact, name in _WORK.items() if name in alike}
    known |= {'check': record.code,
              'program': os.path.basename(program) if isinstance(program, str) else None,
              'arguments': _arguments(raw.get('executable_opts')), 'input': record.inputs,
              'container image': record.image}
    if isinstance(variables, dict):
        known['variable'] = {name: identity.digest(str(value).encode()) if _SECRET.search(name) else
                             _arguments([value]) for name, value in variables.items() if name not in _NO_WORK}
    return {fact: value for fact, value in known.items() if value is not None}


def _context(record: CaseRecord, machine: dict[str, Any]) -> dict[str, str]:
    """Return the facts named beside the figures: node, kernel and hypervisor, file systems, link."""
    node, said = record.node, record.facts
    known = {fact: node.get(fact) for fact in _OF_NODE}
    if not node and machine:        # the case ran on this very machine
        known |= {fact: machine.get(name) for fact, name in _OF_MACHINE.items()}
        known['virtualisation'] = machine.get('backend') or \
            {'physical': 'none', 'virtual': 'unknown'}.get(machine.get('kind', ''))
    known['file system'] = said.get('destination filesystem')
    if isinstance(link := said.get('link'), dict):
        known['link'] = f'{link.get("driver")}, {link.get("shaped")}'
    return {fact: ' '.join(str(value).split()) for fact, value in known.items() if value}


def _software(record: CaseRecord, found: dict[str, Any], mpi: bool) -> dict[str, str | None]:
    """The code with Spack's DAG hash, or its package's version and the program's SHA-256; MPI; BLAS."""
    needs = record.needs
    own = [code for code in codes.every() if code.feature in needs]
    packages, programs = found.get('packages') or {}, found.get('programs') or {}
    built = [packages[name] for name in map(codes.package_of, needs) if name in packages]
    library = found.get('blas') or {}
    blas = _words(library.get('name'), library.get('version'), library.get('core') and f'as {library["core"]}')
    if built:
        return {'software': ', '.join(f'{p["spec"]} /{p["hash"][:7]}' for p in built),
                'MPI': ' '.join(sorted({p['mpi'] for p in built if p.get('mpi')})),
                'BLAS': blas if any(p.get('blas') for p in built) else None}
    if found.get('modules'):
        return {'software': f'modules {" ".join(found["modules"])}'}
    said = [_words(name, p.get('package_version') or p.get('version'), f'sha256 {str(p.get("sha256"))[:12]}')
            for code in own for name in code.programs if name != 'python3' and (p := programs.get(name))]
    if not said and 'python3' in programs and any(code.executable == 'python3' for code in own):
        said = [f'python {programs["python3"].get("version")}']
    identity = record.software.get('identity')
    used, package = found.get('mpi') or {}, (programs.get('mpirun') or {}).get('package_version')
    return {'software': ', '.join(said) or _words(identity and f'identity {identity}'),
            'MPI': _words(used.get('name'), used.get('version'), package and f'({package})') if mpi else None,
            'BLAS': blas if any(code.blas for code in own) else None}


def _words(*known: str | None) -> str:
    return ' '.join(filter(None, known))


def _input(sizing: dict[str, dict[str, Any]]) -> str:
    """The sizes that a check derived, without the sentences that derive them."""
    return '; '.join(f'{what} ' + ' '.join(f'{k}={v}' for k, v in sized.items() if k != 'why')
                     for what, sized in sorted(sizing.items()) if isinstance(sized, dict))


def _arguments(options: Any) -> str | None:
    """Return the program's arguments without the places of files: the last part of a path, nothing of
    --source=PATH."""
    if not isinstance(options, list):
        return None
    words = ' '.join(map(str, options)).replace("'", '').split()
    words = [w.rpartition('/')[2] if w.startswith(('/', '"$', './')) else w for w in words]
    return ' '.join(w for w in words if not re.match(r'--?[\w.-]+=.*/', w))
