"""What is asked of a batch system for every case, what its node says of itself (programs/node.sh), how a job was ended, and where its ranks ran."""

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace as Made

import pytest

from conftest import TOP, shell
from parity.base import reasons, submission
from parity.judge.store.case_record import CaseRecord
from parity.measure.scheduler import command, placement, scheduled
from parity.measure.scheduler.placement import Place, Ran, Rank, RankLayout
from parity.site import identity
from warm import reframe

NODE = TOP / 'jobs' / 'programs' / 'node.sh'


def program(file: Path, text: str) -> None:
    file.write_text(f'#!/bin/sh\n{text}\n')
    file.chmod(0o755)


def case(scheduler='pbs', tasks=4, each=2, nodes=64, access=(), options=(), cli=()):
    part = Made(scheduler=Made(registered_name=scheduler), extras={'nodes': nodes}, fullname='site:cpu',
                launcher_type=Made(registered_name='mpirun' if scheduler == 'pbs' else 'srun'))
    staged = []
    job = Made(sched_access=list(access), options=list(options), cli_options=list(cli), pin_nodes=[])
    return Made(num_tasks=tasks, num_tasks_per_node=each, current_partition=part, job=job, max_pending_time=None,
                standalone=True, parity=CaseRecord(), prerun_cmds=[], postrun_cmds=[], staged=staged, stage_program=staged.append)


@pytest.mark.parametrize('made, said', [
    (case(), ''), (case(tasks=5), '5 tasks do not divide by 2 per node: PBS would drop the last 1'), (case('slurm', tasks=5), ''), (case('slurm', tasks=200), 'needs 100 nodes, site:cpu has 64'),
    (case(nodes=None, tasks=200), ''), (case(access=['-j oe']), 'waits for both for ever'), (case(cli=['-joe']), 'waits for both for ever'),
    (case('slurm', access=['-j oe']), ''), (case(access=['-l place=excl:pack']), 'a job of 2 nodes never starts on one host'),
    (case(tasks=2, access=['-l place=pack']), ''), (case(access=['-l place=scatter']), '')])
def test_an_option_that_a_scheduler_would_misread_is_refused(made, said):
    assert said in submission.of_case(made) and bool(said) == bool(submission.of_case(made))


def test_a_job_option_that_reframe_would_wait_for_ever_for_ends_the_case(checkout):
    done = reframe(checkout, '--system example-pbs:cpu -c checks/compute/hpl/hpl.py -n Hpl -J j=oe --dry-run')
    assert done.returncode == 1 and "'-j oe' joins the files of a PBS job" in done.stdout


STEP = 'slurmstepd-v1: error: Detected 1 oom-kill event(s) in StepId=46.0. Some of your processes may have been killed'


@pytest.mark.parametrize('state, complaint, said', [
    ('COMPLETED', '', ''), (None, '', ''), ('RUNNING', '', ''), ('TIMEOUT', '', 'time limit reached, 600 s (job 7 on v3: TIMEOUT)'),
    ('COMPLETED,NODE_FAIL', '', 'a node failed (job 7 on v3: NODE_FAIL)'), ('CANCELLED', '', 'cancelled (job 7 on v3'),
    # a step that was killed, although the job was completed
    ('COMPLETED', STEP, 'memory exceeded (job 7 on v3: OUT_OF_MEMORY)'),
    ('COMPLETED', 'srun: error: Node failure on v1', 'a node failed'), ('COMPLETED', 'srun: error: v1: task 0: Exited with exit code 1', ''),
    ({'Exit_status': '-27'}, '', 'memory exceeded'), ({'Exit_status': '-3'}, '', 'PBS could not run it'), ({'Exit_status': '265'}, '', 'ended by signal 9'),
    ({'Exit_status': '0', 'substate': '91', 'comment': 'terminated by root@a'}, '', 'cancelled')])
def test_the_end_of_a_job_is_told_whatever_its_exit_code_says(state, complaint, said):
    record, state = (state, 'COMPLETED') if isinstance(state, dict) else ({}, state)
    job = Made(state=state, pbs=record, jobid='7', nodelist=['v3'], time_limit=600.0, exitcode=0)
    kind, told = scheduled.ended(job, f'a line before\n{complaint}\n')
    assert told.startswith(said) and bool(told) == bool(said)
    assert kind == reasons.kind('failed', told)     # as of a session of before


