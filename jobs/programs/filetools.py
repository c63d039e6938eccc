"""Common parts of filecopy.py and fileset.py: troubles, sealed lines, file systems, the page cache, removal.

It lies beside them wherever they run (Linux, Python 3.9, standard library).
"""
import contextlib
import ctypes
import math
import mmap
import os
import platform
import re
import signal
import zlib

BLOCK = 4096                            # what a small file occupies on the usual file systems
MARGIN = 1.05                           # what cannot fit with 5 % to spare is refused
STOPS = (signal.SIGTERM, signal.SIGINT)
libc = ctypes.CDLL(None, use_errno=True)
sealed = []                             # the lines under the checksum: none with a host or a path


class Trouble(Exception):
    """Foreseeable: (exit status, one line), never a traceback."""


def say(line):
    sealed.append(line)
    print(line, flush=True)             # a run that is killed leaves what it had; no fork prints it again


def begin(program, places, options):
    """Say where it runs, above the checksum: {name: (folder, device)}; then the options."""
    print(f'host: {plain(platform.node())}')
    for name, (place, device) in places.items():
        print(f'{name}: {plain(place)}\n{name} device: {device}')
    say(f'{program}: start of results, format 1')
    for key, value in options.items():
        say(f'{key}: {value}')


def seal(program):
    print(f'crc32 = {zlib.crc32(chr(10).join(sealed).encode()):08x}\n{program}: end of results', flush=True)


def plain(text):
    return text.encode('unicode_escape').decode()       # one ASCII line, whatever a path is called


def mount(place):
    """(type, device) of the file system that holds a directory."""
    best, found = '', ('unknown', 'unknown')
    with contextlib.suppress(OSError), open('/proc/mounts', errors='surrogateescape') as mounts:
        for line in mounts:
            device, point, kind = line.split(' ')[:3]
            point = re.sub(r'\\([0-7]{3})', lambda code: chr(int(code[1], 8)), point)
            if f'{place}/'.startswith(point.rstrip('/') + '/') and len(point) >= len(best):
                best, found = point, (plain(kind), plain(device))
    return found


def room(place, places, size, files):
    """The bytes to have for ``size`` with 5 % to spare; refuses what a folder has no room for.

    Each of the ``places`` needs as much: those on one device need it together."""
    device, state = os.stat(place).st_dev, os.statvfs(place)
    alike = sum(os.stat(other).st_dev == device for other in places)
    size, files = alike * size, alike * files
    inodes = state.f_favail if state.f_files else math.inf              # 0: a file system that counts none
    for need, there, unit in ((size, state.f_bavail * state.f_frsize, 'bytes'), (files, inodes, 'inodes')):
        need = math.ceil(MARGIN * need)
        if need > there:
            raise Trouble(2, f'not enough space: needs {need} {unit}, {there} free on {plain(place)}')
    return math.ceil(MARGIN * size)


def write(handle, piece):
    while len(piece):
        piece = piece[os.write(handle, piece):]         # a disk that fills up takes a part first


@contextlib.contextmanager
def opened(path, flags=os.O_RDONLY):
    handle = os.open(path, flags, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)


def sync(folder, call=os.fsync):
    with opened(folder) as handle:
        call(handle)


def drop(path):
    """Ask the page cache to let go of a file."""
    with opened(path) as handle:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path):
    """(pages of a file in this node's page cache, pages of the file); (0, 0): nobody knows."""
    with contextlib.suppress(OSError), opened(path) as handle, \
            mmap.mmap(handle, 0, access=mmap.ACCESS_COPY) as pages:     # opened to write, it might take locks
        there = (ctypes.c_ubyte * -(-len(pages) // mmap.PAGESIZE))()
        view = (ctypes.c_char * len(pages)).from_buffer(pages)
        answer = libc.mincore(ctypes.byref(view), ctypes.c_size_t(len(pages)), there)
        del view                                        # or the mapping cannot be closed
        if answer == 0:
            return len(there) - bytes(there).count(0), len(there)
    return 0, 0


def remove(tree, tick=lambda: None):
    """Remove a tree as far as possible; ``tick`` is called for every file."""
    for folder, _, names in os.walk(tree, topdown=False):
        for name in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
            tick()
        with contextlib.suppress(OSError):
            os.rmdir(folder)
