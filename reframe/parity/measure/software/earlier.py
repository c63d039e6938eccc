"""The software of an earlier night, measured again under the name of its environment.

PARITY_SOFTWARE names a file with the facts of environments as a session kept them. These take the place of what is
found today. Whatever cannot be measured again is `gone`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from parity.base.errors import UsageError
from parity.measure.software import environment, programs, spack
from parity.measure.software.programs import Environ

VARIABLE = 'PARITY_SOFTWARE'


def restored(environs: Iterable[Environ]) -> list[Environ]:
    """Return the environments, those that the file names with the earlier software. UsageError for a bad file."""
    if not (name := os.environ.get(VARIABLE)):
        return [*environs]
    try:
        earlier = TypeAdapter(dict[str, dict[str, Any]]).validate_json(Path(name).read_bytes())
        return [_restored(environ, earlier[environ.name]) if environ.name in earlier else environ
                for environ in environs]
    except (OSError, ValueError) as err:
        why = str(err).splitlines()[0]
        raise UsageError(f'{VARIABLE}={name}: {why}; must be a file that parity cause wrote') from None


def _restored(environ: Environ, software: dict[str, Any]) -> Environ:
    path = {'PATH': f'{software["view"]}:$PATH'} if 'prefix' in software else {}
    return environ.model_copy(update={'software': software, 'modules': software.get('modules', environ.modules),
                                      'env_vars': {**environ.env_vars, **path}})


def label(software: dict[str, Any]) -> str:
    """Return a few words that name the software: `view 41bc`, a prefix, its modules."""
    if 'prefix' in software:
        return software['prefix']
    if 'packages' in software:
        return f'view {build_of(software).name[:4]}'
    return f'modules {" ".join(software["modules"])}' if software.get('modules') else 'the programs on PATH'


def build_of(software: dict[str, Any]) -> Path:
    """Return the folder of a view's build."""
    return Path(software['view']).parents[1]


def gone(software: dict[str, Any]) -> str:
    """Return why the software of a session cannot be measured again, and what brings it back; '' where it can."""
    if 'packages' in software:
        return gone_view(Path(software['view']), build_of(software))
    if 'prefix' in software:
        changed = [about['path'] for about in software.get('programs', {}).values()
                   if about.get('sha256') and programs.digest(about['path']) != about['sha256']]
        now = 'is another program now' if changed and os.path.exists(changed[0]) else 'is not there any more'
        return f'{changed[0]} {now}: install each version below a prefix of its own' if changed else ''
    if software.get('modules'):
        return ''
    return 'its packages were replaced: a prefix for each version (environments: in system.yaml) keeps it'


def gone_view(view: Path, build: Path) -> str:
    """Return why a view cannot be measured, and what makes it again; '' where it can."""
    if environment.view_is_there(view):
        return ''
    lock = build / 'spack.lock'
    if not lock.exists():
        return f'the view {view} is gone, and no lock of it is kept'
    return f'the view {view} is gone; its lock is kept ({lock}): spack -e {build} install makes it again'


def bytes_of(builds: Iterable[Path], beside: Iterable[Path]) -> int:
    """Return the size of the packages of builds, without those that the builds ``beside`` have, too."""
    packages = set().union(*map(_packages, builds)) - set().union(*map(_packages, beside))
    return sum(file.lstat().st_size for package in packages for file in package.rglob('*'))


def _packages(build: Path) -> set[Path]:
    """Return the folders of what Spack built for a lock: beside those that its view leads to, by their hashes."""
    trees = {package.parent for program in build.glob('view/bin/*') for package in program.resolve().parents
             if re.search(r'-\w{32}$', package.name)}
    try:
        hashes = {*spack.locked(build)['concrete_specs']}
    except (OSError, UsageError):
        return set()
    return {package for tree in trees for package in tree.iterdir() if package.name.rpartition('-')[2] in hashes}
