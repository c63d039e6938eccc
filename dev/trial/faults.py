"""The faults of the trial. Each is put into the cluster before a night's sessions, and taken out after them.

``take_out`` may be called where nothing was put in: a trial that was killed calls it for every fault."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dev.trial import cluster

#: A single-node case of one node, and a case of a pair, in the name of a cell.
_ON_NODE = r'%nid={node}\b|%pair=\S*{node}\b'
_HUGE_PAGES = Path('/sys/kernel/mm/transparent_hugepage/enabled')
#: What the trial sets beside the fault.
HUGE_PAGES = 'always'
_BURN = 'import sys, time\nbusy, every = map(float, sys.argv[1:])\n' \
        'while True:\n    end = time.perf_counter() + busy\n    while time.perf_counter() < end: pass\n' \
        '    time.sleep(max(0.0, every - busy))\n'


@dataclass
class Fault(ABC):
    """``folder``: of the trial. ``node``: its place; '' for all. ``size``: the share of the speed that it is to
    take; 0 where it takes what it takes. ``base``: the usual figure that it is a share of, where it needs one.

    ``parts``: of the machine, by which it may be named; none: any. ``changed``: a word of what is different, where
    a node or a program says so; '' for none. ``fails``: it takes figures away, or makes them wrong."""

    folder: Path
    node: str = ''
    size: float = 0.0
    base: float = 0.0
    parts: ClassVar[tuple[str, ...]] = ()
    changed: ClassVar[str] = ''
    fails: ClassVar[bool] = False

    @abstractmethod
    def put_in(self) -> None:
        """Make the machine ill."""

    @abstractmethod
    def take_out(self) -> None:
        """Make it well, whatever it is."""

    @property
    def slows(self) -> str:
        """Return a pattern of the cells that it may move."""
        return _ON_NODE.format(node=self.node) if self.node else '.'

    @property
    def available(self) -> str:
        """Return '' or why this machine cannot have it."""
        return ''


#: The parts that a slower processor slows.
_ALL_PARTS = 'compute', 'memory-bound codes', 'memory', 'compute clock', 'node'


class CpuShare(Fault):
    """A node has less of its CPU, by its cgroup."""

    parts = _ALL_PARTS
    changed = 'throttled'

    def put_in(self) -> None:
        cluster.limit_cpu(self.node, 1 - self.size)

    def take_out(self) -> None:
        cluster.limit_cpu(self.node, None)


class SlowerNode(CpuShare):
    """A slower node under a known name: a quota in periods of 5 ms, so that no case sees pauses."""

    def put_in(self) -> None:
        cluster.limit_cpu(self.node, 1 - self.size, 5000)


class _Running(Fault):
    """A program that runs while the fault is in."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def put_in(self) -> None:
        started = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self._note.write_text(f'{started.pid}')

    def take_out(self) -> None:
        """End the process group, if it is still this program's."""
        try:
            group = int(self._note.read_text())
            if os.getpgid(group) == group:
                os.killpg(group, signal.SIGKILL)
                os.waitpid(group, 0)
        except (OSError, ValueError):
            pass
        self._note.unlink(missing_ok=True)

    @property
    def _note(self) -> Path:
        return self.folder / f'running-{type(self).__name__}'


class Neighbour(_Running):
    """A neighbour on the other core takes memory bandwidth: STREAM over and over, for a share of the time."""

    parts = 'memory', 'memory-bound codes', 'compute', 'node'

    def command(self) -> list[str]:
        others = {core for core in os.sched_getaffinity(0) if core != cluster.core(self.node)}
        program = self.folder / 'programs' / 'good' / 'bin' / 'stream_c.exe'
        cores = ','.join(map(str, others))
        return ['taskset', '-c', cores, 'sh', '-c', f'while OMP_NUM_THREADS=1 {program}; do sleep 0.1; done']

    @property
    def slows(self) -> str:
        """Nodes 1 and 3 have one core, 2 the other: a neighbour on it slows all of that core."""
        own = cluster.core(self.node)
        alike = [node for node in cluster.NODES if cluster.core(node) == own]
        return '|'.join(_ON_NODE.format(node=node) for node in alike)


