"""Job scripts: the same description for Slurm, PBS and plain bash, and nothing in them that nobody quoted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import commands
import warm
from conftest import PATIENCE, TOP, activated, belong_to, copied, run_python
from parity.base.errors import ParityError, UsageError
from parity.measure.check.workload import Workload
from parity.measure.jobs import request, sent, write
from parity.measure.jobs.request import Settings
from parity.measure.probe import partitions
from parity.nightly import doctor
from parity.site import plan, systems
from parity.site.plan import Plan
from replay import room

GOLDEN = TOP / 'tests' / 'golden'
#: One script of each job, for each scheduler.
SCRIPTS = {
    'build': {}, 'nightly': {'partitions': ['cpu'], 'after': '12'},
    'campaign': {'partitions': ['gpu', 'cpu'], 'repeats': 2, 'nodes': [1, 4], 'name': 'again'},
    'workload': {'partitions': ['cpu'], 'check': 'hpl'},
}
#: The scripts that are stored, to be read.
STORED = {('example-slurm', 'nightly'), ('example-pbs', 'workload')}
HOSTILE = ('x;touch pwned', '$(touch pwned)', '`touch pwned`', "a'b", 'a b', 'a\n#SBATCH --uid=0', '../x')


@pytest.fixture
def site(tmp_path, planned, surveyed, monkeypatch):
    """A checkout of the test's own, at a path with a space, that parity takes for its root. Its plans were made before."""
    def restricted(arguments: list[str]) -> plan.Plan:
        system, _, partition = arguments[arguments.index('--system') + 1].partition(':')
        whole = planned(system)
        return whole.model_copy(update={'cases': [c for c in whole.cases if partition in ('', c.partition)]})

    checkout = copied(tmp_path, 'reframe')
    belong_to(checkout, monkeypatch)
    monkeypatch.setattr('parity.measure.rfm.planning.of_command', restricted)
    monkeypatch.setattr(write, 'subprocess', warm.SUBPROCESS)
    monkeypatch.setenv('PARITY_ROOT', str(checkout))
    monkeypatch.setenv('PATH', activated(checkout, os.environ['PATH']))
    surveyed(checkout, checkout / 'results')
    for name in write.CARRIED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv('RFM_CONFIG_FILES', str(checkout / 'reframe' / 'settings.py'))
    return checkout


def states(site: Path, system: str, text: str) -> None:
    (site / 'systems' / system / 'jobs.yaml').write_text(text)


def script(job: str, system: str, **other) -> str:
    return write.script(job, system, **other)[1]


def bash(text: str, **options) -> subprocess.CompletedProcess:
    """Run a script as it comes through a pipe."""
    return subprocess.run(['bash'], input=text, text=True, capture_output=True, timeout=PATIENCE, **options)


@pytest.mark.parametrize('system', ['example-slurm', 'example-pbs'])
@pytest.mark.parametrize('job', SCRIPTS)
def test_the_scripts_are_as_agreed(site, system, job, tmp_path):
    """Two are stored: written anew with PARITY_GOLDEN=write; read the difference before it is committed."""
    asked, text = write.script(job, system, **SCRIPTS[job])
    assert len(asked.name) <= 15, 'PBS cuts the names of jobs'
    text = text.replace(str(site), '/a check out')
    golden = (GOLDEN if (system, job) in STORED else tmp_path) / f'{system}-job-{job}.sh'
    if (system, job) not in STORED or os.environ.get('PARITY_GOLDEN') == 'write':
        golden.write_text(text)
    assert text == golden.read_text()
    subprocess.run(['bash', '-n', golden], check=True)
    if shutil.which('shellcheck'):
        done = subprocess.run(['shellcheck', golden], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[:3000]


def test_a_workload_runs_without_parity_and_gives_the_figures_of_its_check(site, tmp_path):
    text = script('workload', 'local', check='FileCopy%mode=small-write%clients=one%sync=as-is')
    elsewhere = tmp_path / 'else where'
    elsewhere.mkdir()
    done = bash(text, cwd=elsewhere, env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)})
    assert done.returncode == 0 and room('filecopy').read(done.stdout)[0]['seconds'] > 0, done.stderr
    assert list(elsewhere.iterdir()) == [], 'it takes its folder away'
    assert 'import parity' not in text and 'rfm_' not in text


