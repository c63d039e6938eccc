"""STREAM 5.10 in C with OpenMP: sustainable memory bandwidth (McCalpin, 1995)."""

from decimal import Decimal

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, variable

from parity.check import Lines, Metric, Read, Threaded, Wrong, agree, number, ordered

ARRAYS = {'Copy': 2, 'Scale': 2, 'Add': 3, 'Triad': 3}       # arrays read or written by each kernel
TIMES = ('mean', 'min', 'max')                              # of the repetitions but the first
EPSILON = Decimal('1e-13')                                   # STREAM's own bound in double precision


@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest, Threaded):
    """Copy, Scale, Add and Triad over arrays that no cache holds. ``times`` gives the seconds of each, too."""

    times = variable(typ.Bool, value=False)
    metrics = tuple(Metric(kernel.lower(), 'GB/s', 'higher', limit='memory_bandwidth') for kernel in ARRAYS)

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.times:
            self.metrics += tuple(Metric(f'{m.name}_{of}', 's', 'lower') for m in self.metrics for of in TIMES)

    @run_after('setup')
    def place(self):
        self.spread_threads()
        self.executable = self.program('stream_c.exe')

    def parse(self, text):
        values, facts = read(text)
        if facts['threads'] != self.count:
            raise Wrong(f'ran {facts["threads"]:g} threads, asked for {self.count}')
        self.note(facts)
        self.label_cached([m.name for m in self.metrics], 8 * facts['array_elements'], self.extra('llc_bytes'))
        return {name: value / (1 if name.endswith(TIMES) else 1000) for name, value in values.items()}  # MB/s


def read(text: str) -> Read:
    """copy, scale, add, triad: best rates in MB/s (10^6 bytes); _mean, _min, _max: seconds of each.
    Facts: array_elements, threads, repetitions, version."""
    out = Lines(text)
    out.refuse('Failed Validation')
    error = out.figure(r'Solution Validates: avg error less than (\S+) on all three arrays')
    if error > EPSILON:
        raise Wrong(f'STREAM validated to an average error of {error:e} only')
    version = out.one(r'STREAM version \$Revision: (\d+\.\d+) \$')[1]
    out.one(r'This system uses 8 bytes per array element\.')
    elements = out.count(r'Array size = (\S+) \(elements\), Offset = \S+ \(elements\)')
    asked, ran = (out.count(rf'Number of Threads {word} = (\S+)') for word in ('requested', 'counted'))
    if asked != ran:
        raise Wrong(f'{asked} threads were asked for, {ran} ran')
    values = {f'{name.lower()}{of}': value for name, arrays in ARRAYS.items()
              for of, value in _figures(out, name, 8e-6 * elements * arrays).items()}
    return values, {'array_elements': elements, 'threads': ran, 'version': version,
                    'repetitions': out.count(r'Each kernel will be executed (\S+) times\.')}


def _figures(out: Lines, name: str, megabytes: float) -> dict[str, float]:
    tokens = out.one(rf'{name}: (\S+) (\S+) (\S+) (\S+)', f'{name}:').groups()
    rate, average, least, most = (number(token, name, places=places)
                                  for token, places in zip(tokens, (1, 6, 6, 6), strict=True))
    ordered(f'times of {name}', least, average, most)
    agree(rate, least, megabytes, f'MB/s of {name}')
    return {'': float(rate), '_mean': float(average), '_min': float(least), '_max': float(most)}
