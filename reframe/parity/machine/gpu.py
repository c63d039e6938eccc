"""The GPUs of a node, as their driver tells of them: the report of jobs/programs/gpus.py."""

from __future__ import annotations

from pydantic import Field

from parity.base.strict import Strict


class State(Strict):
    """What a device says at one moment. None: it does not tell.

    Counters of errors and rows count since the driver was loaded or for the card's life; times are in ns."""

    uncorrected: int | None = None          # memory errors
    rows_pending: bool | None = None        # rows wait for a reset to be remapped
    rows_failed: bool | None = None         # a row could not be remapped
    recovery: str | None = None             # the action that the driver wants: none, reset, reboot, drain
    energy_mj: int | None = None
    slowed_ns: dict[str, int] = {}          # by reason: hardware, thermal, power_brake, power_cap
    processes: list[int] | None = None      # process ids of others


class Load(Strict):
    """What a device said while the program ran: the extremes of ``samples``, one a second."""

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
