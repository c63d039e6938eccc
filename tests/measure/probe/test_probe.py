"""`parity probe`: what a login node tells, written down as a system. `parity doctor`: each thing that is lacking, with what mends it."""

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from unittest import mock

import pytest
import yaml

import pbs_server
import sessions as made
import slurm_site
import warm
from commands import parity
from conftest import TOP
from parity.base.findings import Diagnosis, Refused, exit_code, refuse
from parity.measure.machine.procfs import Tree
from parity.measure.probe import login, modules, partitions, write
from parity.measure.probe.login import BatchSystem, Host, Queue
from parity.measure.scheduler.command import seconds
from parity.nightly import doctor
from parity.site import systems
from parity.site.plan import Plan
from parity.site.systems import System
from warm import nightly, reframe

#: A site of four hosts and five queues.
PBSNODES, QSTAT_Q = ((pbs_server.RECORDED / f'site-{name}.txt').read_text() for name in ('nodes', 'queues'))
HERE = Host('login1', {}, ['lustre at /lustre/fs1'], codes=('filecopy',))


def thousand() -> BatchSystem:
    told = slurm_site.answers()
    return BatchSystem('slurm', 'Slurm 22.05.8', 'thousand', tuple(login.slurm_nodes(told['scontrol']['-a --oneliner show node'])),
                   tuple(login.slurm_queues('\n'.join(slurm_site.PARTITIONS), set(), {'bench': []})), 'bench', mpi_type='pmix')


def written(cluster: BatchSystem, here: Host = HERE) -> tuple[str, dict]:
    text = write.system('trial', cluster, here, datetime.date(2026, 11, 21))
    data = yaml.safe_load(text)
    System.model_validate(data)
    return text, {p['name']: p for p in data['partitions']}


