"""The programs we know to probe, and which features they make together."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from parity.base import sizing
from parity.software.blas import attempt

#: hpcc says with it in 30 ms that it works; without an input file it would run its defaults for 7 s.
_TINY_HPCC = sizing.hpcc_input(sizing.HplProblem(16, 8, 1, 1, ''))


class Found(NamedTuple):
    """A program that was looked at. ``path`` is what runs, behind wrappers and links."""

    ok: bool
    why: str = ''
    version: str | None = None
    path: str | None = None
    name: str | None = None             # of an MPI: Open MPI, MPICH, Intel MPI


def hpcc(path: str, env: Mapping[str, str]) -> Found:
    """One rank of HPL with N = 16, and the other six codes at the sizes that follow from it."""
    try:
        with tempfile.TemporaryDirectory(prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
            Path(folder, 'hpccinf.txt').write_text(_TINY_HPCC)
            outcome = attempt([path], env, cwd=folder)
            if not outcome.ok:
                return Found(False, outcome.why)
            text = Path(folder, 'hpccoutf.txt').read_text(errors='replace')
    except OSError as error:
        return Found(False, f'{error.filename or ""}: {error.strerror or error}'.lstrip(': '))
    version = [re.search(rf'^Version{part}=(\d+)$', text, re.MULTILINE) for part in ('Major', 'Minor', 'Micro')]
    if not re.search(r'^Success=1$', text, re.MULTILINE):
        return Found(False, 'ran, but its output does not say Success=1')
    return Found(True, version='.'.join(v[1] for v in version if v) or None, path=path)


#: First line of `mpirun --version`.
_MPI_VERSIONS = (
    ('Open MPI', r'\(Open ?(?:MPI|RTE)\) (\d[\w.]*)'),
    ('Intel MPI', r'Intel\(R\) MPI Library.*?Version ([\d.]+)'),
    ('MPICH', r'HYDRA build details:\s+Version:\s+([\w.]+)'),
)


def mpirun(path: str, env: Mapping[str, str]) -> Found:
    """Starts one process for real: a mere --version works in places where nothing else does."""
    said = attempt([path, '--version'], env)
    if not said.ok:
        return Found(False, said.why)
    known = ((name, re.search(pattern, said.out + said.err)) for name, pattern in _MPI_VERSIONS)
    name, version = next(((name, match[1]) for name, match in known if match), ('MPI', None))
    true = shutil.which('true', path=env.get('PATH')) or '/bin/true'
    ran = attempt([path, '-np', '1', true], env)
    why = '' if ran.ok else f'mpirun -np 1 true: {ran.why}'
    return Found(ran.ok, why, version, path, name)


_ASK_PYTHON = 'import json, os, sys; print(json.dumps([sys.version_info[:3], os.path.realpath(sys.executable)]))'


def python(path: str, env: Mapping[str, str]) -> Found:
    """The interpreter itself, behind a virtual environment's link or a pyenv shim."""
    said = attempt([path, '-I', '-c', _ASK_PYTHON], env)
    if not said.ok:
        return Found(False, said.why)
    try:
        version, executable = json.loads(said.out)
    except ValueError:
        return Found(False, f'unexpected answer: {said.out[:80]!r}')
    return _of_version('.'.join(map(str, version)), (3, 9), executable)


def _of_version(version: str, least: tuple[int, ...], path: str) -> Found:
    if tuple(map(int, version.split('.'))) < least:
        needed = '.'.join(map(str, least))
        return Found(False, f'version {version}; {needed} or later is needed', version, path)
    return Found(True, '', version, path)


def versioned(pattern: str, least: tuple[int, ...]) -> Callable[[str, Mapping[str, str]], Found]:
    """A probe for a program that says its version, which must be ``least`` or later."""
    def probe(path: str, env: Mapping[str, str]) -> Found:
        said = attempt([path, '--version'], env)
        if not said.ok:
            return Found(False, said.why)
        match = re.search(pattern, said.out)
        if not match:
            return Found(False, f'unexpected answer: {said.out[:80]!r}')
        return _of_version(match[1], least, path)
    return probe


#: What our kernels ask of a compiler: OpenMP, and a program that then runs.
_TINY_C = """\
#include <omp.h>
#include <stdio.h>
int main(void) { printf("%s\\n", __VERSION__); return omp_get_max_threads() < 1; }
"""


def compiler(path: str, env: Mapping[str, str]) -> Found:
    """Compiles and runs a program of one line with OpenMP."""
    with tempfile.TemporaryDirectory(prefix='parity-probe-', ignore_cleanup_errors=True) as folder:
        Path(folder, 'tiny.c').write_text(_TINY_C)
        made = attempt([path, '-fopenmp', '-o', 'tiny', 'tiny.c'], env, cwd=folder)
        if not made.ok:
            return Found(False, f'a program with OpenMP (-fopenmp) does not compile: {made.why}')
        ran = attempt([f'{folder}/tiny'], env)
    return Found(ran.ok, ran.why, ran.out.strip() or None, path)


class Program(NamedTuple):
    """An executable, how to try it, and where it comes from on a distribution."""

    executable: str
    probe: Callable[[str, Mapping[str, str]], Found]
    get: str


PROGRAMS = {
    'hpcc': Program('hpcc', hpcc, 'Debian and Ubuntu: apt install hpcc'),
    'mpirun': Program('mpirun', mpirun, 'Debian and Ubuntu: apt install openmpi-bin'),
    'python3': Program('python3', python, 'Debian and Ubuntu: apt install python3-minimal'),
    # its JSON before 3.9 lacks what is checked; fio 3 is the first that counts in nanoseconds
    'iperf3': Program('iperf3', versioned(r'^iperf (\d+\.\d+)', (3, 9)), 'Debian and Ubuntu: apt install iperf3'),
    'fio': Program('fio', versioned(r'^fio-(\d+\.\d+)', (3, 0)), 'Debian and Ubuntu: apt install fio'),
    'cc': Program('cc', compiler, 'Debian and Ubuntu: apt install gcc libc6-dev'),
}

#: Feature -> the programs that must all start.
FEATURES = {
    'hpcc': ('hpcc', 'mpirun'),
    'mpi': ('mpirun',),
    'python': ('python3',),
    'filecopy': ('python3',),           # our own programs
    'fileset': ('python3', 'mpirun'),
    'pingpong': ('python3', 'mpirun'),  # mpi4py's, of our own environment
    'iperf3': ('iperf3', 'python3'),
    'fio': ('fio', 'python3'),
    'cc': ('cc',),                      # what our kernels in C are compiled with
}


def root_variables() -> dict[str, str]:
    """What MPI programs need here: Open MPI refuses root else."""
    root = os.geteuid() == 0
    return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'} if root else {}
