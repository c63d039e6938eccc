"""A job in a queue: why it waits is written down, and what a full queue refuses is submitted again."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import JobSchedulerError, SpawnedProcessError

from parity.rfm import queues
from parity.scheduler import command
from pbs_server import COMMANDS
from slurm_site import REFUSED

FULL = 'qsub: Maximum number of jobs already in queue'


def said(*names: str) -> list[str]:
    return [COMMANDS[name]['stderr'].strip() for name in names]


class Backend:
    """A backend of ReFrame's that answers each submission with the next of ``answers``: an id, or what qsub says."""

    def submit(self, job):
        answer, *self.answers = self.answers
        self.folders.append(os.getcwd())
        if not answer.isdecimal():
            raise SpawnedProcessError('qsub x', '', answer + '\n', 38)
        job._jobid, job._submit_time = answer, time.time()


class Scheduler(queues.Patient, Backend):
    def finished(self, job):
        return job.completed

    def give_up(self, job, why=''):
        job.completed, job.why = True, why


class Job(SimpleNamespace):
    jobid = property(lambda self: self._jobid)
    submit_time = property(lambda self: self._submit_time)


@pytest.fixture
def job(tmp_path):
    return Job(_jobid=None, _submit_time=None, workdir=str(tmp_path), max_pending_time=600, completed=False)


@pytest.fixture
def submitted(job, monkeypatch):
    """A scheduler that has answered the first submission."""
    monkeypatch.setattr(queues, 'TRY_EVERY', 0.0)

    def begin(*answers):
        scheduler = Scheduler()
        scheduler.answers, scheduler.folders = answers, []
        scheduler.submit(job)
        return scheduler
    return begin


@pytest.mark.parametrize('full', [*said(*(name for name in COMMANDS if name.startswith('qsub-full'))), *REFUSED['full']])
def test_a_full_queue_is_tried_again_until_it_takes_the_job(submitted, job, tmp_path, monkeypatch, full):
    scheduler = submitted(full, full, '17')
    told = command.read_standing(tmp_path)
    assert job.jobid == '' and told.waits and told.reason == ' '.join(full.split())
    assert scheduler.taken([job, None]) == []
    monkeypatch.setattr(queues, 'TRY_EVERY', 15.0)
    assert scheduler.taken([job]) == [] and scheduler.answers, 'it is not asked at every look'
    monkeypatch.setattr(queues, 'TRY_EVERY', 0.0)
    assert scheduler.taken([job]) == [job] and job.jobid == '17'
    assert command.read_standing(tmp_path) == command.Standing(True, told.since, '')
    assert job.submit_time <= told.since and job.refused_for > 0.0
    assert scheduler.folders[1:] == [str(tmp_path)] * 2, 'the script is named without its folder'


@pytest.mark.parametrize('answers, waited, why', [
    ([], 601, f'maximum pending time exceeded; {FULL}'), (['qsub: Queue is not enabled'], 0, 'qsub: Queue is not enabled')])
def test_a_case_fails_when_its_queue_stays_full_for_too_long_or_refuses_it_otherwise(submitted, job, answers, waited, why):
    scheduler = submitted(FULL, *answers)
    job._submit_time -= waited
    assert scheduler.taken([job]) == [] and job.completed and job.why == why


@pytest.mark.parametrize('refusal', [*said('qsub-too-large', 'qsub-disabled', 'qsub-unknown-queue'), *REFUSED['for ever']])
def test_what_no_waiting_mends_fails_at_once_in_one_line(submitted, refusal):
    with pytest.raises(JobSchedulerError) as caught:
        submitted(refusal)
    assert str(caught.value) == ' '.join(refusal.split())


def test_a_job_that_no_queue_took_is_ended_without_a_word_to_the_scheduler(submitted, job):
    submitted(FULL).cancel(job)
    assert job.completed and job.why == ''


def test_how_a_job_stands_is_written_when_it_changes(job, tmp_path):
    for text in (None, '', '{', '[]', '{"waits": true}'):
        if text is not None:
            (tmp_path / command.FILE).write_text(text)
        assert command.read_standing(tmp_path) is None
    command.note_standing(job, True)
    first = command.read_standing(tmp_path)
    command.note_standing(job, True, 'Not Running: Dedicated time conflict')
    assert command.read_standing(tmp_path) == command.Standing(True, first.since, 'Not Running: Dedicated time conflict')
    command.note_standing(job, False)
    assert not command.read_standing(tmp_path).waits and command.read_standing(tmp_path).since >= first.since
