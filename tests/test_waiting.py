"""A job in a queue: why it waits is written down, and what a full queue refuses is submitted again."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError

from parity.rfm import patient
from parity.scheduler import command
from pbs_server import COMMANDS
from slurm_site import REFUSED

FULL = [name for name in COMMANDS if name.startswith('qsub-full')]


class Backend:
    """A backend of ReFrame's that answers each submission with the next of ``answers``: an id, or what qsub says."""

    answers = ()

    def submit(self, job):
        answer, *self.answers = self.answers
        self.folders = [*getattr(self, 'folders', []), os.getcwd()]
        if not answer.isdecimal():
            raise SpawnedProcessError('qsub x', '', answer + '\n', 38)
        job._jobid, job._submit_time = answer, time.time()


class Scheduler(patient.Patient, Backend):
    def finished(self, job):
        return job.completed

    def give_up(self, job, why=''):
        job.completed, job.why = True, why


class Job(Made):
    jobid = property(lambda self: self._jobid)
    submit_time = property(lambda self: self._submit_time)


@pytest.fixture
def job(tmp_path):
    return Job(_jobid=None, _submit_time=None, workdir=str(tmp_path), max_pending_time=600, completed=False)


@pytest.fixture
def submitted(job, monkeypatch):
    """A scheduler that has answered the first submission."""
    monkeypatch.setattr(patient, 'TRY_EVERY', 0.0)

    def begin(*answers):
        scheduler = Scheduler()
        scheduler.answers = answers
        scheduler.submit(job)
        return scheduler
    return begin


@pytest.mark.parametrize('said', [*(COMMANDS[name]['stderr'].strip() for name in FULL), *REFUSED['full']])
def test_a_full_queue_is_tried_again_until_it_takes_the_job(submitted, job, tmp_path, said):
    scheduler = submitted(said, said, '17')
    told = command.read_standing(tmp_path)
    assert job.jobid == '' and told.waits and told.reason == ' '.join(said.split())
    assert scheduler.taken([job, None]) == [] and scheduler.taken([job]) == [job] and job.jobid == '17'
    assert command.read_standing(tmp_path) == command.Standing(True, told.since, '')
    assert job.submit_time <= told.since and job.refused_for > 0.0
    assert scheduler.folders[1:] == [str(tmp_path)] * 2, 'the script is named without its folder'


def test_a_full_queue_is_not_asked_at_every_look(submitted, job, monkeypatch):
    scheduler = submitted(COMMANDS[FULL[0]]['stderr'], '17')
    monkeypatch.setattr(patient, 'TRY_EVERY', 15.0)
    assert scheduler.taken([job]) == [] and scheduler.answers


def test_a_queue_that_stays_full_fails_the_case_when_it_has_waited_long_enough(submitted, job):
    scheduler = submitted(COMMANDS['qsub-full-queue']['stderr'])
    job._submit_time -= 601
    assert scheduler.taken([job]) == [] and job.completed
    assert job.why == 'maximum pending time exceeded; qsub: Maximum number of jobs already in queue'


@pytest.mark.parametrize('said', [*(COMMANDS[name]['stderr'].strip() for name in ('qsub-too-large', 'qsub-disabled', 'qsub-unknown-queue')),
                                  *REFUSED['for ever']])
def test_what_no_waiting_mends_fails_at_once_in_one_line(submitted, job, said):
    with pytest.raises(JobSchedulerError) as caught:
        submitted(said)
    assert str(caught.value) == ' '.join(said.split())


def test_a_job_that_a_full_queue_refuses_for_another_reason_later_fails(submitted, job):
    scheduler = submitted(COMMANDS['qsub-full-queue']['stderr'], 'qsub: Queue is not enabled')
    assert scheduler.taken([job]) == [] and job.why == 'qsub: Queue is not enabled'


def test_a_job_that_no_queue_took_is_ended_without_a_word_to_the_scheduler(submitted, job):
    submitted(COMMANDS['qsub-full-queue']['stderr']).cancel(job)
    assert job.completed and job.why == ''


def test_how_a_job_stands_is_written_when_it_changes(job, tmp_path):
    command.note_standing(job, True)
    first = command.read_standing(tmp_path)
    command.note_standing(job, True, 'Not Running: Dedicated time conflict')
    assert command.read_standing(tmp_path) == command.Standing(True, first.since, 'Not Running: Dedicated time conflict')
    command.note_standing(job, False)
    assert not command.read_standing(tmp_path).waits and command.read_standing(tmp_path).since >= first.since


@pytest.mark.parametrize('text', ['', '{', '[]', '{"waits": true}'])
def test_a_file_that_says_nothing_is_no_word_of_a_scheduler(tmp_path, text):
    assert command.read_standing(tmp_path) is None
    (tmp_path / command.FILE).write_text(text)
    assert command.read_standing(tmp_path) is None
