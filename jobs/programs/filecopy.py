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
    said, seen, silent = {}, {}, dict(pipes)
    while silent:
        wait(silent.values(), min(0.5, patience / 4))
        now = time.perf_counter()
        for index, pipe in list(silent.items()):
            if pipe.poll():
                said[index] = silent.pop(index).recv()
                if isinstance(said[index], str):
                    raise Trouble(1, said[index])
            elif index not in seen or progress[index] != seen[index][0]:
                seen[index] = progress[index], now
            elif now - seen[index][1] > patience:
                del silent[index]
    return said


def at_once(work, clients, patience, team):
    """{client: answer} of work(client, meet, tick) in forked clients, without those that hung. The clients of all
    nodes of a team meet."""
    progress, pids, running, answers = memoryview(mmap.mmap(-1, 8 * clients)).cast('Q'), [], {}, {}

    def advance():
        try:
            words = collect(running, progress, patience)
        except (EOFError, ConnectionError):
            raise Trouble(1, 'a client died') from None
        answers.update((index, word[0]) for index, word in words.items() if word)
        for index in list(running):
            if words.get(index, True):                  # it answered, or hangs
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
            os.kill(pid, signal.SIGKILL)                # not reaped yet: the pid is still its own
            until = time.perf_counter() + 5
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.perf_counter() < until:
                time.sleep(0.001)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


# Files. Content is an iterable of pieces: seeded, incompressible, no two files or chunks alike.

@functools.lru_cache(1)
def pool(seed, client):
    return memoryview(random.Random(f'{seed}/{client}').randbytes(CHUNK + SMALL))


def content(job, client, index):
    if not job.large:
        start = index * 4099 % CHUNK                    # an odd step: a million files before one repeats
        return [pool(job.seed, client)[start:start + SMALL]]
    stream = random.Random(f'{job.seed}/{client}')
    return (stream.randbytes(min(CHUNK, job.size - start)) for start in range(0, job.size, CHUNK))


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
    if status := os.waitpid(os.posix_spawnp(command[0], command, os.environ), 0)[1]:
        raise OSError(f'{command[0]} ended with {os.waitstatus_to_exitcode(status)}')


def digested(pieces, digest, tick):
    for piece in pieces:
        digest.update(piece)
        tick()
        yield piece


