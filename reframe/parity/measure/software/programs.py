"""The programs to look for on PATH, how each is tried, and the environments that they make."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase as fnmatch
from functools import cache, partial
from glob import glob
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from parity.base import codes, files
from parity.base.codes import Code
from parity.base.strict import Strict
from parity.measure.software import blas, launcher
from parity.measure.software.blas import attempt, scratch
from parity.site import identity


class Environ(Strict):
    """An environment, as ReFrame calls it: a provider's programs, how to run them, and facts (``software``)."""

    name: str
    provider: str
    features: list[str] = []
    modules: list[str] = []
    env_vars: dict[str, str] = {}
    software: dict[str, Any] = {}
    parts: dict[str, list[str]] = {}    # feature -> the programs or packages that make it

    @property
    def identity(self) -> str:
        """A hash over what decides the figures, wherever the files lie. Only the version counts of Python: its
        security updates are no reason to break a history."""
        return self._hash(self.software)

    def identity_of(self, feature: str) -> str:
        """Return the same for this feature alone: another code's new version does not break its history."""
        if feature not in self.parts:
            return self.identity
        own = set(self.parts[feature])
        facts = dict(self.software)
        for kind in ('programs', 'packages'):
            if kind in facts:
                facts[kind] = {name: about for name, about in facts[kind].items() if name in own}
        if 'mpirun' not in own:
            facts.pop('mpi', None)
        if not own & _users_of_blas():
            facts.pop('blas', None)
        return self._hash(facts)

    def _hash(self, software: dict[str, Any]) -> str:
        facts = json.loads(json.dumps(software))
        # the DAG hash tells a recipe's changes
        for name in ('view', 'tools', 'newer_build', 'prefix', 'lacking', 'absent'):
            facts.pop(name, None)
        programs = facts.get('programs', {})
        for program in programs.values():
            program.pop('path', None)
            program.pop('name', None)
        if programs.get('python3'):
            programs['python3'] = programs['python3'].get('version')
        if 'blas' in facts:
            facts['blas'].pop('library', None)
            facts['env_vars'] = {name: value for name, value in self.env_vars.items()
                                 if name.startswith('OPENBLAS_')}
        return identity.digest(json.dumps(facts, sort_keys=True).encode())


def _users_of_blas() -> set[str]:
    """Return the programs and the packages of the codes that use a BLAS."""
    names = set()
    for code in codes.every():
        if code.blas:
            names |= {*code.programs, code.spack_package}
    return names


class Probed(NamedTuple):
    """A program that was looked at. ``path`` is what runs, behind wrappers and links."""

    ok: bool
    why: str = ''
    version: str | None = None
    path: str | None = None
    name: str | None = None             # of an MPI: Open MPI, MPICH, Intel MPI


def mpirun(path: str, env: Mapping[str, str]) -> Probed:
    """Start one process for real: a mere --version works in places where nothing else does."""
    asked = attempt([path, '--version'], env)
    if not asked.ok:
        return Probed(False, asked.why)
    name, version = launcher.name_and_version(asked.out + asked.err)
    true = shutil.which('true', path=env.get('PATH')) or '/bin/true'
    ran = attempt([path, '-np', '1', true], env)
    why = '' if ran.ok else f'mpirun -np 1 true: {ran.why}'
    return Probed(ran.ok, why, version, path, name)


_ASK_PYTHON = 'import json, os, sys; print(json.dumps([sys.version_info[:3], os.path.realpath(sys.executable)]))'


def python(path: str, env: Mapping[str, str]) -> Probed:
    """Find the interpreter itself, behind a virtual environment's link or a pyenv shim."""
    asked = attempt([path, '-I', '-c', _ASK_PYTHON], env)
    if not asked.ok:
        return Probed(False, asked.why)
    try:
        version, executable = json.loads(asked.out)
    except ValueError:
        return Probed(False, f'unexpected answer: {asked.out[:80]!r}')
    return _of_version('.'.join(map(str, version)), (3, 9), executable)


def _of_version(version: str, least: tuple[int, ...], path: str) -> Probed:
    if tuple(map(int, version.split('.'))) < least:
        needed = '.'.join(map(str, least))
        return Probed(False, f'version {version}; {needed} or later is needed', version, path)
    return Probed(True, '', version, path)


#: A program that still runs after so many seconds has started.
SECONDS = 0.5


