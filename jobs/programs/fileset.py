"""Read a population of files of one size in random order on many nodes, and time it: Raicu's study of GPFS.

    mpirun -n 64 python3 files.py read --source FOLDER --bytes 1e6

Every rank writes its files, then reads those of a rank on the next node (in one node: its own), or copies them to
--destination with fsync of each. Every iteration has files of its own: none is read twice. With --seconds an
iteration ends with the first file after so many seconds. With --own-files a node that does not see the others'
files reads its own. The clock runs from barrier to barrier: the longest that any rank saw. A byte that is copied
counts once.
"""
import contextlib
import math
import os
import platform
import random
import re
import statistics
import time
from typing import NamedTuple

import filetools
from filetools import BLOCK, Trouble, drop, mount, opened, plain, remove, resident, say, write

POOL, STEP = 1048573, 4099              # primes: no two blocks of a file and no two of a million files are alike
LARGE = 1_000_000                       # bytes from which on the inode of a file hardly counts
SAMPLE = 16                             # files of a rank looked up in the page cache: a look warms the inode
OWN_CACHE = re.compile('gpfs|beegfs.*|fuse.*|panfs|wekafs|9p|virtiofs|unknown')     # mincore does not know


def partners(hosts):
    """(nodes, for every rank the one whose files it reads: each once, all on the next node if there is one)."""
    nodes = sorted(set(hosts), key=hosts.index)
    ring = sorted(range(len(hosts)), key=lambda rank: nodes.index(hosts[rank]))
    shift = 0
    if len(nodes) > 1:
        shift = max(hosts.count(node) for node in nodes)
    if 2 * shift > len(hosts):
        raise Trouble(2, f'one node has {shift} of {len(hosts)} ranks: '
                         'with more than half of them, not all can read what another node wrote')
    reads = {}
    for place, rank in enumerate(ring):
        reads[rank] = ring[(place + shift) % len(ring)]
    return len(nodes), [reads[rank] for rank in range(len(hosts))]


def order(seed, iteration, rank, files):
    return random.Random(f'{seed}/{iteration}/{rank}').sample(range(files), files)