def test_no_script_for_others_names_the_checkout(results_here, tmp_path, monkeypatch):
    monkeypatch.chdir(TOP)
    words = ['-c', str(TOP / 'checks'), '--system', 'local', '--stage', f'{tmp_path}/stage', '--output', f'{tmp_path}/output']
    done = warm.SUBPROCESS.run([sys.executable, '-m', 'parity.measure.jobs.standalone', *words, '--dry-run', '--exec-policy=serial'], env={
        **os.environ, 'PARITY_REFRAME_LOG': f'{tmp_path}/log', 'RFM_CONFIG_FILES': str(TOP / 'reframe' / 'settings.py'),
        'PATH': activated(TOP, os.environ['PATH'])})
    scripts = {f.parent.name: f.read_text().replace(str(f.parent), '') for f in (tmp_path / 'stage').rglob('rfm_job.sh')}
    assert any(name.startswith('FileCopy') for name in scripts), done.stdout
    assert not [name for name, text in scripts.items() if str(TOP) in text or str(results_here) in text or sys.prefix in text]


def test_a_script_for_others_says_which_python_it_lacks():
    made = SimpleNamespace(standalone=True, prerun_cmds=[])
    assert Workload.python(made) == '"${PYTHON:-python3}"'
    for named, code in (('/no/python', 2), ('/bin/false', 2), ('/bin/true', 0)):
        done = bash(made.prerun_cmds[0], env={**os.environ, 'PYTHON': named})
        assert done.returncode == code and ('PYTHON: name a Python that has mpi4py' in done.stderr) == bool(code)


@pytest.mark.parametrize('name', HOSTILE[:-1])
@pytest.mark.parametrize('view', ['', '/{}/bin'])
def test_a_program_of_any_name_is_one_word_of_the_job_script(tmp_path, name, view):
    view = view.format(name)
    made = SimpleNamespace(standalone=False, current_environ=SimpleNamespace(extras={'software': {'view': view}}))
    assert bash(f"printf '%s|' {Workload.program(made, name)}", cwd=tmp_path).stdout == f'{view}/{name}|'.removeprefix('' if view else '/')


def test_a_workload_that_is_submitted_takes_the_python_of_the_checkout(site):
    rendered, submitted = (script('workload', 'local', check='FileCopy%mode=large-copy%clients=one%sync=durable', own=own) for own in (False, True))
    named = re.search(r'^CODES=.*', submitted, re.M)[0]
    assert sys.executable not in rendered and 'PYTHON=' in named
    for given, python in ({}, sys.executable), ({'PYTHON': '/theirs'}, '/theirs'):
        assert bash(f'{named}\necho "$PYTHON"', env=given).stdout == f'{python}\n'


def test_steps_are_interleaved_and_each_second_repeat_turns_round():
    parts = systems.read('example-slurm').partitions[:2]
    assert request.steps(parts, Settings(repeats=2, nodes=[1, 64]), False) == [
        ('cpu', 1, 1), ('virtual', 1, 1), ('cpu', 64, 1), ('virtual', 64, 1), ('virtual', 1, 2), ('cpu', 1, 2), ('virtual', 64, 2), ('cpu', 64, 2)]
    assert {s.nodes for s in request.steps(parts, Settings(repeats=1), False)} == {1, 2, 4}
    assert {s.nodes for s in request.steps(parts, Settings(repeats=1), True)} == {1}


NIGHTLY = """#!/bin/bash
echo "$*" >>"$PWD/calls"
case "$*" in *repeat=2*) exit "${SECOND:-0}" ;; esac
"""


@pytest.mark.parametrize('check, pattern', [('filecopy', '-n FileCopy)'), ('npb %benchmark=BT', r"-n 'Npb%benchmark=bt(%|$)')")])
def test_a_campaign_measures_a_check_or_a_case(site, check, pattern):
    assert pattern in script('campaign', 'example-slurm', check=check)


