"""The CPU time of parity's harness: ReFrame with parity's checks and without parity, on one STREAM case.

The program is a stand-in that prints a recorded output of STREAM, so its own time adds nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from dev.bench.took import at_most, took
from parity.base import errors, paths

#: The largest ratio of CPU times, with parity to plain ReFrame.
RATIO = 1.5
#: The most CPU seconds of a night's first verdict, with an empty cache, and of a help: of `parity`, of a command.
VERDICT, HELP = 0.6, 0.25
PAIRS = 7
_SYSTEM = """\
name: bench
hostnames: ['^nowhere$']
requires: [stream]
environments: [{name: distro, codes: [stream]}]
partitions:
  - name: default
    scheduler: local
    launcher: mpirun
    extras: {cores: 2, memory_bytes: 8_000_000_000, llc_bytes: 33_554_432, others_cpus: 1000}
"""
_SETTINGS = """\
site_configuration = {
    'systems': [{'name': 'plain', 'hostnames': ['.*'], 'prefix': 'plain', 'partitions': [
        {'name': 'default', 'scheduler': 'local', 'launcher': 'local', 'environs': ['builtin']}]}],
    'environments': [{'name': 'builtin'}],
}
"""
_CHECK = """\
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_before, sanity_function


@rfm.simple_test
class PlainStream(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ['*']
    executable = 'stream_c.exe'
    env_vars = {'OMP_NUM_THREADS': 2, 'OMP_PROC_BIND': 'spread', 'OMP_PLACES': 'cores'}

    @sanity_function
    def validated(self):
        return sn.assert_found('Solution Validates', self.stdout)

    @run_before('performance')
    def rates(self):
        self.perf_variables = {
            kernel: sn.make_performance_function(
                sn.extractsingle(rf'{kernel}:\\s+(\\S+)', self.stdout, 1, float), 'MB/s')
            for kernel in ('Copy', 'Scale', 'Add', 'Triad')}
"""


class Bench:
    """A folder with the checkout's checks and systems, and with a check that does not know parity."""

    def __init__(self, folder: Path):
        self.root, self.plain, self.results = folder / 'root', folder / 'plain', folder / 'results'
        system = self.root / 'systems' / 'bench'
        for made in (system, self.plain, folder / 'bin'):
            made.mkdir(parents=True)
        shutil.copytree(paths.root() / 'checks', self.root / 'checks')      # behind a link they are not its own
        for name in ('jobs', 'reframe', 'spack.yaml'):
            (self.root / name).symlink_to(paths.root() / name)
        for other in (paths.root() / 'systems').iterdir():
            (system.parent / other.name).symlink_to(other)
        (system / 'system.yaml').write_text(_SYSTEM)
        (self.plain / 'settings.py').write_text(_SETTINGS)
        (self.plain / 'stream.py').write_text(_CHECK)
        program = folder / 'bin' / 'stream_c.exe'
        recorded = paths.root() / 'checks/memory/stream/outputs/stream_c-omp2.txt'
        program.write_text(f"#!/bin/sh\nexec cat '{recorded}'\n")
        program.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('RFM_', 'PARITY_', 'PYTHON'))}
        self.environ = {**kept, 'PARITY_ROOT': str(self.root), 'PARITY_RESULTS': str(self.results),
                        'PATH': f'{program.parent}:{sys.exec_prefix}/bin:{os.environ["PATH"]}',
                        'PYTHONPYCACHEPREFIX': str(folder / 'compiled')}

    def reframe(self) -> float:
        """Return the CPU seconds of ReFrame alone."""
        return self._cpu('plain', f'{sys.exec_prefix}/bin/reframe', '-c', str(self.plain), '-r')

    def parity(self) -> float:
        """Return the CPU seconds of `reframe -r` with parity's settings and all its checks; one case runs."""
        return self._cpu('parity', f'{sys.exec_prefix}/bin/reframe', '-c', str(self.root / 'checks'), '-r',
                         '--system', 'bench', '-n', '^Stream%threads=all')

    def verdict(self) -> float:
        """Return the CPU seconds of the first verdict on the last run."""
        shutil.rmtree(self.results / 'cache', ignore_errors=True)
        return self._cpu('parity', '-m', 'parity.cli', 'verdict')

    def help(self) -> float:
        return self._cpu('parity', '-m', 'parity.cli', '--help')

    def help_of_command(self) -> float:
        return self._cpu('parity', '-m', 'parity.cli', 'verdict', '--help')

    def _cpu(self, settings: str, *command: str) -> float:
        """Return the CPU seconds of a command and its children."""
        file = self.plain / 'settings.py' if settings == 'plain' else paths.root() / 'reframe' / 'settings.py'
        done = took(*command, cwd=self.root.parent, env={**self.environ, 'RFM_CONFIG_FILES': str(file)})
        if done.code:
            raise errors.InfrastructureError(f'{" ".join(command)} ended with {done.code}: {done.printed[-500:]}')
        return done.cpu


def run() -> bool:
    """Print all figures; return True if all reach their targets."""
    with tempfile.TemporaryDirectory(prefix='parity-bench-') as folder:
        bench = Bench(Path(folder))
        for first in (bench.reframe, bench.parity, bench.verdict, bench.help, bench.help_of_command):
            first()     # Python compiles the files that it loads
        pairs = [(bench.parity(), bench.reframe()) for _ in range(PAIRS)]
        ours, alone = (median(side) for side in zip(*pairs, strict=True))
        what = f'reframe -r, one STREAM case, {ours:.2f} s over {alone:.2f} s alone, {PAIRS} pairs'
        return all([at_most(what, median(a / b for a, b in pairs), RATIO, 'x CPU'),
                    at_most('first verdict', _median(bench.verdict), VERDICT, 's CPU'),
                    at_most('parity --help', _median(bench.help), HELP, 's CPU'),
                    at_most('parity verdict --help', _median(bench.help_of_command), HELP, 's CPU')])


def _median(measure: Callable[[], float]) -> float:
    return median(measure() for _ in range(PAIRS))


if __name__ == '__main__':
    sys.exit(errors.OK if run() else errors.REGRESSED)
