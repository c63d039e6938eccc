"""A job's script. That of a workload is ReFrame's script of one case, with the files that it needs."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from parity.base import errors, paths, reasons
from parity.base.text import refuse
from parity.measure.jobs import request
from parity.measure.jobs.request import Request
from parity.measure.rfm import planning
from parity.measure.session import assemble
from parity.site import plan, systems
from parity.site.plan import PlannedCase
from parity.site.systems import Partition, System

_DIRECTIVE = re.compile(r'#(SBATCH|PBS) ')
#: A job's id: Slurm's, or that of PBS, with its server.
_ID = re.compile(r'[0-9]+(\[\])?(\.[A-Za-z0-9.-]+)?')
#: Directives that our script states itself.
_NAMES = re.compile(r'#SBATCH --(job-name|output|error)=|#PBS -[Noe] ')


def script(job: str, system: str, partitions: Sequence[str] = (), *, check: str = '', after: str = '',
           repeats: int | None = None, nodes: list[int] | None = None, name: str = '',
           own: bool = False) -> tuple[Request, str]:
    """Return a job's request and its script. UsageError for what cannot be, with what would be valid.

    ``own``: the job is submitted from here, with this checkout's codes and Python."""
    if job not in request.JOBS:
        raise errors.UsageError(f'no job {job!r}; valid: {", ".join(request.JOBS)}')
    site = systems.read(system)
    parts = [request.partition(site, name) for name in partitions or ['']]
    why = _refusal(job, several=len(parts) > 1, check=check, after=after, name=name,
                   of_campaign=bool(repeats or nodes or name))
    if why:
        raise errors.UsageError(why)
    if job == 'workload':
        return _workload(site, parts[0], check, own)
    asked = request.of(job, site, parts[0], after=after, repeats=repeats, nodes=nodes, campaign=name)
    if job == 'campaign':
        return _campaign(site, parts, asked, check)
    target = f'{system}:{parts[0].name}' if partitions else system
    partition = parts[0].name if partitions and site.spack else ''       # of several environments, those for it
    return asked, rendered(job, system, asked, target=target, hours=_hours(asked), partition=partition)


def _refusal(job: str, several: bool, check: str, after: str, name: str, of_campaign: bool) -> str:
    """Say which argument makes no sense for the job; '' where all do."""
    if of_campaign and job != 'campaign':
        return '--repeats, --nodes and --name are for campaign'
    if check and job not in ('campaign', 'workload'):
        return f'--check is for workload and campaign, not for {job}'
    if several and job != 'campaign':
        return f'{job} takes one --partition; only campaign takes several, in turn'
    if job == 'workload' and not check:
        return 'workload: which one? --check NAME, as `reframe -c checks/ -l` names them'
    if job == 'workload' and after:
        return '--after is for build, nightly and campaign'
    if after and not _ID.fullmatch(after):
        return f'--after {after!r}: must be the id of a job, such as 123'
    if not re.fullmatch('[A-Za-z0-9_-]{0,80}', name):
        return f'--name {name!r}: letters, digits, - and _ only'
    return ''


