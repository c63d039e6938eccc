"""The software of this machine. The answer is kept while the files that it came from stay the same."""

import contextlib
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parity import __version__
from parity.base import codes, files, reasons
from parity.base.paths import programs as of_jobs
from parity.base.strict import Strict
from parity.measure.machine import procfs, store
from parity.measure.machine.procfs import Tree
from parity.measure.software import launcher, manifest, spack
from parity.measure.software.blas import attempt
from parity.measure.software.environment import ONLY
from parity.measure.software.programs import Environ, Survey, features, other_name, paths, programs, survey
from parity.measure.software.spack import SpackFound
from parity.site import identity, systems
from parity.site.systems import SpackEnvironment, StatedEnvironment, System

#: Variables that decide what is found or how it runs.
_VARIABLES = ('PATH', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'SPACK_ROOT', 'MODULEPATH', 'OPENBLAS_CORETYPE')


class Software(Strict):
    """Every environment found, notes on them, and one line for people."""

    environs: list[Environ]
    spack: SpackFound | None
    notes: list[str]
    announcement: str


class _Kept(Strict):
    """An answer, and the stamps of the files that it came from."""

    software: Software
    stamps: list[tuple[str, str, int, int]]


def discover(root: Path, site_environments: Iterable[StatedEnvironment], cache_file: Path,
             system: str = '', before: Sequence[str] = (),
             entries: Sequence[SpackEnvironment] = (ONLY,)) -> Software:
    """Find the software of this machine with this process's variables, and Spack's builds for ``system``.
    ``root`` is the checkout (for its .spack). ``site_environments`` are those of system.yaml, ``entries`` those
    that Spack is to build. Jobs run the commands ``before`` in front of their modules."""
    env, flags = dict(os.environ), procfs.flags(Tree('/'))
    built = [made for entry in entries if system and (made := manifest.read(system, entry.name))]
    stated = [entry.model_dump() for entry in site_environments]
    spacks = list(spack.candidates(root, env))
    # a newer parity may find more
    code = max(file.stat().st_mtime_ns for file in Path(__file__).parent.glob('*.py'))
    key = {'parity': __version__, 'code': code, 'codes': identity.digest(repr(codes.every()).encode()),
           'user': os.geteuid(), 'cpu': identity.digest(' '.join(sorted(flags)).encode()),
           'variables': {name: env.get(name) for name in _VARIABLES},
           'found': paths(programs(), env.get('PATH')), 'spack': spacks, 'stated': stated, 'before': list(before),
           'built': [_state_of(system, made) for made in built],
           'entries': [entry.model_dump() for entry in entries]}
    with contextlib.suppress(ValueError):       # none is kept, or another hand wrote it
        kept = _Kept.model_validate(store.read(cache_file, key))
        if all(_stamp(stamp[0]) == stamp for stamp in kept.stamps):
            return kept.software
    of_spack = manifest.surveys(system, entries, env, flags) if system else {}
    surveys = [*(survey for views in of_spack.values() for survey in views),
               # PATH has the distribution's packages, and an operator's own programs beside them
               survey('distro', Environ(name='distro', provider='distro'), _on_path(), env, flags),
               *(_modules(entry, env, flags, before, systems.line(system, ('environments', at)) if system else '')
                 for at, entry in enumerate(stated))]
    installed, notes = spack.find(root, env)
    read = {file for found in surveys for file in found.read}
    if installed:
        read |= {installed.path, str(Path(installed.path).resolve().parents[1] / 'lib/spack/spack/__init__.py')}
    whole = [found.environ for found in surveys]
    environs = _once(whole)
    software = Software(environs=environs, spack=installed, announcement=_announcement(environs, installed),
                        notes=[note for found in surveys for note in found.notes] + notes
                        + _left_out(whole, environs))
    # a program that did not start is tried again each time: it may have been mended elsewhere
    if all(found.sound for found in surveys) and spacks[:1] == ([installed.path] if installed else []):
        store.write(cache_file, key, _Kept(software=software, stamps=[*map(_stamp, sorted(read))]).model_dump())
    return software


def _state_of(system: str, made: manifest.Manifest) -> list[Any]:
    """Return whatever changes when a build, or one of its files, does."""
    changed = [manifest.changed(view) for view in made.views.values()]
    return [made.name, made.stamp, made.view, manifest.not_built(system, made), changed]


def _on_path() -> list[str]:
    """Return the features that PATH may offer. Builds for GPUs are not told from those for CPUs by their names."""
    gpus = {code.on_gpu for code in codes.every()}
    return [feature for feature in features() if feature not in gpus]


