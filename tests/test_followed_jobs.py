"""How jobs stand: what Slurm and PBS print, as they printed it, and what the scheduler refuses."""

from __future__ import annotations

import json

import pytest

import slurm_site
from parity.base.errors import InfrastructureError, UsageError
from parity.jobs import sent, write
from parity.jobs.request import Covered, Request
from parity.jobs.write import Wanted
from parity.scheduler import command, slurm
from parity.scheduler.command import SchedulerError, State, together

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


# ---- a second campaign

REFUSED = 'measures the same on onebox, and is {}: wait for it .parity jobs wait 8.*parity jobs cancel 8'


def covered(partitions=('physical',), nodes=(1, 2), check='FileCopy', name='') -> Covered:
    return Covered(name=name, partitions=partitions, nodes=nodes, check=check)


def submit(number: str = '9', after: str = '', **other) -> sent.Sent:
    asked = Request('parity-campaign', 'slurm', 60, after=after, covered=covered(**other))
    return sent.submit('campaign', 'onebox', asked, '#!/bin/bash\n')


@pytest.fixture
def stands(results, tmp_path, monkeypatch):
    """Campaign 8 was sent; the stand-ins for Slurm's commands say that it stands as told, and take another as 9."""
    bin = tmp_path / 'bin'
    monkeypatch.setenv('PATH', f'{bin}:/usr/bin:/bin')

    def stand(said: str, accounting: str | None = '') -> None:
        slurm_site.install(bin, {'sbatch': {'--parsable *': '9\n'}, 'scontrol': {'--oneliner show job 8': said},
                                 'sacct': {'-n *': accounting or ''}})
        if not said.startswith('JobId'):
            (bin / 'scontrol').write_text(f'#!/bin/sh\necho "slurm_load_jobs error: {said}" >&2\nexit 1\n')
        if accounting is None:
            (bin / 'sacct').write_text('#!/bin/sh\necho "sacct: error: Slurm accounting storage is disabled" >&2\nexit 1\n')
    job = sent.Sent(id='8', scheduler='slurm', job='campaign', system='onebox', script='s', at='2026-11-21T00:00:00+00:00',
                    covered=covered())
    sent.folder().mkdir()
    (sent.folder() / '8.json').write_text(job.model_dump_json())
    return stand


def told(state: str) -> str:
    return CONTROLLER.format(state=state, reason='None', code='0:0', nodes='p1') + '\n'


@pytest.mark.parametrize('said, phase', [(told('RUNNING'), 'running'), (told('PENDING'), 'pending'), (ARRAY, 'running')])
def test_a_second_campaign_is_refused_with_the_first_ones_id(stands, said, phase):
    stands(said)
    with pytest.raises(UsageError, match=REFUSED.format(phase)) as caught:
        submit()
    assert caught.value.exit_code == 2 and [s.id for s in sent.everything()] == ['8']
    assert not list(sent.folder().glob('*.sh')), 'no script of a job that was not sent stays'


@pytest.mark.parametrize('said, accounting', [
    (told('COMPLETED'), ''), (told('CANCELLED'), ''), ('Invalid job id specified', '8|FAILED|1:0|None|p1|00:01:00|2026-11-21T18:15:06|2026-11-21T18:15:16|2026-11-21T18:16:16'),
    ('Invalid job id specified', ''), ('Invalid job id specified', None)])
def test_a_campaign_that_has_ended_or_is_forgotten_is_in_nobodys_way(stands, said, accounting):
    stands(said, accounting)
    assert submit().id == '9' and [s.id for s in sent.everything()] == ['8', '9']


@pytest.mark.parametrize('accounting', ['', None])
def test_a_campaign_that_cannot_be_asked_for_is_no_silent_yes(stands, accounting):
    stands('Unable to contact slurm controller (connect failure)', accounting)
    with pytest.raises(InfrastructureError, match='campaign 8 measures the same.*whether it has ended is not known'):
        submit()
    assert len(sent.everything()) == 1


@pytest.mark.parametrize('other, overlaps', [
    ({}, True), ({'check': ''}, True), ({'partitions': ['virtual', 'physical']}, True), ({'nodes': [2, 4]}, True),
    ({'check': r'FileCopy%mode=small\-write$'}, True), ({'check': 'File'}, True),
    ({'partitions': ['virtual']}, False), ({'nodes': [4]}, False), ({'check': 'Hpl'}, False), ({'name': 'again'}, False),
    ({'after': '8'}, False)])
def test_what_is_the_same_campaign(stands, other, overlaps):
    stands(told('RUNNING'))
    if overlaps:
        with pytest.raises(UsageError, match=REFUSED.format('running')):
            submit(**other)
    else:
        stands(told('RUNNING'))
        assert submit(**other).id == '9'


def test_two_cases_of_one_check_are_two_campaigns():
    assert not covered(check='Osu%size=1(%|$)').overlaps(covered(check='Osu%size=16(%|$)'))
    assert covered(check=r'Osu\.x%size=1(%|$)').overlaps(covered(check=r'Osu\.x%size=1(%|$)'))
    assert covered(check='').overlaps(covered(check='')) and covered(check='Tcp').overlaps(covered(check='TcpPairs'))


def test_a_campaign_that_names_no_cases_may_be_any_of_the_system(stands):
    stands(told('RUNNING'))
    (sent.folder() / '8.json').write_text(json.dumps({**json.loads((sent.folder() / '8.json').read_text()), 'covered': None}))
    with pytest.raises(UsageError, match=REFUSED.format('running')):
        submit(check='Hpl')


def test_a_campaign_says_what_it_measures(planned, monkeypatch):
    monkeypatch.setattr('parity.plan.of_command', lambda arguments: planned('example-slurm'))
    asked, _ = write.script(Wanted('campaign', 'example-slurm', ['gpu', 'cpu'], 'filecopy', nodes=[4, 1]))
    assert asked.covered == Covered(name='', partitions=['cpu', 'gpu'], nodes=[1, 4], check='FileCopy')
