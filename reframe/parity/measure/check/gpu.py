"""The mixin under checks of GPUs: every device of a node, all at once, and what the driver says of each.

A check names its metrics NAME_gpu. A partition with two devices has NAME_gpu0 and NAME_gpu1, in the order of their
buses. NAME_lowest_over_median shows a bad card before any value was accepted."""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from reframe.core.builtins import run_after, run_before
from reframe.core.pipeline import RegressionTestPlugin

from parity.base import files, paths
from parity.base.figures import counted
from parity.measure.check.reader import Lines, Wrong, kernel
from parity.measure.check.workload import Metric, Workload
from parity.measure.machine import gpu
from parity.measure.machine.gpu import GpuDevice, Report
from parity.site.identity import shared

_EACH, _EVEN = '_gpu', '_lowest_over_median'
#: The report of jobs/programs/gpus.py.
_REPORT = 'gpus.json'


def stated(partition) -> int:
    """Return the number of GPUs of a node, as the partition states it."""
    return sum(device.num_devices for device in partition.devices if device.device_type == 'gpu')


class Devices(RegressionTestPlugin):
    """Beside Workload: a case on nodes with ``devices`` GPUs each, of which the driver is asked."""

    partition_needs = frozenset({'gpu'})

    @run_after('setup')
    def parity_count_devices(self):
        self.devices = stated(self.current_partition)
        if not self.devices:
            self.skip_case(f'devices: {self.current_partition.fullname} states none; valid is, for instance, '
                           'devices: [{type: gpu, num_devices: 4}]')

    def ask_driver(self):
        """Take along what asks the driver; it writes its report beside the output."""
        self.programs = (*self.programs, 'gpus.py')
        self.keep_files = [*self.keep_files, _REPORT]
        self.env_vars['CUDA_DEVICE_ORDER'] = 'PCI_BUS_ID'

    def watch_launcher(self):
        """Have the driver of the first node asked before, while and after the launcher runs an MPI program."""
        self.ask_driver()
        self.job.launcher.modifier = 'python3'
        self.job.launcher.modifier_options = ['-I gpus.py run --']

    def note_devices(self, named: Collection[str] | None = None) -> tuple[list[str], dict[str, GpuDevice]]:
        """Return the devices of the case in order, by UUID, else by place, and the driver's own words on each.

        ``named`` are those that the program named; None: it named none. Notes them. Raises Wrong for one that is
        absent or that the driver does not know."""
        report = self._report()
        devices = {device.uuid: device for device in report.devices}
        if any(map(str.isdigit, named or ())):
            devices = {}            # a place is no name: CUDA and the driver count in different orders
        strange = sorted(set(named or ()) - set(devices))
        if devices and strange:
            raise Wrong(f'device {strange[0]}: the driver knows {", ".join(devices)}')
        order = [uuid for uuid in devices if named is None or uuid in named]
        if not order:
            order = list(named or ())
        if order or named is not None:
            self._complete(order, devices)
        self.parity.devices = {}
        for place, uuid in enumerate(order):
            device = devices.get(uuid)
            described = f'{uuid}, bus {device.bus}{gpu.capped(report, device)}' if device else uuid
            self.parity.devices[f'gpu{place}'] = described
        self._note_report(report)
        return order, devices

    def parity_hardware(self):
        """Raise Wrong for a device that its driver calls bad: a program that it stopped may print nothing."""
        report = self._report()
        bad = gpu.bad(report)
        if not bad:
            return
        absent = ''
        if any(device.error for device in report.devices):       # it may not tell its name
            absent = _absent(self._devices(), [device.uuid for device in report.devices])
        raise Wrong('; '.join(bad) + absent)

    def per_joule(self, gflop: Mapping[str, float]) -> None:
        """Note the Gflop a joule of each device, whose work is 10^9 operations, where its driver tells the energy.

        The energy is that of the whole program, its start included: the true ratio is not lower."""
        ratios = {}
        for device in self._report().devices:
            joules = gpu.energy_j(device)
            if device.uuid in gflop and joules:
                ratios[str(device)] = gflop[device.uuid] / joules
        self.parity.gpus['gflop_per_joule'] = ratios

    def _report(self) -> Report:
        """Read what gpus.py wrote; the report says why where nothing can be read."""
        try:
            return Report(**json.loads(Path(self.stagedir, _REPORT).read_text()))
        except (OSError, ValueError, TypeError) as err:
            why = str(err).splitlines()[0]
            return Report(node='', source='none', why=f'{_REPORT}: {why}', seconds=0)

    def _complete(self, order: list[str], devices: Mapping[str, GpuDevice]) -> None:
        """Raise Wrong where a node has not as many devices as stated; name an absent one that was seen before."""
        if len(order) == self.devices:
            self._devices({uuid: str(devices[uuid]) for uuid in order if uuid in devices})
            return
        absent = ''
        if len(order) < self.devices:
            now = {uuid: str(device) for uuid, device in devices.items()}
            absent = _absent(self._devices() | now, order)
        raise Wrong(f'{counted(len(order), "device")}, the partition states {self.devices}{absent}')

    def _devices(self, now: dict[str, str] | None = None) -> dict[str, str]:
        """Return the devices that the node had when it was whole, and keep those that it has ``now``."""
        file = paths.results() / 'cache' / 'devices.json'
        node = self.parity.node.get('node') or platform.node()
        try:
            of_nodes = json.loads(file.read_text())
        except (OSError, ValueError):
            of_nodes = {}
        if now and of_nodes.get(node) != now:
            files.write(file, json.dumps({**of_nodes, node: now}))
        return of_nodes.get(node, {})

    def _note_report(self, report: Report) -> None:
        """Note what the driver said, who else had the devices, and what slowed them down."""
        self.parity.gpus = gpu.facts(report)
        uuids = [device.uuid for device in report.devices]
        slowed = '; '.join(gpu.causes(report)) or 'no'
        self.parity.node = {**self.parity.node, 'gpus': ' '.join(uuids), 'gpu_slowed': slowed}
        disturbances = [self.parity.disturbed, gpu.disturbed(report)]
        self.parity.disturbed = '; '.join(filter(None, disturbances))

