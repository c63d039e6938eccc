"""What ReFrame 4.10 does otherwise than parity needs, changed in its own modules when its settings are read."""

from __future__ import annotations

import atexit
import contextlib
import copy
import inspect
import logging
import os
import re
import shlex
import warnings
from pathlib import Path
from types import SimpleNamespace

import reframe.core.warnings as reframe_warnings
from reframe.core import fields, pipeline, variables
from reframe.core import logging as reframe_logging
from reframe.core.schedulers import local, pbs, slurm
from reframe.frontend import reporting
from reframe.utility import jsonext, osext

from parity.base import reasons, yamlfile
from parity.rfm import pbs_backend, slurm_queue
from parity.scheduler import scheduled

#: A host list of Slurm's: n[1-4,7],gpu01.
_HOSTLIST = re.compile(r'\w[\w.,\[\]-]*', re.ASCII)


def install(results: Path) -> None:
    """Change this process's ReFrame; job scripts stand below ``results``."""
    keep_logs_quiet()
    allow_spaces(results)
    skip_silenced_warnings()
    make_checks_quickly()
    read_references_once()
    read_nodes_here()
    cut_reasons()
    pbs_backend.install()
    slurm_queue.install()


def keep_logs_quiet() -> None:
    """Print no traceback a line where the disk of the log is full; Python itself closes the logs."""
    logging.raiseExceptions = False
    atexit.unregister(reframe_logging.shutdown)


def allow_spaces(folder: Path) -> None:
    """Start job scripts below ``folder`` although its path has white space or quotes. LocalJobScheduler.submit
    hands os.path.abspath(script) to run_command_async, which splits it as a shell would, and PBS jobs `cd` without
    quotes. Does nothing for a path that survives that."""
    if shlex.quote(str(folder)) == str(folder):
        return
    preamble, run = pbs.PbsJobScheduler.emit_preamble, osext.run_command_async
    quoted = {'run_command_async': lambda command, *args, **kwargs: run(shlex.quote(command), *args, **kwargs)}
    local.osext = SimpleNamespace(**{**vars(osext), **quoted})
    pbs.PbsJobScheduler.emit_preamble = lambda scheduler, job: [
        f'cd {shlex.quote(job.workdir)}' if line == f'cd {job.workdir}' else line
        for line in preamble(scheduler, job)]


def skip_silenced_warnings() -> None:
    """Do not look for the caller of a deprecation warning that ReFrame has silenced. Every instance of a check
    silences the warnings of its deprecated variables and then gives two, each with inspect.stack(): a quarter of
    the time that listing 90 checks takes."""
    def stack():
        action, _, category, *_ = (warnings.filters or [('', None, Warning)])[0]
        silenced = action == 'ignore' and category is reframe_warnings.ReframeDeprecationWarning
        return [] if silenced else inspect.stack()[1:]

    reframe_warnings.inspect = SimpleNamespace(**{**vars(inspect), 'stack': stack})


def make_checks_quickly() -> None:
    """Give a class its variables at its first instance, and let classes share the types of what they inherit.
    ReFrame gives a class its variables at each instance again, and copies the types of each variable for each
    class that inherits it: a third of the time that loading all checks takes."""
    give = variables.VarSpace._inject

    def inject(space, instance, check):
        if vars(check).get('_parity_given') is not space:
            give(space, instance, check)
            type.__setattr__(check, '_parity_given', space)
        else:
            vars(instance).update((name, var.default_value) for name, var in space.items() if var.is_defined())

    def copied(var, memo):
        new = memo[id(var)] = object.__new__(type(var))
        for slot in var.__slots__:
            with contextlib.suppress(AttributeError):
                value = object.__getattribute__(var, slot)
                alike = isinstance(value, fields.TypedField)
                object.__setattr__(new, slot, copy.copy(value) if alike else copy.deepcopy(value, memo))
        return new

    variables.VarSpace._inject = inject
    variables.TestVar.__deepcopy__ = copied


def read_references_once() -> None:
    """Read the file of accepted values again only when it has changed: ReFrame reads it for each case, which takes
    seconds where a thousand are accepted. UsageError, the reason of the case, for a file whose aliases would
    expand to more than any memory holds."""
    read, known = pipeline.yaml.safe_load, {}

    def safe_load(file):
        state = os.fstat(file.fileno())
        key = (file.name, state.st_ino, state.st_mtime_ns, state.st_size)
        if key not in known:
            yamlfile.guard(Path(file.name), file.read())
            file.seek(0)
            known[key] = read(file)
        return known[key]

    pipeline.yaml = SimpleNamespace(safe_load=safe_load)


def read_nodes_here() -> None:
    """Take a Slurm job's nodes from the job itself once it has ended, without `scontrol show hostname`.

    For a job on several nodes that ends within seconds sacct names fewer at first (COMPLETED on p1 of p[1-2],
    seconds long: tried on Slurm 22.05), and ReFrame looks no more once a job has ended: a figure of two nodes
    would be that of one. And ReFrame starts scontrol at each look at the nodes of a job that has ended, at
    every line of its log too: ten times a job."""
    def nodelist(job):
        if slurm.slurm_state_completed(job.state):
            said = scheduled.hostlist(job.workdir)
            job._nodespec = said if _HOSTLIST.fullmatch(said) else job._nodespec
            job._nodelist = _names(job._nodespec or '')
        return job._nodelist

    slurm._SlurmJob.nodelist = property(nodelist)


def _names(hosts: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
    try:
        return list(NodeSet(hosts, resolver=RESOLVER_NOGROUP)) if _HOSTLIST.fullmatch(hosts) else []
    except NodeSetException:
        return []


def cut_reasons() -> None:
    """Cut ReFrame's own reasons in its report, too: they may quote all that a command printed."""
    what, encode = reporting.what, jsonext.encode
    reporting.what = lambda *info: reasons.cut(what(*info))
    jsonext.encode = lambda obj, **kw: (reasons.cut(str(obj)) if isinstance(obj, BaseException)
                                        else encode(obj, **kw))
