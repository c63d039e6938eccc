"""How jobs stand: what Slurm prints, as it printed it, and what the scheduler refuses."""

from __future__ import annotations

import pytest

import slurm_site
from parity.base.errors import InfrastructureError, UsageError
from parity.jobs import sent, write
from parity.jobs.request import Covered, Request
from parity.jobs.write import Wanted
from parity.scheduler import command, slurm
from parity.scheduler.command import SchedulerError, State, together

#: `scontrol --oneliner show job` of Slurm 22.05, shortened behind what is read.
CONTROLLER = ('JobId=8 JobName=parity-build UserId=root(0) GroupId=root(0) JobState={} Reason={} Dependency=(null) '
              'Requeue=1 ExitCode={} RunTime=00:00:07 TimeLimit=04:00:00 Partition=physical NodeList=p1 BatchHost=p1 '
              'Command=/a folder/with NodeCnt=9 in it.sh\n')
ARRAY = ('JobId=12 ArrayJobId=11 ArrayTaskId=0 ArrayTaskThrottle=1 JobName=parity-campaign JobState=COMPLETED Reason=None '
         'ExitCode=0:0 RunTime=00:00:01 NodeList=p1\n'
         'JobId=11 ArrayJobId=11 ArrayTaskId=1-14%1 ArrayTaskThrottle=1 JobName=parity-campaign JobState=PENDING '
         'Reason=JobArrayTaskLimit ExitCode=0:0 RunTime=00:00:00 NodeList=(null)\n')
FORGOTTEN = 'Invalid job id specified'
#: sacct of such a job.
SACCT = '8|{}|{}|None|p[1-2]|00:01:00|2026-11-21T18:15:06|2026-11-21T18:15:16|2026-11-21T18:16:16\n'


@pytest.fixture
def stands(results, tmp_path, monkeypatch):
    """Campaign 8 was sent; the stand-ins for Slurm's commands say that it stands as told, and take another as 9."""
    bin = tmp_path / 'bin'
    monkeypatch.setenv('PATH', f'{bin}:/usr/bin:/bin')

    def stand(said: str, accounting: str | None = '') -> None:
        slurm_site.install(bin, {'sbatch': {'--parsable *': '9\n'}, 'scontrol': {'--oneliner show job 8': said}, 'sacct': {'-n *': accounting or ''}})
        if not said.startswith('JobId'):
            (bin / 'scontrol').write_text(f'#!/bin/sh\necho "slurm_load_jobs error: {said}" >&2\nexit 1\n')
        if accounting is None:
            (bin / 'sacct').write_text('#!/bin/sh\necho "sacct: error: Slurm accounting storage is disabled" >&2\nexit 1\n')
    sent.folder().mkdir()
    record('8', scheduler='slurm', covered=covered())
    return stand


def record(name: str, **other) -> sent.Sent:
    job = sent.Sent(**{'id': name, 'job': 'campaign', 'system': 'onebox', 'script': 's', 'at': '2026-11-21T00:00:00+00:00', **other})
    (sent.folder() / f'{name}.json').write_text(job.model_dump_json())
    return job


@pytest.mark.parametrize('state, reason, code, phase, exit_code', [
    ('PENDING', 'Resources', '0:0', 'pending', None), ('RUNNING', 'None', '0:0', 'running', None),
    ('COMPLETING', 'None', '0:0', 'running', None), ('COMPLETED', 'None', '0:0', 'ended', 0),
    ('FAILED', 'NonZeroExitCode', '7:0', 'ended', 7), ('FAILED', 'None', '0:11', 'ended', 139),
    ('FAILED', 'JobLaunchFailure', '0:53', 'ended', 4), ('TIMEOUT', 'TimeLimit', '0:15', 'ended', 143),
    ('TIMEOUT', 'TimeLimit', '0:0', 'ended', 4), ('CANCELLED', 'None', '0:0', 'ended', 4),
    ('NODE_FAIL', 'NodeDown', '0:0', 'ended', 4), ('OUT_OF_MEMORY', 'OutOfMemory', '0:125', 'ended', 253),
    *(('PENDING', reason, '0:0', 'pending', None) for reason in ('PartitionNodeLimit', 'BadConstraints', 'DependencyNeverSatisfied',
                                                                 'Priority', 'JobHeldUser'))])
def test_states_of_slurm(stands, state, reason, code, phase, exit_code):
    stands(CONTROLLER.format(state, reason, code))
    found, = slurm.states('8')
    assert (found.id, found.word, found.phase, found.exit_code) == ('8', state, phase, exit_code)
    assert found.reason == ('' if reason == 'None' else reason)
    assert bool(found.never) is (reason in ('PartitionNodeLimit', 'BadConstraints', 'DependencyNeverSatisfied'))


def test_an_array_of_slurm_is_told_by_its_elements(stands):
    stands(ARRAY)
    states = slurm.states('8')
    assert [s.id for s in states] == ['11_0', '11_1-14%1'] and together(states) == ('running', None)


@pytest.mark.parametrize('phases, codes, told', [
    (['ended', 'ended'], [0, 3], ('ended', 3)), (['ended', 'pending'], [0, None], ('running', None)),
    (['pending'], [None], ('pending', None)), (['ended'], [None], ('ended', 4))])
