"""The record of a build, which every result carries, and the environments that its views make."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parity.base import codes, files, times
from parity.base.errors import UsageError
from parity.base.figures import counted
from parity.base.strict import Model, Strict
from parity.measure.software import blas, environment, launcher, target
from parity.measure.software.programs import Environ, Survey, root_variables
from parity.measure.software.spack import locked
from parity.site.systems import SPACK, SpackEnvironment


class Package(Strict):
    """One root of the lock, and the binaries it brought."""

    spec: str
    version: str
    hash: str            # Spack's DAG hash
    namespace: str
    compiler: str
    mpi: str
    blas: str
    target: str
    parameters: dict[str, Any]
    binaries: list[str]


class View(Strict):
    """The packages of a view, and the state of every binary, to notice a change."""

    view: str
    packages: dict[str, Package]
    files: dict[str, list[int]]   # binary -> size in bytes, time of change in ns
    started: bool = True          # False: that the binaries start could not be tried
    tools: dict[str, str] = {}    # the versions of Spack and of the recipes that built it
    launcher: str = ''            # the folder of the mpirun of its MPI, where the system states an MPI


class Manifest(View):
    """A build of the environment ``name``: ``stamp`` is a hash over its inputs, and names the packages unless it
    has all. ``built`` is the time of its end. A code may be in both views."""

    name: str = SPACK
    stamp: str
    built: str = ''
    gpu: View | None = None

    @property
    def views(self) -> dict[str, View]:
        """The views by the name of the environment that each makes."""
        return {self.name: self} | ({f'{self.name}-gpu': self.gpu} if self.gpu else {})

    @property
    def names(self) -> set[str]:
        return {name for view in self.views.values() for name in view.packages}


class Attempt(Strict):
    """A build that has not succeeded. ``why`` is empty while it runs, or if it was ended."""

    began: str
    why: str = ''


def attempted(system: str, environ: str, began: str, why: str = '') -> None:
    """Note a build that has not succeeded. The manifest of the build in use stays."""
    files.write(_attempt_of(system, environ), Attempt(began=began, why=why).model_dump_json())


def done(system: str, environ: str) -> None:
    """Note that the newest build is in use."""
    _attempt_of(system, environ).unlink(missing_ok=True)


def not_built(system: str, built: Manifest) -> str:
    """Return a sentence on a newer build that has not succeeded; '' where the newest one is in use."""
    if not (newer := _kept(Attempt, _attempt_of(system, built.name))):
        return ''
    state = f'failed: {newer.why}' if newer.why else 'has not ended'
    return f'the build of {newer.began} {state}; in use: that of {built.built or "before"}'


def of_another_target(built: Manifest, entry: SpackEnvironment) -> str:
    """Return a sentence on a build that is for another target than its environment states; '' for none."""
    targets = {package.target for view in built.views.values() for package in view.packages.values()}
    others = sorted(targets - {entry.target}) if entry.target else []
    if not others:
        return ''
    return f'built for {", ".join(others)}, and system.yaml states {entry.target}: parity software build builds it'


def doubts(system: str, built: Manifest, entry: SpackEnvironment) -> list[str]:
    """Return sentences on a build that is not what system.yaml asks for."""
    return [why for why in (not_built(system, built), of_another_target(built, entry)) if why]


def now() -> str:
    return times.minute(time.time())


def _attempt_of(system: str, environ: str) -> Path:
    return _file(system, environ, 'attempt')


def file_of(system: str, environ: str = SPACK) -> Path:
    return _file(system, environ, 'manifest')


def _file(system: str, environ: str, what: str) -> Path:
    return environment.of(system) / (f'{what}.json' if environ == SPACK else f'{what}-{environ}.json')


def read(system: str, environ: str = SPACK) -> Manifest | None:
    """Return the manifest of an environment's last build; None where nothing is built or it cannot be read."""
    return _kept(Manifest, file_of(system, environ))


