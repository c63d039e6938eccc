"""The software of this machine. The answer is kept while the files that it came from stay the same."""

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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


class Stamp(NamedTuple):
    """The facts of a file that differ once it has changed."""

    path: str
    real_path: str
    size: int                   # bytes
    changed: int                # ns


class _Kept(Strict):
    """An answer, and the stamps of the files that it came from."""

    software: Software
    stamps: list[Stamp]


def discover(root: Path, site_environments: Iterable[StatedEnvironment], cache_file: Path,
             system: str = '', before: Sequence[str] = (),
             entries: Sequence[SpackEnvironment] = (ONLY,)) -> Software:
    """Find the software of this machine with this process's variables, and Spack's builds for ``system``.
    ``root`` is the checkout (for its .spack). ``site_environments`` are those of system.yaml, ``entries`` those
    that Spack is to build. Jobs run the commands ``before`` in front of their modules."""
    env = dict(os.environ)
    flags = procfs.flags(Tree('/'))
    stated = [entry.model_dump() for entry in site_environments]
    spacks = list(spack.candidates(root, env))
    key = _key(env, flags)
    key |= {
        'spack': spacks,
        'stated': stated,
        'before': list(before),
        'built': _states_of_builds(system, entries),
        'entries': [entry.model_dump() for entry in entries],
    }
    kept = _kept(cache_file, key)
    if kept:
        return kept
    surveys = []
    if system:
        for views in manifest.surveys(system, entries, env, flags).values():
            surveys += views
    # PATH has the distribution's packages, and an operator's own programs beside them
    surveys.append(survey('distro', Environ(name='distro', provider='distro'), _on_path(), env, flags))
    for index, entry in enumerate(stated):
        where = systems.line(system, ('environments', index)) if system else ''
        surveys.append(_modules(entry, env, flags, before, where))
    installed, notes = spack.find(root, env)
    software = _software(surveys, installed, notes)
    # a program that did not start is tried again each time: it may have been mended elsewhere
    is_first_spack = spacks[:1] == ([installed.path] if installed else [])
    if is_first_spack and all(survey.sound for survey in surveys):
        stamps = [_stamp(file) for file in sorted(_files(surveys, installed))]
        store.write(cache_file, key, _Kept(software=software, stamps=stamps).model_dump())
    return software


def _key(env: Mapping[str, str], flags: frozenset[str]) -> dict[str, Any]:
    """Return whatever of this parity, user and machine decides what is found."""
    # a newer parity may find more
    code = max(file.stat().st_mtime_ns for file in Path(__file__).parent.glob('*.py'))
    return {
        'parity': __version__,
        'code': code,
        'codes': identity.digest(repr(codes.every()).encode()),
        'user': os.geteuid(),
        'cpu': identity.digest(' '.join(sorted(flags)).encode()),
        'variables': {name: env.get(name) for name in _VARIABLES},
        'found': paths(programs(), env.get('PATH')),
    }


def _kept(cache_file: Path, key: dict[str, Any]) -> Software | None:
    """Return the answer that is kept under a key, while its files are as they were."""
    try:
        kept = _Kept.model_validate(store.read(cache_file, key))
    except ValueError:          # none is kept, or another hand wrote it
        return None
    is_fresh = all(_stamp(stamp.path) == stamp for stamp in kept.stamps)
    return kept.software if is_fresh else None


def _software(surveys: list[Survey], installed: SpackFound | None, notes: list[str]) -> Software:
    """Return the environments of surveys, each code in one of PATH and Spack, with all notes."""
    whole = [survey.environ for survey in surveys]
    environs = _once(whole)
    of_surveys = list(chain(*(survey.notes for survey in surveys)))
    return Software(
        environs=environs,
        spack=installed,
        announcement=_announcement(environs, installed),
        notes=of_surveys + notes + _left_out(whole, environs))


def _files(surveys: list[Survey], installed: SpackFound | None) -> set[str]:
    """Return the files that show a change of what was found."""
    read = set(chain(*(survey.read for survey in surveys)))
    if installed:
        home = Path(installed.path).resolve().parents[1]
        read |= {installed.path, str(home / 'lib/spack/spack/__init__.py')}
    return read


def _states_of_builds(system: str, entries: Sequence[SpackEnvironment]) -> list[list[Any]]:
    """Return whatever changes when a build of the environments, or one of its files, does."""
    if not system:
        return []
    builds = [manifest.read(system, entry.name) for entry in entries]
    return [_state_of(system, built) for built in builds if built]


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
        if gone:
            having = [environ.name for environ in after if not set(gone).isdisjoint(environ.features)]
            notes.append(f'{whole.name}: {", ".join(gone)}: measured with {", ".join(having)} instead')
    return notes


