"""Arithmetic operations a second: fused multiply-adds in double precision, integers of 64 to 8 bits.

A kernel of ours (programs/ops.c), compiled by the job for the node's own processor; every lane of every
vector is compared with its closed form. Integers have no limit: no table of their pipes is vouched for.
"""

from dataclasses import replace
from statistics import median

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.check import KERNEL_FIGURES, Incomplete, Kernel, Metric, Program, Read, Wrong, kernel, kernel_rate

# seconds of each kind, samples of a second; by size
SIZES = {'quick': (0.3, 3), 'nightly': (2, 60), 'acceptance': (10, 600)}

#: The compiler and its flags stand above the kernel's own first line.
PROGRAM = Program('ops', title=r'compiler: .+(?=\n.*flags: .+\n.*ops 1 width \d+)')
#: Kinds of numbers and their bits.
KINDS = {'double': 64, 'int64': 64, 'int32': 32, 'int16': 16, 'int8': 8}
#: A sample below this share of the median is a dip.
DIP = 0.95
_OPERATIONS = 2             # of an iteration, on every lane
_KIND = '|'.join(KINDS)
_FIGURES = rf'iterations (?P<iterations>\d+) {KERNEL_FIGURES} Gop/s'
_ROW = (rf'(?:(?P<kind>{_KIND}) threads (?P<threads>\d+) lanes (?P<lanes>\d+) chains (?P<chains>\d+) '
        rf'|sample (?P<sample>\d+) (?P<of>{_KIND}) ){_FIGURES}(?P<end> wrong 0)?')


class Counted(rfm.RunOnlyRegressionTest, Kernel):
    """Compares double precision with the peak of as many cores, for both checks."""

    kernel = 'ops'

    @run_after('init')
    def bound(self):
        self.limit_to('peak_flops_core' if self.threads == 'one' else 'peak_flops', 'Gflop/s')

    def parse(self, text):
        values, facts = read(text)
        if facts['threads'] != self.count:
            raise Wrong(f'ran {facts["threads"]} threads, asked for {self.count}')
        self.note(facts)
        return values


@rfm.simple_test
class Ops(Counted):
    """All threads at once, one kind of number after another."""

    metrics = (Metric('double', 'Gflop/s', 'higher'),
               *(Metric(kind, 'Gop/s', 'higher') for kind in KINDS if kind != 'double'))

    @run_after('setup')
    def place(self):
        self.run_kernel('--seconds', SIZES[self.size][0], *KINDS)


@rfm.simple_test
class OpsOverTime(Counted):
    """Double precision on all cores, once a second: shows a falling clock, a neighbour, a throttled socket.

    ``kind`` takes integers instead. ``samples`` replaces their number, and counts as dips those below a share of
    the median."""

    threads = parameter(['all'], type=str)
    kind = variable(typ.Str['|'.join(KINDS)], value='double')
    samples = variable(typ.Str[r'([1-9]\d{0,4})?'], value='')
    metrics = (Metric('median', 'Gflop/s', 'higher'), Metric('lowest', 'Gflop/s', 'higher'),
               Metric('lowest_over_median', '', 'higher'))

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.kind != 'double':
            self.metrics = tuple(replace(m, unit=m.unit.replace('flop', 'op'), limit=None) for m in self.metrics)
        if self.samples:
            self.metrics += (Metric('dips', 'count', 'lower', zero=True),)

    @run_after('setup')
    def place(self):
        self.wanted = int(self.samples or SIZES[self.size][1])
        self.run_kernel('--samples', self.wanted, self.kind)

    def parse(self, text):
        values = Counted.parse(self, text)
        samples = self.parity['facts'].get('samples', ())
        if self.kind not in values or len(samples) != self.wanted:
            raise Wrong(f'{len(samples)} samples of {next(iter(values))}, asked for {self.wanted} of {self.kind}')
        dip = DIP * values['median']
        return values | {'dips': sum(rate < dip for rate in samples)}


def read(text: str) -> Read:
    """Gop/s of all threads by kind: double int64 int32 int16 int8; a fused multiply-add is two operations. With
    samples, median, lowest and lowest_over_median of the one-second rates, too.
    Facts: compiler, flags, width (bits of a vector), threads; samples: their rates (Gop/s) in order."""
    own = PROGRAM.output(text, fold=False).text
    width, rows, compiled = kernel(own, 'ops', 'width', _ROW)
    if any(bool(row['kind']) != bool(row['end']) for row in rows):
        raise Incomplete('a line of a result is not whole')
    results = [row for row in rows if row['kind']]
    samples = [row for row in rows if row['sample']]
    if not results:
        raise Incomplete('a line of a result is not whole')
    rates = {row['kind']: kernel_rate(row, int(row['iterations']) * _work(row, width)) for row in results}
    settings = {(row['threads'], row['chains']) for row in results}
    if len(rates) < len(results) or len(settings) > 1:
        raise Wrong(f'the results are not of different kinds with as many threads: {", ".join(rates)}')
    facts = {**compiled, 'width': width, 'threads': int(results[0]['threads'])}
    if not samples:
        return rates, facts
    taken = _samples(samples, rows, width)
    middle, lowest = median(taken), min(taken)
    values = {'median': middle, 'lowest': lowest, 'lowest_over_median': lowest / middle}
    return rates | values, {**facts, 'samples': taken}


def _work(row: dict[str, str], width: int) -> int:
    """Operations of one iteration."""
    lanes, chains = int(row['lanes']), int(row['chains'])
    if lanes * KINDS[row['kind']] != width or not chains:
        raise Wrong(f'{lanes} lanes of {row["kind"]} are not {width} bits')
    return _OPERATIONS * lanes * chains


def _samples(samples: list[dict[str, str]], rows: list[dict[str, str]], width: int) -> list[float]:
    """The rates of the samples, which stand in order before the one result that they are of."""
    *before, result = rows
    numbers = [row['sample'] for row in before]
    if len(rows) != len(samples) + 1 or numbers != [str(at) for at in range(1, len(rows))]:
        raise Incomplete(f'{len(samples)} samples that are not numbered one after another before their result')
    kinds = {row['of'] for row in samples}
    iterations = sum(int(row['iterations']) for row in samples)
    if kinds != {result['kind']} or iterations > int(result['iterations']):
        raise Wrong('the samples are more than the result that they are of')
    work = _work(result, width)
    return [kernel_rate(row, int(row['iterations']) * work) for row in samples]