def test_a_real_slurm():
    recorded = {name: (slurm_site.RECORDED / f'{name}.txt').read_text() for name in ('node', 'partition', 'config', 'licenses')}
    told = login.slurm_nodes(recorded['node'])
    assert [n.name for n in told] == ['p1', 'p2', 'p3', 'p4', 'v1', 'v2', 'v3', 'v4']
    assert {(n.cores, n.threads, n.memory_bytes, n.gpus, n.up) for n in told} == {(1, 1, 1200 << 20, (), True)}
    assert told[0].labels == ('namespaces', 'physical') and told[4].queues == ('virtual',)
    queues = login.slurm_queues(recorded['partition'], {'root'}, {'root': []})
    assert queues == [Queue('physical', default=True), Queue('virtual')]
    shown = login.configured(recorded['config'])
    assert (shown['ClusterName'], shown['SLURM_VERSION'], login.licences(recorded['licenses'])) == ('onebox', '22.05.8', ['machine:1'])
    _, parts = written(BatchSystem('slurm', 'Slurm', 'x', tuple(told), tuple(queues)))
    assert [p['features'] for p in parts.values()] == [['cpu', 'physical'], ['cpu', 'virtual']], 'the operator calls the nodes so'


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The partitions of a site with settings of all kinds, and its nodes where they may be seen; they have no GPUs here."""
    monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
    clouds = [f'nid00000{i}' for i in range(1, 7)]
    names = {'nid[000001-000006]': clouds, 'p[1-4]': ['p1', 'p2', 'p3', 'p4'], 'p1': ['p1'], 'nid[000001-000006],old1,p[1-4]': [*clouds, 'old1', 'p1', 'p2', 'p3', 'p4']}
    slurm_site.install(tmp_path, {'scontrol': {f'show hostnames {text}': '\n'.join(found) for text, found in names.items()}})

    def cluster(version: str, seen: bool = True, qos=None) -> BatchSystem:
        text = {name: (slurm_site.RECORDED / f'site-{name}-{version}.txt').read_text() for name in ('nodes', 'partitions')}
        nodes = login.slurm_nodes(text['nodes'].replace('gpu:a100:4', '(null)')) if seen else []
        nodes += login.unseen(text['partitions'], nodes)
        return BatchSystem('slurm', 'Slurm', 'x', tuple(nodes), tuple(login.slurm_queues(text['partitions'], set(), qos or {'staff': ['normal', 'night']})))
    return cluster


@pytest.mark.parametrize('version', ['22.05', '26.05'])
def test_cloud_and_other_nodes_are_two_partitions_and_sleeping_ones_exist(site, version):
    """Slurm 22.05 shows no cloud node that is powered down."""
    cluster = site(version)
    assert len(cluster.nodes) == 11 and sum(node.name.startswith('nid') and node.up for node in cluster.nodes) == 6
    found, left = write.like_nodes(cluster)
    kinds = {k.name: (len(k.nodes), k.mixed) for k in found}       # and a queue for old1
    assert kinds.pop('physical') == (4, '') and kinds.pop('cloud') == (6, '') and len(kinds) == 1
    assert left['secret'] == 'its nodes are those of physical' and left['others'] == 'AllowAccounts=others' and left['elsewhere'].startswith('AllocNodes=p1, not')
    assert [q.name for q in cluster.queues if q.exclusive] == ['whole']


@pytest.mark.parametrize('version', ['22.05', '26.05'])
def test_of_nodes_that_a_user_may_not_see_the_partitions_tell_what_they_know(site, version):
    cluster = site(version, seen=False)
    assert {(n.cores, n.memory_bytes) for n in cluster.nodes} == {(1, 1200 << 20)} and len(cluster.nodes) == 11
    assert {'physical', 'cloud'} <= {k.name for k in write.like_nodes(cluster)[0]}


def test_the_rules_of_a_partition_refuse_an_account_or_a_qos():
    told, qos = login.accounts('staff|staff|night,normal|\nstaff|debug|night,gold|gold\n')
    assert told == 'staff' and qos == {'staff': ['normal', 'night'], 'debug': ['gold', 'night']}
    assert login.refused({'DenyQos': 'normal,x'}, ['staff'], ['normal']) == 'DenyQos=normal,x'
    assert not login.refused({'DenyQos': 'normal'}, ['staff'], ['normal', 'night']) and not login.refused({'AllowQos': 'a'}, ['staff'], [])
    assert login.refused({'AllowAccounts': 'others'}, ['staff'], []) == 'AllowAccounts=others' and not login.refused({'AllowQos': 'gold'}, [], ['gold'])


def test_words_of_slurm():
    gres = {'(null)': (), 'gpu:4': (('', 4),), 'gpu:a100:4(S:0-1),lscratch:300': (('a100', 4),), 'gpu:a100:2,gpu:v100:2': (('a100', 2), ('v100', 2)), 'gpu:0': ()}
    assert {text: login.gpus(text) for text in gres} == gres
    times = {'UNLIMITED': None, '': None, '2-00:00:00': 172800, '01:30:00': 5400, '30:00': 1800}
    assert {text: seconds(text) for text in times} == times
    listed = (slurm_site.RECORDED / 'mpi-list.txt').read_text()
    assert [login.mpi_type(listed, default) for default in ('pmix', 'pmix_v4', 'none', '')] == ['', '', 'pmix', 'pmix'], 'what srun does not know'
    line, = slurm_site.Nodes('n', 1, 'a', cores=18, mib=192_000, other=(('CPUEfctv', '64'), ('TmpDisk', '0 MemSpecLimit=16000'))).lines()
    node, = login.slurm_nodes(line)
    assert (node.cores, node.memory_bytes) == (32, 176_000 << 20), 'without what the site keeps for itself'


@pytest.mark.parametrize('stated, memory', [
    ('DefMemPerCPU=UNLIMITED', ''), ('DefMemPerNode=0', ''), ('DefMemPerCPU=0 DefMemPerNode=4000', 'DefMemPerNode=4000'), ('DefMemPerCPU=512', 'DefMemPerCPU=512')])
def test_a_partition_that_gives_a_job_a_part_of_the_memory_is_told(stated, memory):
    queue, = login.slurm_queues(f'PartitionName=a State=UP {stated}', set(), {})
    assert queue.memory == memory


@pytest.mark.parametrize('counts, taken', [((4, 6), 'own'), ((4, 9), 'all')])
def test_a_queue_of_like_nodes_is_taken_unless_another_has_more_than_twice_as_many(counts, taken):
    """`all` has the nodes of `own`, others like them, and nodes with more cores."""
    own, more = counts
    nodes = [login.Node(f'n{i}', ('all', 'own') if i < own else ('all',), 8, 1, 1 << 34, labels=('thin',), state='idle')
             for i in range(more)]
    nodes += [login.Node(f'f{i}', ('all',), 16, 1, 1 << 34, labels=('fat',), state='idle') for i in range(2)]
    found, _ = write.like_nodes(BatchSystem('slurm', 'Slurm', 'x', tuple(nodes), (Queue('all'), Queue('own'))))
    assert ('own' in [like.name for like in found]) is (taken == 'own')


def test_a_thousand_nodes_become_the_kinds_that_a_person_would_measure():
    cluster = thousand()
    assert len(cluster.nodes) == 1000 and sum(n.up for n in cluster.nodes) == 988
    found, left = write.like_nodes(cluster)
    assert {k.name: (len(k.nodes), k.options) for k in found} == {
        'batch': (860, ()), 'batch-himem': (40, ('--constraint=himem',)), 'gpu-a100': (60, ('--gres=gpu:a100:4',)),
        'gpu-h100': (20, ('--gres=gpu:h100:4',))}
    assert left == {'astro': 'AllowAccounts=astro,cosmo', 'empty': 'it has no nodes', 'long': 'its nodes are those of batch, batch-himem',
                    'debug': 'its nodes are those of batch', 'all': 'its nodes are those of batch, batch-himem, gpu-a100, gpu-h100'}
    text, parts = written(cluster)
    assert len(text.splitlines()) < 90 and len(text.splitlines()[0]) < 115
    batch, gpu = parts['batch'], parts['gpu-h100']
    assert batch['access'] == ['--partition=batch', '--account=bench', '--exclusive', '--hint=nomultithread', '--mem=0']
    assert batch['extras'] | {'filesystems': 0} == {'nodes': 860, 'cores': 128, 'memory_bytes': 515_000 << 20, 'filesystems': 0}
    assert re.search(r'nodes: 860 +# TODO .* down\*\+drain, .*; 848 of 860 are up', text)
    assert '860 of 128 cores, 502.9 GiB; 40 of 128 cores, 1007 GiB' in text
    assert gpu['devices'] == [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 4}] and gpu['features'] == ['cpu', 'gpu'] and gpu['extras']['nodes'] == 16
    assert batch['env_vars'] == [['SLURM_MPI_TYPE', 'pmix']] and batch['time_limit'] == '1h'
    assert 'TODO add physical or virtual' in text and 'no folder of yours is known on lustre at /lustre/fs1' in text


def test_a_pbs_site():
    queues = login.pbs_queues(QSTAT_Q, 'workq', {'physics'}, 'carol')
    assert [(q.name, q.default, q.longest, q.most_nodes, q.closed) for q in queues] == [
        ('workq', True, 86400, None, ''), ('gpuq', False, 7200, 8, ''), ('private', False, None, None, ''), ('old', False, None, None, 'enabled = False')]
    nodes = {n.name: n for n in login.pbs_nodes(PBSNODES, QSTAT_Q)}
    assert {name: n.queues for name, n in nodes.items()} == {'x1001': ('workq', 'gpuq', 'old', 'route'), 'x1002': ('workq', 'gpuq', 'old', 'route'),
                                                             'c0001': ('private',), 'c0002': ('workq',)}
    assert (nodes['x1001'].cores, nodes['x1001'].gpus, nodes['x1001'].memory_bytes >> 30, nodes['x1001'].up) == (64, (('a100', 4),), 503, True)
    assert not nodes['x1002'].up and nodes['c0002'].memory_bytes == 256 << 30
    queues = login.pbs_queues(QSTAT_Q, 'workq', set(), 'dave')
    text, parts = written(BatchSystem('pbs', 'PBS 23.06', 'srv', tuple(nodes.values()), tuple(queues)))
    assert set(parts) == {'workq', 'workq-a100'}
    access = parts['workq-a100']['access']
    assert access[:2] == ['-q workq', '-l place=scatter:excl'] and 'ngpus=4' in access and 'ompthreads=1' in access
    # an outage makes no partition smaller
    assert parts['workq-a100']['extras']['nodes'] == 2
    assert re.search(r'nodes: 2 +# TODO fewer, if these do not come back: x1002 down,state-unknown; .*1 of 2 are up', text)
    assert 'left out: gpuq (acl_users)' in text and 'left out: private (acl_groups)' in text


def test_a_pbs_site_that_routes_and_reserves():
    shown = QSTAT_Q.replace('queue_type = Route', 'queue_type = Route\n    route_destinations = small,gpuq@srv') + '''
Queue: small
    queue_type = Execution
    from_route_only = True
    resources_max.walltime = 00:10:00
    default_chunk.system = polar
    enabled = True
    started = True

Queue: R23
    queue_type = Execution
    acl_user_enable = True
    acl_users = carol@srv
    enabled = True
    started = False
'''
    queues = {q.name: q for q in login.pbs_queues(shown, 'route', {'physics'}, 'carol')}
    assert queues['small'].closed == 'from_route_only = True' and queues['R23'] == login.Queue('R23', reserved=True)
    assert queues['route']._replace(name='') == login.Queue('', True, 7200)
    nodes = login.pbs_nodes(PBSNODES, shown)
    assert [n.name for n in nodes if 'route' in n.queues] == ['x1001', 'x1002']
    text, parts = written(BatchSystem('pbs', 'PBS 23.06', 'srv', tuple(nodes), tuple(queues[name] for name in ('route', 'small', 'R23'))))
    assert {part['access'][0] for part in parts.values()} == {'-q route'} and 'left out: R23 (a reservation)' in text


MOUNTS = """\
mds1@o2ib:/fs1 /lustre/fs1 lustre rw,flock 0 0
mds2@o2ib:/fs2 /lustre/fs2 lustre rw,flock 0 0
nas:/home /home nfs4 rw,vers=4.2 0 0
nas:/sw /software nfs4 ro,vers=4.2 0 0
gpfs1 /gpfs/my\\040data gpfs rw 0 0
"""


def test_folders_and_links_of_this_node():
    env = {'SCRATCH': '/lustre/fs1/users/me/', 'WORK': '/lustre/gone/me', 'HOME': '/home/me'}
    found, unknown = login.filesystems(MOUNTS, env, {'/lustre/fs1/users/me', '/home/me'}.__contains__)
    assert found == {'scratch': ('/lustre/fs1/users/me', '$SCRATCH, lustre at /lustre/fs1'), 'home': ('/home/me', '$HOME, nfs4 at /home')}
    assert unknown == ['lustre at /lustre/fs2', 'gpfs at /gpfs/my data']
    text, parts = written(thousand(), HERE._replace(filesystems=found, unknown=unknown, link=login.Link(25000, "mlx5_0 port 1: 200 Gb/sec (4X HDR)")))
    assert parts['batch']['extras']['filesystems'] == {'scratch': '/lustre/fs1/users/me'} and 'known on lustre at /lustre/fs2, gpfs' in text
    at_home, = [{name: folder} for name, folder in found.items() if name == 'home']
    text, _ = written(thousand(), HERE._replace(filesystems=at_home, unknown=[]))
    assert 'filesystems: &filesystems {home: /home/me}' in text and 'no folder of yours' not in text
    assert parts['gpu-h100']['extras']['limits']['link_bandwidth'] == {
        'value': 25000, 'unit': 'MB/s', 'certain': False, 'source': 'login node, mlx5_0 port 1: 200 Gb/sec (4X HDR)'}


def test_the_link_is_that_of_an_active_port(tmp_path):
    def show(folder, **files):
        (tmp_path / 'sys/class' / folder).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / 'sys/class' / folder / name).write_text(text + '\n')
        return login.link(Tree(tmp_path))
    assert show('infiniband/mlx5_0/ports/2', rate='400 Gb/sec (4X NDR)', state='1: DOWN') is None
    port = show('infiniband/mlx5_0/ports/1', rate='100 Gb/sec (4X EDR)', state='4: ACTIVE', link_layer='InfiniBand')
    assert port == (12500, 'mlx5_0 port 1: 100 Gb/sec (4X EDR), InfiniBand')
    assert show('net/hsn0', speed='200000') == (25000, 'hsn0: 200000 Mb/s')


def test_a_probed_site_lists_its_checks_and_dry_runs_at_once(checkout, slurm):
    slurm()
    done = warm.parity(checkout, 'probe trial')
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'partitions batch, batch-himem, gpu-a100, gpu-h100; ' in done.stdout and 'next: parity doctor --system trial' in done.stdout
    listed = reframe(checkout, '--system trial -c checks/ -l')
    assert listed.returncode == 0 and 'FileCopy %mode=large-copy' in listed.stdout, listed.stdout + listed.stderr
    file = checkout / 'systems' / 'trial' / 'system.yaml'
    assert sum('TODO' in line for line in file.read_text().splitlines()) <= 30
    done = reframe(checkout, '--system trial:gpu-h100 -c checks/storage/filecopy/filecopy.py '
                   '-n FileCopy%mode=small-copy%clients=one%sync=durable --dry-run')
    assert done.returncode == 0, done.stdout + done.stderr
    script, = (checkout / 'results' / 'stage').rglob('rfm_job.sh')
    for line in ('--partition=gpu', '--account=bench', '--gres=gpu:h100:4', '--time=1:0:0'):
        assert f'#SBATCH {line}' in script.read_text()
    before = file.read_text()
    again = parity('probe', 'trial', PARITY_ROOT=str(checkout))
    assert again.returncode == 2 and 'is not overwritten' in again.stderr and file.read_text() == before


def test_a_probe_that_fails_says_why_and_leaves_nothing(checkout, slurm, tmp_path):
    slurm()
    login_node = tmp_path / 'bin'
    here = os.environ['PATH']
    for nodes, path, name, code, said in (
            ('all', here, 'a/b', 2, "'a/b': a system's name must have letters"), ('all', here, 'local', 2, 'is there already'),
            ('all', '/nowhere', 'x', 2, 'neither Slurm (scontrol) nor PBS'),
            ('no answer', here, 'x', 4, 'No such file'), ('none', here, 'x', 4, 'has no node in any queue')):
        if nodes == 'no answer':
            (login_node / 'scontrol.0').unlink()
        if nodes == 'none':
            (login_node / 'scontrol.0').write_text('\n')
        done = warm.parity(checkout, f'probe {name}', PATH=path)
        assert (done.returncode, said in done.stderr, 'Traceback' in done.stderr) == (code, True, False), done.stderr
        assert not (checkout / 'systems' / 'x').exists()


SYSTEM = """\
name: trial
hostnames: ['login']
requires: [filecopy, fileset, hpl]
environments: [{name: distro, codes: [filecopy]}]
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
    access: [--partition=batch, --account=bench, --exclusive]
    time_limit: 1h
    extras: {nodes: 4, cores: 128, memory_bytes: 257_698_037_760, filesystems: {scratch: $PARITY_RESULTS/scratch}}
