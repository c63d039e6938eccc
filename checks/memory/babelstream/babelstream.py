"""BabelStream 5.0 with OpenMP (Deakin et al., 2018): four kernels and a dot product, arrays sized at run time."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.base.codes import CACHE_MULTIPLE
from parity.check import Incomplete, Lines, Metric, Read, Threaded, Wrong, agree, number, ordered

ARRAYS = {'Copy': 2, 'Mul': 2, 'Add': 3, 'Triad': 3, 'Dot': 2}      # arrays read or written by each kernel
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
        most = (self.extra('memory_bytes') or 80 * LEAST) // 80 // STEP * STEP
        by_caches = -(-CACHE_MULTIPLE * int(self.extra('llc_bytes') or 0) // 8 // STEP) * STEP
        self.elements = max(STEP, min(max(LEAST, by_caches), most))
        self.executable = self.program('omp-stream')
        # it tells a failed validation on standard error, and exits with 0
        self.executable_opts = [f'-s {self.elements} -n {TIMES[self.size]} 2>&1']

    def parse(self, text):
        values, facts = read(text)
        if (ran := (facts['array_bytes'], facts['times'])) != (asked := (8 * self.elements, TIMES[self.size])):
            raise Wrong(f'ran array bytes, times {ran}, asked for {asked}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], facts['array_bytes'], self.extra('llc_bytes'))
        return {kernel: rate / 1000 for kernel, rate in values.items()}     # BabelStream prints MB/s


def read(text: str) -> Read:
    """copy, mul, add, triad, dot: best rates in MB/s (10^6 bytes), which the least times make.
    Facts: version, implementation, times, array_bytes (to 0.1 MB)."""
    out = Lines(text)
    out.refuse('terminate called', Incomplete)
    out.refuse('Validation failed')
    out.one('Precision: double')
    times = out.count(r'Running (?:Classic )?kernels (\S+) times.*')
    megabytes = out.figure(r'Array size: (\S+) MB(?: .*)?', places=1)
    out.one(r'Function (MBytes/sec|MB/s) Min \(sec\) Max Average')
    values = {}
    for name, arrays in ARRAYS.items():
        row = out.one(rf'{name} (\S+\.\d{{3}}) (\S+\.\d{{5}}) (\S+\.\d{{5}}) (\S+\.\d{{5}})', name)
        rate, least, most, average = (number(token, name) for token in row.groups())
        ordered(f'times of {name}', least, average, most)
        agree(rate, least, arrays * float(megabytes), f'MB/s of {name}', arrays * 0.05)
        values[name.lower()] = float(rate)
    return values, {'version': out.one(r'Version: (\S+)')[1], 'implementation': out.one('Implementation: (.+)')[1],
                    'times': times, 'array_bytes': int(megabytes * 10**6)}
