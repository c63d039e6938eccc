"""Job scripts: the same description for Slurm, PBS and plain bash, and nothing in them that nobody quoted."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import commands
from conftest import PATIENCE, TOP, belong_to, copied
from parity import plan
from parity.base import errors, strict
from parity.base.errors import UsageError
from parity.check.workload import Workload
from parity.jobs import request, write
from parity.jobs.request import Settings
from parity.jobs.write import Wanted
from parity.outputs import filecopy
from parity.plan import of_command
from parity.scheduler import access
from parity.system import systems

GOLDEN = TOP / 'tests' / 'golden'
SITES = ('example-slurm', 'example-pbs', 'local')
#: One script of each job, for each scheduler.
SCRIPTS = {
    'build': {}, 'nightly': {'partitions': ['cpu'], 'after': '12'},
    'campaign': {'partitions': ['gpu', 'cpu'], 'repeats': 2, 'nodes': [1, 4], 'name': 'again'},
    'workload': {'partitions': ['cpu'], 'check': 'hpl'},
}
HOSTILE = ('x;touch pwned', '$(touch pwned)', '`touch pwned`', "a'b", 'a b', 'a\n#SBATCH --uid=0', '../x')


@pytest.fixture
def site(tmp_path, planned, monkeypatch):
    """A checkout of the test's own, at a path with a space, that parity takes for its root. Its plans were made before."""
    def restricted(arguments: list[str]) -> plan.Plan:
        system, _, partition = arguments[arguments.index('--system') + 1].partition(':')
        whole = planned(system)
        return whole.model_copy(update={'cases': [c for c in whole.cases if partition in ('', c.partition)]})

    checkout = copied(tmp_path, 'reframe')
    belong_to(checkout, monkeypatch)
    monkeypatch.setattr('parity.plan.of_command', restricted)
    monkeypatch.setenv('PARITY_ROOT', str(checkout))
    for name in write.CARRIED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv('RFM_CONFIG_FILES', str(checkout / 'reframe' / 'settings.py'))
    return checkout


def states(site: Path, system: str, text: str) -> None:
    (site / 'systems' / system / 'jobs.yaml').write_text(text)


def lint(file: Path) -> None:
    subprocess.run(['bash', '-n', file], check=True)
    if shutil.which('shellcheck'):
        done = subprocess.run(['shellcheck', file], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[:3000]


@pytest.mark.parametrize('system, job', list(itertools.product(('example-slurm', 'example-pbs'), SCRIPTS)))
def test_the_scripts_are_as_agreed(site, system, job):
    """Written anew with PARITY_GOLDEN=write; read the difference before it is committed."""
    _, text = write.script(Wanted(job, system, **SCRIPTS[job]))
    text = text.replace(str(site), '/a check out')
    golden = GOLDEN / f'{system}-job-{job}.sh'
    if os.environ.get('PARITY_GOLDEN') == 'write':
        golden.write_text(text)
    assert text == golden.read_text()
    lint(golden)


@pytest.mark.parametrize('system, job', list(itertools.product(SITES, ('build', 'nightly', 'campaign'))))
def test_every_system_renders_every_job(site, tmp_path, system, job):
    asked, text = write.script(Wanted(job, system))
    file = tmp_path / 'script.sh'
    file.write_text(text)
    lint(file)
    assert f"cd -- '{site}' || exit 4" in text, 'a checkout whose path has a space'
    assert len(asked.name) <= 15, 'PBS cuts the names of jobs'
    assert not any(line.startswith('#PBS -j') for line in text.splitlines())


def test_the_plan_of_a_partition_is_what_the_systems_plan_has_of_it(site, planned):
    asked = ['-c', str(site / 'checks'), '-r', '--system', 'example-slurm']
    part = of_command([*asked[:-1], 'example-slurm:gpu'])
    assert part == plan.of_command([*asked[:-1], 'example-slurm:gpu']) and part.cases
    assert part != plan.of_command(asked) == planned('example-slurm')


@pytest.mark.parametrize('system', ('example-slurm', 'example-pbs'))
def test_a_workload_asks_the_scheduler_for_what_its_check_asks(site, rehearsed, system):
    _, text = write.script(Wanted('workload', system, ['cpu'], 'hpl'))
    script, = (rehearsed(system) / 'results' / 'stage' / system / 'cpu').rglob('Hpl*/rfm_job.sh')
    own = re.compile(r'#SBATCH --(job-name|output|error)=|#PBS -[Noe] ')
    directives = [[li for li in t.splitlines() if re.match('#(SBATCH|PBS)', li) and not own.match(li)]
                  for t in (text, script.read_text())]
    assert directives[0] == directives[1] and len(directives[0]) > 3


def test_a_workload_runs_without_parity_and_gives_the_figures_of_its_check(site, tmp_path):
    _, text = write.script(Wanted('workload', 'local', check='FileCopy%mode=small-write%clients=one%sync=durable'))
    elsewhere = tmp_path / 'else where'
    elsewhere.mkdir()
    done = subprocess.run(['bash'], input=text, capture_output=True, text=True, cwd=elsewhere,
                          env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)}, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert filecopy.read(done.stdout)[0]['seconds'] > 0
    assert list(elsewhere.iterdir()) == [], 'it takes its folder away'
    assert 'import parity' not in text and 'rfm_' not in text


