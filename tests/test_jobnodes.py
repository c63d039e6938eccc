"""The nodes of a job of Slurm: by the job's own word, asked for once, and again where others are named."""

from __future__ import annotations

import pytest
from reframe.core.schedulers import slurm

from parity.rfm import patches
from parity.scheduler import scheduled


class Job(slurm._SlurmJob):
    def __init__(self, state, spec, workdir):
        self._state, self._nodespec, self._nodelist, self._workdir = state, spec, None, str(workdir)


@pytest.fixture
def asked(monkeypatch):
    """What `scontrol show hostname` was asked; it answers with the names in the order in which they are asked."""
    questions = []

    def nodelist(job):
        if slurm.slurm_state_completed(job.state):
            questions.append(job._nodespec)
            job._nodelist = [name for name in job._nodespec.split(',') if name]
        return job._nodelist
    monkeypatch.setattr(slurm._SlurmJob, 'nodelist', property(nodelist))
    patches.ask_nodes_once()
    return questions


def test_a_job_that_has_ended_is_asked_for_once(asked, tmp_path):
    job = Job('COMPLETED', 'n1,n2', tmp_path)
    assert [job.nodelist for _ in range(5)] == [['n1', 'n2']] * 5 and asked == ['n1,n2']


def test_nodes_that_slurm_names_later_are_asked_for_again(asked, tmp_path):
    job = Job('RUNNING', '', tmp_path)
    assert job.nodelist is None and not asked
    job._state = 'COMPLETED'
    assert job.nodelist == [] and job.nodelist == []
    job._nodespec = 'n7'
    assert job.nodelist == job.nodelist == ['n7'] and asked == ['', '', 'n7']


def test_jobs_do_not_share_their_nodes(asked, tmp_path):
    assert [Job('FAILED', name, tmp_path).nodelist for name in ('n1', 'n2')] == [['n1'], ['n2']]


def test_what_the_job_was_told_comes_before_what_accounting_knows_so_far(asked, tmp_path):
    """sacct says COMPLETED on n1 of a job on n1 and n2 that took two seconds."""
    (tmp_path / 'node.txt').write_text('node: n1\nnodes: n1,n2\nkernel: 6.1\n')
    job = Job('COMPLETED', 'n1', tmp_path)
    assert job.nodelist == job.nodelist == ['n1', 'n2'] and asked == ['n1,n2']
    assert scheduled.node(str(tmp_path)) == {'node': 'n1', 'kernel': '6.1'}


def test_a_long_list_is_told_whole(asked, tmp_path):
    names = [f'node{number}' for number in range(500)]
    (tmp_path / 'node.txt').write_text(f'nodes: {",".join(names)}\n')
    assert Job('COMPLETED', 'node0', tmp_path).nodelist == names


@pytest.mark.parametrize('said', ['', '--all', 'n1 n2', 'n1;true', '$(true)', 'n1\x1b[0m'])
def test_what_is_no_host_list_is_not_asked_for(asked, tmp_path, said):
    (tmp_path / 'node.txt').write_text(f'nodes: {said}\n')
    assert Job('COMPLETED', 'n1', tmp_path).nodelist == ['n1'] and asked == ['n1']
