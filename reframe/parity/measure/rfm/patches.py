"""Changes to ReFrame 4.9 and 4.10, made in its own modules when its settings are read.

A change is left out where the release has the thing itself, or nothing to change."""

from __future__ import annotations

import atexit
import contextlib
import copy
import inspect
import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from reframe import utility
from reframe.core import backends, fields, pipeline, variables
from reframe.core import logging as reframe_logging
from reframe.core.schedulers import local, pbs, slurm
from reframe.core.warnings import ReframeDeprecationWarning
from reframe.frontend import cli, filters, loader, reporting, testgenerators
from reframe.frontend.executors import policies
from reframe.utility import jsonext, osext

from parity.base import reasons, yamlfile
from parity.measure.rfm import queues, under
from parity.measure.scheduler import command, scheduled

#: A host list of Slurm's: n[1-4,7],gpu01.
_HOSTLIST = re.compile(r'\w[\w.,\[\]-]*', re.ASCII)
#: A colour of a terminal.
_COLOUR = re.compile(r'\x1b\[[\d;]*m')
#: Values of these types never change.
_PLAIN = (str, int, bool, float, type(None))
_HOLDERS = (list, dict, tuple, set)


def install(results: Path) -> None:
    """Change this process's ReFrame; job scripts are below ``results``."""
    under.installed = True
    allow_spaces(results)
    logging.raiseExceptions = False         # no traceback for each line where the log's disk is full
    atexit.unregister(reframe_logging.shutdown)     # Python itself closes the logs
    for change in (write_log_without_colours, describe_checks_in_perflogs, warn_where_seen,
                   describe_variables_once, copy_values_alone, search_values_quickly, read_references_once,
                   keep_modules, read_nodes_here, end_preempted_jobs, leave_silent_commands, leave_full_queues,
                   cancel_together, cut_reasons, tell_skips, take_printed_names):
        change()
    backends._schedulers.update(pbs=(queues.Pbs, None), slurm=(queues.Slurm, None), squeue=(queues.Squeue, None))


def allow_spaces(folder: Path) -> None:
    """Start job scripts below a ``folder`` with white space or quotes in its path. LocalJobScheduler.submit hands
    the script to run_command_async, which splits it as a shell would, and PBS jobs `cd` without quotes."""
    if shlex.quote(str(folder)) == str(folder):
        return
    emit_preamble = pbs.PbsJobScheduler.emit_preamble

    def run_quoted(command, *args, **kwargs):
        return osext.run_command_async(shlex.quote(command), *args, **kwargs)

    def quoted_preamble(scheduler, job):
        lines = []
        for line in emit_preamble(scheduler, job):
            is_change = line == f'cd {job.workdir}'
            lines.append(f'cd {shlex.quote(job.workdir)}' if is_change else line)
        return lines

    local.osext = SimpleNamespace(**{**vars(osext), 'run_command_async': run_quoted})
    pbs.PbsJobScheduler.emit_preamble = quoted_preamble


def write_log_without_colours() -> None:
    """Write ReFrame's log file without the colours that it puts into a message for a terminal."""
    handlers = reframe_logging._create_handlers
    create = handlers['file']

    def without_colours(*args) -> logging.Handler:
        handler = create(*args)
        handler.format = lambda record: _COLOUR.sub('', logging.Handler.format(handler, record))
        return handler

    handlers['file'] = without_colours


def describe_checks_in_perflogs() -> None:
    """Look up the variables of a check for its lines of a perflog. ReFrame does so for every line of its own log,
    too, which names the check alone: a tenth of the work of 40 cases."""
    adapter = reframe_logging.LoggerAdapter
    add_everything, log_result = adapter._update_check_extras, adapter.log_result

    def add_name(logger):
        if logger.check is not None:
            logger.extra['check_info'] = logger.check.info()

    def log(logger, *args, **kwargs):
        logger._update_check_extras = partial(add_everything, logger)
        try:
            log_result(logger, *args, **kwargs)
        finally:
            del logger._update_check_extras

    adapter._update_check_extras, adapter.log_result = add_name, log


def warn_where_seen() -> None:
    """Look for the use of a deprecated variable only where ReFrame shows its warning. For each line of a perflog
    it reads such a variable, hides the warning, and searches the sources of all callers first."""
    warn = fields.user_deprecation_warning

    def warned(*args, **kwargs):
        action, _, category, *_ = warnings.filters[0] if warnings.filters else ('', None, None)
        if (action, category) != ('ignore', ReframeDeprecationWarning):
            warn(*args, **kwargs)

    fields.user_deprecation_warning = warned


