"""The programs to look for on PATH, how each is tried, and the environments that they make."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase as fnmatch
from functools import cache, partial
from glob import glob
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
        own, facts = set(self.parts[feature]), dict(self.software)
        for kind in ('programs', 'packages'):
            if kind in facts:
                facts[kind] = {name: about for name, about in facts[kind].items() if name in own}
        using = {'mpi': {'mpirun'}, 'blas': {name for code in codes.every() if code.blas
                                             for name in (*code.programs, code.spack_package)}}
        for kind, users in using.items():
            if not own & users:
                facts.pop(kind, None)
        return self._hash(facts)

    def _hash(self, software: dict[str, Any]) -> str:
        facts = json.loads(json.dumps(software))
        for program in facts.get('programs', {}).values():
            program.pop('path', None)
            program.pop('name', None)
        facts.get('blas', {}).pop('library', None)
        # the DAG hash tells a recipe's changes
        for name in ('view', 'tools', 'newer_build', 'prefix', 'lacking', 'absent'):
            facts.pop(name, None)
        if python := facts.get('programs', {}).get('python3'):
            facts['programs']['python3'] = python.get('version')
        if 'blas' in facts:
            facts['env_vars'] = {k: v for k, v in self.env_vars.items() if k.startswith('OPENBLAS_')}
        return identity.digest(json.dumps(facts, sort_keys=True).encode())


class Probed(NamedTuple):
    """A program that was looked at. ``path`` is what runs, behind wrappers and links."""

    ok: bool
    why: str = ''
    version: str | None = None
    path: str | None = None
    name: str | None = None             # of an MPI: Open MPI, MPICH, Intel MPI


def mpirun(path: str, env: Mapping[str, str]) -> Probed:
    """Start one process for real: a mere --version works in places where nothing else does."""
    said = attempt([path, '--version'], env)
    if not said.ok:
        return Probed(False, said.why)
    name, version = launcher.name_and_version(said.out + said.err)
    true = shutil.which('true', path=env.get('PATH')) or '/bin/true'
    ran = attempt([path, '-np', '1', true], env)
    why = '' if ran.ok else f'mpirun -np 1 true: {ran.why}'
    return Probed(ran.ok, why, version, path, name)


_ASK_PYTHON = 'import json, os, sys; print(json.dumps([sys.version_info[:3], os.path.realpath(sys.executable)]))'


def python(path: str, env: Mapping[str, str]) -> Probed:
    """Find the interpreter itself, behind a virtual environment's link or a pyenv shim."""
    said = attempt([path, '-I', '-c', _ASK_PYTHON], env)
    if not said.ok:
        return Probed(False, said.why)
    try:
        version, executable = json.loads(said.out)
    except ValueError:
        return Probed(False, f'unexpected answer: {said.out[:80]!r}')
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
    with prepared(code) as folder:
        silent = not (code.expect or code.version)        # that it runs for a while is all that can be asked
        ran = attempt([path, *code.smoke_args], env, *([SECONDS] if silent else []), cwd=folder)
        if not ran.ok and not (silent and not ran.ended):
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


@cache
def programs() -> dict[str, tuple[Callable[[str, Mapping[str, str]], Probed], str]]:
    """Return the programs to look for on PATH, TOOLS and the codes' own: how each is tried, Debian's package."""
    known = {name: (partial(benchmark, code), code.package) for code in codes.every()
             for name in (*code.programs, *(code.gpu_programs if code.gpu else ()))}
    return known | {'mpirun': (mpirun, 'openmpi-bin'), 'python3': (python, 'python3-minimal'),
                    'cc': (compiler, 'gcc libc6-dev')}


def features() -> dict[str, tuple[str, ...]]:
    """Return the features that programs on PATH can offer, with the programs that must all start."""
    of_codes = {code.feature: (*code.programs, *code.requires) for code in codes.every()
                if code.programs or code.requires and not code.spack}
    of_gpus = {code.on_gpu: (*code.gpu_programs, *code.requires) for code in codes.every() if code.gpu}
    return {name: (tool,) for tool, name in codes.TOOLS.items()} | of_codes | of_gpus


