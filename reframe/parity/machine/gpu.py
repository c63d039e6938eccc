"""The GPUs of a node as their driver describes them, the report of jobs/programs/gpus.py, and their limits."""

from __future__ import annotations

from pydantic import Field

from parity.base.strict import Limit, Strict


class State(Strict):
    """The state of a device at one moment. None: it does not tell.

    Counters of errors and rows count since the driver was loaded or for the card's life; times are in ns."""

    uncorrected: int | None = None          # memory errors
    rows_pending: bool | None = None        # rows wait for a reset to be remapped
    rows_failed: bool | None = None         # a row could not be remapped
    recovery: str | None = None             # the action that the driver wants: none, reset, reboot, drain
    energy_mj: int | None = None
    slowed_ns: dict[str, int] = {}          # by reason: hardware, thermal, power_brake, power_cap
    processes: list[int] | None = None      # process ids of others


class Load(Strict):
    """The extremes of a device's ``samples``, one a second while the program ran."""

    samples: int = 0
    clock_mhz: float | None = None          # the median
    lowest_clock_mhz: float | None = None
    temperature_c: float | None = None      # the highest
    power_w: float | None = None            # the highest
    pcie_gen: int | None = None             # the highest: an idle link falls back
    pcie_width: int | None = None


class Device(Strict):
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
    before: State = State()
    during: Load = Load()
    after: State = State()

    def __str__(self) -> str:
        return f'gpu{self.index} ({self.uuid}, bus {self.bus})'


class Report(Strict):
    """The report of one node: every device by its bus. ``source`` is the library or tool that answered; ``why``
    says why none did."""

    node: str
    source: str                             # nvml, nvidia-smi, amd-smi, rocm-smi, none
    why: str = ''
    driver: str = ''
    seconds: float = Field(ge=0)            # between before and after
    devices: list[Device] = []


#: Flop a cycle and unit by architecture; a multiply-add is two, a matrix is dense. Sources: CUDA C++ Best
#: Practices Guide 13.0, table 5; NVIDIA's white papers of Volta, Ampere 1.0 and Hopper 1.04, table 3; ROCm's
#: documentation, "MI250 microarchitecture" and "MI300 series microarchitecture", FLOPS/CLOCK/CU (packed single).
#: Others need a source.
_FLOP = {
    'sm_70': {'double': 64, 'single': 128, 'half_matrix': 1024},
    'sm_80': {'double': 64, 'double_matrix': 128, 'single': 128, 'tf32_matrix': 1024, 'half_matrix': 2048},
    'sm_90': {'double': 128, 'double_matrix': 256, 'single': 256, 'tf32_matrix': 2048, 'half_matrix': 4096},
    'gfx90a': {'double': 128, 'double_matrix': 256, 'single': 256, 'half_matrix': 1024},
    'gfx942': {'double': 128, 'double_matrix': 256, 'single': 256, 'tf32_matrix': 1024, 'half_matrix': 2048}}
#: Transfers in a cycle of the memory clock that the driver tells. AMD's tells 1300 MHz of HBM3 at 5.2 GT/s: ROCm
#: Compute Profiler, specs.py, takes 32 bytes a cycle for each of 128 channels.
_TRANSFERS = {'gfx90a': 2, 'gfx942': 4}
#: GT/s and coding of a lane by generation of PCIe (Base Specification 6.1, 1.2 and 4.2; Linux, drivers/pci/pci.h).
_LANE = {1: (2.5, 8, 10), 2: (5, 8, 10), 3: (8, 128, 130), 4: (16, 128, 130), 5: (32, 128, 130), 6: (64, 242, 256)}


def limits(device: Device) -> dict[str, Limit]:
    """Return the bounds that follow from what a device tells of itself, in Gflop/s, GB/s and MHz.

    A lost device has none, nor has one with MIG: an instance is a part. An architecture without a source has no
    gpu_double and the like. Every device counts alone: an MI250X is two. gpu_link is one way of PCIe and not
    certain: the host of a V100, GH200 or MI250X may have a faster link."""
    if device.error or device.mig:
        return {}
    found = {}
    if clock := device.clock_mhz:
        found['gpu_clock'] = Limit(value=clock, unit='MHz', source='the highest, by the driver', certain=True)
        for name, flop in _FLOP.get(device.arch, {}).items() if device.units else ():
            found[f'gpu_{name}'] = Limit(value=device.units * clock / 1000 * flop, unit='Gflop/s', certain=True,
                                         source=f'{device.units} units x {clock / 1000:g} GHz x {flop} flop')
    each = _TRANSFERS.get(device.arch, 2 if device.arch.startswith('sm_') else 0)
    if each and (clock := device.memory_clock_mhz) and (bits := device.memory_bus_bits):
        found['gpu_memory_bandwidth'] = Limit(value=clock * each * bits / 8000, unit='GB/s', certain=True,
                                              source=f'{clock:g} MHz x {each} x {bits} bits')
    if device.pcie_gen in _LANE and (width := device.pcie_width):
        rate, bits, sent = _LANE[device.pcie_gen]
        found['gpu_link'] = Limit(value=rate * width * bits / sent / 8, unit='GB/s',
                                  source=f'PCIe {device.pcie_gen}: {rate:g} GT/s x {width} lanes x {bits}/{sent}')
    return found
