"""Where ranks ran: their own notes, against what was asked of the launcher."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import TOP
from parity.scheduler import placement
from parity.scheduler.placement import Asked, Ran, Rank

RANK_SH = TOP / 'jobs' / 'programs' / 'rank.sh'
#: Two sockets of two cores of two hardware threads.
TOPOLOGY = {cpu: (cpu % 4, cpu % 2) for cpu in range(8)}
A0, A1, B0, B1 = ('a', {0, 4}), ('a', {1, 5}), ('b', {0, 4}), ('b', {1, 5})
ALL = ('a', set(range(8)))


@pytest.mark.parametrize('asked, there, why', [
    (Asked(1, 2), (A0, A1), ''), (Asked(1, 2), (('a', {0}), ('a', {1})), ''),          # one of the core's two threads
    (Asked(2, 4), (A0, A1, B0, B1), ''), (Asked(2, 4, order='cyclic'), (A0, B0, A1, B1), ''), (Asked(2, 3, order='cyclic'), (A0, B0, A1), ''),
    (Asked(1, 2, 'socket'), (('a', {0, 2, 4, 6}), ('a', {1, 3, 5, 7})), ''), (Asked(1, 2, 'none'), (ALL, ALL), ''),
    (Asked(1, 2), (A0,), '1 of 2 ranks noted where they ran'),
    (Asked(1, 2), (A0, B0), r'ran on 2 nodes \(a, b\), asked for 1'), (Asked(2, 2), (A0, A1), r'ran on 1 nodes \(a\), asked for 2'),
    (Asked(2, 4), (A0, A1, ('a', {2, 6}), B0), '3 ranks on one node, asked for 2'),
    (Asked(2, 4), (A0, B0, A1, B1), 'rank 1 is on b: not in block order'),
    (Asked(2, 4, order='cyclic'), (A0, A1, B0, B1), 'rank 1 is on a: not in cyclic order'),
    (Asked(1, 2), (A0, A0), '2 ranks are bound to core 0 of a'),
    (Asked(1, 2), (('a', {0}), ('a', {4})), '2 ranks are bound to core 0 of a'),        # hardware threads of one core
    (Asked(1, 1), (('a', {0, 1}),), 'rank 0 may run on CPUs 0-1: not bound to one core'),
    (Asked(1, 1, 'socket'), (('a', {1, 2, 3, 5}),), 'rank 0 may run on CPUs 1-3,5: not bound to one socket'),
    (Asked(1, 1, 'socket'), (A0,), 'rank 0 may run on CPUs 0,4 only: not bound to socket'),
    (Asked(1, 1, 'none'), (A0,), 'rank 0 may run on CPUs 0,4 only: not bound to none')])
def test_elsewhere_than_asked(asked, there, why):
    ran = Ran(tuple(Rank(i, node, frozenset(cpus)) for i, (node, cpus) in enumerate(there)), TOPOLOGY, frozenset(TOPOLOGY))
    told = placement.problem(asked, ran)
    assert bool(told) == bool(why) and re.search(why, told)
    assert why or 'binding is not known' in placement.problem(asked, ran._replace(topology={}))


@pytest.mark.parametrize('asked', [Asked(1, 1, b, o) for b in placement.BINDINGS for o in placement.ORDERS])
def test_every_launcher_is_asked(asked):
    assert len(placement.variables(asked)) == 8 and all(placement.variables(asked).values())


def test_any_other_file_is_no_note(tmp_path):
    notes = {'0': '0 a 0-1,4\n', '1': '1 a', '2': '7 a 0\n', 'topology': '# CPU,Core,Socket\n0,0,0\n1,1,\n'}     # 1: the disk was full
    for name, text in notes.items():
        (tmp_path / name).write_text(text)
    found = placement.read(tmp_path)
    assert found.ranks == (Rank(0, 'a', frozenset({0, 1, 4})),) and found.topology == {0: (0, 0), 1: (1, 0)}
    assert found.told() == [{'rank': 0, 'node': 'a', 'cpus': '0-1,4'}]


@pytest.fixture
def rank(tmp_path):
    (tmp_path / 'ranks').mkdir()

    def run(*words, **env):
        return subprocess.run([RANK_SH, *words], cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True)
    return run


def test_a_rank_notes_itself_and_becomes_the_program(rank, tmp_path):
    done = rank('sh', '-c', 'echo "$1"; exit 7', 'x', 'a b;c', OMPI_COMM_WORLD_RANK='3')
    assert (done.returncode, done.stdout) == (7, 'a b;c\n')
    found, = placement.read(tmp_path / 'ranks').ranks
    assert found.number == 3 and found.cpus == os.sched_getaffinity(0)


def test_the_profiler_is_loaded_into_the_program_alone(rank):
    done = rank('--preload', 'libnone.so', 'PROFILER=-k0,-e', 'sh', '-c', 'echo "$LD_PRELOAD $PROFILER $1"', 'x', 'y')
    assert done.stdout == 'libnone.so -k0,-e y\n'
    done = rank('--preload', '/no/lib.so', 'PROFILER=', 'true')
    assert done.returncode == 1 and '/no/lib.so: cannot be read' in done.stderr


@pytest.mark.skipif(not shutil.which('mpirun'), reason='no mpirun here')
@pytest.mark.parametrize('binding', ['core', 'none'])
def test_open_mpi_does_as_it_is_asked(tmp_path, binding):
    """One rank, so that it holds on one core too."""
    from parity.software.programs import root_variables
    (tmp_path / 'ranks').mkdir()
    (tmp_path / 'ranks' / 'topology').write_text(subprocess.check_output(['lscpu', '-p=CPU,CORE,SOCKET'], text=True))
    (tmp_path / 'ranks' / 'allowed').write_text(Path('/proc/self/status').read_text().split('Cpus_allowed_list:')[1].split()[0])
    asked = Asked(1, 1, binding)
    env = {**os.environ, **placement.variables(asked), **root_variables()}
    subprocess.run(['mpirun', '-np', '1', RANK_SH, 'true'], cwd=tmp_path, env=env, check=True)
    assert placement.problem(asked, placement.read(tmp_path / 'ranks')) == ''