class Job:
    """One run: its work and its places. Most methods are the work of one rank."""

    def __init__(self, options):
        self.options = options
        self.team = filetools.Team()
        self.copies = options.mode == 'read-write'
        self.places = [options.source]
        if self.copies:
            self.places.append(options.destination)
        self.hosts = [platform.node()]          # of each rank
        self.number = 0                         # of the iteration
        self.reads_own = False
        self.pools = {}                         # by rank
        self.tops = {}                          # the folder of the run in each place
        self.buffer = bytearray(options.chunk)

    def folder(self, place, rank, name):
        return os.path.join(self.tops[place], f'rank-{rank:05d}', name)

    def population(self, rank):
        return self.folder(self.options.source, rank, f'files-{self.number}')

    def source(self, rank, index):
        return os.path.join(self.population(rank), f'{index:07d}')

    def begin(self, index):
        """Return where in the pool a file of this iteration begins."""
        files_before = (self.number - 1) * self.options.files
        return (files_before + index) * STEP % POOL

    def copied(self, index):
        name = f'copies-{self.number}'
        return os.path.join(self.folder(self.options.destination, self.team.rank, name), f'{index:07d}')

    def pool(self, rank):
        """The bytes that files of a rank are made of; a chunk can begin anywhere in the first POOL."""
        if rank not in self.pools:
            chunk = self.options.chunk
            data = random.Random(f'{self.options.seed}/{rank}').randbytes(POOL)
            repeated = data * (2 + chunk // POOL)
            self.pools[rank] = memoryview(repeated[:POOL + chunk])
        return self.pools[rank]

    def sweep(self):
        """One rank of each node: remove what killed runs left."""
        for place in self.places:
            filetools.sweep(place)

    def unseen(self):
        """Return the places (0: source, 1: destination) where this node sees nothing of rank 0."""
        return [number for number, place in enumerate(self.places) if not os.path.isdir(self.tops[place])]

    def occupy(self, which, ranks):
        """Refuse what cannot fit with 5 % to spare for so many ranks, then make the folders of the run."""
        files = self.options.files
        blocks = -(-self.options.bytes // BLOCK)
        size = files * blocks * BLOCK
        for number in which:
            place = self.places[number]
            need = filetools.fit(place, self.places, ranks * size, ranks * (files + 3))
            filetools.claim(self.tops[place])
            filetools.reserve(self.tops[place], need)

    def enter(self):
        """Make this rank's folders."""
        for place in self.tops:
            try:
                os.mkdir(os.path.dirname(self.folder(place, self.team.rank, '')))
            except FileNotFoundError:
                raise Trouble(2, f'{plain(platform.node())} does not see in {plain(place)} what '
                                 f'{plain(self.hosts[0])} made there: it must be shared by the nodes') from None

    def populate(self):
        """Make the files of an iteration."""
        options, rank = self.options, self.team.rank
        folder, pool = self.population(rank), self.pool(rank)
        os.mkdir(folder)
        for index in range(options.files):
            with opened(self.source(rank, index), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
                for position in range(0, options.bytes, options.chunk):
                    begin = (self.begin(index) + position) % POOL
                    size = min(options.chunk, options.bytes - position)
                    write(handle, pool[begin:begin + size])
                os.fsync(handle)                        # a dirty page cannot be dropped
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        for tree in (folder, os.path.dirname(folder), self.tops[options.source]):
            filetools.sync(tree)

    def ready(self, writer, indices):
        """(pages cached, pages, files looked at) of the files to be read."""
        if self.copies:
            os.mkdir(os.path.dirname(self.copied(0)))
        cached = pages = files = 0
        for index in indices[:SAMPLE]:
            there, of_file = resident(self.source(writer, index))
            cached += there
            pages += of_file
            files += 1
        return cached, pages, files

    def good(self, path, writer, index, copy=None):
        """Read a file in chunks and write them to the copy; whether it has exactly what the writer wrote."""
        pool, buffer = self.pool(writer), self.buffer
        place, length, same = self.begin(index), 0, True
        with opened(path) as handle:
            count = os.readv(handle, [buffer])
            while count:
                piece = buffer if count == len(buffer) else buffer[:count]
                same = same and piece == pool[place:place + count]
                if copy is not None:
                    write(copy, memoryview(buffer)[:count])
                place = (place + count) % POOL
                length += count
                count = os.readv(handle, [buffer])
        return same and length == self.options.bytes

    def transfer(self, writer, indices):
        """The timed work: (files that were not what was written, files read or copied)."""
        wrong = done = 0
        until = self.team.met + (self.options.seconds or math.inf)
        for index in indices:
            source = self.source(writer, index)
            if self.copies:
                with opened(self.copied(index), os.O_WRONLY | os.O_CREAT | os.O_EXCL) as copy:
                    wrong += not self.good(source, writer, index, copy)
                    os.fsync(copy)
            else:
                wrong += not self.good(source, writer, index)
            done += 1
            if time.perf_counter() >= until:
                break
        return wrong, done

    def check(self, writer, indices):
        """Read the copies back, from the disk if the page cache lets go; the number of wrong ones."""
        if not self.copies:
            return 0
        wrong = 0
        for index in indices:
            drop(self.copied(index))
            wrong += not self.good(self.copied(index), writer, index)
        remove(os.path.dirname(self.copied(0)))
        return wrong

    def clean(self):
        """Remove what this rank made; the last rank removes the rest. Return what could not be removed."""
        left = []
        for top in self.tops.values():
            own = os.path.join(top, f'rank-{self.team.rank:05d}')
            remove(own)
            if os.path.lexists(own):
                left.append(plain(own))
            with contextlib.suppress(OSError):
                if not any(name.startswith('rank-') for name in os.listdir(top)):
                    remove(top)
        return left

    def close(self):
        """Remove the rest if NFS showed ranks that were gone."""
        if self.team.rank == 0:
            for top in self.tops.values():
                remove(top)

    def run(self):
        team = self.team
        if team.apart:
            raise Trouble(2, team.apart)
        self.hosts = team.step(platform.node)
        first = self.hosts.index(self.hosts[team.rank]) == team.rank    # of its node
        team.step(self.sweep if first else bool)
        name = team.step(filetools.unique)[0]
        self.tops = {place: os.path.join(place, name) for place in self.places}
        self.settle(first)
        nodes, reads = (len(set(self.hosts)), range(team.size)) if self.reads_own else partners(self.hosts)
        kind = header(self, nodes) if team.rank == 0 else ''
        team.step(self.enter)
        rows = [iterate(self, number, reads[team.rank]) for number in range(1, self.options.iterations + 1)]
        if team.rank == 0:
            caches(self, kind, rows)
            results(rows)
        wrong = sum(row.wrong for row in rows)
        if wrong:
            raise Trouble(1, f'{wrong} files read were not what was written')
        return 0

    def settle(self, first):
        """Make the folders of the run: rank 0 for all, the first rank of each node where its node sees none."""
        team, apart = self.team, set()
        every_place = range(len(self.places))
        if self.options.own_files:
            mine = self.hosts.count(self.hosts[team.rank])
            team.step(lambda: team.rank == 0 and self.occupy(every_place, mine))
            unseen = self.unseen()
            apart.update(*team.step(lambda: unseen))
            team.step(lambda: first and self.occupy(unseen, mine))
            self.reads_own = 0 in apart
        shared = [place for place in every_place if place not in apart]
        team.step(lambda: team.rank == 0 and self.occupy(shared, team.size))


class Figures(NamedTuple):
    """The figures of an iteration."""

    seconds: float
    rate: float                 # Mb/s
    ns_per_byte: float          # of a rank
    file_rate: float            # files a second


class Iteration(NamedTuple):
    """An iteration: its figures, files that were not what was written, and what was cached before."""

    figures: Figures
    wrong: int
    cached: int                 # pages of files that were looked at
    pages: int                  # of these files
    files: int


def iterate(job, number, writer):
    """Do one iteration, print and return it."""
    options, team, job.number = job.options, job.team, number
    indices = order(options.seed, number, team.rank, options.files)
    job.pool(writer)
    team.step(job.populate)
    cached = team.step(job.ready, writer, indices)
    team.meet(0)                        # without a pause: all ranks start as one
    start = team.met
    ends = team.step(job.transfer, writer, indices)
    seconds = round(max(team.step(lambda: team.met - start)), 9)
    wrong, files = sums(ends)
    _, own_files = ends[team.rank]
    wrong += sum(team.step(job.check, writer, indices[:own_files]))
    team.step(remove, job.population(team.rank))            # its reader is done, and the next needs its room
    moved = files * options.bytes
    figures = Figures(seconds, moved * 8 / seconds / 1e6, seconds * team.size / moved * 1e9, files / seconds)
    if team.rank == 0:
        say('iteration {} bytes {} files {} seconds {:.9f} rate {:.6f} Mb/s ns-per-byte {:.6f} file-rate {:.6f} '
            'wrong {}'.format(number, moved, files, *figures, wrong))
    return Iteration(figures, wrong, *sums(cached))


def sums(rows):
    """Return the sum of each column."""
    return [sum(column) for column in zip(*rows)]           # noqa: B905 (Python 3.9)


def caches(job, kind, rows):
    """Say what is known of the page cache; the worst iteration counts."""
    worst = max(rows, key=lambda row: row.cached / max(row.pages, 1))
    share = worst.cached / max(worst.pages, 1)
    why = f'{share:.1%} of the pages of {worst.files} files in memory'
    answer = 'no'
    if job.options.bytes < LARGE:
        answer = 'unknown'
        why += ', inodes not known'
    if share > 0.05:
        answer = 'yes'
    elif not worst.pages or OWN_CACHE.fullmatch(kind):
        answer, why = 'unknown', f'{kind} does not say'
    say(f'source cached: {answer}, {why}')


def header(job, nodes):
    """Say what runs where; return the file system of the source."""
    options, team = job.options, job.team
    mounts = [mount(place) for place in job.places]
    places = {}
    for name, place, (_, device) in zip(('source', 'destination'), job.places, mounts):     # noqa: B905
        places[name] = place, device
    facts = {'mode': options.mode, 'bytes': options.bytes, 'files': options.files, 'chunk': options.chunk,
             'seed': options.seed, 'iterations': options.iterations, 'ranks': team.size, 'nodes': nodes}
    if options.seconds:
        facts['time limit'] = options.seconds
    facts['launch'] = team.launch
    facts['read from'] = 'other node' if nodes > 1 and not job.reads_own else 'own'
    facts.update({'python': platform.python_version(), 'mpi4py': team.mpi4py, 'mpi': team.mpi})
    kinds = [kind for kind, _ in mounts]
    facts['source filesystem'] = kinds[0]
    facts['destination filesystem'] = kinds[1] if job.copies else 'none'
    filetools.begin('fileset', places, facts)
    return kinds[0]


def results(rows):
    for name, places in (('seconds', 9), ('rate', 6), ('ns_per_byte', 6), ('file_rate', 6)):
        middle = statistics.median(getattr(row.figures, name) for row in rows)
        say(f'{name} = {middle:.{places}f}')
    say(f'mismatches = {sum(row.wrong for row in rows)}')
    say(f'records = {len(rows)}')
    filetools.seal('fileset')


def whole(token):
    if not float(token).is_integer():
        raise ValueError
    return int(token) if token.isdecimal() else int(float(token))       # 1e9, too


def arguments(parser, words):
    parser.add_argument('--bytes', type=whole, required=True, help='size of every file')
    parser.add_argument('--files', type=whole, default=100, help='files of each rank (100)')
    parser.add_argument('--chunk', type=whole, default=32768, help='bytes of one read or write (32768)')
    parser.add_argument('--iterations', type=whole, default=3, help='each has files of its own (3)')
    parser.add_argument('--seconds', type=whole, default=0, help='end an iteration then (0: at the last file)')
    parser.add_argument('--own-files', action='store_true', help="read one's own files if no other's are seen")
    parser.add_argument('--seed', type=int, default=1)
    options = parser.parse_args(words)
    for name, least, most in (('bytes', 1, 1 << 50), ('files', 1, 10**6), ('chunk', 1, 1 << 30),
                              ('iterations', 1, 10**6), ('seconds', 0, 10**6), ('seed', 0, 1 << 53)):
        value = getattr(options, name)
        if not least <= value <= most:
            parser.error(f'--{name} {value}: must be {least} to {most}')
    return options
