"""One case as a script of its own: ReFrame's own script of it, with the files that it needs."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from parity import plan
from parity.base import errors, paths, reasons
from parity.jobs.request import partition
from parity.plan import PlannedCase
from parity.site import assemble
from parity.system.schema import System

#: ReFrame's own files in a stage directory.
_REFRAMES = ('rfm_', '.rfm_')
_DIRECTIVE = re.compile(r'#(SBATCH|PBS) ')
#: What our script names by itself.
_NAMES = re.compile(r'#SBATCH --(job-name|output|error)=|#PBS -[Noe] ')


@dataclass(frozen=True)
class Staged:
    """A file beside the script: ``text`` without its last line break, or None where it is no plain text."""

    name: str
    text: str | None
    base64: str
    executable: bool

    @property
    def end(self) -> str:
        """A line that the text does not have."""
        end = 'END'
        while self.text is not None and end in self.text.splitlines():
            end += '_'
        return end


@dataclass(frozen=True)
class Case:
    """``body``: the commands of ReFrame's script; ``view``: the folder of Spack's view, '' without one."""

    name: str
    partition: str
    size: str
    shebang: str
    directives: list[str]
    body: str
    files: list[Staged]
    view: str
    software: list[str]


def of(system: System, part: str, check: str) -> Case:
    """The one case that ``check`` names, with its parameters, on the partition. UsageError for none, or
    several."""
    part = partition(system, part).name
    chosen = _choose(system.name, part, check)
    environ = next(e for e in assemble.site_configuration()['environments']
                   if e['name'] == chosen.environ and system.name in e['target_systems'])
    software = environ['extras']['software']
    with tempfile.TemporaryDirectory(prefix='parity-case-') as folder:
        script = _dry_run(chosen, Path(folder))
        lines = script.read_text().replace(f'{script.parent}/', '').splitlines()
        files = [_staged(f) for f in sorted(script.parent.iterdir())
                 if f.is_file() and not f.name.startswith(_REFRAMES)]
    rest = [line for line in lines[1:] if not _DIRECTIVE.match(line)]
    if rest and rest[0].startswith('cd '):      # PBS: into the stage directory
        del rest[0]
    return Case(name=chosen.case, partition=part, size=chosen.size, shebang=lines[0],
                directives=[li for li in lines if _DIRECTIVE.match(li) and not _NAMES.match(li)],
                body='\n'.join(rest), files=files, view=software.get('view', ''), software=_told(software))


def _choose(system: str, part: str, check: str) -> PlannedCase:
    planned = plan.of_command(['-c', str(paths.root() / 'checks'), '-r', '--system', f'{system}:{part}'])
    wanted = check.replace(' ', '').lower()
    named = [c for c in planned.cases if wanted in (c.check.lower(), c.case.replace(' ', '').lower())]
    if not named:
        raise no_check(check, planned)
    cases = sorted({c.case for c in named})
    if len(cases) > 1:
        raise errors.UsageError(f'{check} is {len(cases)} cases; name one, for instance {cases[0]!r}:\n  '
                                + '\n  '.join(cases))
    able = [c for c in named if c.environ]
    if not able:
        raise errors.NothingMeasured(f'{cases[0]}: no environment of {system}:{part} offers '
                                     + ', '.join(named[0].needs))
    return able[0]


def no_check(name: str, planned: plan.Plan) -> errors.UsageError:
    """The error for a check that there is not."""
    return errors.UsageError(f'no check {name!r}; valid: {", ".join(sorted({c.check for c in planned.cases}))}')


def _dry_run(case: PlannedCase, folder: Path) -> Path:
    """Have ReFrame write the case's script, without rank.sh, which only parity reads; returns its path."""
    done = subprocess.run(
        [sys.executable, '-m', 'parity.jobs.standalone', '-c', case.file, '--stage', f'{folder}/stage',
         '--output', f'{folder}/output', '--system', f'{case.system}:{case.partition}',
         '-p', f'^{case.environ}$', '-n', re.escape(case.case.replace(' ', '')) + '$', '--dry-run'],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PARITY_REFRAME_LOG': f'{folder}/log', 'RFM_COLORIZE': 'n'})
    scripts = list((folder / 'stage').rglob('rfm_job.sh'))
    if len(scripts) == 1:
        return scripts[0]
    left_out = re.search(r'^\[ +SKIP +\] .* \[(.*)\]$', done.stdout, re.M)
    why = left_out[1] if left_out else '; '.join(reasons.of_reframe(done.stdout)) or done.stderr.strip()[-300:]
    raise errors.UsageError(f'{case.case} has no script on {case.system}:{case.partition}: {why}')


def _staged(file: Path) -> Staged:
    raw = file.read_bytes()
    plain = raw.endswith(b'\n') and b'\0' not in raw and raw.isascii()
    return Staged(name=file.name, text=raw[:-1].decode() if plain else None, executable=os.access(file, os.X_OK),
                  base64=base64.encodebytes(raw).decode().strip())


def _told(software: dict) -> list[str]:
    """What the codes were, in lines for the script's head: a vendor builds the same, or says what differs."""
    packages = software.get('packages', {})
    told = [f"{p['spec']} /{p['hash'][:7]}, {p['compiler']}, {p['mpi'] or 'no MPI'}, {p['target']}"
            if isinstance(p, dict) and 'spec' in p else f'{name} {p}' for name, p in packages.items()]
    return told + [f'module {name}' for name in software.get('modules', ())]