def test_a_campaign_goes_on_where_it_was_interrupted(site):
    text = script('campaign', 'local', check='stream', repeats=3)
    (site / 'ci' / 'nightly').write_text(NIGHTLY)       # what is run is not the question here
    done = [bash(text, env={**os.environ, **extra}) for extra in ({'SECOND': '137'}, {'SECOND': '1'}, {})]
    assert [d.returncode for d in done] == [4, 1, 1], done[0].stderr
    repeats = re.findall(r'repeat=(\d)', (site / 'calls').read_text())
    assert repeats == ['1', '2', '3', '2'], 'infrastructure is tried again, a slow night is not'
    assert done[2].stdout.count('measured before') == 3


def test_what_slurm_says_of_the_job_does_not_reach_the_measurements(site):
    text = script('nightly', 'example-slurm')
    (site / 'ci' / 'nightly').write_text('#!/bin/bash\nenv >env; echo "$@"\n')
    done = bash(text, env={'PATH': os.environ['PATH'], 'SLURM_JOB_ID': '1', 'SLURM_CPU_BIND': 'none', 'SLURM_CONF': '/c'})
    assert done.stdout.split() == ['--system', 'example-slurm', '--time-limit', '7.83']
    assert re.findall(r'^SLURM_\w+', (site / 'env').read_text(), re.M) == ['SLURM_CONF']


# ---- what is refused

@pytest.mark.parametrize('value', HOSTILE)
@pytest.mark.parametrize('field', ['system', 'partitions', 'check', 'after', 'name'])
def test_a_hostile_argument_is_refused(site, field, value):
    with pytest.raises(UsageError):
        script(**{'job': 'campaign', 'system': 'local', field: [value] if field == 'partitions' else value})


@pytest.mark.parametrize('value', HOSTILE)
@pytest.mark.parametrize('key', ['queue', 'account', 'qos', 'reservation', 'time', 'memory', 'mail'])
def test_a_hostile_value_in_jobs_yaml_is_refused_with_its_line(site, key, value):
    states(site, 'example-slurm', yaml.safe_dump({'nightly': {key: {'to': value} if key == 'mail' else value}}))
    with pytest.raises(UsageError, match=r'example-slurm/jobs.yaml:[23]: nightly\.' + key):
        script('nightly', 'example-slurm')


def test_a_checkout_with_a_hostile_name_is_quoted(site, monkeypatch, tmp_path):
    hostile = tmp_path / "x';touch pwned;'"
    for name in ('systems', 'jobs', 'ci'):
        shutil.copytree(site / name, hostile / name)
    (hostile / 'ci' / 'nightly').write_text('#!/bin/bash\necho reached\n')
    monkeypatch.setenv('PARITY_ROOT', str(hostile))
    done = bash(script('nightly', 'example-pbs'), cwd=tmp_path)
    assert done.stdout == 'reached\n' and not list(tmp_path.rglob('pwned'))


@pytest.mark.parametrize('system, text, said', [
    ('example-slurm', 'build: {cores: 129}', '129 cores can never be had: a node has 128'),
    ('example-slurm', 'nightly: {memory: 300G}', 'memory 300G can never be had: a node has 240 GiB'),
    ('example-slurm', 'build: {gpus: 1}', '1 GPU can never be had: a node has 0'),
    ('example-slurm', 'build: {project: climate}', "project 'climate': only PBS has one; name an account"),
    ('example-pbs', 'nightly: {qos: high}', 'PBS has no QOS; name a queue'), ('example-pbs', 'build: {options: [-j oe]}', 'waits for both for ever'),
    ('example-pbs', "build: {options: ['-l walltime=1:00,select=2']}", 'PBS ignores a second select'),
    ('example-pbs', 'campaign: {requeue: false}', 'PBS takes an array of jobs only if they may be requeued'),
    ('example-pbs', 'nightly: {nodes: 4}', 'jobs.yaml:1: nightly.nodes: '), ('example-pbs', 'nightly: {time: 8}', 'jobs.yaml:1: nightly.time: '),
    ('example-pbs', 'nightly: {acount: x}', "did you mean 'account'?")])