class Gpu(Devices, Workload):
    """A case on one node, with all its cores and devices."""

    @run_after('init', always_last=True)
    def parity_declare_even(self):
        """Declare how even the devices are, for each metric of a device."""
        metrics = []
        for metric in self.metrics:
            metrics.append(metric)
            if metric.name.endswith(_EACH):
                metrics.append(Metric(_even(metric.name), '', 'higher', most=1.0))
        self.metrics = tuple(metrics)

    def metrics_on(self, partition):
        return self._of_devices(stated(partition) or 1)

    def _of_devices(self, count):
        """The metrics of a node with so many devices."""
        metrics = []
        for metric in self.metrics:
            places = range(count) if metric.name.endswith(_EACH) else ['']
            metrics += [dataclasses.replace(metric, name=f'{metric.name}{place}') for place in places]
        return tuple(metrics)

    @run_after('setup')
    def parity_devices(self):
        self.parity_declare_each()
        self.parity.metrics = {metric.name: self._parity_metric(metric) for metric in self.metrics}

    def parity_declare_each(self):
        """Declare a metric a device; one device is as even as can be."""
        self.metrics = self._of_devices(self.devices)
        if self.devices == 1:
            self.leave_out([m.name for m in self.metrics if m.name.endswith(_EVEN)], 'one device')

    def run_gpu(self, *arguments):
        """Compile jobs/programs/gpu.c and run it on all devices."""
        self.programs = ('compile.sh', 'kernel.h', 'gpu.h', 'gpu.c')
        self.prerun_cmds = ['./compile.sh gpu || exit 1']
        if not self.standalone:
            for name in ('nvrtc', 'cublas', 'nccl'):        # NVIDIA's wheels
                pattern = f'lib/python*/site-packages/nvidia/*/lib/lib{name}.so.*'
                library = next(Path(sys.prefix).glob(pattern), None)
                if library:
                    self.env_vars[f'PARITY_{name.upper()}'] = str(library)
        self.run_devices('./gpu', *arguments)

    def run_devices(self, *command, how='run'):
        """Run ``command``, which takes all devices; `each`: once for each, all at once. The driver is asked about
        them before, meanwhile and after."""
        self.num_tasks, self.num_cpus_per_task = 1, self.extra('cores') or 1
        self.without_launcher()
        self.ask_driver()
        self.executable = 'python3'
        self.executable_opts = ['-I gpus.py', how, '--', *map(str, command)]

    def by_device(self, figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the figures of the case from those of each device, by its UUID, else by its place.

        Sets their limits. Raises Wrong as ``note_devices`` does."""
        order, devices = self.note_devices(figures)
        values = {}
        of_metric: dict[str, list[float]] = {}
        for place, uuid in enumerate(order):
            for name, value in figures[uuid].items():
                values[f'{name}{place}'] = value
                of_metric.setdefault(name, []).append(value)
        if len(order) > 1:
            for name, of_devices in of_metric.items():
                values[_even(name)] = min(of_devices) / median(of_devices)
        self._limit([devices.get(uuid) for uuid in order])
        return values

    def _limit(self, devices: list[GpuDevice | None]) -> None:
        """Stand each device's figures beside its own limits."""
        limits = [gpu.limits(device) if device else {} for device in devices]
        for metric in self.metrics:
            place = metric.name.removeprefix(shared(metric.name))
            if not place or int(place) >= len(limits):
                continue
            limit = limits[int(place)].get(metric.limit)
            if limit:
                self.parity.metrics[metric.name].limit = limit.model_dump()

    @run_before('performance')
    def parity_share_references(self):
        """A value that was accepted for NAME_gpu is one for each device."""
        if not getattr(self.reference, 'index', None):
            return
        try:
            accepted = self.reference[self]
        except KeyError:
            return
        for metric in self.metrics:
            if shared(metric.name) in accepted:
                accepted[metric.name] = accepted[shared(metric.name)]


def _even(name: str) -> str:
    """Return the name of the metric that says how even a metric is over the devices."""
    return name.removesuffix(_EACH) + _EVEN


def _absent(seen: Mapping[str, str], here: Collection[str]) -> str:
    """Name the devices that were seen before and are not here."""
    gone = [described for uuid, described in seen.items() if uuid not in here]
    return f'; absent: {", ".join(gone)}' if gone else ''


_HEAD = r'gpu 1 api (\S+) driver (\S+) devices \d+'
_FACTS = {'units': int, 'clock_mhz': float, 'memory_clock_mhz': float, 'memory_bus_bits': int, 'llc_bytes': int}
_DEVICE = (r'device (?P<device>\d+) uuid (?P<uuid>\S+) bus (?P<bus>\S+) arch (?P<arch>\S+) '
           + ' '.join(rf'{name} (?P<{name}>\d+|unknown)' for name in _FACTS) + ' name (?P<name>.*)')


def printed(text: str, row: str) -> tuple[dict[str, list[dict[str, str]]], dict[str, Any]]:
    """Read the output of jobs/programs/gpu.c: the lines ``row`` of each device, by its UUID, else by its place.

    ``row`` has the group `device`. Facts: compiler, flags, api, driver, and under `devices` what each device told
    of itself. Raises Incomplete and Wrong as `kernel` does."""
    result = row.replace('P<device>', 'P<of>')
    count, rows, facts = kernel(text, 'gpu', r'api \S+ driver \S+ devices', rf'(?:{_DEVICE}|{result})')
    heads = [line for line in rows if line['device']]
    results = [line for line in rows if not line['device']]
    if not count or [head['device'] for head in heads] != [str(place) for place in range(count)]:
        raise Wrong(f'{len(heads)} devices are named, the first line has {count}')
    by_name: dict[str, list[dict[str, str]]] = {}
    facts_of = {}
    for head in heads:
        name = head['device'] if head['uuid'] == 'unknown' else head['uuid']
        by_name[name] = [line for line in results if line['of'] == head['device']]
        facts_of[name] = _device_facts(head)
    if len(by_name) < count:
        raise Wrong('two devices have one UUID')
    for line in results:
        if int(line['of']) >= count:
            raise Wrong(f'a result is of device {line["of"]}: the first line has {count}')
    api, driver = Lines(text).one(_HEAD).groups()
    return by_name, {**facts, 'api': api, 'driver': driver, 'devices': facts_of}


def _device_facts(head: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts that a device has in its first line; None for those that it does not know."""
    facts: dict[str, Any] = {}
    for name, kind in _FACTS.items():
        text = head[name]
        facts[name] = None if text == 'unknown' else kind(text)
    facts['name'] = head['name']
    facts['arch'] = head['arch']
    return facts
