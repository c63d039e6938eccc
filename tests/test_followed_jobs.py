"""How jobs stand: what Slurm and PBS print, as they printed it, and what the scheduler refuses."""

from __future__ import annotations

import pytest

from parity.errors import UsageError
from parity.jobs import command, sent, slurm
from parity.jobs.state import SchedulerError, State, together

#: `scontrol --oneliner show job` of Slurm 22.05, shortened behind what is read.
CONTROLLER = ('JobId=8 JobName=parity-build UserId=root(0) GroupId=root(0) JobState={state} Reason={reason} Dependency=(null) '
              'Requeue=1 ExitCode={code} RunTime=00:00:07 TimeLimit=04:00:00 Partition=physical NodeList={nodes} BatchHost=p1 '
              'Command=/a folder/with NodeCnt=9 in it.sh')
ARRAY = ('JobId=12 ArrayJobId=11 ArrayTaskId=0 ArrayTaskThrottle=1 JobName=parity-campaign JobState=COMPLETED Reason=None '
         'ExitCode=0:0 RunTime=00:00:01 NodeList=p1\n'
         'JobId=11 ArrayJobId=11 ArrayTaskId=1-14%1 ArrayTaskThrottle=1 JobName=parity-campaign JobState=PENDING '
         'Reason=JobArrayTaskLimit ExitCode=0:0 RunTime=00:00:00 NodeList=(null)\n')


def controller(state='RUNNING', reason='None', code='0:0', nodes='p1') -> State:
    return slurm._controller(CONTROLLER.format(**locals()))


@pytest.mark.parametrize('state, reason, code, phase, exit_code', [
    ('PENDING', 'Resources', '0:0', 'pending', None), ('RUNNING', 'None', '0:0', 'running', None),
    ('COMPLETING', 'None', '0:0', 'running', None), ('COMPLETED', 'None', '0:0', 'ended', 0),
    ('FAILED', 'NonZeroExitCode', '7:0', 'ended', 7), ('FAILED', 'None', '0:11', 'ended', 139),
    ('FAILED', 'JobLaunchFailure', '0:53', 'ended', 4), ('TIMEOUT', 'TimeLimit', '0:15', 'ended', 143),
    ('TIMEOUT', 'TimeLimit', '0:0', 'ended', 4), ('CANCELLED', 'None', '0:0', 'ended', 4),
    ('NODE_FAIL', 'NodeDown', '0:0', 'ended', 4), ('OUT_OF_MEMORY', 'OutOfMemory', '0:125', 'ended', 253)])
def test_states_of_slurm(state, reason, code, phase, exit_code):
    found = controller(state, reason, code)
    assert (found.id, found.word, found.phase, found.exit_code) == ('8', state, phase, exit_code)
    assert found.reason == ('' if reason == 'None' else reason)


@pytest.mark.parametrize('reason, never', [('PartitionNodeLimit', True), ('BadConstraints', True), ('Resources', False),
                                           ('DependencyNeverSatisfied', True), ('Priority', False), ('JobHeldUser', False)])
def test_a_job_of_slurm_that_can_never_start(reason, never):
    assert bool(controller('PENDING', reason).never) is never


def test_an_array_of_slurm_is_told_by_its_elements():
    states = [slurm._controller(line) for line in ARRAY.splitlines()]
    assert [s.id for s in states] == ['11_0', '11_1-14%1'] and together(states) == ('running', None)


@pytest.mark.parametrize('phases, codes, told', [
    (['ended', 'ended'], [0, 3], ('ended', 3)), (['ended', 'pending'], [0, None], ('running', None)),
    (['pending'], [None], ('pending', None)), (['ended'], [None], ('ended', 4))])
def test_a_job_from_its_elements(phases, codes, told):
    assert together([State('1', phase, '', code) for phase, code in zip(phases, codes, strict=True)]) == told


def test_what_slurm_has_forgotten_is_asked_of_the_accounting(monkeypatch):
    def answer(asked, folder=None):
        if asked[0] == 'scontrol':
            raise SchedulerError('scontrol: slurm_load_jobs error: Invalid job id specified', 1)
        return '8|CANCELLED by 0|0:15|None|p[1-2]|00:01:00|2026-11-21T18:15:06|2026-11-21T18:15:16|2026-11-21T18:16:16\n'
    monkeypatch.setattr(slurm, 'answer', answer)
    state, = slurm.states('8')
    assert (state.word, state.exit_code, state.nodes, state.times) == ('CANCELLED', 143, 'p[1-2]', (10.0, 60.0))
    monkeypatch.setattr(slurm, 'answer', lambda asked, folder=None: answer(asked) if asked[0] == 'scontrol' else '')
    with pytest.raises(SchedulerError, match='Invalid job id'):
        slurm.states('8')


def test_a_scheduler_that_refuses_is_told_in_its_words_with_its_exit_code(tmp_path):
    with pytest.raises(SchedulerError) as caught:
        command.answer(['bash', '-c', 'echo "sbatch: error: invalid partition" >&2; exit 3'])
    assert caught.value.exit_code == 3 and 'invalid partition' in str(caught.value)
    with pytest.raises(SchedulerError, match='must be a machine that can submit jobs') as caught:
        command.answer(['no-such-sbatch'])
    assert caught.value.exit_code == 4


def test_a_job_is_found_by_its_id_and_no_other_is(results):
    job = sent.Sent(id='12[].server', scheduler='pbs', job='campaign', system='x', script='s', at='2026-11-21T00:00:00+00:00')
    sent.folder().mkdir()
    (sent.folder() / '12[].server.json').write_text(job.model_dump_json())
    assert sent.find('12') == sent.find('12[]') == sent.find('12[].server') == job
    with pytest.raises(UsageError, match=r"no job '1'.*12\[\]\.server"):
        sent.find('1')
    (sent.folder() / '13.json').write_text('{')
    with pytest.raises(UsageError, match=r'13\.json: is no record'):
        sent.find('12')