def in_use(system: str) -> list[Path]:
    """Return the folders of the builds that the system's environments use, also those that it names no more."""
    kept = (_kept(Manifest, file) for file in environment.of(system).glob('manifest*.json'))
    return [Path(built.view).parents[1] for built in kept if built]


def _kept(model: type[Model], file: Path) -> Model | None:
    try:
        return model.model_validate_json(file.read_text())
    except (OSError, ValidationError):
        return None


def concrete(folder: Path, for_gpu: bool = False) -> dict[str, Package]:
    """Return the lock's roots that belong in one view, by package name."""
    lock = locked(folder)
    specs = lock['concrete_specs']
    return {specs[r['hash']]['name']: _package(specs, r['hash']) for r in lock['roots']
            if any(map(specs[r['hash']]['parameters'].get, environment.ARCHITECTURE)) == for_gpu}


def _package(specs: dict[str, Any], number: str) -> Package:
    spec = specs[number]
    by_virtual = {v: specs[d['hash']] for d in spec.get('dependencies', [])
                  for v in (d.get('parameters') or {}).get('virtuals', [])}

    def named(virtual: str) -> str:
        found = by_virtual.get(virtual)
        return f'{found["name"]} {found["version"]}' if found else ''

    name, target = spec['name'], spec['arch']['target']
    version = re.sub(r'^git\.\w+=', '', spec['version'])         # the commit is among the parameters
    parameters = {k: v for k, v in spec['parameters'].items() if v not in ([], 'none')}
    return Package(spec=f'{name}@{version}', version=version, hash=number, namespace=spec['namespace'],
                   compiler=named('c') or named('cxx') or named('fortran'), mpi=named('mpi'), blas=named('blas'),
                   target=target if isinstance(target, str) else target['name'], parameters=parameters,
                   binaries=[binary for code in codes.of_package(name) for binary in code.binaries_of(parameters)])


def view(bin_: Path, packages: dict[str, Package], tools: dict[str, str], started: bool = True) -> View:
    """Return a view whose binaries are there. ``started``: they were started, too."""
    return View(view=str(bin_), packages=packages, tools=tools, started=started,
                files={name: _state(bin_ / name) for package in packages.values() for name in package.binaries})


def write(system: str, stamp: str, default: View, gpu: View | None = None, environ: str = SPACK) -> Manifest:
    """Write the manifest of a build, which takes it into use."""
    made = Manifest(**dict(default), name=environ, stamp=stamp, gpu=gpu, built=now())
    files.write(file_of(system, environ), made.model_dump_json(indent=1))
    done(system, environ)
    return made


def changed(built: View) -> list[str]:
    """Return the binaries of a view that are absent, or have another size or time than when they were built."""
    return [name for name, state in built.files.items() if _state(Path(built.view, name)) != state]


def whole(built: Manifest) -> bool:
    """Return True if every binary of every view is as it was built."""
    return not any(changed(view) for view in built.views.values())


def shared(built: Manifest, builds: Iterable[Manifest]) -> str:
    """Return how many of the packages that Spack made for a build others of these ``builds`` have, too."""
    mine = _made(built)
    others = [other for other in builds if other.name != built.name]
    common = mine & set().union(*map(_made, others))
    names = [other.name for other in others if mine & _made(other)]
    count = counted(len(mine), 'package')
    return f'{count}, {len(common)} of them also of {", ".join(names)}' if common else f'{count}, none shared'


def _made(built: Manifest) -> set[str]:
    """Return the hashes of the packages that Spack made for a build: not what lay there already."""
    try:
        specs = locked(Path(built.view).parents[1])['concrete_specs']
    except (OSError, UsageError):
        return set()
    return {number for number, spec in specs.items() if not spec.get('external')}


def _state(binary: Path) -> list[int]:
    with contextlib.suppress(OSError):
        found = os.stat(binary)
        return [found.st_size, found.st_mtime_ns]
    return []


def identities(packages: Mapping[str, Package]) -> dict[str, dict[str, Any]]:
    """Return what a session keeps of packages."""
    return {name: {key: getattr(p, key) for key in ('spec', 'hash', 'compiler', 'mpi', 'blas', 'target')}
            for name, p in packages.items()}


