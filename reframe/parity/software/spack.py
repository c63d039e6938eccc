"""Spack: where it is. What it has built, a later step says."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from parity.software.model import SpackFound
from parity.software.probe import attempt

#: Spack starts a Python of its own and reads its configuration, perhaps from a shared file system.
_TIMEOUT = 20.0


def candidates(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Where a Spack may be, in the order in which the first that starts is taken."""
    stated = env.get('SPACK_ROOT')
    places = [str(Path(stated, 'bin', 'spack')) if stated else None,
              shutil.which('spack', path=env.get('PATH')), str(root / '.spack' / 'bin' / 'spack')]
    yield from dict.fromkeys(place for place in places if place and os.access(place, os.X_OK))


def find(root: Path, env: Mapping[str, str]) -> tuple[SpackFound | None, list[str]]:
    """The first Spack that starts, and a sentence for each before it that does not."""
    notes = []
    stated = env.get('SPACK_ROOT')
    if stated and not Path(stated, 'bin', 'spack').exists():
        notes.append(f'SPACK_ROOT={stated} holds no bin/spack')
    for path in candidates(root, env):
        said = attempt([path, '--version'], env, _TIMEOUT)
        version = re.search(r'^(\d+\.\d[\w.]*)', said.out, re.MULTILINE) if said.ok else None
        if version:
            return SpackFound(path=path, version=version[1]), notes
        notes.append(f'Spack at {path} does not start: {said.why or "it prints no version"}')
    return None, notes


def files(path: str) -> list[str]:
    """Files that change with a Spack's release."""
    return [path, str(Path(path).resolve().parents[1] / 'lib' / 'spack' / 'spack' / '__init__.py')]
