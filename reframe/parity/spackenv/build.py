"""Build a system's environment from its lock, prove its binaries, write the manifest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from parity import paths
from parity.errors import InfrastructureError, UsageError
from parity.site.schema import System
from parity.software import spack
from parity.spackenv import binaries, folder, manifest

_INSTALLING = re.compile(r'==> Installing (\S+?)-([\d.]+\S*?)-(\w{32}) \[(\d+)/(\d+)\]')
_INSTALLED = re.compile(r'==> (\S+): Successfully installed')


def build(system: System, facts: dict[str, Any]) -> manifest.Manifest:
    """Concretize where there is no lock, install, check every binary, write the manifest.

    Does nothing where nothing changed. UsageError without a Spack or a compiler,
    InfrastructureError where the build fails or a binary is missing.
    """
    program = find()
    place = folder.write(system, facts)
    built = manifest.read(system.name)
    if built and built.stamp == folder.stamp(place) and not manifest.changed(built):
        print(f'parity: {system.name}: nothing to build: the lock and what it built are unchanged')
        return built
    began = time.monotonic()
    _lock(program, system, place)
    _run(program, place, 'install', '--fail-fast', f'-j{len(os.sched_getaffinity(0))}')
    roots = folder.concrete(place)
    names = {package: binaries.expected(package, root) for package, root in roots.items()}
    bad = binaries.problems(place / 'view' / 'bin', [n for several in names.values() for n in several])
    if bad:
        raise InfrastructureError('\n'.join(f'{place / "view" / "bin" / n}: {why}' for n, why in bad.items()))
    written = manifest.write(system.name, folder.stamp(place), roots, names)
    _commit_lock(system, place)
    print(f'parity: {system.name}: built {len(roots)} packages in {time.monotonic() - began:.0f} s')
    return written


def _lock(program: str, system: System, place: Path) -> None:
    """A lock that is committed holds; this machine's own is made anew when what decides it changes."""
    made_from = place / 'spack.lock.inputs'
    now = folder.inputs(place)
    if folder.committed_lock(system.name).exists() or (made_from.exists() and made_from.read_text() == now):
        return
    _run(program, place, 'concretize', '--force')
    made_from.write_text(now)


def find() -> str:
    """The Spack to use; UsageError in one line where there is none."""
    found, notes = spack.find(paths.root(), os.environ)
    if not found:
        raise UsageError('; '.join([*notes, 'no Spack here: set SPACK_ROOT, put spack on PATH, or let '
                                    'ci/quickstart clone it where its host can be reached']))
    return found.path


def _commit_lock(system: System, place: Path) -> None:
    """The lock of a site belongs under version control; that of `local` is this machine's own."""
    if not system.detect:
        lock = folder.committed_lock(system.name)
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text((place / 'spack.lock').read_text())


def _run(program: str, place: Path, *arguments: str) -> None:
    """Run `spack -e PLACE ...`, telling each package that is built; everything goes to build.log."""
    log = place / 'build.log'
    environ = {'SPACK_PYTHON': sys.executable, **os.environ, 'SPACK_COLOR': 'never'}
    print(f'parity: spack {arguments[0]} ({log})', flush=True)
    said: list[str] = []
    with log.open('a') as out, subprocess.Popen(
            [program, '-e', str(place), *arguments], env=environ, text=True, errors='replace',
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            out.write(line)
            said = [*said[-40:], line.rstrip()]
            if found := _INSTALLING.search(line):
                print(f'parity: building {found[1]} {found[2]} ({found[4]} of {found[5]})', flush=True)
    if process.returncode:
        errors = [li.strip() for li in said if 'Error' in li] or said[-1:]
        raise InfrastructureError(f'spack {arguments[0]} fails: {" ".join(errors[:2])} (see {log})')
