"""The mixins under storage checks: a folder of their own, with room, taken away after."""

from __future__ import annotations

import json
import os
import runpy
import shlex
import shutil
from pathlib import Path

from reframe.core.builtins import run_after, variable
from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestPlugin

from parity.base import paths
from parity.base.figures import figure
from parity.base.reasons import Kind
from parity.measure.check.mpi import Mpi
from parity.measure.check.reader import Incomplete
from parity.measure.check.sizing import NightBudget, fit
from parity.site import identity

#: File systems of one kernel. All others may have servers, with caches that no client can drop or look into.
_LOCAL = {'ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'f2fs', 'jfs', 'tmpfs', 'ramfs', 'overlay', 'vfat'}
#: And of these, those that are memory: direct I/O may be taken there, and means nothing.
_MEMORY = {'tmpfs', 'ramfs'}
#: By device or path, for the cases of this process: a session.
_nights: dict[object, NightBudget] = {}
#: Of a file system's free space, where system.yaml states no io_budget: night.
_NIGHT_SHARE = 0.10
#: How to have a skipped case run: the key and its bytes.
_RAISED = '; io_budget: {{{}: {}}} in system.yaml lets it run'


class Budget(RegressionTestPlugin):
    """Beside Workload: what the case writes is planned, within `io_budget` of system.yaml, or it is skipped."""

    def plan_bytes(self, wanted, repetitions, on, before=0):
        """The IoPlan (`sizing.fit`) on the named file system; skips a case that does not fit."""
        return self.plan_either([wanted], repetitions, on, before)[0]

    def plan_either(self, ways, repetitions, on, before=0):
        """One IoPlan for each of ``ways``, lists of ``wanted``, of which the job takes one: the largest counts."""
        stated = self.extra('io_budget') or {}
        case, described = self._case_budget(stated)
        plans = [fit(wanted, repetitions, case, described, before) for wanted in ways]
        if None in plans:
            smallest = min(ways[plans.index(None)])
            least = smallest * (1 + before)
            self.skip_case(f'io_budget: case: needs at least {figure(least, "B")}, has {described}'
                           + _RAISED.format('case', least), Kind.IO_BUDGET)
        largest = max(plans, key=lambda plan: plan.total_bytes)
        self.derive('io', largest)
        if not self.standalone:
            self._take_of_night(largest.total_bytes, self._night(stated.get('night'), self.filesystem(on)))
        return plans

    def _case_budget(self, stated):
        """Return the bytes that the case may write, and what they are; (None, '') without a limit."""
        if stated.get('case'):
            return stated['case'], figure(stated['case'], 'B')
        memory = self.extra('memory_bytes')
        if memory:
            return 2 * memory, f'{figure(2 * memory, "B")}, 2 x memory'
        return None, ''

    def _take_of_night(self, total_bytes, night):
        """Take the bytes of all runs from the budget of a night (None: there is none), or skip the case."""
        if not night:
            return
        name = identity.case_name(self.display_name), self.current_partition.fullname, self.current_environ.name
        runs = self._runs()
        why = night.take(name, total_bytes, runs)
        if why:
            needed = night.budget - night.left + runs * total_bytes
            self.skip_case(why + _RAISED.format('night', needed), Kind.IO_BUDGET)

    @run_after('setup', always_last=True)
    def parity_planned(self):
        if 'io' not in self.parity.sizing:
            raise ReframeError(f'{type(self).__name__} plans no bytes: call plan_bytes() after setup')

    def _night(self, stated, path):
        """Return the budget left for this session; None if none is stated and the free space is not known here."""
        nights = {} if self.by_itself else _nights
        if stated:
            return nights.setdefault('stated', NightBudget(stated, figure(stated, 'B')))
        folder = Path(os.path.expandvars(path))
        if self.runs_here():
            folder = next(place for place in (folder, *folder.parents) if place.exists())
        try:
            usage = shutil.disk_usage(folder)
            device = folder.stat().st_dev
        except OSError:                 # a file system of the nodes' own
            return None
        if not usage.total:             # /proc and the like count no blocks: the program says what is wrong
            return None
        budget = int(_NIGHT_SHARE * usage.free)
        text = f'{figure(budget, "B")}, 10 % of the free space of {path}'
        return nights.setdefault(device, NightBudget(budget, text))

    def _runs(self):
        """Return how often a session runs the case: ReFrame makes a test of each repeat."""
        repeats = type(self).param_space.params.get('.repeat_no')
        return len(repeats.values) if repeats else 1


class Room(Budget):
    """``on`` is the file system by the name that the partition has for it."""

    on = variable(str, value='scratch')

    def take_room(self, size_bytes, files):
        """The job makes a folder for so much, or refuses: $folder in the script, removed however it ends."""
        self._take_room(str(int(size_bytes)), files)

    def take_room_for_direct(self, size_bytes, without, files):
        """Take room as ``take_room`` does. The job's node sets $direct to 1 and $bytes to the size; without direct
        I/O, to 0 and ``without``. ``took_direct`` returns its answer afterwards."""
        ask = shlex.join(['python3', 'direct.py', self.filesystem(self.on)])
        self._take_room('"$bytes"', files)
        self.prerun_cmds[:0] = [f'direct=$({ask}) || exit 2', f'bytes=$((direct ? {size_bytes:d} : {without:d}))']
        self.filesystem(self.on)        # a script for others makes it first
        self.programs = ('room.py', 'direct.py')

    def _take_room(self, size, files):
        make = shlex.join(['python3', 'room.py', self.filesystem(self.on)])
        self.prerun_cmds = [f'folder=$({make} {size} {int(files)}) || exit 2',
                            """trap 'rm -rf -- "$folder"' EXIT"""]
        self.filesystem(self.on)
        self.programs = ('room.py',)

    def took_direct(self):
        """Return whether the file system took direct I/O on the node that ran the job."""
        try:
            return Path(self.stagedir, 'direct.txt').read_text().strip() == '1'
        except OSError:
            raise Incomplete('direct.txt: the job ended before it asked for direct I/O') from None

    def plan_direct(self, size_bytes, without, repetitions):
        """Two IoPlans: with direct I/O, and without it, of ``without`` bytes or else as few as with it."""
        with_direct = [size_bytes]
        without_direct = [without, size_bytes]
        takes_direct = self.direct_here()
        if takes_direct is None:            # its node is asked
            ways = [with_direct, without_direct]
        elif takes_direct:
            ways = [with_direct, with_direct]
        else:
            ways = [without_direct, without_direct]
        return self.plan_either(ways, repetitions, self.on)

    def direct_here(self):
        """Return whether the file system takes direct I/O; None if the job runs on another machine."""
        path = Path(os.path.expandvars(self.filesystem(self.on)))
        if not self.runs_here() or not path.is_dir():
            return None
        try:
            return runpy.run_path(str(paths.programs() / 'direct.py'))['takes'](path)
        except OSError:
            return None

    def bytes_without_direct(self, size_bytes):
        """Return the bytes to write without direct I/O: twice the memory, except for size=quick."""
        memory = self.extra('memory_bytes')
        return size_bytes if self.size == 'quick' or not memory else 2 * memory

    def caches_known(self):
        """Return the known caches between the program and the disks, for the case's facts."""
        kind = self.filesystem_type()
        return {'filesystem': kind, 'server_cache': 'none: local' if self.one_kernel_has_it() else 'unknown'}

    def filesystem_type(self):
        """Return the type of the file system on the node that ran the job, or `unknown`."""
        try:
            return json.loads(Path(self.stagedir, 'room.json').read_text())['filesystem']
        except (OSError, ValueError, KeyError):
            return 'unknown'

    def is_memory(self):
        """True where the file system has no disk."""
        return self.filesystem_type() in _MEMORY

    def one_kernel_has_it(self):
        """True where one kernel has the file system: nodes that share it are one machine, with one cache."""
        return self.filesystem_type() in _LOCAL


class Storage(Mpi, Room):
    """Storage checks that are MPI programs."""
