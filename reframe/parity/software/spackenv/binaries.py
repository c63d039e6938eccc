"""Every binary that the checks need: is it there, and does it start? Spack says "installed" without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from parity.base import sizing
from parity.software.programs import environment

_OSU = '../libexec/osu-micro-benchmarks/mpi'
#: Below the view's bin/.
_NAMES = {
    'hpl': ['xhpl'],
    'stream': ['stream_c.exe'],
    'ior': ['ior', 'mdtest'],
    'osu-micro-benchmarks': [
        *(f'{_OSU}/pt2pt/osu_{n}' for n in ('latency', 'bw', 'bibw', 'mbw_mr')),
        *(f'{_OSU}/collective/osu_{n}' for n in ('allreduce', 'alltoall', 'bcast', 'barrier'))],
    'intel-mpi-benchmarks': ['IMB-MPI1'],
    'iperf3': ['iperf3'],
    'fio': ['fio'],
    'sysbench': ['sysbench'],
    'mpip': ['../lib/libmpiP.so'],
}
#: BabelStream's programs, by the variant that builds each.
_BABELSTREAM = {'omp': 'omp-stream', 'cuda': 'cuda-stream', 'hip': 'hip-stream'}
#: What a program needs so as to end well, in an empty folder; without arguments the others run.
_ARGUMENTS = {'ior': ['-b', '1k', '-t', '1k', '-o', 'file'], 'mdtest': ['-n', '1', '-d', 'folder'],
              'iperf3': ['--version'], 'fio': ['--version'], 'sysbench': ['--version'],
              'IMB-MPI1': ['-list'],
              **{name: ['--list'] for name in _BABELSTREAM.values()},
              **{Path(name).name: ['-h'] for name in _NAMES['osu-micro-benchmarks']}}
#: A library starts where it and all that it needs can be loaded.
_LOAD = (sys.executable, '-c', 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1], os.RTLD_NOW)')
#: A program that has not ended with an error by then has started.
_SECONDS = 0.5


def expected(package: str, facts: dict[str, Any]) -> list[str]:
    """The names, below the view's bin/, of what a package of the manifest must bring."""
    if package == 'npb':
        parameters = facts['parameters']
        return [f'{name}.{letter}.x' for name in _several(parameters['names'])
                for letter in _several(parameters['classes'])]
    if package == 'babelstream':
        return [name for variant, name in _BABELSTREAM.items() if facts['parameters'].get(variant)]
    return _NAMES.get(package, [])


def _several(value: Any) -> list[str]:
    return list(value) if isinstance(value, (list, tuple)) else str(value).split(',')


def problems(folder: Path, names: list[str], start: bool = True) -> dict[str, str]:
    """Why a binary cannot be used, for those that cannot; without ``start`` only whether it is there."""
    check = problem if start else _absence
    with ThreadPoolExecutor(max_workers=2) as pool:
        said = pool.map(lambda name: (name, check(folder / name)), names)
        return {name: why for name, why in said if why}


def problem(program: Path) -> str:
    """'' if the program starts: it runs for half a second, or ends without an error."""
    if said := _absence(program):
        return said
    with tempfile.TemporaryDirectory(prefix='parity-start-', ignore_cleanup_errors=True) as work:
        Path(work, 'HPL.dat').write_text(sizing.hpl_input(sizing.HplProblem(16, 8, 1, 1, '')))
        command = [*(_LOAD if program.suffix == '.so' else ()), str(program), *_ARGUMENTS.get(program.name, [])]
        try:
            process = subprocess.Popen(command, cwd=work, env=environment(os.environ), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        except OSError as err:
            return f'does not start: {err.strerror}'
        try:
            _, complaint = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return ''
    last = complaint.strip().splitlines()[-1:] or ['']
    return f'does not start: exit code {process.returncode} {last[0]}'.strip() if process.returncode else ''


def _absence(program: Path) -> str:
    return '' if os.access(program, os.X_OK) else 'is not there: the recipe said "installed" without it'
