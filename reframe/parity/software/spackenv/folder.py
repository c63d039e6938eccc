"""A system's environments: results/software/<system>/builds/<hash>/, a folder for each set of inputs."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from parity.base import codes, files, paths, yamlfile
from parity.base.errors import InfrastructureError, UsageError
from parity.software.spack import Spack
from parity.software.spackenv import scope
from parity.system.systems import System

#: Static arrays beyond this need the medium code model on x86-64 (2 GiB less the rest of .data).
_SMALL_MODEL_BYTES = 2 * 10**9
_ELEMENT = 8                # bytes
_MILLION = 1_000_000        # so that the number is readable in a spec
_MEMORY_SHARE = 0.6         # the part of the memory that all arrays may have together


def of(system: str) -> Path:
    """Return the folder of a system's builds, and of the manifest of the build in use."""
    return paths.results() / 'software' / system


def committed_lock(system: str) -> Path:
    """Return the file of a system's lock under version control."""
    return scope.folder(system) / 'spack.lock'


def write(system: System, facts: dict[str, Any], given: Any = None) -> Path:
    """Write the environment that the system asks for, with its committed lock, and return its folder.

    The partition's ``facts`` (llc_bytes, memory_bytes) size compiled-in arrays. ``given`` are this Spack's own
    recipes, which it uses instead of the pinned ones."""
    home = of(system.name)
    scopes = [str(s) for s in [scope.folder(system.name)] if s.is_dir()]
    if system.detect:
        scopes.append(str(scope.write_externals(home / 'externals', scope.nvcc(system.name))))
    manifest = _manifest()
    manifest['specs'] = [_sized(spec, facts) for spec in manifest['specs']]
    manifest['include'] = scopes
    manifest['repos'] = _repositories(home, manifest.get('repos', {}).get(_BUILTIN), given)
    manifest['view'] = {'default': {'root': 'view', 'link': 'roots'}}
    if wanted := scope.gpu_specs(system.name):
        scope.add_gpu(manifest, wanted)
    text, lock = yaml.safe_dump({'spack': manifest}, sort_keys=False), committed_lock(system.name)
    folder = home / 'builds' / _hash([lock], _inputs(system.name, text))[:12]
    files.update(folder / 'spack.yaml', text)
    if lock.exists():
        files.update(folder / 'spack.lock', lock.read_text())
    return folder


def beside(folder: Path) -> Path:
    """Make a second folder of the same environment, where the build in the first is damaged but in use."""
    other = folder.with_name(folder.name + '-again')
    shutil.rmtree(other, ignore_errors=True)
    other.mkdir()
    for file in folder.glob('spack.*'):
        shutil.copy(file, other)
    return other


def inputs(folder: Path) -> str:
    """Return a hash over everything that decides a lock: environment, configuration scopes, recipes."""
    return _inputs(folder.parents[1].name, (folder / 'spack.yaml').read_text())


def _inputs(system: str, text: str) -> str:
    scopes = [paths.root() / 'spack_repo', of(system) / 'externals', scope.folder(system)]
    return _hash([f for each in scopes for f in sorted(each.rglob('*')) if f.suffix in ('.py', '.yaml')], text)


def stamp(folder: Path) -> str:
    """Return a hash over everything that decides a build: the inputs and the lock."""
    return _hash([folder / 'spack.lock'], inputs(folder))


def _hash(files: list[Path], start: str = '') -> str:
    digest = hashlib.sha256(start.encode())
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b'absent')
    return digest.hexdigest()


def _manifest() -> dict[str, Any]:
    file = paths.root() / 'spack.yaml'
    data, _ = yamlfile.load(file)
    try:
        return dict(data['spack'])
    except (TypeError, KeyError):
        raise UsageError(f'{file}:1: must be a Spack environment: spack: {{specs: [...]}}') from None


def _sized(spec: str, facts: dict[str, Any]) -> str:
    """Return the spec with compiled-in arrays, if its code has any, as long as this system's caches ask for."""
    code = next((c for c in codes.every() if c.arrays and c.spack_package == spec.split('@')[0]), None)
    if not code or not facts.get('llc_bytes') or not facts.get('memory_bytes'):
        return spec
    variant, count = code.arrays
    elements = array_elements(count, facts['llc_bytes'], facts['memory_bytes'])
    if not elements:            # such caches, so little memory: as pinned; the check labels the figures `cached`
        return spec
    words = [f'{variant}={elements}' if w.startswith(f'{variant}=') else w for w in spec.split()]
    if count * _ELEMENT * elements > _SMALL_MODEL_BYTES:
        words.append('cflags="-mcmodel=medium"')
    return ' '.join(words)


