"""The cluster that ci/cluster makes of one machine: a small real suite, and every fault in mid-run.

Skipped unless `ci/test --full` has brought it up. Every fault ends as `failed` with its reason and exit
code 4; what the session measured beside it is kept, nothing is called a regression, the next night runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from conftest import PATIENCE, TOP, eventually, shell

pytestmark = pytest.mark.skipif(not os.environ.get('PARITY_CLUSTER'),
                                reason='no cluster here: ci/test --full brings one up (root, Slurm, KVM or User-mode Linux)')
#: A case that is over at once, to be measured beside the one that a fault meets.
BESIDE = "-n 'FileCopy%mode=small-write%clients=one%sync=durable'"
STATE = Path('/run/parity-cluster/state.json')
_BEGUN: list[subprocess.Popen] = []


def cluster(verb: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([TOP / 'ci' / 'cluster', verb, *arguments], capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def night(monkeypatch):
    """A folder for results that all nodes may write; returns it. The cluster is well before and after."""
    shared = json.loads(STATE.read_text())['shared']
    folder = Path(shared) / 'cluster-tests' / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    monkeypatch.setenv('PARITY_RESULTS', str(folder))
    assert cluster('status').returncode == 0, cluster('status').stdout
    yield folder
    for process in _BEGUN:        # of a test that failed before its night was over
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=PATIENCE)
    _BEGUN.clear()
    shell('scancel -u root', TOP)
    up = cluster('up')
    assert up.returncode == 0, up.stderr


def begin(options: str) -> subprocess.Popen:
    """ci/nightly, in the background."""
    process = subprocess.Popen(['bash', '-c', f'exec ci/nightly --repeats=1 --system {options}'], cwd=TOP,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _BEGUN.append(process)
    return process


def ended(process: subprocess.Popen, code: int) -> list[dict]:
    """The cells that the night was judged to; it has ended with ``code``."""
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, printed[-4000:]
    assert 'Traceback' not in printed, printed[-4000:]
    judged = json.loads(shell('. ci/activate && parity verdict --json', TOP).stdout)
    return judged['cells']


def run(options: str, code: int) -> list[dict]:
    return ended(begin(options), code)


def words(cells: list[dict], check: str) -> set[str]:
    return {c['verdict'] for c in cells if c['check'] == check}


def failed(cells: list[dict], reason: str, check: str = 'Hpcc') -> None:
    """All of the check's cells failed for that reason, what ran beside was measured, nothing regressed."""
    of_check = [c for c in cells if c['check'] == check]
    assert of_check and {c['verdict'] for c in of_check} == {'failed'}, {(c['verdict'], c['reason']) for c in cells}
    assert all(re.search(reason, c['reason']) for c in of_check), of_check[0]['reason']
    assert words(cells, 'FileCopy') <= {'unreferenced', 'skipped', 'disturbed'}
    assert any(c['value'] is not None for c in cells if c['check'] == 'FileCopy') or not words(cells, 'FileCopy')


@contextlib.contextmanager
def while_running(job: str = 'rfm_Hpcc'):
    """Once the job runs."""
    eventually(lambda: re.search(rf'^{job}\S* R', shell("squeue -h -o '%j %t'", TOP).stdout, re.M))
    time.sleep(2)
    yield


@pytest.mark.parametrize('partition', ['physical', 'virtual'])
def test_nodes_are_real_and_unprivileged_jobs_run_on_them(night, partition):
    done = cluster('exec', 'head', 'srun', '-p', partition, '-N2', '-n2', 'hostname')
    assert sorted(done.stdout.split()) == [f'{partition[0]}1', f'{partition[0]}2']
    night.chmod(0o777)
    done = shell(f'setpriv --reuid nobody --regid nogroup --clear-groups srun -p {partition} id -un', night)
    assert done.stdout == 'nobody\n', done.stderr


def test_a_night_on_both_partitions(night):
    begun = time.strftime('%FT%T')
    cells = run(f'onebox {BESIDE}', 0)
    for partition, backend in (('physical', None), ('virtual', json.loads(STATE.read_text())['backend'])):
        here = [c for c in cells if c['partition'] == partition and c['value'] is not None]
        assert {c['check'] for c in here} == {'FileCopy'}
        assert {c['nodes'][0][0] for c in here} == {partition[0]}
        assert backend is None or {c['virtualisation'] for c in here} == {backend}
    times = shell('sacct -n -P -X -o Start,End,JobName -S ' + begun, TOP).stdout
    spans = sorted(line.split('|')[:2] for line in times.splitlines() if '|rfm_' in line)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False)), 'measured each other'


@pytest.mark.parametrize('nodes', [2, 4])
def test_a_case_on_more_nodes(night, nodes):
    cells = run(f"onebox:physical -n 'Fileset%file=10KB%mode=read$' -S nodes={nodes}", 0)
    assert {len(c['nodes']) for c in cells if c['value'] is not None} == {nodes}


def test_jobs_are_submitted_followed_and_cancelled(night):
    def parity(line: str, *codes: int) -> str:
        done = shell(f'. ci/activate && parity jobs {line}', TOP)
        assert done.returncode in (codes or (0,)), done.stdout + done.stderr
        return done.stdout.strip()

    for job in ('build', 'nightly', 'campaign'):
        script = night / 'script.sh'
        script.write_text(parity(f'render {job} --system onebox') + '\n')
        tested = shell(f'sbatch --test-only {script}', night)
        assert tested.returncode == 0 and 'to start at' in tested.stderr, f'{job}: {tested.stderr}'
    case = 'FileCopy%mode=small-write%clients=one%sync=durable'
    name = parity(f'submit workload --system onebox --partition physical --check {case}')
    assert name.isdecimal() and name in parity('list')
    parity(f'wait {name}')
    output, = (night / 'jobs').glob('parity-FileCopy-*.out')
    assert shell(f'. ci/activate && parity parse filecopy {output}', TOP).returncode == 0
    name = parity('submit nightly --system onebox --partition physical')
    parity(f'cancel {name}')
    # 4 where it had not begun, else the code of the signal that ended it
    assert 'CANCELLED' in parity(f'wait {name}', 4, 128 + 15) and 'CANCELLED' in parity('list')
    later = parity(f'submit nightly --system onebox --after {name}')
    parity(f'wait {later}', 4)
    done = shell('. ci/activate && parity jobs submit nightly --system onebox --after 99999', TOP)
    assert done.returncode == 1 and '--after 99999: ' in done.stderr and 'Traceback' not in done.stderr


