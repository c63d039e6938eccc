"""Builds between two locks: what differs below one package, and an environment with a part of that.

A mixed environment asks for each package as one of the locks has it, so that Spack reuses what is built. It stands
beside those in use: results/software/SYSTEM/mixed/INCIDENT/HASH. mixed/installed.json has the hashes of what Spack
installed for any mixed environment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
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


def packages(folder: Path, root: str) -> dict[str, LockedPackage]:
    """Return the packages of a build's lock that ``root`` runs with, by name, and its compilers."""
    lock = spack.locked(folder)
    specs, virtuals = lock['concrete_specs'], dict[str, set[str]]()
    waiting = [own['hash'] for own in lock['roots'] if specs[own['hash']]['name'] == root]
    below, compilers = dict[str, Mapping[str, Any]](), dict[str, LockedPackage]()
    while waiting:
        spec = specs[waiting.pop()]
        below[spec['name']] = spec
        for edge in spec.get('dependencies', ()):
            about, name = edge['parameters'], edge['name']
            virtuals.setdefault(name, set()).update(about['virtuals'])
            if {*about['deptypes']} & {'link', 'run'}:
                waiting += [edge['hash']] if name not in below else []
            elif _LANGUAGES & {*about['virtuals']}:
                version = specs[edge['hash']]['version']
                compilers[f'%{name}'] = LockedPackage(f'%{name}@={version}', f'{name} {version}', _LANGUAGES)
    return compilers | {name: _package(spec, frozenset(virtuals.get(name, ()))) for name, spec in below.items()
                        if name not in _NOT_ASKED}


def _package(spec: Mapping[str, Any], provides: frozenset[str]) -> LockedPackage:
    version = spec['version']
    words = [f'{spec["name"]}@{"" if "=" in version else "="}{version}']
    for name, value in sorted(spec['parameters'].items()):
        if name in _FLAGS:
            words += [f'{name}="{" ".join(value)}"'] if value else []
        elif name != 'patches':
            words.append(_variant(name, value))
    return LockedPackage(' '.join(words), f'{spec["name"]} {version.rpartition("=")[2]}', provides,
                   not spec.get('external'))