@pytest.mark.parametrize('queue, accounting, said', [
    ('ReqNodeNotAvail, UnavailableNodes:p1', 'echo None', ', Reason ReqNodeNotAvail, UnavailableNodes:p1'),      # Slurm 26.05
    ('JobHeldUser', 'echo BeginTime', ', Reason JobHeldUser'), ('', 'echo Licenses', ', Reason Licenses'), ('', 'echo None', ''), ('', 'exit 1', '')])
def test_a_job_that_never_began_is_told_with_its_reason_for_waiting(tmp_path, monkeypatch, queue, accounting, said):
    """Once the job is cancelled, sacct of new versions has no reason: squeue's from before counts."""
    program(tmp_path / 'sacct', accounting)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    job = Made(state='CANCELLED', jobid='7', nodelist=[], max_pending_time=20.0, standing=command.Standing(True, 0.0, queue))
    kind, told = scheduled.ended(job)
    assert (kind.value, told) == ('cancelled', f'cancelled while it waited in the queue, at most 20 s (job 7: CANCELLED{said})')


@pytest.mark.parametrize('scheduler, tasks, option, staged', [
    ('slurm', 4, ['--no-requeue'], []), ('pbs', 4, ['-r n'], ['pbs_rsh.sh']), ('pbs', 2, ['-r n'], []), ('local', 4, [], [])])
def test_every_job_runs_once_and_on_several_nodes_of_pbs_brings_its_remote_shell(scheduler, tasks, option, staged):
    made = case(scheduler, tasks)
    scheduled.begin(made)
    assert made.job.options == option and made.max_pending_time == ('6h' if option else None)
    assert made.staged == staged and len(made.prerun_cmds) == len(staged)


#: What mpirun does: with its agent, a host and one line for a shell.
LINE = """  PATH=/opt/mpi/bin:$PATH ; export PATH ; printf '<%s>' "$PATH" "$0" -mca orte_hnp_uri '1.0;tcp://10.0.0.1:4' """


def test_the_remote_shell_gives_pbs_a_shell_with_the_path_of_the_job(tmp_path):
    program(tmp_path / 'pbs_tmrsh', 'echo "on $1"; shift; exec env -i "$@"')      # a program without a PATH
    shutil.copy(TOP / 'jobs/programs/pbs_rsh.sh', tmp_path)
    done = shell(f"{scheduled._REMOTE_SHELL}; $OMPI_MCA_plm_rsh_agent n2 {shlex.quote(LINE)}", tmp_path, PATH=f'{tmp_path}:/usr/bin:/bin')
    assert done.stdout == (f"on n2\n</opt/mpi/bin:{tmp_path}:/usr/bin:/bin:{tmp_path}></bin/sh>"
                           '<-mca><orte_hnp_uri><1.0;tcp://10.0.0.1:4>'), done.stderr
    # a site's own wins
    done = shell(f'{scheduled._REMOTE_SHELL}; echo "$OMPI_MCA_plm_rsh_agent $PRTE_MCA_plm_ssh_agent"', tmp_path, OMPI_MCA_plm_rsh_agent='ssh')
    assert done.stdout == 'ssh pbs_rsh.sh\n'


@pytest.mark.skipif('User Mode Linux' in Path('/proc/cpuinfo').read_text(), reason='a guest of User-mode Linux knows itself')
@pytest.mark.parametrize('programs, said', [
    ({'systemd-detect-virt': 'echo none; exit 1'}, 'none'), ({'systemd-detect-virt': 'echo qemu', 'lscpu': 'echo "Hypervisor vendor: KVM"'}, 'qemu'),
    ({'lscpu': 'echo "Hypervisor vendor:                     KVM"'}, 'kvm')])
def test_a_node_names_its_hypervisor_and_the_nodes_of_its_job(tmp_path, programs, said):
    for name in ('sh', 'sed', 'head', 'tr', 'grep', 'uname'):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, text in programs.items():
        program(tmp_path / name, text)
    (tmp_path / 'node.txt').write_bytes(subprocess.check_output(['sh', NODE], env={'PATH': str(tmp_path), 'SLURM_JOB_NODELIST': 'p[1-2]'}))
    told = scheduled.node_report(str(tmp_path))
    assert (told['virtualisation'], told['nodes'], scheduled.node(str(tmp_path))['node']) == (said, 'p[1-2]', platform.node())


RANK_SH = TOP / 'jobs' / 'programs' / 'rank.sh'
#: Two sockets of two cores of two hardware threads.
TOPOLOGY = {cpu: Place(cpu % 4, cpu % 2) for cpu in range(8)}
A0, A1, B0, B1 = ('a', {0, 4}), ('a', {1, 5}), ('b', {0, 4}), ('b', {1, 5})
ALL = ('a', set(range(8)))


