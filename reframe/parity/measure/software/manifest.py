"""The record of a build, which every result carries, and the environments that its views make."""

import contextlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from itertools import chain
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
        views: dict[str, View] = {self.name: self}
        if self.gpu:
            views[f'{self.name}-gpu'] = self.gpu
        return views

    @property
    def names(self) -> set[str]:
        return set(chain(*(view.packages for view in self.views.values())))


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
    newer = _kept(Attempt, _attempt_of(system, built.name))
    if not newer:
        return ''
    state = f'failed: {newer.why}' if newer.why else 'has not ended'
    return f'the build of {newer.began} {state}; in use: that of {built.built or "before"}'


def of_another_target(built: Manifest, entry: SpackEnvironment) -> str:
    """Return a sentence on a build that is for another target than its environment states; '' for none."""
    if not entry.target:
        return ''
    targets = set()
    for view in built.views.values():
        targets.update(package.target for package in view.packages.values())
    others = sorted(targets - {entry.target})
    if not others:
        return ''
    return f'built for {", ".join(others)}, and system.yaml states {entry.target}: parity software build builds it'


def doubts(system: str, built: Manifest, entry: SpackEnvironment) -> list[str]:
    """Return sentences on a build that is not what system.yaml asks for."""
    sentences = [not_built(system, built), of_another_target(built, entry)]
    return list(filter(None, sentences))


def now() -> str:
    return times.minute(time.time())


def _attempt_of(system: str, environ: str) -> Path:
    return _file(system, environ, 'attempt')


def file_of(system: str, environ: str = SPACK) -> Path:
    return _file(system, environ, 'manifest')


def _file(system: str, environ: str, what: str) -> Path:
    name = what if environ == SPACK else f'{what}-{environ}'
    return environment.of(system) / f'{name}.json'


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
    packages = {}
    for root in lock['roots']:
        spec = specs[root['hash']]
        is_for_gpu = any(spec['parameters'].get(variant) for variant in environment.ARCHITECTURE)
        if is_for_gpu == for_gpu:
            packages[spec['name']] = _package(specs, root['hash'])
    return packages


def _package(specs: dict[str, Any], number: str) -> Package:
    spec = specs[number]
    built_with = _providers(specs, spec)
    name, target = spec['name'], spec['arch']['target']
    version = re.sub(r'^git\.\w+=', '', spec['version'])         # the commit is among the parameters
    parameters = {key: value for key, value in spec['parameters'].items() if value not in ([], 'none')}
    binaries = []
    for code in codes.of_package(name):
        binaries += code.binaries_of(parameters)
    languages = [built_with[language] for language in ('c', 'cxx', 'fortran') if language in built_with]
    return Package(
        spec=f'{name}@{version}',
        version=version,
        hash=number,
        namespace=spec['namespace'],
        compiler=languages[0] if languages else '',
        mpi=built_with.get('mpi', ''),
        blas=built_with.get('blas', ''),
        target=target if isinstance(target, str) else target['name'],
        parameters=parameters,
        binaries=binaries)


def _providers(specs: dict[str, Any], spec: dict[str, Any]) -> dict[str, str]:
    """Return the packages, `openmpi 4.1.4`, that provide a package's virtual ones: c, mpi, blas."""
    providers = {}
    for dependency in spec.get('dependencies', []):
        provider = specs[dependency['hash']]
        virtuals = (dependency.get('parameters') or {}).get('virtuals', [])
        providers.update(dict.fromkeys(virtuals, f'{provider["name"]} {provider["version"]}'))
    return providers


def view(bin_: Path, packages: dict[str, Package], tools: dict[str, str], started: bool = True) -> View:
    """Return a view whose binaries are there. ``started``: they were started, too."""
    states = {}
    for package in packages.values():
        for name in package.binaries:
            states[name] = _state(bin_ / name)
    return View(view=str(bin_), packages=packages, tools=tools, started=started, files=states)


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
    common = set()
    names = []
    for other in builds:
        both = mine & _made(other) if other.name != built.name else set()
        if both:
            common |= both
            names.append(other.name)
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


#: The facts of a package that a session keeps.
_IDENTITY = ('spec', 'hash', 'compiler', 'mpi', 'blas', 'target')


def identities(packages: Mapping[str, Package]) -> dict[str, dict[str, Any]]:
    """Return what a session keeps of packages."""
    facts = {}
    for name, package in packages.items():
        facts[name] = {key: getattr(package, key) for key in _IDENTITY}
    return facts


