"""A bundle: all that a machine cut off from the network needs to build a system's codes.

    bundle.json              what it holds, with versions, and the SHA-256 of every file
    spack.tar.gz             Spack itself
    recipes-NAMESPACE.tar.gz the package recipes
    wheels/                  the Python packages of requirements.lock, for this version of Python
    sources/                 a Spack mirror with the source of everything in the lock
    binaries/                what is built, if `parity software cache` put it there

Nothing bootstraps Spack: its solver is a package of .venv, whose Python runs it; ci/quickstart makes
.venv from the wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from parity.base import paths
from parity.base.errors import InfrastructureError, UsageError
from parity.base.files import sha256
from parity.base.strict import Strict
from parity.software.spack import Spack
from parity.software.spackenv import folder
from parity.software.spackenv.folder import locked

#: Names the bundle that `parity software build` is to use.
VARIABLE = 'PARITY_SOFTWARE_BUNDLE'
#: Of a Spack installation; what it was configured with and what it built stays behind.
_OF_SPACK = ('bin', 'lib', 'share', 'etc/spack/defaults', 'etc/spack/include.yaml',
             'COPYRIGHT', 'LICENSE-APACHE', 'LICENSE-MIT', 'NOTICE')
#: A build cache can be installed wherever the install tree's path is no longer.
_PADDED = 128


class Bundle(Strict):
    """The contents of a bundle."""

    system: str
    spack: str
    recipes: dict[str, str]       # namespace -> tag and commit, '' where the recipes are no clone
    sources: list[str]            # name@version of what is built
    externals: list[str]          # name@version of what must be installed where the bundle is used
    files: dict[str, str]         # path within the bundle -> SHA-256


def make(spack: Spack, system: str, place: Path, target: Path) -> Bundle:
    """Make the bundle for the locked environment at ``place``. InfrastructureError for a source not fetched."""
    _take(target)
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
    made = Bundle(system=system, spack=spack.ask(place, '--version').split()[0], recipes=packed,
                  sources=_names(s for s in lock if not s.get('external')),
                  externals=_names(s for s in lock if s.get('external')), files=_sums(target))
    (target / 'bundle.json').write_text(made.model_dump_json(indent=1))
    return made


def _wheels(folder: Path) -> None:
    """Fetch every locked Python package; InfrastructureError where one cannot be had."""
    print('parity: Python packages of requirements.lock', flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _demand('pip download', [
        sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-input',
        '--no-deps', '--only-binary', ':all:', '--require-hashes', '--dest', str(folder),
        '--requirement', str(paths.root() / 'requirements.lock')])


def _take(target: Path) -> None:
    """A new folder, an empty one, or a bundle that is made again."""
    if target.exists() and not target.is_dir():
        raise UsageError(f'{target}: is not a folder')
    if target.is_dir() and any(target.iterdir()) and not any(
            (target / name).exists() for name in ('bundle.json', 'sources')):
        raise UsageError(f'{target}: holds something else; name a new or an empty folder')
    (target / 'sources').mkdir(parents=True, exist_ok=True)
    (target / 'bundle.json').unlink(missing_ok=True)


def _names(specs: Any) -> list[str]:
    return sorted({f'{spec["name"]}@{spec["version"]}' for spec in specs})


def _pack(archive: Path, folder: Path, names: list[str]) -> None:
    _demand('tar', ['tar', '-czf', str(archive), '-C', str(folder), '--exclude=__pycache__', '--exclude=.git',
                    *names])


def _demand(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InfrastructureError(f'{what} fails: {(done.stderr.strip().splitlines() or [""])[-1]}')


def _sums(target: Path) -> dict[str, str]:
    """Return the SHA-256 of every file but bundle.json; those of a build cache carry it as their name."""
    names = {str(f.relative_to(target)): f for f in sorted(target.rglob('*')) if f.is_file()}
    return {name: sha256(file) for name, file in names.items()
            if name != 'bundle.json' and not name.startswith('binaries/')}


def read(folder: Path) -> Bundle:
    """Return the bundle's own list of contents; raise UsageError if the folder has no bundle."""
    file = folder / 'bundle.json'
    try:
        return Bundle.model_validate_json(file.read_text())
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}: {VARIABLE} must name a folder made by '
                         'parity software mirror') from None
    except ValidationError as err:
        raise UsageError(f'{file}: is not what parity software mirror writes: {err.errors()[0]["msg"]}') from None


def check(folder: Path) -> Bundle:
    """The bundle, every file of which is as it was made; InfrastructureError names the first that is not."""
    bundle = read(folder)
    for name, digest in bundle.files.items():
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            raise InfrastructureError(f'{folder / name}: damaged or missing: copy the bundle again')
    return bundle


def unpack(folder: Path, home: Path) -> Spack:
    """The bundle's Spack, unpacked in ``home`` unless it already is, with a configuration of its own."""
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
        _configure(home, folder, bundle)
        kept.write_text(said)                    # last: whoever finds it finds all the rest
    else:
        _configure(home, folder, bundle)         # the bundle may lie elsewhere today
    return Spack(str(home / 'program' / 'bin' / 'spack'), variables(home), bundle.recipes)


def unpacked(home: Path) -> Spack | None:
    """The Spack that an earlier call has unpacked; None where none has."""
    program = home / 'program' / 'bin' / 'spack'
    return Spack(str(program), variables(home), read(home).recipes) if (home / 'bundle.json').exists() else None


def _extract(archive: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _demand('tar', ['tar', '-xzf', str(archive), '-C', str(target), '--no-same-owner'])


def _configure(home: Path, folder: Path, bundle: Bundle) -> None:
    """Configuration of our own: nothing of the user's, and nowhere else to look for sources."""
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


def variables(home: Path) -> dict[str, str]:
    """This process's environment variables, made to lead Spack to its own configuration only."""
    kept = {k: v for k, v in os.environ.items()
            if k not in ('SPACK_ROOT', 'SPACK_ENV', 'SPACK_DISABLE_LOCAL_CONFIG')}
    return {**kept, 'SPACK_PYTHON': sys.executable, 'SPACK_COLOR': 'never',
            'SPACK_USER_CONFIG_PATH': str(home / 'scope'), 'SPACK_USER_CACHE_PATH': str(home / 'cache'),
            'SPACK_SYSTEM_CONFIG_PATH': str(home / 'none')}


def push(spack: Spack, place: Path, target: Path) -> None:
    """Put the builds at ``place`` into a build cache; report those that could not be installed again."""
    if not spack.tree(place)[1]:
        print('parity: this Spack builds without room for longer paths (config:install_tree:padded_length: '
              f'{_PADDED}): the cache can be installed only where the path is no longer than here', flush=True)
    spack.run(place, 'buildcache', 'push', '--unsigned', '--update-index', str(target))
