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
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from parity.measure.software.steps import Steps

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
    stated = env.get('SPACK_ROOT')
    places = [str(Path(stated, 'bin', 'spack')) if stated else None,
              shutil.which('spack', path=env.get('PATH')),
              *(str(home / 'bin' / 'spack') for home in (root / '.spack', fetch.spack()))]
    yield from dict.fromkeys(place for place in places if place and os.access(place, os.X_OK))


def find(root: Path, env: Mapping[str, str]) -> tuple[SpackFound | None, list[str]]:
    """Return the first Spack that starts, and a sentence for each before it that does not."""
    notes = []
    stated = env.get('SPACK_ROOT')
    if stated and not Path(stated, 'bin', 'spack').exists():
        notes.append(f'SPACK_ROOT={stated} holds no bin/spack')
    for path in candidates(root, env):
        said = attempt([path, '--version'], env, _TIMEOUT)
        version = re.search(r'^(\d+\.\d[\w.]*)', said.out, re.MULTILINE) if said.ok else None
        if version:
            return SpackFound(path=path, version=version[1]), notes
        notes.append(f'Spack at {path} does not start: {said.why or "it prints no version"}')
    return None, notes


#: Lines of Spack's: a package is begun, or built (with its hash); a source is fetched.
_BEGUN, _BUILT, _SOURCE = map(re.compile, (
    r'==> Installing \S+-(\w{32})\b', r'==> \S+ Successfully installed \S+-(\w{32})\b',
    r'==> Adding package (\S+)@(?:git\.\w+=)?(\S+) to mirror'))


