"""ReFrame's backend for PBS with what parity adds: nodes, jobs that never start, jobs that end from outside."""

from __future__ import annotations

import os
import re
import time
from types import SimpleNamespace as Made

import pytest
from reframe.core.exceptions import JobError

import pbs_server
from conftest import shell
from parity.rfm import queues
from parity.scheduler import command, pbs, scheduled
from parity.scheduler.pbs import PbsNode
from pbs_server import COMMANDS, RECORDED


def printed(name) -> dict:
    """The answer of a command that prints a recorded file."""
    return {'stdout': (RECORDED / f'{name}.txt').read_bytes() if name else b'', 'stderr': '', 'exit_code': 0}


class Job(Made):
    """The part of ReFrame's job that the backend reads and writes."""

    completed = property(lambda self: self._completed)


@pytest.fixture
def server(tmp_path, monkeypatch):
    return pbs_server.at(tmp_path, monkeypatch)


@pytest.fixture
def poll(server, tmp_path, monkeypatch):
    """Ask once how a job stands whose situation was recorded; returns the job, and the cancelled ids."""
    scheduler = object.__new__(queues.Pbs)
    scheduler.log = lambda *_: None
    gone = []
    monkeypatch.setattr(queues.Pbs, 'cancel', lambda self, job: gone.append(job.jobid))

    def once(name, *, waited=0.0, outputs=True, answers=None, job=None, **more):
        number = printed(name)['stdout'].split(b'\n')[0].removeprefix(b'Job Id: ').decode() or '1.pbshead'
        server('qstat', answers or {'-x -f -w': printed(name)})
        job = job or Job(**{'jobid': number, '_completed': False, '_state': None, '_exitcode': None, 'nodelist': [],
                            '_exception': None, 'cancelled': False, 'submit_time': time.time() - waited, 'workdir': str(tmp_path),
                            'stdout': 'rfm_job.out', 'stderr': 'rfm_job.err', 'max_pending_time': 600, 'times': {}, **more})
        for file in (job.stdout, job.stderr) if outputs else ():
            (tmp_path / file).touch()
        scheduler.poll(None, job)
        return job, gone
    return once


@pytest.mark.parametrize('name, exit_code, times, said', [
    ('ended0', 0, (10.0, 0.0), ''), ('exit7', 7, None, ''), ('segv', 139, None, ''),
    ('over-walltime', -29, (0.0, 10.0), 'time limit reached, 3 s (job {} on {}: Exit_status -29)'),
    ('deleted-while-queued', None, (0.0, 0.0), ''), ('deleted-while-running', 271, (0.0, 3.0), 'cancelled (job {} on {}: Job run at')])
def test_an_ended_job(poll, name, exit_code, times, said):
    job, gone = poll(name, waited=99.0)
    assert job.completed and not job._exception and not gone and job._state == 'COMPLETED' and job._exitcode == exit_code
    if times:
        assert job.times == {'submitted': job.submit_time, 'waited': times[0], 'ran': times[1]}
    if name != 'deleted-while-queued':
        job.nodelist, job.time_limit, job.state = job._nodelist, 3.0, job._state
        told = scheduled.ended(job)
        assert job.nodelist and told.startswith(said.format(job.jobid, ', '.join(job.nodelist))) and bool(said) == bool(told)


