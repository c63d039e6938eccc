"""The health of all GPUs of a node under load, by their driver: lost, failing, slowed, with too few PCIe lanes.

Our program keeps every device busy with multiply-adds in single precision, which every device has."""

import json
import zlib

import reframe as rfm
from reframe.core.builtins import run_after

from parity.check import (
    KERNEL_FIGURES,
    Gpu,
    Incomplete,
    Metric,
    Program,
    Read,
    Wrong,
    document,
    kernel_rate,
    model,
    printed,
)
from parity.measure.machine import gpu
from parity.measure.machine.gpu import Report

#: What gpus.py prints, below the lines of the load where there are any.
PROGRAM = Program('gpu-health', title=r'\{(?=\s*(?:\n.*)?"node": ).*')
SECONDS = {'quick': 10, 'nightly': 60, 'acceptance': 600}
_ROW = (r'(?:sample \d+ of )?single device (?P<device>\d+) program ours operations (?P<operations>\d+) '
        rf'{KERNEL_FIGURES} Gflop/s wrong 0')


@rfm.simple_test
class GpuHealth(rfm.RunOnlyRegressionTest, Gpu):
    """All devices at once. A bad device is wrong. A slowed one keeps its figure, with the cause beside it."""

    postrun_cmds = ['cat gpus.json']
    metrics = (Metric('clock_gpu', 'MHz', 'higher', limit='gpu_clock'),)

    @run_after('setup')
    def place(self):
        self.seconds = SECONDS[self.size]
        self.run_gpu('load', self.seconds, 'single')

    def parse(self, text):
        report = parsed(text)
        clocks = read(text)[0] if report.devices else {}
        rates, facts = loaded(text)
        if report.seconds < self.seconds:
            raise Wrong(f'the devices were loaded for {report.seconds:.0f} s, asked for {self.seconds}')
        self.note({**facts, 'gflops': rates})
        if not report.devices:
            self.leave_out([metric.name for metric in self.metrics], _unanswered(report))
            return self.by_device({name: {} for name in rates})
        found = {}
        for at, device in enumerate(report.devices):
            if device.uuid in rates or str(at) in rates:
                clock = clocks.get(f'clock_gpu{at}')
                found[device.uuid] = {'clock_gpu': clock} if clock else {}
        unknown = [f'clock_gpu{at}' for at, clock in enumerate(found.values()) if not clock]
        if len(unknown) == len(found):
            unknown.append('clock_lowest_over_median')
        self.leave_out(unknown, 'the driver does not tell the clock under load')
        return self.by_device(found)


def read(text: str) -> Read:
    """clock of each device (its units' median under load, MHz) by its place on the bus, where its driver tells.
    Facts: what else it tells and what it does not (unknown), causes of slowdowns, who else used a device.
    Reads what gpus.py tells, with or without the lines of the load. Raises Wrong with the name of a bad device."""
    report = parsed(text)
    if not report.devices:
        raise Incomplete(_unanswered(report))
    bad = gpu.bad(report)
    if bad:                             # it may be why the load has no result
        raise Wrong('; '.join(bad))
    if any(line.startswith(('gpu 1 ', 'gpu end ')) for line in text.splitlines()):
        loaded(text)
    clocks = {}
    for at, device in enumerate(report.devices):
        if device.during.clock_mhz:
            clocks[f'clock_gpu{at}'] = device.during.clock_mhz
    return clocks, {**gpu.facts(report), 'causes': gpu.causes(report), 'disturbed': gpu.disturbed(report)}


def parsed(text: str) -> Report:
    """Return the report of gpus.py. Raises Incomplete and Wrong where it is not whole, or none."""
    values = document(PROGRAM.output(text, fold=False).text)
    report = model(Report, values)
    others = {name: value for name, value in values.items() if name != 'crc32'}
    if report.crc32 != f'{zlib.crc32(json.dumps(others, sort_keys=True).encode()):08x}':
        raise Incomplete('the checksum does not fit the report')
    return report


def _unanswered(report: Report) -> str:
    return f'no driver answers: {report.why or report.source + " knows no device"}'


def loaded(text: str) -> Read:
    """Return the rate (Gflop/s) of each device under load, by its UUID, else by its place, and what was run."""
    rows, facts = printed(text, _ROW)
    rates: dict[str, float] = {}
    for name, own in rows.items():
        if not own:
            raise Incomplete(f'device {name} has no result')
        rates[name] = [kernel_rate(row, int(row['operations'])) for row in own][-1]
    return rates, facts