class Spack(NamedTuple):
    """A Spack, the environment variables to run it with, and the versions of a bundle's recipes."""

    program: str
    environ: dict[str, str]
    recipes: Mapping[str, str] = MappingProxyType({})

    def run(self, place: Path, *arguments: str, steps: Steps | None = None) -> None:
        """Run `spack -e PLACE ...`, with its output in PLACE/build.log. Raise InfrastructureError if it fails."""
        log = place / 'build.log'
        from parity.base import console  # it loads Rich, which the settings of a run need not
        print(f'parity: spack {arguments[0]} ({log})', flush=True)
        said: list[str] = []
        began = time.monotonic()
        command = [self.program, '-e', str(place), *arguments]

        def state() -> tuple[int, int, str]:
            now = steps and steps.line() or f'spack {arguments[0]}'
            at, total = (steps.done, steps.total) if steps else (0, 0)
            return at, total, f'{now}, {duration(time.monotonic() - began)} so far'

        try:
            with log.open('a') as out, subprocess.Popen(
                    command, env=self.environ, text=True, errors='replace', stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process, console.progress(state) as say:
                for line in process.stdout:
                    out.write(line)
                    said = [*said[-60:], line.rstrip()]
                    now = ''
                    if source := _SOURCE.search(line):
                        now = 'source of {} {}'.format(*source.groups())
                    elif steps and (begun := _BEGUN.search(line)):
                        now = steps.begin(begun[1])
                    elif steps and (built := _BUILT.search(line)):
                        steps.end(built[1])
                    if now:
                        say(f'parity: {visible(now)}')
        except OSError as err:
            if err.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise InfrastructureError(f'{log}: {err.strerror}: {fetch.advice(str(err), place)}') from None
        if process.returncode:
            todo = fetch.advice('\n'.join(said), place)
            raise InfrastructureError(f'spack {arguments[0]} fails: {_error(said)} (see {log})'
                                      f'{todo and f": {todo}"}')

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
        tree = config['config']['install_tree']            # it may be the folder alone
        return (tree if isinstance(tree, str) else tree['root']).replace('$spack', str(self.home))

    def given(self) -> Any:
        """Return the builtin recipes that user, site or bundle configured; None where Spack is as released."""
        configured = _builtin(Path('spack config get repos'), self.say('--no-env', 'config', 'get', 'repos'))
        defaults = (self.home / 'etc' / 'spack' / 'defaults').rglob('repos.yaml')
        return None if configured in [_builtin(f, f.read_text()) for f in defaults] else configured

    def tools(self, place: Path) -> dict[str, str]:
        """Return the versions of Spack and of its builtin recipes, as the environment at ``place`` uses them."""
        release, _, commit = self.say('--version').partition(' ')
        said = {'spack': f'{release} {commit[:11]})' if commit.startswith('(') else release}
        try:
            where = self.ask(place, 'location', '--repo', BUILTIN)
        except InfrastructureError:         # no such recipes: everything is parity's own
            return said
        return said | {'recipes': self.recipes.get(BUILTIN) or version(Path(where)) or where}


def _error(said: list[str]) -> str:
    """Return Spack's first error and the line after it, which often names the package; else its last line."""
    at = next((i for i, line in enumerate(said) if line.startswith('==> Error')), len(said) - 1)
    return ' '.join(line.removeprefix('==> Error:').strip() for line in said[max(at, 0):at + 2])


def _builtin(file: Path, text: str) -> Any:
    data, _ = yamlfile.parse(file, text)
    repos = data.get('repos') if isinstance(data, dict) else None
    return repos.get(BUILTIN) if isinstance(repos, dict) else None


def version(repository: Path) -> str:
    """Return the version of a clone's recipes, 'v2026.06.0 (d4f7c711a6)'; '' where they are no clone."""
    def git(*arguments: str) -> str:
        return attempt(['git', '-C', str(repository), *arguments]).out.strip()

    # recipes that lie, untracked, in a clone of something else have no version
    commit = git('ls-files', 'repo.yaml') and git('rev-parse', 'HEAD')[:10]
    tag = commit and git('describe', '--tags', '--exact-match')
    return f'{tag} ({commit})' if tag else commit


def locked(folder: Path) -> dict[str, Any]:
    """Return Spack's lock in ``folder``. Raise UsageError, with the line, for a file that is none."""
    file, line, why = folder / 'spack.lock', 1, 'has no concrete_specs'
    try:
        lock = json.loads(file.read_text(encoding='utf-8'))
        if isinstance(lock, dict) and isinstance(lock.get('concrete_specs'), dict):
            return lock
    except (ValueError, RecursionError) as err:
        line, why = getattr(err, 'lineno', 1), f'not JSON: {getattr(err, "msg", err)}'
    raise UsageError(f'{file}:{line}: {why}; must be a lock that Spack made')


def chosen() -> Spack:
    """Return the Spack of the named bundle, one that is here, one unpacked before, or else fetch one.

    Raises as `fetch.clone` does; UsageError for a Spack that does not start."""
    home = paths.results() / 'software' / 'spack'
    if named := os.environ.get(VARIABLE):
        return unpack(Path(named), home)
    found, notes = find(paths.root(), os.environ)
    if not found and (before := unpacked(home)):
        return before
    if not found and not notes:
        fetch.clone('Spack', fetch.URL, fetch.RELEASE, fetch.spack())
        found, notes = find(paths.root(), os.environ)
    if not found:
        raise UsageError('; '.join([*notes, 'correct it, or take it away (unset SPACK_ROOT, or remove the '
                                    'folder): where no Spack is, parity fetches one']))
    return Spack(found.path, {**os.environ, 'SPACK_PYTHON': os.environ.get('SPACK_PYTHON', sys.executable),
                              'SPACK_COLOR': 'never', 'GIT_TERMINAL_PROMPT': '0'})      # nobody is there to answer


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
    ours = any((target / name).exists() for name in ('bundle.json', 'sources'))
    if target.exists() and not ours and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f'{target}: holds files that are no bundle; name a new or an empty folder')
    (target / 'sources').mkdir(parents=True, exist_ok=True)
    (target / 'bundle.json').unlink(missing_ok=True)
    place = places[0]
    needed: dict[str, dict[str, Any]] = {}
    for each in places:
        roots = _roots(each, only)
        which = ['-D', *(f'/{number}' for number in roots)] if only else ['-a']
        if roots:
            spack.run(each, 'mirror', 'create', '-d', str(target / 'sources'), *which)
        needed |= _below(each, roots)
    lock = needed.values()
    _wheels(target / 'wheels')
    print('parity: packing Spack and its recipes', flush=True)
    top = Path(spack.ask(place, 'location', '--spack-root'))
    _pack(target / 'spack.tar.gz', top, [name for name in _OF_SPACK if (top / name).exists()])
    packed = {}
    for namespace in sorted({BUILTIN, *(spec['namespace'] for spec in lock)} - {'parity'}):
        repository = Path(spack.ask(place, 'location', '--repo', namespace))
        _pack(target / f'recipes-{namespace}.tar.gz', repository.parent, [repository.name])
        packed[namespace] = version(repository)
    names = {external: sorted({f'{spec["name"]}@{spec["version"]}' for spec in lock
                               if bool(spec.get('external')) == external}) for external in (False, True)}
    held = {str(f.relative_to(target)): files.sha256(f) for f in sorted(target.rglob('*')) if f.is_file()}
    made = Bundle(system=system, spack=spack.ask(place, '--version').split()[0], recipes=packed,
                  sources=names[False], externals=names[True], files=held)
    (target / 'bundle.json').write_text(made.model_dump_json(indent=1))
    return made


