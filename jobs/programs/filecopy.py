"""Copy and write files as 1 to n clients do, and time it: the file-system tests of Jungels (2012).

One large file copied, many 1 KiB files copied, or many 1 KiB files written. With --durable the clock stops
after fsync of every file and directory; without, where that of cp would. With --overwrite every pass but the first
writes into the files of the first, and what the last one wrote is read back. With --nodes N an MPI launcher starts
it on each of N nodes (needs mpi4py), and all clients begin together.
"""
import contextlib
import ctypes
import functools
import hashlib
import mmap
import os
import platform
import random
import signal
import statistics
import sys
import time
from multiprocessing.connection import Pipe, wait
from typing import NamedTuple

import filetools
from filetools import (
    BLOCK,
    CHUNK,
    STOPS,
    Team,
    Trouble,
    drop,
    mount,
    opened,
    plain,
    read,
    remove,
    resident,
    say,
    sync,
)

SMALL = 1024                            # bytes of a small file
IN_MEMORY = ('tmpfs', 'ramfs', 'devtmpfs')


# Clients: forked for one step, watched, killed when they hang. A process that a dead file system holds cannot
# even be killed: nothing here waits for one without limit, and what touches files is done by clients.

def fork(work, index, progress):
    """A client: (pid, the pipe to it). The child never returns into its leader's code."""
    ours, theirs = Pipe()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours

    def meet():
        """Wait for the other clients: the common start of what follows."""
        theirs.send(None)
        start = theirs.recv()
        time.sleep(max(0.0, start - time.perf_counter()))
        return start

    def tick():
        progress[index] += 1

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG: a killed leader leaves no clients
        theirs.send((work(index, meet, tick),))
    except Exception as error:
        theirs.send(f'client {index}: {type(error).__name__}: {error}')
    finally:
        os._exit(0)


def collect(pipes, progress, patience):
    """{client: its next word}, without those that made no progress for `patience` seconds."""
    words, seen, silent = {}, {}, dict(pipes)
    while silent:
        wait(silent.values(), min(0.5, patience / 4))
        now = time.perf_counter()
        for index, pipe in list(silent.items()):
            if pipe.poll():
                words[index] = silent.pop(index).recv()
                if isinstance(words[index], str):
                    raise Trouble(1, words[index])
                continue
            done, since = seen.get(index, (None, now))
            if progress[index] != done:
                seen[index] = progress[index], now
            elif now - since > patience:
                del silent[index]
    return words


