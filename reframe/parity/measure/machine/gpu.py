"""The GPUs of a node as their driver describes them, the report of jobs/programs/gpus.py: limits and health."""

from collections.abc import Iterator
from typing import Any

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
#: GT/s and coding of a lane by generation of PCIe (Base Specification 6.1, 1.2 and 4.2; Linux, drivers/pci/pci.h).
_LANE = {1: (2.5, 8, 10), 2: (5, 8, 10), 3: (8, 128, 130), 4: (16, 128, 130), 5: (32, 128, 130), 6: (64, 242, 256)}


def limits(device: GpuDevice) -> dict[str, Limit]:
    """Return the bounds that follow from what a device tells of itself, in Gflop/s, GB/s and MHz.

    A lost device has none, nor has one with MIG: an instance is a part. An architecture without a source has no
    gpu_double and the like. Every device counts alone: an MI250X is two. gpu_link is one way of PCIe and not
    certain: the host of a V100, GH200 or MI250X may have a faster link. gpu_collective is one way of all NVLinks,
    else of PCIe; a switch that adds up on the way may pass it."""
    if device.error or device.mig:
        return {}
    found = {}
    if clock := device.clock_mhz:
        found['gpu_clock'] = Limit(value=clock, unit='MHz', source='the highest, by the driver', certain=True)
        for name, flop in _FLOP.get(device.arch, {}).items() if device.units else ():
            unit = 'op' if name.startswith('int') else 'flop'
            found[f'gpu_{name}'] = Limit(value=device.units * clock / 1000 * flop, unit=f'G{unit}/s', certain=True,
                                         source=f'{device.units} units x {clock / 1000:g} GHz x {flop} {unit}')
    each = _TRANSFERS.get(device.arch, 2 if device.arch.startswith('sm_') else 0)
    if each and (clock := device.memory_clock_mhz) and (bits := device.memory_bus_bits):
        found['gpu_memory_bandwidth'] = Limit(value=clock * each * bits / 8000, unit='GB/s', certain=True,
                                              source=f'{clock:g} MHz x {each} x {bits} bits')
    if device.pcie_gen in _LANE and (width := device.pcie_width):
        rate, bits, sent = _LANE[device.pcie_gen]
        found['gpu_link'] = Limit(value=rate * width * bits / sent / 8, unit='GB/s',
                                  source=f'PCIe {device.pcie_gen}: {rate:g} GT/s x {width} lanes x {bits}/{sent}')
        found['gpu_collective'] = found['gpu_link']
    if (links := device.nvlinks) and (speed := device.nvlink_mbps):
        found['gpu_collective'] = Limit(value=links * speed / 1000, unit='GB/s',
                                        source=f'{links} NVLinks x {speed / 1000:g} GB/s')
    return found


#: A slowdown is named as a cause when it took more than this share of the time.
SLOWED = 0.01
#: Slowdowns that are findings. A software power cap is none: it is normal under matrix products.
_FINDINGS = {'hardware': 'hardware slowdown', 'thermal': 'thermal slowdown', 'power_brake': 'power-brake slowdown'}


def bad(report: Report) -> list[str]:
    """Return what is wrong with which device."""
    return [f'{device}: {why}' for device in report.devices for why in _wrong(device)]


def _wrong(device: GpuDevice) -> Iterator[str]:
    before, during, after = device.before, device.during, device.after
    if device.error:
        yield f'lost: {device.error}'
    if (grew := _grew(before.uncorrected, after.uncorrected)) and grew > 0:
        yield f'{grew} uncorrected memory errors during the run'
    if before.rows_failed or after.rows_failed:
        yield 'a memory row could not be remapped'
    if (wanted := after.recovery or before.recovery) and wanted != 'none':
        yield f'the driver wants: {wanted}'
    if device.xids:
        yield f'XID {", ".join(map(str, sorted(set(device.xids))))} during the run'
    for what, have, can in (('generation', during.pcie_gen, device.pcie_gen),
                            ('width', during.pcie_width, device.pcie_width)):
        if during.samples and have and can and have < can:
            yield f'PCIe {what} {have} under load, card and slot can do {can}'


