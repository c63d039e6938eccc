"""The GPUs of a node as their driver describes them, the report of jobs/programs/gpus.py: limits and health."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import Field

from parity.base.limits import Limit
from parity.base.strict import Strict


class DeviceState(Strict):
    """The state of a device at one moment. None: it does not tell.

    Counters of errors and rows count since the driver was loaded or for the card's life; times are in ns."""

    uncorrected: int | None = None          # memory errors
    rows_pending: bool | None = None        # rows wait for a reset to be remapped
    rows_failed: bool | None = None         # a row could not be remapped
    recovery: str | None = None             # the action that the driver wants: none, reset, reboot, drain
    energy_mj: int | None = None
    slowed_ns: dict[str, int | None] = {}   # by reason: hardware, thermal, power_brake, power_cap
    nvlink_errors: int | None = None        # CRC errors, replays and recoveries of all its NVLinks
    processes: list[int] | None = None      # process ids of others


class Load(Strict):
    """The extremes of a device's samples, one a second; ``samples`` counts those while its kernels ran, of which
    clocks and PCIe are."""

    samples: int = 0
    clock_mhz: float | None = None          # the median
    lowest_clock_mhz: float | None = None
    temperature_c: float | None = None      # the highest
    power_w: float | None = None            # the highest
    clocks_set: bool | None = None          # a setting holds the clocks down in most samples
    pcie_gen: int | None = None             # the highest: an idle link falls back
    pcie_width: int | None = None


class GpuDevice(Strict):
    """One device. ``error`` is what it said in place of an answer: it is lost."""

    index: int                              # the driver's, by bus
    uuid: str
    bus: str
    name: str = ''
    error: str = ''
    mig: bool | None = None                 # it is shared out in instances
    arch: str = ''                          # sm_90, gfx90a
    units: int | None = None                # streaming multiprocessors, compute units
    clock_mhz: float | None = None          # the highest that the units reach
    memory_clock_mhz: float | None = None
    memory_bus_bits: int | None = None
    memory_bytes: int | None = None
    pcie_gen: int | None = None             # what card and slot can do
    pcie_width: int | None = None
    nvlinks: int | None = None
    nvlink_mbps: int | None = None          # of one link, one way
    power_limit_w: float | None = None      # that the driver keeps now
    power_limit_default_w: float | None = None
    xids: list[int] | None = None           # the driver's errors (XID) during the run
    before: DeviceState = Field(default_factory=DeviceState)
    during: Load = Field(default_factory=Load)
    after: DeviceState = Field(default_factory=DeviceState)

    def __str__(self) -> str:
        return f'gpu{self.index} ({self.uuid or "UUID unknown"}, bus {self.bus or "unknown"})'


class Report(Strict):
    """The report of one node: every device by its bus. ``source`` is the library or tool that answered; ``why``
    says why none did. ``crc32`` is that of the others, which a parser can compare."""

    node: str
    source: str                             # nvml, nvidia-smi, amd-smi, rocm-smi, none
    why: str = ''
    driver: str = ''
    seconds: float = Field(ge=0)            # between before and after
    infiniband: dict[str, dict[str, int]] = {}      # counters of errors that grew meanwhile, by port
    devices: list[GpuDevice] = []
    crc32: str = ''


#: Flop a cycle and unit by architecture; a multiply-add is two, a matrix is dense. Sources: CUDA C++ Best
#: Practices Guide 13.0, table 5; NVIDIA's white papers of Volta, Ampere 1.0 and Hopper 1.04, table 3; ROCm's
#: documentation, "MI250 microarchitecture" and "MI300 series microarchitecture", FLOPS/CLOCK/CU (packed single).
#: Others need a source. int8_matrix: operations of integers.
_FLOP = {
    'sm_70': {'double': 64, 'single': 128, 'half': 256, 'half_matrix': 1024},
    'sm_80': {'double': 64, 'double_matrix': 128, 'single': 128, 'half': 512, 'tf32_matrix': 1024,
              'half_matrix': 2048, 'bf16_matrix': 2048, 'int8_matrix': 4096},
    'sm_90': {'double': 128, 'double_matrix': 256, 'single': 256, 'half': 512, 'tf32_matrix': 2048,
              'half_matrix': 4096, 'bf16_matrix': 4096, 'int8_matrix': 8192},
    'gfx90a': {'double': 128, 'double_matrix': 256, 'single': 256, 'half_matrix': 1024},
    'gfx942': {'double': 128, 'double_matrix': 256, 'single': 256, 'tf32_matrix': 1024, 'half_matrix': 2048}}
