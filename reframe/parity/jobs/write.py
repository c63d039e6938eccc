"""A job's script, from its name and what the command line says of it."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
from dataclasses import dataclass, field, replace
from typing import Any

import jinja2

from parity import plan
from parity.base import errors, paths
from parity.base.text import refuse
from parity.jobs import case, request
from parity.jobs.request import Request
from parity.system import systems
from parity.system.schema import Partition, System


@dataclass(frozen=True)
class Wanted:
    """A job as the command line names it. ``own``: submitted from here, with this checkout's codes and Python."""

    job: str
    system: str
    partitions: list[str] = field(default_factory=list)
    check: str = ''
    after: str = ''
    repeats: int | None = None
    nodes: list[int] | None = None
    name: str = ''
    own: bool = False


def script(wanted: Wanted) -> tuple[Request, str]:
    """What the job asks for, and its script. UsageError for what cannot be, with what would be valid."""
    if wanted.job not in request.JOBS:
        raise errors.UsageError(f'no job {wanted.job!r}; valid: {", ".join(request.JOBS)}')
    system = systems.read(wanted.system)
    parts = [request.partition(system, name) for name in wanted.partitions or ['']]
    _refuse(wanted, parts)
    if wanted.job == 'workload':
        return _workload(system, parts[0], wanted)
    asked = replace(request.of(wanted.job, system, parts[0]), after=wanted.after)
    if wanted.job == 'campaign':
        return _campaign(system, parts, wanted, asked)
    target = f'{system.name}:{parts[0].name}' if wanted.partitions else system.name
    return asked, rendered(wanted.job, system.name, asked, target=target, hours=_hours(asked))


def _refuse(wanted: Wanted, parts: list[Partition]) -> None:
    campaign_only = {'--repeats': wanted.repeats, '--nodes': wanted.nodes, '--name': wanted.name}
    given = [option for option, value in campaign_only.items() if value]
    if given and wanted.job != 'campaign':
        raise errors.UsageError(f'{given[0]} is for campaign, not for {wanted.job}')
    if wanted.check and wanted.job in ('build', 'nightly'):
        raise errors.UsageError(f'--check is for workload and campaign, not for {wanted.job}')
    if len(parts) > 1 and wanted.job != 'campaign':
        raise errors.UsageError(f'{wanted.job} takes one --partition; only campaign takes several, in turn')
    if wanted.job == 'workload' and not wanted.check:
        raise errors.UsageError('workload: which one? --check NAME, as `reframe -c checks/ -l` names them')
    if wanted.after and not re.fullmatch(r'[0-9]+(\[\])?(\.[A-Za-z0-9.-]+)?', wanted.after):
        raise errors.UsageError(f'--after {wanted.after!r}: must be the id of a job, such as 123')


def _hours(asked: Request) -> str:
    """ci/nightly ends in time to judge what has finished, before the scheduler ends the job."""
    return f'{(asked.time - min(600, asked.time // 10)) / 3600:.2f}'


def _workload(system: System, part: Partition, wanted: Wanted) -> tuple[Request, str]:
    found = case.of(system, part.name, wanted.check)
    asked = Request(name=f'parity-{found.name.partition(" ")[0]}', scheduler=request.scheduler_of(part), time=0)
    if wanted.after:
        raise errors.UsageError('--after is for build, nightly and campaign')
    return asked, rendered('workload', system.name, asked, case=found, own=wanted.own, python=sys.executable)