"""


@pytest.mark.parametrize('codes, code', [((), 0), ((0, 0), 0), ((3,), 3), ((3, 4), 4), ((4, 3, 2), 2), ((0, 4), 4)])
def test_the_exit_code_is_that_of_what_comes_first(codes, code):
    assert exit_code(Diagnosis('lacking' if each else 'note', 'a', '', exit_code=each) for each in codes) == code


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Puts a Slurm on PATH, with an answer in the place of another; a script in the place of a whole command."""
    answers = slurm_site.answers()
    answers['scontrol']['--oneliner show licenses'] = 'LicenseName=matlab Total=5 Used=0\n'
    answers['sacct'] = {'-n -X -P -S now -o JobID': ''}
    folder = tmp_path / 'bin'
    monkeypatch.setenv('PATH', f'{folder}:{os.environ["PATH"]}')

    def install(command='', question='', text=''):
        if question:
            answers[command][question] = text
        slurm_site.install(folder, answers)
        if command and not question:
            (folder / command).write_text(f'#!/bin/bash\n{text}\n')
    return install


def examined(tmp_path, *changes: tuple[str, str]) -> list[Diagnosis]:
    text = SYSTEM
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / 'systems' / 'trial' / 'system.yaml'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    with mock.patch.dict(os.environ, PARITY_ROOT=str(tmp_path)):
        return list(partitions.examined(systems.read('trial'), {'cpu'}))


