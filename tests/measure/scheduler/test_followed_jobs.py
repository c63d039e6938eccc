"""How jobs of Slurm and PBS stand: what the real ones printed in each situation, and what they refused."""

from __future__ import annotations

import re

import pytest

import pbs_server
import slurm_site
from parity.base.errors import InfrastructureError, UsageError
from parity.measure.jobs import sent
from parity.measure.jobs.request import Request
from parity.measure.scheduler import command, pbs, slurm
from parity.measure.scheduler.command import Forgotten, SchedulerError, job_phase
from pbs_server import COMMANDS, RECORDED, printed

#: `scontrol --oneliner show job` of Slurm 22.05, shortened behind what is read.
CONTROLLER = ('JobId=8 JobName=parity-build UserId=root(0) GroupId=root(0) JobState={} Reason={} Dependency=(null) '
              'Requeue=1 ExitCode={} RunTime=00:00:07 TimeLimit=04:00:00 Partition=physical NodeList=p1 BatchHost=p1 '
              'Command=/a folder/with NodeCnt=9 in it.sh\n')
ARRAY = ('JobId=12 ArrayJobId=11 ArrayTaskId=0 ArrayTaskThrottle=1 JobName=parity-campaign UserId=root(0) JobState=COMPLETED Reason=None '
         'ExitCode=0:0 RunTime=00:00:01 NodeList=p1\n'
         'JobId=11 ArrayJobId=11 ArrayTaskId=1-14%1 ArrayTaskThrottle=1 JobName=parity-campaign UserId=root(0) JobState=PENDING '
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
    record('8', scheduler='slurm')
    return stand


def record(name: str, **other) -> sent.Sent:
    job = sent.Sent(**{'id': name, 'job': 'campaign', 'system': 'onebox', 'script': 's', 'at': '2026-11-21T00:00:00+00:00', **other})
    (sent.folder() / f'{name}.json').write_text(job.model_dump_json()[:-1] + ', "covered": null}')      # a key of older versions
    return job


@pytest.mark.parametrize('state, reason, code, phase, exit_code', [
    ('PENDING', 'Resources', '0:0', 'pending', None), ('RUNNING', 'None', '0:0', 'running', None),
    ('COMPLETING', 'None', '0:0', 'running', None), ('COMPLETED', 'None', '0:0', 'ended', 0),
    ('FAILED', 'NonZeroExitCode', '7:0', 'ended', 7), ('FAILED', 'None', '0:11', 'ended', 139),
    ('FAILED', 'JobLaunchFailure', '0:53', 'ended', 4), ('FAILED', 'NonZeroExitCode', '128:0', 'ended', 128),
    # the controller says 139, the accounting before Slurm 25.11 says 11, and no longer says which it was
    ('FAILED', 'NonZeroExitCode', '139:0', 'ended', 11), ('FAILED', 'NonZeroExitCode', '11:0', 'ended', 11),
    # what Slurm ended has one code: while the controller knows it, later, and in Slurm 24.05, whose NODE_FAIL has 1:0
    *((word, 'None', code, 'ended', 4) for word in ('TIMEOUT', 'CANCELLED', 'PREEMPTED', 'REVOKED', 'NODE_FAIL', 'OUT_OF_MEMORY', 'DEADLINE', 'BOOT_FAIL')
      for code in ('0:15', '0:0', '0:125', '1:0')),
    ('EXPEDITING', 'None', '0:0', 'pending', None), ('HIBERNATING', 'None', '0:0', 'running', None),
    *(('PENDING', reason, '0:0', 'pending', None) for reason in ('PartitionNodeLimit', 'BadConstraints', 'DependencyNeverSatisfied',
                                                                 'Priority', 'JobHeldUser'))])
def test_states_of_slurm(stands, state, reason, code, phase, exit_code):
    stands(CONTROLLER.format(state, reason, code))
    found, = slurm.states('8')
    assert (found.id, found.word, found.phase, found.exit_code) == ('8', state, phase, exit_code)
    assert found.reason == ('' if reason == 'None' else 'its folder, or that of its output, is not on the node' if code == '0:53' else reason)
    assert bool(found.never) is (reason in ('PartitionNodeLimit', 'BadConstraints', 'DependencyNeverSatisfied'))


#: By the name of a recorded job: its word, its exit code, and its reason while the controller knows it.
SITE = {
    'exit139': ('FAILED', 11, 'NonZeroExitCode'), 'exit11': ('FAILED', 11, 'NonZeroExitCode'), 'segv': ('FAILED', 139, '.*'),
    'exit7': ('FAILED', 7, 'NonZeroExitCode'), 'nofolder': ('FAILED', 4, 'its folder, or that of its output, is not on the node'),
    'trick': ('FAILED', 3, 'NonZeroExitCode'), 'user-cancels': ('CANCELLED', 4, '(p1 is idle.*)?'), 'admin-cancels': ('CANCELLED', 4, 'by root'),
    'user-cancels-queued': ('CANCELLED', 4, 'JobHeldUser'), 'admin-cancels-queued': ('CANCELLED', 4, 'JobHeldUser; by root'),
    'preempted': ('PREEMPTED', 4, ''), 'cloud-never': ('NODE_FAIL', 4, 'NodeDown; nid000003 is down.*: ResumeTimeout reached'),
    'prolog': ('CANCELLED', 4, 'by root; p1 is idle[+]drain: Prolog error'),
    'partition-config': ('PENDING', None, "PartitionConfig|Job's_account_not_permitted.*"), 'noqos': ('PENDING', None, "Job's_QOS_not_permitted.*")}
NODES = {'p1': 'IDLE+DRAIN ThreadsPerCore=1 Reason=Prolog error [root@2026-11-26T20:38:17]',
         'nid000003': 'DOWN+CLOUD+POWERED_DOWN ThreadsPerCore=1 Reason=ResumeTimeout reached [root@2026-11-26T20:32:49]'}


@pytest.mark.parametrize('version', ['22.05', '26.05'])
@pytest.mark.parametrize('name', SITE)
def test_a_job_has_one_answer_at_every_age_and_of_every_version(tmp_path, monkeypatch, version, name):
    """What real Slurms said of the same jobs; the user is daemon."""
    told = (slurm_site.RECORDED / f'jobs-{version}.txt').read_text().partition(f'== {name}\n')[2].split('\n')[:2]
    nodes = {f'-a --oneliner show node {node}': f'NodeName={node} State={state}\n' for node, state in NODES.items()}
    monkeypatch.setattr(slurm.os, 'getuid', lambda: 1)
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
    word, code, reason = SITE[name]
    for known in (True, False) if word != 'PENDING' else (True,):
        slurm_site.install(tmp_path, {'scontrol': {'--oneliner show job 8': told[0], **nodes} if known else nodes,
                                      'sacct': {'-n -P -X *': told[1], '-n -X -P -o State *': told[1].split('|')[1]}})
        if not known:
            stub = tmp_path / 'scontrol'
            stub.write_text(stub.read_text().replace('unknown question: $*', 'Invalid job id specified'))
        state, = slurm.states('8')
        assert (state.word, state.exit_code) == (word, code)
        assert not known or re.fullmatch(reason, state.reason), state.reason
        assert bool(state.never) is (word == 'PENDING')


def test_a_command_of_several_lines_is_text_of_its_job(tmp_path, monkeypatch):
    """Slurm 25.11 and later print it as the user wrote it."""
    line = (slurm_site.RECORDED / 'jobs-26.05.txt').read_text().partition('== exit7\n')[2].splitlines()[0]
    told = line.replace('--wrap exit 7', '--wrap sleep 1\nJobState=COMPLETED UserId=root\n\nexit 7')
    assert told != line
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
    slurm_site.install(tmp_path, {'scontrol': {'--oneliner show job 8': told}})
    state, = slurm.states('8')
    assert (state.id, state.word, state.exit_code) == ('5', 'FAILED', 7)


def test_an_array_of_slurm_is_told_by_its_elements(stands):
    stands(ARRAY)
    states = slurm.states('8')
    assert [s.id for s in states] == ['11_0', '11_1-14%1'] and job_phase(states) == ('running', None)


def test_what_slurm_has_forgotten_is_asked_of_the_accounting(stands):
    stands(FORGOTTEN, SACCT.format('CANCELLED by 0', '0:15'))
    state, = slurm.states('8')
    assert (state.word, state.exit_code, state.nodes, state.times) == ('CANCELLED', 4, 'p[1-2]', (10.0, 60.0))
    stands(FORGOTTEN)
    with pytest.raises(SchedulerError, match='Invalid job id'):
        slurm.states('8')


def test_a_scheduler_that_refuses_is_told_in_its_words_with_its_exit_code_and_no_script_stays(stands, tmp_path):
    stands('')
    (tmp_path / 'bin' / 'sbatch').write_text('#!/bin/sh\necho "sbatch: error: invalid partition" >&2\nexit 3\n')
    with pytest.raises(SchedulerError, match='sbatch: error: invalid partition') as caught:
        submit(name='again')
    assert caught.value.exit_code == 3 and sorted(file.name for file in sent.folder().iterdir()) == ['.submit.lock', '8.json']
    with pytest.raises(SchedulerError, match='run this on a machine that can submit jobs') as caught:
        command.answer(['no-such-sbatch'])
    assert caught.value.exit_code == 4


def test_a_folder_of_path_that_may_not_be_entered_is_no_error_and_a_silent_command_is_quoted(tmp_path, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(13, 'Permission denied')
    with monkeypatch.context() as patch, pytest.raises(SchedulerError, match='no-such-sbatch is not on PATH'):
        patch.setattr(command.subprocess, 'run', closed)
        command.answer(['no-such-sbatch'])
    with pytest.raises(SchedulerError, match='did not answer within 1 s: queue full, sleeping'):
        command.run(['sh', '-c', 'echo queue full, sleeping >&2; exec sleep 20'], seconds=1)


@pytest.mark.parametrize('printed, name', [
    ('9\n', '9'), ('9;taurus\n', '9;taurus'), ('*** Maintenance on 24 December, 8:00 ***\n 2026\nWelcome\n\n13\n', '13'),
    ('9\nThis job costs 12 core hours; 3 are left.\n', '9')])
def test_a_wrapper_of_sbatch_may_print_more_than_the_id(stands, tmp_path, printed, name):
    stands('')
    slurm_site.install(tmp_path / 'bin', {'sbatch': {'--parsable *': printed}})
    assert submit(name='again').id == name and sent.find(name.partition(';')[0]).id == name


def test_a_wrapper_of_sbatch_that_prints_no_id_is_quoted(stands, tmp_path):
    stands('')
    slurm_site.install(tmp_path / 'bin', {'sbatch': {'--parsable *': 'Welcome to 2 clusters\n'}})
    with pytest.raises(SchedulerError, match='sbatch printed no id of a job: Welcome to 2 clusters'):
        submit(name='again')


def test_a_job_of_another_cluster_is_asked_of_that_cluster(stands, tmp_path):
    stands('')
    fields = 'JobID,State,ExitCode,Reason,NodeList,Elapsed,Submit,Start,End'
    slurm_site.install(tmp_path / 'bin', {'scontrol': {'-M taurus --oneliner show job 8': CONTROLLER.format('RUNNING', 'None', '0:0')},
                                          'scancel': {'-M taurus 8': ''}, 'sacct': {f'-M taurus -n -P -X -o {fields} -j 9': SACCT.format('TIMEOUT', '0:0')}})
    job = record('8;taurus', scheduler='slurm')
    assert job.states()[0].word == 'RUNNING' and slurm.states('9;taurus')[0].word == 'TIMEOUT'
    job.cancel()


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

REFUSED = 'campaign 8 measures onebox, and is {}: wait for it .parity jobs wait 8.*parity jobs cancel 8'


def submit(after: str = '', name: str = '', system: str = 'onebox') -> sent.Sent:
    return sent.submit('campaign', system, Request(name='parity-campaign', scheduler='slurm', after=after, campaign=name), '#!/bin/bash\n')


@pytest.mark.parametrize('said, phase', [(CONTROLLER.format('RUNNING', 'None', '0:0'), 'running'), (CONTROLLER.format('PENDING', 'None', '0:0'), 'pending'),
                                         (ARRAY, 'running')])
def test_a_second_campaign_is_refused_with_the_first_ones_id(stands, said, phase):
    stands(said)
    with pytest.raises(UsageError, match=REFUSED.format(phase)):
        submit()
    assert [s.id for s in sent.everything()] == ['8']
    assert submit(after='8').id == submit(name='again').id == submit(system='local').id == '9'
    with pytest.raises(UsageError, match=REFUSED.format(phase)):
        submit()


@pytest.mark.parametrize('said, accounting', [
    (CONTROLLER.format('COMPLETED', 'None', '0:0'), ''), (CONTROLLER.format('CANCELLED', 'None', '0:0'), ''),
    (FORGOTTEN, SACCT.format('FAILED', '1:0')), (FORGOTTEN, ''), (FORGOTTEN, None)])
def test_a_campaign_that_has_ended_or_is_forgotten_is_in_nobodys_way(stands, said, accounting):
    stands(said, accounting)
    assert submit().id == '9' and [s.id for s in sent.everything()] == ['8', '9']


@pytest.mark.parametrize('accounting', ['', None])
def test_a_campaign_that_cannot_be_asked_for_is_no_silent_yes(stands, accounting):
    stands('Unable to contact slurm controller (connect failure)', accounting)
    with pytest.raises(InfrastructureError, match='campaign 8 measures onebox, and may not have ended'):
        submit()
    assert len(sent.everything()) == 1


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@pytest.mark.parametrize('name, word, phase, exit_code, reason, nodes', [
    ('queued', 'Q', 'pending', None, 'Not Running: Not enough free nodes available', ''),
    ('held', 'H', 'pending', None, 'held by its user', ''),
    ('never', 'Q', 'pending', None, 'Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 2 T: 2)', ''),
    ('running', 'R', 'running', None, 'Job run at', 'pbs1/0+pbs2/0'),
    ('exit7', 'F', 'ended', 7, 'and failed', 'pbs1/0'),
    ('segv', 'F', 'ended', 139, 'and failed', 'pbs2/0'),
    ('over-walltime', 'F', 'ended', 4, 'exceeded resource walltime', 'pbs1/0'),
    ('deleted-while-running', 'F', 'ended', 143, 'terminated by user@pbshead', 'pbs1/0'),
    ('deleted-while-queued', 'F', 'ended', 4, 'deleted before it ran; Not Running: Not enough free nodes', ''),
    ('routing', 'Q', 'pending', None, 'in the routing queue route: none of its queues takes it', ''),
    ('held-by-hook', 'H', 'pending', None, 'held by PBS: job held, too many failed attempts to run', ''),
    ('refused-by-hook', 'Q', 'pending', None, 'Not Running: PBS Error: the licence server is down', ''),
    ('over-cut-walltime', 'F', 'ended', 4, 'exceeded resource walltime', 'pbs1/0'),
    ('reservation', 'Q', 'pending', None, 'Not Running: Queue not started.', ''),
    ('reservation-ended', 'F', 'ended', 4, 'deleted before it ran; R35 is a reservation, and ends its jobs', ''),
    ('after-failed', 'F', 'ended', 4, 'deleted before it ran; waits for afterok:5.pbshead@pbshead', ''),
    # its folder and a variable hold what looks like the next job
    ('backslash', 'F', 'ended', 0, 'and finished', 'pbs2/0'),
])
def test_how_a_job_stands(server, name, word, phase, exit_code, reason, nodes):
    server('qstat', {'-x -t -f -w': printed(name)})
    state, = pbs.states('1')
    assert (state.word, state.phase, state.exit_code, state.nodes) == (word, phase, exit_code, nodes)
    assert reason in state.reason and bool(state.never) is (name == 'never')


@pytest.mark.parametrize('name, words, codes, whole', [
    ('array-running', 'XRQQ', [0, None, None, None], ('running', None)),
    ('array-ended', 'FFFF', [0, 1, 2, 3], ('ended', 3)),
    ('array-element-deleted', 'RQXQ', [None, None, 4, None], ('running', None)),
    # PBS prints the deleted element with the exit code of another one: it is not its own
    ('array-element-deleted-ended', 'FFFF', [0, 0, 4, 0], ('ended', 4)),
    ('array-deleted', 'FFFF', [4, 143, 4, 4], ('ended', 143)),
])
def test_how_an_array_stands(server, name, words, codes, whole):
    server('qstat', {'-x -t -f -w': printed(name)})
    states = pbs.states('1')
    assert ''.join(s.word for s in states) == words
    assert [s.exit_code for s in states] == codes and job_phase(states) == whole
    assert [s.id.partition('[')[2] for s in states] == [f'{i}].pbshead' for i in range(4)]
    assert all('not known' in s.reason for s in states if s.exit_code == 4)


def test_a_job_deleted_while_it_ran_is_not_well_whatever_its_exit_code():
    text = (RECORDED / 'deleted-while-running.txt').read_text().replace('Exit_status = 271', 'Exit_status = 0')
    assert pbs.read(text)[0].exit_code == 4         # seen where root deleted it


def test_a_server_without_history_tells_of_jobs_that_run_and_says_what_it_lacks(server):
    server('qstat', {'-x -t -f -w': COMMANDS['nohistory-x-running'], '-t -f -w': printed('running')})
    assert pbs.states('24.pbshead')[0].word == 'R'
    server('qstat', {'-x -t -f -w': COMMANDS['nohistory-x-ended'], '-t -f -w': COMMANDS['nohistory-ended']})
    with pytest.raises(SchedulerError, match='Unknown Job Id.*job_history_enable = True') as caught:
        pbs.states('24.pbshead')
    assert caught.value.exit_code == 153


@pytest.mark.parametrize('said, told, kind', [
    ('qstat-unknown', 'Unknown Job Id 99999', Forgotten), ('qstat-refused-by-route', 'a routing queue deletes a job that none', Forgotten), ('server-down', 'cannot connect to server', SchedulerError)])
def test_a_job_that_is_forgotten_is_told_from_a_server_that_is_down(server, said, told, kind):
    server('qstat', {'-x -t -f -w': COMMANDS[said]})
    with pytest.raises(SchedulerError, match=told) as caught:
        pbs.states('99999')
    assert type(caught.value) is kind and 'history' not in str(caught.value) and caught.value.exit_code == COMMANDS[said]['exit_code']


@pytest.mark.parametrize('name', [n for n in COMMANDS if n.startswith('qsub')])
def test_what_qsub_answers(server, tmp_path, name):
    server('qsub', {'t.sh': COMMANDS[name]})
    if not COMMANDS[name]['exit_code']:
        assert pbs.submit(tmp_path / 't.sh') == COMMANDS[name]['stdout'].strip()
        return
    with pytest.raises(SchedulerError) as caught:
        pbs.submit(tmp_path / 't.sh')
    assert caught.value.exit_code == COMMANDS[name]['exit_code'] and COMMANDS[name]['stderr'].split()[-1] in str(caught.value)
