"""Read the files of one command within limits, and say how far it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from parity.base import files
from parity.base.errors import UsageError
from parity.base.figures import counted

#: Files that one command reads, and their bytes when unpacked; columns of a CSV.
FILES, BYTES, COLUMNS = 10_000, 1 << 28, 10_000


class Reading:
    """The files that one command has read. UsageError names the file at which a limit is passed."""

    def __init__(self) -> None:
        self.files, self.bytes, self.now = 0, 0, ''

    def listed(self, found: Iterable[Path]) -> list[Path]:
        """Return the files of a folder, sorted, where they are not too many."""
        files_of_folder = sorted(found)
        count = len(files_of_folder)
        if self.files + count > FILES:
            folder = files_of_folder[0].parent
            raise UsageError(f'{folder}: {count} files; must be at most {FILES}: name fewer at once')
        return files_of_folder

    def unpacked(self, file: Path) -> bytes:
        """Return the bytes of a file, unpacked if its name ends with .gz."""
        self._begin(file)
        raw = files.unpacked(file, BYTES - self.bytes)
        self._add(file, len(raw))
        return raw

    def count(self, found: Iterable[Path]) -> None:
        """Count files that somebody else reads as they are."""
        for file in found:
            self._begin(file)
            self._add(file, file.stat().st_size)

    def state(self) -> tuple[int, int, str]:
        """Return the progress (parity.base.console)."""
        return 0, 0, f'{counted(self.files, "file")}, {self.bytes / 1e6:.0f} MB read: {self.now}'

    def _begin(self, file: Path) -> None:
        self.now = file.name
        self.files += 1
        if self.files > FILES:
            raise UsageError(f'{file}: more than {FILES} files; name fewer at once')

    def _add(self, file: Path, size: int) -> None:
        self.bytes += size
        if self.bytes > BYTES:
            raise UsageError(f'{file}: more than {BYTES >> 20} MiB, unpacked and with the files before it; '
                             'name a part of the history')
