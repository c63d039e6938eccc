"""A bundle: all that a machine without a network needs to build a system's codes.

    bundle.json              contents with versions, and the SHA-256 of every file
    spack.tar.gz             Spack itself
    recipes-NAMESPACE.tar.gz the package recipes
    wheels/                  the Python packages of requirements.lock, for this version of Python
    sources/                 a Spack mirror with the source of everything in the lock
    binaries/                the built packages, if `parity software cache` put them there

Nothing bootstraps Spack: the Python of .venv, made from the wheels, runs it and has its solver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError

from parity.base import files, paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.strict import Strict
from parity.software.spack import Spack
from parity.software.spackenv import folder
from parity.software.spackenv.folder import locked

#: Names the bundle that `parity software build` is to use.
VARIABLE = 'PARITY_SOFTWARE_BUNDLE'
#: The parts of a Spack installation that a bundle takes: no configuration, nothing built.
_OF_SPACK = ('bin', 'lib', 'share', 'etc/spack/defaults', 'etc/spack/include.yaml',
             'COPYRIGHT', 'LICENSE-APACHE', 'LICENSE-MIT', 'NOTICE')
#: The length of padded paths: a build cache can be installed only where the install tree's path is no longer.
_PADDED = 128


class Bundle(Strict):
    """The contents of a bundle."""

    system: str
    spack: str
    recipes: dict[str, str]       # namespace -> tag and commit, '' where the recipes are no clone
    sources: list[str]            # name@version of packages to build
    externals: list[str]          # name@version of packages that must be installed where the bundle is used
    files: dict[str, str]         # path within the bundle -> SHA-256


def make(spack: Spack, system: str, place: Path, target: Path) -> Bundle:
    """Make the bundle for the locked environment at ``place``. Raise InfrastructureError for an absent source."""
    if target.exists() and not target.is_dir():
        raise UsageError(f'{target}: is not a folder')
    own = any((target / name).exists() for name in ('bundle.json', 'sources'))
    if target.is_dir() and any(target.iterdir()) and not own:
        raise UsageError(f'{target}: holds something else; name a new or an empty folder')
    (target / 'sources').mkdir(parents=True, exist_ok=True)
    (target / 'bundle.json').unlink(missing_ok=True)
    lock = locked(place)['concrete_specs'].values()
    spack.run(place, 'mirror', 'create', '-d', str(target / 'sources'), '-a')
    top = Path(spack.ask(place, 'location', '--spack-root'))
    _wheels(target / 'wheels')
    print('parity: packing Spack and its recipes', flush=True)
    _pack(target / 'spack.tar.gz', top, [name for name in _OF_SPACK if (top / name).exists()])
    packed = {}
    for namespace in sorted({'builtin', *(spec['namespace'] for spec in lock)} - {'parity'}):
        repository = Path(spack.ask(place, 'location', '--repo', namespace))
        _pack(target / f'recipes-{namespace}.tar.gz', repository.parent, [repository.name])
        packed[namespace] = folder.version(repository)
    names = {external: sorted({f'{spec["name"]}@{spec["version"]}' for spec in lock
                               if bool(spec.get('external')) == external}) for external in (False, True)}
    held = {str(f.relative_to(target)): f for f in sorted(target.rglob('*')) if f.is_file()}
    made = Bundle(system=system, spack=spack.ask(place, '--version').split()[0], recipes=packed,
                  sources=names[False], externals=names[True],
                  # a build cache's files have their SHA-256 as their name
                  files={name: files.sha256(file) for name, file in held.items()
                         if name != 'bundle.json' and not name.startswith('binaries/')})
    (target / 'bundle.json').write_text(made.model_dump_json(indent=1))
    return made


def _wheels(folder: Path) -> None:
    """Fetch every locked Python package. Raise InfrastructureError where one cannot be had."""
    print('parity: Python packages of requirements.lock', flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _demand('pip download', [
        sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-input',
        '--no-deps', '--only-binary', ':all:', '--require-hashes', '--dest', str(folder),
        '--requirement', str(paths.root() / 'requirements.lock')])


def _pack(archive: Path, folder: Path, names: list[str]) -> None:
    _demand('tar', ['tar', '-czf', str(archive), '-C', str(folder), '--exclude=__pycache__', '--exclude=.git',
                    *names])


def _demand(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InfrastructureError(f'{what} fails: {(done.stderr.strip().splitlines() or [""])[-1]}')


def read(folder: Path) -> Bundle:
    """Return the contents that the bundle in a folder states. Raise UsageError where there is none."""
    file = folder / 'bundle.json'
    try:
        return Bundle.model_validate_json(file.read_text())
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}: {VARIABLE} must name a folder made by '
                         'parity software mirror') from None
    except ValidationError as err:
        raise UsageError(f'{file}: is not what parity software mirror writes: {err.errors()[0]["msg"]}') from None


def check(folder: Path) -> Bundle:
    """Return the bundle. Raise InfrastructureError for the first file that is not as it was made."""
    bundle = read(folder)
    for name, digest in bundle.files.items():
        if not (folder / name).is_file() or files.sha256(folder / name) != digest:
            raise InfrastructureError(f'{folder / name}: damaged or missing: copy the bundle again')
    return bundle


def unpack(folder: Path, home: Path) -> Spack:
    """Return the bundle's Spack, unpacked in ``home`` unless it already is, with a configuration of its own."""
    folder = folder.resolve()
    bundle, said = read(folder), (folder / 'bundle.json').read_text()
    kept = home / 'bundle.json'
    if not kept.exists() or kept.read_text() != said:
        print(f'parity: unpacking Spack {bundle.spack} from {folder}', flush=True)
        check(folder)
        shutil.rmtree(home, ignore_errors=True)
        _extract(folder / 'spack.tar.gz', home / 'program')
        for namespace in bundle.recipes:
            _extract(folder / f'recipes-{namespace}.tar.gz', home / 'recipes' / 'spack_repo')
    _configure(home, folder, bundle)         # the bundle may lie elsewhere today
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
    return Spack(str(home / 'program' / 'bin' / 'spack'), environ, read(home).recipes)