@pytest.mark.parametrize('change, what, code', [
    (('--partition=batch', '--partition=nosuch'), "no queue 'nosuch'", 2), (('cores: 128', 'cores: 1024'), 'cores 1024: of batch a job gets at most 256', 2),
    (('nodes: 4', 'nodes: 2000'), 'at most 900', 2), (('257_698_037_760', '2_000_000_000_000'), 'memory_bytes', 2),
    (('time_limit: 1h', 'time_limit: 2d'), 'batch gives 86400 s', 2), (('--account=bench', '--account=other'), "account 'other' is none of yours", 2),
    (('--exclusive', '--licenses=nosuch:1'), 'there is no such licence', 2), (('--exclusive', '--licenses=matlab:1'), 'batch is up: 888 of 900 nodes', 0),
    (('--partition=batch', '--partition=astro'), 'AllowAccounts=astro', 4), (('nodes: 4', 'nodes: 890'), 'wait, at most 6h', 0)])
def test_what_a_partition_can_never_have_is_configuration(tmp_path, slurm, change, what, code):
    slurm()
    found = examined(tmp_path, change)
    assert exit_code(found) == code and any(what in f.what for f in found), found
    assert all(f.fix for f in found if f.word == 'lacking')


def test_the_night_and_a_study_are_stopped_by_what_doctor_finds(tmp_path, slurm, monkeypatch):
    slurm()
    found = examined(tmp_path, ('--partition=batch', '--partition=nosuch'))
    one = next(f for f in found if f.area == 'partition cpu')
    assert str(one) == f'{tmp_path}/systems/trial/system.yaml:6: partition cpu: {one.what}; {one.fix}'
    monkeypatch.setenv('PARITY_ROOT', str(tmp_path))
    trial = systems.read('trial')
    planned = Plan(system='trial', cases=[made.planned(system='trial', partition='cpu')], checks=[], problems=[])
    assert [f for f in doctor.guards(trial, planned) if f.stops] == [one]
    with pytest.raises(Refused, match=re.escape(str(one))) as refused:
        refuse(partitions.examined(trial, {'cpu'}))
    assert refused.value.exit_code == 2
    refuse(partitions.examined(trial, {'another'}))


