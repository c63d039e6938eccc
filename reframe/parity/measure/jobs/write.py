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
from pathlib import Path
from types import SimpleNamespace
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
from parity.site.systems import System

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
    campaign, workload = job == 'campaign', job == 'workload'
    for refused, why in (
            ((repeats or nodes or name) and not campaign, '--repeats, --nodes and --name are for campaign'),
            (check and not campaign and not workload, f'--check is for workload and campaign, not for {job}'),
            (parts[1:] and not campaign, f'{job} takes one --partition; only campaign takes several, in turn'),
            (workload and not check, 'workload: which one? --check NAME, as `reframe -c checks/ -l` names them'),
            (workload and after, '--after is for build, nightly and campaign'),
            (after and not _ID.fullmatch(after), f'--after {after!r}: must be the id of a job, such as 123'),
            (not re.fullmatch('[A-Za-z0-9_-]{0,80}', name), f'--name {name!r}: letters, digits, - and _ only')):
        if refused:
            raise errors.UsageError(why)
    if workload:
        case = _case(site, parts[0].name, check)
        asked = Request(name=f'parity-{case.name.partition(" ")[0]}', scheduler=request.scheduler_of(parts[0]))
        return asked, rendered(job, system, asked, case=case, own=own, python=sys.executable)
    asked = request.of(job, site, parts[0], after=after, repeats=repeats, nodes=nodes, campaign=name)
    # ci/nightly ends in time to judge what has finished, before the scheduler ends the job
    hours = f'{(asked.seconds - min(600, asked.seconds // 10)) / 3600:.2f}'
    if not campaign:
        target = f'{system}:{parts[0].name}' if partitions else system
        own = parts[0].name if partitions and site.spack else ''       # of several environments, those for it
        return asked, rendered(job, system, asked, target=target, hours=hours, partition=own)
    steps = request.steps(parts, asked, site.detect is True)
    if check:       # as `reframe -n` takes it; a step that sets nodes adds %nodes= to the name of a case
        first = _named(system, check)[0]
        whole = check.replace(' ', '').lower() != first.check.lower()
        check = re.escape(first.case.replace(' ', '')) + '(%|$)' if whole else first.check
    name = '-'.join(filter(None, [re.sub(r'\W+', '-', check).strip('-') or 'all', name]))
    if asked.scheduler != 'plain':
        asked = asked.model_copy(update={'steps': len(steps)})
    return asked, rendered(job, system, asked, name=name, steps=steps, check=check, hours=hours, command='',
                           measured=str(paths.results() / 'campaigns' / f'{system}-{name}'))


def of_command(name: str, system: str, words: Sequence[str],
               nodes: Collection[str] = ()) -> tuple[Request, str]:
    """Return the request and the script of a campaign: a job that runs `parity` with these words. With Slurm it
    does not run on the ``nodes``, which would wait for its end."""
    site = systems.read(system)
    asked = request.of('campaign', site, request.partition(site, ''), campaign=name)
    if nodes and asked.scheduler == 'slurm':
        asked = asked.model_copy(update={'options': [*asked.options, f'--exclude={",".join(sorted(nodes))}']})
    return asked, rendered('campaign', system, asked, name=asked.campaign, steps=(), command=shlex.join(words))


def _named(target: str, check: str) -> list[PlannedCase]:
    """Return the planned cases of a check or case, however its letters were typed. UsageError for none."""
    planned = planning.of_system(target).cases
    wanted = check.replace(' ', '').lower()
    if found := [c for c in planned if wanted in (c.check.lower(), c.case.replace(' ', '').lower())]:
        return found
    raise errors.UsageError(f'no check {check!r}; valid: {", ".join(sorted({c.check for c in planned}))}')


