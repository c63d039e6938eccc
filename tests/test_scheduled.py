"""What is asked of a batch system for every case, what is refused before, and how a job was ended."""

from __future__ import annotations

import shlex
from types import SimpleNamespace as Made

import pytest

from conftest import TOP, shell
from parity.base import traps
from parity.scheduler import scheduled


def case(scheduler='pbs', tasks=4, each=2, nodes=64, access=(), options=(), cli=()):
    part = Made(scheduler=Made(registered_name=scheduler), extras={'nodes': nodes}, fullname='site:cpu',
                launcher_type=Made(registered_name='mpirun' if scheduler == 'pbs' else 'srun'))
    staged = []
    job = Made(sched_access=list(access), options=list(options), cli_options=list(cli), pin_nodes=[])
    return Made(num_tasks=tasks, num_tasks_per_node=each, current_partition=part, job=job, max_pending_time=None,
                standalone=True, parity={}, prerun_cmds=[], staged=staged, stage_program=staged.append)


@pytest.mark.parametrize('made, said', [
    (case(), ''), (case(tasks=5), '5 tasks, 2 a node'), (case('slurm', tasks=5), ''),
    (case(tasks=200), '100 nodes can never be had: site:cpu has 64'), (case('slurm', tasks=200), '100 nodes can never'),
    (case(nodes=None, tasks=200), ''), (case(access=['-j oe']), 'waits for both for ever'),
    (case(options=['-joe']), 'waits for both for ever'), (case(cli=['-j eo']), 'waits for both for ever'),
    (case('slurm', access=['-j oe']), '')])
def test_what_a_scheduler_would_misread_is_refused(made, said):
    assert said in traps.problem(made) and bool(said) == bool(traps.problem(made))


def test_a_job_option_that_reframe_would_wait_for_ever_for_ends_the_case(checkout):
    done = shell('. ci/activate && reframe --system example-pbs:cpu -c checks/compute/hpl.py -n Hpl -J j=oe --dry-run', checkout)
    assert done.returncode == 1 and '-j oe: joins the files of a PBS job' in done.stdout


@pytest.mark.parametrize('state, said', [
    ('COMPLETED', ''), ('FAILED', ''), (None, ''), ('RUNNING', ''),
    ('TIMEOUT', 'time limit reached, 600 s (job 7 on v3: TIMEOUT)'), ('OUT_OF_MEMORY', 'memory exceeded (job 7 on v3'),
    ('COMPLETED,NODE_FAIL', 'a node failed (job 7 on v3: NODE_FAIL)'), ('CANCELLED', 'cancelled (job 7 on v3')])
def test_what_ended_a_job_is_told_whatever_its_exit_code_says(state, said):
    told = scheduled.ended(Made(state=state, jobid='7', nodelist=['v3'], time_limit=600.0, exitcode=0))
    assert told.startswith(said) and bool(told) == bool(said)


def test_a_job_that_left_no_output_is_told_with_its_nodes_and_the_folder():
    told = scheduled.no_output(Made(nodelist=['p1', 'p2']), '/local/stage/Hpcc')
    assert told.startswith('a node of p1, p2 was gone before it wrote any, or does not see /local/stage/Hpcc (')
    assert scheduled.no_output(Made(nodelist=None), '/stage').startswith('a node was gone')


@pytest.mark.parametrize('complaint, said', [
    ('slurmstepd-v1: error: Detected 1 oom-kill event(s) in StepId=46.0. Some of your processes may have been killed', 'memory exceeded (job 7 on v3: OUT_OF_MEMORY)'),
    ('slurmstepd: error: Detected 2 oom_kill events in StepId=46.batch.', 'memory exceeded'),
    ('srun: error: Node failure on v1', 'a node failed'), ('srun: error: v1: task 0: Exited with exit code 1', '')])
def test_a_step_that_was_killed_is_told_although_the_job_was_completed(complaint, said):
    job = Made(state='COMPLETED', jobid='7', nodelist=['v3'], time_limit=600.0, exitcode=0)
    assert scheduled.ended(job, f'a line before\n{complaint}\n').startswith(said)
    assert bool(scheduled.ended(job, complaint)) == bool(said)


@pytest.mark.parametrize('answer, said', [
    ('echo Licenses', 'cancelled while it waited in the queue, at most 20 s (job 7: CANCELLED, Reason Licenses)'),
    ('exit 1', 'cancelled while it waited in the queue, at most 20 s (job 7: CANCELLED)')])
def test_a_job_that_never_began_is_told_with_what_it_waited_for(tmp_path, monkeypatch, answer, said):
    (tmp_path / 'sacct').write_text(f'#!/bin/sh\n{answer}\n')
    (tmp_path / 'sacct').chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path), prepend=':')
    assert scheduled.ended(Made(state='CANCELLED', jobid='7', nodelist=[], max_pending_time=20.0)) == said


@pytest.mark.parametrize('scheduler, option', [('slurm', ['--no-requeue']), ('pbs', ['-r n']), ('local', [])])
def test_a_measurement_is_never_begun_again_on_another_node(scheduler, option):
    made = case(scheduler)
    scheduled.begin(made)
    assert made.job.options == option and made.max_pending_time == ('6h' if option else None)


@pytest.mark.parametrize('scheduler, tasks, staged', [('pbs', 4, ['pbs_rsh.sh']), ('pbs', 2, []), ('slurm', 4, []), ('local', 4, [])])
def test_a_case_on_several_nodes_of_pbs_brings_its_remote_shell(scheduler, tasks, staged):
    made = case(scheduler, tasks)
    scheduled.begin(made)
    assert made.staged == staged and len(made.prerun_cmds) == len(staged)


#: What mpirun does: with its agent, a host and one line for a shell.
LINE = """  PATH=/opt/mpi/bin:$PATH ; export PATH ; printf '<%s>' "$PATH" "$0" -mca orte_hnp_uri '1.0;tcp://10.0.0.1:4' """


def test_the_remote_shell_gives_pbs_a_shell_with_the_job_s_path(tmp_path):
    (tmp_path / 'pbs_tmrsh').write_text('#!/bin/sh\necho "on $1"; shift; exec env -i "$@"\n')    # a program without a PATH
    (tmp_path / 'pbs_tmrsh').chmod(0o755)
    (tmp_path / 'pbs_rsh.sh').write_bytes((TOP / 'jobs/programs/pbs_rsh.sh').read_bytes())
    (tmp_path / 'pbs_rsh.sh').chmod(0o755)
    job = f"{scheduled._REMOTE_SHELL}; $OMPI_MCA_plm_rsh_agent n2 {shlex.quote(LINE)}"
    done = shell(job, tmp_path, PATH=f'{tmp_path}:/usr/bin:/bin')
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"on n2\n</opt/mpi/bin:{tmp_path}:/usr/bin:/bin:{tmp_path}></bin/sh>"
                           '<-mca><orte_hnp_uri><1.0;tcp://10.0.0.1:4>')


def test_a_site_s_own_remote_shell_wins(tmp_path):
    done = shell(f'{scheduled._REMOTE_SHELL}; echo "$OMPI_MCA_plm_rsh_agent $PRTE_MCA_plm_ssh_agent"', tmp_path, OMPI_MCA_plm_rsh_agent='ssh')
    assert done.stdout == 'ssh pbs_rsh.sh\n'