def root_variables() -> dict[str, str]:
    """Return the variables that MPI programs need here: Open MPI refuses root without them."""
    root = os.geteuid() == 0
    return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'} if root else {}


def paths(names: Collection[str], search: str | None, view: str = '') -> dict[str, str]:
    """Return the place of each program that is on the search path, or below ``view``. A name with `*` becomes the
    names that are there. A program that has several names (Code.other_names) is known by its first."""
    found: dict[str, str | None] = {}
    for name in names:
        folders = [view] if view else (search or '').split(os.pathsep)
        # a folder that may not be entered has none
        several = sorted({os.path.basename(each) for folder in folders
                          for each in glob(name, root_dir=folder or '.')} if '*' in name else [])
        for each in several or [name]:
            found[each] = _which(each, search, view)
    return {name: path for name, path in found.items() if path}


def _which(program: str, search: str | None, view: str) -> str | None:
    """Return the place of a program, by the first of its names that is there."""
    for name in codes.names_of(program):
        path = shutil.which(os.path.join(view, name) if view else os.path.basename(name), path=search)
        if path:
            return path
    return None


def other_name(program: str, path: str) -> dict[str, str]:
    """Return the fact `name` of a program that lies at ``path`` by another name than its first."""
    name = os.path.basename(path)
    return {'name': name} if name in codes.names_of(program)[1:] else {}


def _needed(feature: str, lying: Collection[str]) -> list[str]:
    """Return the programs that must start for the feature; a name with `*` if none lies there."""
    return [each for name in features()[feature]
            for each in ([own for own in lying if fnmatch(own, name)] if '*' in name else []) or [name]]


class Survey(NamedTuple):
    """An environment, and notes. ``sound``: every program here starts. ``read``: the files that show a change."""

    environ: Environ
    notes: list[str]
    sound: bool
    read: list[str]


def survey(label: str, environ: Environ, wanted: Collection[str], env: Mapping[str, str],
           flags: frozenset[str], view: str = '') -> Survey:
    """Probe the programs behind the ``wanted`` features, and add what they offer to ``environ``. With ``view`` the
    codes' own programs must lie below it, and only MPI, Python and the compiler may be elsewhere on PATH."""
    env = {**env, **root_variables()}
    known, names = programs(), list(dict.fromkeys(name for feature in wanted for name in features()[feature]))
    lying = paths([name for name in names if name not in codes.TOOLS], env.get('PATH'), view)
    lying = {**lying, **paths([name for name in names if name in codes.TOOLS], env.get('PATH'))}
    needed = {feature: _needed(feature, lying) for feature in wanted}
    probes = {each: known[name][0] for name in names for each in lying if each == name or fnmatch(each, name)}
    found = {name: probes[name](path, env) for name, path in lying.items()}
    alone = _start_alone(found, env)
    running = {name: probe for name, probe in found.items() if probe.ok and name not in alone}
    real = {name: os.path.realpath(probe.path or '') for name, probe in running.items()}
    using = next((name for code in codes.every() if code.blas for name in code.programs if name in real), '')
    libraries = blas.loaded(real[using], env) if using else {}
    math, env_vars, note = blas.of(using, libraries, env, flags) if using else ({}, {}, '')
    apart = [f'{name} ({known[name][1]})' for name in names
             if name not in lying and known[name][1] and (not view or name in codes.TOOLS)]
    notes = [f"not here (Debian's package): {', '.join(apart)}"] if apart else []
    notes += [f'{lying[name]} does not start: {probe.why}' for name, probe in found.items() if not probe.ok]
    notes += [f'{lying[name]} is {why}: its ranks would not find each other' for name, why in alone.items()]
    parts = {feature: list(several) for feature, several in needed.items() if running.keys() >= set(several)}
    made = environ.model_copy(update={
        'features': list(parts), 'parts': parts,
        'software': _facts(running, real, math) | {'absent': _absent(needed, lying, running, alone)},
        'env_vars': env_vars | _mpi_variables(running.get('mpirun'))})
    sound = len(running) + len(alone) == len(lying)
    return Survey(made, [f'{label}: {text}' for text in (*notes, note) if text], sound,
                  [*lying.values(), *real.values(), *libraries.values()])