def test_a_job_from_its_elements(phases, codes, told):
    assert together([State('1', phase, '', code) for phase, code in zip(phases, codes, strict=True)]) == told


def test_what_slurm_has_forgotten_is_asked_of_the_accounting(stands):
    stands(FORGOTTEN, SACCT.format('CANCELLED by 0', '0:15'))
    state, = slurm.states('8')
    assert (state.word, state.exit_code, state.nodes, state.times) == ('CANCELLED', 143, 'p[1-2]', (10.0, 60.0))
    stands(FORGOTTEN)
    with pytest.raises(SchedulerError, match='Invalid job id'):
        slurm.states('8')


def test_a_scheduler_that_refuses_is_told_in_its_words_with_its_exit_code_and_no_script_stays(stands, tmp_path):
    stands('')
    (tmp_path / 'bin' / 'sbatch').write_text('#!/bin/sh\necho "sbatch: error: invalid partition" >&2\nexit 3\n')
    with pytest.raises(SchedulerError, match='sbatch: error: invalid partition') as caught:
        submit(check='Hpl')
    assert caught.value.exit_code == 3 and sorted(file.name for file in sent.folder().iterdir()) == ['.submit.lock', '8.json']
    with pytest.raises(SchedulerError, match='run this on a machine that can submit jobs') as caught:
        command.answer(['no-such-sbatch'])
    assert caught.value.exit_code == 4


def test_a_job_is_found_by_its_id_and_no_other_is(results):
    sent.folder().mkdir()
    job = record('12[].server', scheduler='pbs')
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


def submit(after: str = '', **other) -> sent.Sent:
    asked = Request('parity-campaign', 'slurm', 60, after=after, covered=covered(**other))
    return sent.submit('campaign', 'onebox', asked, '#!/bin/bash\n')


@pytest.mark.parametrize('said, phase', [(CONTROLLER.format('RUNNING', 'None', '0:0'), 'running'), (CONTROLLER.format('PENDING', 'None', '0:0'), 'pending'),
                                         (ARRAY, 'running')])
def test_a_second_campaign_is_refused_with_the_first_ones_id(stands, said, phase):
    stands(said)
    with pytest.raises(UsageError, match=REFUSED.format(phase)):
        submit()
    assert [s.id for s in sent.everything()] == ['8']
    assert submit(after='8').id == submit(nodes=[4]).id == '9'
    record('8', scheduler='slurm')      # an older parity named no cases: it may be any of the system
    with pytest.raises(UsageError, match=REFUSED.format(phase)):
        submit(check='Hpl')


@pytest.mark.parametrize('said, accounting', [
    (CONTROLLER.format('COMPLETED', 'None', '0:0'), ''), (CONTROLLER.format('CANCELLED', 'None', '0:0'), ''),
    (FORGOTTEN, SACCT.format('FAILED', '1:0')), (FORGOTTEN, ''), (FORGOTTEN, None)])
def test_a_campaign_that_has_ended_or_is_forgotten_is_in_nobodys_way(stands, said, accounting):
    stands(said, accounting)
    assert submit().id == '9' and [s.id for s in sent.everything()] == ['8', '9']


@pytest.mark.parametrize('accounting', ['', None])
def test_a_campaign_that_cannot_be_asked_for_is_no_silent_yes(stands, accounting):
    stands('Unable to contact slurm controller (connect failure)', accounting)
    with pytest.raises(InfrastructureError, match='campaign 8 measures the same.*whether it has ended is not known'):
        submit()
    assert len(sent.everything()) == 1


@pytest.mark.parametrize('one, other, overlaps', [
    ({}, {}, True), ({}, {'check': ''}, True), ({}, {'partitions': ['virtual', 'physical']}, True), ({}, {'nodes': [2, 4]}, True),
    ({}, {'check': r'FileCopy%mode=small\-write$'}, True), ({}, {'check': 'File'}, True), ({}, {'partitions': ['virtual']}, False),
    ({}, {'nodes': [4]}, False), ({}, {'check': 'Hpl'}, False), ({}, {'name': 'again'}, False), ({'check': ''}, {'check': ''}, True),
    ({'check': 'Osu%size=1(%|$)'}, {'check': 'Osu%size=16(%|$)'}, False), ({'check': r'Osu\.x%size=1(%|$)'}, {'check': r'Osu\.x%size=1(%|$)'}, True)])
def test_what_is_the_same_campaign(one, other, overlaps):
    assert covered(**one).overlaps(covered(**other)) is covered(**other).overlaps(covered(**one)) is overlaps


@pytest.mark.parametrize('check, pattern', [('filecopy', 'FileCopy'), ('npb %benchmark=BT', r'Npb%benchmark=bt(%|$)')])
def test_a_campaign_says_what_it_measures(planned, monkeypatch, check, pattern):
    monkeypatch.setattr('parity.plan.of_command', lambda arguments: planned('example-slurm'))
    asked, text = write.script(Wanted('campaign', 'example-slurm', ['gpu', 'cpu'], check, nodes=[4, 1]))
    assert asked.covered == covered(partitions=['cpu', 'gpu'], nodes=[1, 4], check=pattern) and pattern in text