def absent(prefix: str, wanted: Iterable[str]) -> dict[str, list[str]]:
    """Return the codes whose programs are not all below the prefix, each with those that are not."""
    needs = features()
    missing = {}
    for code in wanted:
        programs = [name for name in needs.get(code, ()) if name not in codes.TOOLS]
        gone = [name for name in programs if not paths([name], None, f'{prefix}/bin')]
        if gone:
            missing[code] = gone
    return missing


def lacking(where: str, prefix: str, missing: Mapping[str, list[str]]) -> str:
    """Return a sentence on the codes that a prefix lacks; '' for none."""
    if not missing:
        return ''
    programs = [f'{os.path.normpath(f"bin/{names[0]}")} ({code})' for code, names in missing.items()]
    return f'{where}: prefix: {prefix} lacks {", ".join(programs)}; valid is a prefix that has it'


def _modules(entry: dict[str, Any], env: Mapping[str, str], flags: frozenset[str], before: Sequence[str],
             where: str) -> Survey:
    """Survey an environment of system.yaml: a prefix, modules, or codes of the distribution."""
    label = f'modules {entry["name"]}'
    modules, prefix = entry['modules'], entry['prefix']
    known = [code for code in entry['codes'] if code in features()]
    notes = [f'{label}: no way is known to try {code}: not offered' for code in entry['codes']
             if code not in known]
    provider = 'modules' if modules else 'distro'
    environ = Environ(name=entry['name'], modules=modules, provider='prefix' if prefix else provider)
    loaded = Loaded(dict(env))
    if modules:
        loaded = load_modules(modules, env, before)
    if loaded.env is None:
        why = f'{where}: {label}: {loaded.why}' if where else f'{label}: {loaded.why}'
        environ = environ.model_copy(update={'software': {'lacking': why}})
        return Survey(environ, [*notes, why], False, [])
    if prefix:
        return _below(prefix, label, environ, known, loaded.env, flags, where)
    found = survey(label, environ, known, loaded.env, flags)
    # a module's next version may bring a program that is missing now; no file here would betray it
    return found._replace(notes=notes + found.notes, sound=found.sound and found.environ.features == known)


def _below(prefix: str, label: str, environ: Environ, known: list[str], env: Mapping[str, str],
           flags: frozenset[str], where: str) -> Survey:
    """Try the programs below a prefix, whose bin/ is the first folder of PATH."""
    view = f'{prefix}/bin'
    env = {**env, 'PATH': f'{view}:{env.get("PATH", "")}'}
    found = survey(label, environ, known, env, flags, view)
    notes = list(found.notes)
    software = {**found.environ.software, 'view': view, 'prefix': prefix}
    why = lacking(where, prefix, absent(prefix, known))
    if why:
        software['lacking'] = why
        notes.append(why)
    made = found.environ.model_copy(update={
        'env_vars': {**found.environ.env_vars, 'PATH': f'{view}:$PATH'},
        'software': software,
    })
    return found._replace(environ=made, notes=notes, sound=found.sound and made.features == known)


def not_loaded(system: System) -> Iterator[str]:
    """Yield a sentence for each environment whose modules do not load on this machine."""
    for index, entry in enumerate(system.environments):
        if not entry.modules:
            continue
        loaded = load_modules(entry.modules, os.environ, system.module_commands)
        if loaded.why:
            where = systems.line(system.name, ('environments', index))
            yield f'{where}: modules {entry.name}: {loaded.why}'


def taken_along(env: Mapping[str, str]) -> list[str]:
    """Return the modules that are loaded in this process and not in a new login shell: jobs take them along."""
    mine = [name for name in env.get('LOADEDMODULES', '').split(':') if name]
    if not mine:
        return []
    bare = {name: env[name] for name in ('HOME', 'USER', 'PATH') if name in env}
    printed = attempt(['bash', '-lc', 'echo "$LOADEDMODULES"'], bare, _TIMEOUT).out
    of_new_shell = printed.strip().split(':')
    return [name for name in mine if name not in of_new_shell]


def stated_below(environ: Environ, prefix: str, where: str) -> Environ:
    """Return the environment with a prefix that this machine does not try: the nodes have it. The programs are its
    identity where they can be read here, else the prefix."""
    view = f'{prefix}/bin'
    software: dict[str, Any] = {**environ.software, 'view': view, 'prefix': prefix}
    missing: dict[str, list[str]] = {}
    parts: dict[str, list[str]] = {}
    if os.path.isdir(prefix):
        missing = absent(prefix, environ.features)
        parts = _programs_of(environ.features, missing)
        software['programs'] = _facts_below(view, parts)
    else:
        software['stated'] = prefix
    if missing:
        software['lacking'] = lacking(where, prefix, missing)
    return environ.model_copy(update={
        'provider': 'prefix',
        'software': software,
        'parts': parts,
        'env_vars': {'PATH': f'{view}:$PATH'},
        'features': [feature for feature in environ.features if feature not in missing],
    })


