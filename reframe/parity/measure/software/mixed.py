"""Builds between two locks: what differs below one package, and an environment with a part of that.

A mixed environment asks for each package as one of the locks has it, so that Spack reuses what is built. It stands
beside those in use: results/software/SYSTEM/mixed/INCIDENT/HASH. mixed/installed.json has the hashes of what Spack
installed for any mixed environment."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter

from parity.base import files, yamlfile
from parity.base.errors import UsageError
from parity.measure.software import build, environment, manifest, spack, steps
from parity.site import identity

_LANGUAGES = frozenset(('c', 'cxx', 'fortran'))
_FLAGS = ('cflags', 'cxxflags', 'fflags', 'cppflags', 'ldflags', 'ldlibs')
#: Spack adds these by itself.
_NOT_ASKED = ('gcc-runtime', 'glibc', 'intel-oneapi-runtime')
_HASHES = TypeAdapter(list[str])


class LockedPackage(NamedTuple):
    """A package of a lock as Spack takes it on a command line, and how a person reads it. A compiler has a name
    that begins with %."""

    spec: str
    text: str
    provides: frozenset[str] = frozenset()
    compiled: bool = False


class Swap(NamedTuple):
    """A difference between two locks. ``names`` are two where one package took the other's place."""

    names: tuple[str, ...]
    text: str


class _Below:
    """The packages of a lock that some roots run with, their virtual packages, and the compilers."""

    def __init__(self, specs: Mapping[str, Any]):
        self._specs = specs
        self.packages: dict[str, Mapping[str, Any]] = {}
        self.provides: dict[str, set[str]] = defaultdict(set)
        self.compilers: dict[str, LockedPackage] = {}

    def follow(self, roots: Iterable[str]) -> None:
        waiting = [*roots]
        while waiting:
            waiting += self._add(self._specs[waiting.pop()])

    def _add(self, spec: Mapping[str, Any]) -> list[str]:
        """Add a package. Return the hashes of those that it runs with, and that are new."""
        self.packages[spec['name']] = spec
        found = []
        for edge in spec.get('dependencies', ()):
            name = edge['name']
            virtuals = set(edge['parameters']['virtuals'])
            self.provides[name] |= virtuals
            if {'link', 'run'} & set(edge['parameters']['deptypes']):
                if name not in self.packages:
                    found.append(edge['hash'])
            elif virtuals & _LANGUAGES:
                version = self._specs[edge['hash']]['version']
                self.compilers[f'%{name}'] = LockedPackage(f'%{name}@={version}', f'{name} {version}', _LANGUAGES)
        return found


def packages(folder: Path, root: str) -> dict[str, LockedPackage]:
    """Return the packages of a build's lock that ``root`` runs with, by name, and its compilers."""
    lock = spack.locked(folder)
    specs = lock['concrete_specs']
    numbers = [own['hash'] for own in lock['roots']]
    below = _Below(specs)
    below.follow(number for number in numbers if specs[number]['name'] == root)
    locked = dict(below.compilers)
    for name, spec in below.packages.items():
        if name not in _NOT_ASKED:
            locked[name] = _package(spec, frozenset(below.provides[name]))
    return locked


def _package(spec: Mapping[str, Any], provides: frozenset[str]) -> LockedPackage:
    name, version = spec['name'], spec['version']
    exactly = '' if '=' in version else '='
    words = [f'{name}@{exactly}{version}']
    for parameter, value in sorted(spec['parameters'].items()):
        if parameter in _FLAGS:
            if value:
                words.append(f'{parameter}="{" ".join(value)}"')
        elif parameter != 'patches':
            words.append(_variant(parameter, value))
    text = f'{name} {version.rpartition("=")[2]}'
    return LockedPackage(' '.join(words), text, provides, compiled=not spec.get('external'))


def _variant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f'+{name}' if value else f'~{name}'
    if isinstance(value, list):
        value = ','.join(map(str, value))
    return f'{name}={value}'


def changes(before: Mapping[str, LockedPackage], now: Mapping[str, LockedPackage]) -> list[Swap]:
    """Return the packages that differ. One that provides what another did took its place."""
    gone = sorted(before.keys() - now.keys())
    swaps = []
    for name in sorted(now):
        new = now[name]
        if name in before:
            if before[name].spec != new.spec:
                swaps.append(Swap((name,), _step(before[name], new)))
            continue
        replaced = [old for old in gone if before[old].provides & new.provides]
        if replaced:
            old = replaced[0]
            gone.remove(old)
            swaps.append(Swap((old, name), f'{before[old].text} -> {new.text}'))
        else:
            swaps.append(Swap((name,), f'none -> {new.text}'))
    swaps += [Swap((name,), f'{before[name].text} -> none') for name in gone]
    return swaps


def _step(before: LockedPackage, now: LockedPackage) -> str:
    """Return 'openblas 0.3.29 -> 0.3.30', or the words that differ where the version does not."""
    if before.text != now.text:
        return f'{before.text} -> {now.text.rpartition(" ")[2]}'
    return f'{now.text}: {_words_beyond(before, now)} -> {_words_beyond(now, before)}'


