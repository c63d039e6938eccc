"""The nodes of a PBS: what pbsnodes prints, and which of them a job's options leave."""

from __future__ import annotations

import re

import pytest

import pbs_server
from conftest import shell
from parity.scheduler import pbs
from parity.scheduler.pbs import PbsNode

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


def test_the_states_of_nodes():
    assert [n.is_available for n in FEW] == [True, True, False, True]
    assert FEW[0].in_statex('free') and FEW[0].in_statex('idle') and not FEW[1].in_state('free')
    assert FEW[2].in_state('down') and not FEW[2].in_statex('down') and FEW[2].in_statex('down+offline')


@pytest.mark.parametrize('name, states, available, queue', [
    ('free', 'free', True, ''), ('job-busy', 'job-busy', True, ''), ('job-exclusive', 'job-exclusive', True, ''),
    ('offline', 'offline', False, ''), ('with-queue', 'free', True, 'workq')])
def test_what_a_real_pbsnodes_prints(name, states, available, queue):
    found = pbs.hosts((pbs_server.RECORDED / f'nodes-{name}.txt').read_text())
    assert [n.name for n in found] == ['pbs1', 'pbs2']
    assert states in {word for n in found for word in n.states} and any(n.is_available is available for n in found)
    assert found[1].queue == queue and found[0].resources['mem'] == '1200mb'


def test_reframe_distributes_over_the_nodes_of_a_pbs(checkout, tmp_path, monkeypatch):
    answers = pbs_server.at(tmp_path, monkeypatch)
    printed = ''.join(f'{name}\n     state = {state}\n     resources_available.host = {name}\n     resources_available.ncpus = 72\n\n'
                      for name, state in (('n1', 'free'), ('n2', 'job-busy'), ('n3', 'down')))
    answers('pbsnodes', {'-a': {'stdout': printed, 'stderr': '', 'exit_code': 0}})
    answers('qstat', {'-Q -f': {'stdout': 'Queue: workq\n', 'stderr': '', 'exit_code': 0}})
    run = 'reframe --system example-pbs:cpu -c checks/compute/hpl.py -c checks/network/osu.py -n Hpl -n "OsuBandwidth.*between.*bibw" --distribute=avail --dry-run'
    done = shell(f'. ci/activate && {run}', checkout, RFM_COLORIZE='n')
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert done.stdout.count('[nodes: needs 2, and is to run on n') == 2
    scripts = [f.read_text() for f in (checkout / 'results' / 'stage').rglob('rfm_job.sh')]
    assert sorted(re.findall(r'select=(.*)', text)[0] for text in scripts) == [
        f'1:mpiprocs=72:ncpus=72:ompthreads=1:host=n{i}' for i in (1, 2)]


@pytest.mark.parametrize('named, select', [
    ('n1,n2', 'select=1:mpiprocs=1:ncpus=1:ompthreads=1:host=n1+1:mpiprocs=1:ncpus=1:ompthreads=1:host=n2'),
    ('n1', 'nodelist=n1 names 1, the job needs 2')])
def test_a_node_list_becomes_chunks_on_hosts(checkout, tmp_path, monkeypatch, named, select):
    pbs_server.at(tmp_path, monkeypatch)
    run = f'reframe --system example-pbs:cpu -c checks/network/osu.py -n "OsuBandwidth.*between.*bibw" -J nodelist={named} -J q=fast --dry-run'
    done = shell(f'. ci/activate && {run}', checkout, RFM_COLORIZE='n')
    scripts = [f.read_text() for f in (checkout / 'results' / 'stage').rglob('rfm_job.sh')]
    assert select in done.stdout + ''.join(scripts)
    assert all('nodelist' not in text and ('#PBS -q fast' in text or done.returncode) for text in scripts)


def test_a_pbs_that_does_not_answer_is_told(checkout, tmp_path, monkeypatch):
    answers = pbs_server.at(tmp_path, monkeypatch)
    answers('pbsnodes', {'-a': pbs_server.COMMANDS['server-down-pbsnodes']})
    done = shell('. ci/activate && reframe --system example-pbs:cpu -c checks/compute/hpl.py -n Hpl --distribute --dry-run', checkout)
    assert done.returncode and 'cannot connect to server' in done.stdout + done.stderr