def _variant(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f'{"+" if value else "~"}{name}'
    return f'{name}={",".join(map(str, value)) if isinstance(value, list) else value}'


def changes(before: Mapping[str, LockedPackage], now: Mapping[str, LockedPackage]) -> list[Swap]:
    """Return the packages that differ. One that provides what another did took its place."""
    gone, found = sorted(before.keys() - now.keys()), []
    for name in sorted(now):
        if name in before:
            alike = before[name].spec == now[name].spec
            found += [] if alike else [Swap((name,), _step(before[name], now[name]))]
            continue
        old = next((old for old in gone if before[old].provides & now[name].provides), '')
        gone = [each for each in gone if each != old]
        found.append(Swap(tuple(filter(None, (old, name))),
                            f'{before[old].text if old else "none"} -> {now[name].text}'))
    return found + [Swap((name,), f'{before[name].text} -> none') for name in gone]


def _step(before: LockedPackage, now: LockedPackage) -> str:
    """Return 'openblas 0.3.29 -> 0.3.30', or the words that differ where the version does not."""
    if before.text != now.text:
        return f'{before.text} -> {now.text.rpartition(" ")[2]}'
    old, new = (' '.join(word for word in one.spec.split() if word not in other.spec.split()) or 'none'
                for one, other in ((before, now), (now, before)))
    return f'{now.text}: {old} -> {new}'


def spec_of(root: str, before: Mapping[str, LockedPackage], now: Mapping[str, LockedPackage],
            taken: Collection[str]) -> str:
    """Return what to ask Spack for: the packages ``taken`` as they are now, all else as before."""
    chosen = {name: package for name, package in before.items() if name not in taken}
    chosen |= {name: now[name] for name in taken if name in now}
    compilers = ' '.join(chosen.pop(name).spec for name in sorted(chosen) if name.startswith('%'))
    words = {name: f'{package.spec} {compilers}'.strip() if package.compiled else package.spec
             for name, package in chosen.items()}
    return ' '.join([words.pop(root), *(f'^{spec}' for _, spec in sorted(words.items()))])


def folder(system: str) -> Path:
    return environment.of(system) / 'mixed'


def made(system: str, incident: str, from_: Path, spec: str, package: str) -> manifest.View:
    """Build the one spec with the other settings of a build, and return its view. Raises as a build does."""
    settings, _ = yamlfile.load(from_ / 'spack.yaml')
    text = yaml.safe_dump({'spack': {**settings['spack'], 'specs': [spec]}}, sort_keys=False)
    place = folder(system) / incident / identity.digest(text.encode())
    with environment.lock(system):
        done = place / 'view.json'
        if done.exists() and not manifest.changed(view := manifest.View.model_validate_json(done.read_text())):
            return view
        command = spack.chosen()
        files.update(place / 'spack.yaml', text)
        command.run(place, 'concretize', '--force')
        lock = spack.locked(place)
        needed = steps.packages(lock, [root['hash'] for root in lock['roots']])
        here = needed.keys() & {*command.ask(place, 'find', '--format', '{hash}').split()}
        _write_installed(system, _installed(system) | (needed.keys() - here))
        command.run(place, 'install', '--fail-fast', steps=steps.Steps(needed, here))
        view = build.proven(place, command.tools(place), {package})
        files.write(done, view.model_dump_json())
        return view


def _installed_file(system: str) -> Path:
    return folder(system) / 'installed.json'


def _installed(system: str) -> set[str]:
    """Return the hashes of packages that Spack installed for mixed builds alone, and that are not removed yet."""
    file = _installed_file(system)
    try:
        return set(_HASHES.validate_json(file.read_bytes())) if file.exists() else set()
    except ValueError:
        raise UsageError(f'{file}: no list of hashes; remove it, then Spack keeps these packages') from None


def _write_installed(system: str, hashes: Collection[str]) -> None:
    files.write(_installed_file(system), json.dumps(sorted(hashes)))


def builds(system: str) -> list[Path]:
    """Return the folders of the mixed builds. One behind a link is somebody else's: `prune` would remove it."""
    top = folder(system)
    found = (place.parent for place in top.glob('*/*/spack.yaml'))
    return sorted(place for place in found if place.resolve() == top.resolve() / place.relative_to(top))


def prune(system: str, used: Collection[str]) -> tuple[int, int]:
    """Remove the builds of all incidents but those ``used``, and the packages that Spack installed for these
    alone. Return how many builds, and the bytes of the packages. InfrastructureError where Spack refuses."""
    with environment.lock(system):
        gone = [place for place in builds(system) if place.parent.name not in used]
        if not gone:
            return 0, 0
        others = {*environment.of(system).glob('builds/*'), *builds(system)} - {*gone}
        needed = {number for place in others if (place / 'spack.lock').exists()
                  for number in spack.locked(place)['concrete_specs']}
        installed = _installed(system)
        size = _uninstall(installed - needed)
        _write_installed(system, installed & needed)
        for place in gone:
            shutil.rmtree(place)
        return len(gone), size


def _uninstall(hashes: Collection[str]) -> int:
    """Remove packages, where they are installed, and return their bytes."""
    command = spack.chosen()
    found = (line.split(maxsplit=1) for line in command.say(
        '--no-env', 'find', '--format', '{hash} {prefix}').splitlines())
    here = {number: Path(prefix) for number, prefix in found if number in hashes}
    size = sum(file.lstat().st_size for prefix in here.values() for file in prefix.rglob('*'))
    if here:
        command.say('--no-env', 'uninstall', '-y', *(f'/{number}' for number in here))
    return size


def facts(view: manifest.View, software: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a session would keep of a view, in the place of ``software``."""
    return json.loads(json.dumps({**software, 'view': view.view, 'packages': manifest.identities(view.packages)}))
