"""ReFrame's backends for Slurm and PBS with what parity adds: full queues, why a job waits, jobs that do not end by themselves."""

import os
import re
import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.exceptions import JobError, JobSchedulerError, SpawnedProcessError, SpawnedProcessTimeout
from reframe.core.schedulers import slurm as reframe_slurm
from reframe.frontend.executors import policies

import pbs_server
import slurm_site
from parity.base import reasons
from parity.base.reasons import Kind
from parity.judge.store.case_record import CaseRecord, JobTimes
from parity.measure.rfm import patches, queues
from parity.measure.scheduler import command, pbs, scheduled
from parity.measure.scheduler.pbs import PbsNode
from pbs_server import COMMANDS, printed
from slurm_site import REFUSED
from warm import reframe

FULL = 'qsub: Maximum number of jobs already in queue'


def said(*names: str) -> list[str]:
    return [COMMANDS[name]['stderr'].strip() for name in names]


class Job(Made):
    """The part of ReFrame's job that the backends read and write."""

    jobid, state, submit_time, is_cancelling, completed, exitcode = (property(lambda self, name=name: getattr(self, name)) for name in (
        '_jobid', '_state', '_submit_time', '_is_cancelling', '_completed', '_exitcode'))
    __hash__ = object.__hash__


@pytest.fixture
def job(tmp_path):
    return Job(_jobid=None, _submit_time=None, _completed=False, _state=None, _nodespec=None, _exception=None, _exitcode=None, _is_cancelling=False,
               workdir=str(tmp_path), stdout='rfm_job.out', max_pending_time=600, time_limit=120.0, is_array=False, record=CaseRecord())


@pytest.fixture
def submitted(job, monkeypatch):
    """A scheduler that has answered the first submission with the first of ``answers``: an id, or what qsub says."""
    monkeypatch.setattr(queues, 'TRY_EVERY', 0.0)

    def begin(*answers):
        scheduler = object.__new__(queues.Pbs)
        scheduler.answers, scheduler.folders = list(answers), []

        def submit(self, job):
            self.folders.append(os.getcwd())
            answer = self.answers.pop(0)
            if not answer.isdecimal():
                raise SpawnedProcessError('qsub x', '', answer + '\n', 38)
            job._jobid, job._submit_time = answer, time.time()
        monkeypatch.setattr(queues.PbsJobScheduler, 'submit', submit)
        scheduler.submit(job)
        return scheduler
    return begin


