"""Copy, Mul, Add, Triad and Dot on all GPUs of a node at once, by BabelStream 5.0 (Deakin et al., 2018) and by us.

Our program has the same kernels. It needs a driver and no toolkit."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.base import codes
from parity.check import (
    Gpu,
    Incomplete,
    Lines,
    Metric,
    Read,
    Unread,
    Wrong,
    kernel_rate,
    printed,
    room,
    sections,
)

ARRAYS = {'copy': 2, 'mul': 2, 'add': 3, 'triad': 3, 'dot': 2}      # arrays read or written by each kernel
# how often each kernel runs; by size
TIMES = {'quick': 20, 'nightly': 100, 'acceptance': 1000}
#: Elements of 8 bytes: four times the largest cache of a GPU, 256 MiB (MI300X); with size=quick at least 256 MiB.
#: Multiples of 1024, which BabelStream needs, whose bytes it prints exactly.
LARGE = 134_400_000
ELEMENTS = {'quick': 35_200_000, 'nightly': LARGE, 'acceptance': LARGE}
_ROW = (rf'(?P<kernel>{"|".join(ARRAYS)}) device (?P<device>\d+) elements (?P<elements>\d+) times (?P<times>\d+) '
        r'seconds (?P<seconds>\S+) rate (?P<rate>\S+) GB/s wrong 0')
_BEGIN, _END = r'parity-device (\d+) (\S+) (\S+)', (r'parity-device-end (\d+) (\S+) (\S+) '
                                                      r'exit (?P<exit>-?\d+)')


class Streams(rfm.RunOnlyRegressionTest, Gpu):
    """Arrays of as many elements on every device, for both programs."""

    metrics = tuple(Metric(f'{kernel}_gpu', 'GB/s', 'higher', limit='gpu_memory_bandwidth') for kernel in ARRAYS)

    @run_after('setup')
    def place(self):
        self.elements, self.times = ELEMENTS[self.size], TIMES[self.size]
        self.start()

    def parse(self, text):
        values, facts = read(text)
        devices = facts['devices']
        ran = {(one['elements'], one['times']) for one in devices.values()}
        if ran != {(self.elements, self.times)}:
            raise Wrong(f'ran elements, times {sorted(ran)}, asked for {(self.elements, self.times)}')
        self.note(facts)
        by_device = {}
        for at, name in enumerate(devices):
            by_device[name] = {f'{kernel}_gpu': values[f'{kernel}_gpu{at}'] for kernel in ARRAYS}
        figures = self.by_device(by_device)
        largest_cache = max(one['llc_bytes'] or 0 for one in devices.values())
        if largest_cache:                           # LARGE is beyond every cache
            self.label_cached(figures, 8 * self.elements, largest_cache)
        return figures


@rfm.simple_test
class GpuStream(Streams):
    """Our kernels, through CUDA's driver and NVRTC or through OpenCL."""

    def start(self):
        self.run_gpu('stream', self.elements, self.times)


@rfm.simple_test
class GpuBabelStream(Streams):
    """BabelStream, built by Spack or by the site: one process a device."""

    needs = frozenset({'babelstream-gpu'})

    def start(self):
        self.elements = LARGE           # it tells no caches
        self.run_devices(self.program('cuda-stream'), '-s', self.elements, '-n', self.times, how='each')


def read(text: str) -> Read:
    """copy, mul, add, triad, dot of each device, in the order of the text: best rates in GB/s (10^9 bytes).

    Facts: program; devices, by UUID, else by place: elements (of an array), times, clocks and caches."""
    lines = Lines(text)
    if lines.every('parity-device.*'):
        return _babelstream(lines)
    if lines.every('BabelStream'):
        raise Unread('BabelStream on one device, outside a check of parity: read it as `parity parse babelstream`')
    return _ours(text)


def _ours(text: str) -> Read:
    """The figures of our kernels: five rows a device."""
    found, facts = printed(text, _ROW)
    figures = {}
    for at, (name, rows) in enumerate(found.items()):
        _demand_kernels(name, rows)
        elements, times = int(rows[0]['elements']), int(rows[0]['times'])
        for row in rows:
            kernel = row['kernel']
            figures[f'{kernel}_gpu{at}'] = kernel_rate(row, 8 * ARRAYS[kernel] * elements)
        facts['devices'][name] |= {'elements': elements, 'times': times}
    return figures, {**facts, 'program': 'gpu.c'}


def _demand_kernels(device: str, rows: list[dict[str, str]]) -> None:
    """Raise Wrong unless the rows of a device are the five kernels over arrays of one size."""
    kernels = [row['kernel'] for row in rows]
    if kernels != list(ARRAYS):
        raise Wrong(f'device {device} has results of {", ".join(kernels)}')
    arrays = {(row['elements'], row['times']) for row in rows}
    if len(arrays) > 1:
        raise Wrong(f'device {device}: results of arrays {sorted(arrays)}')


def _babelstream(out: Lines) -> Read:
    """The figures of one process of BabelStream a device."""
    count = out.count(r'parity-devices-end (\d+)')
    parser = room(codes.named('babelstream')).read
    figures, devices, programs = {}, {}, set()
    for begin, own in sections(out, _BEGIN, _END):
        device = begin[2]
        if device in devices:
            raise Wrong(f'device {device}: twice')
        rates, facts = parser(own)
        for kernel, rate in rates.items():
            figures[f'{kernel}_gpu{len(devices)}'] = rate / 1000        # it prints MB/s
        devices[device] = {'elements': facts['array_bytes'] // 8, 'times': facts['times'], 'llc_bytes': None}
        programs.add(f'BabelStream {facts["version"]} {facts["implementation"]}')
    if len(devices) != count:
        raise Incomplete(f'line {out.end}: {len(devices)} devices, the last line has {count}')
    if len(programs) > 1:
        raise Wrong(f'the devices ran different programs: {", ".join(sorted(programs))}')
    return figures, {'devices': devices, 'program': programs.pop()}