@pytest.mark.parametrize('asked, there, why', [
    (RankLayout(1, 2), (('a', {0}), ('a', {1})), ''),          # one of the core's two threads
    (RankLayout(2, 4), (A0, A1, B0, B1), ''), (RankLayout(2, 3, order='cyclic'), (A0, B0, A1), ''),
    (RankLayout(1, 2, 'socket'), (('a', {0, 2, 4, 6}), ('a', {1, 3, 5, 7})), ''), (RankLayout(1, 2, 'none'), (ALL, ALL), ''),
    (RankLayout(1, 2), (A0,), '1 of 2 ranks noted where they ran'), (RankLayout(1, 2), (A0, B0), r'ran on 2 nodes \(a, b\), asked for 1'),
    (RankLayout(2, 4), (A0, A1, ('a', {2, 6}), B0), '3 ranks on one node, asked for 2'),
    (RankLayout(2, 4), (A0, B0, A1, B1), 'rank 1 is on b: not in block order'),
    (RankLayout(2, 4, order='cyclic'), (A0, A1, B0, B1), 'rank 1 is on a: not in cyclic order'),
    (RankLayout(1, 2), (('a', {0}), ('a', {4})), '2 ranks are bound to core 0 of a'),        # hardware threads of one core
    (RankLayout(1, 1), (('a', {0, 1}),), 'rank 0 may run on CPUs 0-1: not bound to one core'),
    (RankLayout(1, 1, 'socket'), (('a', {1, 2, 3, 5}),), 'rank 0 may run on CPUs 1-3,5: not bound to one socket'),
    (RankLayout(1, 1, 'socket'), (A0,), 'rank 0 may run on CPUs 0,4 only: not bound to socket'),
    (RankLayout(1, 1, 'socket'), (('a', {0, 2, 4}),), 'rank 0 may run on CPUs 0,2,4 only: not bound to socket'),
    (RankLayout(1, 1, 'none'), (A0,), 'rank 0 may run on CPUs 0,4 only: not bound to none')])
def test_elsewhere_than_asked(asked, there, why):
    ran = Ran(tuple(Rank(i, node, frozenset(cpus)) for i, (node, cpus) in enumerate(there)), TOPOLOGY, frozenset(TOPOLOGY))
    told = placement.problem(asked, ran)
    assert bool(told) == bool(why) and re.search(why, told)
    assert why or 'binding is not known' in placement.problem(asked, ran._replace(topology={}))


@pytest.mark.parametrize('binding', placement.BINDINGS)
@pytest.mark.parametrize('order', placement.ORDERS)
def test_each_launcher_is_asked_for_the_binding_and_the_order(binding, order):
    """Hydra binds to the cores of a node one after another, as Open MPI does by slots."""
    asked = placement.variables(RankLayout(2, 4, binding, order))
    assert asked.keys() == identity.PLACING and all(asked.values())
    assert (asked['HYDRA_BINDING'], asked['HYDRA_MAPPING']) == (binding, 'core')
    assert {*asked} >= {variable for variables in placement.BOUND_BY.values() for variable in variables}


def test_two_ranks_on_one_device_are_named():
    def why(*devices):
        ranks = tuple(Rank(i, 'a', frozenset({i}), device) for i, device in enumerate(devices))
        return placement.problem(RankLayout(1, 2), Ran(ranks, TOPOLOGY, frozenset(TOPOLOGY)))
    assert why('GPU-7', 'GPU-7') == 'ranks 0 and 1 are on one device of a: GPU-7'
    assert not why('GPU-7', 'GPU-8') and not why('unknown', 'unknown') and not why('', '')


def test_any_other_file_is_no_note(tmp_path):
    notes = {'0': '0 a 0-1,4\n', '1': '1 a', '2': '7 a 0\n', 'topology': '# CPU,Core,Socket\n0,0,0\n1,1,\n'}     # 1: the disk was full
    for name, text in notes.items():
        (tmp_path / name).write_text(text)
    found = placement.read(tmp_path)
    assert found.ranks == (Rank(0, 'a', frozenset({0, 1, 4})),) and found.topology == {0: (0, 0), 1: (1, 0)}
    assert found.as_records() == [{'rank': 0, 'node': 'a', 'cpus': '0-1,4'}]