# ---- faults

@pytest.mark.parametrize('node, daemon', [('p1', 'munged'), ('v1', 'munged'), ('p2', 'slurmd'), ('v2', 'slurmd'), ('head', 'munged'),
                                          ('head', 'slurmctld'), ('head', 'slurmdbd'), ('head', 'mariadbd')])
def test_up_mends_a_dead_daemon(night, node, daemon):
    cluster('exec', node, 'pkill', '-9', '-x', daemon)
    eventually(lambda: cluster('status').returncode == 4)
    up = cluster('up')
    assert up.returncode == 0, up.stderr
    assert cluster('status').returncode == 0, cluster('status').stdout


def test_a_partition_that_takes_no_jobs_is_not_called_well_and_up_mends_it(night):
    shell('scontrol update partitionname=virtual state=drain', TOP)
    status = cluster('status')
    assert status.returncode == 4 and re.search('partition +virtual +drain', status.stdout)
    assert 'partition virtual was drain: resumed' in cluster('up').stdout
    assert cluster('status').returncode == 0


def test_up_fails_where_no_two_ranks_can_run(night):
    masked = 'for so in /usr/lib/*/pmix2/lib/libpmix.so; do mount --bind /dev/null "$so"; done; ci/cluster up'
    done = shell(f"unshare --mount bash -c '{masked}'", TOP)
    assert done.returncode == 4 and 'partition physical runs no job of two ranks: srun: error: ' in done.stderr
    assert 'can not load PMIx library' in done.stderr


def test_slurmctld_killed_and_restarted_in_mid_run(night):
    process = begin('onebox:physical -n Hpcc')
    with while_running():
        time.sleep(6)    # it writes down which jobs run some seconds late: killed before that, it knows no better
        assert cluster('kill', 'slurmctld').returncode == 0
        time.sleep(3)
        assert cluster('start', 'slurmctld').returncode == 0
    cells = ended(process, 0)
    assert words(cells, 'Hpcc') <= {'unreferenced', 'skipped', 'disturbed'} and all(c['value'] is not None for c in cells if c['verdict'] == 'unreferenced')


def test_a_node_is_set_down_in_mid_run(night):
    process = begin(f'onebox:physical -n Hpcc {BESIDE}')
    with while_running():
        shell('scontrol update nodename=p1 state=down reason=test', TOP)
    failed(ended(process, 4), r'a node failed \(job \d+ on p1: NODE_FAIL\)|cancelled')


def test_a_node_that_is_not_there_to_begin_with(night):
    shell('scontrol update nodename=p3 state=drain reason=test', TOP)
    failed(run(f'onebox:physical -n Hpcc {BESIDE} -S Hpcc.nodes=4 -S max_pending_time=20s', 4),
           r'waited in the queue, at most 20 s \(job \d+: CANCELLED')


def test_the_time_limit_is_reached(night):
    failed(run(f'onebox:physical -n Hpcc {BESIDE} -S Hpcc.size=nightly -S time_limit=1m', 4), r'time limit reached, 60 s \(job \d+ on p1: TIMEOUT\)')


@pytest.mark.parametrize('partition', ['physical', 'virtual'])
def test_memory_is_exceeded(night, partition):
    failed(run(f'onebox:{partition} -n Hpcc -J mem=60M', 4), r'memory exceeded \(job \d+ on [pv]1: OUT_OF_MEMORY\)')


def test_a_guest_is_killed(night):
    process = begin(f'onebox:virtual -n Hpcc {BESIDE}')
    with while_running():
        assert cluster('kill', 'v1').returncode == 0
    failed(ended(process, 4), r'a node failed \(job \d+ on v1: NODE_FAIL\)')


def test_a_guest_is_killed_and_restarted_at_once(night):
    process = begin(f'onebox:virtual -n Hpcc {BESIDE}')
    with while_running():
        assert cluster('kill', 'v1').returncode == 0
        assert cluster('start', 'v1').returncode == 0
    failed(ended(process, 4), 'a node failed|output incomplete|cancelled')


def test_a_queue_that_never_starts_the_job(night):
    shell('scontrol update partitionname=physical state=down', TOP)
    try:
        failed(run('onebox:physical -n Hpcc -S max_pending_time=10s', 4), r'waited in the queue, at most 10 s \(job \d+: CANCELLED, Reason PartitionDown\)')
    finally:
        shell('scontrol update partitionname=physical state=up', TOP)


def test_the_accounting_is_gone(night):
    process = begin('onebox:physical -n Hpcc')
    with while_running():
        assert cluster('kill', 'slurmdbd').returncode == 0
    failed(ended(process, 4), r'ReFrame stopped before it ended: .*sacct')


def test_sbatch_refuses(night):
    failed(run('onebox:physical -n Hpcc -J mem=640G', 4), 'sbatch: error: .*[Mm]emory')


def test_the_next_night_runs(night):
    assert words(run(f'onebox:physical {BESIDE}', 0), 'FileCopy') <= {'unreferenced', 'skipped', 'disturbed'}
