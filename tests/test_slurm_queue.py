"""ReFrame's backend for Slurm with what parity adds: run times, why a job waits, a job that cannot be taken back."""

from __future__ import annotations

import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.schedulers import slurm as reframe_slurm

import slurm_site
from parity.rfm import slurm_queue
from parity.scheduler import command

JOB = {name: (slurm_site.RECORDED / f'job-{name}.txt').read_text() for name in ('completed', 'pending')}
#: `sacct -n -X -P -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End` of the same job.
SACCT = '4|COMPLETED|0:0|Licenses|p1|00:00:13|2026-11-22T11:40:22|2026-11-22T11:41:18|2026-11-22T11:41:31\n'
ASKED = '-n -P -X -j 4 -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End'


class Job(Made):
    """What the backend reads and writes of a job of ReFrame's."""

    jobid = property(lambda self: self._jobid)
    state = property(lambda self: self._state)
    submit_time = property(lambda self: self._submit_time)
    is_cancelling = property(lambda self: self._is_cancelling)
    __hash__ = object.__hash__


@pytest.fixture
def job(tmp_path):
    made = Job(_jobid='4', _state=None, _nodespec=None, _exception=None, _submit_time=time.time(), _is_cancelling=False,
               workdir=str(tmp_path), stdout='rfm_job.out', max_pending_time=600, times={}, is_array=False)
    command.note_standing(made, True)
    return made


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Slurm's commands as stand-ins; answers with what each was told to say."""
    def told(**commands):
        monkeypatch.setenv('PATH', f'{slurm_site.install(tmp_path / "bin", commands)}:/usr/bin:/bin')
    return told


@pytest.fixture
def scheduler(monkeypatch):
    """A backend whose job has the states that follow, one a look."""
    made = object.__new__(slurm_queue.Slurm)
    made._squeue, made._cancel_reasons, made.log = 'squeue', ['BadConstraints'], lambda *_, **__: None

    def states(*words):
        left = list(words)

        def poll(self, *jobs):
            for each in jobs:
                each._state = left.pop(0) if len(left) > 1 else left[0]
                self._cancel_if_blocked([each])
        monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', poll)
        return made
    return states


@pytest.mark.parametrize('told', [
    {'scontrol': {'--oneliner show job 4': JOB['completed']}}, {'scontrol': {}, 'sacct': {ASKED: SACCT}}])
def test_how_long_a_job_waited_and_ran_is_the_word_of_slurm(scheduler, site, job, told):
    site(**told)
    scheduler('COMPLETED').poll(job)
    assert job.times == {'submitted': job.submit_time, 'waited': 56.0, 'ran': 13.0}


def test_an_accounting_that_answers_otherwise_than_asked_tells_nothing(scheduler, site, job):
    site(scontrol={}, sacct={ASKED: 'JobID|State\n4|COMPLETED\n'})
    scheduler('COMPLETED').poll(job)
    assert job.times == {}


def test_a_job_that_neither_controller_nor_accounting_knows_has_no_times_without_files(scheduler, site, job):
    site(scontrol={}, sacct={ASKED: ''})
    scheduler('COMPLETED').poll(job)
    assert job.times == {}


def test_a_job_that_waits_is_told_with_slurm_s_reason(scheduler, site, job, tmp_path):
    site(squeue={'-h -j 4 -o %i|%r': '4|ReqNodeNotAvail, UnavailableNodes:p1\n'})
    backend = scheduler('PENDING', 'RUNNING')
    backend.poll(job)
    assert command.read_standing(tmp_path).waits and command.read_standing(tmp_path).reason == 'ReqNodeNotAvail, UnavailableNodes:p1'
    backend.poll(job)
    assert not command.read_standing(tmp_path).waits and command.read_standing(tmp_path).reason == ''


def test_a_job_that_is_blocked_is_still_taken_back(scheduler, site, job, tmp_path):
    site(squeue={'-h -j 4 -o %i|%r': '4|BadConstraints\n'}, scancel={'4': ''})
    scheduler('PENDING').poll(job)
    assert job.is_cancelling and 'BadConstraints' in str(job._exception)


def test_a_job_that_slurm_never_took_has_failed_and_ran_for_no_time(scheduler, job):
    backend = scheduler('PENDING')
    job._jobid, job.refused, job.tried = '', 'sbatch: error: QOSMaxSubmitJobPerUserLimit', time.time()
    job._submit_time -= 601
    backend.poll(job)
    assert backend.finished(job) and job.times['ran'] == 0.0 and job.times['waited'] >= 601
    assert str(job._exception) == 'maximum pending time exceeded; sbatch: error: QOSMaxSubmitJobPerUserLimit'


def test_a_job_that_slurm_does_not_take_back_is_not_waited_for(scheduler, site, job, monkeypatch):
    monkeypatch.setattr(slurm_queue, 'CANCEL_WAIT', 0)
    site(scancel={}, squeue={}, scontrol={}, sacct={})
    backend = scheduler('RUNNING')
    backend.cancel(job)
    backend.wait(job)
    assert backend.finished(job) and not job._exception
