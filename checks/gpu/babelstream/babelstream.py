"""Copy, Mul, Add, Triad and Dot on all GPUs of a node at once, by BabelStream 5.0 (Deakin et al., 2018) and by us.

Our program has the same kernels. It needs a driver and no toolkit."""

import reframe as rfm
from reframe.core.builtins import run_after

from parity.base import codes
from parity.check import Code, Gpu, Incomplete, kernel_rate, Lines, Metric, printed, Read, room, sections, Wrong
from parity.check import printed
from parity.check import room

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
        figures = self.by_device({name: {f'{kernel}_gpu': values[f'{kernel}_gpu{at}'] for kernel in ARRAYS}
                                  for at, name in enumerate(devices)})
        if any(one['llc_bytes'] for one in devices.values()):       # LARGE is beyond every cache
            self.label_cached(figures, 8 * self.elements, max(one['llc_bytes'] or 0 for one in devices.values()))
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
    if any(line.startswith('parity-devices') for line in text.splitlines()):
        return _babelstream(text)
    found, facts = printed(text, _ROW)
    values = {}
    for at, (name, rows) in enumerate(found.items()):
        if [row['kernel'] for row in rows] != list(ARRAYS):
            raise Wrong(f'device {name} has results of {", ".join(row["kernel"] for row in rows)}')
        if len(asked := {(row['elements'], row['times']) for row in rows}) > 1:
            raise Wrong(f'device {name}: results of arrays {sorted(asked)}')
        for row in rows:
            values[f'{row["kernel"]}_gpu{at}'] = kernel_rate(row, 8 * ARRAYS[row['kernel']] * int(row['elements']))
        facts['devices'][name] |= {word: int(rows[0][word]) for word in ('elements', 'times')}
    return values, {**facts, 'program': 'gpu.c'}


def _babelstream(text: str) -> Read:
    """The same of the outputs of one process a device."""
    out = Lines(text)
    count, values, devices = out.count(r'parity-devices-end (\d+)'), {}, {}
    for at, (begin, own) in enumerate(sections(out, _BEGIN, _END)):
        if begin[2] in devices:
            raise Wrong(f'device {begin[2]}: twice')
        rates, facts = room(codes.named('babelstream')).read(own)
        values |= {f'{kernel}_gpu{at}': rate / 1000 for kernel, rate in rates.items()}     # it prints MB/s
        devices[begin[2]] = {'elements': facts['array_bytes'] // 8, 'times': facts['times'], 'llc_bytes': None}
        program = f'BabelStream {facts["version"]} {facts["implementation"]}'
    if len(devices) != count:
        raise Incomplete(f'line {out.end}: {len(devices)} devices, the last line has {count}')
    return values, {'devices': devices, 'program': program}