class Job:
    """One run: its work and its places. The methods that take a client are its work."""

    def __init__(self, options):
        self.team = team = Team(mpi=options.nodes > 1)
        self.seed = f'{options.seed}/{team.rank}'
        self.options, self.large = options, options.mode == 'large-copy'
        self.copies = options.mode != 'small-write'
        self.files, self.size = (1, options.bytes) if self.large else (options.files, SMALL)
        self.data = self.files * self.size * options.clients * (options.nodes or 1)  # of one iteration
        self.places = [options.source, options.destination] if self.copies else [options.destination]
        name = filetools.unique()
        self.folders = {place: os.path.join(place, name) for place in self.places}
        self.sums, self.shared = {}, ''         # of the large sources; the folder of the one file of all clients

    def at_once(self, work):
        return at_once(work, self.options.clients, self.options.hang_seconds, self.team)

    def alone(self, work):
        """Answers of a work of one client of this node, which no other node waits for."""
        return at_once(work, 1, self.options.hang_seconds, Team(mpi=False))

    def source(self, client, index):
        own, client = (self.shared, 0) if self.shared else (self.folders[self.options.source], client)
        return os.path.join(own, f'source-{client}', f'{index:07d}')

    def target(self, iteration, client):
        folder = f'iteration-{1 if self.options.overwrite else iteration}'
        return os.path.join(self.folders[self.options.destination], folder, f'client-{client}')

    def prepare(self, client, meet, tick):
        if self.shared and (self.team.rank or client):
            return b''
        digest, folder = hashlib.blake2b(), os.path.dirname(self.source(client, 0))
        os.mkdir(folder)
        for index in range(self.files):
            pieces = digested(content(self, client, index), digest, tick)
            write(self.source(client, index), pieces, False, tick)
        sync(folder, ctypes.CDLL(None).syncfs)          # a dirty page cannot be dropped
        return digest.digest()

    def transfer(self, iteration, client, meet, tick):
        """One iteration: (seconds, why files failed, wrong files, source pages cached, of how many)."""
        target, durable, failed = self.target(iteration, client), self.options.durable, {}
        buffer, kept = memoryview(bytearray(CHUNK)), [(0, 0)]

        def attempt(index, action, *arguments):
            try:
                action(*arguments)
            except OSError as error:
                failed.setdefault(index, error.strerror or str(error))

        attempt('folder', functools.partial(os.makedirs, exist_ok=True), target)
        attempt('folder', sync, os.path.dirname(target))
        pool(self.seed, client)
        for index in range(self.files if self.copies else 0):
            with contextlib.suppress(OSError):
                drop(self.source(client, index))
            kept.append(resident(self.source(client, index)))
            tick()
        start = meet()
        for index in range(self.files):
            attempt(index, self.put, os.path.join(target, f'{index:07d}'), client, index, buffer, tick)
        if durable:
            attempt('folder', sync, target)
        seconds = time.perf_counter() - start
        meet()                                          # nobody verifies while another is timed
        last = iteration == self.options.iterations or not self.options.overwrite     # to read warms a cache
        wrong = sum(not self.good(os.path.join(target, f'{index:07d}'), client, index, buffer, tick)
                    for index in range(self.files) if last and index not in failed)
        if last:
            remove(target, tick)
        return seconds, list(failed.values()), wrong, *map(sum, zip(*kept))     # noqa: B905 (Python 3.9)

    def put(self, path, client, index, buffer, tick):
        """Make or overwrite one file."""
        source, durable = self.source(client, index) if self.copies else '', self.options.durable
        if not self.options.process_a_file:
            pieces = read(source, buffer) if self.copies else content(self, client, index)
            write(path, pieces, durable, tick, os.O_TRUNC if self.options.overwrite else os.O_EXCL)
            return
        spawn(*(('cp', '-f', source, path) if self.copies else
                ('dd', 'if=/dev/urandom', f'of={path}', f'bs={SMALL}', 'count=1', 'status=none')))
        if durable:
            sync(path)
        tick()

    def good(self, path, client, index, buffer, tick):
        digest = hashlib.blake2b()
        try:
            size = sum(map(len, digested(read(path, buffer), digest, tick)))
        except OSError:
            return False
        if self.options.process_a_file and not self.copies:
            return size == self.size                    # what dd takes from /dev/urandom nobody knows
        wanted = self.sums.get(client) or hashlib.blake2b(content(self, client, index)[0]).digest()
        return size == self.size and digest.digest() == wanted

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
        if (len(set(hosts)), len(hosts)) != (nodes, nodes):
            raise Trouble(2, f'{len(hosts)} ranks on {len(set(hosts))} nodes, asked for one on each of {nodes}')
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
            clients = self.options.clients * sum(os.path.isdir(top[index]) for top in tops)
            filetools.fit(place, self.places, clients * size, clients * (self.files + 2))


# One run

def see(job):
    if not os.path.exists(job.source(0, 0)):
        raise Trouble(2, f'--one-file: {plain(job.options.source)} is not one folder for all nodes')


def iterate(job, number):
    """Print one iteration; (seconds, 0 unless all was written; hung; failed; wrong; share cached)."""
    if number > 1:
        time.sleep(job.options.pause)
    mine, clients = job.at_once(functools.partial(job.transfer, number)), range(job.options.clients)
    if len(mine) < len(clients):                        # what a client that hangs left must not fill the disk
        job.alone(lambda client, meet, tick: remove(job.target(number, ''), tick))
    every = [answer for node in job.team.gather([mine.get(client) for client in clients]) for answer in node]
    answers = [answer for answer in every if answer]
    hung, reasons = len(every) - len(answers), [why for answer in answers for why in answer[1]]
    for why in sorted(set(reasons)):
        print(f'iteration {number}: {plain(why)}', file=sys.stderr)
    seconds = 0 if hung or reasons else round(max(answer[0] for answer in answers), 9)
    took, rate = (f'{seconds:.9f}', f'{job.data / seconds / 1e6:.6g}') if seconds else '--'
    say(f'iteration {number} client-max-seconds {took} aggregate-rate {rate} MB/s '
        f'hung {hung} failed {len(reasons)}')
    if job.options.nodes:
        told = (f'{answer[0]:.9f}' if answer and not answer[1] else '-' for answer in every)
        say(f'iteration {number} clients {" ".join(told)}')
    wrong, stayed, pages = (sum(answer[column] for answer in answers) for column in (2, 3, 4))
    return seconds, hung, len(reasons), wrong, stayed / pages if pages else -1


