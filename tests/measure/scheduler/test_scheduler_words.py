"""The words of Slurm and PBS: options of a partition, times, nodes and their queues, what a job asks of a node."""

from __future__ import annotations

import os
from types import SimpleNamespace as Made

import pytest

from parity.judge.store.case_record import CaseRecord
from parity.measure.scheduler import command, nodes, pbs, scheduled, slurm
from parity.measure.scheduler.command import SchedulerError
from parity.site import systems
from parity.site.nodes import NodeState


@pytest.mark.parametrize('scheduler, options, where, exclusive, node', [
    ('slurm', ['--partition=batch', '-A b', "--qos 'night'", '--exclusive=user', '-C gpu'],
     {'queue': 'batch', 'account': 'b', 'qos': 'night'}, '--exclusive=user', ['-C gpu']),
    ('slurm', ['-pbatch', '--reservation "R1"', '--partition'], {'queue': 'batch', 'reservation': 'R1'}, '', ['--partition']),
    ('pbs', ['-q workq', '-P climate', '-l place=scatter:excl', 'ompthreads=1'], {'queue': 'workq', 'project': 'climate'},
     '-l place=scatter:excl', ['ompthreads=1']), ('local', ['-q workq'], {}, '', [])])
def test_options_for_every_job_are_told_from_those_of_the_measured_node(scheduler, options, where, exclusive, node):
    access = command.read(scheduler, options)
    assert (access.where, access.exclusive, access.node) == (where, exclusive, node)


@pytest.mark.parametrize('time, seconds', [('1-02:03:04', 93784), ('10:00', 600), ('45', 45), ('UNLIMITED', None), ('', None)])
def test_a_time_of_a_scheduler(time, seconds):
    assert command.seconds(time) == seconds


@pytest.mark.parametrize('queues, names', [(('physical',), ['p1']), (('physical', 'virtual'), ['p1', 'v1']), ((), ['p1', 'v1', 'x1'])])
def test_the_nodes_of_a_system_are_those_of_its_queues(monkeypatch, queues, names):
    onebox = systems.read('onebox')
    access = [[f'--partition={queue}'] for queue in queues] or [[]]
    parts = [part.model_copy(update={'access': each}) for part, each in zip(onebox.partitions, access, strict=False)]
    known = [NodeState(f'{queue[0]}1', 'idle', True, (queue,)) for queue in ('physical', 'virtual', 'x')]
    monkeypatch.setattr(slurm, 'nodes', lambda: known)
    found = nodes.of_system(onebox.model_copy(update={'partitions': parts}))
    assert [node.name for node in found.nodes] == names and not found.unknown


def test_a_scheduler_that_does_not_answer_makes_the_nodes_unknown(monkeypatch):
    def silent():
        raise SchedulerError('scontrol: no answer')
    monkeypatch.setattr(slurm, 'nodes', silent)
    assert nodes.of_system(systems.read('onebox')).unknown == 'scontrol: no answer'


@pytest.mark.parametrize('wanted, names', [
    ({'mem': '64gb'}, ['a', 'b']), ({'mem': '65gb'}, ['b']), ({'system': 'Polar'}, ['b']), ({'mpiprocs': '999'}, ['a', 'b']), ({'ncpus': '9'}, [])])
def test_a_node_offers_at_least_what_a_job_asks_of_it(wanted, names):
    free = frozenset({'free'})
    both = [pbs.PbsNode('a', free, resources={'mem': '64gb', 'ncpus': '8'}),
            pbs.PbsNode('b', free, resources={'mem': '128gb', 'ncpus': '8', 'system': 'polar,north'})]
    assert [node.name for node in pbs.left(both, '', wanted)] == names


def test_the_folder_of_a_job_is_the_one_that_it_was_submitted_from(monkeypatch):
    printed = ('Job Id: 7.srv\n    Variable_List = PBS_O_HOME=/home/me,PBS_O_WORKDIR=/scratch/a b,\n\tPBS_O_HOST=login\n'
               'Job Id: 8.srv\n    Variable_List = PBS_O_HOME=/home/me\n')
    monkeypatch.setattr(pbs, 'answer', lambda command: '7.srv 8.srv')
    monkeypatch.setattr(pbs, 'run', lambda command: Made(stdout=printed))
    assert pbs.folders() == {'7.srv': '/scratch/a b'}


def test_the_wait_of_a_job_counts_the_time_in_which_it_was_refused(tmp_path):
    record = CaseRecord()
    job = Made(record=record, submit_time=100.0, refused_for=30.0, workdir=str(tmp_path), stdout='out')
    scheduled.note_times(job, (5.0, 60.0))
    assert (record.job.waited_s, record.job.ran_s) == (35.0, 60.0)
    for name, ended in ((scheduled.NODE, 110.0), ('out', 130.0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (ended, ended))
    scheduled.note_times(job, None)
    assert (record.job.waited_s, record.job.ran_s) == (10.0, 20.0), 'its files tell'