def describe_variables_once() -> None:
    """Put the descriptors of a check's variables into its class once, and not for each of its cases: a sixth of
    the time that loading the checks takes."""
    def inject(space, case, cls):
        descriptors, values = vars(cls), vars(case)
        for name, variable in space.items():
            is_alias = bool(variable._target)
            field = variable.field if is_alias else variable._p_field
            if descriptors.get(name) is not field:
                type.__setattr__(cls, name, field)
                field.__set_name__(case, name)
            if not is_alias and type(variable._p_default_value) in _PLAIN:
                values[name] = variable._p_default_value
            elif variable.is_defined():
                values[name] = variables.copy.deepcopy(variable._default_value)
        space.injected_vars.update(space.vars)

    variables.VarSpace._inject = inject


def copy_values_alone() -> None:
    """Copy of a variable that a class inherits only the value, and that only if it can change. ReFrame copies all,
    an eighth of the work of `reframe -r`. It sets itself which variable of the new class an alias stands for."""
    put = object.__setattr__        # a variable's own looks first whether its value has the name

    def deepcopy(of):
        if type(of) in _PLAIN:
            return of
        if type(of) in (list, set, dict) and not of:
            return type(of)()
        if type(of) is not variables.TestVar:
            return copy.deepcopy(of)
        made = variables.TestVar.__new__(variables.TestVar)
        for slot in variables.TestVar.__slots__:
            put(made, slot, getattr(of, slot))
        put(made, '_p_default_value', deepcopy(of._p_default_value))
        put(made, '_refs', [*of._refs])
        return made

    variables.copy = SimpleNamespace(deepcopy=deepcopy)


def search_values_quickly() -> None:
    """Search a check for values that cannot be copied, and leave it to ReFrame to name one. Its own search of all
    checks takes a twentieth of the work of `reframe -r`, since it keeps the path to each value."""
    with_names = loader.RegressionCheckLoader._validate_check

    def valid(loaded, check):
        is_complete = {'valid_systems', 'valid_prog_environs'} <= vars(check).keys()
        if is_complete and _is_copyable(check, set()):
            return True
        return with_names(loaded, check)

    loader.RegressionCheckLoader._validate_check = valid


def _is_copyable(value, seen: set[int]) -> bool:
    """Return whether ReFrame can copy a value and all that it holds but for what is in ``seen``."""
    seen.add(id(value))
    if type(value) in (list, tuple, set):
        held = value
    elif type(value) is dict:
        held = value.values()
    elif utility.is_copyable(value):
        held = getattr(value, '__dict__', {}).values()
    else:
        return False
    for item in held:
        is_empty = type(item) in _PLAIN or type(item) in _HOLDERS and not item
        if not is_empty and id(item) not in seen and not _is_copyable(item, seen):
            return False
    return True


def read_references_once() -> None:
    """Read the file of accepted values again only when it has changed. ReFrame reads it for each case, which takes
    seconds for a thousand values. UsageError for a file whose aliases would expand beyond any memory."""
    if not hasattr(pipeline, 'yaml'):       # 4.9 reads none: a check has them from parity
        return
    read = pipeline.yaml.safe_load
    contents = {}

    def safe_load(file):
        state = os.fstat(file.fileno())
        key = (file.name, state.st_ino, state.st_mtime_ns, state.st_size)
        if key not in contents:
            yamlfile.guard(Path(file.name), file.read())
            file.seek(0)
            contents[key] = read(file)
        return contents[key]

    pipeline.yaml = SimpleNamespace(safe_load=safe_load)


def keep_modules() -> None:
    """Leave the classes that --repeat, --distribute and -P make in the module of their test. In 4.9 they are in
    ReFrame's own, and have its file."""
    make = testgenerators.make_test
    if 'module=' in inspect.getsource(testgenerators.repeat_tests):
        return

    def make_in_module(name, bases, *args, **kwargs):
        kwargs.setdefault('module', bases[0].__module__)
        return make(name, bases, *args, **kwargs)

    testgenerators.make_test = make_in_module


def read_nodes_here() -> None:
    """Take a Slurm job's nodes from the job itself once it has ended, without `scontrol show hostname`.

    For seconds after a short job on p[1-2], sacct may name p1 only (Slurm 22.05), and ReFrame does not ask
    again. It also starts scontrol at each look at an ended job's nodes, ten times a job."""
    def nodelist(job):
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
        if not slurm.slurm_state_completed(job.state):
            return job._nodelist
        reported = scheduled.node_report(job.workdir).get('nodes', '')
        if _HOSTLIST.fullmatch(reported):
            job._nodespec = reported
        job._nodelist = []
        with contextlib.suppress(NodeSetException):
            if _HOSTLIST.fullmatch(job._nodespec or ''):
                job._nodelist = list(NodeSet(job._nodespec, resolver=RESOLVER_NOGROUP))
        return job._nodelist

    slurm._SlurmJob.nodelist = property(nodelist)