def _campaign(system: System, parts: list[Partition], wanted: Wanted, asked: Request) -> tuple[Request, str]:
    stated, _ = request.settings_of('campaign', system.name)
    stated = stated.model_copy(update={k: v for k in ('repeats', 'nodes') if (v := getattr(wanted, k))})
    steps = request.steps(parts, stated, system.detect is True)
    check = _known(system.name, wanted.check) if wanted.check else ''
    if not re.fullmatch(r'[A-Za-z0-9_-]{0,80}', wanted.name):
        raise errors.UsageError(f'--name {wanted.name!r}: letters, digits, - and _ only')
    name = '-'.join(filter(None, [re.sub(r'\W+', '-', check).strip('-') or 'all', wanted.name]))
    covered = request.Covered(name=wanted.name, check=check, partitions=sorted({s.partition for s in steps}),
                              nodes=sorted({s.nodes for s in steps}))
    asked = replace(asked, steps=1 if asked.scheduler == 'plain' else len(steps), covered=covered)
    return asked, rendered(
        'campaign', system.name, asked, name=name, steps=steps, check=check, hours=_hours(asked),
        measured=str(paths.results() / 'campaigns' / f'{system.name}-{name}'))


def _known(system: str, check: str) -> str:
    """The check as `reframe -n` takes it, whatever its case was typed in."""
    planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', system])
    wanted = check.replace(' ', '').lower()
    for known in planned.cases:
        for name in (known.check, known.case.replace(' ', '')):
            if name.lower() == wanted:      # a step that sets nodes adds %nodes= to the name
                return re.escape(name) + request.WHOLE if name != known.check else name
    raise case.no_check(check, planned)


#: What a job needs of the environment that it is rendered in: schedulers start jobs in another.
CARRIED = ('PARITY_RESULTS', 'PARITY_SOFTWARE_BUNDLE', 'SPACK_ROOT', 'SPACK_USER_CONFIG_PATH',
           'SPACK_USER_CACHE_PATH')
#: What may stand in a script as it is: no white space, no quote, nothing that a shell expands.
_PLAIN = re.compile(r'[A-Za-z0-9_./:=,@%+-]*')


class _Quoted(str):
    """Text that a shell, or a comment of the scheduler's, takes as it is, as the filter `script` does."""


def _option(value: str) -> _Quoted:
    """The filter `option`: a directive, which stands in a comment. A line break would end it."""
    if re.search(r'[\x00-\x1f\x7f]', value):
        raise errors.UsageError(f'{value!r}: an option of a scheduler is one line')
    return _Quoted(value)


def _finalize(value: Any) -> Any:
    """Every value that a template prints is a number, plain, or went through a filter: no template can forget."""
    if isinstance(value, (_Quoted, int, float, jinja2.Undefined)):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    raise errors.UsageError(f'{value!r}: a job script takes it only quoted (in the template: | sh)')


def rendered(job: str, system: str, request: Request, **values: Any) -> str:
    """The script of ``job``. UsageError with the line of a template or script that is wrong."""
    folders = [str(paths.root() / 'systems' / system / 'jobs'), str(paths.root() / 'jobs')]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(folders),
                                    jinja2.PrefixLoader({'parity': jinja2.FileSystemLoader(folders[1])})]),
        undefined=jinja2.StrictUndefined, finalize=_finalize, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False)
    environment.filters.update(sh=lambda value: _Quoted(shlex.quote(str(value))), option=_option, script=_Quoted)
    environ = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    try:
        text = environment.get_template(f'{job}.sh.j2').render(
            job=request, system=system, checkout=str(paths.root()), environ=environ, **values)
    except jinja2.TemplateSyntaxError as err:
        raise errors.UsageError(f'{err.filename or err.name}:{err.lineno}: {err.message}') from None
    except jinja2.TemplateNotFound as err:
        raise errors.UsageError(f'{_line_of(err) or job}: no template {err.name}; they are in '
                                f'{" and ".join(folders)}') from None
    except jinja2.TemplateError as err:
        raise errors.UsageError(f'{_line_of(err) or job}: {err.message}') from None
    for number, line in enumerate(text.split('\n'), 1):
        refuse(f'line {number} of the script of {job}: {ascii(line)[1:81]}', line)
    return text


def _line_of(error: jinja2.TemplateError) -> str:
    """file:line of the template in which a value was wrong; '' where none is known."""
    at = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith('.j2')]
    return f'{at[-1].filename}:{at[-1].lineno}' if at else ''
