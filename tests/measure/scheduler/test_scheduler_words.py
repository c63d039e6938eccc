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


def test_a_job_of_a_queue_with_nodes_of_its_own_runs_on_these_and_any_other_on_none_of_these():
    free = frozenset({'free'})
    shared, own, reserved = [pbs.PbsNode(name, free, **more) for name, more in (
        ('a', {}), ('b', {'queue': 'gpu'}), ('c', {'reserved': ('R7',)}))]
    every = [shared, own, reserved]
    assert pbs.left(every, 'gpu', {}) == [own] and pbs.left(every, 'R7', {}) == [reserved]
    assert pbs.left(every, 'workq', {}) == [shared, reserved]


@pytest.mark.parametrize('status, code', [('0', 0), ('7', 7), ('256', 256), ('257', 129), ('271', 143), ('-29', 4)])
def test_a_status_of_pbs_above_256_is_a_signal(status, code):
    state = pbs.state('1', {'job_state': 'F', 'exec_host': 'a/0', 'Exit_status': status})
    assert state.exit_code == code


@pytest.mark.parametrize('word, never', [('Q', 'Can Never Run: ncpus'), ('R', ''), ('F', '')])
def test_only_a_job_that_waits_can_never_run(word, never):
    state = pbs.state('1', {'job_state': word, 'exec_host': 'a/0', 'comment': 'Can Never Run: ncpus'})
    assert state.never == never


def test_a_node_that_boots_takes_jobs_although_it_does_not_respond():
    assert slurm.takes('CLOUD+POWERING_UP+NOT_RESPONDING') and slurm.takes('idle')
    assert not slurm.takes('IDLE+NOT_RESPONDING') and not slurm.takes('IDLE+DRAIN')


def test_a_job_of_which_some_elements_wait_and_some_have_ended_runs():
    states = [command.JobState('1', 'pending', 'Q'), command.JobState('2', 'ended', 'F', 0)]
    assert command.job_phase(states) == ('running', None) and command.job_phase(states[:1]) == ('pending', None)
    assert command.job_phase([*states[1:], command.JobState('3', 'ended', 'F')]) == ('ended', 4)


def test_a_job_waits_since_it_began_to_whatever_for(tmp_path, monkeypatch):
    job = Made(workdir=str(tmp_path))
    for now, waits, reason in ((1.0, True, ''), (2.0, True, 'Priority'), (3.0, True, 'Priority'), (4.0, False, '')):
        monkeypatch.setattr(command.time, 'time', lambda now=now: now)
        command.note_standing(job, waits, reason)
        assert command.read_standing(tmp_path) == job.standing
        assert (job.standing.since, job.standing.reason) == (1.0 if waits else 4.0, reason)


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
