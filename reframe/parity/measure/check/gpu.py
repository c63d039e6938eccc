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
        self.job.launcher.modifier, self.job.launcher.modifier_options = 'python3', ['-I gpus.py run --']

    def note_devices(self, found: Collection[str] | None = None) -> tuple[list[str], dict[str, GpuDevice]]:
        """Return the devices of the case in order, by UUID, else by place, and the driver's own words on each.

        ``found`` are those that the program named; None: it named none. Notes them. Raises Wrong for one that is
        absent or that the driver does not know."""
        told = self._report()
        # a place is no name: CUDA and the driver count in different orders
        devices = {} if any(map(str.isdigit, found or ())) else {device.uuid: device for device in told.devices}
        if strange := sorted(set(found or ()) - set(devices)) if devices else ():
            raise Wrong(f'device {strange[0]}: the driver knows {", ".join(devices)}')
        order = [uuid for uuid in devices if found is None or uuid in found] or list(found or ())
        if order or found is not None:
            self._complete(order, devices)
        self.parity.devices = {
            f'gpu{at}': f'{uuid}, bus {device.bus}{gpu.capped(told, device)}'
            if (device := devices.get(uuid)) else uuid for at, uuid in enumerate(order)}
        self._tell(told)
        return order, devices

    def parity_hardware(self):
        """Raise Wrong for a device that its driver calls bad: a program that it stopped may print nothing."""
        told = self._report()
        if bad := gpu.bad(told):
            lost = any(device.error for device in told.devices)       # it may not tell its name
            absent = _absent(self._devices(), [device.uuid for device in told.devices]) if lost else ''
            raise Wrong('; '.join(bad) + absent)

    def per_joule(self, gflop: Mapping[str, float]) -> None:
        """Note the Gflop a joule of each device, whose work is 10^9 operations, where its driver tells the energy.

        The energy is that of the whole program, its start included: the true ratio is not lower."""
        self.parity.gpus['gflop_per_joule'] = {
            str(device): gflop[device.uuid] / joules for device in self._report().devices
            if device.uuid in gflop and (joules := gpu.energy_j(device))}

    def _report(self) -> Report:
        """Read what gpus.py wrote; the report says why where nothing can be read."""
        try:
            return Report(**json.loads(Path(self.stagedir, _REPORT).read_text()))
        except (OSError, ValueError, TypeError) as err:
            return Report(node='', source='none', why=f'{_REPORT}: {str(err).splitlines()[0]}', seconds=0)

    def _complete(self, order: list[str], devices: Mapping[str, GpuDevice]) -> None:
        """Raise Wrong where a node has not as many devices as stated; name an absent one that was seen before."""
        if len(order) != self.devices:
            known = self._devices() | {uuid: str(device) for uuid, device in devices.items()}
            raise Wrong(f'{counted(len(order), "device")}, the partition states {self.devices}'
                        + (_absent(known, order) if len(order) < self.devices else ''))
        self._devices({uuid: str(devices[uuid]) for uuid in order if uuid in devices})

    def _devices(self, now: dict[str, str] | None = None) -> dict[str, str]:
        """Return the devices that the node had when it was whole, and keep those that it has ``now``."""
        file = paths.results() / 'cache' / 'devices.json'
        node = self.parity.node.get('node') or platform.node()
        try:
            every = json.loads(file.read_text())
        except (OSError, ValueError):
            every = {}
        if now and every.get(node) != now:
            files.write(file, json.dumps({**every, node: now}))
        return every.get(node, {})

    def _tell(self, told: Report) -> None:
        """Note what the driver said, who else had the devices, and what slowed them down."""
        self.parity.gpus = gpu.facts(told)
        self.parity.node = {**self.parity.node,
                            'gpus': ' '.join(device.uuid for device in told.devices),
                            'gpu_slowed': '; '.join(gpu.causes(told)) or 'no'}
        self.parity.disturbed = '; '.join(filter(None, (self.parity.disturbed, gpu.disturbed(told))))