def array_elements(count: int, llc_bytes: float, memory_bytes: float) -> int:
    """Return the elements of each of ``count`` arrays that measure memory: CACHE_MULTIPLE times the last-level
    caches, in whole millions. Return 0 where all arrays need more than _MEMORY_SHARE of the memory."""
    by_cache = math.ceil(codes.CACHE_MULTIPLE * llc_bytes / _ELEMENT)
    elements = -(-max(by_cache, _MILLION) // _MILLION) * _MILLION
    return elements if count * _ELEMENT * elements <= _MEMORY_SHARE * memory_bytes else 0


def locked(folder: Path) -> dict[str, Any]:
    """Return Spack's lock in ``folder``. Raise UsageError, with the line, for a file that is none."""
    file = folder / 'spack.lock'
    try:
        lock = json.loads(file.read_text(encoding='utf-8'))
    except json.JSONDecodeError as err:
        raise UsageError(f'{file}:{err.lineno}: not JSON: {err.msg}; must be a lock that Spack made') from None
    except (UnicodeDecodeError, RecursionError):
        raise UsageError(f'{file}:1: no JSON that can be read; must be a lock that Spack made') from None
    if not isinstance(lock, dict) or not isinstance(lock.get('concrete_specs'), dict):
        raise UsageError(f'{file}:1: has no concrete_specs; must be a lock that Spack made')
    return lock


def roots(folder: Path) -> dict[str, str]:
    """Return the specs that the lock was made for, and the hash of each."""
    return {root['spec']: root['hash'] for root in locked(folder)['roots']}


def concrete(folder: Path, for_gpu: bool = False) -> dict[str, dict[str, Any]]:
    """Return the lock's roots of one view by package name: spec, hash, version, target, compiler, mpi."""
    lock = locked(folder)
    specs = lock['concrete_specs']
    return {specs[r['hash']]['name']: _facts(specs, r['hash']) for r in lock['roots']
            if scope.is_gpu_build(specs[r['hash']]['parameters']) == for_gpu}


def _facts(specs: dict[str, Any], number: str) -> dict[str, Any]:
    spec = specs[number]
    by_virtual = {v: specs[d['hash']] for d in spec.get('dependencies', [])
                  for v in (d.get('parameters') or {}).get('virtuals', [])}

    def named(virtual: str) -> str:
        found = by_virtual.get(virtual)
        return f'{found["name"]} {found["version"]}' if found else ''

    target = spec['arch']['target']
    version = re.sub(r'^git\.\w+=', '', spec['version'])         # the commit is among the parameters
    return {'spec': f'{spec["name"]}@{version}', 'version': version, 'hash': number,
            'namespace': spec['namespace'], 'compiler': named('c') or named('cxx') or named('fortran'),
            'mpi': named('mpi'), 'blas': named('blas'),
            'target': target if isinstance(target, str) else target['name'],
            'parameters': {k: v for k, v in spec['parameters'].items() if v not in ([], 'none')}}


#: The name of Spack's own recipes in `repos`.
_BUILTIN = 'builtin'
#: Spack reads this file first in a clone. A clone without it was interrupted.
_INDEX = 'spack-repo-index.yaml'


def _repositories(home: Path, pinned: Any, own: Any = None) -> dict[str, Any]:
    """Return the `repos` of an environment: parity's recipes, then the ``pinned`` ones of spack.yaml, cloned below
    ``home``. Leave these out where Spack has its ``own``: the environment would overrule them."""
    found: dict[str, Any] = {'parity': str(paths.root() / 'spack_repo' / 'parity')}
    if not pinned or own is not None:
        return found
    if isinstance(pinned, dict):        # a clone for each version: Spack checks out no other tag in one
        version = pinned.get('commit') or pinned.get('tag') or pinned.get('branch', 'newest')
        clone = home / f'recipes-{version.replace("/", "-")}'
        pinned = {**pinned, 'destination': str(clone)}
        if clone.exists() and not (clone / _INDEX).exists():    # Spack would take it for a whole one
            shutil.rmtree(clone)
    return found | {_BUILTIN: pinned}


def given(spack: Spack) -> Any:
    """Return the builtin recipes that user, site or bundle configured; None where Spack is as released."""
    configured = _builtin(Path('spack config get repos'), spack.say('--no-env', 'config', 'get', 'repos'))
    defaults = Path(spack.program).resolve().parents[1] / 'etc' / 'spack' / 'defaults'
    released = [_builtin(file, file.read_text()) for file in defaults.rglob('repos.yaml')]
    return None if configured in (None, *released) else configured


def _builtin(file: Path, text: str) -> Any:
    data, _ = yamlfile.parse(file, text)
    repos = data.get('repos') if isinstance(data, dict) else None
    return repos.get(_BUILTIN) if isinstance(repos, dict) else None


def version(repository: Path) -> str:
    """Return the version of a clone's recipes, 'v2026.06.0 (d4f7c711a6)'; '' where they are no clone."""
    # recipes that lie, untracked, in a clone of something else have no version
    if not shutil.which('git') or not _git(repository, 'ls-files', 'repo.yaml'):
        return ''
    commit = _git(repository, 'rev-parse', 'HEAD')[:10]
    tag = _git(repository, 'describe', '--tags', '--exact-match')
    return f'{tag} ({commit})' if tag else commit


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(['git', '-C', str(repository), *arguments], capture_output=True, text=True)
    return done.stdout.strip()


def tools(spack: Spack, place: Path) -> dict[str, str]:
    """Return the versions of Spack and of its builtin recipes, as the environment at ``place`` uses them."""
    release, _, commit = spack.say('--version').partition(' ')
    said = {'spack': f'{release} {commit[:11]})' if commit.startswith('(') else release}
    try:
        where = spack.ask(place, 'location', '--repo', _BUILTIN)
    except InfrastructureError:         # no such recipes: everything is parity's own
        return said
    return said | {'recipes': spack.recipes.get(_BUILTIN) or version(Path(where)) or where}
