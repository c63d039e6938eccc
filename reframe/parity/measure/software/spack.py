"""Spack: its place, its command, its lock, and the bundle that brings it to a machine without a network.

    bundle.json              contents with versions, and the SHA-256 of every file
    spack.tar.gz             Spack itself
    recipes-NAMESPACE.tar.gz the package recipes
    wheels/                  the Python packages of requirements.lock, for this version of Python
    sources/                 a Spack mirror with the source of everything in the lock

Nothing bootstraps Spack: the Python of .venv, made from the wheels, runs it and has its solver."""

import contextlib
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from parity.base import files, paths, yamlfile
from parity.base.errors import InfrastructureError, UsageError
from parity.base.figures import duration
from parity.base.strict import Strict
from parity.base.text import visible
from parity.measure.software import fetch
from parity.measure.software.blas import attempt
from parity.measure.software.steps import Steps, below

#: Spack starts a Python of its own and reads its configuration, perhaps from a shared file system.
_TIMEOUT = 20.0
#: Names the bundle that `parity software build` is to use.
VARIABLE = 'PARITY_SOFTWARE_BUNDLE'
#: The name of Spack's own recipes in `repos`.
BUILTIN = 'builtin'


class SpackFound(Strict):
    """An installation of Spack that starts."""

    path: str
    version: str


