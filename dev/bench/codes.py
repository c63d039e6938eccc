"""Direct runs of the Spack view's codes: HPL, STREAM, and a DGEMM beside them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from parity.base import codes
from parity.base.errors import InfrastructureError
from parity.measure.check.reader import room
from parity.measure.check.sizing import Dense

#: Arguments: BLAS library, n of the n x n matrices, repetitions. Each process multiplies its own matrices, as in
#: HPCC's star DGEMM.
_DGEMM = '''
import ctypes, sys, time
library, n, times = ctypes.CDLL(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
a, b, c = ((ctypes.c_double * (n * n))(*([0.5] * n)) for _ in range(3))
one, zero = ctypes.c_double(1), ctypes.c_double(0)
call = lambda: library.cblas_dgemm(101, 111, 111, n, n, n, one, a, n, b, n, zero, c, n)
call()
start = time.perf_counter()
for _ in range(times):
    call()
print(2e-9 * n ** 3 * times / (time.perf_counter() - start))
'''


class Codes:
    """The view's programs, with the variables of their environment."""

    def __init__(self, environ: Any, cores: int):
        self.view = environ.software['view']
        self.blas = environ.software.get('blas', {}).get('library', 'libopenblas.so.0')
        self.variables = {**os.environ, **environ.env_vars, 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}
        self.cores = cores

    def hpl(self, problem: Dense) -> float:
        """Return the Gflop/s of one HPL run on all cores whose residual passed."""
        with tempfile.TemporaryDirectory(prefix='parity-bench-') as work:
            own = codes.named('hpl')
            Path(work, 'HPL.dat').write_text(problem.into((own.file.parent / 'HPL.dat').read_text()))
            text = self._run(['mpirun', '-np', str(self.cores), f'{self.view}/xhpl'], work, self.variables)
        return room(own).read(text)[0]['gflops']

    def dgemm(self, n: int = 3000, times: int = 16) -> float:
        """Return the Gflop/s of all cores together, each multiplying its own matrices."""
        command = [sys.executable, '-c', _DGEMM, self.blas, str(n), str(times)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.variables)
                   for _ in range(self.cores)]
        return sum(float(process.communicate()[0]) for process in running)

    def triad(self, threads: int, bind: str) -> float:
        """Return the MB/s of STREAM's Triad with this number and binding of threads."""
        placed = {'OMP_NUM_THREADS': str(threads), 'OMP_PROC_BIND': bind, 'OMP_PLACES': 'cores'}
        variables = {**self.variables, **placed}
        text = self._run([f'{self.view}/stream_c.exe'], None, variables)
        return room(codes.named('stream')).read(text)[0]['triad']

    @staticmethod
    def _run(command: list[str], work: str | None, variables: dict[str, str]) -> str:
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)
        if done.returncode:
            raise InfrastructureError(f'{" ".join(command)}: exit code {done.returncode}: {done.stderr[-300:]}')
        return done.stdout
