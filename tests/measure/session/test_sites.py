"""Systems and their sites: errors name file, line and key; every check loads, dry-runs, and asks the scheduler for the right thing."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import reframe
import reframe.core.backends as backends
from reframe.core.config import load_config

import warm
from conftest import TOP
from parity.base.errors import UsageError
from parity.measure import machine
from parity.measure.session import assemble
from parity.site import systems
from parity.site.systems import Partition, System
from system_files import GOOD, example

#: What every job script of a system must ask for: whole nodes, in its own queue.
DIRECTIVES = {
    'example-slurm': (r'#SBATCH --nodes=(1|2|3|4|64)', r'#SBATCH --exclusive', r'#SBATCH --ntasks=\d+', r'#SBATCH --time=[14]:0:0',
                      r'#SBATCH --partition=(cpu|virtual|gpu)', r'#SBATCH --output=rfm_job.out'),
    'example-pbs': (r'#PBS -l select=(1|2|3|4|64):mpiprocs=\d+:ncpus=\d+(:ngpus=4)?:ompthreads=1', r'#PBS -l place=scatter:excl',
                    r'#PBS -l walltime=[14]:0:0', r'#PBS -q (workq|gpuq)'),
}
#: Systems that are this machine: dry-runs of `local` and plans of the examples stand for theirs on a push.
ONLY_HERE = ('onebox', 'onebox-pbs')
#: Absolute paths that a job script may hold; @CHECKOUT@ is the checkout's own.
PATHS = ('/bin/bash', '/proc/self/status', '/lustre/', '/gpfs/', '@CHECKOUT@/results/stage/', sys.executable)
GOLDEN = TOP / 'tests' / 'golden'
CASES = {'example-slurm': {'hpl': 'Hpl', 'pairs': 'PairsLatency%how=in-flight'},
         'example-pbs': {'ior-2': 'Ior%api=POSIX%access=single-shared-file%span=2'}}


def scripts(checkout, system: str) -> dict[Path, str]:
    """The job scripts that a dry-run left, with the checkout's folder taken out."""
    found = sorted((checkout / 'results' / 'stage' / system).rglob('rfm_job.sh'))
    return {file: file.read_text().replace(str(checkout), '@CHECKOUT@') for file in found}


def of_new_forms(written: dict[Path, str]) -> Iterator[Path]:
    """The scripts with a line that differs from all before in more than its words: shellcheck takes 20 ms for each."""
    known: set[str] = set()
    for file, text in written.items():
        forms = set(re.sub(r'[\w./%+:,@=-]+', 'x', text).splitlines())
        if forms - known:
            yield file
        known |= forms


