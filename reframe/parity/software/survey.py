"""A survey of programs: tried, identified, with the variables that they need."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from parity.base import codes, files
from parity.software import blas
from parity.software.blas import attempt
from parity.software.programs import Found, features, programs, root_variables


def paths(names: Collection[str], search: str | None) -> dict[str, str]:
    """Program -> where it lies on the search path; without those that are not there."""
    found = {name: shutil.which(name, path=search) for name in names}
    return {name: path for name, path in found.items() if path}


def survey(label: str, wanted: Collection[str], env: Mapping[str, str],
           flags: frozenset[str]) -> tuple[dict[str, Any], list[str], bool, list[str]]:
    """Probe the programs behind the ``wanted`` features. Return the fields of an Environ, notes, whether all that
    was found starts, and the files read, to notice a change."""
    env = {**env, **root_variables()}
    known, needed = programs(), {feature: features()[feature] for feature in wanted}
    names = list(dict.fromkeys(name for several in needed.values() for name in several))
    lying = paths(names, env.get('PATH'))
    found = {name: known[name].probe(path, env) for name, path in lying.items()}
    running = {name: probe for name, probe in found.items() if probe.ok}
    notes = [f'{label}: {name} is not here ({known[name].get})' for name in names if name not in lying]
    notes += [f'{label}: {lying[name]} does not start: {probe.why}'
              for name, probe in found.items() if not probe.ok]
    software, env_vars, files = _facts(label, running, env, flags, notes)
    offered = [feature for feature, several in needed.items() if all(name in running for name in several)]
    fields = {'features': offered, 'software': software, 'env_vars': env_vars,
              'parts': {feature: list(needed[feature]) for feature in offered}}
    return fields, notes, len(running) == len(lying), [*lying.values(), *files]


def _facts(label: str, running: Mapping[str, Found], env: Mapping[str, str], flags: frozenset[str],
           notes: list[str]) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    real = {name: os.path.realpath(probe.path or '') for name, probe in running.items()}
    using = next((code.executable for code in codes.every() if code.blas and code.executable in real), '')
    libraries = blas.loaded(real[using], env) if using else {}
    math, env_vars = _blas(label, using, libraries, env, flags, notes) if using else ({}, {})
    owned = owners([*real.values(), *filter(None, [math.get('library')])])
    facts: dict[str, Any] = {'programs': {
        name: {'path': path, 'version': running[name].version, **_package(owned.get(path)),
               'sha256': _sha256(path)}
        for name, path in real.items()}}
    if 'mpirun' in running:
        facts['mpi'] = {'name': running['mpirun'].name, 'version': running['mpirun'].version}
        env_vars |= root_variables()
    if math:
        facts['blas'] = math | _package(owned.get(math['library'])) | {'sha256': _sha256(math['library'])}
    return facts, env_vars, [*real.values(), *libraries.values()]


def _blas(label: str, program: str, libraries: Mapping[str, str], env: Mapping[str, str], flags: frozenset[str],
          notes: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    found = blas.library(libraries)
    if not found:
        notes.append(f'{label}: the BLAS of {program} is unknown: ldd shows none')
        return {}, {}
    name, path = found
    if name != 'OpenBLAS':
        if name == 'reference BLAS':
            notes.append(f'{label}: {program} uses the slow reference BLAS (Debian and Ubuntu: apt install '
                         'libopenblas0-pthread)')
        return {'name': name, 'version': None, 'library': path}, {}
    choice = blas.choose(path, flags, env)
    if choice.used is None:
        notes.append(f'{label}: which kernels OpenBLAS uses is unknown: {path} does not answer')
    elif choice.note:
        notes.append(f'{label}: {choice.note}')
    # one thread a rank; a check that wants more says so
    env_vars = {'OPENBLAS_NUM_THREADS': '1'} | ({'OPENBLAS_CORETYPE': choice.coretype} if choice.coretype else {})
    return {'name': name, 'version': choice.version, 'library': path, 'core': choice.used,
            'core_unaided': choice.unaided}, env_vars


def _package(owner: tuple[str, str] | None) -> dict[str, str | None]:
    package, version = owner or (None, None)
    return {'package': package, 'package_version': version}


def _sha256(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return files.sha256(Path(path))


def owners(paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """path -> (package, version), for the paths that belong to one."""
    ask = _dpkg if shutil.which('dpkg-query') else _rpm if shutil.which('rpm') else lambda _: {}
    return ask(sorted(set(paths)))


def _dpkg(paths: list[str]) -> dict[str, tuple[str, str]]:
    # dpkg knows a file by the path it was packed with, and /lib may be a link to /usr/lib since
    names = {name: path for path in paths for name in _spellings(path)}
    said = attempt(['dpkg-query', '-S', *names]).out        # exits 1 if only some are known
    found = {}
    for line in said.splitlines():
        packages, colon, name = line.partition(': ')
        if colon and name in names and not line.startswith(('diversion ', 'dpkg-query')):
            found.setdefault(names[name], packages.split(', ')[0])
    if not found:
        return {}
    said = attempt(['dpkg-query', '-W', '-f', '${binary:Package}\t${Package}\t${Version}\n', *found.values()]).out
    rows = [line.split('\t') for line in said.splitlines() if line.count('\t') == 2]
    versions = {name: (package, version) for full, package, version in rows for name in (full, package)}
    return {path: versions[package] for path, package in found.items() if package in versions}


def _spellings(path: str) -> list[str]:
    real = os.path.realpath(path)
    both = [path, real]
    return both + [p.removeprefix('/usr') for p in both if p.startswith('/usr/')] + [
        '/usr' + p for p in both if p.startswith(('/bin/', '/sbin/', '/lib'))]


def _rpm(paths: list[str]) -> dict[str, tuple[str, str]]:
    found = {}
    for path in paths:
        said = attempt(['rpm', '-qf', '--qf', '%{NAME}\t%{VERSION}-%{RELEASE}\n', os.path.realpath(path)])
        package, tab, version = said.out.partition('\n')[0].partition('\t')
        if said.ok and tab:
            found[path] = package, version
    return found
