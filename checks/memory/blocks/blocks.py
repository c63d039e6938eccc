"""Memory in blocks of 1 B to 10 MB, read, written, and read and written, in order and in random order.

A kernel of ours (programs/blocks.c), compiled by the job; every thread has memory of its own, together four
times the caches. What was read is added up and what was written read back, and both compared. In random
order the next block does not depend on what was read: several misses are under way at once. `latency` is the time
of a block in a chain, where it does depend.
"""

from dataclasses import dataclass

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.base.codes import CACHE_MULTIPLE
from parity.base.figures import amount, figure
from parity.check import KERNEL_FIGURES, Kernel, Metric, Program, Read, Wrong, kernel, kernel_rate

BLOCKS = {'1B': 1, '8B': 8, '64B': 64, '1KB': 10**3, '10KB': 10**4, '100KB': 10**5, '1MB': 10**6, '10MB': 10**7}
# blocks that are run, seconds of each; by size
SIZES = {'quick': (('1B', '64B', '1MB'), 0.1), 'nightly': (tuple(BLOCKS), 0.5), 'acceptance': (tuple(BLOCKS), 3)}

#: The compiler and its flags stand above the kernel's own first line.
PROGRAM = Program('blocks', title=r'compiler: .+(?=\n.*flags: .+\n.*blocks 1 bytes \d+)')
#: How often an operation touches each byte of a block.
TOUCHES = {'read': 1, 'write': 1, 'update': 2}
_ROW = (rf'(?P<what>{"|".join(TOUCHES)}|chain) (?P<order>sequential|random) block (?P<block>\d+) '
        rf'threads (?P<threads>\d+) blocks (?P<blocks>\d+) {KERNEL_FIGURES} GB/s wrong 0')
LEAST = 64 << 20            # bytes of a thread: several blocks of the largest size, 10 MB
SHARE = 0.25                # of the memory, at most, for all threads
_PAGE = 4096


