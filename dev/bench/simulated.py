"""A simulated Slurm site: stand-ins that print a real Slurm's words, and a checkout's checks.

Its jobs end at once and print a recorded output of STREAM. Some nodes are slow, down, or out of time.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from dev.bench import slurm
from parity.base import codes, paths
from parity.measure.check.reader import room

#: One node of each number is slow, is down, or kills its job.
_SLOW, _DOWN, _KILLS = 250, 500, 400
_SLOWDOWN = 0.85
_SYSTEM = """\
name: simulated
descr: {nodes} simulated nodes
hostnames: ['^nowhere$']
modules_system: nomod
detect: false
requires: [stream]
environments: [{{name: distro, codes: [stream]}}]
alarms: {{nights: 1}}
partitions:
  - name: batch
    scheduler: slurm
    sched_options: {{use_nodes_option: true}}
    launcher: srun
    access: [--partition=batch, --exclusive]
    max_jobs: {in_flight}
    time_limit: 10m
    features: [cpu, physical]
    extras: {{nodes: {nodes}, cores: 2, memory_bytes: 8_000_000_000, llc_bytes: 33_554_432}}
"""


class Site:
    """A site of ``nodes`` nodes with at most ``in_flight`` jobs at once, below ``folder``.

    Commands start in ``root`` and fill ``results``. ``slow`` has the slow nodes, ``states`` the end states of
    jobs on bad nodes.
    """

    def __init__(self, folder: Path, nodes: int, in_flight: int):
        self.folder, self.root, self.results = folder, folder / 'root', folder / 'results'
        self.names = [f'c{number:04}' for number in range(1, nodes + 1)]
        self.slow = set(self.names[nodes // 8::_SLOW])
        self.states = {**dict.fromkeys(self.names[nodes // 4::_KILLS], 'TIMEOUT'),
                       **dict.fromkeys(self.names[nodes // 3::_DOWN], 'PENDING')}
        self._write_system(nodes, in_flight)
        self._write_slurm()

    def most_in_flight(self) -> int:
        """Return the largest number of jobs in flight, as ReFrame saw them."""
        return slurm.jobs(self.folder).execute('SELECT max(beside) FROM jobs').fetchone()[0]

    def asked(self) -> dict[str, int]:
        """Return the number of calls of each of Slurm's commands."""
        counts = 'SELECT command, count(*) FROM asked GROUP BY command'
        return dict(slurm.jobs(self.folder).execute(counts).fetchall())

    def environ(self) -> dict[str, str]:
        """Return the variables of a command that measures this site."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('RFM_', 'PARITY_', 'SLURM_'))}
        return {**kept, 'PARITY_ROOT': str(self.root), 'PARITY_RESULTS': str(self.results),
                'RFM_CONFIG_FILES': str(paths.root() / 'reframe/settings.py'), 'RFM_COLORIZE': 'n',
                'PATH': f'{self.folder / "bin"}:{os.environ["PATH"]}'}

    def _write_system(self, nodes: int, in_flight: int) -> None:
        system = self.root / 'systems' / 'simulated'
        (system / 'references').mkdir(parents=True)
        for name in ('checks', 'jobs', 'reframe', 'spack.yaml'):
            (self.root / name).symlink_to(paths.root() / name)
        (system / 'system.yaml').write_text(_SYSTEM.format(nodes=nodes, in_flight=in_flight))
        lines = ['Stream:', '  $index: [size, threads]', '  quick:', '    all:']
        lines += [f'      {kernel}: [{rate / 1000}, -0.05, 0.05, GB/s]'
                  for kernel, rate in _stream().read(_recorded().read_text())[0].items()]
        (system / 'references' / 'batch.yaml').write_text('\n'.join([*lines, '']))

    def _write_slurm(self) -> None:
        slowed = self.folder / 'slow.txt'
        slowed.write_text(_slower(_recorded().read_text(), _SLOWDOWN))
        outputs = {'': str(_recorded()), **dict.fromkeys(self.slow, str(slowed))}
        (self.folder / 'site.json').write_text(json.dumps({'outputs': outputs, 'states': self.states}))
        (self.folder / 'nodes.txt').write_text('\n'.join([*_node_lines(len(self.names)), '']))
        (self.folder / 'bin').mkdir()
        for command in slurm.COMMANDS:
            file = self.folder / 'bin' / command
            words = shlex.join([sys.executable, '-IS', slurm.__file__, str(self.folder), command])
            file.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            file.chmod(0o755)


def _node_lines(count: int) -> list[str]:
    sys.path.append(str(paths.root() / 'tests'))    # it holds recorded words of Slurm
    import slurm_site
    return slurm_site.Nodes('c', count, 'batch').lines()


def _stream():
    return room(codes.named('stream'))


def _recorded() -> Path:
    """Return the recorded output of STREAM on a machine of two cores."""
    return paths.root() / 'checks/memory/stream/outputs/stream_c-omp2.txt'


def _slower(text: str, share: float) -> str:
    """Return STREAM's output with its rates multiplied by ``share``, and the fitting times."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        name, *figures = line.split() or ['']
        if name.rstrip(':') in _stream().ARRAYS and len(figures) == 4:
            rate, *times = map(float, figures)
            lines[number] = ' '.join([name, f'{rate * share:.1f}', *(f'{t / share:.6f}' for t in times)])
    return '\n'.join([*lines, ''])