def test_what_can_never_be_is_refused_with_the_reason(site, system, text, said):
    states(site, system, text)
    with pytest.raises(UsageError) as caught:
        script(text.partition(':')[0], system)
    assert said in str(caught.value) and str(site) in str(caught.value)


@pytest.mark.parametrize('job, given, said', [
    ('nighty', {}, 'valid: build, nightly, campaign, workload'), ('nightly', {'partitions': ['nosuch']}, "has no partition 'nosuch'; valid: cpu, "),
    ('nightly', {'partitions': ['cpu', 'gpu']}, 'only campaign takes several'), ('nightly', {'check': 'hpl'}, '--check is for workload and campaign'),
    ('build', {'repeats': 2}, '--repeats, --nodes and --name are for campaign'), ('workload', {}, 'which one?'),
    ('workload', {'check': 'hpl', 'after': '7'}, '--after is for build, nightly and campaign'), ('workload', {'check': 'nob'}, "no check 'nob'; valid: "),
    ('workload', {'check': 'npb'}, "npb is 8 cases; name one, for instance 'Npb %benchmark=bt'"),
    ('campaign', {'nodes': [65]}, '65 nodes can never be had: partition cpu has 64')])
def test_a_job_that_makes_no_sense_is_refused(site, job, given, said):
    with pytest.raises(ParityError) as caught:
        script(job, 'example-slurm', **given)
    assert said in str(caught.value)


def test_a_case_that_is_left_out_says_why(site):
    check = site / 'checks' / 'compute' / 'hpl' / 'hpl.py'
    check.write_text(check.read_text().replace("self.place_ranks()", "self.place_ranks(65, 65)"))
    with pytest.raises(UsageError, match=r'Hpl has no script on example-slurm:cpu: nodes: needs 65'):
        script('workload', 'example-slurm', partitions=['cpu'], check='hpl')


# ---- what a site says

SLURM = """
all: {account: ops, mail: {to: hpc@example.org, when: [end, fail]}}
nightly: {queue: service, qos: low, reservation: night, time: 3h30m, memory: 512M, options: ['--constraint=(a|b)&c']}
build: {gpus: 4, exclusive: false, cores: 16, requeue: false}
"""
PBS = """
all: {account: ops, project: climate, mail: {to: hpc@example.org, when: [begin, end, fail]}}
build: {gpus: 2, memory: 64G, time: 1d2h, reservation: R12, options: [arch=icelake, '-W umask=022']}
"""


@pytest.mark.parametrize('system, stated, wanted, lines', [
    ('example-slurm', SLURM, {'job': 'nightly'}, ['#SBATCH --partition=service', '#SBATCH --account=ops', '#SBATCH --qos=low', '#SBATCH --reservation=night',
        '#SBATCH --time=3:30:00', '#SBATCH --mem=512M', '#SBATCH --mail-user=hpc@example.org --mail-type=END,FAIL', '#SBATCH --constraint=(a|b)&c']),
    ('example-slurm', SLURM, {'job': 'build', 'partitions': ['gpu']}, ['#SBATCH --partition=gpu', '#SBATCH --gres=gpu:4', '#SBATCH --cpus-per-task=16',
        '#SBATCH --no-requeue', '#SBATCH --hint=nomultithread']),
    ('example-pbs', PBS, {'job': 'build', 'partitions': ['gpu'], 'after': '7[].server'}, [
        '#PBS -l select=1:ncpus=56:mem=64gb:ngpus=2:ngpus=4:ompthreads=1:arch=icelake', '#PBS -q R12', '#PBS -A ops', '#PBS -P climate', '#PBS -m bea',
        '#PBS -M hpc@example.org', '#PBS -l walltime=26:00:00', '#PBS -W umask=022', '#PBS -W depend=afterok:7[].server', '#PBS -l place=scatter:excl'])])
def test_a_site_states_what_its_jobs_ask_for(site, system, stated, wanted, lines):
    states(site, system, stated)
    text = script(system=system, **wanted)
    assert [line for line in lines if f'{line}\n' not in text] == []
    assert '--exclusive' not in text and text.count('--account') + text.count('place=') == 1, 'of two the first wins'


