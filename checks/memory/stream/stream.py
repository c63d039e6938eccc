"""STREAM 5.10 in C with OpenMP: sustainable memory bandwidth (McCalpin, 1995)."""

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import run_after, variable
from stream_output import ARRAYS, PROGRAM, read  # noqa: F401

from parity.check import Metric, Threaded, Wrong

TIMES = ('mean', 'min', 'max')                              # of the repetitions but the first
#: The bytes that STREAM counts, of those that move where the processor reads a line before it writes there.
COUNTED = {'copy': '2/3', 'scale': '2/3', 'add': '3/4', 'triad': '3/4'}


@rfm.simple_test
class Stream(rfm.RunOnlyRegressionTest, Threaded):
    """Copy, Scale, Add and Triad over arrays that no cache holds. ``times`` gives the seconds of each, too."""

    times = variable(typ.Bool, value=False)
    metrics = tuple(Metric(kernel.lower(), 'GB/s', 'higher', limit='memory_bandwidth') for kernel in ARRAYS)

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.times:
            for kernel in ARRAYS:
                self.metrics += tuple(Metric(f'{kernel.lower()}_{time}', 's', 'lower') for time in TIMES)

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
        for kernel in ARRAYS:
            values[kernel.lower()] /= 1000          # STREAM prints MB/s
        self.say_what_counts()
        return values

    def say_what_counts(self):
        """Say beside a bound of the memory how much of its traffic STREAM counts."""
        for name, share in COUNTED.items():
            record = self.parity.metrics.get(name)
            if record and record.limit:
                source = f'{record.limit["source"]}; STREAM counts {share} unless stores are non-temporal'
                record.limit = {**record.limit, 'source': source}