class Daemon(_Running):
    """A daemon of the node wakes each second, and works for a share of that second."""

    parts = _ALL_PARTS

    def command(self) -> list[str]:
        program = ['python3', '-IS', '-c', _BURN, f'{self.size}', '1']
        bound = ['taskset', '-c', f'{cluster.core(self.node)}', *program]
        return [str(cluster.TOP / 'ci' / 'cluster'), 'exec', self.node, *bound]


class SlowDisk(Fault):
    """The node writes less a second to the disk of the shared folder. ``base``: MiB a second as usual."""

    parts = 'storage', 'file system', 'node'

    def put_in(self) -> None:
        cluster.limit_writes(self.node, self.folder, self.base * (1 - self.size) * 2 ** 20)

    def take_out(self) -> None:
        cluster.limit_writes(self.node, self.folder, None)

    @property
    def slows(self) -> str:
        return f'^Fio.*({_ON_NODE.format(node=self.node)})'


class BusyDisk(_Running):
    """Somebody writes to the disk of the shared folder, without a pause."""

    parts = 'storage', 'file system', 'everything'

    def command(self) -> list[str]:
        file = self.folder / 'busy'
        write = f'dd if=/dev/zero of={file} bs=1M count=256 oflag=direct conv=notrunc'
        return ['sh', '-c', f'while {write}; do :; done']

    def take_out(self) -> None:
        super().take_out()
        (self.folder / 'busy').unlink(missing_ok=True)

    slows = '^Fio'


class _Link(Fault):
    """A queueing discipline at a node's end of its link."""

    parts = 'network', 'node'

    def discipline(self) -> list[str]:
        raise NotImplementedError

    def put_in(self) -> None:
        cluster.on(self.node, 'tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', *self.discipline())

    def take_out(self) -> None:
        cluster.run('exec', self.node, 'tc', 'qdisc', 'del', 'dev', 'eth0', 'root')

    @property
    def slows(self) -> str:
        return rf'%pair=\S*{self.node}\b'

    @property
    def available(self) -> str:
        kind = self.discipline()[0]
        done = cluster.run('exec', self.node, 'tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', *self.discipline())
        self.take_out()
        return f'this kernel has no {kind}: {done.stderr.strip()}' if done.returncode else ''


class Latency(_Link):
    """A message takes longer: a share of 25 us."""

    def discipline(self) -> list[str]:
        return ['netem', 'delay', f'{round(25 * self.size)}us']


class Loss(_Link):
    """A share of a hundredth of the packets is lost."""

    def discipline(self) -> list[str]:
        return ['netem', 'loss', f'{self.size:.2f}%']


class SlowLink(_Link):
    """The link has a lower rate, as where it was negotiated anew. ``base``: MB a second as usual."""

    def discipline(self) -> list[str]:
        megabits = max(1, round(8 * self.base * (1 - self.size)))
        return ['tbf', 'rate', f'{megabits}mbit', 'burst', '1mb', 'latency', '50ms']


def huge_pages() -> str:
    """Return the setting of transparent huge pages: always, madvise or never."""
    return re.search(r'\[(\w+)\]', _HUGE_PAGES.read_text())[1]


def set_huge_pages(setting: str) -> None:
    _HUGE_PAGES.write_text(setting)


class HugePages(Fault):
    """No huge pages for anybody."""

    parts = 'memory', 'memory-bound codes', 'compute', 'everything'
    changed = 'huge'

    def put_in(self) -> None:
        set_huge_pages('never')

    def take_out(self) -> None:
        set_huge_pages(HUGE_PAGES)

    slows = '^(Stream|Npb|Hpl)'

    @property
    def available(self) -> str:
        return '' if os.access(_HUGE_PAGES, os.W_OK) else f'{_HUGE_PAGES} cannot be written'


class WrongBinding(Fault):
    """The node's processes are bound to the core of its partner: a message waits for the other rank's turn."""

    parts = 'network', 'node'

    def put_in(self) -> None:
        pair = next(pair for pair in cluster.PAIRS if self.node in pair)
        partner, = {*pair.split('-')} - {self.node}
        self._bind(cluster.core(partner))

    def take_out(self) -> None:
        self._bind(cluster.core(self.node))

    def _bind(self, core: int) -> None:
        for process in cluster.processes(self.node):
            subprocess.run(['taskset', '-apc', f'{core}', f'{process}'], capture_output=True)

    @property
    def slows(self) -> str:
        return rf'%pair=\S*{self.node}\b'