#: Transfers in a cycle of the memory clock that the driver tells. AMD's tells 1300 MHz of HBM3 at 5.2 GT/s: ROCm
#: Compute Profiler, specs.py, takes 32 bytes a cycle for each of 128 channels.
_TRANSFERS = {'gfx90a': 2, 'gfx942': 4}


class Lane(NamedTuple):
    """The rate and the coding of a lane: so many bits of data in so many that are sent."""

    gt_per_s: float
    data_bits: int
    sent_bits: int


#: A lane by generation of PCIe (Base Specification 6.1, 1.2 and 4.2; Linux, drivers/pci/pci.h).
_LANE = {
    1: Lane(2.5, 8, 10),
    2: Lane(5, 8, 10),
    3: Lane(8, 128, 130),
    4: Lane(16, 128, 130),
    5: Lane(32, 128, 130),
    6: Lane(64, 242, 256),
}


def limits(device: GpuDevice) -> dict[str, Limit]:
    """Return the bounds that follow from what a device tells of itself, in Gflop/s, GB/s and MHz.

    A lost device has none, nor has one with MIG: an instance is a part. An architecture without a source has no
    gpu_double and the like. Every device counts alone: an MI250X is two. gpu_link is one way of PCIe and not
    certain: the host of a V100, GH200 or MI250X may have a faster link. gpu_collective is one way of all NVLinks,
    else of PCIe; a switch that adds up on the way may pass it."""
    if device.error or device.mig:
        return {}
    bounds = _compute_limits(device)
    memory = _memory_limit(device)
    if memory:
        bounds['gpu_memory_bandwidth'] = memory
    pcie = _pcie_limit(device)
    if pcie:
        bounds['gpu_link'] = pcie
    collective = _nvlink_limit(device) or pcie
    if collective:
        bounds['gpu_collective'] = collective
    return bounds


def _compute_limits(device: GpuDevice) -> dict[str, Limit]:
    if not device.clock_mhz:
        return {}
    clock = Limit(value=device.clock_mhz, unit='MHz', source='the highest, by the driver', certain=True)
    bounds = {'gpu_clock': clock}
    if not device.units:
        return bounds
    ghz = device.clock_mhz / 1000
    for name, operations in _FLOP.get(device.arch, {}).items():
        unit = 'op' if name.startswith('int') else 'flop'
        bounds[f'gpu_{name}'] = Limit(
            value=device.units * ghz * operations,
            unit=f'G{unit}/s',
            source=f'{device.units} units x {ghz:g} GHz x {operations} {unit}',
            certain=True)
    return bounds


def _memory_limit(device: GpuDevice) -> Limit | None:
    usual = 2 if device.arch.startswith('sm_') else 0
    transfers = _TRANSFERS.get(device.arch, usual)
    clock = device.memory_clock_mhz
    bits = device.memory_bus_bits
    if not transfers or not clock or not bits:
        return None
    return Limit(
        value=clock * transfers * bits / 8000,
        unit='GB/s',
        source=f'{clock:g} MHz x {transfers} x {bits} bits',
        certain=True)


def _pcie_limit(device: GpuDevice) -> Limit | None:
    lane = _LANE.get(device.pcie_gen)
    width = device.pcie_width
    if not lane or not width:
        return None
    coding = f'{lane.data_bits}/{lane.sent_bits}'
    return Limit(
        value=lane.gt_per_s * width * lane.data_bits / lane.sent_bits / 8,
        unit='GB/s',
        source=f'PCIe {device.pcie_gen}: {lane.gt_per_s:g} GT/s x {width} lanes x {coding}')


def _nvlink_limit(device: GpuDevice) -> Limit | None:
    links = device.nvlinks
    if not links or not device.nvlink_mbps:
        return None
    link = device.nvlink_mbps / 1000
    return Limit(value=links * link, unit='GB/s', source=f'{links} NVLinks x {link:g} GB/s')


#: A slowdown is named as a cause when it took more than this share of the time.
SLOWED = 0.01
#: Slowdowns that are findings. A software power cap is none: it is normal under matrix products.
_FINDINGS = {'hardware': 'hardware slowdown', 'thermal': 'thermal slowdown', 'power_brake': 'power-brake slowdown'}


def bad(report: Report) -> list[str]:
    """Return what is wrong with which device."""
    faults = []
    for device in report.devices:
        faults += [f'{device}: {fault}' for fault in _wrong(device)]
    return faults


