"""Reading /proc and /sys below a root, where anything may be missing."""

from __future__ import annotations

from pathlib import Path

from parity.base import ranges


class Tree:
    """Files below ``root``; what cannot be read is None or empty, never an error."""

    def __init__(self, root: Path | str = '/'):
        self.root = Path(root)
        #: only the real root may be asked by other means than files (system calls, programs)
        self.real = self.root.resolve() == Path('/')

    def text(self, path: str) -> str | None:
        """The file's text without surrounding white space; None where it cannot be read."""
        try:
            return (self.root / path).read_text(errors='replace').strip().strip('\0')
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """The file's one whole number."""
        try:
            return int(self.text(path) or '')
        except ValueError:
            return None

    def cpus(self, path: str) -> frozenset[int]:
        """The cpus of a file such as ``0-3,8``."""
        return ranges.cpus(self.text(path) or '')

    def names(self, path: str, prefix: str = '') -> list[str]:
        """Names in a folder that are ``prefix`` and a number, in the order of the numbers."""
        found = (n for n in self.listing(path) if n.startswith(prefix) and n[len(prefix):].isdecimal())
        return sorted(found, key=lambda n: int(n[len(prefix):]))

    def listing(self, path: str) -> list[str]:
        """All names in a folder, sorted."""
        try:
            return sorted(p.name for p in (self.root / path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        try:
            return (self.root / path).exists()
        except OSError:
            return False