@pytest.mark.parametrize('change, code, said, starts', [
    (('--partition=batch', '--partition=nosuch'), 2, "partition cpu: Slurm 22.05.8 has no queue 'nosuch'", False),
    (('requires: []', 'requires: [filecopy, hpl]'), 3, 'required, and no environment offers them: no build by Spack: hpl', True),
    (('requires: []', 'requires: [filecopy]'), 0, '', True),
    (('requires: []', 'requires: []\nnotify: {command: [mail], secrets: /no/such/file}'), 2, '/no/such/file', False)],
    ids=['partition', 'required code', 'in order', 'notices'])
def test_doctor_and_the_dry_run_give_one_answer(checkout, slurm, change, code, said, starts):
    """And a night starts unless both say that it could not run."""
    slurm()
    shutil.rmtree(checkout / 'checks')
    for name in ('storage/filecopy', 'compute/hpl'):
        shutil.copytree(TOP / 'checks' / name, checkout / 'checks' / name, ignore=shutil.ignore_patterns('outputs'))
    folder = checkout / 'systems' / 'trial'
    folder.mkdir()
    (folder / 'system.yaml').write_text(SYSTEM.replace('[filecopy, fileset, hpl]', '[]').replace(*change))
    examined = parity('doctor', '--system', 'trial', '--json', PARITY_ROOT=str(checkout), RFM_CONFIG_FILES=str(checkout / 'reframe' / 'settings.py'))
    rehearsed = nightly(checkout, '--system trial --dry-run')
    assert (examined.returncode, rehearsed.returncode) == (code, code), examined.stdout + rehearsed.stdout + rehearsed.stderr
    lacking = [f for f in json.loads(examined.stdout)['findings'] if f['word'] == 'lacking']
    lines = [line for line in rehearsed.stderr.splitlines() if 'warning: ' not in line]
    assert len(lines) == len(lacking) and all(f['what'] in line for f, line in zip(lacking, lines, strict=True)), rehearsed.stderr
    assert said in rehearsed.stderr and ('could not run' in rehearsed.stdout) is not starts
    assert any(f['stops'] for f in lacking) is not starts
    if not starts:
        night = nightly(checkout, '--system trial')
        assert night.returncode == code and said in night.stderr and not (checkout / 'results' / 'results.db').exists(), night.stdout


