"""Reading /proc and /sys below a root, where anything may be missing."""

from __future__ import annotations

from pathlib import Path

#: Far above Linux's largest NR_CPUS (8192): a list beyond is no list of cpus.
_MOST_CPUS = 1 << 16


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
        return parse_cpus(self.text(path) or '')

    def names(self, path: str, prefix: str = '') -> list[str]:
        """Names in a folder that are ``prefix`` and a number, in the order of the numbers."""
        try:
            found = [p.name for p in (self.root / path).iterdir() if p.name.startswith(prefix)]
        except OSError:
            return []
        return sorted((n for n in found if n[len(prefix):].isdecimal()), key=lambda n: int(n[len(prefix):]))

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


def parse_cpus(text: str) -> frozenset[int]:
    """``0-3,8`` as {0, 1, 2, 3, 8}; empty where the text is no such list."""
    cpus: set[int] = set()
    try:
        for part in filter(None, text.split(',')):
            first, _, last = part.partition('-')
            if int(last or first) >= _MOST_CPUS:
                return frozenset()
            cpus.update(range(int(first), int(last or first) + 1))
    except ValueError:
        return frozenset()
    return frozenset(cpus)