class _Program(Fault):
    """Programs of the prefix are those of another build. ``programs``: by their names in its bin/."""

    build, programs = '', ()

    def put_in(self) -> None:
        for name in self.programs:
            self._lead(name, self.build)

    def take_out(self) -> None:
        for name in self.programs:
            self._lead(name, 'good')

    def _lead(self, name: str, build: str) -> None:
        """Let the name lead to a build; '' for none."""
        link = self.folder / 'prefix' / 'bin' / name
        link.unlink(missing_ok=True)
        if build:
            shutil.copy2(self.folder / 'programs' / build / 'bin' / name, link)


class O1(_Program):
    """STREAM was built with -O1. NPB CG and IS wait for memory, and are as fast then."""

    build, programs = 'o1', ('stream_c.exe',)
    parts = 'memory', 'everything'
    changed = 'stream_c.exe'

    slows = '^Stream'


class OtherBlas(_Program):
    """HPL has an OpenBLAS for an older processor, without fused multiply-adds."""

    build, programs = 'oldblas', ('xhpl',)
    parts = 'memory-bound codes', 'compute', 'everything'
    changed = 'xhpl'

    slows = '^Hpl'


class WrongAnswer(_Program):
    """NPB CG computes something else, and its own check says so."""

    build, programs = 'wrong', ('cg.A.x',)
    fails = True

    slows = '^Npb%benchmark=cg'


class ModuleGone(Fault):
    """The folder that a module leads to is gone: no program of the prefix is there."""

    fails = True

    def put_in(self) -> None:
        if (self.folder / 'prefix' / 'bin').exists():
            (self.folder / 'prefix' / 'bin').rename(self.folder / 'prefix' / 'gone')

    def take_out(self) -> None:
        if (self.folder / 'prefix' / 'gone').exists():
            (self.folder / 'prefix' / 'gone').rename(self.folder / 'prefix' / 'bin')

    slows = '^(Stream|Npb|Hpl)'


class FullDisk(Fault):
    """The disk of the storage checks is full, as the node sees it: a small file system covers their folder."""

    fails = True

    def put_in(self) -> None:
        self._scratch.mkdir(parents=True, exist_ok=True)
        cluster.on(self.node, 'mount', '-t', 'tmpfs', '-o', 'size=4k', 'full', f'{self._scratch}')
        cluster.run('exec', self.node, 'sh', '-c', f'cat /dev/zero >{self._scratch}/full')

    def take_out(self) -> None:
        cluster.run('exec', self.node, 'sh', '-c', f'while umount {self._scratch}; do :; done')

    @property
    def _scratch(self) -> Path:
        return self.folder / 'results' / 'scratch'

    @property
    def slows(self) -> str:
        return f'^Fio.*({_ON_NODE.format(node=self.node)})'


class NodeDies(Fault):
    """The node dies in the first job that it runs."""

    fails = True

    def put_in(self) -> None:
        self._until = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        while not self._until.wait(0.5):
            running = subprocess.run(['squeue', '-h', '-t', 'R', '-w', self.node, '-o', '%M'], capture_output=True,
                                     text=True).stdout.split()
            if any(age != '0:00' for age in running):
                cluster.run('kill', self.node)
                return

    def take_out(self) -> None:
        if hasattr(self, '_until'):
            self._until.set()
            self._watcher.join()
        cluster.demand_up()


_OF_A_NODE = (CpuShare, SlowerNode, Neighbour, Daemon, SlowDisk, Latency, Loss, SlowLink, WrongBinding, FullDisk,
              NodeDies)
_OF_ALL = BusyDisk, HugePages, O1, OtherBlas, WrongAnswer, ModuleGone
KINDS: dict[str, type[Fault]] = {kind.__name__: kind for kind in (*_OF_A_NODE, *_OF_ALL)}
OF_A_NODE = {kind.__name__ for kind in _OF_A_NODE}
#: Those whose size can be chosen.
SIZED = {kind.__name__ for kind in (CpuShare, SlowerNode, Daemon, SlowDisk, Latency, Loss, SlowLink)}


def of(kind: str, folder: Path, node: str = '', size: float = 0.0, base: float = 0.0) -> Fault:
    """Return a fault of a kind."""
    return KINDS[kind](folder, node, size, base)