def test_a_pbs_partition_that_places_nothing_is_a_warning(site):
    file = site / 'systems' / 'example-pbs' / 'system.yaml'
    file.write_text(file.read_text().replace("-q workq, -A benchmark, '-l place=scatter:excl'", '-q workq, -A benchmark'))
    problem, = (found for part in systems.read('example-pbs').partitions for found in partitions.problems('example-pbs', part))
    line, = (number for number, text in enumerate(file.read_text().splitlines(), 1) if 'name: cpu' in text)
    told = f'{file}:{line}: partition cpu: access places nothing: PBS may put select=2:... on one host; {problem.fix}'
    assert (problem.word, str(problem)) == ('note', told)
    done = commands.parity('jobs', 'render', 'build', '--system', 'example-pbs', '--partition', 'cpu')
    assert f'parity: warning: {told}' in done.stderr and 'warning' not in done.stdout
    before_a_night = doctor.guards(systems.read('example-pbs'), Plan(system='example-pbs', cases=[], checks=[], problems=[]))
    assert told in map(str, before_a_night)


def test_a_site_overrides_a_template_and_extends_ours_and_is_told_what_is_wrong(site):
    own = site / 'systems' / 'local' / 'jobs' / 'nightly.sh.j2'
    own.parent.mkdir()
    own.write_text('{% include "parity/nightly.sh.j2" %}\n# and {{ "a b" | sh }}\n')
    assert re.search(r"exec ci/nightly.*# and 'a b'\n$", script('nightly', 'local'), re.S)
    for text, said in (('{{ "a b" }}', 'takes it only quoted'), ('{{ nosuch }}', "nightly.sh.j2:1: 'nosuch' is undefined"),
                       ('a\n{% if %}', 'nightly.sh.j2:2: '), ('{% include "nosuch" %}', 'nightly.sh.j2:1: no template nosuch; they are in ')):
        own.write_text(text)
        with pytest.raises(UsageError, match=said):
            script('nightly', 'local')


@pytest.mark.parametrize('arguments, said', [
    (('submit', 'nightly', '--system', 'local'), 'has no scheduler to submit to'),
    (('render', 'campaign', '--system', 'local', '--nodes', '1;2'), 'numbers of nodes'),
    (('wait', '7'), 'no job'), (('cancel', '$(id)'), 'no job')])
def test_the_command_refuses(results, arguments, said):
    done = commands.parity('jobs', *arguments)
    assert done.returncode == 2 and said in done.stderr and not (TOP / 'pwned').exists()
    assert commands.parity('jobs', 'list').stdout == 'no job was submitted from here\n'


def test_the_command_prints_a_script_wherever_it_is_called(results, tmp_path):
    done = run_python("import sys; from parity import cli; sys.argv[1:] = 'jobs render nightly --system local'.split(); cli.main()", tmp_path)
    assert done.stdout.startswith('#!/bin/bash'), done.stderr


def test_a_file_of_a_case_is_text_up_to_a_line_that_it_does_not_have(tmp_path):
    file = tmp_path / 'in'
    for content, text, end in ((b'a\nEND\nEND_\n', 'a\nEND\nEND_', 'END__'), (b'a\n', 'a', 'END'), (b'a', None, 'END'), (b'\xff\n', None, 'END')):
        file.write_bytes(content)
        staged = write._staged(file)
        assert (staged.text, staged.end, staged.executable) == (text, end, False)
    file.chmod(0o755)
    assert write._staged(file).executable


def test_of_two_jobs_of_one_number_the_newer_one_is_found(results):
    sent.folder().mkdir()
    for minute, server in ((1, 'old'), (2, 'new')):
        job = sent.Sent(id=f'7.{server}', scheduler='pbs', job='build', system='x', script='s', at=f'2026-11-29T12:0{minute}:00Z')
        (sent.folder() / f'{job.id}.json').write_text(job.model_dump_json())
    assert sent.find('7').id == '7.new' and sent.find('7.old').id == '7.old'
