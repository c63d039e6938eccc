"""The nodes of a job of Slurm, by the job's own word."""

from __future__ import annotations

import pytest
from reframe.core.schedulers import slurm

from parity.rfm import patches
from parity.scheduler import scheduled


class Job(slurm._SlurmJob):
    def __init__(self, state, spec, workdir):
        self._state, self._nodespec, self._nodelist, self._workdir = state, spec, None, str(workdir)


@pytest.fixture(autouse=True)
def patched(monkeypatch):
    monkeypatch.setattr(slurm._SlurmJob, 'nodelist', None)
    patches.read_nodes_here()


@pytest.mark.parametrize('spec, names', [
    ('n1,n2', ['n1', 'n2']), ('n[1-3,7],gpu01', ['gpu01', 'n1', 'n2', 'n3', 'n7']), ('n[008-010]', ['n008', 'n009', 'n010']),
    ('', []), ('None assigned', []), ('n[1-', []), ('@all', [])])
def test_a_job_that_has_ended_ran_on_the_nodes_of_its_list(tmp_path, spec, names):
    assert sorted(Job('COMPLETED', spec, tmp_path).nodelist) == names


def test_a_job_that_runs_has_no_nodes_yet(tmp_path):
    job = Job('RUNNING', '', tmp_path)
    assert job.nodelist is None
    job._state, job._nodespec = 'COMPLETED', 'n7'
    assert job.nodelist == ['n7']


def test_jobs_do_not_share_their_nodes(tmp_path):
    assert [Job('FAILED', name, tmp_path).nodelist for name in ('n1', 'n2')] == [['n1'], ['n2']]


def test_what_the_job_was_told_comes_before_what_accounting_knows_so_far(tmp_path):
    """sacct says COMPLETED on n1 of a job on n1 and n2 that took two seconds."""
    (tmp_path / 'node.txt').write_text('node: n1\nnodes: n1,n2\nkernel: 6.1\n')
    job = Job('COMPLETED', 'n1', tmp_path)
    assert job.nodelist == job.nodelist == ['n1', 'n2']
    assert scheduled.node(str(tmp_path)) == {'node': 'n1', 'kernel': '6.1'}


def test_a_long_list_is_told_whole(tmp_path):
    names = [f'node{number}' for number in range(500)]
    (tmp_path / 'node.txt').write_text(f'nodes: {",".join(names)}\n')
    assert Job('COMPLETED', 'node0', tmp_path).nodelist == names


@pytest.mark.parametrize('said', ['', '--all', 'n1 n2', 'n1;true', '$(true)', 'n1\x1b[0m'])
def test_what_is_no_host_list_is_not_taken(tmp_path, said):
    (tmp_path / 'node.txt').write_text(f'nodes: {said}\n')
    assert Job('COMPLETED', 'n1', tmp_path).nodelist == ['n1']