def _mpi_variables(mpirun: Probed | None) -> dict[str, str]:
    if mpirun is None:
        return {}
    return root_variables() | launcher.variables(mpirun.path or '', mpirun.name or '')


def _start_alone(found: Mapping[str, Probed], env: Mapping[str, str]) -> dict[str, str]:
    """Return the programs that mpirun cannot join, each with the reason: they are linked with another MPI."""
    mpi = found.get('mpirun')
    if not mpi or not mpi.ok:
        return {}
    ranks = {name for code in codes.every() if 'mpirun' in code.requires for name in code.programs}
    why = {}
    for name, probe in found.items():
        if not probe.ok or name in codes.TOOLS or not any(fnmatch(name, each) for each in ranks):
            continue
        linked = launcher.of_libraries(blas.loaded(os.path.realpath(probe.path or ''), env))
        if launcher.starts_alone(linked, mpi.name or ''):
            why[name] = f'of {linked}, mpirun is {mpi.name}'
    return why


#: How the reason ends why a feature is not offered, where its program is here.
NO_START = 'does not start'


def _absent(needed: Mapping[str, list[str]], lying: Collection[str], running: Collection[str],
            alone: Mapping[str, str]) -> dict[str, str]:
    """Return why each feature is not offered: `no mpirun`. A tool of several codes comes before a code's own
    programs; codes that only Spack brings are left out."""
    spack_only = {code.feature for code in codes.every() if code.spack and not code.package}
    found = {}
    for feature in needed.keys() - spack_only:
        if absent := [name for name in needed[feature] if name not in running]:
            first = next((name for name in absent if name in codes.TOOLS), absent[0])
            found[feature] = alone.get(first) or (
                f'{first} {NO_START}' if first in lying else f'no {first}')
    return found


def _facts(running: Mapping[str, Probed], real: Mapping[str, str], math: dict[str, Any]) -> dict[str, Any]:
    def file(path: str) -> dict[str, str | None]:
        package, version = owner(path)
        return {'package': package, 'package_version': version, 'sha256': digest(path)}

    about = {}
    for name, path in real.items():
        probe = running[name]
        called = other_name(name, probe.path or '')
        about[name] = {'path': path, 'version': probe.version, **file(path), **called}
    facts: dict[str, Any] = {'programs': about}
    if mpi := running.get('mpirun'):
        facts['mpi'] = launcher.facts(mpi.name or 'MPI', mpi.version, real['mpirun'])
    return facts | ({'blas': math | file(math['library'])} if math else {})


def digest(path: str) -> str | None:
    """Return the SHA-256 of a program; None where it may not be read."""
    return files.sha256(Path(path)) if os.access(path, os.R_OK) else None


def owner(path: str) -> tuple[str | None, str | None]:
    """Return name and version of the distribution's package that a file belongs to, or (None, None)."""
    real = os.path.realpath(path)
    if shutil.which('dpkg-query'):
        # dpkg knows a file by the path it was packed with, and /lib may be a link to /usr/lib since
        names = [spelled for name in (path, real) for spelled in (name, f'/usr{name}', name.removeprefix('/usr'))]
        owned = re.search(r'^([^,\s]+)(?:, .*)?: /', attempt(['dpkg-query', '-S', *names]).out, re.MULTILINE)
        ask = ['dpkg-query', '-W', '-f', '${Package}\t${Version}\n', owned[1]] if owned else ['false']
    else:
        ask = ['rpm', '-qf', '--qf', '%{NAME}\t%{VERSION}-%{RELEASE}\n', real]
    package, tab, version = attempt(ask).out.partition('\n')[0].partition('\t')
    return (package, version) if tab else (None, None)