def lint(files: list[Path]) -> None:
    """bash reads each of them, and shellcheck has nothing to say but of ReFrame's own bare `cd`."""
    subprocess.run(['bash', '-c', 'for f; do bash -n "$f" || exit; done', 'lint', *files], check=True)
    if not shutil.which('shellcheck'):
        pytest.skip('shellcheck is not here')
    done = subprocess.run(['shellcheck', '-e', 'SC1091,SC2164', *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:2000]


EVERY = [pytest.param(name, marks=pytest.mark.full if name in ONLY_HERE else ()) for name in systems.names()]


@pytest.mark.parametrize('system', EVERY)
def test_every_check_loads_and_dry_runs(rehearsed, planned, system):
    cases = [case for case in planned(system).cases if case.environ]
    printed = (rehearsed(system) / 'printed').read_text()
    ended = re.findall(rf'^\[ +(OK|SKIP) +\] .* @{system}:(\w+)\+', printed, re.M)
    ran = [partition for word, partition in ended if word == 'OK']
    assert Counter(partition for _, partition in ended) == Counter(case.partition for case in cases)
    assert f'Ran {len(ran)}/{len(ended)} test case(s) from {len({case.unique_name for case in cases})} check(s)' in printed
    written = scripts(rehearsed(system), system)
    assert len(written) == len(ran)
    for text in written.values() if system in DIRECTIVES else ():       # whole nodes, and no path of this machine
        for pattern in DIRECTIVES[system]:
            assert re.search(f'^{pattern}$', text, re.M), f'{pattern} is not in:\n{text}'
        for path in re.findall(r'(?:(?<=[\s=\'"!])/|@CHECKOUT@)\S+', text):
            assert path.startswith(PATHS), f'{path} in:\n{text}'
    lint(list(of_new_forms(written)))


@pytest.mark.parametrize('system', CASES)
def test_the_job_scripts_are_as_agreed(rehearsed, system):
    """Written anew with PARITY_GOLDEN=write; read the difference before it is committed."""
    checkout = rehearsed(system)
    named = dict(re.findall(rf'\] \( *\d+/\d+\) (.*) /(\w+) @{system}:cpu\+', (checkout / 'printed').read_text()))
    written = {file.parent.name: text for file, text in scripts(checkout, f'{system}/cpu').items()}
    for case, name in CASES[system].items():
        digest = named[name.replace('%', ' %')]
        text, = (text for folder, text in written.items() if folder == name or folder.endswith(f'_{digest}'))
        golden = GOLDEN / f'{system}-{case}.sh'
        if os.environ.get('PARITY_GOLDEN') == 'write':
            golden.write_text(text)
        assert text == golden.read_text()


@functools.cache
def declared() -> dict[str, bool]:
    """Every class of checks/ that is a check, as its file's text has it, and whether any partition will do."""
    found = {}
    for file in (TOP / 'checks').rglob('*.py'):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and 'rfm.simple_test' in map(ast.unparse, node.decorator_list):
                found[node.name] = 'partition_needs' not in ast.unparse(node)
    return found


@pytest.mark.parametrize('system', EVERY)
def test_the_plan_has_every_case_of_every_check_on_every_partition(planned, system):
    made = planned(system)
    assert made.system == system and not made.problems
    assert {check.check for check in made.checks} == set(declared())
    of_check = {check.check: math.prod(map(len, check.parameters.values())) for check in made.checks}
    assert all(of_check.values()) and all(case.metrics for case in made.cases)
    for partition in systems.read(system).partitions:
        there = Counter(case.check for case in made.cases if case.partition == partition.name)
        elsewhere = () if 'gpu' in partition.features else {c.check for c in made.checks if c.file.startswith('checks/gpu/')}
        assert there == {check: number for check, number in of_check.items()
                         if there[check] or declared()[check] and check not in elsewhere}


@pytest.mark.skipif(not shutil.which('mpirun'), reason='mpirun is absent')
def test_a_case_takes_the_network_that_it_is_asked_to(checkout):
    warm.reframe(checkout, '-c checks/network/pingpong --system onebox:physical -S network=slow --dry-run')
    text, = scripts(checkout, 'onebox').values()
    assert 'export OMPI_MCA_btl_tcp_if_include=eth1' in text
    before, after = (text.index(f'>network.{when} ') for when in ('before', 'after'))
    ended, last = text.index('parity_ended=$?'), text.index('(exit $((parity_ended')
    assert before < text.index('mpi4py.bench') < ended < after < last, 'counters that are read do not hide the exit code'


def test_a_hostile_value_reaches_the_job_script_quoted(checkout):
    data = example('partitions.0.descr', 'a;b')
    data['partitions'][0]['extras']['filesystems']['scratch'] = '/x;touch pwned'
    (checkout / 'systems' / 'example-slurm' / 'system.yaml').write_text(json.dumps(data))
    warm.reframe(checkout, "-c checks/ --system example-slurm:cpu -n 'FileCopy.*small-write.*one.*durable' --dry-run")
    file, = scripts(checkout, 'example-slurm')
    subprocess.run(['bash', '-c', 'module() { [ "$1" != load ] || export LOADEDMODULES+=":$2"; }; python3() { :; }; . ./rfm_job.sh'], cwd=file.parent, check=True)
    assert not (file.parent / 'pwned').exists()
    assert "=/x;touch pwned'" in file.read_text()


@pytest.mark.parametrize('path, value, said', [
    ('environments.1.name', 'gcc', "'gcc' is the name of two environments"), ('environments.1.name', 'spack', "'spack' is the name of two environments"),
    ('modules_system', 'nomod', 'nomod loads none of the modules'),
    ('partitions.0.environs', ['gc'], "partition cpu: unknown environment 'gc'; valid: spack, gcc, cuda"),
    ('partitions.2.extras.cores', None, 'partition gpu: extras: cores must be stated'),
])
def test_a_site_that_would_lose_cases_is_refused(results, path, value, said):
    with pytest.raises(UsageError, match='systems/example-slurm/system.yaml: ') as caught:
        assemble._parts(System.model_validate(example(path, value)))
    assert said in str(caught.value)


def environments(name: str) -> dict[str, dict]:
    return {e['name']: e for e in assemble._parts(systems.read(name)).environments}


def test_modules_offer_the_codes_that_the_site_states(results):
    gcc = environments('example-slurm')['gcc']
    assert gcc['features'] == ['npb', 'hpl', 'stream', 'osu', 'imb', 'ior', 'mdtest', 'hpcc', 'filecopy', 'fileset',
                               'pingpong', 'iperf3', 'fio', 'cc', 'mpi']
    assert gcc['target_systems'] == ['example-slurm'] and gcc['extras']['provider'] == 'modules'
    assert gcc['extras']['identities']['hpl'] != environments('example-pbs')['intel']['extras']['identities']['hpl']


def test_a_prefix_of_a_site_is_taken_as_stated_unless_this_machine_sees_it(results, tmp_path):
    def made(prefix):
        system = systems.read('example-slurm').model_copy(update={'environments': [
            systems.StatedEnvironment(name='mine', prefix=str(prefix), codes=['hpl', 'osu'])]})
        partitions = [p.model_copy(update={'environs': None}) for p in system.partitions]
        parts = assemble._parts(system.model_copy(update={'partitions': partitions}))
        built, = (e for e in parts.environments if e['name'] == 'mine')
        return built
    away = made('/nowhere/hpl-2.3')
    assert away['features'] == ['hpl', 'osu', 'mpi'] and away['env_vars'] == [['PATH', '/nowhere/hpl-2.3/bin:$PATH']]
    assert away['extras']['identities']['hpl'] != made('/nowhere/hpl-2.2')['extras']['identities']['hpl']
    program = tmp_path / 'bin' / 'xhpl'
    program.parent.mkdir()
    shutil.copy(shutil.which('true'), program)
    seen = made(tmp_path)
    assert seen['features'] == ['hpl', 'mpi'] and seen['extras']['software']['view'] == f'{tmp_path}/bin'
    assert f'prefix: {tmp_path} lacks libexec/osu-micro-benchmarks/mpi/pt2pt/osu_latency (osu)' in seen['extras']['software']['lacking']
    program.write_bytes(program.read_bytes() + b'\0')
    assert made(tmp_path)['extras']['identities']['hpl'] != seen['extras']['identities']['hpl']


def test_what_spack_has_built_for_a_site_is_offered(results):
    assert environments('example-slurm')['spack']['features'] == []
    bin_ = results / 'software' / 'example-slurm' / 'view' / 'bin'
    bin_.mkdir(parents=True)
    shutil.copy(shutil.which('true'), bin_ / 'xhpl')
    state = [(bin_ / 'xhpl').stat().st_size, (bin_ / 'xhpl').stat().st_mtime_ns]
    package = {'spec': 'hpl@2.3', 'version': '2.3', 'hash': 'a' * 32, 'namespace': 'parity', 'compiler': 'gcc 12.2.0',
               'mpi': 'openmpi 4.1.4', 'blas': 'openblas 0.3.21', 'target': 'zen3', 'parameters': {}, 'binaries': ['xhpl']}
    (bin_.parents[1] / 'manifest.json').write_text(json.dumps({
        'stamp': 's', 'view': str(bin_), 'packages': {'hpl': package}, 'files': {'xhpl': state}}))
    spack = environments('example-slurm')['spack']
    assert spack['features'] == ['hpl'] and spack['extras']['provider'] == 'spack'
    assert spack['extras']['software']['packages']['hpl']['hash'] == 'a' * 32
    assert 'blas' not in spack['extras']['software']
    assert 'OPENBLAS_CORETYPE' not in dict(spack['env_vars'])


def test_what_is_stated_wins_over_what_was_detected(results):
    here = machine.load(results / 'machine.json')
    limit = {'value': 5.0, 'unit': 'Gflop/s', 'source': 'data sheet'}
    stated = Partition(name='p', scheduler='local', launcher='mpirun', features=['fast'], extras={'cores': 1, 'limits': {'peak_flops': limit}})
    part = assemble._partition(systems.read('local'), stated, here, ['distro'], SimpleNamespace(announcement='software: none'))
    assert part['extras']['cores'] == 1 and part['extras']['memory_bytes'] == here.memory_bytes
    assert part['extras']['limits']['peak_flops'] == {**limit, 'certain': True}
    assert {'fast', 'cpu'} <= set(part['features']) and part['max_jobs'] == 1


def test_the_configuration_is_what_reframe_accepts(results, monkeypatch):
    """Where many jobs are in flight the scheduler is asked once a second."""
    monkeypatch.setenv('PARITY_ROOT', str(results))
    for name, jobs in (('one', 1), ('many', 50)):
        (results / 'systems' / name).mkdir(parents=True)
        (results / 'systems' / name / 'system.yaml').write_text(
            GOOD.replace('site', name).replace('launcher: srun', f'launcher: srun\n    max_jobs: {jobs}'))
    file = results / 'settings.py'
    file.write_text('from parity.measure.session import assemble\nsite_configuration = assemble.site_configuration()\n')
    for name, jobs, rate in (('one', 1, 10), ('many', 50, 1)):
        site = load_config('<builtin>', str(file))
        site.validate()
        site.select_subconfig(name, ignore_resolve_errors=True)
        assert (site.get('systems/0/partitions/0/max_jobs'), site.get('general/0/poll_rate_max')) == (jobs, rate)
        assert site.get('storage/0/enable') and site.get('storage/0/sqlite_db_file') == str(results / 'results.db')
        assert site.get('general/0/check_search_recursive')


def test_schedulers_and_launchers_are_those_of_reframe():
    for module in (*backends._scheduler_backend_modules, *backends._launcher_backend_modules):
        importlib.import_module(module)
    schedulers = {*backends._schedulers} | ({'pbspro'} if reframe.VERSION.startswith('4.9.') else set())     # new in 4.10
    assert (set(systems.SCHEDULERS), set(systems.LAUNCHERS)) == (schedulers, set(backends._launchers))
