"""Flop/s of GPUs, all of a node at once: products of random matrices by cuBLAS, else multiply-adds of our own.

cuBLAS is taken where the loader finds it or parity's environment has its wheel: C x is compared with A (B x). Our
kernels have no matrices: they keep the units busy, and every result has a closed form. They also measure what
cuBLAS has no product for: half precision without matrix units, and from sm_80 on double precision without them."""

from dataclasses import dataclass
from statistics import median

import reframe as rfm
from reframe.core.builtins import run_after

from parity.check import KERNEL_FIGURES, Gpu, Incomplete, Metric, Program, Read, Wrong, kernel_rate, printed

#: The compiler and its flags stand above the program's own first line.
PROGRAM = Program('gpu-gemm', title=r'compiler: .+(?=\n.*flags: .+\n.*gpu 1 api \S+ driver .+ devices \d+)')
#: Multiply-adds one by one, and by matrix units.
KINDS = ('double', 'single', 'half', 'double_matrix', 'tf32_matrix', 'half_matrix', 'bf16_matrix', 'int8_matrix')
#: Kinds that cuBLAS leaves to ours.
PLAIN = ('double', 'half')
#: The hottest first: a device runs the first that it has.
HOTTEST = ('half_matrix', 'single')
# seconds of each kind, samples of a second; by size
SIZES = {'quick': (0.5, 3), 'nightly': (5, 30), 'acceptance': (20, 600)}
_KIND = '|'.join(KINDS)
_ROW = (rf'(?:sample (?P<sample>\d+) of )?(?P<kind>{_KIND}) device (?P<device>\d+) (?:none (?P<none>.+)'
        rf'|program (?P<program>\S+) operations (?P<operations>\d+) {KERNEL_FIGURES} G(?:fl)?op/s wrong 0)')


class Products(rfm.RunOnlyRegressionTest, Gpu):
    """Compares what ran with what was asked for, for both checks."""

    variants = {'program': ('ours', 'cublas')}

    def parse(self, text):
        values, facts = read(text)
        if facts['seconds'] < self.seconds / 4 or not self.asked_for(facts):
            raise Wrong(f'ran {", ".join(facts["kinds"])} for {facts["seconds"]} s, {facts["samples"]} samples; '
                        f'asked for {self.seconds} s of {", ".join(self.kinds)}')
        self.note(facts)
        self.variant(program=facts['program'].split('-')[0], **self.labels_of(facts))
        for kind, why in facts['without'].items():
            begins = f'{kind}_gpu', f'{kind}_lowest'
            self.leave_out([metric.name for metric in self.metrics if metric.name.startswith(begins)], why)
        measured = {name.removesuffix('0') for name in values if name.endswith('_gpu0')}
        by_device = {}
        for at, name in enumerate(facts['devices']):
            by_device[name] = {what: values[f'{what}{at}'] for what in measured}
        figures = self.by_device(by_device)
        if len(facts['kinds']) == 1:        # work of several kinds has no sum
            self.per_joule({name: device['gflop'] for name, device in facts['devices'].items()})
        return figures


@rfm.simple_test
class GpuGemm(Products):
    """One kind of number after another."""

    metrics = tuple(Metric(f'{kind}_gpu', 'Gop/s' if kind.startswith('int') else 'Gflop/s', 'higher',
                           limit=f'gpu_{kind}') for kind in KINDS)
    kinds = KINDS

    @run_after('setup')
    def place(self):
        self.seconds = SIZES[self.size][0]
        self.run_gpu('gemm', self.seconds, *KINDS)

    def asked_for(self, facts):
        return set(facts['kinds']) | set(facts['without']) == set(KINDS) and not facts['samples']

    def labels_of(self, facts):
        return {}


