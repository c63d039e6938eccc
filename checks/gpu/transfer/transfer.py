"""Copies between a node and its GPUs, from and into pinned memory, and between every two GPUs.

A program of ours: devices one by one, then all at once. All data are compared."""

from statistics import median

import reframe as rfm
from reframe.core.builtins import run_after

from parity.check import KERNEL_FIGURES, Gpu, Metric, Program, Read, Wrong, kernel_rate, printed

#: The compiler and its flags stand above the program's own first line.
PROGRAM = Program('gpu-transfer', title=r'compiler: .+(?=\n.*flags: .+\n.*gpu 1 api \S+ driver .+ devices \d+)')
WAYS = ('to_device', 'from_device', 'to_device_all', 'from_device_all')
# bytes, how often; by size
SIZES = {'quick': (64 << 20, 5), 'nightly': (256 << 20, 20), 'acceptance': (1 << 30, 100)}
_ROW = (rf'(?P<way>{"|".join(WAYS)}|pair) device (?P<device>\d+)(?: to (?P<to>\d+) direct (?P<direct>yes|no))? '
        rf'bytes (?P<bytes>\d+) times (?P<times>\d+) {KERNEL_FIGURES} GB/s wrong 0')


@rfm.simple_test
class GpuTransfer(rfm.RunOnlyRegressionTest, Gpu):
    """Each way is one direction: _all is that of a device while all others copy, too. A pair without a direct
    path goes through the host."""

    metrics = (*(Metric(f'{way}_gpu', 'GB/s', 'higher', limit='gpu_link') for way in WAYS),
               Metric('pair_median', 'GB/s', 'higher'), Metric('pair_lowest', 'GB/s', 'higher'),
               Metric('pair_lowest_over_median', '', 'higher', most=1.0))

    @run_after('setup')
    def place(self):
        self.bytes, self.times = SIZES[self.size]
        self.run_gpu('transfer', self.bytes, self.times)

    def parse(self, text):
        values, facts = read(text)
        ran = facts['bytes'], facts['times']
        asked = self.bytes, self.times
        if ran != asked:
            raise Wrong(f'ran bytes, times {ran}, asked for {asked}')
        self.note(facts)
        pairs = {name: value for name, value in values.items() if name.startswith('pair_')}
        if not pairs:
            why = 'one device' if len(facts['devices']) == 1 else f'{facts["api"]} copies between no devices'
            self.leave_out([metric.name for metric in self.metrics if metric.name.startswith('pair_')], why)
        by_device = {}
        for at, name in enumerate(facts['devices']):
            by_device[name] = {f'{way}_gpu': values[f'{way}_gpu{at}'] for way in WAYS}
        return pairs | self.by_device(by_device)


def read(text: str) -> Read:
    """GB/s of each device, in the order of the text: to_device, from_device alone, and with _all at once. Of the
    pairs, where there are any, pair_median, pair_lowest, pair_lowest_over_median.
    Facts: bytes, times; pairs: their rates (GB/s); slowest: the slowest pair; indirect: pairs through the host;
    devices, by UUID, else by place."""
    found, facts = printed(PROGRAM.output(text, fold=False).text, _ROW)
    settings = set()
    for rows in found.values():
        settings |= {(int(row['bytes']), int(row['times'])) for row in rows}
    if len(settings) != 1:
        raise Wrong(f'results of bytes, times {sorted(settings)}')
    size, times = settings.pop()
    values: dict[str, float] = {}
    pairs: dict[str, float] = {}
    indirect: list[str] = []
    names = list(found)
    for at, (name, rows) in enumerate(found.items()):
        if [row['way'] for row in rows if not row['to']] != list(WAYS):
            raise Wrong(f'device {name} has results of {", ".join(row["way"] for row in rows)}')
        for row in rows:
            rate = kernel_rate(row, size * times)
            if not row['to']:
                values[f'{row["way"]}_gpu{at}'] = rate
                continue
            pair = _pair(names, at, int(row['to']))
            if pair in pairs:
                raise Wrong(f'{pair}: a pair twice')
            pairs[pair] = rate
            if row['direct'] == 'no':
                indirect.append(pair)
    if pairs:
        values |= _of_pairs(pairs, len(names))
        facts |= {'pairs': pairs, 'slowest': min(pairs, key=pairs.get), 'indirect': indirect}
    return values, {**facts, 'bytes': size, 'times': times}


def _pair(names: list[str], at: int, other: int) -> str:
    """Return the name of a pair of devices, by their places."""
    if other >= len(names) or other == at:
        raise Wrong(f'device {names[at]}: a pair with device {other}')
    return f'{names[at]} to {names[other]}'


def _of_pairs(pairs: dict[str, float], count: int) -> dict[str, float]:
    """Return the figures of all pairs of so many devices."""
    if len(pairs) != count * (count - 1):
        raise Wrong(f'{len(pairs)} pairs of {count} devices')
    middle, lowest = median(pairs.values()), min(pairs.values())
    return {'pair_median': middle, 'pair_lowest': lowest, 'pair_lowest_over_median': lowest / middle}
