"""parity doctor binds ranks, and looks where they may run."""

from __future__ import annotations

import os

import pytest

import hydra
from parity.measure.software.discover import Software
from parity.measure.software.programs import Environ
from parity.nightly import doctor
from parity.site import systems


@pytest.mark.parametrize('loose', [False, True])
def test_doctor_says_ok_only_where_ranks_are_bound(tmp_path, loose):
    if loose and not hydra.has_two_cores():
        pytest.skip('a machine of one core binds every rank')
    mpirun = str(hydra.put(tmp_path, loose))
    software = {'mpi': {'name': 'MPICH', 'version': '5.0.2'}, 'programs': {'mpirun': {'path': mpirun}}}
    environs = [Environ(name=name, provider='distro', software=software) for name in ('distro', 'again')]
    here = Software(environs=environs, spack=None, notes=[], announcement='')
    found, = doctor._mpis(systems.read('local'), here)
    if loose:
        assert (found.word, found.exit_code) == ('lacking', 4)
        assert found.what.startswith('MPICH 5.0.2 does not bind ranks to a core each: rank 0 may run on CPUs ')
        assert found.fix == f'{mpirun}; valid: an mpirun that follows HYDRA_BINDING=core'
    else:
        assert (found.word, found.what) == ('ok', f'MPICH 5.0.2 binds each rank to a core (HYDRA_BINDING=core): {mpirun}')


def test_doctor_names_an_mpi_of_unknown_version(tmp_path):
    mpirun = str(hydra.put(tmp_path))
    found = doctor._bound({'name': 'MPI', 'version': None}, mpirun, dict(os.environ))
    assert (found.word, found.what) == ('ok', f'MPI binds each rank to a core: {mpirun}')
