"""Memory in blocks of 1 B to 10 MB, read, written, and read and written, in order and in random order.

A kernel of ours (programs/blocks.c), compiled by the job; every thread has memory of its own, together four
times the caches. What was read is added up and what was written read back, and both compared. In random
order the next block does not depend on what was read: several misses are under way at once.
"""

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.check import sizing
from parity.check.metric import Metric
from parity.check.threaded import Kernel
from parity.outputs import Wrong, blocks

BLOCKS = {'1B': 1, '8B': 8, '64B': 64, '1KB': 10**3, '10KB': 10**4, '100KB': 10**5, '1MB': 10**6, '10MB': 10**7}
# blocks that are run, seconds of each; by size
SIZES = {'quick': (('1B', '64B', '1MB'), 0.1), 'nightly': (tuple(BLOCKS), 0.5), 'acceptance': (tuple(BLOCKS), 3)}


@rfm.simple_test
class Blocks(rfm.RunOnlyRegressionTest, Kernel):
    """Rates of all threads together; `update` reads and writes a block, and both count."""

    kernel = 'blocks'
    order = parameter(['sequential', 'random'])

    @run_after('init')
    def declare(self):
        # in random order, a cache may have held what comes again
        limit = 'memory_bandwidth' if self.order == 'sequential' else None
        self.metrics = tuple(Metric(f'{what}_{block}', 'GB/s', 'higher', limit=limit)
                             for what in blocks.TOUCHES for block in BLOCKS)

    def not_run(self):
        run, why = SIZES[self.size][0], f'size={self.size} runs blocks of {", ".join(SIZES[self.size][0])}'
        return {m.name: why for m in self.metrics if m.name.partition('_')[2] not in run}

    @run_after('setup')
    def place(self):
        self.blocks, seconds = SIZES[self.size]
        runs = [f'{what}:{BLOCKS[block]}' for what in blocks.TOUCHES for block in self.blocks]
        self.run_kernel('--seconds', seconds, '--order', self.order, *runs)
        self.caches = (self.extra('llc_one_bytes') if self.count == 1 else None) or self.extra('llc_bytes')
        self.walk = sizing.walk(self.count, self.caches, self.extra('memory_bytes'))
        self.derive('walk', self.walk)
        self.executable_opts = ['--bytes', str(self.walk.bytes), *self.executable_opts]

    def parse(self, text):
        values, facts = blocks.read(text)
        asked = (self.count, self.order, self.walk.bytes)
        if (ran := tuple(facts[name] for name in ('threads', 'order', 'bytes'))) != asked:
            raise Wrong(f'ran threads, order, bytes {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], self.count * self.walk.bytes, self.caches)
        return {f'{what}_{block}': values.get(f'{what}_{BLOCKS[block]}')
                for what in blocks.TOUCHES for block in self.blocks}