def end_preempted_jobs() -> None:
    """Count PREEMPTED and REVOKED among the states that end a job. ReFrame takes them for pending, and waits for
    ever.

    For upstream: move both words from `pending_states` to `completion_states`; cancel a job once, in
    `_cancel_if_pending_too_long`; end `wait` some seconds after `cancel`."""
    completed, pending = slurm.slurm_state_completed, slurm.slurm_state_pending

    def without_ends(state) -> str:
        words = (state or '').split(',')
        return ','.join(word for word in words if word not in ('PREEMPTED', 'REVOKED'))

    def is_completed(state) -> bool:
        if not state:
            return False
        remaining = without_ends(state)
        return not remaining or completed(remaining)

    slurm.slurm_state_completed = is_completed
    slurm.slurm_state_pending = lambda state: pending(without_ends(state))


def leave_full_queues() -> None:
    """End an sbatch that sleeps before a full queue. For upstream: `resubmit_on_errors` while sbatch runs."""
    run_strict = slurm._run_strict

    def run(command, **options):
        if command.startswith('sbatch '):
            return queues.sbatch(command, **options)
        return run_strict(command, **options)

    slurm._run_strict = run


def leave_silent_commands() -> None:
    """End a command of Slurm that does not answer: ReFrame gives sacct and squeue no time limit, and every case of
    the session would wait with it."""
    def run(line, **options):
        return osext.run_command(line, **{'timeout': command.SECONDS, **options})

    slurm.osext = SimpleNamespace(**{**vars(osext), 'run_command': run})
    slurm._run_strict = partial(run, check=True)


def cancel_together() -> None:
    """Cancel the jobs of all cases before waiting for the end of the first, where a session is stopped: jobs that
    do not end would else use up the time after which ReFrame is killed, with nothing stored. For upstream, too."""
    one_by_one = policies.AsynchronousExecutionPolicy._abortall

    def abort_all(policy, cause):
        for partition, scheduler in policy._schedulers.items():
            if isinstance(scheduler, slurm.SlurmJobScheduler):
                jobs = [task.check.job for task in policy._partition_tasks[partition] if task.state == 'running']
                scheduler.cancel_many([job for job in jobs if job and job.jobid])
        one_by_one(policy, cause)

    policies.AsynchronousExecutionPolicy._abortall = abort_all


def cut_reasons() -> None:
    """Cut ReFrame's own reasons in its report, too: they may quote a command's whole output."""
    what, encode = reporting.what, jsonext.encode

    def cut_what(*info):
        return reasons.cut(what(*info))

    def cut_encoded(obj, **options):
        if isinstance(obj, BaseException):
            return reasons.cut(str(obj))
        return encode(obj, **options)

    reporting.what = cut_what
    jsonext.encode = cut_encoded


def tell_skips() -> None:
    """Keep why ReFrame skipped a case or expected it to fail. One that needs a failed case is no skip."""
    update = reporting.RunReport.update_run_stats

    def with_records(report, stats):
        update(report, stats)
        for run, (_, tasks) in zip(report['runs'], stats.runs(), strict=True):
            by_case = {task.testcase: task for task in tasks}
            for case, task in zip(run['testcases'], tasks, strict=True):
                if task.skipped or task.xfailed or task.xpassed:
                    _note_skip(case, task, by_case)

    reporting.RunReport.update_run_stats = with_records


def _note_skip(record, task, tasks) -> None:
    """Note in the ``record`` of a case why it was skipped or expected to fail. ``tasks``: all, by case."""
    why = _failed_need(task, tasks) if task.skipped else ''
    record['fail_reason'] = reasons.cut(why or str(task.exc_info[1] or ''))
    if why:
        record['result'] = 'fail_deps'


def _failed_need(task, tasks) -> str:
    """Say which of the cases that a case needs failed, and why; '' where none did."""
    for case in task.testcase.deps:
        needed = tasks.get(case)
        if needed is None:
            continue
        if needed.failed:
            return f'{needed.check.display_name} failed: {reporting.what(*needed.exc_info)}'
        why = _failed_need(needed, tasks)
        if why:
            return why
    return ''


def take_printed_names() -> None:
    """Let -n and -x take a case's name as it is printed: `Ops %threads=one`. ReFrame removes the spaces of the
    names that it compares, and not those of the pattern."""
    any_name, one_name = filters.have_any_name, filters._have_name
    filters.have_any_name = lambda names: any_name([name.replace(' ', '') for name in names])
    filters._have_name = lambda name: one_name(name.replace(' ', ''))


def name_session(number: str) -> None:
    """Put parity's id into ReFrame's report: perhaps no case comes to its set-up, which would note it."""
    update = reporting.RunReport.update_run_stats

    def named(report, stats):
        update(report, stats)
        report.update(parity_session={'id': number})

    reporting.RunReport.update_run_stats = named


def tell_empty_lists(why: Callable[[], str]) -> None:
    """Say ``why`` a list of checks is empty. ReFrame says that it found 0."""
    show = cli.list_checks

    def list_checks(testcases, *args, **kwargs):
        show(testcases, *args, **kwargs)
        reason = '' if testcases else why()
        if reason:
            print(f'parity: {reason}', file=sys.stderr)

    cli.list_checks = list_checks
