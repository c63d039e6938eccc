"""The cluster that ci/cluster makes of one machine: a small real suite, and every fault in mid-run.

Only `ci/test --full` runs this file. Every fault ends as `failed` with its reason and exit code 4.
parity keeps the other measurements of that session, calls nothing a regression, and the next test's night runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from conftest import PATIENCE, TOP, eventually, shell

pytestmark = pytest.mark.skipif(not os.environ.get('PARITY_CLUSTER'),
                                reason='no cluster here: ci/test --full brings one up (root, Slurm, KVM or User-mode Linux)')
#: A case that ends at once: it is measured beside the one that a fault meets.
CASE = 'FileCopy%mode=small-write%clients=one%sync=durable'
BESIDE = f"-n '{CASE}'"
FINE = {'unreferenced', 'skipped', 'disturbed'}
STATE = Path('/run/parity-cluster/state.json')


def cluster(verb: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([TOP / 'ci' / 'cluster', verb, *arguments], capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def night(monkeypatch):
    """Return a results folder that all nodes may write. The cluster is well before and after the test."""
    folder = Path(json.loads(STATE.read_text())['shared']) / 'cluster-tests' / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    monkeypatch.setenv('PARITY_RESULTS', str(folder))
    assert cluster('status').returncode == 0, cluster('status').stdout
    yield folder
    shell('scancel -u root', TOP)
    up = cluster('up')
    assert up.returncode == 0, up.stderr


@pytest.fixture(autouse=True)
def guests(request):
    """Skip a test of the partition `virtual` where no guest boots."""
    record = json.loads(STATE.read_text())
    words = [request.node.name, *map(str, getattr(getattr(request.node, 'callspec', None), 'params', {}).values())]
    if record['backend'] == 'none' and any(re.search(r'virtual|both_partitions|drained_partition|\bv[12]\b', word) for word in words):
        pytest.skip(f'no guests here: {record["why"]}')


def begin(options: str) -> subprocess.Popen:
    """Start ci/nightly in the background."""
    return subprocess.Popen(['bash', '-c', f'exec ci/nightly --repeats=1 --system {options}'], cwd=TOP, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ended(process: subprocess.Popen, code: int) -> list[dict]:
    """Wait for the night, which must end with ``code``; return its judged cells."""
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code and 'Traceback' not in printed, printed[-4000:]
    return json.loads(shell('. ci/activate && parity verdict --json', TOP).stdout)['cells']


def of(cells: list[dict], check: str) -> list[dict]:
    return [c for c in cells if c['check'] == check]


def failed(cells: list[dict], reason: str) -> None:
    """Demand that all Hpcc cells failed for that reason, and that FileCopy, if it ran, was measured."""
    hpcc, beside = [c for c in of(cells, 'Hpcc') if c['reason'] != 'one rank'], of(cells, 'FileCopy')
    assert hpcc and {c['verdict'] for c in hpcc} == {'failed'}, {(c['verdict'], c['reason']) for c in cells}
    assert all(re.search(reason, c['reason']) for c in hpcc), hpcc[0]['reason']
    assert {c['verdict'] for c in beside} <= FINE
    assert not beside or any(c['value'] is not None for c in beside)


def once_it_runs() -> None:
    eventually(lambda: re.search(r'^rfm_Hpcc\S* R', shell("squeue -h -o '%j %t'", TOP).stdout, re.M))
    time.sleep(2)


@pytest.mark.parametrize('partition', ['physical', 'virtual'])
def test_nodes_are_real_and_unprivileged_jobs_run_on_them(night, partition):
    done = cluster('exec', 'head', 'srun', '-p', partition, '-N2', '-n2', 'hostname')
    assert sorted(done.stdout.split()) == [f'{partition[0]}1', f'{partition[0]}2']
    night.chmod(0o777)
    done = shell(f'setpriv --reuid daemon --regid daemon --clear-groups srun -p {partition} id -un', night)       # a site gives daemon an account
    assert done.stdout == 'daemon\n', done.stderr


def test_a_night_on_both_partitions(night):
    begun = time.strftime('%FT%T')
    cells = ended(begin(f'onebox {BESIDE}'), 0)
    for partition, backend in (('physical', None), ('virtual', json.loads(STATE.read_text())['backend'])):
        here = [c for c in cells if c['partition'] == partition and c['value'] is not None]
        assert {c['check'] for c in here} == {'FileCopy'} and {c['nodes'][0][0] for c in here} == {partition[0]}
        assert backend is None or {c['virtualisation'] for c in here} == {backend}
    times = shell('sacct -n -P -X -o Start,End,JobName -S ' + begun, TOP).stdout
    spans = sorted(line.split('|')[:2] for line in times.splitlines() if '|rfm_' in line)
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False)), 'measured each other'


@pytest.mark.parametrize('nodes', [2, 4])
def test_a_case_on_more_nodes(night, nodes):
    cells = ended(begin(f"onebox:physical -n 'Fileset%file=10KB%mode=read(%|$)' -S nodes={nodes}"), 0)
    assert {len(c['nodes']) for c in cells if c['value'] is not None} == {nodes}


def test_jobs_are_submitted_followed_and_cancelled(night):
    def parity(line: str, *codes: int) -> str:
        done = shell(f'. ci/activate && parity jobs {line}', TOP)
        assert done.returncode in (codes or (0,)), done.stdout + done.stderr
        return done.stdout.strip()

    for job in ('build', 'nightly', 'campaign'):
        (night / 'script.sh').write_text(parity(f'render {job} --system onebox') + '\n')
        tested = shell(f'sbatch --test-only {night}/script.sh', night)
        assert tested.returncode == 0 and 'to start at' in tested.stderr, f'{job}: {tested.stderr}'
    name = parity(f'submit workload --system onebox --partition physical --check {CASE}')
    assert name.isdecimal() and name in parity('list')
    parity(f'wait {name}')
    output, = (night / 'jobs').glob('parity-FileCopy-*.out')
    assert shell(f'. ci/activate && parity parse filecopy {output}', TOP).returncode == 0
    name = parity('submit nightly --system onebox --partition physical')
    parity(f'cancel {name}')
    assert 'CANCELLED' in parity(f'wait {name}', 4) and 'CANCELLED' in parity('list')
    later = parity(f'submit nightly --system onebox --after {name}')
    parity(f'wait {later}', 4)
    done = shell('. ci/activate && parity jobs submit nightly --system onebox --after 99999', TOP)
    assert done.returncode == 1 and '--after 99999: ' in done.stderr and 'Traceback' not in done.stderr


def wrap(night: Path, monkeypatch, name: str, text: str) -> None:
    """Put a shell script before a command of Slurm, which is "$real" in it."""
    (night / 'bin').mkdir(exist_ok=True)
    (night / 'bin' / name).write_text(f'#!/bin/sh\nreal={shutil.which(name)}\n{text}\n')
    (night / 'bin' / name).chmod(0o755)
    monkeypatch.setenv('PATH', f'{night}/bin:{os.environ["PATH"]}')


def test_a_wrapper_of_sbatch_that_prints_a_banner_and_names_the_cluster(night, monkeypatch):
    wrap(night, monkeypatch, 'sbatch', 'echo "*** Maintenance on 24 December ***"; echo 2026; exec "$real" -M onebox "$@"')
    done = shell(f'. ci/activate && parity jobs submit workload --system onebox --partition physical --check {CASE}', TOP)
    assert re.fullmatch(r'[0-9]+;onebox', name := done.stdout.strip()), done.stdout + done.stderr
    waited = shell(f". ci/activate && parity jobs wait '{name}' && parity jobs list", TOP)
    assert waited.returncode == 0 and re.search(f'^{name} .*COMPLETED', waited.stdout, re.M), waited.stdout + waited.stderr
    assert any(c['value'] is not None for c in ended(begin(f'onebox:physical {BESIDE}'), 0))


# ---- faults

@pytest.mark.parametrize('node, daemon', [('p1', 'munged'), ('v1', 'munged'), ('p2', 'slurmd'), ('v2', 'slurmd'), ('head', 'munged'),
                                          ('head', 'slurmctld'), ('head', 'slurmdbd'), ('head', 'mariadbd')])
def test_up_mends_a_dead_daemon(night, node, daemon):
    cluster('exec', node, 'pkill', '-9', '-x', daemon)
    eventually(lambda: cluster('status').returncode == 4)
    up = cluster('up')
    assert up.returncode == 0, up.stderr
    assert cluster('status').returncode == 0, cluster('status').stdout


def test_a_slurmctld_that_was_killed_at_once_is_repaired(night):
    """Slurm 26.05 starts no more without the files that it writes minutes after its first start."""
    shell('rm -f /run/parity-cluster/head/slurmctld/assoc_usage*', TOP)
    assert cluster('kill', 'slurmctld').returncode == 0
    up = cluster('up')
    assert up.returncode == 0, up.stderr
    assert cluster('status').returncode == 0, cluster('status').stdout


def test_all_of_the_cluster_is_of_one_version(night):
    slurm = json.loads(STATE.read_text())['slurm'] or '/usr'
    ours = re.findall(r'[0-9.]+', shell('srun --version', TOP).stdout)
    assert shell(f'{slurm}/sbin/slurmctld -V', TOP).stdout.split()[-1] in ours and re.search(f'^slurm +{ours[-1]}( |$)', cluster('status').stdout, re.M)


def test_up_resumes_a_drained_partition(night):
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
    once_it_runs()
    time.sleep(6)    # slurmctld saves its list of running jobs some seconds late
    assert cluster('kill', 'slurmctld').returncode == 0
    time.sleep(3)
    assert cluster('start', 'slurmctld').returncode == 0
    cells = of(ended(process, 0), 'Hpcc')
    assert {c['verdict'] for c in cells} <= FINE and all(c['value'] is not None for c in cells if c['verdict'] == 'unreferenced')


def test_the_accounting_gone_in_mid_run(night):
    process = begin('onebox:physical -n Hpcc')
    once_it_runs()
    assert cluster('kill', 'slurmdbd').returncode == 0
    cells = of(ended(process, 0), 'Hpcc')
    assert {c['verdict'] for c in cells} <= FINE and any(c['value'] is not None for c in cells)


@pytest.mark.parametrize('options, fault, reason', [
    (f'onebox:physical -n Hpcc {BESIDE}', 'scontrol update nodename=p1 state=down reason=test',
     r'a node failed \(job \d+ on p1: NODE_FAIL(; p1 is down: test)?\)|cancelled'),
    (f'onebox:virtual -n Hpcc {BESIDE}', 'ci/cluster kill v1', r'a node failed \(job \d+ on v1: NODE_FAIL(;.*)?\)'),
    (f'onebox:virtual -n Hpcc {BESIDE}', 'ci/cluster kill v1 && ci/cluster start v1', 'a node failed|output incomplete|cancelled')],
    ids=['node set down', 'guest killed', 'guest killed and restarted'])
def test_a_fault_while_a_case_runs(night, options, fault, reason):
    process = begin(options)
    once_it_runs()
    assert shell(fault, TOP).returncode == 0
    failed(ended(process, 4), reason)


@pytest.mark.parametrize('fault, options, reason', [
    ('scontrol update nodename=p3 state=drain reason=test', f'onebox:physical -n Hpcc {BESIDE} -S Hpcc.nodes=4 -S max_pending_time=20s',
     r'waited in the queue, at most 20 s \(job \d+: CANCELLED'),
    ('scontrol update partitionname=physical state=down', 'onebox:physical -n Hpcc -S max_pending_time=10s',
     r'waited in the queue, at most 10 s \(job \d+: CANCELLED, Reason PartitionDown\)'),
    ('true', f'onebox:physical -n Hpcc {BESIDE} -S Hpcc.size=nightly -S time_limit=1m', r'time limit reached, 60 s \(job \d+ on p1: TIMEOUT\)'),
    ('true', 'onebox:physical -n Hpcc -J mem=60M', r'memory exceeded \(job \d+ on p1: OUT_OF_MEMORY\)'),
    ('true', 'onebox:virtual -n Hpcc -J mem=60M', r'memory exceeded \(job \d+ on v1: OUT_OF_MEMORY\)'),
    ('true', 'onebox:physical -n Hpcc -J mem=640G', 'sbatch: error: .*[Mm]emory')],
    ids=['node drained', 'partition down', 'time limit', 'memory, physical', 'memory, virtual', 'sbatch refuses'])
def test_a_case_that_cannot_run(night, fault, options, reason):
    if 'physical -n Hpcc -J mem=60M' in options and shell('echo -1 >/proc/self/oom_score_adj', TOP).returncode:
        pytest.skip('this root has no CAP_SYS_RESOURCE: Slurm cannot spare its slurmstepd, which the kernel ends in place of the program')
    assert shell(fault, TOP).returncode == 0
    failed(ended(begin(options), 4), reason)


def test_why_a_cancelled_job_waited_is_known_where_sacct_forgets_it(night, monkeypatch):
    """Slurm 26.05 answers None."""
    wrap(night, monkeypatch, 'sacct', '"$real" "$@" | sed s/PartitionDown/None/')
    assert shell('scontrol update partitionname=physical state=down', TOP).returncode == 0
    failed(ended(begin('onebox:physical -n Hpcc -S max_pending_time=10s'), 4), r'at most 10 s \(job \d+: CANCELLED, Reason PartitionDown\)')


def test_a_job_that_nobody_names_ends_after_its_time_limit(night, monkeypatch):
    """They answer while the night starts, which asks them whether its partition is there."""
    for name in ('sacct', 'squeue', 'scontrol'):
        wrap(night, monkeypatch, name, f'[ -e {night}/silent ] || exec "$real" "$@"')
    process = begin('onebox:physical -n Hpcc -S time_limit=1m')
    once_it_runs()
    (night / 'silent').touch()
    failed(ended(process, 4), r'time limit reached, 60 s: job \d+ had not ended after \d+ s; squeue says nothing, sacct says nothing')


def test_a_job_that_waits_and_that_the_accounting_never_names_ends(night, monkeypatch):
    wrap(night, monkeypatch, 'sacct', 'exit 0')
    assert shell('scontrol update partitionname=physical state=down', TOP).returncode == 0
    failed(ended(begin('onebox:physical -n Hpcc -S max_pending_time=10s'), 4),
           r'maximum pending time exceeded, 10 s: job \d+ had not ended after \d+ s; squeue says PENDING, sacct says nothing')


@pytest.fixture
def configured(night):
    """Restart slurmctld with another slurm.conf, made of its own; the nodes named read it, too. The former one comes back."""
    before = cluster('exec', 'head', 'cat', '/etc/slurm/slurm.conf').stdout
    told = ['head']

    def configure(change, *nodes: str) -> None:
        time.sleep(6)    # slurmctld saves the ends of jobs some seconds late
        told.extend(nodes)
        for node in told:
            subprocess.run([TOP / 'ci' / 'cluster', 'exec', node, 'tee', '/etc/slurm/slurm.conf'], input=change(before), text=True, check=True,
                           timeout=PATIENCE, stdout=subprocess.DEVNULL)
        assert cluster('kill', 'slurmctld').returncode == 0
        done = cluster('start', 'slurmctld')
        assert done.returncode == 0, done.stderr
        if len(told) > 1:
            shell('scontrol reconfigure; sleep 3', TOP)
    yield configure
    shell('scancel -u root; ' + '; '.join(f'scontrol update nodename={node} state=resume' for node in told[1:]), TOP)
    configure(lambda conf: conf)


@pytest.mark.parametrize('mode', ['CANCEL', 'REQUEUE'])
def test_a_preempted_case(night, configured, mode):
    configured(lambda conf: re.sub('^PartitionName=physical.*', lambda line: f'{line[0].replace(" PreemptMode=OFF", "")} PriorityTier=1 PreemptMode={mode}', conf, flags=re.M)
               + 'PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nPartitionName=hurry Nodes=p1 PriorityTier=10 PreemptMode=OFF\n')
    process = begin(f'onebox:physical -n Hpcc {BESIDE}')
    once_it_runs()
    if mode == 'REQUEUE':       # a site's job_submit.lua may allow what the job forbids
        assert shell('scontrol update job $(squeue -h -t R -o %i) requeue=1', TOP).returncode == 0
    assert shell("sbatch -p hurry --exclusive -o /dev/null --wrap 'sleep 3'", TOP).returncode == 0
    failed(ended(process, 4), r'preempted by another job \(job \d+ on p1: PREEMPTED\)')
    assert not shell('squeue -h -p physical', TOP).stdout, 'it measures a second time'


def test_a_night_whose_job_is_in_a_state_that_nobody_knows_ends_with_what_had_finished(night, monkeypatch):
    (night / 'hpcc').touch()
    wrap(night, monkeypatch, 'sacct', f""""$real" "$@" |
