"""The package recipes that a build uses: those that spack.yaml pins, unless this Spack was given others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.base import paths, yamlfile
from parity.base.errors import InfrastructureError

if TYPE_CHECKING:
    from parity.software.spackenv.command import Spack

#: The name of Spack's own recipes in `repos`.
_BUILTIN = 'builtin'
#: What Spack reads first in a clone: without it, the clone was interrupted.
_INDEX = 'spack-repo-index.yaml'


def repositories(home: Path, pinned: Any, own: Any = None) -> dict[str, Any]:
    """The `repos` of a system's environment: parity's recipes, then the ``pinned`` builtin ones of spack.yaml,
    cloned below ``home``; none where this Spack was given its ``own``, which an environment would overrule."""
    found: dict[str, Any] = {'parity': str(paths.root() / 'spack_repo' / 'parity')}
    if pinned and own is None:
        cloned = isinstance(pinned, dict)
        found[_BUILTIN] = {**pinned, 'destination': str(_clone(home, pinned))} if cloned else pinned
    return found


def _clone(home: Path, pinned: dict[str, str]) -> Path:
    """A clone for each version: Spack never checks out another tag in a clone that is there."""
    version = pinned.get('commit') or pinned.get('tag') or pinned.get('branch', 'newest')
    return home / f'recipes-{version.replace("/", "-")}'


def drop_interrupted(repos: dict[str, Any]) -> None:
    """Remove a clone that was interrupted: Spack would take it for a whole one."""
    stated = repos.get(_BUILTIN)
    clone = Path(stated['destination']) if isinstance(stated, dict) else None
    if clone and clone.exists() and not (clone / _INDEX).exists():
        shutil.rmtree(clone)


def given(spack: Spack) -> Any:
    """The builtin recipes that the Spack's user, site or bundle configured; None where it is as released."""
    configured = _builtin(Path('spack config get repos'), spack.say('--no-env', 'config', 'get', 'repos'))
    defaults = Path(spack.program).resolve().parents[1] / 'etc' / 'spack' / 'defaults'
    released = [_builtin(file, file.read_text()) for file in defaults.rglob('repos.yaml')]
    return None if configured in (None, *released) else configured


def _builtin(file: Path, text: str) -> Any:
    data, _ = yamlfile.parse(file, text)
    repos = data.get('repos') if isinstance(data, dict) else None
    return repos.get(_BUILTIN) if isinstance(repos, dict) else None


def version(repository: Path) -> str:
    """The version of a clone's recipes, '' where they are no clone: 'v2026.06.0 (d4f7c711a6)'."""
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
    """Spack and its builtin recipes, with their versions, as the environment at ``place`` uses them."""
    release, _, commit = spack.say('--version').partition(' ')
    said = {'spack': f'{release} {commit[:11]})' if commit.startswith('(') else release}
    try:
        where = spack.ask(place, 'location', '--repo', _BUILTIN)
    except InfrastructureError:         # no such recipes: everything is parity's own
        return said
    return said | {'recipes': spack.recipes.get(_BUILTIN) or version(Path(where)) or where}