def test_without_a_history_the_files_of_the_job_tell_how_long_it_ran(poll, tmp_path):
    for name, at in (('node.txt', 1040.0), ('rfm_job.out', 1090.0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    answers = {'-x -f -w': COMMANDS['nohistory-x-ended'], '-f -w': COMMANDS['nohistory-ended']}
    job, _ = poll('', answers=answers, outputs=False, submit_time=1000.0)
    assert not job.completed
    (tmp_path / 'rfm_job.err').touch()
    job, _ = poll('', answers=answers, outputs=False, job=job)
    assert job.times == {'submitted': 1000.0, 'waited': 40.0, 'ran': 50.0}
    assert job.completed and job._exitcode is None and not job._exception
    job, _ = poll('running', answers={**answers, '-f -w': printed('running')}, outputs=False)
    assert job._state == 'RUNNING' and not job.completed


@pytest.mark.parametrize('name, waited, said', [
    ('queued', 601, 'maximum pending time exceeded; Not Running: '), ('held', 601, 'maximum pending time exceeded; held by its user'),
    ('never', 61, 'can never run; Can Never Run: Insufficient amount of resource'), ('never', 59, ''), ('queued', 599, ''), ('running', 601, '')])
def test_a_job_that_never_starts_is_cancelled_with_the_reason(poll, name, waited, said):
    job, gone = poll(name, waited=waited, outputs=False)
    assert job.completed == bool(said) == bool(gone)
    assert job._state == {'running': 'RUNNING', 'held': 'HELD'}.get(name, 'QUEUED')
    assert len(getattr(job, '_nodelist', ())) == (2 if name == 'running' else 0)
    if said:
        assert isinstance(job._exception, JobError) and said in str(job._exception)
        assert job.times['ran'] == 0.0 and job.times['waited'] >= waited


def test_output_that_does_not_come_is_not_waited_for_for_ever(poll):
    job, _ = poll('ended0', outputs=False)
    assert not job.completed, 'a file system may show it later'
    job.ended_at -= queues.OUTPUT_WAIT + 1
    job, _ = poll('ended0', outputs=False, job=job)
    assert job.completed and 'its output did not come' in str(job._exception)
    job, _ = poll('deleted-while-queued', outputs=False)
    assert job.completed and 'deleted before it ran' in str(job._exception)


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
    assert comes_back or 'a node failed: pbs1 is down (communication closed)' in str(job._exception) and job.times['ran'] >= 0.0


@pytest.mark.parametrize('answer, asked', [('qdel-node-down', ['15.pbshead', '-W force 15.pbshead']), ('qdel-ended', ['15.pbshead']),
                                           ('server-down', ['15.pbshead'])])
def test_a_job_is_cancelled_by_force_where_its_node_does_not_answer(tmp_path, monkeypatch, answer, asked):
    said = COMMANDS[answer]
    (tmp_path / 'qdel').write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\necho {said["stderr"]!r} >&2\nexit {said["exit_code"]}\n')
    (tmp_path / 'qdel').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    job = Job(jobid='15.pbshead', _cancelled=False, submit_time=time.time())
    object.__new__(queues.Pbs).cancel(job)
    assert (tmp_path / 'asked').read_text().splitlines() == asked and job._cancelled


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
       PbsNode('c', frozenset({'offline', 'down'}), '', {'ncpus': '4', 'mem': '2gb', 'ngpus': '2'}),
       PbsNode('d', frozenset({'free'}), 'gpuq', {'ncpus': '4', 'mem': '2gb', 'ngpus': '4'})]


@pytest.mark.parametrize('queue, wanted, names', [
    ('', {}, 'abc'), ('workq', {}, 'abc'), ('gpuq', {}, 'd'), ('workq', {'ngpus': '4'}, 'b'), ('workq', {'ngpus': '1'}, 'bc'),
    ('workq', {'mem': '2000mb'}, 'bc'), ('workq', {'mem': '1gb'}, 'abc'), ('workq', {'arch': 'linux'}, 'a'),
    ('workq', {'Qlist': 'gpuq'}, 'b'), ('workq', {'ompthreads': '1', 'mpiprocs': '9'}, 'abc'), ('gpuq', {'arch': 'linux'}, '')])
def test_the_nodes_that_a_job_may_have(queue, wanted, names):
    assert ''.join(n.name for n in pbs.left(FEW, queue, wanted)) == names


@pytest.mark.parametrize('name, states, available, queue', [
    ('free', 'free', True, ''), ('job-busy', 'job-busy', True, ''), ('job-exclusive', 'job-exclusive', True, ''),
    ('offline', 'offline', False, ''), ('with-queue', 'free', True, 'workq')])
def test_the_states_of_nodes(name, states, available, queue):
    found = pbs.hosts((RECORDED / f'nodes-{name}.txt').read_text())
    assert [n.name for n in found] == ['pbs1', 'pbs2']
    assert states in {word for n in found for word in n.states} and any(n.is_available is available for n in found)
    assert found[1].queue == queue and found[0].resources['mem'] == '1200mb'
    assert [n.is_available for n in FEW] == [True, True, False, True]
    assert FEW[0].in_statex('free') and FEW[0].in_statex('idle') and not FEW[1].in_state('free')
    assert FEW[2].in_state('down') and not FEW[2].in_statex('down') and FEW[2].in_statex('down+offline')


@pytest.fixture
def dry_run(checkout, server):
    """Dry-run checks for example-pbs; returns the run, and the job scripts."""
    def run(options):
        done = shell(f'. ci/activate && reframe --system example-pbs:cpu -c checks/compute -c checks/network {options} --dry-run', checkout, RFM_COLORIZE='n')
        return done, [f.read_text() for f in (checkout / 'results' / 'stage').rglob('rfm_job.sh')]
    return run


def test_reframe_distributes_over_the_nodes_of_a_pbs(dry_run, server):
    text = ''.join(f'{name}\n     state = {state}\n     resources_available.host = {name}\n     resources_available.ncpus = 72\n\n'
                   for name, state in (('n1', 'free'), ('n2', 'job-busy'), ('n3', 'down')))
    server('pbsnodes', {'-a': {'stdout': text, 'stderr': '', 'exit_code': 0}})
    server('qstat', {'-Q -f': {'stdout': 'Queue: workq\n', 'stderr': '', 'exit_code': 0}})
    done, scripts = dry_run('-n Hpl -n "OsuBandwidth.*between.*bibw" --distribute=avail')
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert done.stdout.count('[nodes: needs 2, and is to run on n') == 2
    assert sorted(re.findall(r'select=(.*)', script)[0] for script in scripts) == [
        f'1:mpiprocs=72:ncpus=72:ompthreads=1:host=n{i}' for i in (1, 2)]


@pytest.mark.parametrize('named, select', [
    ('n1,n2', 'select=1:mpiprocs=1:ncpus=1:ompthreads=1:host=n1+1:mpiprocs=1:ncpus=1:ompthreads=1:host=n2'),
    ('n1', 'nodelist=n1 names 1, the job needs 2')])
def test_a_node_list_becomes_chunks_on_hosts(dry_run, named, select):
    done, scripts = dry_run(f'-n "OsuBandwidth.*between.*bibw" -J nodelist={named} -J q=fast')
    assert select in done.stdout + ''.join(scripts)
    assert all('nodelist' not in text and ('#PBS -q fast' in text or done.returncode) for text in scripts)


def test_a_pbs_that_does_not_answer_is_told(dry_run, server):
    server('pbsnodes', {'-a': COMMANDS['server-down-pbsnodes']})
    done, _ = dry_run('-n Hpl --distribute')
    assert done.returncode and 'cannot connect to server' in done.stdout + done.stderr
