"""The progress of an installation: which package of how many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def below(lock: dict[str, Any], roots: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the specs of a lock that these roots need, and their own, by their hashes."""
    specs = lock['concrete_specs']
    needed = {}
    waiting = [*roots]
    while waiting:
        number = waiting.pop()
        if number not in needed:
            needed[number] = specs[number]
            waiting += [dependency['hash'] for dependency in specs[number].get('dependencies', ())]
    return needed


def packages(lock: dict[str, Any], roots: Iterable[str]) -> dict[str, str]:
    """Return hash -> 'name version' of what Spack builds for these roots of a lock: no externals."""
    names = {}
    for number, spec in below(lock, roots).items():
        if not spec.get('external'):
            names[number] = f'{spec["name"]} {spec["version"].rpartition("=")[2]}'
    return names


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
