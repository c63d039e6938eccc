"""ReFrame's backend for PBS with what parity adds: nodes, jobs that never start, jobs that end from outside."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.exceptions import JobError

import pbs_server
from parity.rfm import pbs_backend
from parity.scheduler import command, scheduled
from pbs_server import COMMANDS, RECORDED


class Job(Made):
    """What the backend reads and writes of a job of ReFrame's."""

    @property
    def completed(self):
        return self._completed


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@pytest.fixture
def poll(server, tmp_path, monkeypatch):
    """Ask once how a job stands whose situation was recorded; returns the job, and what was cancelled."""
    scheduler = object.__new__(pbs_backend.Scheduler)
    scheduler.log = lambda *_: None
    gone = []
    monkeypatch.setattr(pbs_backend.Scheduler, 'cancel', lambda self, job: gone.append(job.jobid))

    def once(name, *, waited=0.0, outputs=True, answers=None, job=None, **more):
        text = (RECORDED / f'{name}.txt').read_bytes() if name else b''
        number = text.split(b'\n')[0].removeprefix(b'Job Id: ').decode() or '1.pbshead'
        server('qstat', answers or {'-x -f -w': {'stdout': text, 'stderr': '', 'exit_code': 0}})
        job = job or Job(**{'jobid': number, '_completed': False, '_state': None, '_exitcode': None, 'nodelist': [],
                            '_exception': None, 'cancelled': False, 'submit_time': time.time() - waited, 'workdir': str(tmp_path),
                            'stdout': 'rfm_job.out', 'stderr': 'rfm_job.err', 'max_pending_time': 600, **more})
        for file in (job.stdout, job.stderr) if outputs else ():
            (tmp_path / file).touch()
        scheduler.poll(None, job)
        return job, gone
    return once


@pytest.mark.parametrize('name, exit_code', [('ended0', 0), ('exit7', 7), ('segv', 139), ('over-walltime', -29)])
def test_a_job_that_has_ended(poll, name, exit_code):
    job, gone = poll(name)
    assert job.completed and job._exitcode == exit_code and not job._exception and not gone
    assert job._nodelist and job._state == 'COMPLETED'


def test_a_job_that_runs_or_waits_is_left_alone(poll):
    job, gone = poll('running', outputs=False)
    assert job._state == 'RUNNING' and len(job._nodelist) == 2 and not job.completed
    job, gone = poll('queued', waited=599, outputs=False)
    assert job._state == 'QUEUED' and not job.completed and not gone


@pytest.mark.parametrize('name, waited, ran', [
    ('ended0', 10.0, 0.0), ('over-walltime', 0.0, 10.0), ('deleted-while-queued', 0.0, 0.0), ('deleted-while-running', 0.0, 3.0)])
def test_how_long_a_job_waited_and_ran_is_the_word_of_pbs(poll, name, waited, ran):
    job, _ = poll(name, times={}, waited=99.0)
    assert job.times == {'submitted': job.submit_time, 'waited': waited, 'ran': ran}


def test_a_job_that_is_taken_back_from_the_queue_ran_for_no_time(poll):
    job, _ = poll('queued', times={}, waited=700.0, outputs=False)
    assert job.times['ran'] == 0.0 and job.times['waited'] >= 700.0


def test_without_a_history_the_job_s_own_files_tell_how_long_it_ran(poll, tmp_path):
    for name, at in (('node.txt', 40.0), ('rfm_job.out', 90.0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000.0 + at, 1000.0 + at))
    answers = {'-x -f -w': COMMANDS['nohistory-x-ended'], '-f -w': COMMANDS['nohistory-ended']}
    job, _ = poll('', answers=answers, outputs=False, times={}, submit_time=1000.0)
    assert not job.completed
    (tmp_path / 'rfm_job.err').touch()
    job, _ = poll('', answers=answers, outputs=False, job=job)
    assert job.times == {'submitted': 1000.0, 'waited': 40.0, 'ran': 50.0}


@pytest.mark.parametrize('name, waited, said', [
    ('queued', 601, 'maximum pending time exceeded; Not Running: '), ('held', 601, 'maximum pending time exceeded; held by its user'),
    ('never', 61, 'can never run; Can Never Run: Insufficient amount of resource'), ('never', 59, '')])
def test_a_job_that_never_starts_is_cancelled_with_the_reason(poll, name, waited, said):
    job, gone = poll(name, waited=waited, outputs=False)
    assert job.completed == bool(said) == bool(gone)
    if said:
        assert isinstance(job._exception, JobError) and said in str(job._exception)


def test_a_job_that_was_deleted_before_it_ran_is_not_waited_for(poll):
    job, _ = poll('deleted-while-queued', outputs=False)
    assert job.completed and 'deleted before it ran' in str(job._exception)


