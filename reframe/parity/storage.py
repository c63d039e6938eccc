"""The mixins under storage checks: a folder of their own, with room, taken away after."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from reframe.core.builtins import run_before, variable
from reframe.core.pipeline import RegressionTestPlugin

from parity.mpi import Mpi

#: File systems of one kernel. All others may have servers, with caches that no client can drop or look into.
_LOCAL = {'ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'f2fs', 'jfs', 'tmpfs', 'ramfs', 'overlay', 'vfat'}


#: And of these, those that are memory: direct I/O may be taken there, and means nothing.
_MEMORY = {'tmpfs', 'ramfs'}


class Room(RegressionTestPlugin):
    """Beside Workload: ``on`` is the file system by the name that the partition has for it."""

    on = variable(str, value='scratch')

    def take_room(self, size_bytes, files):
        """The job makes a folder for so much, or refuses: $folder in the script, removed however it ends."""
        room = shlex.join(['python3', 'room.py', self.filesystem(self.on), str(int(size_bytes)), str(int(files))])
        self.prerun_cmds = [f'folder=$({room}) || exit 2', """trap 'rm -rf -- "$folder"' EXIT"""]

    @run_before('run')
    def parity_stage_room(self):
        self.stage_program('room.py')

    def accepts_direct(self):
        """Whether the file system takes O_DIRECT; where it is not seen from here, it is thought to."""
        place = Path(self.filesystem(self.on))
        if not place.is_dir():
            return True
        probe = place / f'parity-direct-{os.getpid()}'
        try:
            os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
        return True

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