def test_no_script_for_others_names_the_checkout(results, tmp_path):
    done = subprocess.run([sys.executable, '-m', 'parity.jobs.standalone', '-c', str(TOP / 'checks'), '--system', 'local', '--stage',
                           f'{tmp_path}/stage', '--output', f'{tmp_path}/output', '--dry-run'], capture_output=True, text=True,
                          cwd=TOP, env={**os.environ, 'PARITY_REFRAME_LOG': f'{tmp_path}/log',
                                        'RFM_CONFIG_FILES': str(TOP / 'reframe' / 'settings.py')})
    scripts = {f.parent.name: f.read_text().replace(str(f.parent), '') for f in (tmp_path / 'stage').rglob('rfm_job.sh')}
    assert any(name.startswith('FileCopy') for name in scripts), done.stdout
    assert not [name for name, text in scripts.items() if str(TOP) in text or str(results) in text or sys.prefix in text]


def test_a_script_for_others_says_which_python_it_lacks():
    made = SimpleNamespace(standalone=True, prerun_cmds=[])
    assert Workload.python(made) == '"${PYTHON:-python3}"'
    for named, code in (('/no/python', 2), ('/bin/false', 2), ('/bin/true', 0)):
        done = subprocess.run(['bash', '-c', made.prerun_cmds[0]], capture_output=True, text=True, env={**os.environ, 'PYTHON': named})
        assert done.returncode == code and ('PYTHON: name a Python that has mpi4py' in done.stderr) == bool(code)


