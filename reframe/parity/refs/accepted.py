"""The accepted references of a system, one by one: where each stands, what it says, who accepted it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity.base import yamlfile
from parity.base.errors import UsageError
from parity.refs import provenance
from parity.refs.provenance import Provenance
from parity.refs.references import PROVENANCE
from parity.system import systems

if TYPE_CHECKING:                       # a verdict reads references without the history
    from parity.refs.nights import Cell


@dataclass(frozen=True)
class Accepted:
    """A reference as a file has it; ``index`` are the values that lead to it, by name (size, ...)."""

    system: str
    partition: str
    file: Path
    line: int
    check: str
    index: dict[str, str]
    metric: str
    value: float
    lower: float | None
    upper: float | None
    unit: str
    provenance: Provenance | None       # None: written by hand

    @property
    def path(self) -> str:
        """Its name in the file: FileCopy/quick/small-write/seconds."""
        return '/'.join((self.check, *self.index.values(), self.metric))

    @property
    def parameters(self) -> dict[str, str]:
        """Of the case, and variants."""
        return {name: value for name, value in self.index.items() if name not in ('size', '$environ')}

    @property
    def id(self) -> str:
        """The name of its cell, as far as the index says which one it is."""
        said = [f'%{name}={value}' for name, value in self.parameters.items()]
        where = '+'.join(filter(None, (self.partition, self.index.get('$environ'))))
        return f'{self.check}{"".join(said)}.{self.metric}@{self.system}:{where}'

    @property
    def where(self) -> str:
        return f'{self.file}:{self.line}: {self.path}'

    def is_of(self, cell: Cell) -> bool:
        """Whether ReFrame applies it to the runs of ``cell``."""
        has = cell.index
        return (self.partition, self.check, self.metric) == (cell.partition, cell.check, cell.metric) \
            and not cell.changed and all(has.get(name) == value for name, value in self.index.items())


@dataclass(frozen=True)
class Index:
    """What leads to the references of a check in a file, and where the file says so."""

    file: Path
    line: int
    names: tuple[str, ...]


def indexes(system: str) -> dict[tuple[str, str], Index]:
    """The $index of each check that the system's files have, by partition and check."""
    found = {}
    for file in systems.reference_files(system):
        data, node = yamlfile.load(file)
        for check, entry in (data if isinstance(data, dict) else {}).items():
            names = entry.get('$index') if isinstance(entry, dict) else None
            if check != PROVENANCE and isinstance(names, list):
                line = yamlfile.line_of(node, (check, '$index'))
                found[file.stem, str(check)] = Index(file, line, tuple(map(str, names)))
    return found


def of_system(system: str) -> list[Accepted]:
    """Every reference that is one; what is wrong with others, parity.refs.references says. Raises UsageError
    for a file that is no YAML, and for provenance that is none."""
    return [each for file in systems.reference_files(system) for each in of_file(system, file)]


def of_file(system: str, file: Path) -> list[Accepted]:
    """A verdict asks twice, and a file of a thousand references takes a second to read."""
    try:
        stat = file.stat()
    except OSError as err:
        raise UsageError(f'{file}: {err.strerror}') from None
    return list(_of_file(system, file, stat.st_mtime_ns, stat.st_size))


@functools.lru_cache(maxsize=16)
def _of_file(system: str, file: Path, _written: int, _size: int) -> tuple[Accepted, ...]:
    data, node = yamlfile.load(file)
    data = data if isinstance(data, dict) else {}
    told = data.get(PROVENANCE) or {}
    found = []
    for check, entry in data.items():
        index = entry.get('$index') if isinstance(entry, dict) else None
        if check == PROVENANCE or not isinstance(index, list):
            continue
        for keys, value in _leaves({k: v for k, v in entry.items() if k != '$index'}, len(index) + 1):
            if isinstance(value, list) and len(value) == 4:
                path = tuple(map(str, (check, *keys)))
                line = yamlfile.line_of(node, (check, *keys))
                where = dict(zip(map(str, index), path[1:-1], strict=True))
                found.append(Accepted(system, file.stem, file, line, path[0], where, path[-1], *value,
                                      provenance=_told(told, '/'.join(path))))
    return tuple(found)


def _told(told: Any, path: str) -> Provenance | None:
    """Its provenance; what is none is an error of the file, which parity.refs.references tells."""
    try:
        return provenance.of(told[path]) if path in told else None
    except (ValueError, TypeError):
        return None


def _leaves(level: Any, deep: int, keys: tuple = ()):
    """(keys, value) of everything ``deep`` levels down."""
    if not deep:
        yield keys, level
    elif isinstance(level, dict):
        for key, sub in level.items():
            yield from _leaves(sub, deep - 1, (*keys, key))
