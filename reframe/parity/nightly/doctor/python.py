"""Python and the packages that parity runs on."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sysconfig
from collections.abc import Iterator

from parity.base import paths
from parity.base.errors import INFRASTRUCTURE
from parity.nightly.doctor.model import Finding, lacking, note, ok

_MEND = 'ci/venv makes .venv anew where its lock has changed'


def findings() -> Iterator[Finding]:
    """The packages against requirements.lock: another version is another ReFrame than was tried."""
    lock = paths.root() / 'requirements.lock'
    always, pins = _pins(lock.read_text() if lock.exists() else '')
    there = {name: _version(name) for name in pins}
    absent = sorted(name for name in always if there[name] is None)
    other = sorted(f'{name} {version}, not {" or ".join(pins[name])}' for name, version in there.items()
                   if version is not None and version not in pins[name])
    if absent:
        yield lacking('python', f'packages that are not installed: {", ".join(absent)}', _MEND, INFRASTRUCTURE)
    elif not pins:
        yield note('python', f'{lock} is not there: which packages were tried is not known')
    elif other:
        yield note('python', f'packages of other versions than requirements.lock: {", ".join(other)}', _MEND)
    else:
        yield ok('python', f'{platform.python_version()}; {len(always)} packages as requirements.lock has them; '
                           f'ReFrame {_version("ReFrame-HPC")}')


def _pins(lock: str) -> tuple[set[str], dict[str, list[str]]]:
    """The packages that every Python needs, and the versions of all: some are for one Python or system only."""
    always, pins = set(), {}
    for name, version, condition in re.findall(r'^([A-Za-z0-9._-]+)==([^\s;\\]+)( *;)?', lock, re.MULTILINE):
        pins.setdefault(name, []).append(version)
        if not condition:
            always.add(name)
    return always, pins


def _version(name: str) -> str | None:
    """Of what is installed: setuptools, once imported, puts its own copies of other packages on sys.path."""
    folders = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]
    found = next(iter(importlib.metadata.distributions(name=name, path=folders)), None)
    return found.version if found else None