def test_a_job_that_its_qos_or_the_site_would_refuse_is_told_beforehand(tmp_path, slurm):
    slurm('sacctmgr', '-nP show user *', 'bench|bench|night,normal|')
    slurm('scontrol', '-a --oneliner show partition', '\n'.join(p.replace('AllowQos=ALL', 'DenyQos=normal') for p in slurm_site.PARTITIONS))
    for change, what in (('--account=bench', 'batch starts no job of account bench with QOS normal: DenyQos=normal'),
                         ('--qos=gold', "QOS 'gold' is none of yours with account 'bench'"), ('--qos=night', '')):
        found = examined(tmp_path, ('--account=bench', change))
        assert [f.what for f in found if f.word == 'lacking'] == ([what] if what else []) and exit_code(found) == (2 if what else 0)
    slurm('sbatch', '', 'echo "sbatch: error: use a GPU or go away" >&2; exit 1')      # a site's job_submit.lua
    found = examined(tmp_path, ('--account=bench', '--qos=night'))
    assert exit_code(found) == 2 and any(f.what == 'sbatch refuses a job: sbatch: error: use a GPU or go away' for f in found)


@pytest.mark.parametrize('answer, what', [
    (('scontrol', '-a --oneliner show partition', '\n'.join(p.replace('State=UP', 'State=DOWN') for p in slurm_site.PARTITIONS)), 'batch is not up'),
    (('scontrol', '-a --oneliner show node', '\n'.join(slurm_site.Nodes('c', 3, 'batch', state='DOWN*').lines())), 'none of the 3 nodes of batch is up'),
    (('sacct', '', 'echo "sacct: error: slurm_persist_conn_open: Connection refused" >&2; exit 1'), 'Connection refused'),
    (('scontrol', '', 'echo "slurm_load_node error: Unable to contact slurm controller" >&2; exit 1'), 'Unable to contact')])
