"""What is asked for once instead of at every case, and again where it changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from reframe.core import pipeline
from reframe.core.schedulers import slurm

from parity import once


class Job(slurm._SlurmJob):
    def __init__(self, state, spec):
        self._state, self._nodespec, self._nodelist = state, spec, None


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
    once._nodes_of_a_job()
    return questions


def test_a_job_that_has_ended_is_asked_for_once(asked):
    job = Job('COMPLETED', 'n1,n2')
    assert [job.nodelist for _ in range(5)] == [['n1', 'n2']] * 5 and asked == ['n1,n2']


def test_nodes_that_slurm_names_later_are_asked_for_again(asked):
    job = Job('RUNNING', '')
    assert job.nodelist is None and not asked
    job._state = 'COMPLETED'
    assert job.nodelist == [] and job.nodelist == []
    job._nodespec = 'n7'
    assert job.nodelist == job.nodelist == ['n7'] and asked == ['', '', 'n7']


def test_jobs_do_not_share_their_nodes(asked):
    assert [Job('FAILED', name).nodelist for name in ('n1', 'n2')] == [['n1'], ['n2']]


def test_accepted_values_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(pipeline, 'yaml', SimpleNamespace(safe_load=lambda file: reads.append(file.name) or yaml.safe_load(file)))
    once._file_of_references()
    file = tmp_path / 'cpu.yaml'

    def loaded():
        with file.open() as stream:
            return pipeline.yaml.safe_load(stream)
    file.write_text('Hpl: 1\n')
    assert loaded() == loaded() == {'Hpl': 1} and len(reads) == 1
    file.write_text('Hpl: 22\n')
    assert loaded() == {'Hpl': 22} and len(reads) == 2
