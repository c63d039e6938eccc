"""Build a system's environment from its lock, prove its binaries, write the manifest."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from parity.base import codes, paths
from parity.base.codes import Code
from parity.base.errors import InfrastructureError, ParityError, UsageError
from parity.software import spack
from parity.software.programs import root_variables
from parity.software.spack import Spack
from parity.software.spackenv import bundle, folder, gpu, manifest
from parity.system.systems import System


def build(system: System, facts: dict[str, Any]) -> manifest.Manifest:
    """Concretize if there is no lock, install, check every binary, then take the build into use; do nothing if
    nothing changed. If it fails, the build before stays in use. UsageError without a Spack or a compiler,
    InfrastructureError where the build fails or a binary is missing."""
    command = find()
    place = folder.write(system, facts, _given(command))
    built = manifest.read(system.name)
    if built and built.stamp == folder.stamp(place) and manifest.whole(built):
        manifest.done(system.name)
        print(f'parity: {system.name}: nothing to build: the lock and what it built are unchanged')
        return built
    _refuse_spaces(command.tree(place)[0])
    in_use = used(built) if built else None
    if place == in_use:
        place = folder.beside(place)
    began, attempt = time.monotonic(), manifest.Attempt(began=manifest.now())
    manifest.attempted(system.name, attempt)
    try:
        written = _build(command, system, place)
    except ParityError as err:
        manifest.attempted(system.name, attempt.model_copy(update={'why': str(err)[:400]}))
        if built:
            print(f'parity: {system.name}: {manifest.not_built(system.name, built)}', file=sys.stderr)
        raise
    _commit_lock(system, place)
    folder.prune(system.name, {place.name, in_use.name if in_use else ''})
    count = sum(len(view.packages) for view in written.views.values())
    print(f'parity: {system.name}: built {count} packages in {time.monotonic() - began:.0f} s')
    return written


def used(built: manifest.Manifest) -> Path:
    """The environment of the build in use, whose `view/bin` the manifest names."""
    return Path(built.view).parents[1]


def _build(command: Spack, system: System, place: Path) -> manifest.Manifest:
    _lock(command, system, place)
    _refuse_unfit(system, place)
    _drop_views(place)
    command.run(place, 'install', '--fail-fast', f'-j{len(os.sched_getaffinity(0))}')
    default, for_gpu = _proven(place / 'view', folder.concrete(place)), _proven_gpu(place)
    return manifest.write(system.name, folder.stamp(place), default, for_gpu, folder.tools(command, place))


def _drop_views(place: Path) -> None:
    """Make Spack renew a view: by itself it makes one only if it is absent, and does not notice lost files."""
    for name in ('view', 'view-gpu'):
        (place / name).unlink(missing_ok=True)
        shutil.rmtree(place / f'._{name}', ignore_errors=True)


def _given(command: Spack) -> Any:
    """Return the recipes that this Spack uses instead of those that spack.yaml pins, and say so."""
    if own := folder.given(command):
        print(f'parity: recipes: {own}, as this Spack is configured, instead of those that spack.yaml pins')
    return own


def _proven_gpu(place: Path) -> manifest.View | None:
    """Return the GPU view, if it holds anything; without a driver nobody knows that its binaries start."""
    roots = folder.concrete(place, for_gpu=True)
    if roots and not gpu.driver():
        print(f'parity: no GPU driver here: of {", ".join(roots)} for GPUs it is only checked that the binaries '
              'are there, not that they start', flush=True)
    return _proven(place / 'view-gpu', roots, start=gpu.driver()) if roots else None


def _proven(view: Path, roots: dict[str, dict[str, Any]], start: bool = True) -> manifest.View:
    """The view; InfrastructureError naming the binaries that are not there or do not start."""
    bin_ = view / 'bin'
    wanted = {package: expected(package, root) for package, root in roots.items()}
    names = {package: list(several) for package, several in wanted.items()}
    every = {name: code for several in wanted.values() for name, code in several.items()}
    if bad := problems(bin_, every, start):
        name, why = next(iter(bad.items()))
        others = f' (so for {len(bad) - 1} more: {" ".join(list(bad)[1:6])} ...)' if len(bad) > 1 else ''
        raise InfrastructureError(f'{bin_ / name}: {why}{others}')
    return manifest.view(bin_, roots, names, start)


def _refuse_unfit(system: System, place: Path) -> None:
    """Raise UsageError if the lock needs absent packages, or was made without its compilers."""
    if absent := folder.absent(place):
        raise UsageError(f'{system.name}: the lock names what is not on this machine: {", ".join(absent)}: go to '
                         f'a node that has it, or correct systems/{system.name}/spack/packages.yaml')
    if not folder.compilers_ran(place):
        raise UsageError(f'{place / "spack.lock"}: made while its compilers did not run: correct them in '
                         f'systems/{system.name}/spack/packages.yaml, then spack clean -m (Spack remembers that '
                         'they did not)')


def _refuse_spaces(tree: str) -> None:
    """Spack copes with a path that holds a space; the compilers that it calls do not."""
    if any(letter.isspace() for letter in tree):
        raise UsageError(f'{tree}: packages cannot be built for a path with a space: install into another '
                         "(Spack's config:install_tree:root; for a bundle, PARITY_RESULTS)")


def locked(system: System, facts: dict[str, Any]) -> tuple[Spack, Path]:
    """A Spack, and the system's environment with its lock, which a bundle is made from."""
    command = find()
    place = folder.write(system, facts, _given(command))
    _lock(command, system, place)
    _commit_lock(system, place)
    return command, place


