"""The software of this machine. An answer is kept while the files that it came from stay the same."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from parity import __version__
from parity.base import codes
from parity.base.strict import Strict
from parity.machine import procfs, store
from parity.machine.procfs import Tree
from parity.software import manifest, spack
from parity.software.blas import attempt
from parity.software.programs import Environ, features, paths, programs, survey
from parity.software.spack import SpackFound
from parity.system.systems import ModulesEnvironment

#: Variables that decide what is found or how it runs.
_VARIABLES = ('PATH', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'SPACK_ROOT', 'MODULEPATH', 'OPENBLAS_CORETYPE')

#: A provider's answer: its finding as JSON, whether it may be kept, the files that it rests on.
_Answer = tuple[dict[str, Any], bool, list[str]]


class Software(Strict):
    """Every environment found, notes on them, and one line for people."""

    environs: list[Environ]
    spack: SpackFound | None
    notes: list[str]
    announcement: str


def discover(root: Path, site_environments: Iterable[ModulesEnvironment], cache_file: Path,
             system: str = '') -> Software:
    """Find the software of this machine with this process's variables, and Spack's builds for ``system``.
    ``root`` is the checkout (for its .spack), ``site_environments`` those of system.yaml."""
    env, flags = dict(os.environ), procfs.flags(Tree('/'))
    memory = _Memory(cache_file, _key(env, flags))
    # PATH has the distribution's packages, and an operator's own programs beside them
    distro = memory.recall('distro', {'found': paths(programs(), env.get('PATH'))}, lambda: _answer(*survey(
        'distro', Environ(name='distro', provider='distro'), features(), env, flags)))
    found = memory.recall('spack', {'candidates': list(spack.candidates(root, env))}, lambda: _spack(root, env))
    made = manifest.read(system) if system else None
    newer = manifest.not_built(system, made) if made else ''
    answers = [memory.recall(f'built {system} {name}', {'stamp': made.stamp, 'view': view.view, 'newer': newer,
                                                        'changed': manifest.changed(view)},
                             lambda n=name, v=view: _built(n, v, env, flags, newer))
               for name, view in (made.views if made else {}).items()] + [distro]
    for entry in (stated.model_dump() for stated in site_environments):
        answers.append(memory.recall(f'stated {system} {entry["name"]}', {'entry': entry},
                                     lambda e=entry: _modules(e, env, flags)))
    memory.keep()
    environs = _once([Environ.model_validate(answer['environ']) for answer in answers])
    notes = [note for answer in (*answers, found) for note in answer['notes']]
    installed = SpackFound.model_validate(found['spack']) if found['spack'] else None
    return Software(environs=environs, spack=installed, notes=notes,
                    announcement=_announcement(environs, installed))


def _once(environs: list[Environ]) -> list[Environ]:
    """Leave to Spack what Spack has built: the distribution's would measure the machine twice."""
    built = {feature for environ in environs if environ.provider == 'spack' for feature in environ.features}
    return [environ.model_copy(update={'features': [f for f in environ.features if f not in built]})
            if environ.provider == 'distro' else environ for environ in environs]


def _answer(environ: Environ, notes: list[str], sound: bool, read: list[str]) -> _Answer:
    return {'environ': environ.model_dump(), 'notes': notes}, sound, read


def _built(name: str, view: manifest.View, env: Mapping[str, str], flags: frozenset[str], newer: str) -> _Answer:
    environ, notes = manifest.environ(view, env, flags, name, newer)
    library = environ.software.get('blas', {}).get('library')
    return _answer(environ, notes, bool(library) or not notes, [library] if library else [])


def _modules(entry: dict[str, Any], env: Mapping[str, str], flags: frozenset[str]) -> _Answer:
    label, modules = f'modules {entry["name"]}', entry['modules']
    known = [code for code in entry['codes'] if code in features()]
    notes = [f'{label}: no way is known to try {code}: not offered' for code in entry['codes']
             if code not in known]
    environ = Environ(name=entry['name'], provider='modules' if modules else 'distro', modules=modules)
    loaded, why = load_modules(modules, env) if modules else (dict(env), '')
    if loaded is None:
        return _answer(environ, [*notes, f'{label}: {why}: nothing offered'], False, [])
    environ, more, sound, read = survey(label, environ, known, loaded, flags)
    # a module's next version may bring a program that is missing now; no file here would betray it
    return _answer(environ, notes + more, sound and environ.features == known, read)


def _spack(root: Path, env: Mapping[str, str]) -> _Answer:
    found, notes = spack.find(root, env)
    release = found and Path(found.path).resolve().parents[1] / 'lib/spack/spack/__init__.py'
    # asking again costs nothing where none is, and a broken one may have been mended elsewhere
    return {'spack': found and found.model_dump(), 'notes': notes}, bool(found) and not notes, \
        [found.path, str(release)] if found else []


