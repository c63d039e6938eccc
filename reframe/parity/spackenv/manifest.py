"""What a build made: the record that environments read, and that every result carries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from parity.spackenv import folder


class Package(BaseModel):
    """One root of the lock, and the binaries it brought."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    spec: str
    version: str
    hash: str            # Spack's DAG hash
    namespace: str
    compiler: str
    mpi: str
    blas: str
    target: str
    parameters: dict[str, Any]
    binaries: list[str]


class Manifest(BaseModel):
    """``stamp`` is of everything that decided the build; ``files`` of every binary, to notice a change."""

    model_config = ConfigDict(frozen=True, extra='forbid')

    stamp: str
    view: str
    packages: dict[str, Package]
    files: dict[str, list[int]]   # binary -> size in bytes, time of change in ns


def file_of(system: str) -> Path:
    return folder.of(system) / 'manifest.json'


def read(system: str) -> Manifest | None:
    """The manifest of the system's last build; None where nothing is built or it cannot be read."""
    try:
        return Manifest.model_validate_json(file_of(system).read_text())
    except (OSError, ValidationError):
        return None


def write(system: str, stamp: str, roots: dict[str, dict[str, Any]], names: dict[str, list[str]]) -> Manifest:
    """Write the manifest of a build whose binaries have been proven."""
    view = folder.of(system) / 'view' / 'bin'
    made = Manifest(stamp=stamp, view=str(view), files={n: _state(view / n) for ns in names.values() for n in ns},
                    packages={p: Package(**root, binaries=names[p]) for p, root in roots.items()})
    new = file_of(system).with_suffix('.new')
    new.write_text(made.model_dump_json(indent=1))
    os.replace(new, file_of(system))
    return made


def changed(built: Manifest) -> list[str]:
    """The binaries that are not what was built: absent, or of another size or time."""
    return [name for name, state in built.files.items() if _state(Path(built.view, name)) != state]


def _state(binary: Path) -> list[int]:
    try:
        found = os.stat(binary)
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
