"""BabelStream 5.0 with OpenMP (Deakin et al., 2018): four kernels and a dot product, arrays sized at run time."""

import math

import reframe as rfm
from babelstream_output import ARRAYS, PROGRAM, read  # noqa: F401
from reframe.core.builtins import run_after

from parity.base.codes import CACHE_MULTIPLE
from parity.check import Metric, Threaded, Wrong

# how often each kernel runs; by size
TIMES = {'quick': 20, 'nightly': 100, 'acceptance': 1000}
LEAST, STEP = 32_000_000, 1_000_000                                 # elements: 256 MB, and a size printed exactly


@rfm.simple_test
class BabelStream(rfm.RunOnlyRegressionTest, Threaded):
    """Arrays of four times the last-level caches, at least 256 MB, at most a tenth of the memory each."""

    metrics = tuple(Metric(kernel.lower(), 'GB/s', 'higher', limit='memory_bandwidth') for kernel in ARRAYS)

    @run_after('setup')
    def place(self):
        self.spread_threads()
        caches = int(self.extra('llc_bytes') or 0)
        self.elements = elements(caches, self.extra('memory_bytes'))
        self.executable = self.program('omp-stream')
        # it tells a failed validation on standard error, and exits with 0
        self.executable_opts = [f'-s {self.elements} -n {TIMES[self.size]} 2>&1']

    def parse(self, text):
        values, facts = read(text)
        ran = (facts['array_bytes'], facts['times'])
        asked = (8 * self.elements, TIMES[self.size])
        if ran != asked:
            raise Wrong(f'ran array bytes, times {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], facts['array_bytes'], self.extra('llc_bytes'))
        return {kernel: rate / 1000 for kernel, rate in values.items()}     # BabelStream prints MB/s


def elements(llc_bytes, memory_bytes):
    """Return the elements of an array, in whole STEPs: by the caches, within a tenth of the memory.

    Where the memory is unknown, it is LEAST."""
    caches = math.ceil(CACHE_MULTIPLE * llc_bytes / 8 / STEP) * STEP
    if not memory_bytes:
        return LEAST
    most = memory_bytes // 80 // STEP * STEP
    wanted = max(LEAST, caches)
    return max(STEP, min(wanted, most))