def _roots(place: Path, only: Collection[str]) -> list[str]:
    """Return the hashes of the roots of a lock; of the packages ``only`` where some are named."""
    lock = locked(place)
    numbers = [root['hash'] for root in lock['roots']]
    return [number for number in numbers if not only or lock['concrete_specs'][number]['name'] in only]


def _below(place: Path, roots: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the specs of a lock that these roots need, and their own, by their hashes."""
    specs, found, waiting = locked(place)['concrete_specs'], {}, [*roots]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found[number] = specs[number]
            waiting += [dependency['hash'] for dependency in specs[number].get('dependencies', ())]
    return found


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
        raise InfrastructureError(f'{what} fails: {(done.stderr.strip().splitlines() or [""])[-1]}')


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
    held, said = _read(folder), (folder / 'bundle.json').read_text()
    kept = home / 'bundle.json'
    if not kept.exists() or kept.read_text() != said:
        print(f'parity: unpacking Spack {held.spack} from {folder}', flush=True)
        for name, digest in held.files.items():
            if not (folder / name).is_file() or files.sha256(folder / name) != digest:
                raise InfrastructureError(f'{folder / name}: damaged or missing: copy the bundle again')
        shutil.rmtree(home, ignore_errors=True)
        for archive in ('spack', *(f'recipes-{namespace}' for namespace in held.recipes)):
            target = home / ('program' if archive == 'spack' else 'recipes/spack_repo')
            target.mkdir(parents=True, exist_ok=True)
            _demand('tar', 'tar', '-xzf', str(folder / f'{archive}.tar.gz'), '-C', str(target), '--no-same-owner')
    _configure(home, folder, held)           # the bundle may lie elsewhere today
    files.update(kept, said)                 # last: whoever finds it finds all the rest
    return unpacked(home)


def unpacked(home: Path) -> Spack | None:
    """Return the Spack that an earlier call has unpacked; None where none has."""
    if not (home / 'bundle.json').exists():
        return None
    # Spack reads its own configuration only
    kept = {k: v for k, v in os.environ.items()
            if k not in ('SPACK_ROOT', 'SPACK_ENV', 'SPACK_DISABLE_LOCAL_CONFIG')}
    environ = {**kept, 'SPACK_PYTHON': sys.executable, 'SPACK_COLOR': 'never',
               'SPACK_USER_CONFIG_PATH': str(home / 'scope'), 'SPACK_USER_CACHE_PATH': str(home / 'cache'),
               'SPACK_SYSTEM_CONFIG_PATH': str(home / 'none')}
    return Spack(str(home / 'program' / 'bin' / 'spack'), environ, _read(home).recipes)


def _configure(home: Path, folder: Path, held: Bundle) -> None:
    """Write a configuration for this Spack alone: nothing of the user's, and nowhere else to look for sources."""
    scope = {
        'config': {'install_tree': {'root': str(home.parent / 'opt')}},
        'bootstrap': {'enable': False},
        'concretizer': {'concretization_cache': {'enable': True}},
        'repos': {n: str(home / 'recipes' / 'spack_repo' / n) for n in held.recipes},
        # the double colon replaces what Spack would ask otherwise
        'mirrors:': {'sources': {'url': (folder / 'sources').as_uri(), 'source': True, 'binary': False}},
    }
    (home / 'none').mkdir(exist_ok=True)
    for name, values in scope.items():
        files.update(home / 'scope' / f'{name.rstrip(":")}.yaml', yaml.safe_dump({name: values}))
