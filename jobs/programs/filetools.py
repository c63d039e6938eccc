"""Common parts of filecopy.py, fileset.py and filetransfer.py: troubles, sealed lines, own folders, the page
cache, removal, and the ranks of a run."""
import contextlib
import ctypes
import errno
import io
import math
import mmap
import os
import pickle
import platform
import re
import signal
import sys
import time
import uuid
import zlib

import room

BLOCK = 4096                            # what a small file occupies on the usual file systems
CHUNK = 1 << 20                         # bytes of a read or write
STOPS = (signal.SIGTERM, signal.SIGINT)
TASKS = ('OMPI_COMM_WORLD_SIZE', 'MV2_COMM_WORLD_SIZE', 'PMI_SIZE', 'SLURM_STEP_NUM_TASKS')
PATIENCE = 20.0                         # s, for other ranks to clean up
LEADER = os.getpid()
libc = ctypes.CDLL(None, use_errno=True)
sealed = []                             # the lines under the checksum: none with a host or a path


class Trouble(Exception):
    """Foreseeable: (exit status, one line), never a traceback."""


def stop(number, frame):
    if os.getpid() != LEADER:
        os._exit(1)                     # the clean-up is the leader's
    raise SystemExit(128 + number)


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
    checksum = zlib.crc32('\n'.join(sealed).encode())
    print(f'crc32 = {checksum:08x}\n{program}: end of results', flush=True)


def plain(text):
    return text.encode('unicode_escape').decode()       # one ASCII line, whatever a path is called


def mount(place):
    """(type, device) of the file system that holds a directory."""
    return tuple(map(plain, room.mount(place)[1:]))


# Folders of our own, which no killed run leaves for ever

def sweep(place):
    """Remove what killed runs left; refuse a place that is no directory."""
    if not os.path.isdir(place):
        raise Trouble(2, f'not a directory: {plain(place)}')
    with writing(place):
        room.sweep(place)


@contextlib.contextmanager
def writing(place):
    """Refuse a place where this cannot be done."""
    try:
        yield
    except OSError as error:
        raise Trouble(2, f'cannot write in {plain(place)}: {error.strerror}') from None


def unique():
    """The name of one run's folder."""
    return f'parity-files-{uuid.uuid4()}'


def claim(top):
    """Make a run's folder, and note which process it belongs to."""
    with writing(os.path.dirname(top)):
        os.makedirs(top, 0o700, exist_ok=True)
        room.note_owner(top, os.getpid())


def fit(place, places, size, files):
    """The bytes to have for ``size`` with 5 % to spare; refuses what a folder has no room for.

    Each of the ``places`` needs as much: those on one device need it together."""
    device = os.stat(place).st_dev
    alike = sum(os.stat(other).st_dev == device for other in places)
    try:
        room.free(place, alike * size, alike * files)
    except room.Refused as refused:
        raise Trouble(2, plain(str(refused))) from None
    return math.ceil(room.SPARE * alike * size)


def reserve(top, need):
    """Refuse what a quota does not let in, where the file system can say so before anything is written."""
    path = os.path.join(top, f'reserve-{os.getpid()}')
    with writing(os.path.dirname(top)):
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
            failed = libc.fallocate(handle, 0, ctypes.c_int64(0), ctypes.c_int64(need))
            why = ctypes.get_errno() if failed else 0
        os.unlink(path)
    if why in (errno.EDQUOT, errno.ENOSPC):
        raise Trouble(2, f'not enough space: {need} bytes on {plain(top)}: {os.strerror(why)}')


# Files

def write(handle, piece):
    while len(piece):
        piece = piece[os.write(handle, piece):]         # a disk that fills up takes a part first


def read(path, buffer):
    # read and write, not copy_file_range, sendfile or a reflink: where a file system shares blocks or copies
    # on the server, these move no data through this host, and it is the data path that is measured.
    with open(path, 'rb', buffering=0) as reader:
        count = reader.readinto(buffer)
        while count:
            yield buffer[:count]
            count = reader.readinto(buffer)


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
        size = len(pages)
        flags = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()          # one a page: in the cache or not
        view = (ctypes.c_char * size).from_buffer(pages)
        failed = libc.mincore(ctypes.byref(view), ctypes.c_size_t(size), flags)
        del view                                        # or the mapping cannot be closed
        if not failed:
            return len(flags) - bytes(flags).count(0), len(flags)
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