@contextlib.contextmanager
def prepared(code: Code) -> Iterator[str]:
    """Make a folder with the files that a code's programs need to start."""
    with scratch() as folder:
        for name in code.files:
            shutil.copy(code.file.parent / name, folder)
        yield folder


def benchmark(code: Code, path: str, env: Mapping[str, str]) -> Probed:
    """Run a code's program as its code.yaml says, in a folder of its own."""
    is_silent = not (code.expect or code.version)       # that it runs for a while is all that can be asked
    seconds = SECONDS if is_silent else blas.TIMEOUT
    with prepared(code) as folder:
        ran = attempt([path, *code.smoke_args], env, seconds, folder)
        still_runs = is_silent and not ran.ended
        if not ran.ok and not still_runs:
            return Probed(False, ran.why)
        made = [file for file in Path(folder).iterdir() if file.is_file() and file.name not in code.files]
        text = '\n'.join([ran.out, *(file.read_text(errors='replace') for file in made)])
    if code.expect and code.expect not in text.splitlines():
        return Probed(False, f'ran, but its output does not say {code.expect}')
    if not code.version:
        return Probed(True, '', None, path)
    match = re.search(code.version, text, re.MULTILINE)
    if not match:
        return Probed(False, f'unexpected answer: {text[:80]!r}')
    return _of_version('.'.join(match.groups()), code.min_version, path)


#: Our kernels need OpenMP, and a compiled program that runs.
_TINY_C = """\
#include <omp.h>
#include <stdio.h>
int main(void) { printf("%s\\n", __VERSION__); return omp_get_max_threads() < 1; }
"""


def compiler(path: str, env: Mapping[str, str]) -> Probed:
    """Compile and run a program of one line with OpenMP."""
    with scratch() as folder:
        Path(folder, 'tiny.c').write_text(_TINY_C)
        made = attempt([path, '-fopenmp', '-o', 'tiny', 'tiny.c'], env, cwd=folder)
        if not made.ok:
            return Probed(False, f'a program with OpenMP (-fopenmp) does not compile: {made.why}')
        ran = attempt([f'{folder}/tiny'], env)
    return Probed(ran.ok, ran.why, ran.out.strip() or None, path)


class Program(NamedTuple):
    """A program to look for on PATH: how it is tried, and Debian's packages that bring it."""

    probe: Callable[[str, Mapping[str, str]], Probed]
    package: str


@cache
def programs() -> dict[str, Program]:
    """Return the programs to look for on PATH: the codes' own and TOOLS."""
    known = {}
    for code in codes.every():
        names = [*code.programs, *code.gpu_programs] if code.gpu else code.programs
        known.update(dict.fromkeys(names, Program(partial(benchmark, code), code.package)))
    known['mpirun'] = Program(mpirun, 'openmpi-bin')
    known['python3'] = Program(python, 'python3-minimal')
    known['cc'] = Program(compiler, 'gcc libc6-dev')
    return known


def features() -> dict[str, tuple[str, ...]]:
    """Return the features that programs on PATH can offer, with the programs that must all start."""
    needs = {feature: (tool,) for tool, feature in codes.TOOLS.items()}
    for code in codes.every():
        if code.programs or (code.requires and not code.spack):
            needs[code.feature] = (*code.programs, *code.requires)
    for code in codes.every():
        if code.gpu:
            needs[code.on_gpu] = (*code.gpu_programs, *code.requires)
    return needs


def root_variables() -> dict[str, str]:
    """Return the variables that MPI programs need here: Open MPI refuses root without them."""
    if os.geteuid() != 0:
        return {}
    return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}


def paths(names: Collection[str], search: str | None, view: str = '') -> dict[str, str]:
    """Return the place of each program that is on the search path, or below ``view``. A name with `*` becomes the
    names that are there. A program that has several names (Code.other_names) is known by its first."""
    folders = [view] if view else (search or '').split(os.pathsep)
    places: dict[str, str] = {}
    for name in names:
        for program in _in_folders(name, folders) or [name]:
            path = _which(program, search, view)
            if path:
                places[program] = path
    return places


def _in_folders(name: str, folders: list[str]) -> list[str]:
    """Return the names with a `*` for which files lie in the folders, sorted; [] for a plain name."""
    if '*' not in name:
        return []
    names = set()
    for folder in folders:      # a folder that may not be entered has none
        names.update(os.path.basename(match) for match in glob(name, root_dir=folder or '.'))
    return sorted(names)