def _once(environs: list[Environ]) -> list[Environ]:
    """Leave out of PATH, with the distribution's packages, each code that a prefix or Spack offers. These, and
    modules, stand beside one another: the system names them."""
    own: set[str] = set()
    for environ in environs:
        if environ.provider in ('prefix', 'spack'):
            own |= {*environ.features}
    left = []
    for environ in environs:
        if environ.provider == 'distro':
            features = [feature for feature in environ.features if feature not in own]
            environ = environ.model_copy(update={'features': features})
        left.append(environ)
    return left


def _left_out(before: list[Environ], after: list[Environ]) -> list[str]:
    """Return a note on the codes that an environment leaves to others."""
    notes = []
    for whole, rest in zip(before, after, strict=True):
        gone = [feature for feature in whole.features if feature not in rest.features]
        having = [each.name for each in after if {*gone} & {*each.features}]
        if gone:
            notes.append(f'{whole.name}: {", ".join(gone)}: measured with {", ".join(having)} instead')
    return notes


def absent(prefix: str, wanted: Iterable[str]) -> dict[str, list[str]]:
    """Return the codes whose programs are not all below the prefix, each with those that are not."""
    found = {code: [name for name in features()[code] if name not in codes.TOOLS
                    and not paths([name], None, f'{prefix}/bin')] for code in wanted if code in features()}
    return {code: names for code, names in found.items() if names}


def lacking(where: str, prefix: str, missing: Mapping[str, list[str]]) -> str:
    """Return a sentence on the codes that a prefix lacks; '' for none."""
    said = ', '.join(f'{os.path.normpath(f"bin/{names[0]}")} ({code})' for code, names in missing.items())
    return f'{where}: prefix: {prefix} lacks {said}; valid is a prefix that has it' if said else ''


def _modules(entry: dict[str, Any], env: Mapping[str, str], flags: frozenset[str], before: Sequence[str],
             where: str) -> Survey:
    label, modules, prefix = f'modules {entry["name"]}', entry['modules'], entry['prefix']
    known = [code for code in entry['codes'] if code in features()]
    notes = [f'{label}: no way is known to try {code}: not offered' for code in entry['codes']
             if code not in known]
    environ = Environ(name=entry['name'], modules=modules,
                      provider='prefix' if prefix else 'modules' if modules else 'distro')
    loaded, why = load_modules(modules, env, before) if modules else (dict(env), '')
    if loaded is None:
        why = f'{where}: {label}: {why}' if where else f'{label}: {why}'
        return Survey(environ.model_copy(update={'software': {'lacking': why}}), [*notes, why], False, [])
    if prefix:
        return _below(prefix, label, environ, known, loaded, flags, where)
    found = survey(label, environ, known, loaded, flags)
    # a module's next version may bring a program that is missing now; no file here would betray it
    return found._replace(notes=notes + found.notes, sound=found.sound and found.environ.features == known)


def _below(prefix: str, label: str, environ: Environ, known: list[str], env: Mapping[str, str],
           flags: frozenset[str], where: str) -> Survey:
    """Try the programs below a prefix, whose bin/ is the first folder of PATH."""
    view = f'{prefix}/bin'
    found = survey(label, environ, known, {**env, 'PATH': f'{view}:{env.get("PATH", "")}'}, flags, view)
    why = lacking(where, prefix, absent(prefix, known))
    made = found.environ.model_copy(update={
        'env_vars': {**found.environ.env_vars, 'PATH': f'{view}:$PATH'},
        'software': {**found.environ.software, 'view': view, 'prefix': prefix} | (why and {'lacking': why} or {})})
    return found._replace(environ=made, notes=found.notes + [why] * bool(why),
                          sound=found.sound and made.features == known)


def not_loaded(system: System) -> Iterator[str]:
    """Yield a sentence for each environment whose modules do not load on this machine."""
    for at, entry in enumerate(system.environments):
        if entry.modules and (why := load_modules(entry.modules, os.environ, system.module_commands)[1]):
            yield f'{systems.line(system.name, ("environments", at))}: modules {entry.name}: {why}'


def taken_along(env: Mapping[str, str]) -> list[str]:
    """Return the modules that are loaded in this process and not in a new login shell: jobs take them along."""
    mine = [name for name in env.get('LOADEDMODULES', '').split(':') if name]
    bare = {name: env[name] for name in ('HOME', 'USER', 'PATH') if name in env}
    new = attempt(['bash', '-lc', 'echo "$LOADEDMODULES"'], bare, _TIMEOUT).out.strip().split(':') if mine else []
    return [name for name in mine if name not in new]


