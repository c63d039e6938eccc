"""All-reduce and all-gather of NCCL over all GPUs of a node, by a program of ours. All data are compared.

NCCL is taken where the loader finds it or parity's environment has its wheel."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.check import KERNEL_FIGURES, Gpu, Metric, Program, Read, Wrong, kernel_rate, printed

#: The compiler and its flags stand above the program's own first line.
PROGRAM = Program('gpu-nccl', title=r'compiler: .+(?=\n.*flags: .+\n.*gpu 1 api \S+ driver .+ devices \d+)')
#: How often a byte crosses the links of a device, of n: NCCL's bus bandwidth (nccl-tests, doc/PERFORMANCE.md).
BUS = {'allreduce': 2, 'allgather': 1}
# bytes, how often; by size
SIZES = {'quick': (64 << 20, 5), 'nightly': (512 << 20, 20), 'acceptance': (2 << 30, 100)}
_ROW = (rf'(?P<way>{"|".join(BUS)}) device (?P<device>\d+) (?:none (?P<none>.+)|nccl (?P<nccl>\d+) '
        rf'bytes (?P<bytes>\d+) times (?P<times>\d+) {KERNEL_FIGURES} GB/s wrong 0)')


@rfm.simple_test
class GpuCollective(rfm.RunOnlyRegressionTest, Gpu):
    """Bus bandwidth of each device. One device alone is checked for its data: nothing crosses a link."""

    metrics = tuple(Metric(f'{way}_gpu', 'GB/s', 'higher', limit='gpu_collective') for way in BUS)

    @run_after('setup')
    def place(self):
        self.bytes, self.times = SIZES[self.size]
        self.run_gpu('collective', self.bytes, self.times)

    def parse(self, text):
        values, facts = read(text)
        part = 4 * len(facts['devices'])        # every device has as many numbers of 4 bytes
        asked = (self.bytes // part * part, self.times)
        ran = asked if facts['without'] else (facts['bytes'], facts['times'])
        if ran != asked:
            raise Wrong(f'ran bytes, times {ran}, asked for {asked}')
        self.note(facts)
        if not values:
            self.leave_out([metric.name for metric in self.metrics], facts['without'] or 'one device')
        by_device = {}
        for at, name in enumerate(facts['devices']):
            by_device[name] = {f'{way}_gpu': values[f'{way}_gpu{at}'] for way in BUS if values}
        return self.by_device(by_device)


def read(text: str) -> Read:
    """GB/s of each device, in the order of the text: bus bandwidth of allreduce and allgather; none of one device.
    Facts: nccl (its version); bytes, times; without: why NCCL did not run, or ''; devices, by UUID or place."""
    found, facts = printed(PROGRAM.output(text, fold=False).text, _ROW)
    settings = set()
    for name, rows in found.items():
        ways = [row['way'] for row in rows]
        if ways != list(BUS):
            raise Wrong(f'device {name} has results of {", ".join(ways)}')
        settings |= {(row['nccl'], row['bytes'], row['times'], row['none']) for row in rows}
    if len(settings) != 1:
        raise Wrong(f'results of NCCL, bytes, times, none {sorted(map(str, settings))}')
    (version, size, times, why), = settings
    if why:
        return {}, {**facts, 'without': why}
    facts |= {'nccl': version, 'bytes': int(size), 'times': int(times), 'without': ''}
    count = len(found)
    values: dict[str, float] = {}
    for at, rows in enumerate(found.values()):
        for row in rows:
            rate = kernel_rate(row, int(size) * int(times))
            if count > 1:
                values[f'{row["way"]}_gpu{at}'] = rate * BUS[row['way']] * (count - 1) / count
    return values, facts