def test_a_batch_system_that_is_down_is_infrastructure(tmp_path, slurm, answer, what):
    slurm(*answer)
    found = examined(tmp_path, ('nodes: 4', 'nodes: 3'))
    lacks, = (f for f in found if f.word == 'lacking')
    assert exit_code(found) == 4 and what in lacks.what and lacks.fix
    if answer[0] == 'sacct':
        assert 'slurmdbd' in lacks.fix and exit_code(examined(tmp_path, ('scheduler: slurm', 'scheduler: squeue'))) == 0


def test_a_site_without_accounting_gets_the_backend_that_needs_none(slurm):
    slurm()
    assert {part['scheduler'] for part in written(login.slurm_cluster())[1].values()} == {'slurm'}
    config = slurm_site.answers()['scontrol']['show config']
    slurm('scontrol', 'show config', re.sub('(AccountingStorageType +)= .*', r'\1= (null)', config))
    text, parts = written(login.slurm_cluster())
    assert {part['scheduler'] for part in parts.values()} == {'squeue'} and 'Slurm keeps no accounting here' in text


def test_an_absent_package_is_one_line_that_names_ci_venv():
    code = 'import sys; sys.modules["pydantic"] = None; from parity.cli import main; sys.argv = ["parity", "doctor", "--system", "local"]; main()'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 4 and re.fullmatch(r'parity: \S+ has no Python package pydantic: run ci/venv, which makes \.venv anew\n', done.stderr)


def test_packages_against_the_lock(monkeypatch):
    import setuptools  # noqa: F401  its own copy of tomli is none that is installed
    real = doctor.version
    assert doctor.python().word == 'ok', doctor.python().what
    monkeypatch.setattr(doctor, 'version', lambda name: '')
    found = doctor.python()
    assert found.word == 'lacking' and 'pydantic' in found.what and 'colorama' not in found.what
    monkeypatch.setattr(doctor, 'version', lambda name: '0.1' if name == 'rich' else real(name))
    assert doctor.python().word == 'note' and 'rich 0.1, not ' in doctor.python().what


def test_a_site_in_order_and_what_each_code_lacks(checkout, slurm):
    slurm()
    (checkout / 'requirements.lock').write_text('')
    folder = checkout / 'systems' / 'trial'
    folder.mkdir()
    (folder / 'system.yaml').write_text(SYSTEM.replace('launcher:', 'luncher:'))
    done = parity('doctor', '--system', 'trial', PARITY_ROOT=str(checkout))
    assert done.returncode == 2 and f'{folder}/system.yaml:8' in done.stdout and 'the rest was not examined' in done.stdout
    (folder / 'system.yaml').write_text(SYSTEM.replace(', fileset, hpl', ''))
    done = warm.parity(checkout, 'doctor --system trial --json')
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told['exit_code'] == 0 and told['system'] == 'trial', done.stdout + done.stderr
    words = {f['area']: f['word'] for f in told['findings']}
    assert words['scheduler'] == words['partition cpu'] == words['settings'] == 'ok' and 'timer' in words
    (folder / 'system.yaml').write_text(SYSTEM)
    (folder / 'references').mkdir()
    (folder / 'references' / 'gpu.yaml').write_text('Hpcc: {}')
    done = parity('doctor', '--system', 'trial', PARITY_ROOT=str(checkout), RFM_CONFIG_FILES=str(checkout / 'reframe' / 'settings.py'))
    assert done.returncode == 2 and 'references/gpu.yaml:1' in done.stdout
    told = ' '.join(done.stdout.split())
    assert 'no environment offers them: no build by Spack: hpl parity software build --system trial' in told      # each code beside what brings it
    assert 'no environment offers them: fileset add an environment with modules that bring them to systems/trial/system.yaml' in told
    assert 'could not run: 3 lacking (exit code 2: configuration)' in done.stdout


