"""A lock that ends with the process that holds it, and names its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from parity.errors import InfrastructureError


class Lock:
    """An exclusive lock on ``file`` (flock: a killed holder leaves nothing behind)."""

    def __init__(self, file: Path, what: str):
        self.file, self.what, self._fd = file, what, -1

    def acquire(self) -> None:
        """Take the lock or raise InfrastructureError naming who holds it."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as err:
            raise InfrastructureError(f'{self.file}: {err.strerror}') from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 200).decode(errors='replace').strip() or 'another process'
            os.close(fd)
            raise InfrastructureError(f'{self.file}: held by {holder}: it is measuring now') from None
        try:
            os.ftruncate(fd, 0)
            os.write(fd, f'{self.what} (pid {os.getpid()})\n'.encode())
        except OSError:
            pass  # the note is for people; a full disk does not undo the lock
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