def caches(job, kinds, share):
    """Say what is known of memory's part; share: source pages in it before the worst iteration, or -1."""
    memory, durable = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'), job.options.durable
    exceeds, sizes = job.data > memory, f'{job.data} bytes, {memory} bytes of memory'
    source, why = 'no' if exceeds else 'unknown', sizes
    if share >= 0:
        source = 'yes' if share > 0.05 else 'no' if job.large else 'unknown'
        why = f'{share:.1%} of its pages in this memory' + ('' if job.large else ', inodes not known')
    if job.copies:
        say(f'source cached: {source}, {why}')
    target, why = ('no', 'the clock stopped after fsync') if durable else ('no' if exceeds else 'yes', sizes)
    if kinds[-1] in IN_MEMORY:
        durable, target, why = False, 'yes', f'{kinds[-1]} is memory'
    say(f'destination cached: {target}, {why}')
    say(f'destination durable: {"yes" if durable else "no"}')


def results(job, rows):
    seconds = [row[0] for row in rows[job.options.overwrite:] if row[0]]
    say(f'timed = {len(seconds)}')
    if seconds:
        for name, pick in (('seconds', statistics.median), ('seconds_min', min), ('seconds_max', max)):
            say(f'{name} = {pick(seconds):.9f}')
        for name, unit in (('rate', 1e6), ('file_rate', SMALL))[:1 if job.large else 2]:
            say(f'{name} = {statistics.median(job.data / each / unit for each in seconds):.6g}')
    for column, name in enumerate(('hangs', 'failed_writes', 'mismatches'), 1):
        say(f'{name} = {sum(row[column] for row in rows)}')
    say(f'records = {len(rows)}')
    filetools.seal('filecopy')
    return 0 if seconds and not any(row[3] for row in rows) else 1


def measure(job):
    options, mounts = job.options, [mount(place) for place in job.places]
    kinds = [kind for kind, _ in mounts]
    names = ('source', 'destination')[0 if job.copies else 1:]
    places = zip(names, job.places, mounts)                             # noqa: B905
    filetools.begin('filecopy', {name: (place, device) for name, place, (_, device) in places}, {
        'mode': options.mode, 'variant': 'durable' if options.durable else 'as-is', 'clients': options.clients,
        'iterations': options.iterations, 'files': job.files, 'file bytes': job.size, 'seed': options.seed,
        'hang seconds': options.hang_seconds, 'source filesystem': kinds[0] if job.copies else 'none',
        'destination filesystem': kinds[-1],
        **({'nodes': options.nodes} if options.nodes else {}),
        **({'one file': 'yes'} if options.one_file else {}),
        **({'overwrite': 'yes'} if options.overwrite else {}),
        **({'process a file': 'yes'} if options.process_a_file else {}),
        **({'pause': options.pause} if options.pause else {})})
    if job.copies:
        job.shared = job.team.gather(job.folders[options.source])[0] if options.one_file else ''
        sums = job.at_once(job.prepare)
        if min(job.team.gather(len(sums))) < options.clients:
            raise Trouble(1, f'no progress for {options.hang_seconds} s while the source was written')
        if job.shared:
            job.team.step(see, job)
            sums = dict.fromkeys(sums, job.team.gather(sums)[0][0])
        job.sums = sums if job.large else {}
    rows = [iterate(job, number) for number in range(1, options.iterations + 1)]
    caches(job, kinds, max(row[4] for row in rows))
    return results(job, rows)


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