def _start_alone(packages: Mapping[str, Package], env: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that the mpirun on PATH cannot start, each with the reason: it is of another MPI."""
    linked = {name: launcher.of_spack(package.mpi) for name, package in packages.items()}
    mpirun = launcher.here(env) if any(linked.values()) else ''
    return {name: f'built with {mpi}, mpirun is {mpirun}' for name, mpi in linked.items()
            if launcher.starts_alone(mpi, mpirun)}


def _path(built: View, env: Mapping[str, str]) -> dict[str, str]:
    """Return the PATH that has the mpirun of a view's MPI first; {} where any mpirun will do."""
    first = shutil.which('mpirun', path=env.get('PATH'))
    if not built.launcher or first and Path(first).parent.samefile(built.launcher):
        return {}
    return {'PATH': f'{built.launcher}:$PATH'}


def environ(built: View, env: Mapping[str, str], flags: frozenset[str],
            name: str = SPACK, newer: str = '') -> Survey:
    """Return a view's environment, without packages that changed, or that no processor with these ``flags`` runs
    (none: they are not known here). ``newer``: on a build that failed."""
    stale = set(changed(built))
    whole = {package: p for package, p in built.packages.items() if not stale & set(p.binaries)}
    refused = f'{", ".join(sorted(stale))}: not what was built: not offered (parity software build)'
    path = _path(built, env)
    env = {**env, 'PATH': f'{built.launcher}:{env.get("PATH", "")}'} if path else env
    apart = _start_alone(whole, env)
    for package, p in whole.items():
        if why := target.refusal(p.target, flags):
            apart[package] = why
    whole = {package: p for package, p in whole.items() if package not in apart}
    notes = [f'{name}: {note}' for note in (stale and refused, newer) if note]
    notes += [f'{name}: {package}: {why}: not offered (parity software build)' for package, why in apart.items()]
    for_gpu = Path(built.view).parent.name == 'view-gpu'
    absent = {feature: why for package, why in apart.items() for feature in codes.made_by(package, for_gpu)}
    math, env_vars = {}, {}
    if using := next((package for package in whole if any(code.blas for code in codes.of_package(package))), ''):
        binary = next(code.binaries[0] for code in codes.of_package(using) if code.blas)
        libraries = blas.loaded(os.path.realpath(Path(built.view, binary)), env)
        math, env_vars, note = blas.of(binary, libraries, env, flags, whole[using].blas)
        math.pop('core_unaided' if 'core' in math else 'version', None)     # a part of the hash that results carry
        notes += [f'{name}: {note}'] if math and note else []
    facts: dict[str, Any] = {'view': built.view, 'tools': built.tools, 'packages': identities(whole)}
    facts |= {key: value for key, value in (('newer_build', newer), ('blas', math), ('absent', absent)) if value}
    parts = {feature: [package] for package in whole for feature in codes.made_by(package, for_gpu)}
    made = Environ(name=name, provider='spack', env_vars={**root_variables(), **path, **env_vars}, software=facts,
                   features=list(parts), parts=parts)
    return Survey(made, notes, True, [math['library']] if math else [])


def surveys(system: str, entries: Iterable[SpackEnvironment], env: Mapping[str, str],
            flags: frozenset[str]) -> dict[str, list[Survey]]:
    """Return what is built of a system's environments, by their names: each view makes one in ReFrame."""
    found: dict[str, list[Survey]] = {}
    for entry in entries:
        built = read(system, entry.name)
        found[entry.name] = []
        if built is None:
            continue
        newer = '; '.join(doubts(system, built, entry))
        for name, view in built.views.items():
            survey = environ(view, env, flags, name, newer)
            variables = {**survey.environ.env_vars, **dict(entry.env_vars)}
            found[entry.name].append(survey._replace(
                environ=survey.environ.model_copy(update={'env_vars': variables})))
    return found