def _case(system: System, part: str, check: str) -> SimpleNamespace:
    """Return the one case that ``check`` names on a partition, for the template. UsageError for none or several.

    Its ``body`` holds the commands of ReFrame's script. ``view`` is the folder of Spack's view, or ''.
    """
    named = _named(f'{system.name}:{part}', check)
    if len(cases := sorted({c.case for c in named})) > 1:
        raise errors.UsageError(f'{check} is {len(cases)} cases; name one, for instance {cases[0]!r}:\n  '
                                + '\n  '.join(cases))
    chosen = next((c for c in named if c.environ), None)
    if not chosen:
        raise errors.NothingMeasured(f'{cases[0]}: {plan.not_offered(named[0].needs, f"{system.name}:{part}")}; '
                                     f'parity doctor --system {system.name} says what to do')
    environs = {e['name']: e for e in assemble.site_configuration(system.name)['environments']}
    software = environs[chosen.environ]['extras']['software']
    with tempfile.TemporaryDirectory(prefix='parity-case-') as folder:
        script = _dry_run(chosen, Path(folder))
        lines = script.read_text().replace(f'{script.parent}/', '').splitlines()
        files = [_staged(f) for f in sorted(script.parent.iterdir())
                 if f.is_file() and not f.name.startswith(('rfm_', '.rfm_'))]
    rest = [line for line in lines[1:] if not _DIRECTIVE.match(line)]
    if rest and rest[0].startswith('cd '):      # PBS: into the stage directory
        del rest[0]
    return SimpleNamespace(
        name=chosen.case, partition=part, size=chosen.size, shebang=lines[0], body='\n'.join(rest), files=files,
        directives=[line for line in lines if _DIRECTIVE.match(line) and not _NAMES.match(line)],
        view=software.get('view', ''), software=_described(software))


def _dry_run(case: PlannedCase, folder: Path) -> Path:
    """Have ReFrame write the case's script, without rank.sh, which only parity reads; return its path."""
    done = subprocess.run(
        [sys.executable, '-m', 'parity.measure.jobs.standalone', '-c', str(paths.root() / case.file),
         '--stage', f'{folder}/stage', '--output', f'{folder}/output',
         '--system', f'{case.system}:{case.partition}', '-p', f'^{case.environ}$',
         '-n', re.escape(case.case.replace(' ', '')) + '$', '--dry-run'],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PARITY_REFRAME_LOG': f'{folder}/log', 'RFM_COLORIZE': 'n'})
    scripts = list((folder / 'stage').rglob('rfm_job.sh'))
    if len(scripts) == 1:
        return scripts[0]
    left_out = re.search(r'^\[ +SKIP +\] .* \[(.*)\]$', done.stdout, re.M)
    why = left_out[1] if left_out else '; '.join(reasons.of_reframe(done.stdout)) or done.stderr.strip()[-300:]
    raise errors.UsageError(f'{case.case} has no script on {case.system}:{case.partition}: {why}')


def _staged(file: Path) -> SimpleNamespace:
    """Return a file for the template. ``text`` is None for other than plain text; no line equals ``end``."""
    raw = file.read_bytes()
    plain = raw.endswith(b'\n') and b'\0' not in raw and raw.isascii()
    text, end = raw[:-1].decode() if plain else None, 'END'
    while plain and end in text.splitlines():
        end += '_'
    return SimpleNamespace(name=file.name, text=text, end=end, executable=os.access(file, os.X_OK),
                           base64=base64.encodebytes(raw).decode().strip())


def _described(software: dict) -> list[str]:
    """Describe the codes in lines for the script's head: a vendor builds the same, or says what differs."""
    packages = software.get('packages', {})
    told = [f"{p['spec']} /{p['hash'][:7]}, {p['compiler']}, {p['mpi'] or 'no MPI'}, {p['target']}"
            if isinstance(p, dict) and 'spec' in p else f'{name} {p}' for name, p in packages.items()]
    return told + [f'module {name}' for name in software.get('modules', ())]


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
    if isinstance(value, (_Quoted, int, float, jinja2.Undefined)) \
            or isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    raise errors.UsageError(f'{value!r}: a job script takes it only quoted (in the template: | sh)')


def rendered(job: str, system: str, request: Request, **values: Any) -> str:
    """Return the script of ``job``. UsageError with the line of a template or script that is wrong."""
    folders = [str(systems.folder(system) / 'jobs'), str(paths.root() / 'jobs')]
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
    except jinja2.TemplateError as err:
        frames = [f for f in traceback.extract_tb(err.__traceback__) if f.filename.endswith('.j2')]
        where = f'{frames[-1].filename}:{frames[-1].lineno}' if frames else job
        absent = isinstance(err, jinja2.TemplateNotFound)
        what = f'no template {err.name}; they are in {" and ".join(folders)}' if absent else err.message
        raise errors.UsageError(f'{where}: {what}') from None
    for number, line in enumerate(text.split('\n'), 1):
        refuse(f'line {number} of the script of {job}: {ascii(line)[1:81]}', line)
    return text