def _lock(command: Spack, system: System, place: Path) -> None:
    """A lock that is committed holds; this machine's own is made anew when what decides it changes."""
    made_from = place / 'spack.lock.inputs'
    now = folder.inputs(place)
    if folder.committed_lock(system.name).exists():
        return _refuse_old(command, system, place)
    if made_from.exists() and made_from.read_text() == now:
        return
    command.run(place, 'concretize', '--force')
    _refuse_unfit(system, place)
    made_from.write_text(now)


def _refuse_old(command: Spack, system: System, place: Path) -> None:
    """UsageError where the committed lock was made for other specs: Spack changes the copy at ``place`` alone."""
    lock, before = folder.committed_lock(system.name), folder.roots(place)
    command.run(place, 'concretize')
    after = folder.roots(place)
    if before == after:
        return
    shutil.copy(lock, place)
    asked, stale = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    raise UsageError(f'{lock}: is not of the specs that spack.yaml, gpu.yaml and system.yaml ask for: '
                     f'{", ".join(asked) or "none"} instead of {", ".join(stale) or "none"}. It is left as it is. '
                     f'To make a new one: rm {shlex.quote(str(lock))} && '
                     f'parity software build --system {system.name}')


def find() -> Spack:
    """The Spack of the bundle that is named, one that is here, or one unpacked before. UsageError for none."""
    home = paths.results() / 'software' / 'spack'
    if named := os.environ.get(bundle.VARIABLE):
        return bundle.unpack(Path(named), home)
    found, notes = spack.find(paths.root(), os.environ)
    if found:
        python = os.environ.get('SPACK_PYTHON', sys.executable)
        return Spack(found.path, {**os.environ, 'SPACK_PYTHON': python, 'SPACK_COLOR': 'never',
                                  'GIT_TERMINAL_PROMPT': '0'})      # nobody is there to answer
    if before := bundle.unpacked(home):
        return before
    raise UsageError('; '.join([*notes, 'no Spack here: set SPACK_ROOT, put spack on PATH, let ci/quickstart '
                                f'clone it from its host, or name a bundle with {bundle.VARIABLE}']))


def _commit_lock(system: System, place: Path) -> None:
    """A site's new lock belongs under version control; that of `local` is this machine's own."""
    lock = folder.committed_lock(system.name)
    if not system.detect and not lock.exists():
        print(f'parity: {lock}: new; commit it')
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text((place / 'spack.lock').read_text())


#: A library starts where it and all that it needs can be loaded.
_LOAD = (sys.executable, '-c', 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)')
#: A program that has not ended with an error by then has started.
_SECONDS = 0.5


def expected(package: str, facts: dict[str, Any]) -> dict[str, Code]:
    """Return the names below the view's bin/ that a package of the manifest must bring, and the code of each."""
    return {name: code for code in codes.of_package(package) for name in code.binaries_of(facts['parameters'])}


def problems(folder: Path, wanted: dict[str, Code], start: bool = True) -> dict[str, str]:
    """Return the reason for each unusable binary; without ``start`` only check that it is there."""
    def check(name: str) -> str:
        return problem(folder / name, wanted[name]) if start else _absence(folder / name)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return {name: why for name, why in zip(wanted, pool.map(check, wanted), strict=True) if why}


def problem(program: Path, code: Code) -> str:
    """'' if the program starts: it runs for half a second, or ends without an error."""
    if said := _absence(program):
        return said
    with tempfile.TemporaryDirectory(prefix='parity-start-', ignore_cleanup_errors=True) as work:
        for name in code.files:
            shutil.copy(code.file.parent / name, work)
        command = [*(_LOAD if program.suffix == '.so' else ()), str(program), *code.starts]
        try:
            process = subprocess.Popen(command, cwd=work, env={**os.environ, **root_variables()}, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except OSError as err:
            return f'does not start: {err.strerror}'
        try:
            _, complaint = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return ''
    last = complaint.strip().splitlines()[-1:] or ['']
    return f'does not start: exit code {process.returncode} {last[0]}'.strip() if process.returncode else ''


def _absence(program: Path) -> str:
    return '' if os.access(program, os.X_OK) else 'is not there: the recipe said "installed" without it'
