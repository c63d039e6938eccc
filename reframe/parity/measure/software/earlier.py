"""The software of an earlier night, measured again under the name of its environment.

PARITY_SOFTWARE names a file with the facts of environments as a session kept them. These take the place of what is
found today. Whatever cannot be measured again is `gone`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from parity.base.errors import UsageError
from parity.measure.software import environment, programs, spack
from parity.measure.software.programs import Environ

VARIABLE = 'PARITY_SOFTWARE'


def restored(environs: Iterable[Environ]) -> list[Environ]:
    """Return the environments, those that the file names with the earlier software. UsageError for a bad file."""
    name = os.environ.get(VARIABLE)
    if not name:
        return [*environs]
    try:
        earlier = TypeAdapter(dict[str, dict[str, Any]]).validate_json(Path(name).read_bytes())
    except (OSError, ValueError) as err:
        why = str(err).splitlines()[0]
        raise UsageError(f'{VARIABLE}={name}: {why}; must be a file that parity cause wrote') from None
    before = []
    for environ in environs:
        software = earlier.get(environ.name)
        before.append(environ if software is None else _restored(environ, software))
    return before


def _restored(environ: Environ, software: dict[str, Any]) -> Environ:
    env_vars = dict(environ.env_vars)
    if 'prefix' in software:
        env_vars['PATH'] = f'{software["view"]}:$PATH'
    return environ.model_copy(update={
        'software': software,
        'modules': software.get('modules', environ.modules),
        'env_vars': env_vars,
    })


def label(software: dict[str, Any]) -> str:
    """Return a few words that name the software: `view 41bc`, a prefix, its modules."""
    if 'prefix' in software:
        return software['prefix']
    if 'packages' in software:
        return f'view {build_of(software).name[:4]}'
    if software.get('modules'):
        return f'modules {" ".join(software["modules"])}'
    return 'the programs on PATH'


def build_of(software: dict[str, Any]) -> Path:
    """Return the folder of a view's build."""
    return Path(software['view']).parents[1]


def gone(software: dict[str, Any]) -> str:
    """Return why the software of a session cannot be measured again, and what brings it back; '' where it can."""
    if 'packages' in software:
        return gone_view(Path(software['view']), build_of(software))
    if 'prefix' in software:
        return _gone_programs(software.get('programs', {}))
    if software.get('modules'):
        return ''
    return 'its packages were replaced: a prefix for each version (environments: in system.yaml) keeps it'


def _gone_programs(programs_then: dict[str, dict[str, Any]]) -> str:
    """Return the first program of a prefix that is another one now, or is not there; '' for none."""
    for about in programs_then.values():
        path, then = about['path'], about.get('sha256')
        if then and programs.digest(path) != then:
            now = 'is another program now' if os.path.exists(path) else 'is not there any more'
            return f'{path} {now}: install each version below a prefix of its own'
    return ''


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
    size = 0
    for package in packages:
        size += sum(file.lstat().st_size for file in package.rglob('*'))
    return size


def _packages(build: Path) -> set[Path]:
    """Return the folders of what Spack built for a lock: beside those that its view leads to, by their hashes."""
    try:
        hashes = {*spack.locked(build)['concrete_specs']}
    except (OSError, UsageError):
        return set()
    trees = set()
    for program in build.glob('view/bin/*'):
        for folder in program.resolve().parents:
            if re.search(r'-\w{32}$', folder.name):
                trees.add(folder.parent)
    siblings = chain(*(tree.iterdir() for tree in trees))
    return {folder for folder in siblings if folder.name.rpartition('-')[2] in hashes}