def _key(env: Mapping[str, str], flags: frozenset[str]) -> dict[str, Any]:
    cpu = hashlib.sha256(' '.join(sorted(flags)).encode()).hexdigest()[:12]
    # a newer parity may find more
    code = max(file.stat().st_mtime_ns for file in Path(__file__).parent.glob('*.py'))
    stated = hashlib.sha256(repr(codes.every()).encode()).hexdigest()[:12]
    return {'parity': __version__, 'code': code, 'codes': stated, 'cpu': cpu, 'user': os.geteuid(),
            'variables': {name: env.get(name) for name in _VARIABLES}}


class _Memory:
    """Answers of earlier calls. A program that did not start is tried again each time."""

    def __init__(self, file: Path, key: dict[str, Any]):
        self.file, self.key = file, key
        kept = store.read(file, key)
        self.before = self.kept = kept if isinstance(kept, dict) else {}

    def recall(self, name: str, key: dict[str, Any], ask: Callable[[], _Answer]) -> dict[str, Any]:
        """Return the kept answer if ``key`` and the files are as they were, else a new one."""
        try:
            kept = self.kept[name]
            if kept['key'] == key and all(_stamp(stamp[0]) == stamp for stamp in kept['stamps']):
                return kept['answer']
        except (KeyError, TypeError, IndexError):       # none, or written by another hand
            pass
        answer, keep, read = ask()
        made = {name: {'key': key, 'stamps': [_stamp(f) for f in sorted(set(read))], 'answer': answer}}
        self.kept = {n: entry for n, entry in self.kept.items() if n != name} | (made if keep else {})
        return answer

    def keep(self) -> None:
        if self.kept != self.before:
            store.write(self.file, self.key, self.kept)


def _stamp(path: str) -> list[str | int]:
    """Return path, resolved path, size in bytes and time of change in ns; also for a file that is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return [path, '', -1, -1]
    # the real path too: update-alternatives moves a link between files that do not change
    return [path, os.path.realpath(path), status.st_size, status.st_mtime_ns]


def _announcement(environs: Sequence[Environ], spack: SpackFound | None) -> str:
    """Return `software: distro (CODE 1.5.0-3, Open MPI 4.1.4, OpenBLAS 0.3.21 as SkylakeX); no spack`."""
    parts = [', '.join(filter(None, (f'{environ.name} ({_contents(environ.software)})',
                                     environ.software.get('newer_build')))) for environ in environs]
    if not any(environ.provider == 'spack' for environ in environs):
        home = spack and spack.path.removesuffix('/bin/spack')
        parts.append(f'spack {spack.version} at {home}: nothing built yet' if spack else 'no spack')
    return 'software: ' + '; '.join(parts)


def _contents(software: dict[str, Any]) -> str:
    found, mpi, blas = (software.get(key, {}) for key in ('programs', 'mpi', 'blas'))
    names = [f'{p["spec"]} /{p["hash"][:7]}' for p in software.get('packages', {}).values()]
    own = [code for code in codes.every() if code.package and code.executable in found]
    names += [f'{code.executable} {found[code.executable]["package_version"] or found[code.executable]["version"]}'
              for code in own if 'mpirun' in code.beside]
    if mpi:
        names.append(f'{mpi["name"]} {mpi["version"] or "?"}')
    if blas:
        core = f'as {blas["core"]}' if blas.get('core') else None
        names.append(' '.join(filter(None, [blas['name'], blas['version'], core])))
    others = [*(code.executable for code in own if 'mpirun' not in code.beside), 'cc']
    names += [f'{name} {found[name]["version"] or "?"}' for name in others if name in found]
    if not names and 'python3' in found:
        names.append(f'only python {found["python3"]["version"]}')
    return ', '.join(names) or 'nothing'


_MARK = '--parity-environment--'
_NO_MODULES = 40
#: A login shell on a large site reads much before it answers.
_TIMEOUT = 30.0


def load_modules(modules: Collection[str], env: Mapping[str, str]) -> tuple[dict[str, str] | None, str]:
    """Return a login shell's variables with ``modules``, or None and the reason. LOADEDMODULES tells what loaded:
    the exit code may be 0 after a failure."""
    words = ' '.join(shlex.quote(name) for name in modules)
    script = f'type module >/dev/null 2>&1 || exit {_NO_MODULES}\n' \
             f'module load {words} >&2\nprintf %s {shlex.quote(_MARK)}; exec env -0'
    said = attempt(['bash', '-lc', script], env, _TIMEOUT)
    if said.why.startswith(f'exit code {_NO_MODULES}'):
        return None, 'there is no module system here'
    before, mark, after = said.out.partition(_MARK)
    if not said.ok or not mark:
        return None, said.why or 'the login shell did not get as far as printing its environment'
    found = dict(entry.split('=', 1) for entry in after.split('\0') if '=' in entry)
    loaded = found.get('LOADEDMODULES', '').split(':')
    missing = [name for name in modules if not any(m == name or m.startswith(name + '/') for m in loaded)]
    return (None, f'module load did not load {", ".join(missing)}') if missing else (found, '')
