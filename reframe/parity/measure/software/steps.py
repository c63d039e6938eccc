"""The progress of an installation: which package of how many."""

from __future__ import annotations

from typing import Any


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
    """The ``packages`` of an installation, without those ``here`` already."""

    def __init__(self, packages: dict[str, str], here: set[str]):
        self._packages, self._begun = packages, dict[str, None]()
        self._left = packages.keys() - here

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
        self._begun[number] = None
        return self.line()

    def end(self, number: str) -> None:
        """Note that a package is built."""
        self._left.discard(number)
        self._begun.pop(number, None)

    def line(self) -> str:
        """Return a line on what is built now."""
        now = ', '.join(self._packages[number] for number in self._begun)
        return f'package {self.done + 1} of {self.total}: {now}' if now else ''