def _extract(archive: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _demand('tar', ['tar', '-xzf', str(archive), '-C', str(target), '--no-same-owner'])


def _configure(home: Path, folder: Path, bundle: Bundle) -> None:
    """Write a configuration for this Spack alone: nothing of the user's, and nowhere else to look for sources."""
    tree = str(home.parent / 'opt')
    room = len(tree) <= _PADDED - 2         # beyond, Spack can neither pad nor install what was padded
    scope = {
        'config': {'install_tree': {'root': tree, 'padded_length': _PADDED if room else False}},
        'bootstrap': {'enable': False},
        'concretizer': {'concretization_cache': {'enable': True}},
        'repos': {n: str(home / 'recipes' / 'spack_repo' / n) for n in bundle.recipes},
        # the double colon replaces what Spack would ask otherwise
        'mirrors:': {'sources': {'url': (folder / 'sources').as_uri(), 'source': True, 'binary': False}},
    }
    if room and (folder / 'binaries').is_dir():
        scope['mirrors:']['binaries'] = {'url': (folder / 'binaries').as_uri(), 'source': False,
                                         'binary': True, 'signed': False}
    for name in ('scope', 'none'):
        (home / name).mkdir(exist_ok=True)
    for name, values in scope.items():
        (home / 'scope' / f'{name.rstrip(":")}.yaml').write_text(yaml.safe_dump({name: values}))


def push(spack: Spack, place: Path, target: Path) -> None:
    """Put the packages built at ``place`` into a build cache. Tell where they cannot be installed."""
    if not spack.tree(place)[1]:
        print('parity: this Spack builds without room for longer paths (config:install_tree:padded_length: '
              f'{_PADDED}): the cache can be installed only where the path is no longer than here', flush=True)
    spack.run(place, 'buildcache', 'push', '--unsigned', '--update-index', str(target))