def candidates(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Return where a Spack may be; the first that starts is taken."""
    homes = [root / '.spack', fetch.spack()]
    places = [str(home / 'bin' / 'spack') for home in homes]
    on_path = shutil.which('spack', path=env.get('PATH'))
    if on_path:
        places.insert(0, on_path)
    if env.get('SPACK_ROOT'):
        places.insert(0, str(Path(env['SPACK_ROOT'], 'bin', 'spack')))
    yield from dict.fromkeys(place for place in places if os.access(place, os.X_OK))


def find(root: Path, env: Mapping[str, str]) -> tuple[SpackFound | None, list[str]]:
    """Return the first Spack that starts, and a sentence for each before it that does not."""
    notes = []
    stated = env.get('SPACK_ROOT')
    if stated and not Path(stated, 'bin', 'spack').exists():
        notes.append(f'SPACK_ROOT={stated} holds no bin/spack')
    for path in candidates(root, env):
        asked = attempt([path, '--version'], env, _TIMEOUT)
        version = re.search(r'^(\d+\.\d[\w.]*)', asked.out, re.MULTILINE) if asked.ok else None
        if version:
            return SpackFound(path=path, version=version[1]), notes
        notes.append(f'Spack at {path} does not start: {asked.why or "it prints no version"}')
    return None, notes


#: Lines of Spack's: a package is begun, or built (with its hash); a source is fetched.
_BEGUN = re.compile(r'==> Installing \S+-(\w{32})\b')
_BUILT = re.compile(r'==> \S+ Successfully installed \S+-(\w{32})\b')
_SOURCE = re.compile(r'==> Adding package (\S+)@(?:git\.\w+=)?(\S+) to mirror')


class _Following:
    """The output of a running Spack, followed line by line."""

    def __init__(self, what: str, steps: Steps | None):
        self._what = what
        self._steps = steps
        self._began = time.monotonic()
        self.last_lines: list[str] = []

    def read(self, line: str) -> str:
        """Take notice of a line. Return what has begun with it; '' for any other line."""
        self.last_lines = [*self.last_lines[-60:], line.rstrip()]
        source = _SOURCE.search(line)
        if source:
            package, version = source.groups()
            return f'source of {package} {version}'
        begun = _BEGUN.search(line)
        if self._steps and begun:
            return self._steps.begin(begun[1])
        built = _BUILT.search(line)
        if self._steps and built:
            self._steps.end(built[1])
        return ''

    def state(self) -> tuple[int, int, str]:
        """Return how many packages are built, of how many, and a line on what runs since when."""
        seconds = duration(time.monotonic() - self._began)
        if not self._steps:
            return 0, 0, f'{self._what}, {seconds} so far'
        now = self._steps.line() or self._what
        return self._steps.done, self._steps.total, f'{now}, {seconds} so far'


class Spack(NamedTuple):
    """A Spack, the environment variables to run it with, and the versions of a bundle's recipes."""

    program: str
    environ: dict[str, str]
    recipes: Mapping[str, str] = MappingProxyType({})

    def run(self, place: Path, *arguments: str, steps: Steps | None = None) -> None:
        """Run `spack -e PLACE ...`, with its output in PLACE/build.log. Raise InfrastructureError if it fails."""
        log = place / 'build.log'
        from parity.base import console  # it loads Rich, which the settings of a run need not
        what = f'spack {arguments[0]}'
        print(f'parity: {what} ({log})', flush=True)
        following = _Following(what, steps)
        command = [self.program, '-e', str(place), *arguments]
        try:
            with log.open('a') as out, subprocess.Popen(
                    command, env=self.environ, text=True, errors='replace', stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process, \
                    console.progress(following.state) as say:
                for line in process.stdout:
                    out.write(line)
                    now = following.read(line)
                    if now:
                        say(f'parity: {visible(now)}')
        except OSError as err:
            if err.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise InfrastructureError(f'{log}: {err.strerror}: {fetch.advice(str(err), place)}') from None
        if process.returncode:
            failure = f'{what} fails: {_error(following.last_lines)} (see {log})'
            todo = fetch.advice('\n'.join(following.last_lines), place)
            raise InfrastructureError(f'{failure}: {todo}' if todo else failure)

    def ask(self, place: Path, *arguments: str) -> str:
        """Return what `spack -e PLACE ...` prints. Raise InfrastructureError where it fails."""
        return self.say('-e', str(place), *arguments)

    def say(self, *arguments: str) -> str:
        """Return what `spack ...` prints. Raise InfrastructureError where it fails."""
        done = subprocess.run([self.program, *arguments], env=self.environ, text=True, errors='replace',
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise InfrastructureError(f'spack {" ".join(arguments)} fails: {_error(done.stderr.splitlines())}; '
                                      'the same command in a shell prints all')
        return done.stdout.strip()

    @property
    def home(self) -> Path:
        """The folder that Spack itself is in."""
        return Path(self.program).resolve().parents[1]

    def tree(self, place: Path) -> str:
        """Return the folder that Spack installs into."""
        config, _ = yamlfile.parse(Path('spack config get config'), self.ask(place, 'config', 'get', 'config'))
        tree = config['config']['install_tree']
        if not isinstance(tree, str):       # it may be the folder alone
            tree = tree['root']
        return tree.replace('$spack', str(self.home))

    def given(self) -> Any:
        """Return the builtin recipes that user, site or bundle configured; None where Spack is as released."""
        printed = self.say('--no-env', 'config', 'get', 'repos')
        configured = _builtin(Path('spack config get repos'), printed)
        for file in (self.home / 'etc' / 'spack' / 'defaults').rglob('repos.yaml'):
            if configured == _builtin(file, file.read_text()):
                return None
        return configured

    def tools(self, place: Path) -> dict[str, str]:
        """Return the versions of Spack and of its builtin recipes, as the environment at ``place`` uses them."""
        release, _, commit = self.say('--version').partition(' ')
        if commit.startswith('('):
            release = f'{release} {commit[:11]})'
        try:
            where = self.ask(place, 'location', '--repo', BUILTIN)
        except InfrastructureError:         # no such recipes: everything is parity's own
            return {'spack': release}
        recipes = self.recipes.get(BUILTIN) or version(Path(where)) or where
        return {'spack': release, 'recipes': recipes}


def _error(lines: list[str]) -> str:
    """Return Spack's first error and the line after it, which often names the package; else its last line."""
    for index, line in enumerate(lines):
        if line.startswith('==> Error'):
            words = [told.removeprefix('==> Error:').strip() for told in lines[index:index + 2]]
            return ' '.join(words)
    return lines[-1].strip() if lines else ''


def _builtin(file: Path, text: str) -> Any:
    data, _ = yamlfile.parse(file, text)
    repos = data.get('repos') if isinstance(data, dict) else None
    return repos.get(BUILTIN) if isinstance(repos, dict) else None


def version(repository: Path) -> str:
    """Return the version of a clone's recipes, 'v2026.06.0 (d4f7c711a6)'; '' where they are no clone."""
    def git(*arguments: str) -> str:
        return attempt(['git', '-C', str(repository), *arguments]).out.strip()

    if not git('ls-files', 'repo.yaml'):    # recipes that lie, untracked, in a clone of something else
        return ''
    commit = git('rev-parse', 'HEAD')[:10]
    tag = git('describe', '--tags', '--exact-match') if commit else ''
    return f'{tag} ({commit})' if tag else commit


def locked(folder: Path) -> dict[str, Any]:
    """Return Spack's lock in ``folder``. Raise UsageError, with the line, for a file that is none."""
    file = folder / 'spack.lock'
    line = 1
    why = 'has no concrete_specs'
    try:
        lock = json.loads(file.read_text(encoding='utf-8'))
        if isinstance(lock, dict) and isinstance(lock.get('concrete_specs'), dict):
            return lock
    except (ValueError, RecursionError) as err:
        line = getattr(err, 'lineno', 1)
        why = f'not JSON: {getattr(err, "msg", err)}'
    raise UsageError(f'{file}:{line}: {why}; must be a lock that Spack made')


def chosen() -> Spack:
    """Return the Spack of the named bundle, one that is here, one unpacked before, or else fetch one.

    Raises as `fetch.clone` does; UsageError for a Spack that does not start."""
    home = paths.results() / 'software' / 'spack'
    bundle = os.environ.get(VARIABLE)
    if bundle:
        return unpack(Path(bundle), home)
    found, notes = find(paths.root(), os.environ)
    unpacked_before = None if found else unpacked(home)
    if unpacked_before:
        return unpacked_before
    if not found and not notes:
        fetch.clone('Spack', fetch.URL, fetch.RELEASE, fetch.spack())
        found, notes = find(paths.root(), os.environ)
    if not found:
        raise UsageError('; '.join([*notes, 'correct it, or take it away (unset SPACK_ROOT, or remove the '
                                    'folder): where no Spack is, parity fetches one']))
    environ = {**os.environ, 'SPACK_COLOR': 'never', 'GIT_TERMINAL_PROMPT': '0'}       # nobody is there to answer
    environ.setdefault('SPACK_PYTHON', sys.executable)
    return Spack(found.path, environ)


#: The parts of a Spack installation that a bundle takes: no configuration, nothing built.
_OF_SPACK = ('bin', 'lib', 'share', 'etc/spack/defaults', 'etc/spack/include.yaml',
             'COPYRIGHT', 'LICENSE-APACHE', 'LICENSE-MIT', 'NOTICE')


class Bundle(Strict):
    """The contents of a bundle."""

    system: str
    spack: str
    recipes: dict[str, str]       # namespace -> tag and commit, '' where the recipes are no clone
    sources: list[str]            # name@version of packages to build
    externals: list[str]          # name@version of packages that must be installed where the bundle is used
    files: dict[str, str]         # path within the bundle -> SHA-256


def bundle(spack: Spack, system: str, places: Sequence[Path], target: Path, only: Collection[str] = ()) -> Bundle:
    """Make the bundle for the locked environments at ``places``: of all their packages, or of those named ``only``
    and what they need. Raise InfrastructureError for an absent source."""
    _demand_free(target)
    (target / 'sources').mkdir(parents=True, exist_ok=True)
    (target / 'bundle.json').unlink(missing_ok=True)
    specs = _mirror(spack, places, target, only)
    _wheels(target / 'wheels')
    print('parity: packing Spack and its recipes', flush=True)
    top = Path(spack.ask(places[0], 'location', '--spack-root'))
    _pack(target / 'spack.tar.gz', top, [name for name in _OF_SPACK if (top / name).exists()])
    recipes = {}
    for namespace in sorted({BUILTIN, *(spec['namespace'] for spec in specs)} - {'parity'}):
        repository = Path(spack.ask(places[0], 'location', '--repo', namespace))
        _pack(target / f'recipes-{namespace}.tar.gz', repository.parent, [repository.name])
        recipes[namespace] = version(repository)
    contents = [file for file in sorted(target.rglob('*')) if file.is_file()]
    made = Bundle(
        system=system,
        spack=spack.ask(places[0], '--version').split()[0],
        recipes=recipes,
        sources=_names(spec for spec in specs if not spec.get('external')),
        externals=_names(spec for spec in specs if spec.get('external')),
        files={str(file.relative_to(target)): files.sha256(file) for file in contents})
    (target / 'bundle.json').write_text(made.model_dump_json(indent=1))
    return made


def _demand_free(target: Path) -> None:
    """Refuse a folder with files that are no bundle, whole or begun."""
    is_ours = (target / 'bundle.json').exists() or (target / 'sources').exists()
    if not target.exists() or is_ours:
        return
    if not target.is_dir() or any(target.iterdir()):
        raise UsageError(f'{target}: holds files that are no bundle; name a new or an empty folder')


def _mirror(spack: Spack, places: Sequence[Path], target: Path, only: Collection[str]) -> list[dict[str, Any]]:
    """Fetch the sources of the locked environments into the bundle, and return the specs that they need."""
    specs: dict[str, dict[str, Any]] = {}
    for place in places:
        roots = _roots(place, only)
        which = ['-D', *(f'/{number}' for number in roots)] if only else ['-a']
        if roots:
            spack.run(place, 'mirror', 'create', '-d', str(target / 'sources'), *which)
        specs |= below(locked(place), roots)
    return list(specs.values())


def _names(specs: Iterable[dict[str, Any]]) -> list[str]:
    return sorted({f'{spec["name"]}@{spec["version"]}' for spec in specs})


def _roots(place: Path, only: Collection[str]) -> list[str]:
    """Return the hashes of the roots of a lock; of the packages ``only`` where some are named."""
    lock = locked(place)
    numbers = [root['hash'] for root in lock['roots']]
    return [number for number in numbers if not only or lock['concrete_specs'][number]['name'] in only]


def _wheels(folder: Path) -> None:
    """Fetch every locked Python package, and the MPI for a machine without one where this processor has it. Raise
    InfrastructureError where a package cannot be had."""
    print('parity: Python packages of requirements.lock', flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    download = [sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-input',
                '--no-deps', '--only-binary', ':all:', '--require-hashes', '--dest', str(folder), '--requirement']
    _demand('pip download', *download, str(paths.root() / 'requirements.lock'))
    with contextlib.suppress(InfrastructureError):
        _demand('pip download', *download, str(paths.root() / 'requirements-mpi.lock'))


def _pack(archive: Path, folder: Path, names: list[str]) -> None:
    _demand('tar', 'tar', '-czf', str(archive), '-C', str(folder), '--exclude=__pycache__', '--exclude=.git',
            *names)


def _demand(what: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise InfrastructureError(f'{what} fails: {lines[-1] if lines else ""}')


def _read(folder: Path) -> Bundle:
    """Return the contents that the bundle in a folder states. Raise UsageError where there is none."""
    file = folder / 'bundle.json'
    try:
        return Bundle.model_validate_json(file.read_text())
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}: {VARIABLE} must name a folder made by '
                         'parity software mirror') from None
    except ValidationError as err:
        raise UsageError(f'{file}: is not what parity software mirror writes: {err.errors()[0]["msg"]}; '
                         'write the bundle again') from None


def unpack(folder: Path, home: Path) -> Spack:
    """Return the bundle's Spack, unpacked in ``home`` unless it already is, with a configuration of its own. Raise
    InfrastructureError for the first file that is not as it was made."""
    folder = folder.resolve()
    contents = _read(folder)
    text = (folder / 'bundle.json').read_text()
    kept = home / 'bundle.json'
    if not kept.exists() or kept.read_text() != text:
        print(f'parity: unpacking Spack {contents.spack} from {folder}', flush=True)
        _unpack_archives(folder, home, contents)
    _configure(home, folder, contents)       # the bundle may lie elsewhere today
    files.update(kept, text)                 # last: whoever finds it finds all the rest
    return unpacked(home)


def _unpack_archives(folder: Path, home: Path, contents: Bundle) -> None:
    for name, digest in contents.files.items():
        if not (folder / name).is_file() or files.sha256(folder / name) != digest:
            raise InfrastructureError(f'{folder / name}: damaged or missing: copy the bundle again')
    shutil.rmtree(home, ignore_errors=True)
    targets = {'spack': home / 'program'}
    for namespace in contents.recipes:
        targets[f'recipes-{namespace}'] = home / 'recipes' / 'spack_repo'
    for archive, target in targets.items():
        target.mkdir(parents=True, exist_ok=True)
        _demand('tar', 'tar', '-xzf', str(folder / f'{archive}.tar.gz'), '-C', str(target), '--no-same-owner')


def unpacked(home: Path) -> Spack | None:
    """Return the Spack that an earlier call has unpacked; None where none has."""
    if not (home / 'bundle.json').exists():
        return None
    # Spack reads its own configuration only
    environ = dict(os.environ)
    for name in ('SPACK_ROOT', 'SPACK_ENV', 'SPACK_DISABLE_LOCAL_CONFIG'):
        environ.pop(name, None)
    environ |= {
        'SPACK_PYTHON': sys.executable,
        'SPACK_COLOR': 'never',
        'SPACK_USER_CONFIG_PATH': str(home / 'scope'),
        'SPACK_USER_CACHE_PATH': str(home / 'cache'),
        'SPACK_SYSTEM_CONFIG_PATH': str(home / 'none'),
    }
    program = home / 'program' / 'bin' / 'spack'
    return Spack(str(program), environ, _read(home).recipes)


def _configure(home: Path, folder: Path, contents: Bundle) -> None:
    """Write a configuration for this Spack alone: nothing of the user's, and nowhere else to look for sources."""
    recipes = home / 'recipes' / 'spack_repo'
    repositories = {namespace: str(recipes / namespace) for namespace in contents.recipes}
    installed = home.parent / 'opt'
    mirror = {'url': (folder / 'sources').as_uri(), 'source': True, 'binary': False}
    sections = {
        'config': {'install_tree': {'root': str(installed)}},
        'bootstrap': {'enable': False},
        'concretizer': {'concretization_cache': {'enable': True}},
        'repos': repositories,
        # the double colon replaces what Spack would ask otherwise
        'mirrors:': {'sources': mirror},
    }
    (home / 'none').mkdir(exist_ok=True)
    for name, values in sections.items():
        files.update(home / 'scope' / f'{name.rstrip(":")}.yaml', yaml.safe_dump({name: values}))
