"""Every provider asked; what was learned is kept while the files it came from stay the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from parity import __version__
from parity.machine import cpuinfo, store
from parity.machine.tree import Tree
from parity.software import built, modules, spack
from parity.software.announce import announcement
from parity.software.model import Environ, Software, SpackFound
from parity.software.programs import FEATURES, PROGRAMS
from parity.software.spackenv import manifest
from parity.software.stamps import stamps, unchanged
from parity.software.survey import Survey, paths, survey

#: What the distribution is asked for.
_DISTRO = tuple(FEATURES)
#: Variables that decide what is found or how it runs.
_VARIABLES = ('PATH', 'LD_LIBRARY_PATH', 'LD_PRELOAD', 'SPACK_ROOT', 'MODULEPATH', 'OPENBLAS_CORETYPE')

#: What a provider says: its finding as JSON, whether it may be kept, the files it rests on.
_Answer = tuple[dict[str, Any], bool, list[str]]


def discover(root: Path | str, site_environments: Iterable[Any] = (),
             cache_file: Path | str | None = None, system: str = '') -> Software:
    """The software of this machine, as seen with this process's environment variables.

    ``root`` is the checkout (for its .spack), ``site_environments`` the entries of system.yaml's
    ``environments`` (name, modules, codes). Without ``cache_file`` nothing is kept. ``system`` names
    the system whose Spack build is offered.
    """
    env, flags = dict(os.environ), cpuinfo.flags(Tree('/'))
    memory = _Memory(cache_file, _key(env, flags))
    distro = memory.recall('distro', {'found': paths(PROGRAMS, env.get('PATH'))}, lambda: _distro(env, flags))
    found = memory.recall('spack', {'candidates': list(spack.candidates(Path(root), env))},
                          lambda: _spack(Path(root), env))
    made = manifest.read(system) if system else None
    newer = manifest.not_built(system, made) if made else ''
    answers = [memory.recall(f'built {system} {name}', {'stamp': made.stamp, 'view': view.view, 'newer': newer,
                                                        'changed': manifest.changed(view)},
                             lambda n=name, v=view: _built(n, v, env, flags, newer))
               for name, view in (made.views if made else {}).items()] + [distro]
    for entry in map(_plain, site_environments):
        answers.append(memory.recall(f'stated {system} {entry["name"]}', {'entry': entry},
                                     lambda e=entry: _modules(e, env, flags)))
    memory.keep()
    environs = _once([Environ.model_validate(answer['environ']) for answer in answers])
    notes = [note for answer in (*answers, found) for note in answer['notes']]
    installed = SpackFound.model_validate(found['spack']) if found['spack'] else None
    return Software(environs=environs, spack=installed, notes=notes,
                    announcement=announcement(environs, installed))


def _once(environs: list[Environ]) -> list[Environ]:
    """What Spack has built is measured with Spack's: the distribution's iperf3 would measure the machine again."""
    built = {feature for environ in environs if environ.provider == 'spack' for feature in environ.features}
    return [environ.model_copy(update={'features': [f for f in environ.features if f not in built]})
            if environ.provider == 'distro' else environ for environ in environs]


def _distro(env: Mapping[str, str], flags: frozenset[str]) -> _Answer:
    """Whatever lies on PATH: the distribution's packages, and what an operator put beside them."""
    seen = survey('distro', _DISTRO, env, flags)
    return _answer('distro', 'distro', [], seen, seen.sound)


def _built(name: str, view: manifest.View, env: Mapping[str, str], flags: frozenset[str], newer: str) -> _Answer:
    environ, notes = built.environ(view, env, flags, name, newer)
    library = environ.software.get('blas', {}).get('library')
    files = [library] if library else []
    return {'environ': environ.model_dump(), 'notes': notes}, bool(files) or not notes, files


def _modules(entry: dict[str, Any], env: Mapping[str, str], flags: frozenset[str]) -> _Answer:
    name, label = entry['name'], f'modules {entry["name"]}'
    known = [code for code in entry['codes'] if code in FEATURES]
    notes = [f'{label}: no way is known to try {code}: not offered'
             for code in entry['codes'] if code not in FEATURES]
    shell = modules.load(entry['modules'], env) if entry['modules'] else modules.Loaded(dict(env))
    if shell.env is None:
        nothing = Survey([], {}, {}, [*notes, f'{label}: {shell.why}: nothing offered'], False, [])
        return _answer(name, 'modules', entry['modules'], nothing, False)
    seen = survey(label, known, shell.env, flags)
    # what a module lacks may come with the next version of it, which no file here would betray
    whole = seen.sound and seen.features == known
    provider = 'modules' if entry['modules'] else 'distro'
    return _answer(name, provider, entry['modules'], seen._replace(notes=[*notes, *seen.notes]), whole)


def _spack(root: Path, env: Mapping[str, str]) -> _Answer:
    found, notes = spack.find(root, env)
    answer = {'spack': found.model_dump() if found else None, 'notes': notes}
    # asking again costs nothing where none is, and a broken one may have been mended elsewhere
    return answer, found is not None and not notes, spack.files(found.path) if found else []


def _answer(name: str, provider: str, loaded: list[str], seen: Survey, keep: bool) -> _Answer:
    environ = Environ(name=name, provider=provider, features=seen.features, modules=loaded,
                      env_vars=seen.env_vars, software=seen.software,
                      parts={feature: list(FEATURES[feature]) for feature in seen.features})
    return {'environ': environ.model_dump(), 'notes': seen.notes}, keep, seen.files


def _plain(entry: Any) -> dict[str, Any]:
    """A site's environment as a dictionary, whether it comes as one or as a model."""
    get = entry.get if isinstance(entry, Mapping) else lambda key: getattr(entry, key)
    return {'name': get('name'), 'modules': list(get('modules')), 'codes': list(get('codes'))}


def _code() -> int:
    """When what finds software was last changed: it may offer more by now."""
    return max(file.stat().st_mtime_ns for file in Path(__file__).parent.glob('*.py'))


def _key(env: Mapping[str, str], flags: frozenset[str]) -> dict[str, Any]:
    cpu = hashlib.sha256(' '.join(sorted(flags)).encode()).hexdigest()[:12]
    return {'parity': __version__, 'code': _code(), 'cpu': cpu, 'user': os.geteuid(),
            'variables': {name: env.get(name) for name in _VARIABLES}}


class _Memory:
    """Answers of earlier calls. What did not start is not kept but tried again each time; what is
    missing is looked for each time (the key says where every program lies)."""

    def __init__(self, file: Path | str | None, key: dict[str, Any]):
        self.file, self.key, self.changed = file, key, False
        kept = store.read(file, key) if file else None
        self.kept: dict[str, Any] = kept if isinstance(kept, dict) else {}

    def recall(self, name: str, key: dict[str, Any], ask: Callable[[], _Answer]) -> dict[str, Any]:
        """The kept answer if ``key`` and the files are as they were, else a new one."""
        kept = self.kept.get(name)
        try:
            if kept and kept['key'] == key and unchanged(kept['stamps']):
                return kept['answer']
        except (KeyError, TypeError, IndexError):       # written by another hand
            pass
        answer, keep, files = ask()
        self.changed |= keep or self.kept.pop(name, None) is not None
        if keep:
            self.kept[name] = {'key': key, 'stamps': stamps(files), 'answer': answer}
        return answer

    def keep(self) -> None:
        if self.file and self.changed:
            store.write(self.file, self.key, self.kept)