@pytest.mark.parametrize('name', HOSTILE[:-1])
def test_a_program_of_any_name_is_one_word_of_the_job_script(tmp_path, name):
    for view in ('', f'/{name}/bin'):
        made = SimpleNamespace(standalone=False, current_environ=SimpleNamespace(extras={'software': {'view': view}}))
        done = subprocess.run(['bash', '-c', f"printf '%s|' {Workload.program(made, name)}"], capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout == (f'{view}/{name}|' if view else f'{name}|')


def test_a_workload_that_is_submitted_takes_the_python_of_the_checkout(site):
    wanted = Wanted('workload', 'local', check='Pingpong%where=within')
    rendered, submitted = (write.script(replace(wanted, own=own))[1] for own in (False, True))
    named = re.search(r'^CODES=.*', submitted, re.M)[0]
    assert sys.executable not in rendered and 'PYTHON=' in named
    for given, python in ({}, sys.executable), ({'PYTHON': '/theirs'}, '/theirs'):
        done = subprocess.run(['bash', '-c', f'{named}\necho "$PYTHON"'], capture_output=True, text=True, env=given)
        assert done.stdout == f'{python}\n'


def test_a_workload_keeps_its_script_from_what_it_starts(site):
    """mpirun reads its standard input to the end: of a script that comes from a pipe nothing would be left."""
    _, text = write.script(Wanted('workload', 'example-slurm', check='stream%threads=all'))
    assert re.search(r'^\) </dev/null', text, re.M)


def test_steps_are_interleaved_and_each_second_repeat_turns_round():
    parts = systems.read('example-slurm').partitions[:2]
    steps = request.steps(parts, Settings(repeats=2, nodes=[1, 64]), False)
    assert [(s.partition, s.nodes, s.repeat) for s in steps] == [
        ('cpu', 1, 1), ('virtual', 1, 1), ('cpu', 64, 1), ('virtual', 64, 1),
        ('virtual', 1, 2), ('cpu', 1, 2), ('virtual', 64, 2), ('cpu', 64, 2)]
    assert {s.nodes for s in request.steps(parts, Settings(repeats=1), False)} == {1, 2, 4}
    assert {s.nodes for s in request.steps(parts, Settings(repeats=1), True)} == {1}


NIGHTLY = """#!/bin/bash
echo "$*" >>"$PWD/calls"
case "$*" in *repeat=2*) exit "${SECOND:-0}" ;; esac
"""


def test_a_campaign_goes_on_where_it_was_interrupted(site):
    _, text = write.script(Wanted('campaign', 'local', check='stream', repeats=3))
    (site / 'ci' / 'nightly').write_text(NIGHTLY)       # what is run is not the question here
    done = [subprocess.run(['bash'], input=text, text=True, capture_output=True, env={**os.environ, **extra})
            for extra in ({'SECOND': '137'}, {'SECOND': '1'}, {})]
    assert [d.returncode for d in done] == [4, 1, 1], done[0].stderr
    repeats = re.findall(r'repeat=(\d)', (site / 'calls').read_text())
    assert repeats == ['1', '2', '3', '2'], 'infrastructure is tried again, a slow night is not'
    assert done[2].stdout.count('measured before') == 3


def test_what_slurm_says_of_the_job_does_not_reach_the_measurements(site):
    _, text = write.script(Wanted('nightly', 'example-slurm'))
    (site / 'ci' / 'nightly').write_text('#!/bin/bash\nenv >env; echo "$@"\n')
    done = subprocess.run(['bash'], input=text, text=True, capture_output=True,
                          env={'PATH': os.environ['PATH'], 'SLURM_JOB_ID': '1', 'SLURM_CPU_BIND': 'none', 'SLURM_CONF': '/c'})
    assert done.stdout.split() == ['--system', 'example-slurm', '--time-limit', '7.83']
    assert re.findall(r'^SLURM_\w+', (site / 'env').read_text(), re.M) == ['SLURM_CONF']


# ---- what is refused

@pytest.mark.parametrize('value', HOSTILE)
@pytest.mark.parametrize('field', ['system', 'partitions', 'check', 'after', 'name'])
def test_a_hostile_argument_is_refused(site, field, value):
    asked = {'job': 'campaign', 'system': 'local'} | {field: [value] if field == 'partitions' else value}
    with pytest.raises(UsageError):
        write.script(Wanted(**asked))


@pytest.mark.parametrize('value', HOSTILE)
@pytest.mark.parametrize('key', ['queue', 'account', 'qos', 'reservation', 'time', 'memory', 'mail'])
def test_a_hostile_value_in_jobs_yaml_is_refused_with_its_line(site, key, value):
    import yaml
    stated = {'to': value} if key == 'mail' else value
    states(site, 'example-slurm', yaml.safe_dump({'nightly': {key: stated}}))
    with pytest.raises(UsageError, match=r'example-slurm/jobs.yaml:[23]: nightly\.' + key):
        write.script(Wanted('nightly', 'example-slurm'))


def test_a_checkout_with_a_hostile_name_is_quoted(site, monkeypatch, tmp_path):
    hostile = tmp_path / "x';touch pwned;'"
    shutil.copytree(site / 'systems', hostile / 'systems')
    shutil.copytree(site / 'jobs', hostile / 'jobs')
    (hostile / 'ci').mkdir()
    (hostile / 'ci' / 'nightly').write_text('#!/bin/bash\necho reached\n')
    (hostile / 'ci' / 'nightly').chmod(0o755)
    monkeypatch.setenv('PARITY_ROOT', str(hostile))
    _, text = write.script(Wanted('nightly', 'example-pbs'))
    done = subprocess.run(['bash'], input=text, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout == 'reached\n' and not list(tmp_path.rglob('pwned'))


@pytest.mark.parametrize('system, text, said', [
    ('example-slurm', 'build: {cores: 129}', '129 cores can never be had: a node has 128'),
    ('example-slurm', 'nightly: {memory: 300G}', 'memory 300G can never be had: a node has 240 GiB'),
    ('example-slurm', 'build: {gpus: 1}', '1 GPUs can never be had: a node has 0'),
    ('example-pbs', 'nightly: {qos: high}', 'PBS has no QOS; name a queue'),
    ('example-pbs', 'build: {options: [-j oe]}', 'makes ReFrame wait for ever'),
    ('example-pbs', 'campaign: {requeue: false}', 'PBS takes an array of jobs only if they may be requeued'),
    ('example-pbs', 'nightly: {nodes: 4}', r'jobs.yaml:1: nightly.nodes: '),
    ('example-pbs', 'nightly: {acount: x}', "did you mean 'account'?"),
    ('example-pbs', 'nightly: {time: 8}', r'jobs.yaml:1: nightly.time: '),
])
def test_what_can_never_be_is_refused_with_the_reason(site, system, text, said):
    states(site, system, text)
    with pytest.raises(UsageError) as caught:
        write.script(Wanted(text.partition(':')[0], system))
    assert said in str(caught.value) and str(site) in str(caught.value)


@pytest.mark.parametrize('wanted, said', [
    (Wanted('nighty', 'local'), 'valid: build, nightly, campaign, workload'),
    (Wanted('nightly', 'local', ['gpu']), "local has no partition 'gpu'; valid: default"),
    (Wanted('nightly', 'example-slurm', ['cpu', 'gpu']), 'only campaign takes several'),
    (Wanted('nightly', 'local', check='hpl'), '--check is for workload and campaign'),
    (Wanted('build', 'local', repeats=2), '--repeats is for campaign'),
    (Wanted('workload', 'local'), 'which one?'),
    (Wanted('workload', 'local', check='npb'), "npb is 8 cases; name one, for instance 'Npb %benchmark=bt'"),
    (Wanted('campaign', 'example-pbs', nodes=[65]), '65 nodes can never be had: partition cpu has 64'),
])
def test_a_job_that_makes_no_sense_is_refused(site, wanted, said):
    with pytest.raises(errors.ParityError) as caught:
        write.script(wanted)
    assert said in str(caught.value)


def test_a_case_that_is_left_out_says_why(site):
    with pytest.raises(UsageError, match=r'Hpl has no script on example-slurm:cpu: nodes: needs 65'):
        check = site / 'checks' / 'compute' / 'hpl.py'
        check.write_text(check.read_text().replace("self.place_ranks()", "self.place_ranks(65, 65)"))
        write.script(Wanted('workload', 'example-slurm', ['cpu'], 'hpl'))


# ---- what a site says

def test_a_site_states_what_its_jobs_ask_for(site):
    states(site, 'example-slurm', """
all: {account: ops, mail: {to: hpc@example.org, when: [end, fail]}}
nightly: {queue: service, qos: low, reservation: night, time: 3h30m, memory: 512M, options: ['--constraint=(a|b)&c']}
build: {gpus: 4, exclusive: false, cores: 16, requeue: false}
""")
    _, text = write.script(Wanted('nightly', 'example-slurm'))
    for line in ('--partition=service', '--account=ops', '--qos=low', '--reservation=night', '--time=3:30:00', '--mem=512M',
                 '--mail-user=hpc@example.org --mail-type=END,FAIL', '--constraint=(a|b)&c'):
        assert f'#SBATCH {line}\n' in text
    assert '--exclusive' not in text and text.count('--account') == 1
    _, text = write.script(Wanted('build', 'example-slurm', ['gpu']))
    for line in ('--partition=gpu', '--gres=gpu:4', '--cpus-per-task=16', '--no-requeue', '--hint=nomultithread'):
        assert f'#SBATCH {line}\n' in text


def test_the_same_description_on_pbs(site):
    states(site, 'example-pbs', """
all: {account: ops, mail: {to: hpc@example.org, when: [begin, end, fail]}}
build: {gpus: 2, memory: 64G, reservation: R12, options: [arch=icelake, '-W umask=022']}
""")
    _, text = write.script(Wanted('build', 'example-pbs', ['gpu'], after='7[].server'))
    for line in ('-l select=1:ncpus=56:mem=64gb:ngpus=2:ngpus=4:ompthreads=1:arch=icelake', '-q R12', '-A ops', '-M hpc@example.org',
                 '-m bea', '-W umask=022', '-W depend=afterok:7[].server', '-l place=scatter:excl'):
        assert f'#PBS {line}\n' in text
    assert text.count('place=') == 1, 'of two the first wins'


def test_a_project_is_one_of_pbs(site):
    states(site, 'example-pbs', 'all: {project: climate}\n')
    assert '#PBS -P climate\n' in write.script(Wanted('build', 'example-pbs', ['cpu']))[1]
    states(site, 'example-slurm', 'all: {project: climate}\n')
    with pytest.raises(UsageError, match="project 'climate': only PBS has one; name an account"):
        write.script(Wanted('build', 'example-slurm'))


@pytest.mark.parametrize('option', ['-l select=2:ncpus=4', '-lselect=2', '-l walltime=1:00,select=2'])
def test_a_second_select_is_refused_where_it_is_written(site, option):
    file = site / 'systems' / 'example-pbs' / 'system.yaml'
    text = file.read_text()
    line = next(n for n, each in enumerate(text.splitlines(), 1) if 'access: [-q workq' in each)
    file.write_text(text.replace('[-q workq,', f"[-q workq, '{option}',"))
    with pytest.raises(UsageError, match=rf'system.yaml:{line}: partitions.0.access: .*PBS ignores a second select'):
        systems.read('example-pbs')
    file.write_text(text)
    states(site, 'example-pbs', f"build: {{options: ['{option}']}}\n")
    with pytest.raises(UsageError, match='options: .*PBS ignores a second select'):
        write.script(Wanted('build', 'example-pbs', ['cpu']))


def test_a_pbs_partition_that_places_nothing_is_a_warning(site):
    from parity.base import traps
    assert not any(map(traps.one_host, systems.read('example-pbs').partitions))
    file = site / 'systems' / 'example-pbs' / 'system.yaml'
    file.write_text(file.read_text().replace("-q workq, -A benchmark, '-l place=scatter:excl'", '-q workq, -A benchmark'))
    said = [traps.one_host(part) for part in systems.read('example-pbs').partitions]
    assert said[0].startswith('partition cpu: access places nothing: PBS may put select=2:... on one host') and not any(said[1:])
    done = commands.parity('jobs', 'render', 'build', '--system', 'example-pbs', '--partition', 'cpu')
    assert done.returncode == 0 and f'parity: warning: {said[0]}' in done.stderr and 'warning' not in done.stdout


def test_a_site_overrides_a_template_and_extends_ours(site):
    own = site / 'systems' / 'local' / 'jobs'
    own.mkdir()
    (own / 'nightly.sh.j2').write_text('{% include "parity/nightly.sh.j2" %}\n# and {{ "a b" | sh }}\n')
    _, text = write.script(Wanted('nightly', 'local'))
    assert 'exec ci/nightly' in text and text.endswith("# and 'a b'\n")


@pytest.mark.parametrize('template, said', [
    ('{{ "a b" }}', 'takes it only quoted'), ('{{ nosuch }}', "'nosuch' is undefined"), ('a\n{% if %}', 'nightly.sh.j2:2: '),
    ('{% include "nosuch" %}', 'nosuch')])
def test_a_template_that_is_wrong_is_told(site, template, said):
    own = site / 'systems' / 'local' / 'jobs'
    own.mkdir()
    (own / 'nightly.sh.j2').write_text(template)
    with pytest.raises(UsageError) as caught:
        write.script(Wanted('nightly', 'local'))
    assert said in str(caught.value)


@pytest.mark.parametrize('scheduler, options, where, node', [
    ('slurm', ['-p cpu', '-Aops', '--qos=high', '--exclusive', '--mem=0'],
     {'queue': 'cpu', 'account': 'ops', 'qos': 'high'}, ['--mem=0']),
    ('slurm', ['--partition cpu', '--reservation=night'], {'queue': 'cpu', 'reservation': 'night'}, []),
    ('slurm', ['--account-not-ours=1', '--partitions'], {}, ['--account-not-ours=1', '--partitions']),
    ('pbs', ['-q workq', '-P climate', '-l place=scatter:excl', 'ngpus=4'], {'queue': 'workq', 'project': 'climate'}, ['ngpus=4']),
    ('plain', ['-q x'], {}, []),
])
def test_access_is_told_apart(scheduler, options, where, node):
    found = access.read(scheduler, options)
    assert (found.where, found.node) == (where, node)


@pytest.mark.parametrize('time, told', [('30m', 1800), ('8h', 28800), ('1d2h', 93600), ('90s', 90)])
def test_times(time, told):
    assert strict.seconds(time) == told


@pytest.mark.parametrize('time', ['', '8', 'h', '0h', '8:00:00', '-1h', '1h30'])
def test_what_is_no_time(time):
    with pytest.raises(ValueError):
        strict.seconds(time)


def test_walltime_as_the_schedulers_write_it():
    assert request.Request('x', 'slurm', 93784).walltime == '26:03:04'


def test_the_command_prints_a_script_wherever_it_is_called(tmp_path, results):
    done = subprocess.run([sys.executable, '-m', 'parity.cli', 'jobs', 'render', 'nightly', '--system', 'local'], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith('#!/bin/bash')
    assert commands.parity('jobs', 'list').stdout == 'no job was submitted from here\n'


@pytest.mark.parametrize('arguments, said', [
    (('render', 'nightly', '--system', 'local', '--partition', 'x;touch pwned'), 'valid: default'),
    (('submit', 'nightly', '--system', 'local'), 'has no scheduler to submit to'),
    (('render', 'campaign', '--system', 'local', '--nodes', '1;2'), 'numbers of nodes'),
    (('wait', '7'), 'no job'), (('cancel', '$(id)'), 'no job')])
def test_the_command_refuses(results, arguments, said):
    done = commands.parity('jobs', *arguments)
    assert done.returncode == 2 and said in done.stderr
    assert not (TOP / 'pwned').exists()