@pytest.mark.parametrize('full', [*said(*(name for name in COMMANDS if name.startswith('qsub-full'))), *REFUSED['full'],
                                  *said('qsub-server-down'), 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)'])
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
    assert job.submit_time <= told.since and job.refused_for > 0.0 and scheduler.folders[1:] == [str(tmp_path)] * 2


@pytest.mark.parametrize('answers, waited, why', [
    ([], 601, f'maximum pending time exceeded; {FULL}'), (['qsub: Queue is not enabled'], 0, 'qsub: Queue is not enabled')])
def test_a_case_fails_when_its_queue_stays_full_for_too_long_or_refuses_it_otherwise(submitted, job, answers, waited, why):
    scheduler = submitted(FULL, *answers)
    job._submit_time -= waited
    assert scheduler.taken([job]) == [] and job.completed and str(job._exception) == why
    assert job.record.job.ran_s == 0.0 and job.record.job.waited_s >= waited


def test_a_scheduler_that_does_not_answer_is_not_waited_for_as_long_as_for_a_full_queue(submitted, job):
    away, = said('qsub-server-down')
    scheduler = submitted(FULL, away, away, FULL)
    job._submit_time -= 599
    assert scheduler.taken([job]) == [] and not job.completed, 'it has gone just now'
    job.refused_since -= queues.AWAY_WAIT
    assert scheduler.taken([job]) == [] and job.completed and str(job._exception) == f'no answer for 600 s; {" ".join(away.split())}'


@pytest.mark.parametrize('refusal', [*said('qsub-too-large', 'qsub-disabled', 'qsub-unknown-queue', 'qsub-hook-refuses', 'qsub-hook-fails', 'qsub-reservation-place', 'qsub-bad-place', 'qsub-only-by-route'), *REFUSED['for ever']])
def test_what_no_waiting_mends_fails_at_once_in_one_line(submitted, refusal):
    with pytest.raises(JobSchedulerError) as caught:
        submitted(refusal)
    assert str(caught.value) == ' '.join(refusal.split())


def test_sbatch_before_a_full_queue_is_left_before_it_sleeps(tmp_path, monkeypatch):
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')

    def stub(text: str) -> None:
        (tmp_path / 'sbatch').write_text(f'#!/bin/sh\n{text}\n')
        (tmp_path / 'sbatch').chmod(0o755)
    stub('echo "sbatch: error: Slurm job queue full, sleeping and retrying" >&2; sleep 20; echo Submitted batch job 9')
    with pytest.raises(SpawnedProcessError) as left:
        queues.sbatch('sbatch x.sh', timeout=60)
    assert queues._FULL.search(left.value.stderr)
    stub('echo "sbatch: a hint" >&2; echo Submitted batch job 9')
    done = queues.sbatch('sbatch x.sh', timeout=60)
    assert (done.stdout, done.stderr) == ('Submitted batch job 9\n', 'sbatch: a hint\n')
    stub('echo "sbatch: error: invalid partition" >&2; exit 3')
    with pytest.raises(SpawnedProcessError) as refused:
        queues.sbatch('sbatch x.sh')
    assert refused.value.exitcode == 3 and 'invalid partition' in refused.value.stderr
    stub('sleep 20')
    with pytest.raises(SpawnedProcessTimeout):
        queues.sbatch('sbatch x.sh', timeout=0.2)


JOB = (slurm_site.RECORDED / 'job-completed.txt').read_text()
#: `sacct -n -X -P -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End` of the same job.
SACCT = '4|COMPLETED|0:0|Licenses|p1|00:00:13|2026-11-22T11:40:22|2026-11-22T11:41:18|2026-11-22T11:41:31\n'
ASKED = '-n -P -X -o JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End -j 4'
SQUEUE = '-h -j 4 -o %i|%r'
#: ReFrame 4.10 looks at all jobs together, 4.9 at one after another.
TOGETHER = hasattr(reframe_slurm.SlurmJobScheduler, 'cancel_many')


@pytest.fixture
def scheduler(job, tmp_path, monkeypatch):
    """A backend that has job 4, which has the states that follow, one a look; Slurm's commands are stand-ins with these answers."""
    job._jobid, job._submit_time = '4', time.time()
    command.note_standing(job, True)
    made = object.__new__(queues.Slurm)
    made._squeue, made._sacct, made._cancel_reasons, made.log = 'squeue', 'sacct', ['BadConstraints'], lambda *_, **__: None

    def states(*words, **commands):
        monkeypatch.setenv('PATH', f'{slurm_site.install(tmp_path / "bin", commands)}:/usr/bin:/bin')
        left = list(words)

        def poll(self, *jobs):
            for each in jobs:
                each._state = left.pop(0) if len(left) > 1 else left[0]
                self._cancel_if_blocked([each] if TOGETHER else each)
        monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', poll)
        return made
    return states


@pytest.mark.parametrize('told, times', [
    ({'scontrol': {'--oneliner show job 4': JOB}}, (56.0, 13.0)), ({'scontrol': {}, 'sacct': {ASKED: SACCT}}, (56.0, 13.0)),
    ({'scontrol': {}, 'sacct': {ASKED: 'JobID|State\n4|COMPLETED\n'}}, None)])      # an accounting that answers something else
def test_slurm_tells_how_long_a_job_waited_and_ran(scheduler, job, told, times):
    scheduler('COMPLETED', **told).poll(job)
    assert job.record.job == (JobTimes(job.submit_time, *times) if times else None)


@pytest.mark.parametrize('version', ['22.05', '26.05'])
@pytest.mark.parametrize('name, code, said', [('exit139', 139, 'ended by signal 11'), ('exit11', 11, ''), ('exit7', 7, '')])
def test_a_code_has_the_same_words_on_every_version(scheduler, job, version, name, code, said):
    told = (slurm_site.RECORDED / f'jobs-{version}.txt').read_text().partition(f'== {name}\n')[2].split('\n')[:2]
    job._exitcode = int(told[1].split('|')[2].partition(':')[0])
    scheduler('FAILED', scontrol={'--oneliner show job 4': told[0] + '\n'}).poll(job)
    assert job.exitcode == code and scheduled.signalled(job).startswith(said) and bool(said) == bool(scheduled.signalled(job))


def test_a_job_that_waits_is_told_with_slurms_reason_and_a_blocked_one_is_cancelled(scheduler, job, tmp_path):
    backend = scheduler('PENDING', 'RUNNING', squeue={SQUEUE: '4|ReqNodeNotAvail, UnavailableNodes:p1\n'})
    for waits, reason in ((True, 'ReqNodeNotAvail, UnavailableNodes:p1'), (False, '')):
        backend.poll(job)
        told = command.read_standing(tmp_path)
        assert (told.waits, told.reason) == (waits, reason)
    if not TOGETHER:        # 4.9 cancels for no other reason than nodes that are not available
        return
    scheduler('PENDING', squeue={SQUEUE: '4|BadConstraints\n'}, scancel={'4': ''}).poll(job)
    assert job.is_cancelling and 'BadConstraints' in str(job._exception)


@pytest.mark.parametrize('reason', ['PartitionConfig', "Job's QOS not permitted to use this partition (noqos denies normal including normal)"])
def test_a_job_that_never_starts_is_cancelled_with_slurms_reason(scheduler, job, reason):
    backend = scheduler('PENDING', squeue={SQUEUE: f'4|{reason}\n'}, scancel={'4': ''})
    backend.poll(job)
    assert not job.is_cancelling, 'slurmctld may just be starting'
    job._submit_time -= queues.NEVER_WAIT
    backend.poll(job)
    assert job.is_cancelling and str(job._exception).endswith(f'can never run; {reason}')


def test_a_job_without_accounting_that_was_preempted_is_known_so_by_the_controller(scheduler, job, tmp_path, monkeypatch):
    for name in ('slurm_state_completed', 'slurm_state_pending'):
        monkeypatch.setattr(reframe_slurm, name, getattr(reframe_slurm, name))
    patches.end_preempted_jobs()
    line = slurm_site.recorded('job-completed', 0, JobState='PREEMPTED')
    scheduler('COMPLETED', scontrol={'--oneliner show job 4': line})
    backend = object.__new__(queues.Squeue)
    monkeypatch.setattr(reframe_slurm.SqueueJobScheduler, 'poll', lambda self, *jobs: setattr(job, '_state', 'COMPLETED'))
    backend.poll(job)
    assert backend.finished(job) and job.state == 'PREEMPTED'
    job.nodelist = ['p1']
    assert scheduled.ended(job)[1] == 'preempted by another job (job 4 on p1: PREEMPTED)'


@pytest.mark.parametrize('end, code', [({'JobState': 'FAILED', 'ExitCode': '7:0'}, 7), ({'JobState': 'FAILED', 'ExitCode': '139:0'}, 139),
                                       ({'JobState': 'FAILED', 'ExitCode': '0:9'}, 137), ({}, 0), ({'JobState': 'TIMEOUT', 'ExitCode': '0:15'}, None)])
def test_without_accounting_the_controller_tells_the_exit_code(scheduler, job, monkeypatch, end, code):
    scheduler('COMPLETED', scontrol={'--oneliner show job 4': slurm_site.recorded('job-completed', 0, **end)})
    backend = object.__new__(queues.Squeue)
    monkeypatch.setattr(reframe_slurm.SqueueJobScheduler, 'poll', lambda self, *jobs: setattr(job, '_state', 'COMPLETED'))
    backend.poll(job)
    assert job.exitcode == code and job.state == end.get('JobState', 'COMPLETED')


@pytest.mark.parametrize('accounting, lost', (
    ({ASKED: ''}, True), ({ASKED: SACCT.replace('COMPLETED', 'RUNNING')}, True), ({ASKED: SACCT}, False)))
def test_a_job_that_a_killed_slurmctld_lost_has_failed_unless_the_accounting_has_its_end(scheduler, job, tmp_path, accounting, lost):
    """The accounting may call it running for ever."""
    squeue = {SQUEUE: '', f'-h -u {os.getuid()} -o %i|%Z': '5|/x\n'}
    backend = scheduler('PENDING', squeue=squeue, sacct=accounting, scontrol={})
    gone = '#!/bin/bash\necho "slurm_load_jobs error: Invalid job id specified" >&2; exit 1\n'
    (tmp_path / 'bin' / 'scontrol').write_text(gone)
    backend.poll(job)
    assert not backend.finished(job), 'it was submitted just now'
    job._submit_time = time.time() - 61
    backend.poll(job)
    assert backend.finished(job) and job.state == ('CANCELLED' if lost else 'COMPLETED')
    assert ('Slurm has forgotten job 4: scontrol: slurm_load_jobs error' in str(job._exception)) is lost


MINE = f'-h -u {os.getuid()} -o %i|%Z'
STATE = '-h -j 4 -o %T'


@pytest.fixture
def silent(scheduler, job, monkeypatch):
    """A backend whose sacct never names job 4, submitted so many seconds ago; ``squeue`` is its state there."""
    for name in ('slurm_state_completed', 'slurm_state_pending'):
        monkeypatch.setattr(reframe_slurm, name, getattr(reframe_slurm, name))
    patches.end_preempted_jobs()
    monkeypatch.setattr(queues, 'NEVER_WAIT', 60)
    monkeypatch.setattr(queues, 'CANCEL_WAIT', 0)

    def waited(seconds, squeue='', scontrol='', sacct=None):
        listed = {MINE: '4|/x\n' if squeue else '', STATE: squeue, SQUEUE: ''}
        told = {'--oneliner show job 4': scontrol} if scontrol else {}
        backend = scheduler(None, squeue=listed, scontrol=told, sacct=sacct or {'-n -X -P -j 4 -o State': ''}, scancel={'4': ''})
        monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', lambda self, *jobs: None)
        job._submit_time = time.time() - seconds
        return backend
    return waited


def test_the_controller_tells_the_end_of_a_job_that_the_accounting_never_names(silent, job):
    silent(59, scontrol=JOB).poll(job)
    assert job.state is None, 'the accounting may be late'
    backend = silent(61, scontrol=slurm_site.recorded('job-completed', 0, JobState='FAILED', ExitCode='7:0'))
    backend.poll(job)
    assert backend.finished(job) and (job.state, job.exitcode, job._exception) == ('FAILED', 7, None) and job.record.job.ran_s == 13.0


def test_a_job_that_the_accounting_never_names_is_asked_of_the_controller_until_it_ends(silent, job):
    for state in ('PENDING', 'RUNNING'):
        backend = silent(61, squeue=state, scontrol=slurm_site.recorded('job-pending', 0, JobState=state))
        backend._looked_at = 0.0
        backend.poll(job)
        assert (job.state, job.standing.waits, backend.finished(job)) == (state, state == 'PENDING', False)


@pytest.mark.parametrize('squeue, sacct, said', [
    ('PENDING', None, 'squeue says PENDING, sacct says nothing'), ('', None, 'squeue says nothing, sacct says nothing'),
    ('', {'x': ''}, 'squeue says nothing, sacct says unknown question: -n -X -P -j 4 -o State')])
def test_a_job_that_nobody_knows_to_run_ends_after_its_longest_wait(silent, job, squeue, sacct, said):
    late = job.max_pending_time + scheduled.GRACE
    silent(late - 5, squeue, sacct=sacct).poll(job)
    assert not job.is_cancelling
    backend = silent(late + 1, squeue, sacct=sacct)
    backend.poll(job)
    why = f'maximum pending time exceeded, 600 s: job 4 had not ended after 721 s; {said}'
    assert backend.finished(job) and str(job._exception) == f'[jobid=4] {why}'
    assert job.record == CaseRecord(status='failed', kind='cancelled', reason=why)
    assert reasons.kind('failed', why) is Kind.CANCELLED


@pytest.mark.parametrize('word', [None, 'PENDING', 'RUNNING', 'COMPLETING', 'HIBERNATING'])
def test_a_job_that_runs_ends_after_its_time_limit_whatever_is_said_of_it(silent, job, tmp_path, word):
    """Its first file tells that it began, where squeue and sacct do not."""
    job._state = word
    (tmp_path / 'node.txt').touch()
    silent(30, squeue=word or '').poll(job)
    assert not job.standing.waits and not job.is_cancelling
    job.standing = command.Standing(False, time.time() - 241)
    backend = silent(300, squeue=word or '')
    backend.poll(job)
    why = f'time limit reached, 120 s: job 4 had not ended after 241 s; squeue says {word or "nothing"}, sacct says nothing'
    assert backend.finished(job) and job.record['reason'] == why and job.record['kind'] == 'limit' and why in str(job._exception)


def test_a_controller_that_says_nothing_gives_a_job_no_state(silent, job, tmp_path):
    backend = silent(61)
    (tmp_path / 'bin' / 'scontrol').write_text('#!/bin/sh\nexit 0\n')
    backend.poll(job)
    assert job.state is None and not backend.finished(job)


def test_a_sacct_that_fails_ends_no_session(silent, job, monkeypatch):
    backend = silent(61, scontrol=JOB)

    def poll(self, *jobs):
        raise SpawnedProcessError('sacct -P', '', 'sacct: error: Problem talking to the database: Connection refused', 1)
    monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', poll)
    backend.poll(job)
    assert backend.finished(job) and job.state == 'COMPLETED'


def test_a_command_of_slurm_that_does_not_answer_is_left(tmp_path, monkeypatch):
    for name in ('osext', '_run_strict'):
        monkeypatch.setattr(reframe_slurm, name, getattr(reframe_slurm, name))
    monkeypatch.setattr(command, 'SECONDS', 0.2)
    patches.leave_silent_commands()
    for run in (reframe_slurm._run_strict, reframe_slurm.osext.run_command):
        with pytest.raises(SpawnedProcessTimeout):
            run('sleep 20')


def test_a_job_that_slurm_never_took_has_failed(scheduler, job):
    backend = scheduler('PENDING')
    job._jobid, job.refused, job._submit_time = '', 'sbatch: error: QOSMaxSubmitJobPerUserLimit', time.time() - 601
    backend.poll(job)
    assert backend.finished(job) and job.record.job.ran_s == 0.0 and 'maximum pending time exceeded; sbatch: error: QOS' in str(job._exception)


@pytest.fixture
def cancelled(scheduler, job, tmp_path, monkeypatch):
    """A backend whose looks cancel what waits for too long, as ReFrame's do; returns it, and the lines of scancel."""
    for name in ('slurm_state_completed', 'slurm_state_pending'):
        monkeypatch.setattr(reframe_slurm, name, getattr(reframe_slurm, name))
    patches.end_preempted_jobs()
    monkeypatch.setattr(queues, 'CANCEL_WAIT', 0.2)
    sleep = time.sleep          # ReFrame looks every second or two
    monkeypatch.setattr(time, 'sleep', lambda seconds: sleep(seconds / 20))

    def states(*words, sacct=()):
        backend = scheduler(*words, squeue={}, scontrol={}, sacct=dict(sacct))
        look, until = reframe_slurm.SlurmJobScheduler.poll, time.monotonic() + 10

        def poll(self, *jobs):
            assert time.monotonic() < until, 'it is waited for without end'
            look(self, *jobs)
            for each in [jobs] if TOGETHER else jobs:
                self._cancel_if_pending_too_long(each)
        monkeypatch.setattr(reframe_slurm.SlurmJobScheduler, 'poll', poll)
        (tmp_path / 'bin' / 'scancel').write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/scancel"\n')
        (tmp_path / 'bin' / 'scancel').chmod(0o755)
        return backend, lambda: (tmp_path / 'scancel').read_text().split() if (tmp_path / 'scancel').exists() else []
    return states


@pytest.mark.parametrize('word, said', [('PREEMPTED', 'preempted by another job (job 4 on p1: PREEMPTED)'),
                                        ('REVOKED', 'cancelled by a sibling (job 4 on p1: REVOKED)')])
def test_a_preempted_job_has_ended_and_runs_no_second_time(cancelled, job, word, said):
    """Slurm queues it again where PreemptMode=REQUEUE: sacct still says PREEMPTED for two seconds."""
    job.nodelist, job._submit_time = ['p1'], time.time() - 601
    backend, scancel = cancelled(word)
    backend.poll(job)
    backend.wait(job)
    assert backend.finished(job) and scheduled.ended(job)[1] == said and scancel() == (['4'] if word == 'PREEMPTED' else [])


@pytest.mark.parametrize('accounting, said', [('PREEMPTED\nPENDING\n', 'preempted by another job (job 4 on p1: PREEMPTED)'),
                                              ('NODE_FAIL\nPENDING\n', 'a node failed (job 4 on p1: NODE_FAIL)'),
                                              ('REQUEUED\nPENDING\n', 'cancelled (job 4 on p1: CANCELLED)')])
def test_a_job_that_waits_again_after_it_has_begun_runs_no_second_time(cancelled, job, tmp_path, accounting, said):
    def install(word):
        line = slurm_site.recorded('job-pending', 0, JobState=word)
        slurm_site.install(tmp_path / 'bin', {'scontrol': {'--oneliner show job 4': line}})

    job.nodelist = ['p1']
    backend, scancel = cancelled('PENDING', sacct={'-n -X -D -P -j 4 -o State': accounting})
    backend.poll(job)
    assert not backend.finished(job) and not scancel(), 'it has not begun'
    (tmp_path / 'node.txt').touch()
    install('RUNNING')
    backend.poll(job)
    assert not backend.finished(job) and not scancel(), 'it has just begun, and sacct is late'
    install('PENDING')
    backend.poll(job)
    assert backend.finished(job) and scancel() == ['4'] and scheduled.ended(job)[1] == said


@pytest.mark.parametrize('word', ['PENDING', 'RUNNING', 'HIBERNATING'])
def test_a_cancelled_job_ends_whatever_slurm_says_of_it_and_is_cancelled_once(cancelled, job, word):
    job._submit_time -= 601
    backend, scancel = cancelled(word)
    backend.poll(job)
    assert not backend.finished(job) and scancel() == (['4'] if word == 'PENDING' else [])
    backend.cancel(job)         # a stopped session
    backend.wait(job)
    assert backend.finished(job) and scancel() == ['4'] and not job._exception


def test_why_a_job_waits_is_asked_before_it_is_cancelled(scheduler, job, tmp_path):
    backend = scheduler('PENDING', squeue={SQUEUE: '4|PartitionDown\n'}, scancel={'4': ''})
    job._state = 'PENDING'
    backend.cancel_many([job])
    assert command.read_standing(tmp_path).reason == 'PartitionDown'


def test_a_stopped_session_cancels_all_jobs_before_it_waits_for_one(job, monkeypatch):
    done = []
    monkeypatch.setattr(policies.AsynchronousExecutionPolicy, '_abortall', lambda policy, cause: done.append('wait'))
    patches.cancel_together()
    backend = object.__new__(queues.Slurm)
    monkeypatch.setattr(queues.Slurm, 'cancel_many', lambda self, jobs: done.append([each.jobid for each in jobs]))
    tasks = [Made(state=state, check=Made(job=Made(jobid=name))) for state, name in (('running', '4'), ('running', ''), ('completing', '5'))]
    policy = Made(_schedulers={'_rfm_local': None, 'onebox:physical': backend}, _partition_tasks={'onebox:physical': tasks})
    policies.AsynchronousExecutionPolicy._abortall(policy, None)
    assert done == [['4'], 'wait']


@pytest.mark.parametrize('told, spec, names', [
    (None, 'n[1-3,7],gpu01', ['gpu01', 'n1', 'n2', 'n3', 'n7']), (None, 'n[008-010]', ['n008', 'n009', 'n010']),
    (None, 'None assigned', []), (None, 'n[1-', []), (None, '@all', []),
    # the job's own word comes first: sacct says COMPLETED on n1 of a job on n1 and n2 that took two seconds
    ('n1,n2', 'n1', ['n1', 'n2']), *((no_list, 'n1', ['n1']) for no_list in ('', '--all', 'n1;true', '$(true)', 'n1\x1b[0m'))])
def test_the_nodes_of_an_ended_job(tmp_path, monkeypatch, told, spec, names):
    monkeypatch.setattr(reframe_slurm._SlurmJob, 'nodelist', None)
    patches.read_nodes_here()
    if told is not None:
        (tmp_path / 'node.txt').write_text(f'node: n1\nnodes: {told}\nkernel: 6.1\n')
    job = object.__new__(reframe_slurm._SlurmJob)
    job._state, job._nodespec, job._nodelist, job._workdir = 'RUNNING', '', None, str(tmp_path)
    assert job.nodelist is None
    job._state, job._nodespec = 'COMPLETED', spec
    assert sorted(job.nodelist) == names


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@pytest.fixture
def poll(server, job, tmp_path, monkeypatch):
    """Ask once how a job stands whose situation was recorded; returns the job, and the cancelled ids."""
    scheduler = object.__new__(queues.Pbs)
    scheduler.log = lambda *_: None
    gone, fresh = [], job
    monkeypatch.setattr(queues.Pbs, 'cancel', lambda self, job: gone.append(job.jobid))

    def once(name, *, waited=0.0, outputs=True, answers=None, job=None, **more):
        number = printed(name)['stdout'].split(b'\n')[0].removeprefix(b'Job Id: ').decode() or '1.pbshead'
        server('qstat', answers or {'-x -f -w': printed(name)})
        job = job or Job(**{**vars(fresh), '_jobid': number, '_exitcode': None, 'nodelist': [], 'cancelled': False,
                            '_submit_time': time.time() - waited, 'stderr': 'rfm_job.err', 'times': {}, 'standing': command.Standing(True, time.time() - waited), **more})
        for file in (job.stdout, job.stderr) if outputs else ():
            (tmp_path / file).touch()
        scheduler.poll(None, job)
        return job, gone
    return once


@pytest.mark.parametrize('name, exit_code, times, said', [
    ('ended0', 0, (10.0, 0.0), ''), ('exit7', 7, None, ''), ('segv', 139, None, ''),
    ('over-walltime', -29, (0.0, 10.0), 'time limit reached, 3 s (job {} on {}: Exit_status -29)'),
    ('over-cut-walltime', -29, (0.0, 10.0), 'time limit reached, 5 s of 600 s asked for (job {} on {}: Exit_status -29)'),
    ('deleted-while-queued', None, (0.0, 0.0), ''), ('deleted-while-running', 271, (0.0, 3.0), 'cancelled (job {} on {}: Job run at')])
def test_an_ended_job(poll, name, exit_code, times, said):
    job, gone = poll(name, waited=99.0)
    assert job.completed and not job._exception and not gone and job._state == 'COMPLETED' and job._exitcode == exit_code
    if times:
        assert job.record.job == JobTimes(job.submit_time, *times[:2])
    if name != 'deleted-while-queued':
        job.nodelist, job.time_limit = job._nodelist, 600.0 if 'cut' in name else 3.0
        _, told = scheduled.ended(job)
        assert job.nodelist and told.startswith(said.format(job.jobid, ', '.join(job.nodelist))) and bool(said) == bool(told)


def test_without_a_history_the_files_of_the_job_tell_how_long_it_ran(poll, tmp_path):
    for name, at in (('node.txt', 1040.0), ('rfm_job.out', 1090.0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    answers = {'-x -f -w': COMMANDS['nohistory-x-ended'], '-f -w': COMMANDS['nohistory-ended']}
    job, _ = poll('', answers=answers, outputs=False, _submit_time=1000.0)
    assert not job.completed
    (tmp_path / 'rfm_job.err').touch()
    job, _ = poll('', answers=answers, outputs=False, job=job)
    assert job.record.job == JobTimes(submitted_unix=1000.0, waited_s=40.0, ran_s=50.0)
    assert job.completed and job._exitcode is None and not job._exception
    job, _ = poll('running', answers={**answers, '-f -w': printed('running')}, outputs=False)
    assert job._state == 'RUNNING' and not job.completed


@pytest.mark.parametrize('name, waited, said', [
    ('queued', 601, 'maximum pending time exceeded; Not Running: '), ('held', 601, 'maximum pending time exceeded; held by its user'),
    ('routing', 601, 'maximum pending time exceeded; in the routing queue route'),
    ('never', 61, 'can never run; Can Never Run: Insufficient amount of resource'), ('never', 59, ''), ('queued', 599, ''), ('running', 601, '')])
def test_a_job_that_never_starts_is_cancelled_with_the_reason(poll, name, waited, said):
    job, gone = poll(name, waited=waited, outputs=False)
    assert job.completed == bool(said) == bool(gone)
    assert job._state == {'running': 'RUNNING', 'held': 'HELD'}.get(name, 'QUEUED')
    assert len(getattr(job, '_nodelist', ())) == (2 if name == 'running' else 0)
    if said:
        assert isinstance(job._exception, JobError) and said in str(job._exception)
        assert job.record.job.ran_s == 0.0 and job.record.job.waited_s >= waited


@pytest.mark.parametrize('answers, why', [
    ({'-x -f -w': COMMANDS['qstat-refused-by-route']}, queues.DELETED),
    ({'-x -f -w': COMMANDS['nohistory-x-ended'], '-f -w': COMMANDS['nohistory-ended']}, queues.FORGOTTEN)])
def test_a_job_that_pbs_does_not_know_is_told_by_what_the_server_keeps(poll, answers, why):
    job, _ = poll('', answers=answers, outputs=False)
    job.ended_at -= queues.OUTPUT_WAIT + 1
    job, _ = poll('', answers=answers, outputs=False, job=job)
    assert job.completed and why in str(job._exception)


@pytest.mark.parametrize('name, answers, said', [
    ('running', None, 'qstat says R'), ('', {'-x -f -w': COMMANDS['server-down'], '-f -w': COMMANDS['server-down']}, 'qstat says ')])
def test_a_job_of_pbs_ends_after_its_limits_whatever_qstat_says(poll, tmp_path, name, answers, said):
    answers = answers or {'-x -f -w': printed(name), '-f -w': printed(name)}
    job, gone = poll(name, outputs=False, waited=600.0, answers=answers, standing=command.Standing(False, time.time() - 239))
    assert not job.completed and not gone
    job.standing = command.Standing(False, time.time() - 241)
    job, gone = poll(name, outputs=False, answers=answers, job=job)
    assert job.completed and gone == [job.jobid] and job.record['kind'] == 'limit'
    assert f'time limit reached, 120 s: job {job.jobid} had not ended after 241 s; {said}' in str(job._exception)


def test_a_job_of_a_pbs_that_does_not_answer_ends_after_its_longest_wait(poll):
    answers = {'-x -f -w': COMMANDS['server-down'], '-f -w': COMMANDS['server-down']}
    job, gone = poll('', outputs=False, waited=721.0, answers=answers)
    assert job.completed and gone and 'maximum pending time exceeded, 600 s: job 1.pbshead had not ended after 721 s; qstat says ' in str(job._exception)


def test_output_that_does_not_come_is_not_waited_for_for_ever(poll):
    job, _ = poll('ended0', outputs=False)
    assert not job.completed, 'a file system may show it later'
    job.ended_at -= queues.OUTPUT_WAIT + 1
    for name, before, said in (('ended0', job, 'its output did not come'), ('deleted-while-queued', None, 'deleted before it ran')):
        job, _ = poll(name, outputs=False, job=before)
        assert job.completed and said in str(job._exception)


@pytest.mark.parametrize('comes_back', [False, True])
def test_a_job_whose_node_is_down_runs_until_the_node_stays_down(poll, server, tmp_path, monkeypatch, comes_back):
    monkeypatch.setattr(queues, 'NODES_EVERY', 0)
    server('pbsnodes', {'pbs1': printed('nodes-down')})
    job, gone = poll('running-node-down', outputs=False)
    assert not job.completed and not gone
    told = command.read_standing(tmp_path)
    assert told.reason == 'pbs1 is down (communication closed)' and not told.waits
    job.down_since -= queues.NODE_WAIT
    if comes_back:
        server('pbsnodes', {'pbs1': printed('nodes-job-exclusive')})
    job, gone = poll('running-node-down', outputs=False, job=job)
    assert job.completed is not comes_back and gone == ([] if comes_back else [job.jobid])
    assert comes_back or 'a node failed: pbs1 is down (communication closed)' in str(job._exception) and job.record.job.ran_s >= 0.0


@pytest.mark.parametrize('answer, asked', [('qdel-node-down', ['', '-W force ']), ('qdel-ended', ['']), ('server-down', [''])])
def test_a_job_is_cancelled_by_force_where_its_node_does_not_answer(job, monkeypatch, answer, asked):
    words = []
    monkeypatch.setattr(queues, 'run', lambda command: words.append(command) or Made(returncode=1, stderr=COMMANDS[answer]['stderr']))
    job._jobid = '15.pbshead'
    object.__new__(queues.Pbs).cancel(job)
    assert [' '.join(command) for command in words] == [f'qdel {options}15.pbshead' for options in asked] and job._cancelled


def test_a_silent_server_ends_nothing_but_a_cancelled_job(poll, monkeypatch):
    job, _ = poll('', answers={'-x -f -w': COMMANDS['server-down']}, outputs=False)
    assert not job.completed and not job._exception and job._state is None
    monkeypatch.setattr(queues, 'CANCEL_WAIT', 0)
    job.cancelled, job.cancelled_at = True, time.time()
    scheduler = object.__new__(queues.Pbs)
    scheduler.log = lambda *_: None
    scheduler.wait(job)
    assert job.completed and not job._exception


FEW = [PbsNode('a', frozenset({'free'}), '', {'ncpus': '2', 'mem': '1200mb', 'arch': 'linux'}),
       PbsNode('b', frozenset({'job-exclusive'}), '', {'ncpus': '4', 'mem': '2gb', 'ngpus': '4', 'Qlist': 'workq,gpuq'}),
       PbsNode('c', frozenset({'offline', 'down'}), '', {'ncpus': '4', 'mem': '2gb', 'ngpus': '2'}, reserved=('R23',)),
       PbsNode('d', frozenset({'free'}), 'gpuq', {'ncpus': '4', 'mem': '2gb', 'ngpus': '4'})]


@pytest.mark.parametrize('queue, wanted, names', [
    ('', {}, 'abc'), ('gpuq', {}, 'd'), ('R23', {}, 'c'), ('workq', {'ngpus': '1'}, 'bc'), ('workq', {'mem': '2000mb'}, 'bc'),
    ('workq', {'Qlist': 'gpuq'}, 'b'), ('workq', {'ompthreads': '1', 'mpiprocs': '9'}, 'abc'), ('gpuq', {'arch': 'linux'}, '')])
def test_the_nodes_that_a_job_may_have(queue, wanted, names):
    assert ''.join(n.name for n in pbs.left(FEW, queue, wanted)) == names
    assert [(n.is_available, n.in_state('down'), n.in_statex('idle')) for n in FEW[:3]] == [(1, 0, 1), (1, 0, 0), (0, 1, 0)]


@pytest.fixture
def dry_run(checkout, server):
    """Dry-run checks for example-pbs; returns the run, and the job scripts."""
    def run(options):
        done = reframe(checkout, f'--system example-pbs:cpu -c checks/compute -c checks/network {options} --dry-run', RFM_COLORIZE='n')
        return done, [f.read_text() for f in (checkout / 'results' / 'stage').rglob('rfm_job.sh')]
    return run


def test_reframe_distributes_over_the_nodes_of_a_pbs(dry_run, server):
    server('pbsnodes', {'-a': COMMANDS['server-down-pbsnodes']})
    done, _ = dry_run('-n Hpl --distribute')
    assert done.returncode and 'cannot connect to server' in done.stdout + done.stderr
    text = ''.join(f'{name}\n     state = {state}\n     resources_available.host = {name}\n     resources_available.ncpus = 72\n\n'
                   for name, state in (('n1', 'free'), ('n2', 'job-busy'), ('n3', 'down')))
    server('pbsnodes', {'-a': {'stdout': text, 'stderr': '', 'exit_code': 0}})
    server('qstat', {'-Q -f': {'stdout': 'Queue: workq\n', 'stderr': '', 'exit_code': 0}})
    done, scripts = dry_run('-n Hpl -n "OsuBandwidth.*between.*bibw" --distribute=avail')
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert done.stdout.count('[nodes: needs 2, and is to run on n') == 2
    assert sorted(re.findall(r'select=(.*)', script)[0] for script in scripts) == [
        f'1:mpiprocs=72:ncpus=72:ompthreads=1:host=n{i}' for i in (1, 2)]


def test_a_node_list_becomes_chunks_on_hosts(dry_run):
    between = '-n "OsuBandwidth.*between.*bibw" -J q=fast -J nodelist='
    assert 'nodelist=n1 names 1, the job needs 2' in dry_run(f'{between}n1')[0].stdout
    done, (script,) = dry_run(f'{between}n1,n2')
    assert 'select=1:mpiprocs=1:ncpus=1:ompthreads=1:host=n1+1:mpiprocs=1:ncpus=1:ompthreads=1:host=n2' in script
    assert 'nodelist' not in script and '#PBS -q fast' in script and "\ncd '" in script, 'the path has a space'