def _wrong(device: GpuDevice) -> Iterator[str]:
    before, during, after = device.before, device.during, device.after
    if device.error:
        yield f'lost: {device.error}'
    errors = _growth(before.uncorrected, after.uncorrected)
    if errors > 0:
        yield f'{errors} uncorrected memory errors during the run'
    if before.rows_failed or after.rows_failed:
        yield 'a memory row could not be remapped'
    wanted = after.recovery or before.recovery
    if wanted and wanted != 'none':
        yield f'the driver wants: {wanted}'
    if device.xids:
        numbers = sorted(set(device.xids))
        yield f'XID {", ".join(map(str, numbers))} during the run'
    if not during.samples:
        return
    if _is_less(during.pcie_gen, device.pcie_gen):
        yield f'PCIe generation {during.pcie_gen} under load, card and slot can do {device.pcie_gen}'
    if _is_less(during.pcie_width, device.pcie_width):
        yield f'PCIe width {during.pcie_width} under load, card and slot can do {device.pcie_width}'


def _is_less(value: float | None, usual: float | None) -> bool:
    """Return whether a value is below what is usual; no where the driver does not tell one of the two."""
    return bool(value and usual and value < usual)


def causes(report: Report) -> list[str]:
    """Return which device was slowed by what, for more than SLOWED of the time; settings; errors of links."""
    lines = []
    for device in report.devices:
        lines += [f'{device}: {cause}' for cause in _slow(report, device)]
    for port, counters in report.infiniband.items():
        lines += [f'{port}: {counter} grew by {growth}' for counter, growth in counters.items()]
    return lines


def _slow(report: Report, device: GpuDevice) -> Iterator[str]:
    shares = slowed(report, device)
    for reason, words in _FINDINGS.items():
        share = shares.get(reason, 0)
        if share > SLOWED:
            yield f'{words} for {share:.1%} of the time'
    limit = device.power_limit_w
    default = device.power_limit_default_w
    if _is_less(limit, default):
        yield f'power limit {limit:g} W, the default is {default:g} W'
    if device.during.clocks_set:
        yield 'a setting holds its clocks down'
    errors = _growth(device.before.nvlink_errors, device.after.nvlink_errors)
    if errors > 0:
        yield f'{errors} errors of NVLinks'


def capped(report: Report, device: GpuDevice) -> str:
    """Return for how long a device was held by its power limit, which is no fault; '' for less than SLOWED."""
    share = slowed(report, device).get('power_cap', 0)
    if share <= SLOWED:
        return ''
    held = f', held by its power limit for {share:.0%} of the time'
    clock = device.during.clock_mhz
    return f'{held} at {clock:.0f} MHz' if clock else held


def slowed(report: Report, device: GpuDevice) -> dict[str, float]:
    """Return the share of the time in which a device was slowed, by reason, where its driver tells."""
    if not report.seconds:
        return {}
    shares = {}
    for reason, after in device.after.slowed_ns.items():
        before = device.before.slowed_ns.get(reason)
        if before is not None and after is not None:
            shares[reason] = (after - before) / 1e9 / report.seconds
    return shares


def disturbed(report: Report) -> str:
    """Return which device others used, too; '' if none, or if unknown."""
    uses = []
    for device in report.devices:
        processes = {*(device.before.processes or ()), *(device.after.processes or ())}
        if processes:
            numbers = ', '.join(map(str, sorted(processes)))
            uses.append(f'{device}: used by others, too: process {numbers}')
    return '; '.join(uses)


def energy_j(device: GpuDevice) -> float | None:
    """Return the energy that a device took between before and after, J; None if its driver does not tell."""
    millijoules = _growth(device.before.energy_mj, device.after.energy_mj)
    return millijoules / 1000 if millijoules > 0 else None


def facts(report: Report) -> dict[str, Any]:
    """Return what else the driver tells, by device, and under ``unknown`` what it does not tell."""
    record = {'source': report.source, 'driver': report.driver}
    if report.why:
        record['why'] = report.why
    record['seconds'] = report.seconds
    if any(report.infiniband.values()):
        record['infiniband'] = report.infiniband
    record['devices'] = [_facts(report, device) for device in report.devices]
    return record


def _facts(report: Report, device: GpuDevice) -> dict[str, Any]:
    values = device.model_dump(include={'mig', 'power_limit_w', 'power_limit_default_w', 'nvlinks', 'xids'})
    values |= device.during.model_dump(exclude={'samples'})
    values['energy_j'] = energy_j(device)
    values |= device.after.model_dump(exclude={'energy_mj', 'slowed_ns'})
    shares = slowed(report, device)
    for reason in (*_FINDINGS, 'power_cap'):
        values[f'slowed_{reason}'] = shares.get(reason)

    record = {'device': str(device), 'name': device.name}
    unknown = []
    for name, value in values.items():
        if value is None:
            unknown.append(name)
        else:
            record[name] = value
    record['unknown'] = unknown
    return record


def _growth(before: int | None, after: int | None) -> int:
    """Return the growth of a counter; 0 if it is unknown."""
    if before is None or after is None:
        return 0
    return after - before