class Gpu(Devices, Workload):
    """A case on one node, with all its cores and devices."""

    @run_after('init', always_last=True)
    def parity_declare_even(self):
        """Declare how even the devices are, for each metric of a device."""
        self.metrics = tuple(every for metric in self.metrics for every in (
            [metric, Metric(metric.name.removesuffix(_EACH) + _EVEN, '', 'higher', most=1.0)]
            if metric.name.endswith(_EACH) else [metric]))

    def metrics_on(self, partition):
        return self._of_devices(stated(partition) or 1)

    def _of_devices(self, count):
        """The metrics of a node with so many devices."""
        places = [str(at) for at in range(count)]
        return tuple(dataclasses.replace(metric, name=metric.name + at) for metric in self.metrics
                     for at in (places if metric.name.endswith(_EACH) else ['']))

    @run_after('setup')
    def parity_devices(self):
        self.parity_declare_each()
        self.parity.metrics = {m.name: self._parity_metric(m) for m in self.metrics}

    def parity_declare_each(self):
        """Declare a metric a device; one device is as even as can be."""
        self.metrics = self._of_devices(self.devices)
        if self.devices == 1:
            self.leave_out([m.name for m in self.metrics if m.name.endswith(_EVEN)], 'one device')

    def run_gpu(self, *arguments):
        """Compile jobs/programs/gpu.c and run it on all devices."""
        self.programs = ('compile.sh', 'kernel.h', 'gpu.h', 'gpu.c')
        self.prerun_cmds = ['./compile.sh gpu || exit 1']
        for name in () if self.standalone else ('nvrtc', 'cublas', 'nccl'):     # NVIDIA's wheels
            if file := next(Path(sys.prefix).glob(f'lib/python*/site-packages/nvidia/*/lib/lib{name}.so.*'), None):
                self.env_vars[f'PARITY_{name.upper()}'] = str(file)
        self.run_devices('./gpu', *arguments)

    def run_devices(self, *command, how='run'):
        """Run ``command``, which takes all devices; `each`: once for each, all at once. The driver is asked about
        them before, meanwhile and after."""
        self.num_tasks, self.num_cpus_per_task = 1, self.extra('cores') or 1
        self.without_launcher()
        self.ask_driver()
        self.executable = 'python3'
        self.executable_opts = ['-I gpus.py', how, '--', *map(str, command)]

    def by_device(self, found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Return the figures of the case from those of each device, by its UUID, else by its place.

        Sets their limits. Raises Wrong as ``note_devices`` does."""
        order, devices = self.note_devices(found)
        values = {f'{name}{at}': value for at, uuid in enumerate(order) for name, value in found[uuid].items()}
        for name in {name for uuid in order for name in found[uuid]} if len(order) > 1 else ():
            each = [found[uuid][name] for uuid in order if name in found[uuid]]
            values[name.removesuffix(_EACH) + _EVEN] = min(each) / median(each)
        self._limit([devices.get(uuid) for uuid in order])
        return values

    def _limit(self, devices: list[GpuDevice | None]) -> None:
        """Stand each device's figures beside its own limits."""
        limits = [gpu.limits(device) if device else {} for device in devices]
        for metric in self.metrics:
            if not (place := metric.name[len(shared(metric.name)):]) or int(place) >= len(limits):
                continue
            if limit := limits[int(place)].get(metric.limit):
                self.parity.metrics[metric.name].limit = limit.model_dump()

    @run_before('performance')
    def parity_share_references(self):
        """A value that was accepted for NAME_gpu is one for each device."""
        try:
            own = self.reference[self] if getattr(self.reference, 'index', None) else {}
        except KeyError:
            return
        own.update({m.name: own[shared(m.name)] for m in self.metrics if shared(m.name) in own})


def _absent(known: Mapping[str, str], here: Collection[str]) -> str:
    """Name the known devices that are not here."""
    gone = [said for uuid, said in known.items() if uuid not in here]
    return f'; absent: {", ".join(gone)}' if gone else ''


_HEAD = r'gpu 1 api (\S+) driver (\S+) devices \d+'
_FACTS = {'units': int, 'clock_mhz': float, 'memory_clock_mhz': float, 'memory_bus_bits': int, 'llc_bytes': int}
_DEVICE = (r'device (?P<device>\d+) uuid (?P<uuid>\S+) bus (?P<bus>\S+) arch (?P<arch>\S+) '
           + ' '.join(rf'{name} (?P<{name}>\d+|unknown)' for name in _FACTS) + ' name (?P<name>.*)')


def printed(text: str, row: str) -> tuple[dict[str, list[dict[str, str]]], dict[str, Any]]:
    """Read the output of jobs/programs/gpu.c: the lines ``row`` of each device, by its UUID, else by its place.

    ``row`` has the group `device`. Facts: compiler, flags, api, driver, and under `devices` what each device told
    of itself. Raises Incomplete and Wrong as `kernel` does."""
    count, rows, facts = kernel(text, 'gpu', r'api \S+ driver \S+ devices',
                               rf'(?:{_DEVICE}|{row.replace("P<device>", "P<of>")})')
    heads, results = [one for one in rows if one['device']], [one for one in rows if not one['device']]
    if [one['device'] for one in heads] != [str(at) for at in range(count)] or not count:
        raise Wrong(f'{len(heads)} devices are named, the first line has {count}')
    names = [one['device'] if one['uuid'] == 'unknown' else one['uuid'] for one in heads]
    if len(set(names)) < count:
        raise Wrong('two devices have one UUID')
    if strange := [one['of'] for one in results if int(one['of']) >= count]:
        raise Wrong(f'a result is of device {strange[0]}: the first line has {count}')
    api, driver = Lines(text).one(_HEAD).groups()
    told = {name: {key: None if one[key] == 'unknown' else kind(one[key]) for key, kind in _FACTS.items()}
            | {'name': one['name'], 'arch': one['arch']} for name, one in zip(names, heads, strict=True)}
    return {name: [one for one in results if one['of'] == str(at)] for at, name in enumerate(names)}, {
        **facts, 'api': api, 'driver': driver, 'devices': told}