@rfm.simple_test
class GpuGemmOverTime(Products):
    """The hottest kind once a second: shows a card that slows down as it gets warm. With size=acceptance for ten
    minutes: the burn-in."""

    metrics = tuple(Metric(f'{what}_gpu', 'Gflop/s', 'higher') for what in ('sustained', 'slowest'))
    variants = {**Products.variants, 'kind': HOTTEST}
    kinds = HOTTEST

    @run_after('setup')
    def place(self):
        self.seconds = SIZES[self.size][1]
        self.run_gpu('burn', self.seconds, *HOTTEST)

    def asked_for(self, facts):
        return facts['samples'] == self.seconds

    def labels_of(self, facts):
        kind, = facts['kinds']
        self.limit_to(f'gpu_{kind}', 'Gflop/s')
        return {'kind': kind}


def read(text: str) -> Read:
    """Gflop/s of each device, in the order of the text, by KINDS. With samples of a second their median and lowest
    rate instead: sustained, slowest.
    Facts: program (ours, cublas-VERSION, beside which PLAIN may be ours); kinds; without: the kinds that a device
    has not, and why. seconds are the least of a kind, samples those of a device. devices, by UUID, else by place:
    gflop (10^9 operations)."""
    found, facts = printed(PROGRAM.output(text, fold=False).text, _ROW)
    rows = []
    for own in found.values():
        rows += own
    without = {row['kind']: row['none'] for row in rows if row['none']}
    kinds = list(dict.fromkeys(row['kind'] for row in rows if row['kind'] not in without))
    ran = [row for row in rows if row['kind'] in kinds]
    if not ran:
        raise Wrong(f'no device has {" or ".join(without) or "a result"}')
    program = _program(ran)
    values: dict[str, float] = {}
    numbers = set()
    for at, (name, own) in enumerate(found.items()):
        device = _device(name, own, kinds)
        facts['devices'][name]['gflop'] = device.operations / 1e9
        numbers.add(len(device.samples))
        values |= {f'{what}_gpu{at}': rate for what, rate in device.figures().items()}
    if len(numbers) > 1:
        raise Incomplete(f'devices with different numbers of samples: {sorted(numbers)}')
    seconds = min(float(row['seconds']) for row in ran if not row['sample'])
    return values, {**facts, 'program': program, 'kinds': kinds, 'without': without, 'seconds': seconds,
                    'samples': numbers.pop()}


@dataclass(frozen=True)
class Device:
    """The work of a device: its rates by kind, those of its samples (Gop/s), and all operations."""

    rates: dict[str, float]
    samples: list[float]
    operations: int

    def figures(self) -> dict[str, float]:
        """The rates, or what the samples have in their place."""
        if not self.samples:
            return self.rates
        return {'sustained': median(self.samples), 'slowest': min(self.samples)}


def _program(rows: list[dict[str, str]]) -> str:
    """Return the program that ran, beside which PLAIN may be ours."""
    programs = {row['program'] for row in rows if row['kind'] not in PLAIN}
    beside = {row['program'] for row in rows if row['kind'] in PLAIN}
    programs |= beside - {'ours'} if programs else beside
    if len(programs) > 1:
        raise Wrong(f'several programs in one output: {", ".join(sorted(programs))}')
    return programs.pop()


def _device(name: str, rows: list[dict[str, str]], kinds: list[str]) -> Device:
    """Return what a device did, which has one result of each kind."""
    rates: dict[str, float] = {}
    samples: list[float] = []
    numbers: list[str] = []
    operations = 0
    for row in rows:
        if row['kind'] not in kinds:
            continue
        rate = kernel_rate(row, int(row['operations']))
        if row['sample']:
            samples.append(rate)
            numbers.append(row['sample'])
            continue
        if row['kind'] in rates:
            raise Wrong(f'device {name}: several results of one kind')
        rates[row['kind']] = rate
        operations += int(row['operations'])
    if list(rates) != kinds:
        raise Wrong(f'device {name} has results of {", ".join(rates) or "nothing"}, not of {", ".join(kinds)}')
    if numbers != [str(at) for at in range(1, len(samples) + 1)]:
        raise Incomplete(f'device {name}: samples that are not numbered one after another')
    return Device(rates, samples, operations)