def test_output_that_does_not_come_is_not_waited_for_for_ever(poll, monkeypatch):
    job, _ = poll('ended0', outputs=False)
    assert not job.completed, 'a file system may show it later'
    job.ended_at -= pbs_backend.OUTPUT_WAIT + 1
    job, _ = poll('ended0', outputs=False, job=job)
    assert job.completed and 'its output did not come' in str(job._exception)


@pytest.fixture
def node_down(server):
    server('pbsnodes', {'pbs1': {'stdout': (RECORDED / 'nodes-down.txt').read_text(), 'stderr': '', 'exit_code': 0}})


def test_a_job_whose_node_is_down_runs_until_the_node_stays_down(poll, node_down, tmp_path):
    job, gone = poll('running-node-down', outputs=False, times={})
    assert not job.completed and not gone
    assert command.read_standing(tmp_path).reason == 'pbs1 is down (communication closed)' and not command.read_standing(tmp_path).waits
    job.down_since -= pbs_backend.NODE_WAIT
    job, gone = poll('running-node-down', outputs=False, job=job)
    assert job.completed and gone == [job.jobid] and 'a node failed: pbs1 is down (communication closed)' in str(job._exception)
    assert job.times['ran'] >= 0.0


def test_a_node_that_comes_back_in_time_has_not_failed(poll, node_down, server, monkeypatch):
    monkeypatch.setattr(pbs_backend, 'NODES_EVERY', 0)
    job, _ = poll('running-node-down', outputs=False)
    job.down_since -= pbs_backend.NODE_WAIT
    server('pbsnodes', {'pbs1': {'stdout': (RECORDED / 'nodes-job-exclusive.txt').read_text(), 'stderr': '', 'exit_code': 0}})
    job, gone = poll('running-node-down', outputs=False, job=job)
    assert not job.completed and not gone


@pytest.mark.parametrize('answer, asked', [('qdel-node-down', ['15.pbshead', '-W force 15.pbshead']), ('qdel-ended', ['15.pbshead']),
                                           ('server-down', ['15.pbshead'])])
def test_a_job_is_taken_back_by_force_where_its_node_does_not_answer(tmp_path, monkeypatch, answer, asked):
    said = COMMANDS[answer]
    (tmp_path / 'qdel').write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\necho {said["stderr"]!r} >&2\nexit {said["exit_code"]}\n')
    (tmp_path / 'qdel').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    scheduler = object.__new__(pbs_backend.Scheduler)
    job = Job(jobid='15.pbshead', _cancelled=False, submit_time=time.time())
    scheduler.cancel(job)
    assert (tmp_path / 'asked').read_text().splitlines() == asked and job._cancelled


def test_a_job_that_was_taken_back_is_not_waited_for_where_the_server_is_silent(poll, monkeypatch):
    monkeypatch.setattr(pbs_backend, 'CANCEL_WAIT', 0)
    job, _ = poll('', answers={'-x -f -w': COMMANDS['server-down']}, outputs=False)
    job.cancelled, job.cancelled_at = True, time.time()
    scheduler = object.__new__(pbs_backend.Scheduler)
    scheduler.log = lambda *_: None
    scheduler.wait(job)
    assert job.completed and not job._exception


def test_a_server_that_is_restarted_ends_nothing(poll):
    job, _ = poll('', answers={'-x -f -w': COMMANDS['server-down']}, outputs=False)
    assert not job.completed and not job._exception and job._state is None


def test_a_server_without_history(poll):
    answers = {'-x -f -w': COMMANDS['nohistory-x-ended'], '-f -w': COMMANDS['nohistory-ended']}
    job, _ = poll('', answers=answers)
    assert job.completed and job._exitcode is None and not job._exception
    running = {'stdout': (RECORDED / 'running.txt').read_bytes(), 'stderr': '', 'exit_code': 0}
    job, _ = poll('running', answers={**answers, '-f -w': running}, outputs=False)
    assert job._state == 'RUNNING' and not job.completed


@pytest.mark.parametrize('name, said', [
    ('ended0', ''), ('exit7', ''), ('segv', ''), ('over-walltime', 'time limit reached, 3 s (job {} on {}: Exit_status -29)'),
    ('deleted-while-running', 'cancelled (job {} on {}: Job run at')])
def test_what_ended_a_job_is_told(poll, name, said):
    job, _ = poll(name)
    job.nodelist, job.time_limit, job.state = job._nodelist, 3.0, job._state
    assert scheduled.ended(job).startswith(said.format(job.jobid, ', '.join(job.nodelist)))
    assert bool(said) == bool(scheduled.ended(job))


@pytest.mark.parametrize('record, said', [
    ({'Exit_status': '-27'}, 'memory exceeded'), ({'Exit_status': '-3'}, 'PBS could not run it'),
    ({'Exit_status': '265'}, 'ended by signal 9'), ({'Exit_status': '0', 'substate': '91', 'comment': 'terminated by root@a'}, 'cancelled')])
def test_the_exit_codes_of_pbs(record, said):
    assert scheduled.ended(Made(state='COMPLETED', pbs=record, nodelist=[], jobid='1', time_limit=None)).startswith(said)