def _start_alone(packages: Mapping[str, Package], env: Mapping[str, str]) -> dict[str, str]:
    """Return the packages that the mpirun on PATH cannot start, each with the reason: it is of another MPI."""
    linked = {name: launcher.of_spack(package.mpi) for name, package in packages.items()}
    if not any(linked.values()):
        return {}
    mpirun = launcher.here(env)
    return {name: f'built with {mpi}, mpirun is {mpirun}' for name, mpi in linked.items()
            if launcher.starts_alone(mpi, mpirun)}


def _path(built: View, env: Mapping[str, str]) -> dict[str, str]:
    """Return the PATH that has the mpirun of a view's MPI first; {} where any mpirun will do."""
    if not built.launcher:
        return {}
    first = shutil.which('mpirun', path=env.get('PATH'))
    if first and Path(first).parent.samefile(built.launcher):
        return {}
    return {'PATH': f'{built.launcher}:$PATH'}


def environ(built: View, env: Mapping[str, str], flags: frozenset[str],
            name: str = SPACK, newer: str = '') -> Survey:
    """Return a view's environment, without packages that changed, or that no processor with these ``flags`` runs
    (none: they are not known here). ``newer``: on a build that failed."""
    path = _path(built, env)
    if path:
        env = {**env, 'PATH': f'{built.launcher}:{env.get("PATH", "")}'}
    stale = set(changed(built))
    whole = {package: about for package, about in built.packages.items() if stale.isdisjoint(about.binaries)}
    refused = _refused(whole, env, flags)
    offered = {package: about for package, about in whole.items() if package not in refused}
    math = _blas(built, offered, env, flags)

    notes = []
    if stale:
        notes.append(f'{", ".join(sorted(stale))}: not what was built: not offered (parity software build)')
    if newer:
        notes.append(newer)
    notes += [f'{package}: {why}: not offered (parity software build)' for package, why in refused.items()]
    if math.facts and math.note:
        notes.append(math.note)

    for_gpu = Path(built.view).parent.name == 'view-gpu'
    absent = {}
    for package, why in refused.items():
        absent.update(dict.fromkeys(codes.made_by(package, for_gpu), why))
    parts = {}
    for package in offered:
        parts.update({feature: [package] for feature in codes.made_by(package, for_gpu)})
    facts: dict[str, Any] = {'view': built.view, 'tools': built.tools, 'packages': identities(offered)}
    if newer:
        facts['newer_build'] = newer
    if math.facts:
        facts['blas'] = math.facts
    if absent:
        facts['absent'] = absent
    made = Environ(
        name=name,
        provider='spack',
        env_vars={**root_variables(), **path, **math.variables},
        software=facts,
        features=list(parts),
        parts=parts)
    read = [math.facts['library']] if math.facts else []
    return Survey(made, [f'{name}: {note}' for note in notes], True, read)


def _refused(packages: Mapping[str, Package], env: Mapping[str, str], flags: frozenset[str]) -> dict[str, str]:
    """Return the packages that do not run here, each with the reason."""
    refused = _start_alone(packages, env)
    for name, package in packages.items():
        why = target.refusal(package.target, flags)
        if why:
            refused[name] = why
    return refused


def _blas(built: View, packages: Mapping[str, Package], env: Mapping[str, str], flags: frozenset[str]) -> blas.Use:
    """Return the BLAS of the first package that uses one."""
    for name, package in packages.items():
        for code in codes.of_package(name):
            if code.blas:
                binary = code.binaries[0]
                libraries = blas.loaded(os.path.realpath(Path(built.view, binary)), env)
                return _hashed(blas.of(binary, libraries, env, flags, package.blas))
    return blas.Use()


def _hashed(math: blas.Use) -> blas.Use:
    """Leave out a fact, by which the hashes that results carry stay those of before."""
    facts = dict(math.facts)
    facts.pop('core_unaided' if 'core' in facts else 'version', None)
    return math._replace(facts=facts)


def surveys(system: str, entries: Iterable[SpackEnvironment], env: Mapping[str, str],
            flags: frozenset[str]) -> dict[str, list[Survey]]:
    """Return what is built of a system's environments, by their names: each view makes one in ReFrame."""
    by_name: dict[str, list[Survey]] = {}
    for entry in entries:
        by_name[entry.name] = []
        built = read(system, entry.name)
        if built is None:
            continue
        newer = '; '.join(doubts(system, built, entry))
        for name, view in built.views.items():
            survey = environ(view, env, flags, name, newer)
            variables = {**survey.environ.env_vars, **dict(entry.env_vars)}
            made = survey.environ.model_copy(update={'env_vars': variables})
            by_name[entry.name].append(survey._replace(environ=made))
    return by_name
