"""The progress of an installation: which package of how many, and the time left by what earlier builds took."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from parity.base import files
from parity.base.figures import duration


def packages(lock: dict[str, Any], roots: list[str]) -> dict[str, str]:
    """Return hash -> 'name version' of what Spack builds for these roots of a lock: no externals."""
    specs, found, waiting = lock['concrete_specs'], {}, list(roots)
    while waiting:
        spec = specs[number := waiting.pop()]
        if number not in found and not spec.get('external'):
            found[number] = f'{spec["name"]} {spec["version"].rpartition("=")[2]}'
            waiting += [dependency['hash'] for dependency in spec.get('dependencies', [])]
    return found


class Steps:
    """The ``packages`` of an installation, without those ``here`` already. The seconds that each takes are kept in
    ``file``, by name."""

    def __init__(self, packages: dict[str, str], here: set[str], file: Path):
        self._packages, self._file, self._began = packages, file, dict[str, float]()
        self._left = packages.keys() - here
        try:
            self._seconds = {name: float(value) for name, value in json.loads(file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):        # none is kept, or another hand wrote it
            self._seconds = {}

    @property
    def done(self) -> int:
        return self.total - len(self._left)

    @property
    def total(self) -> int:
        return len(self._packages)

    def begin(self, number: str) -> str:
        """Note that a package is begun. Return a line on it; '' for one that is not of this installation."""
        if number not in self._left:
            return ''
        self._began[number] = time.monotonic()
        return self.line()

    def end(self, number: str) -> None:
        """Note that a package is built, and how long it took."""
        self._left.discard(number)
        if began := self._began.pop(number, None):
            self._seconds[self._name(number)] = round(time.monotonic() - began, 1)
            files.write(self._file, json.dumps(self._seconds, indent=1, sort_keys=True))

    def line(self) -> str:
        """Return a line on what is built now, and on the time left."""
        now = ', '.join(self._packages[number] for number in self._began)
        return f'package {self.done + 1} of {self.total}: {now}{self._time_left()}' if now else ''

    def _time_left(self) -> str:
        new = [number for number in self._left if self._name(number) not in self._seconds]
        if len(new) == len(self._left):
            return ''
        now = time.monotonic()
        left = sum(max(self._seconds[self._name(number)] - (now - self._began.get(number, now)), 0)
                   for number in self._left - set(new))
        several = f', and {len(new)} never built here' if new else ''
        return f', about {duration(left)} left{several}'

    def _name(self, number: str) -> str:
        return self._packages[number].split()[0]