class Team:
    """The ranks of this run. All wait by polling: within MPI, a signal would be seen too late to clean up."""

    def __init__(self, mpi=True):
        self.comm, self.rank, self.size = None, 0, 1
        self.met = 0.0                  # when all were in one place last
        self.left = False               # another rank has
        self.mpi4py = self.mpi = 'none'
        self.launch = 'one rank'
        self.apart = ''                 # why the ranks do not know of one another
        if not mpi:
            return
        tasks = launched()
        why = 'no launcher'
        try:
            self.join()
        except ImportError:
            why = 'mpi4py is absent'
        except RuntimeError:                            # a wheel of mpi4py looks for MPI when it is imported
            why = 'mpi4py finds no MPI library'
        self.launch = 'mpi' if self.comm and (tasks or self.size > 1) else f'one rank, {why}'
        if tasks > 1 and self.size == 1:
            if self.comm:
                why = 'mpi4py is built for the MPI of another launcher'
            self.apart = f'the launcher started {tasks} tasks, but each is a run of its own: {why}'

    def join(self):
        """Become one of the ranks that a launcher started."""
        import mpi4py
        from mpi4py import MPI
        self.comm = MPI.COMM_WORLD
        self.mpi4py = mpi4py.__version__
        name = re.split('[,\n]', MPI.Get_library_version())[0]
        self.mpi = ' '.join(name.split())
        self.rank, self.size = self.comm.rank, self.comm.size
        self.farewell = self.comm.Dup()

    def wait(self, request, pause=1e-4):
        """Wait for the other ranks; Trouble when one has left."""
        while not request.Test():
            if self.farewell.Iprobe():
                self.left = True
                raise Trouble(1, f'rank {self.rank} ends because another one did')
            time.sleep(pause)
        self.met = time.perf_counter()

    def meet(self, pause=1e-4):
        if self.comm:
            self.wait(self.comm.Ibarrier(), pause)
        self.met = time.perf_counter()

    def gather(self, answer):
        """The answers of all ranks, on every rank; nobody has them before all have answered."""
        if not self.comm:
            self.meet()
            return [answer]
        data = pickle.dumps(answer)
        sizes = bytearray(8 * self.size)
        self.wait(self.comm.Iallgather(len(data).to_bytes(8, sys.byteorder), sizes))
        met = self.met
        counts = list(memoryview(sizes).cast('Q'))
        pickles = bytearray(sum(counts))
        self.wait(self.comm.Iallgatherv(data, [pickles, counts]))
        self.met = met
        stream = io.BytesIO(pickles)
        return [pickle.load(stream) for _ in counts]

    def step(self, work, *arguments):
        """The answers of all ranks; what fails on one is Trouble on all, so that none waits for ever."""
        answer, trouble = None, None
        try:
            answer = work(*arguments)
        except Trouble as error:
            trouble = error.args
        except (OSError, MemoryError) as error:
            why = str(error) or type(error).__name__
            trouble = 1, plain(f'rank {self.rank} on {platform.node()}: {why}')
        of_ranks = self.gather((answer, trouble))
        for _, trouble_of_rank in of_ranks:
            if trouble_of_rank:
                raise Trouble(*trouble_of_rank)
        return [answer_of_rank for answer_of_rank, _ in of_ranks]

    def leave(self, status):
        """End out of step with the other ranks: tell them, and give them time to clean up."""
        if self.size == 1:
            return
        others = [rank for rank in range(self.size) if rank != self.rank]
        messages = [self.farewell.isend(None, rank) for rank in others]
        request = self.farewell.Ibarrier()
        until = time.monotonic() + PATIENCE
        while not request.Test():
            time.sleep(0.01)
            if time.monotonic() > until:
                self.comm.Abort(status)
        del messages                    # MPI needs them until here
        os._exit(status)                # MPI's own end would wait for barriers that were left


def launched():
    """Return how many tasks the launcher started, as it tells them; 0 without one."""
    for name in TASKS:
        value = os.environ.get(name, '')
        if value.isdecimal():
            return int(value)
    return 0