def causes(report: Report) -> list[str]:
    """Return which device was slowed by what, for more than SLOWED of the time; settings; errors of links."""
    return [*(f'{device}: {why}' for device in report.devices for why in _slow(report, device)),
            *(f'{port}: {name} grew by {by}' for port, counts in report.infiniband.items()
              for name, by in counts.items())]


def _slow(report: Report, device: GpuDevice) -> Iterator[str]:
    for why, word in _FINDINGS.items():
        if (share := slowed(report, device).get(why, 0)) > SLOWED:
            yield f'{word} for {share:.1%} of the time'
    limit, default = device.power_limit_w, device.power_limit_default_w
    if limit and default and limit < default:
        yield f'power limit {limit:g} W, the default is {default:g} W'
    if device.during.clocks_set:
        yield 'a setting holds its clocks down'
    if (grew := _grew(device.before.nvlink_errors, device.after.nvlink_errors)) and grew > 0:
        yield f'{grew} errors of NVLinks'


def capped(report: Report, device: GpuDevice) -> str:
    """Return for how long a device was held by its power limit, which is no fault; '' for less than SLOWED."""
    share, clock = slowed(report, device).get('power_cap', 0), device.during.clock_mhz
    at = f' at {clock:.0f} MHz' if clock else ''
    return f', held by its power limit for {share:.0%} of the time{at}' if share > SLOWED else ''


def slowed(report: Report, device: GpuDevice) -> dict[str, float]:
    """Return the share of the time in which a device was slowed, by reason, where its driver tells."""
    grew = {why: _grew(device.before.slowed_ns.get(why), now) for why, now in device.after.slowed_ns.items()}
    return {why: ns / 1e9 / report.seconds for why, ns in grew.items() if ns is not None and report.seconds}


def disturbed(report: Report) -> str:
    """Return which device others used, too; '' if none, or if unknown."""
    others = {str(device): sorted({*(device.before.processes or ()), *(device.after.processes or ())})
              for device in report.devices}
    return '; '.join(f'{device}: used by others, too: process {", ".join(map(str, pids))}'
                     for device, pids in others.items() if pids)


def energy_j(device: GpuDevice) -> float | None:
    """Return the energy that a device took between before and after, J; None if its driver does not tell."""
    grew = _grew(device.before.energy_mj, device.after.energy_mj)
    return grew / 1000 if grew and grew > 0 else None


def facts(report: Report) -> dict[str, Any]:
    """Return what else the driver tells, by device, and under ``unknown`` what it does not tell."""
    return {'source': report.source, 'driver': report.driver, **({'why': report.why} if report.why else {}),
            'seconds': report.seconds,
            **({'infiniband': report.infiniband} if any(report.infiniband.values()) else {}),
            'devices': [_facts(report, device) for device in report.devices]}


def _facts(report: Report, device: GpuDevice) -> dict[str, Any]:
    load, after, share = device.during, device.after, slowed(report, device)
    told = {**device.model_dump(include={'mig', 'power_limit_w', 'power_limit_default_w', 'nvlinks', 'xids'}),
            **load.model_dump(exclude={'samples'}), 'energy_j': energy_j(device),
            **after.model_dump(exclude={'energy_mj', 'slowed_ns'}),
            **{f'slowed_{why}': share.get(why) for why in (*_FINDINGS, 'power_cap')}}
    return {'device': str(device), 'name': device.name,
            **{name: value for name, value in told.items() if value is not None},
            'unknown': [name for name, value in told.items() if value is None]}


def _grew(before: int | None, after: int | None) -> int | None:
    """Return the growth of a counter; None if it is unknown."""
    return None if before is None or after is None else after - before