def _which(program: str, search: str | None, view: str) -> str | None:
    """Return the place of a program, by the first of its names that is there."""
    for name in codes.names_of(program):
        command = os.path.join(view, name) if view else os.path.basename(name)
        path = shutil.which(command, path=search)
        if path:
            return path
    return None


def other_name(program: str, path: str) -> dict[str, str]:
    """Return the fact `name` of a program that lies at ``path`` by another name than its first."""
    name = os.path.basename(path)
    return {'name': name} if name in codes.names_of(program)[1:] else {}


def _needed(feature: str, lying: Collection[str]) -> list[str]:
    """Return the programs that must start for the feature; a name with `*` if none lies there."""
    needed = []
    for name in features()[feature]:
        matching = [program for program in lying if fnmatch(program, name)] if '*' in name else []
        needed += matching or [name]
    return needed


class Survey(NamedTuple):
    """An environment, and notes. ``sound``: every program here starts. ``read``: the files that show a change."""

    environ: Environ
    notes: list[str]
    sound: bool
    read: list[str]


@dataclass(frozen=True)
class _Tried:
    """Programs that lie here, by name: their places, the outcome of a start, and why mpirun cannot join some."""

    lying: dict[str, str]
    probes: dict[str, Probed]
    alone: dict[str, str]

    @property
    def running(self) -> dict[str, Probed]:
        return {name: probe for name, probe in self.probes.items() if probe.ok and name not in self.alone}

    @property
    def is_sound(self) -> bool:
        """Return whether every program here starts."""
        return len(self.running) + len(self.alone) == len(self.lying)

    def notes(self) -> list[str]:
        """Return a sentence for each program that cannot be used."""
        notes = []
        for name, probe in self.probes.items():
            if not probe.ok:
                notes.append(f'{self.lying[name]} does not start: {probe.why}')
        for name, why in self.alone.items():
            notes.append(f'{self.lying[name]} is {why}: its ranks would not find each other')
        return notes


def survey(label: str, environ: Environ, wanted: Collection[str], env: Mapping[str, str],
           flags: frozenset[str], view: str = '') -> Survey:
    """Probe the programs behind the ``wanted`` features, and add what they offer to ``environ``. With ``view`` the
    codes' own programs must lie below it, and only MPI, Python and the compiler may be elsewhere on PATH."""
    env = {**env, **root_variables()}
    needs = features()
    names = list(dict.fromkeys(chain(*(needs[feature] for feature in wanted))))
    tried = _try(names, env, view)
    running = tried.running
    real = {name: os.path.realpath(probe.path or '') for name, probe in running.items()}
    libraries, math = _blas(real, env, flags)

    needed = {feature: _needed(feature, tried.lying) for feature in wanted}
    parts = {feature: programs for feature, programs in needed.items() if running.keys() >= set(programs)}
    software = _facts(running, real, math.facts)
    software['absent'] = _absent(needed, tried)
    made = environ.model_copy(update={
        'features': list(parts),
        'parts': parts,
        'software': software,
        'env_vars': {**math.variables, **_mpi_variables(running.get('mpirun'))},
    })
    notes = [_not_here(names, tried.lying, view), *tried.notes(), math.note]
    read = [*tried.lying.values(), *real.values(), *libraries.values()]
    return Survey(made, [f'{label}: {note}' for note in notes if note], tried.is_sound, read)


def _try(names: list[str], env: Mapping[str, str], view: str) -> _Tried:
    """Start the programs of these names that lie here."""
    tools = [name for name in names if name in codes.TOOLS]
    lying = paths([name for name in names if name not in codes.TOOLS], env.get('PATH'), view)
    lying |= paths(tools, env.get('PATH'))
    known = programs()
    tries = {}
    for name in names:
        for program in lying:
            if program == name or fnmatch(program, name):
                tries[program] = known[name].probe
    probes = {program: tries[program](path, env) for program, path in lying.items()}
    return _Tried(lying, probes, _start_alone(probes, env))


def _blas(real: Mapping[str, str], env: Mapping[str, str], flags: frozenset[str]
          ) -> tuple[dict[str, str], blas.Use]:
    """Return the libraries of the first program that uses a BLAS, and that BLAS."""
    for code in codes.every():
        for program in code.programs:
            if code.blas and program in real:
                libraries = blas.loaded(real[program], env)
                return libraries, blas.of(program, libraries, env, flags)
    return {}, blas.Use()