def _hours(asked: Request) -> str:
    """Return the time limit of ci/nightly: it judges what has finished before the scheduler ends the job."""
    to_judge = min(600, asked.seconds // 10)
    return f'{(asked.seconds - to_judge) / 3600:.2f}'


def _workload(site: System, part: Partition, check: str, own: bool) -> tuple[Request, str]:
    case = _case(site, part.name, check)
    check_name = case.name.partition(' ')[0]
    asked = Request(name=f'parity-{check_name}', scheduler=request.scheduler_of(part))
    return asked, rendered('workload', site.name, asked, case=case, own=own, python=sys.executable)


def _campaign(site: System, parts: list[Partition], asked: Request, check: str) -> tuple[Request, str]:
    steps = request.steps(parts, asked, site.detect is True)
    if check:
        check = _pattern(site.name, check)
    name = re.sub(r'\W+', '-', check).strip('-') or 'all'
    if asked.campaign:
        name += f'-{asked.campaign}'
    if asked.scheduler != 'plain':
        asked = asked.model_copy(update={'steps': len(steps)})
    measured = paths.results() / 'campaigns' / f'{site.name}-{name}'
    return asked, rendered('campaign', site.name, asked, name=name, steps=steps, check=check, hours=_hours(asked),
                           command='', measured=str(measured))


def _pattern(system: str, check: str) -> str:
    """Return a check or a case as `reframe -n` takes it.

    A step that sets nodes adds %nodes= to the name of a case."""
    first = _named(system, check)[0]
    if _folded(check) == first.check.lower():
        return first.check
    return re.escape(first.case.replace(' ', '')) + '(%|$)'


def of_command(name: str, system: str, words: Sequence[str],
               nodes: Collection[str] = ()) -> tuple[Request, str]:
    """Return the request and the script of a campaign: a job that runs `parity` with these words. With Slurm it
    does not run on the ``nodes``, which would wait for its end."""
    site = systems.read(system)
    asked = request.of('campaign', site, request.partition(site, ''), campaign=name)
    if nodes and asked.scheduler == 'slurm':
        options = [*asked.options, f'--exclude={",".join(sorted(nodes))}']
        asked = asked.model_copy(update={'options': options})
    return asked, rendered('campaign', system, asked, name=asked.campaign, steps=(), command=shlex.join(words))


def _folded(name: str) -> str:
    """Return the name of a check or case as its letters and spaces do not matter."""
    return name.replace(' ', '').lower()


def _named(target: str, check: str) -> list[PlannedCase]:
    """Return the planned cases of a check or case, however its letters were typed. UsageError for none."""
    planned = planning.of_system(target).cases
    wanted = _folded(check)
    named = [case for case in planned if wanted in (case.check.lower(), _folded(case.case))]
    if not named:
        valid = sorted({case.check for case in planned})
        raise errors.UsageError(f'no check {check!r}; valid: {", ".join(valid)}')
    return named


@dataclass(frozen=True)
class StagedFile:
    """A file of a case for the template. ``text`` is None for other than plain text; no line equals ``end``."""

    name: str
    text: str | None
    end: str
    executable: bool
    base64: str


@dataclass(frozen=True)
class CaseScript:
    """A case for the template: ReFrame's script in parts, and its files."""

    name: str
    partition: str
    size: str
    shebang: str
    directives: list[str]
    body: str                   # its commands
    files: list[StagedFile]
    view: str                   # the folder of Spack's view, or ''
    software: list[str]


def _case(system: System, part: str, check: str) -> CaseScript:
    """Return the one case that ``check`` names on a partition. UsageError for none or several."""
    case = _chosen(system.name, part, check)
    software = _software(system.name, case.environ)
    with tempfile.TemporaryDirectory(prefix='parity-case-') as folder:
        script = _dry_run(case, Path(folder))
        lines = script.read_text().replace(f'{script.parent}/', '').splitlines()
        files = [_staged(file) for file in sorted(script.parent.iterdir()) if _is_of_case(file)]
    directives = [line for line in lines if _DIRECTIVE.match(line)]
    commands = [line for line in lines[1:] if not _DIRECTIVE.match(line)]
    if commands and commands[0].startswith('cd '):      # PBS: into the stage directory
        del commands[0]
    return CaseScript(
        name=case.case,
        partition=part,
        size=case.size,
        shebang=lines[0],
        directives=[line for line in directives if not _NAMES.match(line)],
        body='\n'.join(commands),
        files=files,
        view=software.get('view', ''),
        software=_described(software))


def _chosen(system: str, part: str, check: str) -> PlannedCase:
    """Return the one planned case that ``check`` names, in the first environment that offers its program."""
    target = f'{system}:{part}'
    named = _named(target, check)
    names = sorted({case.case for case in named})
    if len(names) > 1:
        listed = '\n  '.join(names)
        raise errors.UsageError(f'{check} is {len(names)} cases; name one, for instance {names[0]!r}:\n  {listed}')
    for case in named:
        if case.environ:
            return case
    raise errors.NothingMeasured(f'{names[0]}: {plan.not_offered(named[0].needs, target)}; '
                                 f'parity doctor --system {system} says what to do')


def _software(system: str, environ: str) -> dict[str, Any]:
    """Return the software of an environment, as ReFrame is given it."""
    sections = {section['name']: section for section in assemble.site_configuration(system)['environments']}
    return sections[environ]['extras']['software']


def _is_of_case(file: Path) -> bool:
    """Return whether a file of the stage directory is the case's own, and not ReFrame's."""
    return file.is_file() and not file.name.startswith(('rfm_', '.rfm_'))


def _dry_run(case: PlannedCase, folder: Path) -> Path:
    """Have ReFrame write the case's script, without rank.sh, which only parity reads; return its path."""
    target = f'{case.system}:{case.partition}'
    name = re.escape(case.case.replace(' ', ''))
    command = [sys.executable, '-m', 'parity.measure.jobs.standalone', '-c', str(paths.root() / case.file)]
    command += ['--stage', f'{folder}/stage', '--output', f'{folder}/output', '--dry-run', '--exec-policy=serial']
    command += ['--system', target, '-p', f'^{case.environ}$', '-n', f'{name}$']
    environment = {**os.environ, 'PARITY_REFRAME_LOG': f'{folder}/log', 'RFM_COLORIZE': 'n'}
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
    scripts = list((folder / 'stage').rglob('rfm_job.sh'))
    if len(scripts) != 1:
        raise errors.UsageError(f'{case.case} has no script on {target}: {_why_none(done)}')
    return scripts[0]


def _why_none(done: subprocess.CompletedProcess) -> str:
    """Return why ReFrame wrote no script."""
    skipped = re.search(r'^\[ +SKIP +\] .* \[(.*)\]$', done.stdout, re.MULTILINE)
    if skipped:
        return skipped[1]
    complaints = reasons.of_reframe(done.stdout)
    return '; '.join(complaints) or done.stderr.strip()[-300:]


def _staged(file: Path) -> StagedFile:
    raw = file.read_bytes()
    text = None
    end = 'END'
    if raw.endswith(b'\n') and b'\0' not in raw and raw.isascii():
        text = raw[:-1].decode()
        while end in text.splitlines():
            end += '_'
    return StagedFile(
        name=file.name,
        text=text,
        end=end,
        executable=os.access(file, os.X_OK),
        base64=base64.encodebytes(raw).decode().strip())


def _described(software: dict) -> list[str]:
    """Describe the codes in lines for the script's head: a vendor builds the same, or says what differs."""
    lines = []
    for name, package in software.get('packages', {}).items():
        if isinstance(package, dict) and 'spec' in package:
            mpi = package['mpi'] or 'no MPI'
            build = f'{package["spec"]} /{package["hash"][:7]}'
            lines.append(f'{build}, {package["compiler"]}, {mpi}, {package["target"]}')
        else:
            lines.append(f'{name} {package}')
    lines += [f'module {name}' for name in software.get('modules', ())]
    return lines


#: Variables that a job takes along from the environment in which it is rendered.
CARRIED = ('PARITY_RESULTS', 'PARITY_SOFTWARE_BUNDLE', 'SPACK_ROOT', 'SPACK_USER_CONFIG_PATH',
           'SPACK_USER_CACHE_PATH')
#: Text that may stand in a script as it is: no white space, no quote, nothing that a shell expands.
_PLAIN = re.compile(r'[A-Za-z0-9_./:=,@%+-]*')


class _Quoted(str):
    """Text that may stand in a script as it is: a filter of the template quoted it, or vouches for it."""


def _option(value: str) -> _Quoted:
    """The filter `option`: pass a directive, which stands in a comment that a line break would end."""
    if re.search(r'[\x00-\x1f\x7f]', value):
        raise errors.UsageError(f'{value!r}: an option of a scheduler must be one line: take the line break out')
    return _Quoted(value)


def _finalize(value: Any) -> Any:
    """Refuse every value that a template prints unless it is a number, plain, or went through a filter."""
    if isinstance(value, (_Quoted, int, float, jinja2.Undefined)):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    raise errors.UsageError(f'{value!r}: a job script takes it only quoted (in the template: | sh)')


def rendered(job: str, system: str, request: Request, **values: Any) -> str:
    """Return the script of ``job``. UsageError with the line of a template or script that is wrong."""
    of_site = systems.folder(system) / 'jobs'
    ours = paths.root() / 'jobs'
    values |= {'job': request, 'system': system, 'checkout': str(paths.root())}
    values['environ'] = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    try:
        text = _templates(of_site, ours).get_template(f'{job}.sh.j2').render(values)
    except jinja2.TemplateError as err:
        why = err.message
        if isinstance(err, jinja2.TemplateNotFound):
            why = f'no template {err.name}; they are in {of_site} and {ours}'
        raise errors.UsageError(f'{_place(err) or job}: {why}') from None
    for number, line in enumerate(text.split('\n'), 1):
        refuse(f'line {number} of the script of {job}: {ascii(line)[1:81]}', line)
    return text


def _templates(of_site: Path, ours: Path) -> jinja2.Environment:
    """Return jinja's environment: a site's template wins, and reaches ours of the same name as parity/NAME."""
    loader = jinja2.ChoiceLoader([
        jinja2.FileSystemLoader([str(of_site), str(ours)]),
        jinja2.PrefixLoader({'parity': jinja2.FileSystemLoader(str(ours))})])
    environment = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, finalize=_finalize, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False)
    environment.filters['sh'] = lambda value: _Quoted(shlex.quote(str(value)))
    environment.filters['option'] = _option
    environment.filters['script'] = _Quoted
    return environment


def _place(err: jinja2.TemplateError) -> str:
    """Return file and line of the innermost template that an error came from; '' for none."""
    for frame in reversed(traceback.extract_tb(err.__traceback__)):
        if frame.filename.endswith('.j2'):
            return f'{frame.filename}:{frame.lineno}'
    return ''
