"""The distribution's package that a file belongs to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from parity.software.probe import attempt


def owners(paths: Iterable[str]) -> dict[str, tuple[str, str]]:
    """path -> (package, version), for the paths that belong to one."""
    wanted = sorted(set(paths))
    if shutil.which('dpkg-query'):
        return _dpkg(wanted)
    if shutil.which('rpm'):
        return _rpm(wanted)
    return {}


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
    versions = {}
    for line in said.splitlines():
        full, _, rest = line.partition('\t')
        package, _, version = rest.partition('\t')
        versions[full] = versions[package] = package, version
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
