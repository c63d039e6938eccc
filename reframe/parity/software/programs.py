"""The programs we know to probe, and which features they make together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from parity.software.probes import Found, compiler, hpcc, mpirun, python, versioned


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


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Variables that MPI programs need here, on top of ``base``: Open MPI refuses root else."""
    return {**base, **root_variables()}


def root_variables() -> dict[str, str]:
    if os.geteuid() != 0:
        return {}
    return {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
