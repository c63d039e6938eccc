"""ReFrame's backend for Slurm with what parity adds: run times, why a job waits, a job that cannot be cancelled, a job's nodes."""

from __future__ import annotations

import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.schedulers import slurm as reframe_slurm

import slurm_site
from parity.rfm import patches, queues
from parity.scheduler import command, scheduled

JOB = (slurm_site.RECORDED / 'job-completed.txt').read_text()
#: `sacct -n -X -P -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End` of the same job.
SACCT = '4|COMPLETED|0:0|Licenses|p1|00:00:13|2026-11-22T11:40:22|2026-11-22T11:41:18|2026-11-22T11:41:31\n'
ASKED = '-n -P -X -j 4 -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End'
SQUEUE = '-h -j 4 -o %i|%r'


class Job(Made):
    """The part of ReFrame's job that the backend reads and writes."""

    jobid, state, submit_time, is_cancelling = (property(lambda self, name=name: getattr(self, name))
                                                for name in ('_jobid', '_state', '_submit_time', '_is_cancelling'))
    __hash__ = object.__hash__


@pytest.fixture
def job(tmp_path):
    made = Job(_jobid='4', _state=None, _nodespec=None, _exception=None, _submit_time=time.time(), _is_cancelling=False,
               workdir=str(tmp_path), stdout='rfm_job.out', max_pending_time=600, times={}, is_array=False)
    command.note_standing(made, True)
    return made


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    """A backend whose job has the states that follow, one a look; Slurm's commands are stand-ins with these answers."""
    made = object.__new__(queues.Slurm)
    made._squeue, made._cancel_reasons, made.log = 'squeue', ['BadConstraints'], lambda *_, **__: None

    def states(*words, **commands):
        monkeypatch.setenv('PATH', f'{slurm_site.install(tmp_path / "bin", commands)}:/usr/bin:/bin')
        left = list(words)

        def poll(self, *jobs):
            for each in jobs:
                each._state = left.pop(0) if len(left) > 1 else left[0]
                self._cancel_if_blocked([each])
        monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', poll)
        return made
    return states


@pytest.mark.parametrize('told, times', [
    ({'scontrol': {'--oneliner show job 4': JOB}}, (56.0, 13.0)), ({'scontrol': {}, 'sacct': {ASKED: SACCT}}, (56.0, 13.0)),
    ({'scontrol': {}, 'sacct': {ASKED: 'JobID|State\n4|COMPLETED\n'}}, None),      # an accounting that answers something else
    ({'scontrol': {}, 'sacct': {ASKED: ''}}, None)])
def test_slurm_tells_how_long_a_job_waited_and_ran(scheduler, job, told, times):
    scheduler('COMPLETED', **told).poll(job)
    assert job.times == ({'submitted': job.submit_time, 'waited': times[0], 'ran': times[1]} if times else {})


def test_a_job_that_waits_is_told_with_slurms_reason(scheduler, job, tmp_path):
    backend = scheduler('PENDING', 'RUNNING', squeue={SQUEUE: '4|ReqNodeNotAvail, UnavailableNodes:p1\n'})
    for waits, reason in ((True, 'ReqNodeNotAvail, UnavailableNodes:p1'), (False, '')):
        backend.poll(job)
        told = command.read_standing(tmp_path)
        assert (told.waits, told.reason) == (waits, reason)


def test_a_blocked_job_is_still_cancelled(scheduler, job):
    scheduler('PENDING', squeue={SQUEUE: '4|BadConstraints\n'}, scancel={'4': ''}).poll(job)
    assert job.is_cancelling and 'BadConstraints' in str(job._exception)


def test_a_job_that_slurm_never_took_has_failed_and_ran_for_no_time(scheduler, job):
    backend = scheduler('PENDING')
    job._jobid, job.refused, job.tried = '', 'sbatch: error: QOSMaxSubmitJobPerUserLimit', time.time()
    job._submit_time -= 601
    backend.poll(job)
    assert backend.finished(job) and job.times['ran'] == 0.0 and job.times['waited'] >= 601
    assert str(job._exception) == 'maximum pending time exceeded; sbatch: error: QOSMaxSubmitJobPerUserLimit'


def test_a_job_that_slurm_does_not_cancel_is_not_waited_for(scheduler, job, monkeypatch):
    monkeypatch.setattr(queues, 'CANCEL_WAIT', 0)
    backend = scheduler('RUNNING', scancel={}, squeue={}, scontrol={}, sacct={})
    backend.cancel(job)
    backend.wait(job)
    assert backend.finished(job) and not job._exception


class Ended(reframe_slurm._SlurmJob):
    def __init__(self, state, spec, workdir):
        self._state, self._nodespec, self._nodelist, self._workdir = state, spec, None, str(workdir)


@pytest.fixture
def nodes_read_here(monkeypatch):
    monkeypatch.setattr(reframe_slurm._SlurmJob, 'nodelist', None)
    patches.read_nodes_here()


LONG = [f'node{number}' for number in range(500)]


@pytest.mark.parametrize('told, spec, names', [
    (None, 'n1,n2', ['n1', 'n2']), (None, 'n[1-3,7],gpu01', ['gpu01', 'n1', 'n2', 'n3', 'n7']), (None, 'n[008-010]', ['n008', 'n009', 'n010']),
    (None, '', []), (None, 'None assigned', []), (None, 'n[1-', []), (None, '@all', []),
    # the job's own word comes first: sacct says COMPLETED on n1 of a job on n1 and n2 that took two seconds
    ('n1,n2', 'n1', ['n1', 'n2']), (','.join(LONG), 'node0', sorted(LONG)),
    *((no_list, 'n1', ['n1']) for no_list in ('', '--all', 'n1 n2', 'n1;true', '$(true)', 'n1\x1b[0m'))])
def test_the_nodes_of_an_ended_job(nodes_read_here, tmp_path, told, spec, names):
    if told is not None:
        (tmp_path / 'node.txt').write_text(f'node: n1\nnodes: {told}\nkernel: 6.1\n')
        assert scheduled.node(str(tmp_path)) == {'node': 'n1', 'kernel': '6.1'}
    job = Ended('COMPLETED', spec, tmp_path)
    assert sorted(job.nodelist) == sorted(job.nodelist) == names


def test_a_running_job_has_no_nodes_yet_and_jobs_do_not_share_theirs(nodes_read_here, tmp_path):
    job, other = Ended('RUNNING', '', tmp_path), Ended('FAILED', 'n2', tmp_path)
    assert job.nodelist is None
    job._state, job._nodespec = 'COMPLETED', 'n7'
    assert (job.nodelist, other.nodelist) == (['n7'], ['n2'])
