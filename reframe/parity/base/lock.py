"""A lock that ends with the process that holds it, and names its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from parity.base import paths
from parity.base.errors import InfrastructureError

#: The files whose locks this process holds.
_ours: set[Path] = set()


class Lock:
    """An exclusive lock on ``file`` (flock: a killed holder leaves nothing behind)."""

    def __init__(self, file: Path, what: str):
        self.file, self._fd = file, -1
        self._note = f'{what} (pid {os.getpid()} on {socket.gethostname()})'

    def acquire(self) -> None:
        """Take the lock or raise InfrastructureError naming who holds it."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fd = self._open(os.O_CREAT)
        except OSError as err:
            raise InfrastructureError(f'{self.file}: {err.strerror}') from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 200).decode(errors='replace').strip() or 'another process'
            os.close(fd)
            raise InfrastructureError(f'{self.file}: held by {holder}: it is measuring now') from None
        except OSError as err:
            os.close(fd)
            raise InfrastructureError(f'{self.file}: {err.strerror}: results need a file system with locks '
                                      '(PARITY_RESULTS; Lustre: mount option flock)') from None
        try:
            os.ftruncate(fd, 0)
            os.write(fd, f'{self._note}\n'.encode())
        except OSError:
            pass  # the note is for people; a full disk does not undo the lock
        self._fd = fd
        _ours.add(self.file)

    def _open(self, flags: int = 0) -> int:
        return os.open(self.file, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _ours.discard(self.file)

    def held_elsewhere(self) -> bool:
        """True while another process holds the lock."""
        if self.file in _ours:
            return False
        with contextlib.suppress(OSError):
            fd = self._open()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(fd)
        return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, which this process may have already. Raises as `acquire` does."""
        if self.file in _ours:
            yield
            return
        self.acquire()
        try:
            yield
        finally:
            self.release()


def of_system(system: str, what: str) -> Lock:
    """The lock that whatever measures on ``system`` holds."""
    return Lock(paths.results() / f'.session-{system}.lock', what)