def _words_beyond(package: LockedPackage, other: LockedPackage) -> str:
    """Return the words of a package's spec that the other's has not."""
    others = other.spec.split()
    words = [word for word in package.spec.split() if word not in others]
    return ' '.join(words) or 'none'


def spec_of(root: str, before: Mapping[str, LockedPackage], now: Mapping[str, LockedPackage],
            taken: Collection[str]) -> str:
    """Return what to ask Spack for: the packages ``taken`` as they are now, all else as before."""
    chosen = {name: package for name, package in before.items() if name not in taken}
    chosen |= {name: now[name] for name in taken if name in now}
    compilers = [chosen[name].spec for name in sorted(chosen) if name.startswith('%')]
    specs = {}
    for name, package in sorted(chosen.items()):
        if not name.startswith('%'):
            words = [package.spec, *compilers] if package.compiled else [package.spec]
            specs[name] = ' '.join(words)
    own = specs.pop(root)
    return ' '.join([own, *(f'^{spec}' for spec in specs.values())])


def folder(system: str) -> Path:
    return environment.of(system) / 'mixed'


def made(system: str, incident: str, from_: Path, spec: str, package: str) -> manifest.View:
    """Build the one spec with the other settings of a build, and return its view. Raises as a build does."""
    settings, _ = yamlfile.load(from_ / 'spack.yaml')
    text = yaml.safe_dump({'spack': {**settings['spack'], 'specs': [spec]}}, sort_keys=False)
    place = folder(system) / incident / identity.digest(text.encode())
    file = place / 'view.json'
    with environment.lock(system):
        if file.exists():
            view = manifest.View.model_validate_json(file.read_text())
            if not manifest.changed(view):
                return view
        command = spack.chosen()
        files.update(place / 'spack.yaml', text)
        command.run(place, 'concretize', '--force')
        lock = spack.locked(place)
        needed = steps.packages(lock, [root['hash'] for root in lock['roots']])
        here = needed.keys() & build.hashes_here(command, place)
        _write_installed(system, _installed(system) | (needed.keys() - here))
        command.run(place, 'install', '--fail-fast', steps=steps.Steps(needed, here))
        view = build.proven(place, command.tools(place), {package})
        files.write(file, view.model_dump_json())
        return view


def _installed_file(system: str) -> Path:
    return folder(system) / 'installed.json'


def _installed(system: str) -> set[str]:
    """Return the hashes of packages that Spack installed for mixed builds alone, and that are not removed yet."""
    file = _installed_file(system)
    if not file.exists():
        return set()
    try:
        return set(_HASHES.validate_json(file.read_bytes()))
    except ValueError:
        raise UsageError(f'{file}: no list of hashes; remove it, then Spack keeps these packages') from None


def _write_installed(system: str, hashes: Collection[str]) -> None:
    files.write(_installed_file(system), json.dumps(sorted(hashes)))


def builds(system: str) -> list[Path]:
    """Return the folders of the mixed builds. One behind a link is somebody else's: `prune` would remove it."""
    top = folder(system)
    real_top = top.resolve()
    places = [file.parent for file in top.glob('*/*/spack.yaml')]
    return sorted(place for place in places if place.resolve() == real_top / place.relative_to(top))


def prune(system: str, used: Collection[str]) -> tuple[int, int]:
    """Remove the builds of all incidents but those ``used``, and the packages that Spack installed for these
    alone. Return how many builds, and the bytes of the packages. InfrastructureError where Spack refuses."""
    with environment.lock(system):
        gone = [place for place in builds(system) if place.parent.name not in used]
        if not gone:
            return 0, 0
        others = {*environment.of(system).glob('builds/*'), *builds(system)} - {*gone}
        needed = set()
        for place in others:
            if (place / 'spack.lock').exists():
                needed.update(spack.locked(place)['concrete_specs'])
        installed = _installed(system)
        size = _uninstall(installed - needed)
        _write_installed(system, installed & needed)
        for place in gone:
            shutil.rmtree(place)
        return len(gone), size


def _uninstall(hashes: Collection[str]) -> int:
    """Remove packages, where they are installed, and return their bytes."""
    command = spack.chosen()
    prefixes = {}
    for line in command.say('--no-env', 'find', '--format', '{hash} {prefix}').splitlines():
        number, prefix = line.split(maxsplit=1)
        if number in hashes:
            prefixes[number] = Path(prefix)
    size = 0
    for prefix in prefixes.values():
        size += sum(file.lstat().st_size for file in prefix.rglob('*'))
    if prefixes:
        command.say('--no-env', 'uninstall', '-y', *(f'/{number}' for number in prefixes))
    return size


def facts(view: manifest.View, software: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a session would keep of a view, in the place of ``software``."""
    facts = {**software, 'view': view.view, 'packages': manifest.identities(view.packages)}
    return json.loads(json.dumps(facts))