def test_a_rank_notes_itself_and_becomes_the_program(tmp_path):
    def rank(*words, **env):
        return subprocess.run([RANK_SH, *words], cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True)
    (tmp_path / 'ranks').mkdir()
    done = rank('sh', '-c', 'echo "$1"; exit 7', 'x', 'a b;c', OMPI_COMM_WORLD_RANK='3')
    assert (done.returncode, done.stdout) == (7, 'a b;c\n')
    found, = placement.read(tmp_path / 'ranks').ranks
    assert found.number == 3 and found.cpus == os.sched_getaffinity(0)
    # a profiler is loaded into the program alone
    done = rank('--preload', 'libnone.so', 'PROFILER=-k0,-e', 'sh', '-c', 'echo "$LD_PRELOAD $PROFILER $1"', 'x', 'y')
    assert done.stdout == 'libnone.so -k0,-e y\n'
    done = rank('--preload', '/no/lib.so', 'PROFILER=', 'true')
    assert done.returncode == 1 and '/no/lib.so: cannot be read' in done.stderr


def test_mpi4py_finds_debians_mpich_by_the_name_that_it_asks_for(tmp_path):
    (tmp_path / 'ranks').mkdir()
    library = tmp_path / 'libmpich.so.12'
    library.write_text('the library')
    for _ in range(2):                          # each rank of a node
        done = subprocess.run([RANK_SH, 'sh', '-c', 'cat "${LD_LIBRARY_PATH%%:*}/libmpi.so.12"; echo ":${LD_LIBRARY_PATH#*:}"'], cwd=tmp_path,
                              env={**os.environ, 'MPI4PY_LIBMPI': str(library), 'LD_LIBRARY_PATH': '/mine'}, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ('the library:/mine\n', '')
    for other in ('/usr/lib/libmpi.so.12', ''):
        done = subprocess.run([RANK_SH, 'sh', '-c', 'echo "$LD_LIBRARY_PATH"'], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, 'MPI4PY_LIBMPI': other, 'LD_LIBRARY_PATH': '/mine'})
        assert done.stdout == '/mine\n'


#: What programs/gpus.py tells, as it writes it.
DEVICES = json.dumps({'node': 'a', 'devices': [{'index': at, 'uuid': f'GPU-{at}{at}', 'bus': f'0{at}'} for at in range(2)]}, indent=1)


@pytest.mark.parametrize('env, told, number, device', [
    ({'OMPI_COMM_WORLD_LOCAL_RANK': '1', 'SLURM_LOCALID': '0'}, DEVICES, '1', 'GPU-11'), ({'SLURM_LOCALID': '3'}, DEVICES, '3', 'GPU-11'),
    ({'PALS_LOCAL_RANKID': '0'}, DEVICES, '0', 'GPU-00'), ({'MPI_LOCALRANKID': '1'}, '', '1', 'unknown'), ({}, DEVICES, '0', 'GPU-00'),
    ({'MPI_LOCALRANKID': '1', 'CUDA_VISIBLE_DEVICES': 'MIG-5'}, DEVICES, '1', 'unknown')])
def test_a_rank_takes_the_device_of_its_number_on_the_node_and_notes_it(tmp_path, env, told, number, device):
    (tmp_path / 'ranks').mkdir()
    (tmp_path / 'gpus.py').write_text(f'print({told!r})')
    known = {name: value for name, value in os.environ.items() if not re.search('LOCAL|SLURM|CUDA', name)}
    done = subprocess.run([RANK_SH, '--device', 'rocm', 'sh', '-c', 'echo "$LOCAL_RANK $MV2_COMM_WORLD_LOCAL_RANK $CUDA_DEVICE_ORDER"'],
                          cwd=tmp_path, env={**known, **env}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f'{number} {number} PCI_BUS_ID\n', '')
    found, = placement.read(tmp_path / 'ranks').ranks
    assert found.device == device and found.cpus == os.sched_getaffinity(0)


@pytest.mark.parametrize('api, said, runs', [('cuda', 'false', False), ('cuda', 'true', True), ('rocm', 'false', True), ('cuda', None, True)])
def test_a_rank_ends_at_once_where_its_mpi_sends_from_no_device(tmp_path, api, said, runs):
    (tmp_path / 'ranks').mkdir()
    program(tmp_path / 'mpirun', '')
    if said:
        program(tmp_path / 'ompi_info', f'echo mca:mpi:base:param:mpi_built_with_cuda_support:value:{said}')
    for rank in '01':
        done = subprocess.run([RANK_SH, '--device', api, 'echo', 'ran'], cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, 'OMPI_COMM_WORLD_RANK': rank, 'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
        reason = 'rank.sh: this MPI sends from no device: mpi_built_with_cuda_support is false\n' if rank == '0' else ''
        assert (done.returncode, done.stdout) == (0, 'ran\n' if runs else reason)
    assert len(placement.read(tmp_path / 'ranks').ranks) == 2