def at_once(work, clients, patience, team):
    """{client: answer} of work(client, meet, tick) in forked clients, without those that hung. The clients of all
    nodes of a team meet."""
    progress = memoryview(mmap.mmap(-1, 8 * clients)).cast('Q')
    pids, running, answers = [], {}, {}

    def advance():
        try:
            words = collect(running, progress, patience)
        except (EOFError, ConnectionError):
            raise Trouble(1, 'a client died') from None
        answers.update((index, word[0]) for index, word in words.items() if word)
        for index in list(running):
            waits = index in words and not words[index]
            if not waits:                               # it answered, or hangs
                del running[index]
        return bool(running)

    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        for index in range(clients):
            pid, running[index] = fork(work, index, progress)
            pids.append(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        while any(team.step(advance)):
            start = time.perf_counter() + 0.005         # CLOCK_MONOTONIC: one clock for all processes
            for pipe in running.values():
                with contextlib.suppress(ConnectionError):      # a client died: the next step tells all nodes
                    pipe.send(start)
        return answers
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        for pid in pids:
            kill(pid)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def kill(pid):
    """End a client, and wait a while for its end."""
    os.kill(pid, signal.SIGKILL)                        # not reaped yet: the pid is still its own
    until = time.perf_counter() + 5
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.perf_counter() < until:
        time.sleep(0.001)


# Files. Content is an iterable of pieces: seeded, incompressible, no two files or chunks alike.

@functools.lru_cache(1)
def pool(seed, client):
    return memoryview(random.Random(f'{seed}/{client}').randbytes(CHUNK + SMALL))


def content(job, client, index):
    if not job.large:
        start = index * 4099 % CHUNK                    # an odd step: a million files before one repeats
        return [pool(job.seed, client)[start:start + SMALL]]
    return large_content(job, client)


def large_content(job, client):
    stream = random.Random(f'{job.seed}/{client}')
    for start in range(0, job.size, CHUNK):
        yield stream.randbytes(min(CHUNK, job.size - start))


def write(path, pieces, durable, tick, flag=os.O_EXCL):
    with opened(path, os.O_WRONLY | os.O_CREAT | flag) as handle:
        for piece in pieces:
            filetools.write(handle, piece)
            tick()
        if durable:
            os.fsync(handle)
    tick()


def spawn(*command):
    """Run a program, as the loop of a shell does; OSError where it fails."""
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(f'{command[0]} ended with {os.waitstatus_to_exitcode(status)}')


class Answer(NamedTuple):
    """The answer of a client that did an iteration."""

    seconds: float
    failures: list              # why files failed
    wrong: int                  # files that were not what was written
    cached: int                 # pages of its sources in the page cache before
    pages: int                  # of its sources


def digested(pieces, digest, tick):
    for piece in pieces:
        digest.update(piece)
        tick()
        yield piece


class Job:
    """One run: its work and its places. The methods that take a client are its work."""

    def __init__(self, options):
        self.options = options
        self.team = Team(mpi=options.nodes > 1)
        self.seed = f'{options.seed}/{self.team.rank}'
        self.large = options.mode == 'large-copy'
        self.copies = options.mode != 'small-write'
        self.files, self.size = (1, options.bytes) if self.large else (options.files, SMALL)
        clients = options.clients * (options.nodes or 1)
        self.data = self.files * self.size * clients        # bytes of one iteration
        self.places = [options.source, options.destination] if self.copies else [options.destination]
        name = filetools.unique()
        self.folders = {place: os.path.join(place, name) for place in self.places}
        self.sums = {}              # of the large sources
        self.shared = ''            # the folder of the one file of all clients

    def at_once(self, work):
        return at_once(work, self.options.clients, self.options.hang_seconds, self.team)

    def alone(self, work):
        """Answers of a work of one client of this node, which no other node waits for."""
        return at_once(work, 1, self.options.hang_seconds, Team(mpi=False))

    def source(self, client, index):
        if self.shared:
            return os.path.join(self.shared, 'source-0', f'{index:07d}')
        return os.path.join(self.folders[self.options.source], f'source-{client}', f'{index:07d}')

    def target(self, iteration, client):
        number = 1 if self.options.overwrite else iteration
        return os.path.join(self.folders[self.options.destination], f'iteration-{number}', f'client-{client}')

    def prepare(self, client, meet, tick):
        """Write the sources of a client; their digest."""
        if self.shared and (self.team.rank or client):
            return b''
        digest = hashlib.blake2b()
        folder = os.path.dirname(self.source(client, 0))
        os.mkdir(folder)
        for index in range(self.files):
            pieces = digested(content(self, client, index), digest, tick)
            write(self.source(client, index), pieces, False, tick)
        sync(folder, ctypes.CDLL(None).syncfs)          # a dirty page cannot be dropped
        return digest.digest()

    def transfer(self, iteration, client, meet, tick):
        """Do one iteration of a client; its Answer."""
        target, durable, failed = self.target(iteration, client), self.options.durable, {}
        buffer = memoryview(bytearray(CHUNK))

        def attempt(index, action, *arguments):
            try:
                action(*arguments)
            except OSError as error:
                failed.setdefault(index, error.strerror or str(error))

        attempt('folder', functools.partial(os.makedirs, exist_ok=True), target)
        attempt('folder', sync, os.path.dirname(target))
        pool(self.seed, client)
        cached, pages = self.uncache(client, tick)
        start = meet()
        for index in range(self.files):
            attempt(index, self.put, os.path.join(target, f'{index:07d}'), client, index, buffer, tick)
        if durable:
            attempt('folder', sync, target)
        seconds = time.perf_counter() - start
        meet()                                          # nobody verifies while another is timed
        wrong = 0
        if iteration == self.options.iterations or not self.options.overwrite:     # to read warms a cache
            for index in range(self.files):
                if index not in failed:
                    path = os.path.join(target, f'{index:07d}')
                    wrong += not self.good(path, client, index, buffer, tick)
            remove(target, tick)
        return Answer(seconds, list(failed.values()), wrong, cached, pages)

    def uncache(self, client, tick):
        """Let the page cache drop the sources of a client: (their pages that are still there, their pages)."""
        cached = pages = 0
        for index in range(self.files if self.copies else 0):
            source = self.source(client, index)
            with contextlib.suppress(OSError):
                drop(source)
            there, of_file = resident(source)
            cached += there
            pages += of_file
            tick()
        return cached, pages

    def put(self, path, client, index, buffer, tick):
        """Make or overwrite one file."""
        source = self.source(client, index) if self.copies else ''
        durable = self.options.durable
        if not self.options.process_a_file:
            pieces = read(source, buffer) if self.copies else content(self, client, index)
            write(path, pieces, durable, tick, os.O_TRUNC if self.options.overwrite else os.O_EXCL)
            return
        if self.copies:
            spawn('cp', '-f', source, path)
        else:
            spawn('dd', 'if=/dev/urandom', f'of={path}', f'bs={SMALL}', 'count=1', 'status=none')
        if durable:
            sync(path)
        tick()

    def good(self, path, client, index, buffer, tick):
        """Return whether a file has what was written."""
        digest = hashlib.blake2b()
        try:
            size = sum(map(len, digested(read(path, buffer), digest, tick)))
        except OSError:
            return False
        if size != self.size:
            return False
        if self.options.process_a_file and not self.copies:
            return True                                 # what dd takes from /dev/urandom nobody knows
        wanted = self.sums.get(client) or hashlib.blake2b(content(self, client, index)[0]).digest()
        return digest.digest() == wanted

    def clear(self, client, meet, tick):
        for own in self.folders.values():
            remove(own, tick)
        return [plain(own) for own in self.folders.values() if os.path.lexists(own)]

    def clean(self):
        return self.alone(self.clear)[0]

    def close(self):
        """Nothing is left to other ranks."""

    def run(self):
        """Refuse another number of nodes than asked for, then measure."""
        team, nodes = self.team, self.options.nodes or 1
        if team.apart:
            raise Trouble(2, team.apart)
        hosts = team.gather(platform.node())
        different = len(set(hosts))
        if different != nodes or len(hosts) != nodes:
            raise Trouble(2, f'{len(hosts)} ranks on {different} nodes, asked for one on each of {nodes}')
        team.step(self.occupy)
        team.step(self.fit, team.gather(list(self.folders.values())))
        return measure(self)

    def occupy(self):
        for place, own in self.folders.items():
            filetools.sweep(place)
            filetools.claim(own)

    def fit(self, tops):
        """Refuse what has no room. The clients of all nodes whose folders are here, of ``tops``, share it."""
        size = self.size if self.large else self.files * BLOCK
        for index, place in enumerate(self.folders):
            nodes = sum(os.path.isdir(top[index]) for top in tops)
            clients = self.options.clients * nodes
            filetools.fit(place, self.places, clients * size, clients * (self.files + 2))


class Iteration(NamedTuple):
    """An iteration of all clients."""

    seconds: float              # 0 unless all was written
    hung: int
    failed: int
    wrong: int
    share: float                # of the source pages that were cached before; -1: not known


# One run

def see(job):
    if not os.path.exists(job.source(0, 0)):
        raise Trouble(2, f'--one-file: {plain(job.options.source)} is not one folder for all nodes')


def iterate(job, number):
    """Do one iteration, print and return it."""
    if number > 1:
        time.sleep(job.options.pause)
    clients = range(job.options.clients)
    mine = job.at_once(functools.partial(job.transfer, number))
    if len(mine) < len(clients):                        # what a client that hangs left must not fill the disk
        job.alone(lambda client, meet, tick: remove(job.target(number, ''), tick))
    by_client = []
    for node in job.team.gather([mine.get(client) for client in clients]):
        by_client += node
    answers = [Answer(*answer) for answer in by_client if answer]
    hung = len(by_client) - len(answers)
    reasons = []
    for answer in answers:
        reasons += answer.failures
    for why in sorted(set(reasons)):
        print(f'iteration {number}: {plain(why)}', file=sys.stderr)
    seconds, took, rate = 0, '-', '-'
    if not hung and not reasons:
        seconds = round(max(answer.seconds for answer in answers), 9)
        took, rate = f'{seconds:.9f}', f'{job.data / seconds / 1e6:.6g}'
    say(f'iteration {number} client-max-seconds {took} aggregate-rate {rate} MB/s '
        f'hung {hung} failed {len(reasons)}')
    if job.options.nodes:
        say(f'iteration {number} clients {" ".join(map(time_of, by_client))}')
    wrong = sum(answer.wrong for answer in answers)
    pages = sum(answer.pages for answer in answers)
    share = sum(answer.cached for answer in answers) / pages if pages else -1
    return Iteration(seconds, hung, len(reasons), wrong, share)


def time_of(answer):
    """Return the seconds of a client as the output has them; '-' where it hung, or a file failed."""
    return f'{answer.seconds:.9f}' if answer and not answer.failures else '-'


def caches(job, kinds, share):
    """Say what is known of memory's part; share: source pages in it before the worst iteration, or -1."""
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    durable = job.options.durable
    exceeds = job.data > memory
    sizes = f'{job.data} bytes, {memory} bytes of memory'
    if job.copies:
        source, why = 'no' if exceeds else 'unknown', sizes
        if share >= 0:
            source, why = source_cached(job, share)
        say(f'source cached: {source}, {why}')
    if kinds[-1] in IN_MEMORY:
        durable, target, why = False, 'yes', f'{kinds[-1]} is memory'
    elif durable:
        target, why = 'no', 'the clock stopped after fsync'
    else:
        target, why = 'no' if exceeds else 'yes', sizes
    say(f'destination cached: {target}, {why}')
    say(f'destination durable: {"yes" if durable else "no"}')


def source_cached(job, share):
    """Return whether the source was cached (yes, no, unknown), and why."""
    why = f'{share:.1%} of its pages in this memory'
    if not job.large:
        why += ', inodes not known'
    if share > 0.05:
        return 'yes', why
    return 'no' if job.large else 'unknown', why


def results(job, rows):
    first_counts = not job.options.overwrite
    seconds = [row.seconds for row in rows[0 if first_counts else 1:] if row.seconds]
    say(f'timed = {len(seconds)}')
    if seconds:
        middle = statistics.median(seconds)
        say(f'seconds = {middle:.9f}')
        say(f'seconds_min = {min(seconds):.9f}')
        say(f'seconds_max = {max(seconds):.9f}')
        say(f'rate = {median_rate(job, seconds, 1e6):.6g}')
        if not job.large:
            say(f'file_rate = {median_rate(job, seconds, SMALL):.6g}')
    say(f'hangs = {sum(row.hung for row in rows)}')
    say(f'failed_writes = {sum(row.failed for row in rows)}')
    say(f'mismatches = {sum(row.wrong for row in rows)}')
    say(f'records = {len(rows)}')
    filetools.seal('filecopy')
    return 0 if seconds and not any(row.wrong for row in rows) else 1


def median_rate(job, seconds, unit):
    """Return the median rate of iterations, in units of so many bytes a second."""
    return statistics.median(job.data / of_iteration / unit for of_iteration in seconds)


def measure(job):
    """Write the sources, then do and print all iterations; the exit status."""
    options, mounts = job.options, [mount(place) for place in job.places]
    begin(job, mounts)
    if job.copies:
        write_sources(job)
    rows = [iterate(job, number) for number in range(1, options.iterations + 1)]
    caches(job, [kind for kind, _ in mounts], max(row.share for row in rows))
    return results(job, rows)


def begin(job, mounts):
    """Say what runs where."""
    options = job.options
    names = ('source', 'destination') if job.copies else ('destination',)
    places = {}
    for name, place, (_, device) in zip(names, job.places, mounts):     # noqa: B905 (Python 3.9)
        places[name] = place, device
    facts = {'mode': options.mode, 'variant': 'durable' if options.durable else 'as-is',
             'clients': options.clients, 'iterations': options.iterations, 'files': job.files,
             'file bytes': job.size, 'seed': options.seed, 'hang seconds': options.hang_seconds,
             'source filesystem': mounts[0][0] if job.copies else 'none', 'destination filesystem': mounts[-1][0]}
    if options.nodes:
        facts['nodes'] = options.nodes
    if options.one_file:
        facts['one file'] = 'yes'
    if options.overwrite:
        facts['overwrite'] = 'yes'
    if options.process_a_file:
        facts['process a file'] = 'yes'
    if options.pause:
        facts['pause'] = options.pause
    filetools.begin('filecopy', places, facts)


def write_sources(job):
    """Write the sources of all clients, and keep the digests of large ones."""
    options = job.options
    if options.one_file:
        job.shared = job.team.gather(job.folders[options.source])[0]
    sums = job.at_once(job.prepare)
    if min(job.team.gather(len(sums))) < options.clients:
        raise Trouble(1, f'no progress for {options.hang_seconds} s while the source was written')
    if job.shared:
        job.team.step(see, job)
        of_shared = job.team.gather(sums)[0][0]
        sums = dict.fromkeys(sums, of_shared)
    if job.large:
        job.sums = sums


def arguments(parser, words):
    parser.add_argument('--bytes', type=int, default=1 << 30, help='size of the large file (1 GiB)')
    parser.add_argument('--files', type=int, default=1000, help='1 KiB files of each client (1000)')
    parser.add_argument('--iterations', type=int, default=5)
    parser.add_argument('--clients', type=int, default=1, help='processes at once on this host')
    parser.add_argument('--nodes', type=int, default=0, help='an MPI launcher starts it on each, if above 1; '
                        'the seconds of every client are told')
    parser.add_argument('--one-file', action='store_true', help='all clients of all nodes copy one large file')
    parser.add_argument('--overwrite', action='store_true', help='write into the files of the first iteration')
    parser.add_argument('--process-a-file', action='store_true', help='a process for each file: cp -f, or dd')
    parser.add_argument('--pause', type=float, default=0.0, help='seconds between iterations, not timed (0)')
    parser.add_argument('--durable', action='store_true', help='stop the clock after fsync')
    parser.add_argument('--hang-seconds', type=float, default=300.0, help='a client without progress for so '
                        'long hangs and is killed; longer than any one fsync may take (300)')
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args(words)
    for name in ('bytes', 'files', 'iterations', 'clients', 'hang_seconds'):
        if not 0 < getattr(options, name) < 1 << (60 if name == 'bytes' else 31):
            parser.error(f'--{name.replace("_", "-")} {getattr(options, name)} is out of range')
    for name in ('nodes', 'pause'):
        if not 0 <= getattr(options, name) < 1 << 17:
            parser.error(f'--{name} {getattr(options, name)} is out of range')
    if options.overwrite and options.iterations < 2:
        parser.error('--overwrite needs at least 2 iterations')
    if options.mode == 'large-copy' and (options.overwrite or options.process_a_file):
        parser.error('--overwrite and --process-a-file are of small files')
    if options.mode != 'large-copy' and options.one_file:
        parser.error('--one-file is of the large copy')
    return options