def _programs_of(wanted: Iterable[str], missing: Collection[str]) -> dict[str, list[str]]:
    """Return the programs of the codes' own, by code, but for the ``missing`` ones."""
    needs = features()
    programs = {}
    for code in wanted:
        if code in needs and code not in missing:
            programs[code] = [name for name in needs[code] if name not in codes.TOOLS]
    return programs


def _facts_below(view: str, parts: Mapping[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Return the facts of the programs that can be read below a prefix."""
    facts = {}
    for name, path in paths(set(chain(*parts.values())), None, view).items():
        if os.access(path, os.R_OK):
            digest = files.sha256(Path(path))
            facts[name] = {'path': path, 'version': None, 'sha256': digest, **other_name(name, path)}
    return facts


def _stamp(path: str) -> Stamp:
    """Return the stamp of a file, also of one that is not there."""
    try:
        status = os.stat(path)
    except OSError:
        return Stamp(path, '', -1, -1)
    # the real path too: update-alternatives moves a link between files that do not change
    return Stamp(path, os.path.realpath(path), status.st_size, status.st_mtime_ns)


def _announcement(environs: Sequence[Environ], spack: SpackFound | None) -> str:
    """Return `software: distro (CODE 1.5.0-3, Open MPI 4.1.4, OpenBLAS 0.3.21 as SkylakeX); no spack`."""
    parts = [_in_words(environ) for environ in environs]
    if not any(environ.provider == 'spack' for environ in environs):
        if spack:
            home = spack.path.removesuffix('/bin/spack')
            parts.append(f'spack {spack.version} at {home}: nothing built yet')
        else:
            parts.append('no spack')
    return f'software: {"; ".join(parts)}'


def _in_words(environ: Environ) -> str:
    software = environ.software
    name = environ.name
    if software.get('prefix'):
        name += f' {software["prefix"]}'
    words = [f'{name} ({_contents(software)})', software.get('newer_build'), software.get('lacking')]
    return ', '.join(filter(None, words))


def _contents(software: dict[str, Any]) -> str:
    """Return the codes of an environment with their versions, its MPI and its BLAS."""
    programs = software.get('programs', {})
    names = [f'{package["spec"]} /{package["hash"][:7]}' for package in software.get('packages', {}).values()]
    for code in codes.every():
        first = code.programs[0] if code.programs and (code.package or code.spack) else ''
        about = programs.get(first)
        if about:
            name = about.get('name') or os.path.basename(first)
            version = about['package_version'] or about['version'] or ''
            names.append(f'{name} {version}'.rstrip())
    if software.get('mpi'):
        names.append(launcher.described(software['mpi']))
    if software.get('blas'):
        names.append(_blas_in_words(software['blas']))
    if 'cc' in programs:
        names.append(f'cc {programs["cc"]["version"] or "?"}')
    if names:
        return ', '.join(names)
    return 'only python' if 'python3' in programs else 'nothing'


def _blas_in_words(blas: dict[str, Any]) -> str:
    words = [blas['name'], blas.get('version')]
    if blas.get('core'):
        words.append(f'as {blas["core"]}')
    return ' '.join(filter(None, words))


_MARK = '--parity-environment--'
#: A login shell on a large site reads much before it answers.
_TIMEOUT = 30.0


class Loaded(NamedTuple):
    """A login shell's variables with modules, or None and why these do not load."""

    env: dict[str, str] | None
    why: str = ''


def load_modules(modules: Collection[str], env: Mapping[str, str], before: Sequence[str] = ()) -> Loaded:
    """Load modules in a login shell. As in a job, each is loaded by a command of its own, after ``before``, and
    modules.sh tells what loaded."""
    names = [shlex.quote(name) for name in modules]
    commands = [*before, *(f'module load {name}' for name in names)]
    check = shlex.quote(str(of_jobs() / 'modules.sh'))
    script = [f'{command} >&2' for command in commands]
    script.append(f'(. {check} {" ".join(names)}) || exit')
    script.append(f'printf %s {shlex.quote(_MARK)}; exec env -0')
    shell = attempt(['bash', '-lc', '\n'.join(script)], env, _TIMEOUT)
    _, mark, printed = shell.out.partition(_MARK)
    if shell.ok and mark:
        return Loaded(dict(entry.split('=', 1) for entry in printed.split('\0') if '=' in entry))
    of_ours = [line for line in shell.err.splitlines() if line.startswith(reasons.OURS)]
    if of_ours:
        return Loaded(None, of_ours[-1].removeprefix(reasons.OURS))
    return Loaded(None, shell.why or 'the login shell did not get as far as printing its environment')