def stated_below(environ: Environ, prefix: str, where: str) -> Environ:
    """Return the environment with a prefix that this machine does not try: the nodes have it. The programs are its
    identity where they can be read here, else the prefix."""
    view = f'{prefix}/bin'
    software: dict[str, Any] = {**environ.software, 'view': view, 'prefix': prefix, 'stated': prefix}
    missing, parts = {}, {}
    if os.path.isdir(prefix):
        missing = absent(prefix, environ.features)
        parts = {code: [name for name in features()[code] if name not in codes.TOOLS]
                 for code in environ.features if code in features() and code not in missing}
        lying = paths({name for names in parts.values() for name in names}, None, view)
        software['programs'] = {name: {'path': path, 'version': None, 'sha256': files.sha256(Path(path)),
                                       **other_name(name, path)}
                                for name, path in lying.items() if os.access(path, os.R_OK)}
        del software['stated']
    if missing:
        software['lacking'] = lacking(where, prefix, missing)
    return environ.model_copy(update={
        'provider': 'prefix', 'software': software, 'parts': parts, 'env_vars': {'PATH': f'{view}:$PATH'},
        'features': [feature for feature in environ.features if feature not in missing]})


def _stamp(path: str) -> tuple[str, str, int, int]:
    """Return path, resolved path, size in bytes and time of change in ns; also for a file that is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return path, '', -1, -1
    # the real path too: update-alternatives moves a link between files that do not change
    return path, os.path.realpath(path), status.st_size, status.st_mtime_ns


def _announcement(environs: Sequence[Environ], spack: SpackFound | None) -> str:
    """Return `software: distro (CODE 1.5.0-3, Open MPI 4.1.4, OpenBLAS 0.3.21 as SkylakeX); no spack`."""
    parts = []
    for environ in environs:
        name = ' '.join(filter(None, (environ.name, environ.software.get('prefix'))))
        more = map(environ.software.get, ('newer_build', 'lacking'))
        parts.append(', '.join(filter(None, (f'{name} ({_contents(environ.software)})', *more))))
    if not any(environ.provider == 'spack' for environ in environs):
        home = spack and spack.path.removesuffix('/bin/spack')
        parts.append(f'spack {spack.version} at {home}: nothing built yet' if spack else 'no spack')
    return 'software: ' + '; '.join(parts)


def _contents(software: dict[str, Any]) -> str:
    found, mpi, blas = (software.get(key, {}) for key in ('programs', 'mpi', 'blas'))
    names = [f'{p["spec"]} /{p["hash"][:7]}' for p in software.get('packages', {}).values()]
    for code in codes.every():
        if not (code.package or code.spack):
            continue
        for program in code.programs[:1]:
            if about := found.get(program):
                name = about.get('name') or os.path.basename(program)
                names.append(f'{name} {about["package_version"] or about["version"] or ""}'.rstrip())
    if mpi:
        names.append(launcher.described(mpi))
    if blas:
        core = f'as {blas["core"]}' if blas.get('core') else None
        names.append(' '.join(filter(None, [blas['name'], blas.get('version'), core])))
    names += [f'cc {found["cc"]["version"] or "?"}'] if 'cc' in found else []
    return ', '.join(names) or ('only python' if 'python3' in found else 'nothing')


_MARK = '--parity-environment--'
#: A login shell on a large site reads much before it answers.
_TIMEOUT = 30.0


def load_modules(modules: Collection[str], env: Mapping[str, str],
                 before: Sequence[str] = ()) -> tuple[dict[str, str] | None, str]:
    """Return a login shell's variables with ``modules``, or None and the reason. As in a job, each is loaded by a
    command of its own, after ``before``, and modules.sh tells what loaded."""
    words = [shlex.quote(name) for name in modules]
    script = '\n'.join([*(f'{command} >&2' for command in (*before, *(f'module load {word}' for word in words))),
                        f'(. {shlex.quote(str(of_jobs() / "modules.sh"))} {" ".join(words)}) || exit',
                        f'printf %s {shlex.quote(_MARK)}; exec env -0'])
    said = attempt(['bash', '-lc', script], env, _TIMEOUT)
    _, mark, after = said.out.partition(_MARK)
    if said.ok and mark:
        return dict(entry.split('=', 1) for entry in after.split('\0') if '=' in entry), ''
    of_ours = [line for line in said.err.splitlines() if line.startswith(reasons.OURS)]
    return None, of_ours[-1].removeprefix(reasons.OURS) if of_ours else \
        said.why or 'the login shell did not get as far as printing its environment'