if read hpcc <{night}/hpcc; then sed -E "/^$hpcc/!s/^([0-9]+)[|][A-Z]+/\\1|HIBERNATING/"; else cat; fi""")
    process = begin(f'onebox:physical -n Hpcc {BESIDE}')
    once_it_runs()
    (night / 'hpcc').write_text(shell('squeue -h -t R -o %i', TOP).stdout)
    eventually(lambda: re.search(r'OK .*Hpcc', (night / 'reframe.log').read_text()))
    time.sleep(10)      # FileCopy is submitted, and ends
    process.terminate()
    cells = ended(process, 4)
    assert any(c['value'] is not None for c in of(cells, 'Hpcc'))
    assert all('the run was stopped before this case ended' in c['reason'] for c in of(cells, 'FileCopy'))


def test_a_prolog_that_fails_is_told_beside_the_job(night, configured):
    configured(lambda conf: conf + 'Prolog=/bin/false\n', 'p1')
    failed(ended(begin('onebox:physical -n Hpcc -J nodelist=p1 -S time_limit=1m'), 4),
           r'cancelled \(job \d+ on p1: CANCELLED; p1 is idle[+]drain: Prolog error\)')


def test_a_full_slurm_holds_up_no_other_case(night, configured):
    """MaxJobCount: sbatch itself sleeps for two minutes, and ReFrame with it."""
    configured(lambda conf: conf + 'MaxJobCount=2\nMinJobAge=2\n')
    held = shell('for i in 1 2; do sbatch --parsable -H -o /dev/null --wrap true; done', TOP).stdout.split()
    process = begin(f'onebox:physical {BESIDE}')
    eventually(lambda: any('sleeping and retrying' in file.read_text() for file in night.rglob('queue.json')))
    assert not shell('pgrep -x sbatch', TOP).stdout, 'it sleeps'
    shell(f'scancel {" ".join(held)}', TOP)
    assert any(c['value'] is not None for c in ended(process, 0))


# ---- a site's settings: ci/cluster up --site

@pytest.fixture
def site(night):
    """Write a system `site`: one partition a name, with these options of sbatch."""
    if not json.loads(STATE.read_text())['site']:
        pytest.skip('a cluster without the settings of a site: ci/cluster up --site')
    folder = TOP / 'systems' / f'site-{night.name}'
    folder.mkdir()

    def write(**access: str) -> str:
        lines = [f"  - {{name: {name}, scheduler: slurm, sched_options: {{use_nodes_option: true}}, launcher: srun, access: [{options}, '--licenses=machine:1'], "
                 'time_limit: 10m, features: [cpu, physical], extras: {nodes: 1, cores: 1, memory_bytes: 1_258_291_200, max_pending_time: 5m, '
                 'filesystems: {scratch: $PARITY_RESULTS/scratch, local: /tmp}}}' for name, options in access.items()]
        (folder / 'system.yaml').write_text('\n'.join([f'name: {folder.name}', 'descr: a site', "hostnames: ['.']", 'detect: host', 'requires: []', 'environments: []',
                                                       'partitions:', *lines, '']))
        return folder.name
    yield write
    shutil.rmtree(folder)


@pytest.mark.parametrize('options', ['--partition=secret', '--partition=noqos, --qos=night', '--partition=spare', '--partition=cloud, --nodelist=nid000001'],
                         ids=['hidden', 'another QOS', 'preemptible', 'cloud'])
def test_a_case_in_a_partition_of_a_site(night, site, options):
    assert any(c['value'] is not None for c in ended(begin(f'{site(one=options)} {BESIDE}'), 0))


@pytest.mark.parametrize('options, reason', [
    ('--partition=elsewhere', 'Access/permission denied'),
    ('--partition=cloud, --nodelist=nid000004', r'a node failed \(job \d+ on nid000004: NODE_FAIL|ReqNodeNotAvail')],
    ids=['host', 'cloud node that never comes'])
def test_a_case_that_a_site_refuses(night, site, options, reason):
    cells = of(ended(begin(f'{site(one=options)} {BESIDE}'), 4), 'FileCopy')
    assert cells and all(c['verdict'] == 'failed' and re.search(reason, c['reason']) for c in cells), {c['reason'] for c in cells}


@pytest.mark.parametrize('options, reason', [
    ('--partition=physical, --account=none', "account 'none' is none of yours"), ('--partition=physical, --qos=gold', "QOS 'gold' is none of yours"),
    ('--partition=noqos', 'noqos starts no job of account')], ids=['account', 'QOS', 'never'])
def test_a_night_does_not_start_where_a_site_never_runs_its_jobs(night, site, options, reason):
    process = begin(f'{site(one=options)} {BESIDE}')
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2 and reason in printed and not (night / 'results.db').exists(), printed


def test_the_doctor_says_beforehand_what_a_site_refuses(night, site):
    system = site(physical='--partition=physical', secret='--partition=secret', others='--partition=others', noqos='--partition=noqos',
                  night='--partition=noqos, --qos=night', elsewhere='--partition=elsewhere', gold='--partition=physical, --qos=gold')
    night.chmod(0o777)
    daemon = 'HOME=/tmp setpriv --reuid daemon --regid daemon --clear-groups '      # env between them might not reach a Python of root's
    may_read = shell(f'{daemon} test -r .venv/bin/parity', TOP).returncode == 0
    for user in ('', daemon) if may_read else ('',):
        done = shell(f'. ci/activate; {user}parity doctor --system {system}', TOP)
        words = {name: word for word, name in re.findall(r'^(\w+) +partition (\w+) ', done.stdout, re.M)}
        lacking = {name for name, word in words.items() if word == 'lacking'}
        assert lacking == {'others', 'noqos', 'elsewhere', 'gold'} and {'physical', 'secret', 'night'} <= words.keys(), done.stdout + done.stderr
        assert ('PrivateData' in done.stdout) is bool(user)
    if not may_read:
        pytest.skip(f'root was answered rightly; the user daemon may not read {TOP}')