def _not_here(names: list[str], lying: Collection[str], view: str) -> str:
    """Return a note on the programs that the distribution has and that are not here; '' for none."""
    known = programs()
    absent = []
    for name in names:
        package = known[name].package
        if name not in lying and package and (not view or name in codes.TOOLS):
            absent.append(f'{name} ({package})')
    return f"not here (Debian's package): {', '.join(absent)}" if absent else ''


def _mpi_variables(mpirun: Probed | None) -> dict[str, str]:
    if mpirun is None:
        return {}
    return root_variables() | launcher.variables(mpirun.path or '', mpirun.name or '')


def _start_alone(probes: Mapping[str, Probed], env: Mapping[str, str]) -> dict[str, str]:
    """Return the programs that mpirun cannot join, each with the reason: they are linked with another MPI."""
    mpi = probes.get('mpirun')
    if not mpi or not mpi.ok:
        return {}
    why = {}
    for name, probe in probes.items():
        if not probe.ok or not _has_ranks(name):
            continue
        linked = launcher.of_libraries(blas.loaded(os.path.realpath(probe.path or ''), env))
        if launcher.starts_alone(linked, mpi.name or ''):
            why[name] = f'of {linked}, mpirun is {mpi.name}'
    return why


def _has_ranks(program: str) -> bool:
    """Return whether mpirun starts a program."""
    if program in codes.TOOLS:
        return False
    for code in codes.every():
        if 'mpirun' in code.requires and any(fnmatch(program, name) for name in code.programs):
            return True
    return False


#: How the reason ends why a feature is not offered, where its program is here.
NO_START = 'does not start'


def _absent(needed: Mapping[str, list[str]], tried: _Tried) -> dict[str, str]:
    """Return why each feature is not offered: `no mpirun`. A tool of several codes comes before a code's own
    programs; codes that only Spack brings are left out."""
    spack_only = {code.feature for code in codes.every() if code.spack and not code.package}
    running = tried.running
    reasons = {}
    for feature in needed.keys() - spack_only:
        absent = [name for name in needed[feature] if name not in running]
        if not absent:
            continue
        tools = [name for name in absent if name in codes.TOOLS]
        first = (tools or absent)[0]
        if first in tried.alone:
            reasons[feature] = tried.alone[first]
        elif first in tried.lying:
            reasons[feature] = f'{first} {NO_START}'
        else:
            reasons[feature] = f'no {first}'
    return reasons


def _facts(running: Mapping[str, Probed], real: Mapping[str, str], math: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the programs, of the MPI, and of the BLAS where ``math`` has any."""
    about = {}
    for name, path in real.items():
        probe = running[name]
        called = other_name(name, probe.path or '')
        about[name] = {'path': path, 'version': probe.version, **_file_facts(path), **called}
    facts: dict[str, Any] = {'programs': about}
    mpi = running.get('mpirun')
    if mpi:
        facts['mpi'] = launcher.facts(mpi.name or 'MPI', mpi.version, real['mpirun'])
    if math:
        facts['blas'] = {**math, **_file_facts(math['library'])}
    return facts


def _file_facts(path: str) -> dict[str, str | None]:
    package, version = owner(path)
    return {'package': package, 'package_version': version, 'sha256': digest(path)}


def digest(path: str) -> str | None:
    """Return the SHA-256 of a program; None where it may not be read."""
    return files.sha256(Path(path)) if os.access(path, os.R_OK) else None


def owner(path: str) -> tuple[str | None, str | None]:
    """Return name and version of the distribution's package that a file belongs to, or (None, None)."""
    if shutil.which('dpkg-query'):
        package = _dpkg_package(path)
        if not package:
            return None, None
        ask = ['dpkg-query', '-W', '-f', '${Package}\t${Version}\n', package]
    else:
        ask = ['rpm', '-qf', '--qf', '%{NAME}\t%{VERSION}-%{RELEASE}\n', os.path.realpath(path)]
    first_line = attempt(ask).out.partition('\n')[0]
    name, tab, version = first_line.partition('\t')
    return (name, version) if tab else (None, None)


def _dpkg_package(path: str) -> str:
    """Return the package of a file. dpkg has the path it was packed with; /lib may be a link to /usr/lib since."""
    spellings = []
    for name in (path, os.path.realpath(path)):
        spellings += [name, f'/usr{name}', name.removeprefix('/usr')]
    printed = attempt(['dpkg-query', '-S', *spellings]).out
    owned = re.search(r'^([^,\s]+)(?:, .*)?: /', printed, re.MULTILINE)
    return owned[1] if owned else ''
