"""Files that other processes read at any time, and locks that end with their process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from parity.base import paths
from parity.base.errors import InfrastructureError, UsageError


def write(file: Path, text: str | bytes) -> Path:
    """Write ``file`` aside and to the disk, then rename it. Keeps the permissions, makes the folder.

    Follows a link, except below results/ (`_place`)."""
    content = text.encode() if isinstance(text, str) else text
    with _replaced(file, content, to_the_disk=True) as place:
        return place


def update(file: Path, text: str) -> Path:
    """Do as ``write`` does, but leave a file alone that has this text already."""
    return file if file.exists() and file.read_bytes() == text.encode() else write(file, text)


def write_all(contents: dict[Path, bytes]) -> None:
    """Write all files aside before renaming the first; the one named first is renamed last."""
    with contextlib.ExitStack() as stack:
        for file, content in contents.items():
            stack.enter_context(_replaced(file, content))


@contextlib.contextmanager
def _replaced(file: Path, content: bytes, to_the_disk: bool = False) -> Iterator[Path]:
    """Write a file beside ``file`` that takes its place at the end; yields that place.

    An OSError without a name names ``file``. Others may write in the folder: nobody can know the name, and all
    goes through one descriptor."""
    file = _place(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f'.{file.name}.{secrets.token_hex(8)}')
    try:
        new_file = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(aside, new_file, 0o666), 'wb') as out:
            if file.exists():
                os.fchmod(out.fileno(), file.stat().st_mode & 0o777)
            out.write(content)
            out.flush()
            if to_the_disk:
                os.fsync(out.fileno())
        yield file
        os.replace(aside, file)
    except OSError as err:      # a full disk, found while writing, names no file
        if err.filename in (None, aside, str(aside)):
            err.filename = file
        raise
    finally:
        aside.unlink(missing_ok=True)


def _place(file: Path) -> Path:
    """Return where ``file`` is written: a link is followed, but none below results/, where others may write.

    There a link to a file is replaced, and a link to a folder elsewhere is an OSError."""
    results = paths.results()
    file = Path(os.path.abspath(file))
    if not file.is_relative_to(results):
        return file.resolve()
    folder = file.parent.resolve()
    if not folder.is_relative_to(results.resolve()):
        raise OSError(errno.ELOOP, 'lies behind a link: none below results/ is followed', str(file))
    return folder / file.name


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open('rb') as data:
        while block := data.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


#: The files whose locks this process holds.
_ours: set[Path] = set()


def _opened(file: Path, access: int) -> int:
    """Return the descriptor of a file to lock. The group that may write in its folder may take the lock, too,
    whatever the umask of who made it."""
    fd = os.open(file, access | os.O_CLOEXEC | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    status = os.fstat(fd)
    if status.st_uid == os.geteuid():
        of_group = stat.S_IMODE(file.parent.stat().st_mode) & 0o060
        os.fchmod(fd, stat.S_IMODE(status.st_mode) | of_group)
    return fd


class Lock:
    """An exclusive lock on ``file`` (flock: a killed holder leaves nothing behind)."""

    def __init__(self, file: Path, what: str):
        self.file, self._fd = file, -1
        self._note = f'{what} (pid {os.getpid()} on {socket.gethostname()})'

    def acquire(self) -> None:
        """Take the lock, or raise InfrastructureError naming who holds it."""
        fd, needs = -1, ''
        try:
            file = _place(self.file)
            file.parent.mkdir(parents=True, exist_ok=True)
            fd = _opened(file, os.O_RDWR)
            needs = ': results need a file system with locks (PARITY_RESULTS; Lustre: mount option flock)'
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            why = f'{err.strerror}{needs}'
            if isinstance(err, BlockingIOError):
                holder = os.read(fd, 200).decode(errors='replace').strip() or 'another process'
                why = f'held by {holder}: it is measuring now'
            if fd >= 0:
                os.close(fd)
            raise InfrastructureError(f'{self.file}: {why}') from None
        with contextlib.suppress(OSError):      # the note is for people; a full disk does not undo the lock
            os.ftruncate(fd, 0)
            os.write(fd, f'{self._note}\n'.encode())
        self._fd = fd
        _ours.add(self.file)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _ours.discard(self.file)

    def held_elsewhere(self) -> bool:
        """Return True while another process holds the lock."""
        if self.file in _ours:
            return False
        try:
            with self.file.open('r+b') as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            return isinstance(err, BlockingIOError)
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


@contextlib.contextmanager
def alone(file: Path, what: str) -> Iterator[int]:
    """Hold a lock on ``file``, once no other process does ``what``. Yields its descriptor, for children."""
    file = _place(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(_opened(file, os.O_WRONLY), 'w') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f'parity: waiting: another process {what} ({file})', flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def holders(file: Path) -> str:
    """Return which processes of this machine hold locks on ``file``: '4711 (python -m parity.cli verdict)'."""
    try:
        inode = f':{file.stat().st_ino}'
        locks = [line.split() for line in Path('/proc/locks').read_text().splitlines()]
    except OSError:
        return 'another process'
    pids = {fields[4] for fields in locks if fields[5].endswith(inode)}
    named = []
    for pid in sorted(pids - {str(os.getpid())}):
        try:
            command = Path(f'/proc/{pid}/cmdline').read_text(errors='replace')
        except OSError:
            continue
        words = ' '.join(command.replace('\0', ' ').split())
        named.append(f'{pid} ({words[:80]})')
    return f'process {", ".join(named)}' if named else 'another process, perhaps on another host'


def lock_of(system: str, what: str) -> Lock:
    """Return the lock that whatever measures on ``system`` holds."""
    return Lock(paths.results() / f'.session-{system}.lock', what)


def demand_file(file: Path) -> None:
    """Raise UsageError for what is there and no regular file, and for a link to nothing: it says which."""
    if file.is_symlink() and not file.exists():
        raise UsageError(f'{file}: a link to {os.readlink(file)}, which is not there; name a file')
    kinds = {'a FIFO': file.is_fifo, 'a socket': file.is_socket, 'a folder': file.is_dir,
             'a device': lambda: file.is_char_device() or file.is_block_device()}
    for kind, is_one in kinds.items():
        if is_one():
            raise UsageError(f'{file}: {kind}; must be a regular file')


def read(file: Path) -> bytes:
    """Return the bytes of a file. UsageError where it cannot be read."""
    try:
        return file.read_bytes()
    except (OSError, ValueError) as err:
        raise _unreadable(file, err) from None


def _unreadable(file: Path, err: OSError | ValueError) -> UsageError:
    """Return the error for a file that cannot be read. ValueError: its name has a null byte."""
    why = getattr(err, 'strerror', None) or err
    return UsageError(f'{file}: {why}; name a file that you may read')


def unpacked(file: Path, most: int) -> bytes:
    """Return the bytes of a file, unpacked if its name ends with .gz, and one more than ``most`` of a larger one.

    UsageError for a cut one, and for what is no regular file."""
    import gzip
    import zlib
    demand_file(file)
    try:
        with gzip.open(file) if file.suffix == '.gz' else file.open('rb') as opened:
            return opened.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as err:
        raise UsageError(f'{file}: this is no whole gzip file ({err}); copy it again') from None
    except (OSError, ValueError) as err:
        raise _unreadable(file, err) from None