def test_results_are_kept_in_a_database_that_the_nodes_see(results):
    assert doctor.filesystem(TOP) and doctor.filesystem(type(TOP)('/proc/self')) == 'proc'
    (results / 'results.db').write_text('this is no database')
    found, = doctor.results(systems.read('local'))
    assert found.word == 'lacking' and 'not a database' in found.what and exit_code([found]) == 4


def test_each_processor_that_labels_name_gets_an_environment_of_spack():
    def nodes(queue: str, *labels: str) -> list[login.Node]:
        return [login.Node(f'{queue}{i}', (queue,), cores=64, threads=1, memory_bytes=1 << 38, labels=labels) for i in (1, 2)]

    every = (*nodes('a', 'milan', 'ib'), *nodes('b', 'icelake'), *nodes('c', 'Milan'), *nodes('d', 'intel'))
    cluster = BatchSystem('slurm', 'Slurm', 'x', every, tuple(Queue(name) for name in 'abcd'))
    text, _ = written(cluster)
    assert yaml.safe_load(text)['spack'] == [
        {'name': 'zen3', 'partitions': ['a', 'c'], 'target': 'zen3'}, {'name': 'icelake', 'partitions': ['b'], 'target': 'icelake'},
        {'name': 'spack', 'partitions': ['d']}]
    assert 'TODO target: no label of these nodes names a processor' in text
    assert {*write._TARGETS.values()} <= write.cpu.TARGETS.keys()
    plain = BatchSystem('slurm', 'Slurm', 'x', tuple(nodes('d', 'intel')), (Queue('d'),))
    assert 'spack' not in yaml.safe_load(written(plain)[0])


#: What `module -t avail` prints of a tree of two toolchains: of Lmod 8, and of Environment Modules 5.
AVAIL = {'lmod': """/opt/modules/all:
GCC/13.2.0
HPL/
HPL/2.3-foss-2023b
HPL/2.3-intel-2023b
OSU-Micro-Benchmarks/
OSU-Micro-Benchmarks/7.2-gompi-2023b
foss/2023b
""", 'envmod': """/opt/modules/all:
GCC/13.2.0
HPL/2.3-foss-2023b
HPL/2.3-intel-2023b(default)
OSU-Micro-Benchmarks/7.2-gompi-2023b
foss/2023b
"""}


@pytest.mark.parametrize('system', AVAIL)
def test_modules_that_bring_codes_become_environments(system):
    found = modules.of_codes(AVAIL[system])
    assert found == [('HPL/2.3-foss-2023b', 'hpl'), ('HPL/2.3-intel-2023b', 'hpl'), ('OSU-Micro-Benchmarks/7.2-gompi-2023b', 'osu')]
    text, _ = written(thousand(), HERE._replace(modules=tuple(found)))
    assert yaml.safe_load(text)['environments'][1:] == [
        {'name': 'HPL-2-3-foss-2023b', 'modules': ['HPL/2.3-foss-2023b'], 'codes': ['hpl']},
        {'name': 'HPL-2-3-intel-2023b', 'modules': ['HPL/2.3-intel-2023b'], 'codes': ['hpl']},
        {'name': 'OSU-Micro-Benchmarks-7-2-gompi-2023b', 'modules': ['OSU-Micro-Benchmarks/7.2-gompi-2023b'], 'codes': ['osu']}]


def test_every_name_that_easybuild_gives_a_code_is_known():
    names = ['OSU-Micro-Benchmarks', 'HPL', 'IOR', 'HPCG', 'STREAM', 'IMB', 'FIO', 'HPCC', 'GROMACS', 'LAMMPS']
    assert [code for _, code in modules.of_codes('\n'.join(f'{name}/1.0' for name in names))] == [
        'fio', 'gromacs', 'hpcc', 'hpcg', 'hpl', 'imb', 'ior', 'lammps', 'osu', 'stream']