@rfm.simple_test
class Blocks(rfm.RunOnlyRegressionTest, Kernel):
    """Rates of all threads together; `update` reads and writes a block, and both count.

    ``blocks`` names the sizes to run. ``bytes`` is the memory of each thread, `4xcaches` what no cache holds.
    ``latency`` measures the time of each block in a chain of dependent loads, too."""

    kernel = 'blocks'
    in_memory = ('blocks', 'bytes')
    order = parameter(['sequential', 'random'], type=str)
    blocks = variable(typ.Str[rf'(({"|".join(BLOCKS)})(,({"|".join(BLOCKS)}))*)?'], value='')
    bytes = variable(typ.Str[r'4xcaches|[1-9]\d{0,8}(KB|MB|GB|KiB|MiB|GiB)'], value='4xcaches')
    latency = variable(typ.Bool, value=False)

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        # in random order, a cache may have held what comes again
        limit = 'memory_bandwidth' if self.order == 'sequential' else None
        rates = [f'{what}_{block}' for what in TOUCHES for block in BLOCKS]
        self.metrics = tuple(Metric(name, 'GB/s', 'higher', limit=limit) for name in rates)
        if self.latency:
            self.metrics += tuple(Metric(f'latency_{block}', 'ns', 'lower') for block in BLOCKS)
        self.sizes = self.blocks.split(',') if self.blocks else SIZES[self.size][0]

    def not_run(self):
        by = f'blocks={self.blocks}' if self.blocks else f'size={self.size}'
        left_out = [m.name for m in self.metrics if m.name.partition('_')[2] not in self.sizes]
        return dict.fromkeys(left_out, f'{by} runs blocks of {", ".join(self.sizes)}')

    @run_after('setup')
    def place(self):
        kinds = [*TOUCHES, 'chain'] if self.latency else [*TOUCHES]
        runs = [f'{what}:{BLOCKS[block]}' for what in kinds for block in self.sizes]
        self.run_kernel('--seconds', SIZES[self.size][1], '--order', self.order, *runs)
        self.caches = self.extra('llc_bytes')
        if self.count == 1:
            self.caches = self.extra('llc_one_bytes') or self.caches
        memory = self.extra('memory_bytes')
        asked = amount(self.bytes)
        self.walk = walk(self.count, self.caches, memory, int(asked[0]) if asked else None)
        if asked and memory and self.count * self.walk.bytes > memory:
            self.skip_case(f'bytes: {self.count} x {self.bytes}, a node has {figure(memory, "B")} of memory')
        too_large = [block for block in self.sizes if BLOCKS[block] > self.walk.bytes]
        if too_large:
            self.skip_case(f'bytes: {self.bytes} holds no block of {too_large[0]}')
        self.derive('walk', self.walk)
        self.executable_opts = ['--bytes', str(self.walk.bytes), *self.executable_opts]

    def parse(self, text):
        values, facts = read(text)
        asked = (self.count, self.order, self.walk.bytes)
        ran = facts['threads'], facts['order'], facts['bytes']
        if ran != asked:
            raise Wrong(f'ran threads, order, bytes {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], self.count * self.walk.bytes, self.caches)
        figures = {}
        for what in (*TOUCHES, 'latency'):
            for block in self.sizes:
                figures[f'{what}_{block}'] = values.get(f'{what}_{BLOCKS[block]}')
        return figures


def read(text: str) -> Read:
    """<read|write|update>_<block> in GB/s (10^9 bytes) of all threads, block in bytes; an update counts twice.
    latency_<block> in ns, of a block to each thread.
    Facts: compiler, flags, order, threads, bytes (of each thread)."""
    own = PROGRAM.output(text, fold=False).text
    each_bytes, rows, compiled = kernel(own, 'blocks', 'bytes', _ROW)
    names = {(row['what'], row['block']) for row in rows}
    settings = {(row['order'], row['threads']) for row in rows}
    if len(names) < len(rows) or len(settings) != 1:
        raise Wrong('the results are not of different runs in one order with as many threads')
    values: dict[str, float] = {}
    for row in rows:
        what, block, threads = row['what'], int(row['block']), int(row['threads'])
        rate = kernel_rate(row, TOUCHES.get(what, 1) * int(row['blocks']) * block)
        if what == 'chain':
            values[f'latency_{block}'] = threads * block / rate
        else:
            values[f'{what}_{block}'] = rate
    (order, threads), = settings
    return values, {**compiled, 'order': order, 'threads': int(threads), 'bytes': each_bytes}


@dataclass(frozen=True)
class Walk:
    """``bytes`` of each thread, and the sentence that explains the number."""

    bytes: int
    why: str


def walk(threads: int, cache_bytes: int | None, memory_bytes: int | None, asked: int | None = None) -> Walk:
    """Return the memory of each thread: all ``threads`` together walk over four times the caches that they use, or
    each over as many bytes as ``asked``, in whole pages.

    A power of two, in which blocks of powers of two come in random order without a search for the next.
    At most a quarter of the memory: where that is less than four times the caches, the figures are no
    figures of memory, and the check labels them. None: not known."""
    cache = cache_bytes or 0
    if asked:
        size = asked // _PAGE * _PAGE
        return Walk(size, f'{threads} x {size / 1e6:.4g} MB: as asked for')
    size = 1 << (max(LEAST, -(-CACHE_MULTIPLE * cache // threads)) - 1).bit_length()
    why = f'at least {CACHE_MULTIPLE} x {cache / 1e6:.4g} MB of last-level caches, 64 MiB a thread'
    if memory_bytes and threads * size > SHARE * memory_bytes:
        size = int(SHARE * memory_bytes / threads) // _PAGE * _PAGE
        why = f'{100 * SHARE:g} % of {memory_bytes / 1e9:.4g} GB of memory'
    return Walk(size, f'{threads} x {size / 1e6:.4g} MB: {why}')
