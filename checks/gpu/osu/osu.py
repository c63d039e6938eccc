"""OSU Micro-Benchmarks 7.4 (Panda et al., Ohio State) between GPUs: a rank's buffers are in its device's memory.

The whole curve up to 1 MiB is stored with the case; three sizes are judged, as between CPUs."""

import re

import reframe as rfm
from reframe.core.builtins import parameter, run_after

from parity.base import codes
from parity.check import Devices, room

osu = room(codes.named('osu'))
RUNTIMES = ('cuda', 'rocm')
#: What programs/rank.sh says in place of the program.
_WITHOUT = re.compile(r'^rank\.sh: (this MPI sends from no device: .*)', re.M)


class OnDevices(Devices):
    """A device for each rank: two of a node or of two nodes, or all of one or two nodes."""

    @run_after('setup')
    def place(self):
        self.parity_count_devices()         # ReFrame runs this where Osu has it, before those of Devices
        arch = next((device.arch for device in self.current_partition.devices if device.device_type == 'gpu'), '')
        self.device_api = 'rocm' if (arch or '').startswith('gfx') else 'cuda'
        self.runtimes = (self.device_api,)
        super().place()
        self.executable_opts += [f'-d {self.device_api}' + ' D D' * (self.benchmark not in osu.COLLECTIVES)]
        self.watch_launcher()

    def place_osu(self):
        within = self.where == 'within'
        if within and self.devices < 2:
            self.skip_case('devices: needs 2 on a node')
        self.place_where(self.devices * self.node_count())

    def parse(self, text):
        self.note_devices()
        if without := _WITHOUT.search(text):
            self.note({'mpi': without[1]})
            self.leave_out([m.name for m in self.metrics if m.name.endswith(tuple(osu.JUDGED))], without[1])
            return {}
        return osu.Osu.parse(self, text)


@rfm.simple_test
class GpuOsuLatency(OnDevices, osu.OsuLatency):
    """Time of one message between two devices, or of one collective operation over all."""

    benchmark = parameter(['latency', 'allreduce'], type=str)


@rfm.simple_test
class GpuOsuBandwidth(OnDevices, osu.OsuBandwidth):
    """Two devices, one way and both ways."""

    benchmark = parameter(['bw', 'bibw'], type=str)


def read(text, max_size=None, min_size=1, devices=RUNTIMES):
    """Read what OSU printed with buffers on devices: figures and facts as between CPUs, and the fact `device`."""
    return osu.read(text, max_size, min_size, devices)
