"""The mixins under storage checks: a folder of their own, with room, taken away after."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from reframe.core.builtins import run_before, variable
from reframe.core.pipeline import RegressionTestPlugin

from parity.mpi import Mpi
from parity.outputs import Incomplete

#: File systems of one kernel. All others may have servers, with caches that no client can drop or look into.
_LOCAL = {'ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'f2fs', 'jfs', 'tmpfs', 'ramfs', 'overlay', 'vfat'}


#: And of these, those that are memory: direct I/O may be taken there, and means nothing.
_MEMORY = {'tmpfs', 'ramfs'}


class Room(RegressionTestPlugin):
    """Beside Workload: ``on`` is the file system by the name that the partition has for it."""

    on = variable(str, value='scratch')

    def take_room(self, size_bytes, files):
        """The job makes a folder for so much, or refuses: $folder in the script, removed however it ends."""
        self._take_room(str(int(size_bytes)), files)

    def take_room_for_direct(self, size_bytes, without, files):
        """As ``take_room`` does; $direct is 1 and $bytes the size, or, without direct I/O, 0 and ``without``.

        The node that runs the job is asked: ``took_direct`` says afterwards what it answered.
        """
        ask = shlex.join(['python3', 'direct.py', self.filesystem(self.on)])
        self._take_room('"$bytes"', files)
        self.prerun_cmds[:0] = [f'direct=$({ask}) || exit 2', f'bytes=$((direct ? {size_bytes:d} : {without:d}))']
        self.room_programs = ('room.py', 'direct.py')

    def _take_room(self, size, files):
        room = f'{shlex.join(["python3", "room.py", self.filesystem(self.on)])} {size} {int(files)}'
        self.prerun_cmds = [f'folder=$({room}) || exit 2', """trap 'rm -rf -- "$folder"' EXIT"""]
        self.room_programs = ('room.py',)

    @run_before('run')
    def parity_stage_room(self):
        for name in self.room_programs:
            self.stage_program(name)

    def took_direct(self):
        """Whether the file system took direct I/O on the node that ran the job."""
        try:
            return Path(self.stagedir, 'direct.txt').read_text().strip() == '1'
        except OSError:
            raise Incomplete('direct.txt: the job did not come so far as to ask for direct I/O') from None

    def bytes_without_direct(self, size_bytes):
        """What is written instead where direct I/O is not taken: twice the memory, but for size=quick."""
        memory = self.extra('memory_bytes')
        return size_bytes if self.size == 'quick' or not memory else 2 * memory

    def caches_known(self):
        """What can be said of the caches between the program and the disks, for the case's facts."""
        kind = self.filesystem_type()
        return {'filesystem': kind, 'server_cache': 'none: local' if self.is_local() else 'unknown'}

    def filesystem_type(self):
        """As the node that ran the job has it mounted, or `unknown`."""
        try:
            return json.loads(Path(self.stagedir, 'room.json').read_text())['filesystem']
        except (OSError, ValueError, KeyError):
            return 'unknown'

    def is_memory(self):
        """True where the file system has no disk."""
        return self.filesystem_type() in _MEMORY

    def is_local(self):
        """True where one kernel has the file system: nodes that share it are one machine, with one cache."""
        return self.filesystem_type() in _LOCAL


class Storage(Mpi, Room):
    """Storage checks that are MPI programs."""
