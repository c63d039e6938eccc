"""The manifest of a build, which every result carries, and the environments of its views."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parity.base import codes, files
from parity.base.strict import Model, Strict
from parity.software import blas
from parity.software.model import Environ
from parity.software.programs import root_variables
from parity.software.spackenv import folder


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
    """The packages of a view; ``files`` is of every binary, to notice a change."""

    view: str
    packages: dict[str, Package]
    files: dict[str, list[int]]   # binary -> size in bytes, time of change in ns
    started: bool = True          # False: that the binaries start could not be tried
    tools: dict[str, str] = {}    # the versions of Spack and of the recipes that built it


class Manifest(View):
    """A build. ``stamp`` is of all that decided it, ``built`` when it ended; a code may be in both views."""

    stamp: str
    built: str = ''
    gpu: View | None = None

    @property
    def views(self) -> dict[str, View]:
        """The views by the name of the environment that each makes."""
        return {'spack': self} | ({'spack-gpu': self.gpu} if self.gpu else {})


class Attempt(Strict):
    """A build that has not succeeded: when it began, and why it failed; '' while it runs, or if it was ended."""

    began: str
    why: str = ''


def attempted(system: str, of: Attempt) -> None:
    """Note a build that has not succeeded; the manifest of the one in use stays."""
    files.write(_attempt_of(system), of.model_dump_json())


def done(system: str) -> None:
    """The newest build is in use."""
    _attempt_of(system).unlink(missing_ok=True)


def not_built(system: str, built: Manifest) -> str:
    """Return the warning about a newer build that has not succeeded; '' if the newest one is in use."""
    if not (newer := _kept(Attempt, _attempt_of(system))):
        return ''
    state = f'failed: {newer.why}' if newer.why else 'has not ended'
    return f'the build of {newer.began} {state}; in use: that of {built.built or "before"}'


def now() -> str:
    return datetime.now().strftime('%Y-%m-%d %H:%M')


def _attempt_of(system: str) -> Path:
    return folder.of(system) / 'attempt.json'


def file_of(system: str) -> Path:
    return folder.of(system) / 'manifest.json'


def read(system: str) -> Manifest | None:
    """The manifest of the system's last build; None where nothing is built or it cannot be read."""
    return _kept(Manifest, file_of(system))


def _kept(model: type[Model], file: Path) -> Model | None:
    try:
        return model.model_validate_json(file.read_text())
    except (OSError, ValidationError):
        return None


def view(bin_: Path, roots: dict[str, dict[str, Any]], names: dict[str, list[str]], started: bool = True) -> View:
    """A view whose binaries have been proven; ``started`` says whether they were started for it."""
    return View(view=str(bin_), files={n: _state(bin_ / n) for ns in names.values() for n in ns}, started=started,
                packages={p: Package(**root, binaries=names[p]) for p, root in roots.items()})


def write(system: str, stamp: str, default: View, for_gpu: View | None = None,
          tools: dict[str, str] | None = None) -> Manifest:
    """Write the manifest of a build, which takes it into use; ``tools`` are the versions of what built it."""
    with_tools = {'tools': tools or {}}
    gpu = for_gpu.model_copy(update=with_tools) if for_gpu else None
    made = Manifest(**{**dict(default), **with_tools, 'stamp': stamp, 'gpu': gpu, 'built': now()})
    files.write(file_of(system), made.model_dump_json(indent=1))
    done(system)
    return made


def changed(built: View) -> list[str]:
    """Return the binaries of a view that are not the built ones: absent, or of another size or time."""
    return [name for name, state in built.files.items() if _state(Path(built.view, name)) != state]


def whole(built: Manifest) -> bool:
    """Return whether every binary of every view is the built one."""
    return not any(changed(view) for view in built.views.values())


def _state(binary: Path) -> list[int]:
    with contextlib.suppress(OSError):
        found = os.stat(binary)
        return [found.st_size, found.st_mtime_ns]
    return []


def environ(built: View, env: Mapping[str, str], flags: frozenset[str],
            name: str = 'spack', newer: str = '') -> tuple[Environ, list[str]]:
    """A view's environment and notes on it, without packages that changed. ``newer``: of a build that failed."""
    stale = set(changed(built))
    whole = {package: p for package, p in built.packages.items() if not stale & set(p.binaries)}
    refused = f'{", ".join(sorted(stale))}: not what was built: not offered (parity software build)'
    notes = [f'{name}: {note}' for note in (stale and refused, newer) if note]
    using = next((code for package in whole for code in codes.of_package(package) if code.blas), None)
    math, env_vars = _math(Path(built.view, using.binaries[0]), env, flags, notes) if using else ({}, {})
    identities = {package: {key: getattr(p, key) for key in ('spec', 'hash', 'compiler', 'mpi', 'blas', 'target')}
                  for package, p in whole.items()}
    facts: dict[str, Any] = {'view': built.view, 'tools': built.tools, 'packages': identities}
    facts |= {key: value for key, value in (('newer_build', newer), ('blas', math)) if value}
    offered = {package: codes.made_by(package, name != 'spack') for package in whole}
    return Environ(name=name, provider='spack', env_vars={**root_variables(), **env_vars}, software=facts,
                   features=[name for features in offered.values() for name in features],
                   parts={name: [package] for package, features in offered.items() for name in features}), notes


def _math(program: Path, env: Mapping[str, str], flags: frozenset[str],
          notes: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The BLAS that a program loads, and the kernels to name where it does not know the processor."""
    found = blas.library(blas.loaded(os.path.realpath(program), env))
    if not found or found[0] != 'OpenBLAS':
        return ({'name': found[0], 'library': found[1]} if found else {}), {}
    choice = blas.choose(found[1], flags, env)
    if choice.note:
        notes.append(f'spack: {choice.note}')
    env_vars = {'OPENBLAS_NUM_THREADS': '1'} | ({'OPENBLAS_CORETYPE': choice.coretype} if choice.coretype else {})
    return {'name': found[0], 'version': choice.version, 'library': found[1], 'core': choice.used}, env_vars
